/**
 * What a producer's idempotency key stands for. A key belongs to one tenant and names one request:
 * the same request again gets the same task, and a different one under the same key is refused,
 * because answering it with another request's task would hide a bug of the producer.
 */
import { accept, type Outcome, refuse } from "./outcome.ts";
import type { TaskId } from "./task.ts";

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
