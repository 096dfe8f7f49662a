/**
 * The seam between doing tasks and the server they come from. What ends a task is told with the token
 * of its lease, so a worker that was too slow cannot undo what its successor did.
 */
export interface ClaimedTask {
  readonly id: string;
  readonly command: string;
  /** JSON text. */
  readonly payload: string;
  /** Deliveries that came back before this one. */
  readonly attempts: number;
  readonly maxAttempts: number;
  readonly leaseToken: number;
}

/** How a task ended. */
export type TaskEnd =
  /** `result` is the text of a JSON object. */
  | { readonly as: "completed"; readonly result: string }
  /** Not to be tried again. */
  | { readonly as: "failed"; readonly error: string }
  | { readonly as: "retry"; readonly reason: string; readonly delaySeconds?: number }
  /** Given back without having been tried to the end; costs no attempt. */
  | { readonly as: "handed back" }
  /** Given back at once; costs an attempt. */
  | { readonly as: "abandoned" }
  /** Nothing is told; the lease runs out by itself. */
  | { readonly as: "left alone" };

export interface TaskSource {
  /** Waits for a task for a while; undefined when there was none. */
  claim(signal: AbortSignal): Promise<ClaimedTask | undefined>;
  /** False when the lease is lost: whatever the worker does now counts for nothing. */
  extend(task: ClaimedTask): Promise<boolean>;
  /** Tells the end; gives what the server made of it in a word, such as `requeued` or `dlq`. */
  finish(task: ClaimedTask, end: TaskEnd): Promise<string>;
}
