"""Lengths of time: seconds, a `timedelta`, or a text such as `"30s"`; and moments."""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta

#: Seconds, a `timedelta`, or a number with a unit: `"500ms"`, `"30s"`, `"5m"`, `"1.5h"`, `"7d"`.
Duration = float | int | timedelta | str

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PATTERN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def to_seconds(duration: Duration, what: str) -> float:
    """The length in seconds; `what` names the option in the message of the error."""
    seconds: float | None = None
    if isinstance(duration, timedelta):
        seconds = duration.total_seconds()
    elif isinstance(duration, (int, float)) and not isinstance(duration, bool):
        seconds = float(duration)
    elif isinstance(duration, str) and (match := _PATTERN.fullmatch(duration)):
        seconds = float(match[1]) * _UNITS[match[2]]
    if seconds is not None and math.isfinite(seconds) and seconds >= 0:
        return seconds
    raise ValueError(
        f'invalid {what} {duration!r}: give seconds, a timedelta or a text like "30s" (units: ms, s, m, h, d)'
    )


def whole_ms(seconds: float) -> int:
    """Never shorter than asked for."""
    # Without the error of binary fractions: 1.1 seconds are 1100 ms.
    return math.ceil(round(seconds * 1000, 6))


def whole_seconds(seconds: float) -> int:
    """For fields that count in seconds: never shorter than asked for."""
    return math.ceil(seconds)


def in_words(duration: Duration, what: str) -> str:
    """The length as the HTTP API takes it, and as a person would write it: 90s, 2m, 1h."""
    ms = whole_ms(to_seconds(duration, what))
    for unit in ("d", "h", "m", "s"):
        count, rest = divmod(ms, round(_UNITS[unit] * 1000))
        if rest == 0 and count > 0:
            return f"{count}{unit}"
    return f"{ms}ms"


def moment(at: datetime, what: str) -> datetime:
    """A moment means the same on each machine only with a time zone."""
    if at.tzinfo is not None:
        return at
    raise ValueError(f"invalid {what} {at.isoformat()}: give it a time zone, such as datetime.now(timezone.utc)")
