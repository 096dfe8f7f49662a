/**
 * The attempts of a task. Attempts that came back are kept in its trail, up to a limit; the attempt under way, and
 * the one that ended in a result, follow from its place. So a task that succeeds at the first attempt stores nothing.
 */
import type { LeasedTask } from "./owner.ts";
import type { PastAttempt, Task, Trail } from "./task.ts";

export interface Attempt extends Omit<PastAttempt, "endedMs" | "outcome"> {
  /** Undefined while a worker has the task. */
  readonly endedMs: number | undefined;
  readonly outcome: PastAttempt["outcome"] | "running" | "completed";
}

export const attemptsKeptMax = 20;
const errorCharsMax = 200;

/** The trail of a task whose attempt ends like this. */
export function withAttempt(
  { leaseToken, place, trail }: LeasedTask,
  end: Pick<PastAttempt, "endedMs" | "outcome" | "error" | "delayMs">,
): Trail {
  const { workerId, sinceMs: startedMs } = place;
  return withPast(trail, { workerId, leaseToken, startedMs, ...end });
}

/** The trail of a failed task that is replayed: it keeps the attempt that ended the task. */
export function withFailedAttempt(task: Task): Trail | undefined {
  const { leaseToken, place, trail, error } = task;
  if (place.in !== "done" || place.workerId === "") return trail;
  const { workerId, startedMs, atMs: endedMs } = place;
  const end = { endedMs, outcome: "failed", error, delayMs: 0 } as const;
  return withPast(trail, { workerId, leaseToken, startedMs, ...end });
}

function withPast(trail: Trail | undefined, attempt: PastAttempt): Trail {
  const error = attempt.error.slice(0, errorCharsMax);
  const before = trail?.attempts ?? [];
  const attempts = [...before.slice(1 - attemptsKeptMax), { ...attempt, error }];
  // The progress of one attempt says nothing about the next.
  return { attempts, progress: undefined, logs: trail?.logs ?? [] };
}

/** The newest attempts of a task, oldest first; `leaseToken` is the number of all attempts. */
export function attemptsOf(task: Task): readonly Attempt[] {
  const { leaseToken, place, trail, error } = task;
  const past = trail?.attempts ?? [];
  if (place.in === "leased") {
    const { workerId, sinceMs: startedMs } = place;
    const running = { outcome: "running", endedMs: undefined, error: "", delayMs: 0 } as const;
    return [...past, { workerId, leaseToken, startedMs, ...running }];
  }
  if (place.in !== "done" || place.workerId === "") return past;
  const { workerId, startedMs, atMs: endedMs, how: outcome } = place;
  return [...past, { workerId, leaseToken, startedMs, endedMs, outcome, error, delayMs: 0 }];
}
