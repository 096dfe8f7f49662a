/**
 * Spans for OpenTelemetry: one around every enqueue and one around every run of a handler, joined by
 * the trace context that travels with the task. Needs `@opentelemetry/api`, and a tracing library that
 * was set up before.
 */
import {
  context,
  propagation,
  type Span,
  SpanKind,
  type SpanOptions,
  SpanStatusCode,
  trace,
} from "@opentelemetry/api";
import { messageOf } from "./codeq-error.ts";
import type { TraceContext, Tracing } from "./trace-context.ts";

const libraryName = "@codeq/client";

/**
 * ```ts
 * import { openTelemetry } from "@codeq/client/opentelemetry";
 * const client = codeq({ tracing: openTelemetry() });
 * ```
 */
export function openTelemetry(): Tracing {
  return {
    enqueue: (task, send) => {
      const attributes = attributesOf(task, "send");
      return withSpan(`enqueue ${task}`, { kind: SpanKind.PRODUCER, attributes }, () =>
        send(currentTrace()),
      );
    },
    handle: ({ task, id, attempt, trace: from }, run) => {
      const attributes = {
        ...attributesOf(task, "process"),
        "messaging.message.id": id,
        "codeq.attempt": attempt,
      };
      const parent = propagation.extract(context.active(), from ?? {});
      return context.with(parent, () =>
        withSpan(`handle ${task}`, { kind: SpanKind.CONSUMER, attributes }, run),
      );
    },
  };
}

function attributesOf(task: string, operation: "send" | "process"): Record<string, string> {
  return {
    "messaging.system": "codeq",
    "messaging.destination.name": task,
    "messaging.operation.type": operation,
  };
}

function currentTrace(): TraceContext | undefined {
  const carrier: { traceparent?: string; tracestate?: string } = {};
  propagation.inject(context.active(), carrier);
  const { traceparent, tracestate } = carrier;
  if (traceparent === undefined) return undefined;
  return { traceparent, ...(tracestate === undefined ? {} : { tracestate }) };
}

function withSpan<T>(name: string, options: SpanOptions, run: () => Promise<T>): Promise<T> {
  return trace.getTracer(libraryName).startActiveSpan(name, options, async (span: Span) => {
    try {
      return await run();
    } catch (error) {
      const message = messageOf(error);
      span.recordException(error instanceof Error ? error : message);
      span.setStatus({ code: SpanStatusCode.ERROR, message });
      throw error;
    } finally {
      span.end();
    }
  });
}
