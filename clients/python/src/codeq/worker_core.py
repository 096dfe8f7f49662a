"""
The part of a worker that talks to the server; lives on the loop of the engine, so that leases are extended and
results are sent while handlers block their threads.

    running    asks for tasks while it has free slots
    draining   asks for no more; ends when its tasks are finished or handed back
    closed     permanently

An attempt occupies a slot until its handler has ended, and its lease is kept until the server has acknowledged
how it ended, through any number of connections.
"""

from __future__ import annotations

import asyncio
import collections
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from .connection import Connection, Token, pause
from .durations import whole_seconds
from .errors import RETRYABLE, CodeqError
from .sessions import Transports
from .wire import workerpb_pb2 as worker

_READYS_MAX = 8
_TASKS_PER_READY_MAX = 256
_BATCH_MAX = 1000
_BATCH_BYTES_MAX = 1024 * 1024
_TICK_SECONDS_MAX = 0.5
_TICKS_PER_LEASE = 12
_NEWS_SECONDS = 1.0
#: How long a handler that was told to stop may go on before it is given up.
_STOP_SECONDS_MAX = 5.0
#: How long a closing worker waits for the acknowledgements of what it has to tell.
_END_SECONDS_MAX = 10.0
_LOGS_MAX = 50
#: Refusals of a Ready that another one would meet as well.
_HOPELESS = {"missing_scope", "event_type_not_allowed", "invalid_command", "invalid_argument"}
#: The lease is somebody else's, or nobody's: what a repeat of an outcome that worked is told.
_OVERTAKEN = {"not_owner", "not_in_progress", "task_unknown"}

Settled = Literal["completed", "failed", "retry", "dead_letter", "handed_back"]


@dataclass(frozen=True)
class Outcome:
    """What the server is to be told about an attempt."""

    kind: Literal["completed", "failed", "retry", "hand_back"]
    result: bytes = b""
    text: str = ""
    #: Where the handler failed; empty without an error.
    stack: str = ""
    delay_ms: int = 0
    #: For how long the lane of the task is held.
    hold_seconds: int = 0


HAND_BACK = Outcome("hand_back")


@dataclass(eq=False)
class Attempt:
    task: worker.Task
    lease_seconds: float
    timeout_seconds: float | None
    #: When the lease was last asked for, and the beginning of the last one that was confirmed.
    beat_at: float = 0.0
    confirmed_at: float = 0.0
    state: Literal["waiting", "running", "finished"] = "waiting"
    is_kept: bool = True
    #: Called once, on the thread of the engine, with the reason to stop.
    on_told: Callable[[CodeqError], None] = lambda error: None
    stop_reason: CodeqError | None = None
    progress: tuple[int, str] | None = None
    logs: collections.deque[str] = field(default_factory=lambda: collections.deque(maxlen=_LOGS_MAX))
    #: Units of rates that the handler reported.
    used: int | None = None
    outcome: Outcome | None = None
    is_sent: bool = False
    tries: int = 0
    timer: asyncio.TimerHandle | None = None

    @property
    def key(self) -> tuple[str, int]:
        return self.task.id, self.task.lease_token


@dataclass
class WorkerEvents:
    """Calls of a worker core, on the thread of the engine."""

    #: Begin with these attempts.
    start: Callable[[Sequence[Attempt]], None]
    settled: Callable[[Attempt, Settled], None]
    refused: Callable[[Attempt, CodeqError], None]
    #: The server does not want this worker.
    stopped: Callable[[CodeqError], None]
    warning: Callable[[str, str], None]
    connection: Callable[[CodeqError | None], None]


class WorkerCore:
    def __init__(
        self,
        transports: Transports,
        token: Token,
        name: str,
        leases: dict[str, tuple[float, float | None]],
        concurrency: int,
        events: WorkerEvents,
    ) -> None:
        self._events = events
        self._leases = {queue.lower(): lease for queue, lease in leases.items()}
        self._commands = list(leases)
        self._claim_seconds = min(lease for lease, _ in leases.values())
        self._concurrency = concurrency
        self._attempts: dict[tuple[str, int], Attempt] = {}
        self._waiting: collections.deque[Attempt] = collections.deque()
        self._unsent: list[Attempt] = []
        self._held: collections.deque[int] = collections.deque()
        self._running = 0
        self._state: Literal["running", "draining", "closed"] = "running"
        self._was_open = False
        self._is_scheduled = False
        self._idle = asyncio.Event()
        self._tick_seconds = min(_TICK_SECONDS_MAX, self._claim_seconds / _TICKS_PER_LEASE)
        self._ticking: asyncio.TimerHandle | None = None

        def hello(text: str) -> worker.WorkerEvent:
            return worker.WorkerEvent(hello=worker.Hello(token=text, worker_id=name))

        self._connection = Connection(transports, "worker", token, hello, self)

    def begin(self) -> None:
        self._connection.connect()

    @property
    def busy(self) -> int:
        return len(self._attempts)

    def ended(self, attempts: Sequence[tuple[Attempt, Outcome]]) -> None:
        """Handlers have ended."""
        for attempt, outcome in attempts:
            if attempt.state == "running":
                self._running -= 1
                self._finish(attempt, outcome)

    async def close(self, grace: float) -> None:
        """Returns when nothing is left; raises when the server could not be told everything."""
        if self._state == "closed":
            return
        self._state = "draining"
        while self._waiting:
            self._finish(self._waiting.popleft(), HAND_BACK)
        # A Ready cannot be taken back, but the server forgets those of a session that ends.
        self._connection.renew()
        if not await self._until(lambda: self._running == 0, grace):
            closing = CodeqError("worker_closing", "the worker is shutting down")
            for attempt in list(self._attempts.values()):
                self._tell(attempt, closing)
            if not await self._until(lambda: self._running == 0, _STOP_SECONDS_MAX):
                for attempt in list(self._attempts.values()):
                    self._give_up(attempt, HAND_BACK)
        is_told = await self._until(lambda: not self._attempts, _END_SECONDS_MAX)
        left, problem = len(self._attempts), self._connection.last_error
        if is_told:
            await self._connection.close()
        self.stop()
        if not is_told:
            why = f": {problem}" if problem else ""
            text = f"the server has not acknowledged the results of {left} tasks{why}"
            raise CodeqError("unavailable", text, ambiguous=True)

    def stop(self) -> None:
        self._state = "closed"
        self._connection.cut()
        if self._ticking is not None:
            self._ticking.cancel()
        for attempt in self._attempts.values():
            attempt.state = "finished"
            if attempt.timer is not None:
                attempt.timer.cancel()
        self._attempts.clear()

    # What the connection calls.

    def opened(self) -> None:
        self._was_open = True
        self._events.connection(None)
        for attempt in self._attempts.values():
            if attempt.is_kept:
                self._beat(attempt)
        self._flush()

    def lost(self, error: CodeqError) -> bool:
        self._held.clear()
        self._unsent = [each for each in self._attempts.values() if each.outcome is not None]
        for attempt in self._unsent:
            attempt.is_sent = False
        if self._state == "running":
            self._events.connection(error)
        return self._state == "running" or bool(self._attempts)

    def refused(self, error: CodeqError) -> bool:
        """A token that was good may be good again; one that never was is a mistake."""
        self._events.connection(error)
        if self._was_open:
            return self.lost(error)
        self._fail(error)
        return False

    def must_stay(self) -> bool:
        return bool(self._attempts)

    def reply(self, reply: Any) -> None:
        case = reply.WhichOneof("event")
        if case == "task":
            self._received([reply.task.task])
        elif case == "task_batch":
            self._received(reply.task_batch.tasks)
        elif case == "result_ack":
            self._acknowledged(reply.result_ack)
        elif case == "result_ack_batch":
            for ack in reply.result_ack_batch.acks:
                self._acknowledged(ack)
        elif case == "nack_ack":
            self._acknowledged(reply.nack_ack, is_dead=reply.nack_ack.dlq)
        elif case == "abandon_ack":
            self._acknowledged(reply.abandon_ack)
        elif case == "heartbeat_ack":
            self._beaten(reply.heartbeat_ack)
        elif case == "error":
            error = CodeqError(reply.error.error_code, reply.error.message)
            if error.code in _HOPELESS:
                self._fail(error)
            else:
                self._events.warning("server_error", str(error))

    # Tasks come in.

    def _received(self, tasks: Sequence[worker.Task]) -> None:
        if self._held:
            self._held.popleft()
        now = time.monotonic()
        starting: list[Attempt] = []
        for task in tasks:
            lease = self._leases.get(task.command.lower())
            if lease is None:
                continue
            attempt = Attempt(task, *lease, beat_at=now, confirmed_at=now)
            self._attempts[attempt.key] = attempt
            if attempt.lease_seconds > self._claim_seconds:
                self._beat(attempt)
            if self._state != "running":
                self._finish(attempt, HAND_BACK)
            elif self._running < self._concurrency:
                self._occupy(attempt)
                starting.append(attempt)
            else:
                self._waiting.append(attempt)
        if starting:
            self._events.start(starting)
        if self._ticking is None and self._attempts:
            self._arm()
        self._schedule()

    def _occupy(self, attempt: Attempt) -> None:
        self._running += 1
        attempt.state = "running"
        limit = self._limit_of(attempt)
        if limit is not None:
            seconds, error = limit
            loop = asyncio.get_running_loop()
            attempt.timer = loop.call_later(seconds, self._out_of_time, attempt, error)

    def _limit_of(self, attempt: Attempt) -> tuple[float, CodeqError] | None:
        """What ends first: the time of the handler, or what the producer leaves the attempt."""
        own, given = attempt.timeout_seconds, float(attempt.task.timeout_seconds)
        task_id = attempt.task.id
        if given and (own is None or given <= own):
            left = max(0.0, given - (time.monotonic() - attempt.confirmed_at))
            text = f"the task may take no longer than {given:g}s, as its producer said"
            return left, CodeqError("task_timeout", text, task_id=task_id)
        if own is None:
            return None
        text = f"the handler took longer than {own:g}s"
        return own, CodeqError("handler_timeout", text, task_id=task_id)

    def _out_of_time(self, attempt: Attempt, error: CodeqError) -> None:
        self._tell(attempt, error)
        reason = "TIMEOUT" if error.code == "task_timeout" else str(error)
        outcome = Outcome("retry", text=reason)
        loop = asyncio.get_running_loop()
        attempt.timer = loop.call_later(_STOP_SECONDS_MAX, self._give_up, attempt, outcome)

    def _tell(self, attempt: Attempt, reason: CodeqError) -> None:
        if attempt.stop_reason is None and attempt.state == "running":
            attempt.stop_reason = reason
            attempt.on_told(reason)

    def _give_up(self, attempt: Attempt, outcome: Outcome) -> None:
        """The handler goes on, but nobody waits for it."""
        if attempt.state == "running":
            text = f"the handler of task {attempt.task.id} was told to stop and goes on"
            self._events.warning("handler_stuck", text)
            self._running -= 1
            self._finish(attempt, outcome)

    def _finish(self, attempt: Attempt, outcome: Outcome) -> None:
        attempt.state = "finished"
        if attempt.timer is not None:
            attempt.timer.cancel()
        if attempt.is_kept and (attempt.progress is not None or attempt.logs):
            self._beat(attempt)
        attempt.outcome = outcome
        self._unsent.append(attempt)
        if self._waiting and self._state == "running":
            following = self._waiting.popleft()
            self._occupy(following)
            self._events.start([following])
        self._idle.set()
        self._schedule()

    # Leases are kept.

    def _arm(self) -> None:
        self._ticking = asyncio.get_running_loop().call_later(self._tick_seconds, self._tick)

    def _tick(self) -> None:
        self._ticking = None
        now = time.monotonic()
        for attempt in list(self._attempts.values()):
            if not attempt.is_kept:
                continue
            if now >= attempt.confirmed_at + attempt.lease_seconds:
                text = f"the lease of task {attempt.task.id} was not extended within {attempt.lease_seconds:g}s"
                self._lose(attempt, text)
            elif (
                (attempt.progress is not None or attempt.logs) and now >= attempt.beat_at + _NEWS_SECONDS
            ) or now + self._tick_seconds > attempt.beat_at + attempt.lease_seconds / 3:
                self._beat(attempt)
        if self._attempts:
            self._arm()

    def _beat(self, attempt: Attempt) -> None:
        if not self._connection.is_open:
            return
        attempt.beat_at = time.monotonic()
        beat = worker.Heartbeat(
            task_id=attempt.task.id,
            lease_token=attempt.task.lease_token,
            extend_seconds=whole_seconds(attempt.lease_seconds),
        )
        progress, attempt.progress = attempt.progress, None
        if progress is not None:
            beat.progress.percent, beat.progress.text = progress
        while attempt.logs:
            beat.logs.append(attempt.logs.popleft())
        self._connection.send(worker.WorkerEvent(heartbeat=beat))

    def _beaten(self, ack: worker.HeartbeatAck) -> None:
        attempt = self._found(ack)
        if attempt is None or not attempt.is_kept:
            return
        if ack.cancelled:
            text = f"task {ack.task_id} was cancelled; its handler should stop"
            self._tell(attempt, CodeqError("task_cancelled", text, task_id=ack.task_id))
        elif ack.ok:
            attempt.confirmed_at = attempt.beat_at
        elif ack.error_code not in RETRYABLE:
            self._lose(attempt, f"the lease of task {ack.task_id} is lost: {ack.error_message}")

    def _lose(self, attempt: Attempt, text: str) -> None:
        attempt.is_kept = False
        self._tell(attempt, CodeqError("lease_lost", text, task_id=attempt.task.id))

    # Outcomes go out.

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._is_scheduled = False
        if self._state == "closed":
            return
        if not self._connection.is_open:
            # A worker that is closing and has something to tell after all.
            if self._unsent:
                self._connection.connect()
            return
        self._send_outcomes()
        if self._state != "running":
            return
        free = self._concurrency - self._running - len(self._waiting) - sum(self._held)
        while free > 0 and len(self._held) < _READYS_MAX:
            count = min(free, _TASKS_PER_READY_MAX)
            self._held.append(count)
            free -= count
            ready = worker.Ready(
                commands=self._commands,
                lease_seconds=whole_seconds(self._claim_seconds),
                count=count,
            )
            self._connection.send(worker.WorkerEvent(ready=ready))

    def _send_outcomes(self) -> None:
        unsent, self._unsent = self._unsent, []
        results: list[worker.Result] = []
        size = 0
        for attempt in unsent:
            outcome = attempt.outcome
            if outcome is None or attempt.is_sent:
                continue
            attempt.is_sent = True
            attempt.tries += 1
            task_id, lease_token = attempt.key
            used = None if attempt.used is None else worker.Units(count=attempt.used)
            if outcome.kind == "retry":
                nack = worker.Nack(
                    task_id=task_id,
                    lease_token=lease_token,
                    delay_ms=outcome.delay_ms,
                    reason=outcome.text,
                    stack=outcome.stack,
                    hold_seconds=outcome.hold_seconds,
                    used=used,
                )
                self._connection.send(worker.WorkerEvent(nack=nack))
            elif outcome.kind == "hand_back":
                abandon = worker.Abandon(task_id=task_id, lease_token=lease_token, interrupted=True)
                self._connection.send(worker.WorkerEvent(abandon=abandon))
            else:
                if len(results) >= _BATCH_MAX or size + len(outcome.result) > _BATCH_BYTES_MAX:
                    self._send_results(results)
                    results, size = [], 0
                results.append(
                    worker.Result(
                        task_id=task_id,
                        lease_token=lease_token,
                        status="COMPLETED" if outcome.kind == "completed" else "FAILED",
                        result_json=outcome.result,
                        error=outcome.text,
                        stack=outcome.stack,
                        used=used,
                    )
                )
                size += len(outcome.result) + 512
        self._send_results(results)

    def _send_results(self, results: list[worker.Result]) -> None:
        if len(results) == 1:
            self._connection.send(worker.WorkerEvent(result=results[0]))
        elif results:
            batch = worker.ResultBatch(results=results)
            self._connection.send(worker.WorkerEvent(result_batch=batch))

    def _acknowledged(self, ack: Any, *, is_dead: bool = False) -> None:
        attempt = self._found(ack)
        if attempt is None or attempt.outcome is None or not attempt.is_sent:
            return
        outcome = attempt.outcome
        if not ack.ok and ack.error_code in RETRYABLE:
            attempt.is_sent = False
            self._unsent.append(attempt)
            asyncio.get_running_loop().call_later(pause(attempt.tries), self._flush)
            return
        is_final = outcome.kind in ("completed", "failed")
        is_repeat = attempt.tries > 1 and ack.error_code in _OVERTAKEN
        del self._attempts[attempt.key]
        if ack.ok or (is_repeat and not is_final):
            settled: dict[str, Settled] = {
                "completed": "completed",
                "failed": "failed",
                "retry": "dead_letter" if is_dead else "retry",
                "hand_back": "handed_back",
            }
            self._events.settled(attempt, settled[outcome.kind])
        else:
            error = CodeqError(ack.error_code, ack.error_message, task_id=ack.task_id)
            self._events.refused(attempt, error)
        self._idle.set()

    def _found(self, ack: Any) -> Attempt | None:
        found = self._attempts.get((ack.task_id, ack.lease_token))
        if found is None and ack.lease_token == 0:
            return next((each for key, each in self._attempts.items() if key[0] == ack.task_id), None)
        return found

    def _fail(self, error: CodeqError) -> None:
        if self._state == "closed":
            return
        for attempt in list(self._attempts.values()):
            self._tell(attempt, error)
        self.stop()
        self._events.stopped(error)

    async def _until(self, holds: Callable[[], bool], seconds: float) -> bool:
        """Waits until the condition holds; false when it does not in this time."""
        end = time.monotonic() + seconds
        while not holds():
            self._idle.clear()
            try:
                await asyncio.wait_for(self._idle.wait(), max(0.0, end - time.monotonic()))
            except asyncio.TimeoutError:
                return holds()
        return True
