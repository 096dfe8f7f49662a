/**
 * What an idempotency key stands for. A key belongs to one tenant and names one request: the same request again
 * gets the same task, also when the task has been deleted since. Another request under the same key is refused,
 * because an answer with the task of the first request would hide a bug of the producer; a producer that wants the
 * first task whatever it asks for says so.
 */
import { emptyResult } from "../ended.ts";
import { accept, type Outcome, refuse } from "../outcome.ts";
import type { Task, TaskId, WorkerId } from "../task.ts";
import { enqueue, type NewTask } from "./enqueue.ts";

export interface IdempotencyEntry {
  readonly taskId: TaskId;
  readonly queue: string;
  readonly payloadHash: string;
  /** Undefined while the task exists. */
  readonly gone: GoneTask | undefined;
}

/** The end of a task that was deleted before its key. */
export interface GoneTask {
  readonly how: (typeof endings)[number];
  readonly createdMs: number;
  readonly endedMs: number;
  /** Until when the key is kept. */
  readonly untilMs: number;
}

export const endings = ["completed", "failed", "cancelled", "dead"] as const;

/** `queue` is the folded name, so that a key does not depend on the case of its command. */
export function matchIdempotency(
  entry: IdempotencyEntry,
  request: {
    readonly queue: string;
    readonly payloadHash: string;
    readonly keepsFirst: boolean;
  },
): Outcome<TaskId, "idempotency_key_reused"> {
  const same = entry.queue === request.queue && entry.payloadHash === request.payloadHash;
  return same || request.keepsFirst ? accept(entry.taskId) : refuse("idempotency_key_reused");
}

/** Until when the key of a task is kept that is deleted now; undefined when it is deleted with the task. */
export function keyUntilMs(
  { createdMs }: Pick<Task, "createdMs">,
  { nowMs, lifeMs }: { readonly nowMs: number; readonly lifeMs: number },
): number | undefined {
  const untilMs = createdMs + lifeMs;
  return untilMs > nowMs ? untilMs : undefined;
}

/** What is kept of a task that has ended; undefined for one that has not. */
export function goneTask({ place, createdMs }: Task, untilMs: number): GoneTask | undefined {
  if (place.in !== "dead" && place.in !== "done") return undefined;
  const how = place.in === "dead" ? "dead" : place.how;
  return { how, createdMs, endedMs: place.atMs, untilMs };
}

/** The answer to a request whose task was deleted: the task without what was deleted with it. */
export function withoutItsRecord(
  { taskId, queue }: IdempotencyEntry,
  gone: GoneTask,
  input: NewTask,
): Task {
  const at = { id: taskId, nowMs: gone.createdMs, seq: 0, keepsPayload: false };
  const command = commandOf(queue, input);
  const maxAttempts = Math.max(input.maxAttempts, 1);
  const task = enqueue({ ...input, command, maxAttempts, payloadBytes: 0 }, at);
  const { endedMs: atMs, untilMs: expiresMs, how } = gone;
  const ended = { ...task, updatedMs: atMs, result: emptyResult };
  if (how === "dead") return { ...ended, place: { in: "dead", atMs, expiresMs } };
  const workerId = "" as WorkerId;
  const place = { in: "done", how, workerId, startedMs: atMs, atMs, expiresMs } as const;
  return { ...ended, place };
}

function commandOf(queue: string, { command }: NewTask): string {
  return command.toLowerCase() === queue ? command : queue;
}
