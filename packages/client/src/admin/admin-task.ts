/** Tasks as administrators see them. */

import type { AdminTask } from "../api-types.ts";
import type { Duration } from "../duration.ts";

/** Where a task is. A `failed` one ended without being a dead letter. */
export type TaskPlace = AdminTask["place"];

/** Which tasks; every condition that is given has to hold. */
export interface TaskFilter {
  /** The name of the task, letter case ignored. */
  readonly command?: string | undefined;
  readonly place?: TaskPlace | undefined;
  readonly priority?: number | undefined;
  /** The id of the worker that has it or finished it. */
  readonly worker?: string | undefined;
  /** From this moment on, and before that one. */
  readonly createdAfter?: Date | string | undefined;
  readonly createdBefore?: Date | string | undefined;
  readonly endedAfter?: Date | string | undefined;
  readonly endedBefore?: Date | string | undefined;
  /** A part of the error, letter case ignored. */
  readonly error?: string | undefined;
  /** The id of a failure group. */
  readonly group?: string | undefined;
  readonly idempotencyKey?: string | undefined;
  /** A path into the payload and the value there: `"customer.id:42"`. */
  readonly payload?: string | undefined;
  /** The schedule that created the task. */
  readonly schedule?: string | undefined;
  /** A tag of the task, or several tags separated by commas. */
  readonly tag?: string | undefined;
  /** How the id begins or ends. */
  readonly id?: string | undefined;
}

/** What is to be different about a task; what is left out stays as it is. */
export interface TaskChanges {
  /** The new queue. */
  readonly command?: string | undefined;
  /** From 0 to 9; it goes to the back of its new priority. */
  readonly priority?: number | undefined;
  /** What the worker gets; it has to be writable as JSON, and not null. */
  readonly payload?: unknown;
  /** When it may be claimed; a date or milliseconds since 1970. Wins over `delay`. */
  readonly runAt?: Date | number | undefined;
  /** How long from now until it may be claimed, to the millisecond. */
  readonly delay?: Duration | undefined;
}

/** Which part of what matches. */
export interface TaskPageOptions {
  /** Default: newest first. */
  readonly order?: "newest" | "oldest" | undefined;
  /** At most 1,000. Default: 100. */
  readonly limit?: number | undefined;
  /** `next` of the page before. */
  readonly after?: string | undefined;
}

/** Which dead letters and failed tasks: some by their ids, those that match, or all. */
export type DeadLetters =
  | { readonly ids: readonly string[] }
  | { readonly all: true }
  | Omit<TaskFilter, "place">;
