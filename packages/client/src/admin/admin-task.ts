/** Tasks as administrators see them. */
import type { Duration } from "../duration.ts";
import type { RunStatus } from "../producer/run.ts";

/** Where a task is. A `failed` one ended without being a dead letter. */
export type TaskPlace = "ready" | "delayed" | "leased" | "dead" | "done" | "failed";

/** A task of the tenant, of any producer. */
export interface AdminTask {
  /** The id of the task. */
  readonly id: string;
  /** The name of the task, as its producer wrote it. */
  readonly command: string;
  readonly place: TaskPlace;
  readonly status: "PENDING" | "IN_PROGRESS" | "COMPLETED" | "FAILED";
  /** JSON text; lists leave out a long one, `admin.task(id)` has it. */
  readonly payload?: string;
  /** From 0 to 9; 0 when it is left out. */
  readonly priority?: number;
  /** Who has it, or who finished it. */
  readonly workerId?: string;
  /** Attempts that came back; 0 when it is left out. */
  readonly attempts?: number;
  readonly maxAttempts: number;
  /** How often it was replayed; 0 when it is left out. */
  readonly replays?: number;
  /** The task that was replayed as this task. */
  readonly replayOf?: string;
  /** The last task that this task was replayed as. */
  readonly replayedAs?: string;
  /** The last failure. */
  readonly error?: string;
  readonly idempotencyKey?: string;
  /** Its labels; left out when it has none. */
  readonly tags?: readonly string[];
  /** How long an attempt may take. */
  readonly timeoutSeconds?: number;
  /** How long it may wait for a worker once it may be claimed, and when that ends. */
  readonly ttlSeconds?: number;
  readonly startBy?: string;
  readonly tenantId?: string;
  /** Moments are texts, as in RFC 3339. */
  readonly createdAt: string;
  readonly updatedAt: string;
  /** When a delayed task becomes ready. */
  readonly dueAt?: string;
  /** When its lease ends, unless it is extended. */
  readonly leaseUntil?: string;
  /** When it is taken away from its worker, because somebody cancelled it. */
  readonly cancelledUntil?: string;
  readonly endedAt?: string;
  /** When the task is deleted; absent for a dead letter that is kept forever. */
  readonly expiresAt?: string;
}

/** Why a worker gets no tasks. */
export interface WorkerExplanation {
  readonly workerId: string;
  readonly rule:
    | "not_asking"
    | "lease_quota"
    | "no_work"
    | "paused"
    | "topic_limit"
    | "work_is_near";
  /** The same for people. */
  readonly why: string;
  readonly leases: number;
  /** Its claims that wait. */
  readonly claims: number;
  readonly streams: number;
  readonly connectedAt?: string;
  /** The queues that it asks for; left out when it asks for nothing. */
  readonly asksFor?: readonly string[] | "all";
  /** What these queues have; the first hundred. */
  readonly queues: readonly {
    readonly command: string;
    readonly rule: "empty" | "delayed" | "paused" | "topic_limit" | "ready";
    readonly ready: number;
    readonly delayed: number;
    readonly inProgress: number;
    readonly paused?: { readonly by: string; readonly at: string; readonly reason?: string };
  }[];
}

/** The result of a task. */
export interface AdminResult {
  readonly taskId: string;
  readonly status: "COMPLETED" | "FAILED";
  /** What the worker gave back. */
  readonly result?: unknown;
  readonly error?: string;
  readonly artifacts?: readonly { readonly name: string; readonly url: string }[];
  readonly completedAt: string;
}

/** A task with its payload and, once it has ended, its result. */
export interface InspectedTask {
  readonly task: AdminTask &
    Pick<RunStatus, "attemptHistory" | "attemptsOmitted" | "progress" | "logs">;
  readonly result?: AdminResult;
}

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
  /** How long from now until it may be claimed, in whole seconds (fractions are rounded up). */
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

/** Some of the tasks that match. */
export interface TaskPage {
  readonly tasks: readonly AdminTask[];
  /** How many tasks the server has looked at. */
  readonly scanned: number;
  /** Where to go on: a page may be short, or empty, and still have a next one. */
  readonly next?: string;
  /** How many there are in all, where a counter knows. */
  readonly total?: number;
}

/** Which dead letters: some by their ids, those that match, or all. */
export type DeadLetters =
  | { readonly ids: readonly string[] }
  | { readonly all: true }
  | Omit<TaskFilter, "place">;

/** What is different in the new task; what is not given is as in the old one. */
export interface ReplayChanges {
  /** JSON, as `JSON.stringify` writes it. */
  readonly payload?: unknown;
  /** Another queue. */
  readonly command?: string | undefined;
  readonly priority?: number | undefined;
  readonly maxAttempts?: number | undefined;
  readonly delaySeconds?: number | undefined;
}

/** How far to go at once. */
export interface BulkOptions {
  /** At most 10,000. Default: 1,000. */
  readonly limit?: number | undefined;
  /** Count what matches, and change nothing. */
  readonly dryRun?: boolean | undefined;
}

/** What came of a request about many tasks. */
export interface BulkOutcome {
  /** How many matched, up to the limit. */
  readonly matched: number;
  /** How many of them were changed. */
  readonly changed: number;
  /** The first of those that were not, with the reason. */
  readonly failed: readonly { readonly id: string; readonly code: string }[];
  /** There may be more; ask again for the rest. */
  readonly hasMore: boolean;
}
