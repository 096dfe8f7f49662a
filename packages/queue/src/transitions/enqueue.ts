import { clampPriority } from "../priority.ts";
import type { Place, Task, TaskId, TenantId } from "../task.ts";

export interface NewTask {
  readonly id: TaskId;
  readonly tenantId: TenantId;
  readonly command: string;
  readonly priority: number;
  readonly webhook: string;
  readonly traceParent: string;
  readonly traceState: string;
  readonly idempotencyKey: string;
  readonly payload: string | undefined;
  readonly maxAttempts: number;
  /** When the producer wants it to be claimable; undefined means at once. */
  readonly visibleMs: number | undefined;
  /** The size of its payload. */
  readonly storedBytes: number;
}

/** A new task. It waits for its time only when that lies strictly in the future. */
export function enqueue(
  input: NewTask,
  at: { readonly nowMs: number; readonly seq: number },
): Task {
  return {
    id: input.id,
    tenantId: input.tenantId,
    command: input.command,
    priority: clampPriority(input.priority),
    webhook: input.webhook,
    traceParent: input.traceParent,
    traceState: input.traceState,
    idempotencyKey: input.idempotencyKey,
    payload: input.payload,
    maxAttempts: input.maxAttempts,
    attempts: 0,
    handBacks: 0,
    leaseToken: 0,
    error: "",
    createdMs: at.nowMs,
    updatedMs: at.nowMs,
    storedBytes: input.storedBytes,
    place: firstPlace(input.visibleMs, at),
  };
}

function firstPlace(
  visibleMs: number | undefined,
  at: { readonly nowMs: number; readonly seq: number },
): Place {
  if (visibleMs !== undefined && visibleMs > at.nowMs) return { in: "delayed", dueMs: visibleMs };
  return { in: "ready", seq: at.seq };
}
