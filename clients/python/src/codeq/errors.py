"""Errors of this package, each with a code to branch on."""

from __future__ import annotations

import email.utils
import time

from .durations import Duration, to_seconds

#: Codes of this client after which the same call may succeed later.
_OWN = {"timeout", "unavailable", "handler_timeout", "task_timeout"}
#: The same of the server's table of errors.
_OF_SERVER = {
    "after_crowded",
    "artifacts_unavailable",
    "backup_under_way",
    "body_too_slow",
    "disk_full",
    "keys_unavailable",
    "no_leader",
    "outcome_unknown",
    "overloaded",
    "quota_exceeded",
    "rate_limited",
    "result_not_found",
    "shutting_down",
    "storage_failed",
    "too_many_feeds",
}
RETRYABLE = frozenset(_OWN | _OF_SERVER)


class CodeqError(Exception):
    """Base of all errors of this package. Branch on `code`, not on the message."""

    def __init__(self, code: str, message: str, *, task_id: str | None = None, ambiguous: bool = False) -> None:
        super().__init__(message)
        #: The code of the server's refusal, or one of this client.
        self.code = code
        #: Whether the same call may succeed later without being changed.
        self.retryable = code in RETRYABLE
        #: Whether the server may have done what was asked although no answer arrived.
        self.ambiguous = ambiguous
        self.task_id = task_id


class TaskFailed(CodeqError):
    """The task whose result was asked for has failed, or is a dead letter."""

    def __init__(self, task_id: str, reason: str, attempts: int) -> None:
        super().__init__("task_failed", f"task {task_id} failed: {reason}", task_id=task_id)
        #: What the worker gave as the reason, or `LEASE_EXPIRED`, `MAX_ATTEMPTS`, `TIMEOUT`,
        #: `EXPIRED` or `CANCELLED`.
        self.reason = reason
        #: How many times a worker was given the task.
        self.attempts = attempts


class Permanent(Exception):
    """Raise it in a handler when another attempt cannot help: the task fails at once."""


class RetryIn(Exception):
    """Raise it in a handler to choose the delay before the next attempt; it counts as an attempt."""

    def __init__(self, delay: Duration, reason: str = "") -> None:
        super().__init__(reason or f"try again in {delay}")
        self.delay_seconds = to_seconds(delay, "delay")


class RateLimited(Exception):
    """
    Raise it when another system asks for a pause. Takes a duration, or the value of a
    `Retry-After` header: seconds or a date. The lane of the task is held for so long; a task without
    a lane waits by itself. The task keeps its turn, and no attempt is counted, up to 100 times in a row.
    """

    def __init__(self, retry_after: Duration, reason: str = "") -> None:
        super().__init__(reason or "rate limited by another system")
        self.hold_seconds = to_seconds(_pause(retry_after), "hold")


def _pause(retry_after: Duration) -> Duration:
    if not isinstance(retry_after, str):
        return retry_after
    if retry_after.strip().isdigit():
        return int(retry_after)
    try:
        at = email.utils.parsedate_to_datetime(retry_after)
    except (TypeError, ValueError):
        return retry_after
    return max(1.0, at.timestamp() - time.time())
