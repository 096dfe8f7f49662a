"""Producers and workers against a real server whose clock the tests move."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

import pytest

from codeq import Codeq, CodeqError, Context, EnqueueManyError, Listeners, Permanent, RetryIn, Settings, TaskFailed
from codeq.testing import TestServer

Transport = Literal["auto", "streams", "http"]


@dataclass
class Greet:
    name: str


@dataclass
class Greeting:
    text: str


def test_a_task_goes_in_and_its_result_comes_out(codeq_server: TestServer) -> None:
    async def go(transport: Transport) -> None:
        app = Codeq(codeq_server.url, transport=transport)

        @app.task(name=f"greet-{transport}")
        async def greet(given: Greet) -> Greeting:
            return Greeting(f"hello {given.name}")

        async with app.worker():
            assert await greet.run(Greet("Ada")) == Greeting("hello Ada")
            runs = await greet.enqueue_many([Greet("Bo"), (Greet("Cy"), Settings(priority=9))])
            assert [(await run.result()).text for run in runs] == ["hello Bo", "hello Cy"]
        await app.close()

    for transport in ("auto", "streams", "http"):
        asyncio.run(go(transport))


def test_the_sync_twins_do_the_same_and_sync_handlers_run_side_by_side(codeq_server: TestServer) -> None:
    app = Codeq(codeq_server.url)
    together = threading.Barrier(3)

    @app.task
    def meet(number: int, context: Context) -> int:
        together.wait(30)
        return number * 2

    worker = app.worker(concurrency=3)
    started = threading.Event()
    loop = asyncio.new_event_loop()

    async def work() -> None:
        async with worker:
            started.set()
            await stop.wait()

    stop = asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=[work()])
    thread.start()
    assert started.wait(30)
    runs = meet.enqueue_many_sync([1, 2, 3])
    assert [run.result_sync("30s") for run in runs] == [2, 4, 6]
    assert runs[0].status_sync()["status"] == "COMPLETED"
    with pytest.raises(CodeqError) as raised:
        runs[0].cancel_sync()
    assert raised.value.code == "has_ended"
    loop.call_soon_threadsafe(stop.set)
    thread.join()
    loop.close()
    app.close_sync()


async def _delayed(server: TestServer) -> None:
    app = Codeq(server.url)

    @app.task
    async def remind() -> str:
        return "now"

    async with app.worker():
        run = await remind.enqueue(None, delay=3600.5)
        await server.advance("59m")
        assert (await run.status())["status"] == "PENDING"
        await server.advance("60500ms")
        assert await run.result("30s") == "now"
    await app.close()


def test_an_hour_passes_at_once(codeq_server: TestServer) -> None:
    before = codeq_server.now
    asyncio.run(_delayed(codeq_server))
    assert (codeq_server.now - before).total_seconds() == 3600.5


async def _late(server: TestServer) -> None:
    app = Codeq(server.url)
    nobody = app.define("nobody", str, str)
    await nobody.enqueue("Bo")
    with pytest.raises(CodeqError) as raised:
        await nobody.run("Ada", timeout="500ms")
    assert raised.value.code == "timeout"
    await app.close()


def test_run_waits_for_the_result_as_long_as_it_is_told(codeq_server: TestServer) -> None:
    asyncio.run(_late(codeq_server))


async def _schedules(server: TestServer, transport: Transport) -> None:
    app = Codeq(server.url, transport=transport)
    fired: list[datetime] = []

    @app.task(name=f"digest-{transport}")
    async def digest(customer: str, context: Context) -> str:
        assert context.schedule is not None
        fired.append(context.schedule.scheduled_for)
        if context.attempt == 1:
            raise RetryIn("1s", "not yet")
        return customer

    name = f"digest-{transport}:acme"
    start = server.now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    put = await app.schedules.put(
        name,
        digest,
        "acme",
        every="1h",
        start=start,
        until=start + timedelta(minutes=90),
        within="10m",
        grace="5s",
        skip=["2026-12-25"],
        lane="acme",
        tags=["daily"],
    )
    assert {key: put[key] for key in ("every", "graceSeconds", "except", "lane", "tags")} == {
        "every": "1h",
        "graceSeconds": 5,
        "except": ["2026-12-25"],
        "lane": "acme",
        "tags": ["daily"],
    }
    assert [each["id"] async for each in app.schedules.list("digest-")] == [name]
    settled = asyncio.Event()
    loop = asyncio.get_running_loop()
    listeners = Listeners(settled=lambda *_: loop.call_soon_threadsafe(settled.set))
    async with app.worker(listeners=listeners):
        for step in (start - server.now, timedelta(seconds=2)):
            await server.advance(step)
            await settled.wait()
            settled.clear()
        assert fired == [start, start]
        task_id = await app.schedules.run_now(name)
        await settled.wait()
        await server.advance("2s")
        assert await digest.of(task_id).result("30s") == "acme"
    await app.schedules.delete(name)
    await app.close()


def test_a_schedule_creates_tasks_that_know_their_instant(codeq_server: TestServer) -> None:
    for transport in ("streams", "http"):
        asyncio.run(_schedules(codeq_server, transport))
    app = Codeq(codeq_server.url)
    task = app.define("any", str, str)
    put = app.schedules.put_sync("sync", task, "all", cron="0 9 * * *", tz="Europe/Paris")
    assert app.schedules.pause_sync("sync", "a move")["paused"]["reason"] == "a move"
    assert "paused" not in app.schedules.resume_sync("sync")
    assert app.schedules.get_sync("sync")["version"] == put["version"]
    assert [each["id"] for each in app.schedules.list_sync()] == ["sync"]
    assert app.schedules.run_now_sync("sync") != ""
    app.schedules.delete_sync("sync")
    with pytest.raises(CodeqError) as unknown:
        app.schedules.get_sync("sync")
    assert unknown.value.code == "schedule_not_found"
    with pytest.raises(TypeError, match=r"a schedule has no option crn; the options are .*cron"):
        app.schedules.put_sync("sync", task, "all", crn="0 9 * * *")  # type: ignore[call-arg]
    app.close_sync()


async def _retries(server: TestServer) -> None:
    app = Codeq(server.url)
    tried: list[int] = []
    failed, loop = asyncio.Event(), asyncio.get_running_loop()
    listeners = Listeners(settled=lambda context, how: how == "retry" and loop.call_soon_threadsafe(failed.set))

    @app.task(max_attempts=3)
    async def flaky(how: str, context: Context) -> str:
        tried.append(context.attempt)
        if how == "permanent":
            raise Permanent("not an image")
        if context.attempt == 1:
            raise RetryIn("10m", "later")
        return "done"

    async with app.worker(listeners=listeners):
        with pytest.raises(TaskFailed, match="not an image") as raised:
            await flaky.run("permanent")
        assert (raised.value.reason, raised.value.attempts) == ("not an image", 1)
        run = await flaky.enqueue("retry")
        await failed.wait()
        await server.advance("10m")
        assert await run.result("30s") == "done"
    assert tried == [1, 1, 2]
    await app.close()


def test_errors_decide_about_the_next_attempt(codeq_server: TestServer, caplog: pytest.LogCaptureFixture) -> None:
    asyncio.run(_retries(codeq_server))
    records = [record for record in caplog.records if record.getMessage().startswith("task ")]
    assert [(record.getMessage().split(" ", 2)[2], record.exc_info) for record in records] == [
        ("(flaky) failed in attempt 1 of 3: not an image", None),
        ("(flaky) failed in attempt 1 of 3: later", None),
    ]


async def _stacks(server: TestServer, transport: Transport) -> None:
    app = Codeq(server.url, transport=transport)

    def connect(host: str) -> None:
        raise OSError(f"no route to {host}")

    @app.task(name=f"send-{transport}", max_attempts=1)
    async def send(how: str) -> str:
        try:
            connect("mail")
        except OSError as error:
            wrong = Permanent("not sent") if how == "permanent" else ValueError("not sent")
            raise wrong from error
        return how

    async def stack_of(how: str) -> str | None:
        run = await send.enqueue(how)
        with pytest.raises(TaskFailed, match="not sent"):
            await run.result("30s")
        stack: str | None = (await run.status())["attemptHistory"][-1].get("stack")
        return stack

    frame = r"    at send \(.*test_server\.py:\d+\)\n"
    cause = r"caused by: OSError: no route to mail\n    at connect \(.*\n    at send \("
    async with app.worker():
        for how in ("permanent", "error"):
            stack = await stack_of(how)
            assert stack is not None
            assert re.match(frame + cause, stack), stack
            assert "worker.py" not in stack
    async with app.worker(stacks=False):
        assert await stack_of("error") is None
    await app.close()


def test_the_server_keeps_where_a_handler_failed_with_causes(codeq_server: TestServer) -> None:
    for transport in ("streams", "http"):
        asyncio.run(_stacks(codeq_server, transport))


async def _blocked(server: TestServer) -> None:
    app = Codeq(server.url)

    @app.task(lease="1s")
    async def busy(seconds: float, context: Context) -> int:
        time.sleep(seconds)  # noqa: ASYNC251 it blocks the loop on purpose
        return context.attempt

    async with app.worker():
        run = await busy.enqueue(2.5)
        # Half a second of the server for every half of the machine, so that leases count.
        moving = threading.Thread(target=_move, args=[server, 5])
        moving.start()
        assert await run.result("30s") == 1
        moving.join()
    await app.close()


def _move(server: TestServer, halves: int) -> None:
    for _ in range(halves):
        time.sleep(0.5)
        server.advance_sync("500ms")


def test_a_handler_that_blocks_the_loop_keeps_its_lease(codeq_server: TestServer) -> None:
    asyncio.run(_blocked(codeq_server))


async def _refusals(server: TestServer) -> None:
    app = Codeq(server.url)
    greet = app.define("greet", Greet, Greeting)
    with pytest.raises(CodeqError) as raised:
        await greet.enqueue(Greet(7))  # type: ignore[arg-type]
    assert raised.value.code == "invalid_input"
    with pytest.raises(EnqueueManyError) as many:
        await greet.enqueue_many([Greet("Ada"), Greet(7)])  # type: ignore[arg-type]
    assert [isinstance(each, CodeqError) for each in many.value.outcomes] == [False, True]
    with pytest.raises(CodeqError) as raised:
        await (await greet.enqueue(Greet("Bo"))).result("100ms")
    assert raised.value.code == "timeout"
    stranger = Codeq(server.url, "wrong")
    with pytest.raises(CodeqError) as raised:
        await stranger.define("greet", Greet, Greeting).enqueue(Greet("Ada"))
    assert raised.value.code == "invalid_token"
    worker = stranger.worker([_echo(stranger)])
    with pytest.raises(CodeqError) as raised:
        await worker.run()
    assert raised.value.code == "invalid_token"
    await app.close()
    await stranger.close()


def _echo(app: Codeq):  # type: ignore[no-untyped-def]
    @app.task
    async def echo(given: Greet) -> Greet:
        return given

    return echo


def test_what_is_refused_says_so(codeq_server: TestServer) -> None:
    asyncio.run(_refusals(codeq_server))


async def _traced(server: TestServer) -> None:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from codeq.opentelemetry import OpenTelemetry

    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    trace.set_tracer_provider(provider)
    app = Codeq(server.url, tracing=OpenTelemetry())
    greet = _echo(app)
    async with app.worker():
        await greet.run(Greet("Ada"))
    await app.close()
    enqueued, handled = sorted(spans.get_finished_spans(), key=lambda span: span.name)
    assert (enqueued.name, handled.name) == ("enqueue echo", "handle echo")
    assert handled.context is not None
    assert enqueued.context is not None
    assert handled.context.trace_id == enqueued.context.trace_id
    assert handled.parent is not None
    assert handled.parent.span_id == enqueued.context.span_id


def test_the_spans_of_producer_and_worker_are_one_trace(codeq_server: TestServer) -> None:
    asyncio.run(_traced(codeq_server))


PROGRAM = """
from codeq import Codeq
app = Codeq()

@app.task
async def greet(name: str) -> str:
    return f"hello {name}"
"""


def test_the_command_works_until_it_is_asked_to_stop(codeq_server: TestServer, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(PROGRAM)
    env = {**os.environ, "CODEQ_URL": codeq_server.url}
    command = [sys.executable, "-m", "codeq", "worker", "shop:app"]
    with subprocess.Popen(command, cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True) as worker:
        app = Codeq(codeq_server.url)
        assert app.define("greet", str, str).enqueue_sync("Ada").result_sync("60s") == "hello Ada"
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(30) == 0
        app.close_sync()
    wrong = subprocess.run([*command[:-1], "shop:nothing"], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert (wrong.returncode, wrong.stderr.startswith("codeq: ")) == (2, True)


class _LoopOfWindows(asyncio.SelectorEventLoop):
    def add_signal_handler(self, sig: int, callback: object, *args: object) -> None:
        raise NotImplementedError


def test_a_worker_ends_on_a_signal_where_loops_have_none(codeq_server: TestServer) -> None:
    app = Codeq(codeq_server.url)

    @app.task
    async def stop(name: str) -> str:
        os.kill(os.getpid(), signal.SIGTERM)
        return name

    run = stop.enqueue_sync("Ada")
    before = signal.getsignal(signal.SIGTERM)
    loop = _LoopOfWindows()
    loop.run_until_complete(app.worker().run())
    loop.close()
    assert run.result_sync("30s") == "Ada"
    assert signal.getsignal(signal.SIGTERM) is before
    app.close_sync()


def test_the_callback_of_a_batch_reads_the_results_of_its_members(codeq_server: TestServer) -> None:
    async def go(transport: Transport) -> None:
        app = Codeq(codeq_server.url, transport=transport)

        @app.task(name=f"half-{transport}")
        async def half(number: int, ctx: Context) -> float:
            assert ctx.batch is not None
            assert ctx.batch.ended is None
            if number > 1:
                await ctx.batch.add(half, number // 2, idempotency_key=f"{ctx.id}:half")
            else:
                await ctx.batch.seal()
            if number == 3:
                raise Permanent("odd")
            return number / 2

        @app.task(name=f"total-{transport}")
        async def total(of: str, ctx: Context) -> tuple[str, float, int, int]:
            batch = ctx.batch
            assert batch is not None
            assert batch.ended is not None
            failed = [member["error"] async for member in batch.results(failed=True)]
            found = sum(
                [float(member["result"]) async for member in batch.results() if member["status"] == "COMPLETED"]
            )
            assert len(failed) == batch.ended.failed
            return of, found, batch.ended.succeeded, batch.ended.failed

        async with app.worker():
            open_batch = await app.batch(total, "open", on="end", open_for="1h")
            await open_batch.add_many(half, [3])
            assert await open_batch.callback.result("30s") == ("open", 0.5, 1, 1)
            assert (await open_batch.progress())["phase"] == "released"

        before = await half.enqueue(1)
        later = await half.enqueue(1, after=[before])
        assert (await later.status())["lastKnownLocation"] == "HELD_SET"
        again = [await app.batch(total, "named", [(half, 1), (half, 2)], id=f"b-{transport}") for _ in range(2)]
        progress = await again[1].progress()
        assert (progress["phase"], progress["total"]) == ("sealed", 2)
        assert (await app.batch_by_id(f"b-{transport}").cancel())["phase"] == "cancelled"
        with pytest.raises(CodeqError) as refused:
            await again[0].add(half, 4)
        assert refused.value.code == "batch_sealed"
        with pytest.raises(CodeqError) as unknown:
            await app.batch_by_id("unknown").seal()
        assert unknown.value.code == "batch_not_found"
        await app.close()

    for transport in ("streams", "http"):
        asyncio.run(go(transport))


def test_a_batch_without_a_name_is_cancelled_when_a_member_is_refused(codeq_server: TestServer) -> None:
    app = Codeq(codeq_server.url)
    step = app.define("step", str, str)
    done = app.define("done", str, str)
    with pytest.raises(CodeqError) as refused:
        app.batch_sync(done, "x", [(step, "small"), (step, "x" * 3_000_000)])
    assert refused.value.code == "payload_too_large"
    batch = app.batch_sync(done, "y")
    batch.add_sync(step, "one")
    assert batch.seal_sync()["pending"] == 1
    assert [member["status"] for member in batch.results_sync()] == ["PENDING"]
    assert batch.cancel_sync()["phase"] == "cancelled"
    app.close_sync()
