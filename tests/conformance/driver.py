"""The driver of the Python client. README.md has the protocol."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import threading
import time
from dataclasses import asdict
from typing import Any

from codeq import (
    Codeq,
    CodeqError,
    Context,
    Listeners,
    Permanent,
    RateLimited,
    RetryIn,
    Settings,
    TaskFailed,
    Unique,
    Worker,
)

logging.disable(logging.CRITICAL)
_writing = threading.Lock()


def say(**line: Any) -> None:
    with _writing:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


class Client:
    def __init__(self, app: Codeq) -> None:
        self.app = app
        self.workers: dict[str, Worker] = {}
        self.running: dict[tuple[str, str], tuple[Context, asyncio.Future[dict[str, Any]]]] = {}


clients: dict[str, Client] = {}


def settings_of(options: dict[str, Any] | None) -> dict[str, Any]:
    names = {
        "delaySeconds": "delay",
        "priority": "priority",
        "maxAttempts": "max_attempts",
        "idempotencyKey": "idempotency_key",
        "idempotencyMode": "idempotency_mode",
        "unique": "unique",
        "lane": "lane",
        "cost": "cost",
        "executionTimeoutSeconds": "execution_timeout",
        "ttlSeconds": "ttl",
        "tags": "tags",
        "batch": "batch",
        "after": "after",
        "timeoutSeconds": "timeout",
    }
    settings = {names[key]: value for key, value in (options or {}).items()}
    if "unique" in settings:
        settings["unique"] = unique_of(**settings["unique"])
    return settings


def unique_of(key: str, **more: Any) -> Unique:
    names = {"while": "until", "on": "on", "forSeconds": "hold", "maxWaitSeconds": "max_wait"}
    return Unique(key, **{names[name]: value for name, value in more.items()})


def task_of(client: Client, queue: str) -> Any:
    return client.app.define(queue, Any, Any)  # type: ignore[arg-type]


async def do_open(command: dict[str, Any]) -> dict[str, Any]:
    before = clients.get(command["client"])
    if before is not None:
        await before.app.close()
    app = Codeq(command["url"], command["token"], transport=command["transport"], streams=command.get("streams"))
    clients[command["client"]] = Client(app)
    return {}


async def do_enqueue(command: dict[str, Any]) -> dict[str, Any]:
    task = task_of(clients[command["client"]], command["queue"])
    run = await task.enqueue(command.get("input"), **settings_of(command.get("options")))
    return {"id": run.id}


async def do_enqueue_many(command: dict[str, Any]) -> dict[str, Any]:
    task = task_of(clients[command["client"]], command["queue"])
    items = [(item.get("input"), Settings(**settings_of(item.get("options")))) for item in command["items"]]
    return {"ids": [run.id for run in await task.enqueue_many(items)]}


async def do_by_key(command: dict[str, Any]) -> dict[str, Any]:
    task = task_of(clients[command["client"]], command["queue"])
    return {"id": (await task.by_key(command["key"])).id}


async def do_result(command: dict[str, Any]) -> dict[str, Any]:
    task = task_of(clients[command["client"]], command["queue"])
    return {"output": await task.of(command["task"]).result(command.get("timeoutSeconds"))}


async def do_cancel(command: dict[str, Any]) -> dict[str, Any]:
    task = task_of(clients[command["client"]], "any")
    await task.of(command["task"]).cancel(command.get("graceSeconds"))
    return {}


async def do_batch(command: dict[str, Any]) -> dict[str, Any]:
    client = clients[command["client"]]
    batch = await client.app.batch(
        task_of(client, command["queue"]),
        command.get("input"),
        id=command["batch"],
        on=command.get("on", "success"),
        fail_fast=command.get("failFast", False),
    )
    return {"id": batch.callback.id}


async def do_batch_ask(command: dict[str, Any]) -> dict[str, Any]:
    batch = clients[command["client"]].app.batch_by_id(command["batch"])
    found: dict[str, Any] = await getattr(batch, command["ask"])()
    return found


async def do_batch_results(command: dict[str, Any]) -> dict[str, Any]:
    batch = clients[command["client"]].app.batch_by_id(command["batch"])
    names = {"taskId": "task", "status": "status", "result": "output", "error": "error"}
    members = [
        {names[key]: value for key, value in member.items() if key in names}
        async for member in batch.results(failed=command.get("failed", False))
    ]
    return {"members": members}


async def do_schedule(command: dict[str, Any]) -> dict[str, Any]:
    client = clients[command["client"]]
    task = task_of(client, command["queue"])
    times = command["times"]
    return shown(await client.app.schedules.put(command["schedule"], task, command.get("input"), **times))


async def do_schedule_ask(command: dict[str, Any]) -> dict[str, Any]:
    schedules, name = clients[command["client"]].app.schedules, command["schedule"]
    if command["ask"] == "run":
        return {"task": await schedules.run_now(name)}
    if command["ask"] == "delete":
        await schedules.delete(name)
        return {}
    return shown(await getattr(schedules, command["ask"])(name))


async def do_schedules(command: dict[str, Any]) -> dict[str, Any]:
    schedules = clients[command["client"]].app.schedules
    return {"ids": [each["id"] async for each in schedules.list(command["prefix"])]}


def shown(schedule: dict[str, Any]) -> dict[str, Any]:
    facts = {name: schedule[name] for name in ("id", "version", "fired")}
    return {**facts, "hasNext": "nextAt" in schedule, "isPaused": "paused" in schedule}


async def do_worker(command: dict[str, Any]) -> dict[str, Any]:
    client = clients[command["client"]]
    name = command["worker"]
    about = {"client": command["client"], "worker": name}
    is_echo, is_stubborn = command.get("echo") is True, command.get("stubborn") is True

    async def handle(given: Any, context: Context) -> Any:
        if is_echo:
            return given
        end: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        client.running[name, context.id] = (context, end)
        say(
            event="started",
            **about,
            task=context.id,
            queue=context.task,
            attempt=context.attempt,
            maxAttempts=context.max_attempts,
            priority=context.priority,
            tags=list(context.tags),
            fencingToken=context.fencing_token,
            lane=context.lane,
            cost=context.cost,
            input=given,
            **parts_of(context),
        )
        while True:
            try:
                return await outcome(context, end)
            except asyncio.CancelledError:
                reason = context.stop_reason
                code = reason.code if reason is not None else "cancelled"
                say(event="told", **about, task=context.id, attempt=context.attempt, code=code)
                if not is_stubborn:
                    raise

    async def outcome(context: Context, end: asyncio.Future[dict[str, Any]]) -> Any:
        while True:
            how = await asyncio.shield(end)
            if "block" not in how:
                break
            client.running[name, context.id] = (context, end := asyncio.get_running_loop().create_future())
            # Blocks the loop on purpose.
            time.sleep(how["block"])  # noqa: ASYNC251
            say(id=how["id"], ok={})
        if "used" in how:
            context.used(how["used"])
        if "hold" in how:
            raise RateLimited(how["hold"], how["error"])
        if "retryIn" in how:
            raise RetryIn(how["retryIn"], how["error"])
        if "permanent" in how:
            raise Permanent(how["permanent"])
        if "error" in how:
            raise RuntimeError(how["error"])
        return how.get("output")

    options = {"lease": command.get("leaseSeconds", 60), "timeout": command.get("timeoutSeconds")}
    app = client.app
    tasks = []
    for queue in command["queues"]:
        app.tasks.pop(queue.lower(), None)
        tasks.append(app.task(name=queue, **options)(handle))

    def settled(context: Context, how: str) -> None:
        if not is_echo:
            say(event="settled", **about, task=context.id, attempt=context.attempt, **{"as": how})

    listeners = Listeners(
        settled=settled,
        refused=lambda error: say(event="refused", **about, task=error.task_id, code=error.code),
        stopped=lambda error: say(event="stopped", **about, code=error.code),
    )
    worker = app.worker(
        tasks,
        concurrency=command.get("concurrency", 10),
        name=f"{command['client']}-{name}",
        listeners=listeners,
    )
    client.workers[name] = worker
    await worker.start()
    return {}


def parts_of(context: Context) -> dict[str, Any]:
    parts: dict[str, Any] = {}
    if (schedule := context.schedule) is not None:
        parts["schedule"] = {"id": schedule.schedule_id, "forMs": round(schedule.scheduled_for.timestamp() * 1000)}
    if (batch := context.batch) is not None:
        parts["batch"] = {"id": batch.id, **({} if batch.ended is None else {"ended": asdict(batch.ended)})}
    return parts


def running_of(command: dict[str, Any]) -> tuple[Context, asyncio.Future[dict[str, Any]]]:
    return clients[command["client"]].running[command["worker"], command["task"]]


async def do_finish(command: dict[str, Any]) -> dict[str, Any]:
    running_of(command)[1].set_result(command)
    return {}


async def do_say(command: dict[str, Any]) -> dict[str, Any]:
    context, _ = running_of(command)
    if "progress" in command:
        context.progress(command["progress"], command.get("note", ""))
    if "log" in command:
        context.log(command["log"])
    return {}


async def do_block(command: dict[str, Any]) -> dict[str, Any] | None:
    running_of(command)[1].set_result({"block": command["seconds"], "id": command["id"]})
    return None


async def do_close(command: dict[str, Any]) -> dict[str, Any]:
    await clients[command["client"]].workers[command["worker"]].close(command.get("graceSeconds"))
    return {}


async def do_shut(command: dict[str, Any]) -> dict[str, Any]:
    client = clients.pop(command["client"])
    for _, end in client.running.values():
        if not end.done():
            end.set_result({"error": "the scenario is over"})
    await asyncio.gather(*(worker.close(0) for worker in client.workers.values()), return_exceptions=True)
    await client.app.close()
    return {}


async def answer(command: dict[str, Any]) -> None:
    try:
        found = await globals()[f"do_{command['do']}"](command)
        if found is not None:
            say(id=command["id"], ok=found)
    except CodeqError as error:
        more = {"reason": error.reason, "attempts": error.attempts} if isinstance(error, TaskFailed) else {}
        say(id=command["id"], error={"code": error.code, "message": str(error), **more})
    except Exception as error:
        say(id=command["id"], error={"code": "driver_failed", "message": repr(error)})


async def main() -> None:
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Task[None]] = set()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        task = asyncio.ensure_future(answer(json.loads(line)))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


asyncio.run(main())
