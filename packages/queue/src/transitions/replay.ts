import { withFailedAttempt } from "../attempts.ts";
import { type Change, changeOf } from "../change.ts";
import { accept, type Outcome, refuse } from "../outcome.ts";
import { isFailure, noRepairs, type Task } from "../task.ts";
import { type EnqueueAt, enqueue, type NewTask } from "./enqueue.ts";

/**
 * An operator gives a failure all of its attempts again. The task keeps its id and goes to the back of its queue, and
 * it may be begun at any time. Its result is removed, because it is no longer true; the error stays until there is
 * another one, so that the reason remains visible. A bulk job replays a task once, also when the task fails again.
 */
export function replay(
  task: Task,
  at: {
    readonly nowMs: number;
    readonly seq: number;
    /** The bytes of the result, which is removed. */
    readonly resultBytes: number;
    readonly job?: string | undefined;
  },
): Outcome<Task, "not_failed" | "already_done"> {
  const { job = "" } = at;
  if (job !== "" && task.repairs?.job === job) return refuse("already_done");
  if (!isFailure(task)) return refuse("not_failed");
  return accept({
    ...task,
    attempts: 0,
    handBacks: 0,
    replays: task.replays + 1,
    repairs: job === "" ? task.repairs : { ...(task.repairs ?? noRepairs), job },
    updatedMs: at.nowMs,
    storedBytes: task.storedBytes - at.resultBytes,
    place: { in: "ready", seq: at.seq },
    result: undefined,
    trail: withFailedAttempt(task),
    extras: task.extras && { ...task.extras, startByMs: 0 },
    lane: task.lane && { ...task.lane, holds: 0 },
  });
}

/** The differences of the new task; everything else is copied from the old one. */
export interface TaskChanges {
  readonly command?: string | undefined;
  readonly priority?: number | undefined;
  readonly maxAttempts?: number | undefined;
  readonly visibleMs?: number | undefined;
  /** JSON text, and how many bytes it has. */
  readonly payload: string;
  readonly payloadBytes: number;
}

/**
 * Replays a task that has ended as a new task, with some changes. The old task stays as it is, but a failed member whose
 * batch waits for it gives its place in the batch to the new task. Each task names the other; the new one has no
 * idempotency key, which belongs to the old one.
 */
export function replayAs(
  task: Task,
  changes: TaskChanges,
  at: EnqueueAt & { readonly takesPlace: boolean },
): Outcome<{ readonly task: Task; readonly changes: readonly Change[] }, "not_ended"> {
  const { place } = task;
  if (place.in !== "dead" && place.in !== "done") return refuse("not_ended");
  const input: NewTask = {
    tenantId: task.tenantId,
    command: changes.command ?? task.command,
    priority: changes.priority ?? task.priority,
    webhook: task.webhook,
    traceParent: task.traceParent,
    traceState: task.traceState,
    idempotencyKey: "",
    payload: changes.payload,
    payloadBytes: changes.payloadBytes,
    payloadHash: "",
    keepsFirst: false,
    maxAttempts: changes.maxAttempts ?? task.maxAttempts,
    visibleMs: changes.visibleMs,
    extras: task.extras,
    lane: task.lane?.name,
    cost: task.lane?.cost,
    batchId: at.takesPlace ? task.batch?.id : undefined,
  };
  const fresh: Task = {
    ...enqueue(input, at),
    repairs: { ...noRepairs, replayOf: task.id },
  };
  const created = changeOf(undefined, fresh, "created");
  const payload = at.keepsPayload ? undefined : changes.payload;
  const old: Task = {
    ...task,
    repairs: { ...(task.repairs ?? noRepairs), replayedAs: fresh.id },
    batch: at.takesPlace ? undefined : task.batch,
  };
  return accept({
    task: fresh,
    changes: [{ ...created, payload }, changeOf(task, old, "linked")],
  });
}
