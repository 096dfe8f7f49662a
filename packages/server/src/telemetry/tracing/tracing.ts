/** The tracing interface. Callers do not know whether tracing is on; when it is off, calls do nothing. */
import type { Change, Task, TaskId } from "@codeq/queue";
import type { Config } from "../../config/settings.ts";
import type { Clock } from "../../core/clock.ts";
import type { Logger } from "../logger.ts";
import type { Metrics } from "../metrics.ts";

export interface Tracing extends AsyncDisposable {
  /** A durable change of a task. */
  changed(change: Change): void;
  /** A task was not created, or a result was not accepted. */
  refused(refused: RefusedCall): void;
  /** A request over HTTP was answered. */
  requested(answered: AnsweredRequest, sent: SentRequest): void;
  /** A stream of a gRPC client is over. */
  streamed(stream: TracedStream): void;
  /** A result is about to be posted. */
  posting(task: Task, attempt: number): TracedPost;
  /** A subscriber is about to be notified that a queue has work. */
  notifying(notice: TracedNotice): TracedPost;
}

export type TracingConfig = Pick<
  Config,
  | "env"
  | "tracingEnabled"
  | "tracingServiceName"
  | "tracingOtlpEndpoint"
  | "tracingOtlpProtocol"
  | "tracingOtlpInsecure"
  | "tracingOtlpHeaders"
  | "tracingSampleRatio"
  | "tracingResourceAttributes"
>;

/** Trace context as a caller sent it; empty or undefined where there is none. */
export interface SentContext {
  readonly traceParent: string | undefined;
  readonly traceState: string | undefined;
}

export interface RefusedCall extends SentContext {
  readonly because: "created" | "finished";
  /** The code of the refusal. */
  readonly code: string;
  readonly tenantId: string;
  /** Undefined for a result whose task is not known. */
  readonly command?: string | undefined;
  /** Undefined for a task that was not created. */
  readonly taskId?: TaskId | undefined;
  readonly workerId?: string | undefined;
}

export interface AnsweredRequest {
  readonly method: string;
  /** The pattern of the path. */
  readonly route: string;
  readonly status: number;
  readonly ms: number;
}

export interface SentRequest {
  readonly path: string;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
}

export interface TracedStream extends SentContext {
  readonly path: string;
  readonly ended: string;
  readonly ms: number;
}

export interface TracedNotice {
  readonly tenantId: string;
  readonly eventType: string;
  readonly url: string;
  readonly subscriptionId: string;
}

export interface TracedPost {
  /** The context that the receiver gets. */
  readonly traceParent: string;
  readonly traceState: string;
  /** The status of the answer; undefined when there was none. */
  end(status: number | undefined): void;
}

export const noTracing: Tracing = {
  changed: () => {},
  refused: () => {},
  requested: () => {},
  streamed: () => {},
  posting: untracedPost,
  notifying: () => untracedPost({ traceParent: "", traceState: "" }),
  [Symbol.asyncDispose]: () => Promise.resolve(),
};

/** Passes on the context that the producer sent. */
export function untracedPost({
  traceParent,
  traceState,
}: Pick<Task, "traceParent" | "traceState">): TracedPost {
  return { traceParent, traceState, end: () => {} };
}

export interface TracingParts {
  readonly config: TracingConfig;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** The number of the shard, in the thread of a shard. */
  readonly shard?: number;
}

/** The attributes of this server, for spans and metrics. */
export function resourceOf(config: TracingConfig): Record<string, string> {
  return {
    "deployment.environment.name": config.env,
    ...pairsOf(config.tracingResourceAttributes),
    "service.name": config.tracingServiceName,
  };
}

/** `a=1,b=2`, with values as in URLs; the syntax of OpenTelemetry's own variables. */
export function pairsOf(text: string): Record<string, string> {
  const pairs = text.split(",").flatMap((pair) => {
    const at = pair.indexOf("=");
    return at < 0 ? [] : [[pair.slice(0, at).trim(), decoded(pair.slice(at + 1).trim())]];
  });
  return Object.fromEntries(pairs);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // The value is not URL-encoded, so it is used as written.
    return text;
  }
}
