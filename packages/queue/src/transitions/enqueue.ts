import { accept, type Outcome, refuse } from "../outcome.ts";
import {
  clampPriority,
  type Place,
  type Task,
  type TaskExtras,
  type TaskId,
  type TenantId,
} from "../task.ts";

/** The task that a producer wants to create. */
export interface NewTask {
  readonly tenantId: TenantId;
  readonly command: string;
  readonly priority: number;
  readonly webhook: string;
  readonly traceParent: string;
  readonly traceState: string;
  readonly idempotencyKey: string;
  /** JSON text. */
  readonly payload: string;
  readonly payloadBytes: number;
  /** Identifies the payload; only used together with an idempotency key. */
  readonly payloadHash: string;
  readonly maxAttempts: number;
  /** When the producer wants it to be claimable; undefined means at once. */
  readonly visibleMs: number | undefined;
  readonly extras: TaskExtras | undefined;
}

export interface EnqueueAt {
  readonly id: TaskId;
  readonly nowMs: number;
  readonly seq: number;
  /** Whether the payload is short enough to be stored inside the task. */
  readonly keepsPayload: boolean;
  /** The number of attempts of a task that does not set one. */
  readonly maxAttemptsDefault?: number | undefined;
  /** Overrides the priority that the producer asked for. */
  readonly priority?: number | undefined;
}

/** A new task. It is delayed only when its time lies strictly in the future. */
export function enqueue(input: NewTask, at: EnqueueAt): Task {
  return {
    id: at.id,
    tenantId: input.tenantId,
    command: input.command,
    priority: at.priority ?? clampPriority(input.priority),
    webhook: input.webhook,
    traceParent: input.traceParent,
    traceState: input.traceState,
    idempotencyKey: input.idempotencyKey,
    payload: at.keepsPayload ? input.payload : undefined,
    maxAttempts: input.maxAttempts || (at.maxAttemptsDefault ?? input.maxAttempts),
    attempts: 0,
    handBacks: 0,
    replays: 0,
    cancelMs: 0,
    leaseToken: 0,
    error: "",
    createdMs: at.nowMs,
    updatedMs: at.nowMs,
    storedBytes: input.payloadBytes,
    place: firstPlace(input.visibleMs, at),
    result: undefined,
    extras: extrasFrom(input, at.nowMs),
    repairs: undefined,
    trail: undefined,
  };
}

/** The time to live counts from when the task can be claimed. */
function extrasFrom(
  { extras, visibleMs = 0 }: Pick<NewTask, "extras" | "visibleMs">,
  nowMs: number,
): TaskExtras | undefined {
  if (extras === undefined || extras.ttlMs === 0) return extras;
  return { ...extras, startByMs: Math.max(visibleMs, nowMs) + extras.ttlMs };
}

function firstPlace(visibleMs: number | undefined, at: EnqueueAt): Place {
  if (visibleMs !== undefined && visibleMs > at.nowMs) return { in: "delayed", dueMs: visibleMs };
  return { in: "ready", seq: at.seq };
}

/**
 * What an idempotency key stands for. A key belongs to one tenant and names one request: the same request again
 * gets the same task. Another request under the same key is refused, because an answer with the task of the first
 * request would hide a bug of the producer.
 */
export interface IdempotencyEntry {
  readonly taskId: TaskId;
  readonly queue: string;
  readonly payloadHash: string;
}

/** `queue` is the folded name, so that a key does not depend on the case of its command. */
export function matchIdempotency(
  entry: IdempotencyEntry,
  request: { readonly queue: string; readonly payloadHash: string },
): Outcome<TaskId, "idempotency_key_reused"> {
  const same = entry.queue === request.queue && entry.payloadHash === request.payloadHash;
  return same ? accept(entry.taskId) : refuse("idempotency_key_reused");
}
