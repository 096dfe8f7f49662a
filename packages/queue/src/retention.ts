/**
 * How long a task stays after it has ended. The clock starts when the task becomes terminal, so
 * nothing that still waits, is delayed or runs can ever be removed by its age.
 */
import type { Task } from "./task.ts";

export interface Retention {
  /** For tasks that a worker finished, whether they completed or failed. */
  readonly doneMs: number;
  /** For dead letters; 0 keeps them forever. */
  readonly deadMs: number;
}

export function isExpired(task: Task, nowMs: number): boolean {
  const expiresMs = expiresMsOf(task);
  return expiresMs !== undefined && expiresMs <= nowMs;
}

/** The instant from which the task may be removed; undefined when that instant is not known. */
export function expiresMsOf({ place }: Pick<Task, "place">): number | undefined {
  switch (place.in) {
    case "ready":
    case "delayed":
    case "leased":
      return undefined;
    case "dead":
    case "done":
      return place.expiresMs;
  }
}
