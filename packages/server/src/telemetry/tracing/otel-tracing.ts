/**
 * Tracing with OpenTelemetry. Spans of a task are children of the context that its producer sent. They are
 * created when a change is durable and last from the decision to that moment. The sampling decision of the
 * caller is followed; without one, the configured share of traces is kept.
 */
import type { Cause, Change, Task } from "@codeq/queue";
import { type Attributes, type SpanContext, SpanKind, TraceFlags } from "@opentelemetry/api";
import { type Resource, resourceFromAttributes } from "@opentelemetry/resources";
import { RandomIdGenerator, type SpanExporter } from "@opentelemetry/sdk-trace";
import type { Clock } from "../../core/clock.ts";
import { SpacedWarnings } from "../logger.ts";
import { EndedSpan, type SpanParts, SpanQueue } from "./spans.ts";
import { isInShare, ownContext, parentHeader, remoteContext } from "./task-trace.ts";
import {
  type AnsweredRequest,
  type RefusedCall,
  resourceOf,
  type SentContext,
  type SentRequest,
  type TracedNotice,
  type TracedPost,
  type TracedStream,
  type Tracing,
  type TracingParts,
  untracedPost,
} from "./tracing.ts";

export class OtelTracing implements Tracing {
  readonly #clock: Clock;
  readonly #service: string;
  readonly #ids = new RandomIdGenerator();
  readonly #share: number;
  readonly #queue: SpanQueue;
  readonly #resource: Resource;
  /** By name. Exporters group spans by the object. */
  readonly #scopes = new Map<string, { readonly name: string }>();

  constructor({ config, clock, logger, metrics, shard }: TracingParts, exporter: SpanExporter) {
    this.#clock = clock;
    this.#service = config.tracingServiceName;
    this.#share = config.tracingSampleRatio;
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
    this.#resource = resourceFromAttributes({
      ...resourceOf(config),
      ...(shard === undefined ? {} : { "codeq.shard": shard }),
    });
  }

  changed(change: Change): void {
    const { after, because } = change;
    const row = taskSpans[because];
    if (after === undefined || row === undefined) return;
    const parent = this.#parentOf(after);
    if (parent === undefined) return;
    const isFirst = because === "created" && parent.isOwn;
    const { place, error, updatedMs } = after;
    const nowMs = this.#clock.nowMs();
    this.#add(row.tracer, {
      name: row.name,
      kind: row.kind,
      context: isFirst ? parent.context : this.#childOf(parent.context),
      parent: isFirst ? undefined : parent.context,
      startMs: row.isMoment === true ? nowMs : updatedMs,
      endMs: nowMs,
      attributes: { ...taskAttributes(after), ...row.attributes(change, after) },
      isError: place.in === "dead" || (place.in === "done" && place.how === "failed"),
      error,
    });
  }

  /** In the trace of the task, or of the producer; a call without either has a trace of its own. */
  refused(call: RefusedCall): void {
    const { because, code, tenantId, command, taskId, workerId } = call;
    const { name, tracer, kind } = taskSpans[because];
    const isOfTask = taskId !== undefined && isInShare(taskId, this.#share);
    // The caller chose the id, which need not be one.
    const own = isOfTask ? parentHeader(ownContext({ id: taskId })) : undefined;
    const { traceParent = own, traceState } = call;
    const parent = remoteContext({ traceParent, traceState });
    const nowMs = this.#clock.nowMs();
    this.#add(tracer, {
      name,
      kind,
      parent,
      startMs: nowMs,
      endMs: nowMs,
      context: parent === undefined ? this.#root() : this.#childOf(parent),
      attributes: {
        "codeq.tenant_id": tenantId,
        "codeq.refusal": code,
        ...(command === undefined ? {} : { "codeq.command": command }),
        ...(taskId === undefined ? {} : { "codeq.task_id": taskId }),
        ...(workerId === undefined ? {} : { "codeq.worker_id": workerId }),
      },
      isError: true,
      error: code,
    });
  }

  requested({ method, route, status, ms }: AnsweredRequest, { path, headers }: SentRequest): void {
    const traceParent = textOf(headers["traceparent"]);
    const traceState = textOf(headers["tracestate"]);
    this.#served({
      traceParent,
      traceState,
      ms,
      name: `HTTP ${method} ${route}`,
      tracer: `${this.#service}/http`,
      isError: status >= 400,
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
      context: this.#childOf(parent.context),
      parent: parent.context,
      traceState: task.traceState,
      attributes: { ...taskAttributes(task), "codeq.webhook.attempt": attempt },
    });
  }

  /** A new trace: the notification is about a queue, whose tasks may come from many producers. */
  notifying({ tenantId, eventType, url, subscriptionId }: TracedNotice): TracedPost {
    return this.#posted({
      kind: "queue_ready",
      tracer: "codeq/notifier",
      url,
      context: this.#root(),
      parent: undefined,
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

  #posted({ kind, tracer, url, context, parent, traceState, attributes }: Posted): TracedPost {
    const startMs = this.#clock.nowMs();
    return {
      traceParent: parentHeader(context),
      traceState,
      end: (status) => {
        this.#add(tracer, {
          context,
          parent,
          startMs,
          name: `codeq.webhook.${kind}`,
          kind: SpanKind.CLIENT,
          endMs: this.#clock.nowMs(),
          attributes: {
            ...attributes,
            "codeq.webhook.kind": kind,
            "codeq.webhook.host": URL.parse(url)?.host ?? "",
            ...(status === undefined ? {} : { "http.status_code": status }),
          },
          isError: status === undefined || status >= 400,
        });
      },
    };
  }

  #served(served: Served): void {
    const { name, tracer, isError, attributes, ms } = served;
    const parent = remoteContext(served);
    const context = parent === undefined ? this.#root() : this.#childOf(parent);
    const endMs = this.#clock.nowMs();
    const kind = SpanKind.SERVER;
    const startMs = endMs - ms;
    this.#add(tracer, { name, kind, context, parent, startMs, endMs, attributes, isError });
  }

  #add(tracer: string, parts: SpanParts): void {
    if (parts.context.traceFlags === TraceFlags.NONE) return;
    let scope = this.#scopes.get(tracer);
    if (scope === undefined) {
      scope = { name: tracer };
      this.#scopes.set(tracer, scope);
    }
    this.#queue.add(new EndedSpan(parts, scope, this.#resource));
  }

  /** Undefined when the trace of the task is not kept. */
  #parentOf(task: Task): { readonly context: SpanContext; readonly isOwn: boolean } | undefined {
    const remote = task.traceParent === "" ? undefined : remoteContext(task);
    if (remote !== undefined) {
      return remote.traceFlags === TraceFlags.NONE ? undefined : { context: remote, isOwn: false };
    }
    return isInShare(task.id, this.#share) ? { context: ownContext(task), isOwn: true } : undefined;
  }

  /** A context in the trace of its parent, sampled like the parent. */
  #childOf({ traceId, traceFlags, traceState }: SpanContext): SpanContext {
    const spanId = this.#ids.generateSpanId();
    return { traceId, spanId, traceFlags, ...(traceState === undefined ? {} : { traceState }) };
  }

  #root(): SpanContext {
    const traceId = this.#ids.generateTraceId();
    const isKept = isInShare(traceId, this.#share);
    return {
      traceId,
      spanId: this.#ids.generateSpanId(),
      traceFlags: isKept ? TraceFlags.SAMPLED : TraceFlags.NONE,
    };
  }
}

/** The parts of a span of an outgoing request. */
interface Posted {
  readonly kind: "task_result" | "queue_ready";
  readonly tracer: string;
  readonly url: string;
  readonly context: SpanContext;
  readonly parent: SpanContext | undefined;
  readonly traceState: string;
  readonly attributes: Attributes;
}

/** The parts of a span of an incoming request. */
interface Served extends SentContext {
  readonly name: string;
  readonly tracer: string;
  readonly isError: boolean;
  readonly attributes: Attributes;
  readonly ms: number;
}

function textOf(header: string | readonly string[] | undefined): string | undefined {
  return typeof header === "string" ? header : header?.[0];
}

function taskAttributes({ id, command, tenantId }: Task): Attributes {
  return { "codeq.task_id": id, "codeq.command": command, "codeq.tenant_id": tenantId };
}

/** The span for each change of a task, and its attributes. Changes that are not in the table have no span. */
interface TaskSpan {
  readonly name: string;
  readonly tracer: string;
  readonly kind: SpanKind;
  readonly attributes: (change: Change, after: Task) => Attributes;
  /** The change does not set `updatedMs`, so its span has no duration. */
  readonly isMoment?: true;
}

const changes = { tracer: "codeq/repository", kind: SpanKind.INTERNAL } as const;

const taskSpans: Readonly<
  Partial<Record<Cause, TaskSpan>> & Record<"created" | "finished", TaskSpan>
> = {
  created: {
    name: "codeq.task.create",
    tracer: "codeq/scheduler",
    kind: SpanKind.PRODUCER,
    attributes: (_change, { priority, webhook, idempotencyKey }) => ({
      "codeq.priority": priority,
      "codeq.has_webhook": webhook !== "",
      "codeq.has_idempotency_key": idempotencyKey !== "",
    }),
  },
  claimed: {
    ...changes,
    name: "codeq.task.claim",
    kind: SpanKind.CONSUMER,
    attributes: (_change, { place, attempts }) => ({
      ...workerOf(place),
      "codeq.lease_seconds": place.in === "leased" ? place.leaseMs / 1000 : 0,
      "codeq.attempts": attempts,
    }),
  },
  extended: {
    ...changes,
    name: "codeq.task.heartbeat",
    attributes: (_change, { place }) => ({
      ...workerOf(place),
      "codeq.extend_seconds": place.in === "leased" ? place.leaseMs / 1000 : 0,
    }),
  },
  finished: {
    name: "codeq.task.submit_result",
    tracer: "codeq/results",
    kind: SpanKind.INTERNAL,
    attributes: (_change, { place }) => ({
      ...workerOf(place),
      "codeq.submit.status":
        place.in === "done" && place.how === "completed" ? "COMPLETED" : "FAILED",
    }),
  },
  nacked: {
    ...changes,
    name: "codeq.task.nack",
    attributes: ({ before, reason }, after) => ({
      ...workerOf(before?.place),
      ...comebackOf(after),
      "codeq.reason": reason,
    }),
  },
  abandoned: {
    ...changes,
    name: "codeq.task.abandon",
    attributes: ({ before }, after) => ({ ...workerOf(before?.place), ...comebackOf(after) }),
  },
  released: {
    ...changes,
    name: "codeq.task.release",
    attributes: ({ before }) => workerOf(before?.place),
  },
  expired: {
    ...changes,
    name: "codeq.task.expire",
    attributes: ({ before }, after) => ({ ...workerOf(before?.place), ...comebackOf(after) }),
  },
  promoted: { ...changes, name: "codeq.task.promote", attributes: () => ({}) },
  attached: {
    ...changes,
    name: "codeq.task.attach",
    isMoment: true,
    attributes: (_change, { place, result }) => {
      const last = result?.artifacts.at(-1);
      return {
        ...workerOf(place),
        "codeq.artifact.name": last?.name ?? "",
        "codeq.artifact.bytes": last?.bytes ?? 0,
      };
    },
  },
  cancelled: {
    ...changes,
    name: "codeq.task.cancel",
    attributes: ({ before }, { place }) => ({
      ...workerOf(before?.place),
      // A leased task ends only when its worker has given it back.
      "codeq.ended": place.in === "done",
    }),
  },
  replayed: {
    ...changes,
    name: "codeq.task.replay",
    attributes: (_change, { replays }) => ({ "codeq.replays": replays }),
  },
  edited: {
    ...changes,
    name: "codeq.task.edit",
    attributes: ({ before }, { command, priority }) => ({
      "codeq.priority": priority,
      "codeq.moved": before?.command !== command,
    }),
  },
};

function workerOf(place: Task["place"] | undefined): Attributes {
  const hasWorker = place?.in === "leased" || place?.in === "done";
  return hasWorker ? { "codeq.worker_id": place.workerId } : {};
}

/** The result of an attempt that ended without a result of the task. */
function comebackOf({ place, attempts, updatedMs }: Task): Attributes {
  return {
    "codeq.attempts": attempts,
    "codeq.dead_letter": place.in === "dead",
    "codeq.delay_seconds": place.in === "delayed" ? (place.dueMs - updatedMs) / 1000 : 0,
  };
}
