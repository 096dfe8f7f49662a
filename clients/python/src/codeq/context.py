"""What a handler knows of its task, and what it can tell."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

from .batch import Batch
from .errors import CodeqError
from .worker_core import Attempt

_NOTE_CHARS_MAX = 200
_LINE_CHARS_MAX = 500
_UNITS_MAX = 1_000_000_000


class TraceContext(NamedTuple):
    """A W3C trace context, as it stands in headers."""

    traceparent: str
    tracestate: str = ""


class Firing(NamedTuple):
    """The schedule that created a task, and the instant that the task was created for: the same over all retries."""

    schedule_id: str
    scheduled_for: datetime


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

#: The trace of the task that the current handler works on.
current_trace: ContextVar[TraceContext | None] = ContextVar("codeq_trace", default=None)


class Context:
    """The second argument of a handler."""

    def __init__(self, attempt: Attempt, cancel: Callable[[], None] | None = None, batch: Batch | None = None) -> None:
        task = attempt.task
        self._attempt = attempt
        self._cancel = cancel
        self._stopped = threading.Event()
        self.id: str = task.id
        self.task: str = task.command
        #: The first attempt is 1.
        self.attempt: int = task.attempts + 1
        self.max_attempts: int = task.max_attempts
        self.priority: int = task.priority
        self.tags: tuple[str, ...] = tuple(task.tags)
        #: Empty for none.
        self.lane: str = task.lane
        #: How many units of rates the task was enqueued with.
        self.cost: int = task.cost or 1
        #: Grows with every attempt of the task, so that other systems can refuse an older one.
        self.fencing_token: int = task.lease_token
        self.created_at: datetime = task.created_at.ToDatetime(timezone.utc)
        #: The JSON text of the input.
        self.payload: bytes = task.payload
        self.trace: TraceContext | None = (
            TraceContext(task.trace_parent, task.trace_state) if task.trace_parent else None
        )
        #: Only for the tasks of a schedule.
        self.schedule: Firing | None = (
            Firing(task.schedule_id, _EPOCH + timedelta(milliseconds=task.scheduled_for_ms))
            if task.schedule_id
            else None
        )
        #: The batch that the task is a member or the callback of.
        self.batch: Batch | None = batch
        attempt.on_told = self._told

    @property
    def stop_reason(self) -> CodeqError | None:
        """
        Why the handler should stop; its code is `lease_lost`, `task_cancelled`, `worker_closing`, `handler_timeout`
        or `task_timeout`. The asyncio task of an async handler is cancelled at the same time.
        """
        return self._attempt.stop_reason

    def raise_if_stopped(self) -> None:
        """For sync handlers, which cannot be cancelled from outside: call it between steps."""
        if self.stop_reason is not None:
            raise self.stop_reason

    def wait_stopped(self, seconds: float) -> bool:
        """Sleeps for so long, or until the handler should stop; true when it should."""
        return self._stopped.wait(seconds)

    def progress(self, fraction: float, note: str = "") -> None:
        """How far the work has come, from 0 to 1, for people who look at the task."""
        percent = round(min(max(fraction, 0.0), 1.0) * 100)
        self._attempt.progress = (percent, note[:_NOTE_CHARS_MAX])

    def log(self, line: str) -> None:
        """A line for people who look at the task; the server keeps the last 50."""
        self._attempt.logs.append(line[:_LINE_CHARS_MAX])

    def used(self, units: int) -> None:
        """
        How many units of the rate the attempt really took, such as the tokens of a language model. The server
        corrects the rate of the lane by the difference to `cost` when the attempt ends. The last call counts.
        """
        if not 0 <= units <= _UNITS_MAX:
            raise ValueError(f"invalid units {units}: from 0 to {_UNITS_MAX}")
        self._attempt.used = units

    def _told(self, reason: CodeqError) -> None:
        self._stopped.set()
        if self._cancel is not None:
            self._cancel()
