"""Producers and workers of codeQ, a durable task queue."""

from .app import Codeq, EnqueueManyError, Run, Settings, Task, Unique
from .batch import Batch, BatchEnd, CreatedBatch
from .context import Context, Firing, TraceContext
from .durations import Duration
from .errors import CodeqError, Permanent, RateLimited, RetryIn, TaskFailed
from .schedules import ScheduleOptions, Schedules
from .worker import Listeners, Worker
from .worker_core import Settled

__all__ = [
    "Batch",
    "BatchEnd",
    "Codeq",
    "CodeqError",
    "Context",
    "CreatedBatch",
    "Duration",
    "EnqueueManyError",
    "Firing",
    "Listeners",
    "Permanent",
    "RateLimited",
    "RetryIn",
    "Run",
    "ScheduleOptions",
    "Schedules",
    "Settings",
    "Settled",
    "Task",
    "TaskFailed",
    "TraceContext",
    "Unique",
    "Worker",
]
