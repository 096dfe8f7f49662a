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
/** Only the newest attempts keep stacks, so that a task with many attempts stays small. */
const stacksKeptMax = 3;

/** The trail of a task whose attempt ends like this. */
export function withAttempt(
  { leaseToken, place, trail }: LeasedTask,
  end: Pick<PastAttempt, "endedMs" | "outcome" | "error" | "delayMs"> &
    Partial<Pick<PastAttempt, "stack">>,
): Trail {
  const { workerId, sinceMs: startedMs } = place;
  return withPast(trail, { workerId, leaseToken, startedMs, stack: "", ...end });
}

/** The trail of a failed task that is replayed: it keeps the attempt that ended the task. */
export function withFailedAttempt(task: Task): Trail | undefined {
  const { leaseToken, place, trail, error } = task;
  if (place.in !== "done" || place.workerId === "" || isInTrail(task)) return trail;
  const { workerId, startedMs, atMs: endedMs } = place;
  const end = { endedMs, outcome: "failed", error, stack: "", delayMs: 0 } as const;
  return withPast(trail, { workerId, leaseToken, startedMs, ...end });
}

function withPast(trail: Trail | undefined, attempt: PastAttempt): Trail {
  const error = attempt.error.slice(0, errorCharsMax);
  const kept = (trail?.attempts ?? []).slice(1 - attemptsKeptMax);
  const before = kept.map((each, index) =>
    each.stack === "" || kept.length - index < stacksKeptMax ? each : { ...each, stack: "" },
  );
  const attempts = [...before, { ...attempt, error }];
  // The progress of one attempt says nothing about the next.
  return { attempts, progress: undefined, logs: trail?.logs ?? [] };
}

/** A worker that failed with a stack has its attempt in the trail. */
function isInTrail({ leaseToken, trail }: Task): boolean {
  return trail?.attempts.at(-1)?.leaseToken === leaseToken;
}

/** The newest attempts of a task, oldest first; `leaseToken` is the number of all attempts. */
export function attemptsOf(task: Task): readonly Attempt[] {
  const { leaseToken, place, trail, error } = task;
  const past = trail?.attempts ?? [];
  if (place.in === "leased") {
    const { workerId, sinceMs: startedMs } = place;
    const running = { outcome: "running", endedMs: undefined, error: "", stack: "" } as const;
    return [...past, { workerId, leaseToken, startedMs, ...running, delayMs: 0 }];
  }
  if (place.in !== "done" || place.workerId === "" || isInTrail(task)) return past;
  const { workerId, startedMs, atMs: endedMs, how: outcome } = place;
  const end = { endedMs, outcome, error, stack: "", delayMs: 0 };
  return [...past, { workerId, leaseToken, startedMs, ...end }];
}
