"""Hooks for tracing libraries. Without any, trace contexts are passed on and no spans are made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from .context import Context, TraceContext, current_trace


class Tracing(Protocol):
    """`codeq.opentelemetry` has it for OpenTelemetry."""

    def enqueue(self, task: str) -> AbstractContextManager[TraceContext | None]:
        """Around an enqueue; gives the context that the new task carries."""

    def handle(self, context: Context) -> AbstractContextManager[None]:
        """Around the run of a handler."""


class PassOn:
    @contextmanager
    def enqueue(self, task: str) -> Iterator[TraceContext | None]:
        yield current_trace.get()

    @contextmanager
    def handle(self, context: Context) -> Iterator[None]:
        yield
