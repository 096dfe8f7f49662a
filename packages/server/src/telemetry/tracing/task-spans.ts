/** The span for each change of a task, and its attributes. Changes that are not in the table have no span. */
import type { Cause, Change, Task } from "@codeq/queue";
import { type Attributes, SpanKind } from "@opentelemetry/api";

export interface TaskSpan {
  readonly name: string;
  readonly tracer: string;
  readonly kind: SpanKind;
  readonly attributes: (change: Change, after: Task) => Attributes;
  /** The change does not set `updatedMs`, so its span has no duration. */
  readonly isMoment?: true;
}

const changes = { tracer: "codeq/repository", kind: SpanKind.INTERNAL } as const;

export const taskSpans: Readonly<
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
