import {
  clampPriority,
  type Place,
  type Task,
  type TaskBatch,
  type TaskExtras,
  type TaskId,
  type TaskLane,
  type TaskSchedule,
  type TaskUnique,
  type TenantId,
} from "../task.ts";
import { heldMs, type UniqueRequest, uniqueOf } from "./unique.ts";

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
  /** Whether the key gives the first task back whatever this request says. */
  readonly keepsFirst: boolean;
  readonly maxAttempts: number;
  /** When the producer wants it to be claimable; undefined means at once. */
  readonly visibleMs: number | undefined;
  readonly extras: TaskExtras | undefined;
  readonly unique?: UniqueRequest | undefined;
  /** The batch that it becomes a member of. */
  readonly batchId?: string | undefined;
  /** Tasks that have to succeed before it can be claimed. */
  readonly after?: readonly TaskId[] | undefined;
  /** Empty or left out for no lane. */
  readonly lane?: string | undefined;
  /** Units; 0 or left out for 1. */
  readonly cost?: number | undefined;
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
  /** Whether the task waits for the end of the task that has its unique key. */
  readonly isHeld?: boolean | undefined;
  /** The schedule that creates the task. */
  readonly schedule?: TaskSchedule | undefined;
  /** The batch whose callback it is; the task is held. */
  readonly callbackOf?: string | undefined;
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
    extras: extrasFrom(input, at),
    repairs: undefined,
    trail: undefined,
    schedule: at.schedule,
    unique: input.unique && uniqueFrom(input, input.unique, at),
    batch: batchFrom(input.batchId, at.callbackOf),
    lane: laneFrom(input),
  };
}

function batchFrom(
  batchId: string | undefined,
  callbackOf: string | undefined,
): TaskBatch | undefined {
  const id = callbackOf ?? batchId;
  return id === undefined ? undefined : { id, isCallback: id === callbackOf, ended: undefined };
}

function laneFrom({ lane: name = "", cost = 0 }: NewTask): TaskLane | undefined {
  return name === "" && cost <= 1 ? undefined : { name, cost: cost || 1, holds: 0, seq: 0 };
}

/** The time to live counts from when the task can be claimed. */
function extrasFrom(
  { extras, visibleMs = 0 }: Pick<NewTask, "extras" | "visibleMs">,
  { nowMs, callbackOf }: EnqueueAt,
): TaskExtras | undefined {
  const isHeld = callbackOf !== undefined;
  if (extras === undefined || extras.ttlMs === 0 || isHeld) return extras;
  return { ...extras, startByMs: Math.max(visibleMs, nowMs) + extras.ttlMs };
}

function uniqueFrom({ visibleMs }: NewTask, request: UniqueRequest, at: EnqueueAt): TaskUnique {
  const { nowMs, isHeld = false } = at;
  return uniqueOf(request, { nowMs, isHeld, dueMs: visibleMs });
}

function firstPlace(visibleMs: number | undefined, at: EnqueueAt): Place {
  if (at.callbackOf !== undefined) return { in: "held" };
  if (at.isHeld === true) return { in: "delayed", dueMs: heldMs };
  if (visibleMs !== undefined && visibleMs > at.nowMs) return { in: "delayed", dueMs: visibleMs };
  return { in: "ready", seq: at.seq };
}
