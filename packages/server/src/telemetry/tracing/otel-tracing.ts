/**
 * Tracing with OpenTelemetry. Spans of a task are children of the context that its producer sent. They are
 * created when a change is durable and last from the decision to that moment. The sampling decision of the
 * caller is followed; without one, the configured share of traces is kept.
 */
import type { Change, Task } from "@codeq/queue";
import {
  type Attributes,
  type Context,
  ROOT_CONTEXT,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  trace,
} from "@opentelemetry/api";
import { resourceFromAttributes } from "@opentelemetry/resources";
import {
  ParentBasedSampler,
  RandomIdGenerator,
  type SpanExporter,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from "@opentelemetry/sdk-trace";
import type { Clock } from "../../clock.ts";
import { SpacedWarnings } from "../spaced-warnings.ts";
import type { TracingParts } from "./open-tracing.ts";
import { pairsOf } from "./otlp-exporter.ts";
import { SpanQueue } from "./span-queue.ts";
import { taskSpans } from "./task-spans.ts";
import { isOwnKept, ownContext, parentHeader, remoteContext } from "./task-trace.ts";
import {
  type AnsweredRequest,
  type SentContext,
  type SentRequest,
  type TracedNotice,
  type TracedPost,
  type TracedStream,
  type Tracing,
  untracedPost,
} from "./tracing.ts";

export class OtelTracing implements Tracing {
  readonly #clock: Clock;
  readonly #service: string;
  readonly #ids: TaskIdGenerator = new TaskIdGenerator();
  readonly #ratio: number;
  readonly #queue: SpanQueue;
  readonly #provider: TracerProvider;

  constructor({ config, clock, logger, metrics, shard }: TracingParts, exporter: SpanExporter) {
    this.#clock = clock;
    this.#service = config.tracingServiceName;
    this.#ratio = config.tracingSampleRatio;
    const warnings = new SpacedWarnings(logger, clock);
    this.#queue = new SpanQueue({
      exporter,
      clock,
      onSent: (spans) => metrics.spans.add(spans, "exported"),
      onLost: (spans, why) => {
        metrics.spans.add(spans, "lost");
        warnings.warn("spans were lost", { why });
      },
    });
    this.#provider = new TracerProvider({
      resource: resourceFromAttributes({
        "deployment.environment.name": config.env,
        ...pairsOf(config.tracingResourceAttributes),
        "service.name": config.tracingServiceName,
        ...(shard === undefined ? {} : { "codeq.shard": shard }),
      }),
      sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(this.#ratio) }),
      idGenerator: this.#ids,
      spanProcessors: [this.#queue],
    });
  }

  changed(change: Change): void {
    const { after, because } = change;
    const row = taskSpans[because];
    if (after === undefined || row === undefined) return;
    const parent = this.#parentOf(after);
    if (parent === undefined) return;
    const isFirst = because === "created" && parent.isOwn;
    if (isFirst) this.#ids.next = parent.context;
    const span = this.#provider.getTracer(row.tracer).startSpan(
      row.name,
      {
        kind: row.kind,
        startTime: row.isMoment === true ? this.#clock.nowMs() : after.updatedMs,
        attributes: { ...taskAttributes(after), ...row.attributes(change, after) },
      },
      isFirst ? ROOT_CONTEXT : inContext(parent.context),
    );
    this.#ids.next = undefined;
    if (hasFailed(after)) span.setStatus({ code: SpanStatusCode.ERROR, message: after.error });
    span.end(Math.max(this.#clock.nowMs(), after.updatedMs));
  }

  requested({ method, route, status, ms }: AnsweredRequest, { path, headers }: SentRequest): void {
    const traceParent = textOf(headers["traceparent"]);
    const traceState = textOf(headers["tracestate"]);
    this.#served({
      ...{ traceParent, traceState, ms },
      name: `HTTP ${method} ${route}`,
      tracer: `${this.#service}/http`,
      isError: status >= 500,
      attributes: {
        "http.method": method,
        "http.path": path.split("?", 1)[0] ?? "",
        "http.host": textOf(headers["host"]) ?? "",
        "http.route": route,
        "http.status_code": status,
      },
    });
  }

  streamed(stream: TracedStream): void {
    const [, service = "", method = ""] = stream.path.split("/");
    this.#served({
      ...stream,
      name: `${service}/${method}`,
      tracer: `${this.#service}/grpc`,
      isError: stream.ended === "failed",
      attributes: {
        "rpc.system": "grpc",
        "rpc.service": service,
        "rpc.method": method,
        "codeq.stream.ended": stream.ended,
      },
    });
  }

  posting(task: Task, attempt: number): TracedPost {
    const parent = this.#parentOf(task);
    if (parent === undefined) return untracedPost(task);
    return this.#posted({
      kind: "task_result",
      tracer: "codeq/result_callback",
      url: task.webhook,
      parent: inContext(parent.context),
      traceState: task.traceState,
      attributes: { ...taskAttributes(task), "codeq.webhook.attempt": attempt },
    });
  }

  /** A trace of its own: what is told is about a queue, whose tasks may be of many producers. */
  notifying({ tenantId, eventType, url, subscriptionId }: TracedNotice): TracedPost {
    return this.#posted({
      kind: "queue_ready",
      tracer: "codeq/notifier",
      url,
      parent: ROOT_CONTEXT,
      traceState: "",
      attributes: {
        "codeq.command": eventType,
        "codeq.tenant_id": tenantId,
        "codeq.subscription.id": subscriptionId,
      },
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#queue.shutdown();
  }

  #posted({ kind, tracer, url, parent, traceState, attributes }: Posted): TracedPost {
    const span = this.#provider.getTracer(tracer).startSpan(
      `codeq.webhook.${kind}`,
      {
        kind: SpanKind.CLIENT,
        startTime: this.#clock.nowMs(),
        attributes: {
          ...attributes,
          "codeq.webhook.kind": kind,
          "codeq.webhook.host": URL.parse(url)?.host ?? "",
        },
      },
      parent,
    );
    return {
      traceParent: parentHeader(span.spanContext()),
      traceState,
      end: (status) => {
        if (status !== undefined) span.setAttribute("http.status_code", status);
        const isError = status === undefined || status >= 400;
        if (isError) span.setStatus({ code: SpanStatusCode.ERROR });
        span.end(this.#clock.nowMs());
      },
    };
  }

  #served(of: Served): void {
    const parent = remoteContext(of);
    if (parent !== undefined && parent.traceFlags === TraceFlags.NONE) return;
    const nowMs = this.#clock.nowMs();
    const span = this.#provider
      .getTracer(of.tracer)
      .startSpan(
        of.name,
        { kind: SpanKind.SERVER, startTime: nowMs - of.ms, attributes: of.attributes },
        parent === undefined ? ROOT_CONTEXT : inContext(parent),
      );
    if (of.isError) span.setStatus({ code: SpanStatusCode.ERROR });
    span.end(nowMs);
  }

  /** Undefined when the trace of the task is not kept. */
  #parentOf(task: Task): { readonly context: SpanContext; readonly isOwn: boolean } | undefined {
    const remote = task.traceParent === "" ? undefined : remoteContext(task);
    if (remote !== undefined) {
      return remote.traceFlags === TraceFlags.NONE ? undefined : { context: remote, isOwn: false };
    }
    return isOwnKept(task, this.#ratio) ? { context: ownContext(task), isOwn: true } : undefined;
  }
}

/** What a span of a request to others is made of. */
interface Posted {
  readonly kind: "task_result" | "queue_ready";
  readonly tracer: string;
  readonly url: string;
  readonly parent: Context;
  readonly traceState: string;
  readonly attributes: Attributes;
}

/** What a span of a server is made of. */
interface Served extends SentContext {
  readonly name: string;
  readonly tracer: string;
  readonly isError: boolean;
  readonly attributes: Attributes;
  readonly ms: number;
}

/** Gives the first span of a task the ids that follow from its own. */
class TaskIdGenerator extends RandomIdGenerator {
  next: SpanContext | undefined;

  constructor() {
    super();
    const { generateTraceId, generateSpanId } = this;
    this.generateTraceId = () => this.next?.traceId ?? generateTraceId();
    this.generateSpanId = () => this.next?.spanId ?? generateSpanId();
  }
}

function textOf(header: string | readonly string[] | undefined): string | undefined {
  return typeof header === "string" ? header : header?.[0];
}

function inContext(context: SpanContext): Context {
  return trace.setSpanContext(ROOT_CONTEXT, context);
}

function taskAttributes({ id, command, tenantId }: Task): Attributes {
  return { "codeq.task_id": id, "codeq.command": command, "codeq.tenant_id": tenantId };
}

function hasFailed({ place }: Task): boolean {
  return place.in === "dead" || (place.in === "done" && place.how === "failed");
}
