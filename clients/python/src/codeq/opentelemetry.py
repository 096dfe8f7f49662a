"""
Spans for OpenTelemetry: one around every enqueue and one around every run of a handler, joined by the trace
context that travels with the task. Needs `opentelemetry-api`, and a tracing library that was set up before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import context as active
from opentelemetry import propagate, trace

from .context import Context, TraceContext


class OpenTelemetry:
    """`Codeq(tracing=OpenTelemetry())`."""

    def __init__(self) -> None:
        self._tracer = trace.get_tracer("codeq-client")

    @contextmanager
    def enqueue(self, task: str) -> Iterator[TraceContext | None]:
        attributes = _attributes(task, "send")
        with self._tracer.start_as_current_span(f"enqueue {task}", kind=trace.SpanKind.PRODUCER, attributes=attributes):
            carrier: dict[str, str] = {}
            propagate.inject(carrier)
            parent = carrier.get("traceparent")
            yield TraceContext(parent, carrier.get("tracestate", "")) if parent else None

    @contextmanager
    def handle(self, context: Context) -> Iterator[None]:
        attributes: dict[str, str | int] = {
            **_attributes(context.task, "process"),
            "messaging.message.id": context.id,
            "codeq.attempt": context.attempt,
        }
        carrier = context.trace._asdict() if context.trace else {}
        token = active.attach(propagate.extract(carrier))
        try:
            with self._tracer.start_as_current_span(
                f"handle {context.task}", kind=trace.SpanKind.CONSUMER, attributes=attributes
            ):
                yield
        finally:
            active.detach(token)


def _attributes(task: str, operation: str) -> dict[str, str | int]:
    return {
        "messaging.system": "codeq",
        "messaging.destination.name": task,
        "messaging.operation.type": operation,
    }
