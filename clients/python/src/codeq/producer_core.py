"""
Creates tasks and waits for results over one connection; lives on the loop of the engine. A task that was not
acknowledged is sent again in the next session, with the same idempotency key, so it is never stored twice.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .connection import Connection, Token, pause
from .errors import RETRYABLE, CodeqError
from .sessions import Transports
from .wire import producerpb_pb2 as producer

_BATCH_MAX = 1000
_BATCH_BYTES_MAX = 1024 * 1024
_WAIT_SECONDS = 60


@dataclass(eq=False)
class _Creation:
    message: producer.CreateTask
    stored: asyncio.Future[str]
    tries: int = 0


@dataclass(eq=False)
class _Awaited:
    task_id: str
    ended: asyncio.Future[producer.TaskResult]
    waiters: int = 0
    refusals: int = 0
    timer: asyncio.TimerHandle | None = field(default=None)


class ProducerCore:
    def __init__(self, transports: Transports, token: Token) -> None:
        self._connection = Connection(transports, "producer", token, _hello, self)
        self._creations: dict[int, _Creation] = {}
        self._unsent: list[_Creation] = []
        self._awaited: dict[str, _Awaited] = {}
        self._key_prefix = f"auto:{uuid.uuid4().hex}:"
        self._last_seq = 0
        self._is_scheduled = False
        self._is_closed = False

    async def create(self, messages: Iterable[producer.CreateTask], timeout: float) -> list[str | CodeqError]:
        """The id of each task once it is stored, or why it is not."""
        if self._is_closed:
            raise CodeqError("closed", "the client was closed")
        loop = asyncio.get_running_loop()
        creations = []
        for message in messages:
            self._last_seq += 1
            message.seq = self._last_seq
            if not message.idempotency_key:
                message.idempotency_key = f"{self._key_prefix}{self._last_seq}"
            creation = _Creation(message, loop.create_future())
            self._creations[message.seq] = creation
            creations.append(creation)
        self._unsent.extend(creations)
        self._schedule()
        await asyncio.wait([each.stored for each in creations], timeout=timeout)
        return [self._outcome(each, timeout) for each in creations]

    async def result(self, task_id: str, timeout: float | None) -> producer.TaskResult:
        awaited = self._awaited.get(task_id)
        if awaited is None:
            ended: asyncio.Future[producer.TaskResult] = asyncio.get_running_loop().create_future()
            awaited = self._awaited[task_id] = _Awaited(task_id, ended)
            self._ask(awaited)
            self._connection.connect()
        awaited.waiters += 1
        try:
            return await asyncio.wait_for(asyncio.shield(awaited.ended), timeout)
        except asyncio.TimeoutError:
            why = f": {self._connection.last_error}" if self._connection.last_error else ""
            text = f"task {task_id} has no result after {timeout}s{why}"
            raise CodeqError("timeout", text, task_id=task_id) from None
        finally:
            awaited.waiters -= 1
            if awaited.waiters == 0:
                self._awaited.pop(task_id, None)
                awaited.ended.cancel()

    async def close(self) -> None:
        self._is_closed = True
        await self._connection.close()
        self._fail_all(CodeqError("closed", "the client was closed"))

    def opened(self) -> None:
        for awaited in self._awaited.values():
            self._ask(awaited)
        self._flush()

    def reply(self, reply: Any) -> None:
        case = reply.WhichOneof("event")
        if case == "create_ack":
            self._acknowledged(reply.create_ack)
        elif case == "create_ack_batch":
            for ack in reply.create_ack_batch.acks:
                self._acknowledged(ack)
        elif case == "task_result":
            self._answered(reply.task_result)

    def lost(self, error: CodeqError) -> bool:
        self._unsent = list(self._creations.values())
        return bool(self._creations or self._awaited)

    def refused(self, error: CodeqError) -> bool:
        self._fail_all(error)
        return False

    def must_stay(self) -> bool:
        return False

    def _outcome(self, creation: _Creation, timeout: float) -> str | CodeqError:
        self._creations.pop(creation.message.seq, None)
        stored = creation.stored
        if not stored.done():
            stored.cancel()
            why = f": {self._connection.last_error}" if self._connection.last_error else ""
            text = f"the task was not stored within {timeout}s{why}"
            return CodeqError("timeout", text, ambiguous=creation.tries > 0)
        error = stored.exception()
        if isinstance(error, CodeqError):
            return error
        return stored.result()

    def _schedule(self) -> None:
        """What is asked for in one turn travels together."""
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._is_scheduled = False
        if not self._connection.is_open:
            if self._creations:
                self._connection.connect()
            return
        unsent, self._unsent = self._unsent, []
        batch: list[producer.CreateTask] = []
        size = 0
        for creation in unsent:
            if creation.stored.done():
                continue
            creation.tries += 1
            message = creation.message
            if len(batch) >= _BATCH_MAX or size + len(message.payload) > _BATCH_BYTES_MAX:
                self._send(batch)
                batch, size = [], 0
            batch.append(message)
            size += len(message.payload) + 512
        self._send(batch)

    def _send(self, batch: list[producer.CreateTask]) -> None:
        if len(batch) == 1:
            self._connection.send(producer.ProducerEvent(create=batch[0]))
        elif batch:
            tasks = producer.CreateTaskBatch(tasks=batch)
            self._connection.send(producer.ProducerEvent(create_batch=tasks))

    def _acknowledged(self, ack: producer.CreateAck) -> None:
        creation = self._creations.get(ack.seq)
        if creation is None or creation.stored.done():
            return
        if ack.ok:
            creation.stored.set_result(ack.task_id)
        elif ack.error_code in RETRYABLE:
            self._unsent.append(creation)
            asyncio.get_running_loop().call_later(pause(creation.tries), self._flush)
        else:
            creation.stored.set_exception(CodeqError(ack.error_code, ack.error_message))

    def _ask(self, awaited: _Awaited) -> None:
        if awaited.ended.done():
            return
        asked = producer.AwaitResult(task_id=awaited.task_id, wait_seconds=_WAIT_SECONDS)
        self._connection.send(producer.ProducerEvent(await_result=asked))

    def _answered(self, result: producer.TaskResult) -> None:
        awaited = self._awaited.get(result.task_id)
        if awaited is None or awaited.ended.done():
            return
        if result.ok:
            awaited.ended.set_result(result)
        elif result.error_code == "result_not_found":
            self._ask(awaited)
        elif result.error_code in RETRYABLE:
            awaited.refusals += 1
            asyncio.get_running_loop().call_later(pause(awaited.refusals), self._ask, awaited)
        else:
            error = CodeqError(result.error_code, result.error_message, task_id=result.task_id)
            awaited.ended.set_exception(error)

    def _fail_all(self, error: CodeqError) -> None:
        for creation in self._creations.values():
            if not creation.stored.done():
                creation.stored.set_exception(error)
        for awaited in self._awaited.values():
            if not awaited.ended.done():
                awaited.ended.set_exception(error)


def _hello(token: str) -> producer.ProducerEvent:
    return producer.ProducerEvent(hello=producer.Hello(token=token))
