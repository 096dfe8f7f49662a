"""Producers and workers of codeQ, a durable task queue."""

from .app import Codeq, EnqueueManyError, Run, Settings, Task, Unique
from .batch import Batch, BatchEnd, CreatedBatch
from .context import Context, TraceContext
from .durations import Duration
from .errors import CodeqError, Permanent, RateLimited, RetryIn, TaskFailed
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
    "Listeners",
    "Permanent",
    "RateLimited",
    "RetryIn",
    "Run",
    "Settings",
    "Settled",
    "Task",
    "TaskFailed",
    "TraceContext",
    "Unique",
    "Worker",
]
