/**
 * W3C trace context: taken along with every task, from the code that enqueues to the code that
 * handles. Without a tracing library, what a handler enqueues carries on the trace of its own task.
 */
import { AsyncLocalStorage } from "node:async_hooks";

/** A W3C trace context, as it stands in headers. */
export interface TraceContext {
  /** Version, trace, parent and flags: `00-…-…-01`. */
  readonly traceparent: string;
  /** What makers of tracing libraries add. */
  readonly tracestate?: string;
}

/** A run of a handler, as far as a trace has to know it. */
export interface TracedRun {
  readonly task: string;
  readonly id: string;
  readonly attempt: number;
  /** What came with the task. */
  readonly trace: TraceContext | undefined;
}

/** Hooks for a tracing library; `@codeq/client/opentelemetry` has them for OpenTelemetry. */
export interface Tracing {
  /** Calls `send` with the context that the new task is to carry. */
  enqueue<T>(task: string, send: (trace: TraceContext | undefined) => Promise<T>): Promise<T>;
  /** Calls `run` within the context of the task. */
  handle<T>(traced: TracedRun, run: () => Promise<T>): Promise<T>;
}

const current = new AsyncLocalStorage<TraceContext>();

/** Passes the context on and makes no spans. */
export const passOn: Tracing = {
  enqueue: (_task, send) => send(current.getStore()),
  handle: ({ trace }, run) => (trace === undefined ? run() : current.run(trace, run)),
};
