"""
A producer or a worker of one library, started by clients-bench.ts: `load.py <library> produce|work <options>`. A
producer enqueues for a number of seconds, says how far it came, and ends; a worker works until it is stopped.
"""

import asyncio
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable

LIBRARY, ROLE = sys.argv[1:3]
OPTIONS = json.loads(sys.argv[3])
PORT: int = OPTIONS["port"]
PAYLOAD = {"at": "0" * 14, "data": "x" * 68}


class Meter:
    """Counts what was acknowledged until the time is over."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left: int = OPTIONS["tasks"]
        self._cpu = time.process_time()
        self._began = time.monotonic()
        self.count = 0

    def more(self) -> bool:
        with self._lock:
            self._left -= 1
            return self._left >= 0 and time.monotonic() - self._began < OPTIONS["seconds"]

    def added(self) -> None:
        with self._lock:
            self.count += 1

    def report(self) -> None:
        seconds = time.monotonic() - self._began
        cpu = time.process_time() - self._cpu
        sys.stdout.write(json.dumps({"tasks": self.count, "seconds": seconds, "cpuSeconds": cpu}) + "\n")


def produce_in_threads(enqueue: Callable[[], object]) -> None:
    enqueue()
    meter = Meter()

    def run() -> None:
        while meter.more():
            enqueue()
            meter.added()

    threads = [threading.Thread(target=run) for _ in range(OPTIONS["producers"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    meter.report()


async def produce_in_loop(enqueue: Callable[[], Awaitable[object]]) -> None:
    await enqueue()
    meter = Meter()

    async def run() -> None:
        while meter.more():
            await enqueue()
            meter.added()

    await asyncio.gather(*[run() for _ in range(OPTIONS["producers"])])
    meter.report()


def codeq(is_async: bool) -> None:
    from codeq import Codeq

    app = Codeq(f"http://127.0.0.1:{PORT}")

    async def in_loop(given: dict[str, str]) -> dict[str, bool]:
        return {"ok": given is not None}

    def in_thread(given: dict[str, str]) -> dict[str, bool]:
        return {"ok": given is not None}

    bench = app.task(name="bench")(in_loop) if is_async else app.task(name="bench")(in_thread)
    if ROLE == "work":
        app.worker(concurrency=OPTIONS["concurrency"]).run_sync()
    elif is_async:
        asyncio.run(produce_in_loop(lambda: bench.enqueue(PAYLOAD)))
    else:
        produce_in_threads(lambda: bench.enqueue_sync(PAYLOAD))


def celery(pool: str, concurrency: int) -> None:
    from celery import Celery

    redis = f"redis://127.0.0.1:{PORT}/0"
    app = Celery("bench", broker=redis, backend=redis)
    # As with a lease: a task whose worker dies is not lost.
    app.conf.update(task_acks_late=True)

    @app.task(name="bench")
    def bench(given: dict[str, str]) -> dict[str, bool]:
        return {"ok": given is not None}

    if ROLE == "work":
        app.worker_main(["worker", f"--pool={pool}", f"--concurrency={concurrency}", "--loglevel=ERROR"])
    else:
        produce_in_threads(lambda: bench.delay(PAYLOAD))


def rq_job(given: dict[str, str]) -> dict[str, bool]:
    return {"ok": given is not None}


def rq_worker() -> None:
    from redis import Redis
    from rq import Queue, SimpleWorker

    connection = Redis(port=PORT)
    SimpleWorker([Queue("bench", connection=connection)], connection=connection).work(logging_level="ERROR")


def rq(processes: int) -> None:
    from redis import Redis
    from rq import Queue

    if ROLE == "produce":
        queue = Queue("bench", connection=Redis(port=PORT))
        produce_in_threads(lambda: queue.enqueue("load.rq_job", PAYLOAD))
        return
    workers = [multiprocessing.Process(target=rq_worker) for _ in range(processes)]
    for worker in workers:
        worker.start()

    def stop(*_: object) -> None:
        for worker in workers:
            worker.kill()

    signal.signal(signal.SIGTERM, stop)
    for worker in workers:
        worker.join()


def main() -> None:
    cpus = os.cpu_count() or 1
    libraries: dict[str, Callable[[], None]] = {
        "codeq-async": lambda: codeq(is_async=True),
        "codeq-threads": lambda: codeq(is_async=False),
        "celery": lambda: celery("prefork", cpus),
        "celery-threads": lambda: celery("threads", OPTIONS["concurrency"]),
        "rq": lambda: rq(cpus),
    }
    libraries[LIBRARY]()


if __name__ == "__main__":
    main()
