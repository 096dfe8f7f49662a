/**
 * A task and where it is. The place decides everything else: the status shown to users, the index
 * keys in the store and the transitions that are possible are all derived from it.
 *
 *   ready    waits to be claimed; leaves by claim, edit, cancel or lapse
 *   delayed  waits for its time; leaves by promote, edit, cancel or lapse
 *   leased   a worker has it; leaves by complete, nack, abandon, expiry or cancel
 *   dead     its attempts are used up; leaves by replay, retention or an operator
 *   done     a worker finished it, it was cancelled, or nobody began it in time; leaves by retention
 *
 * Records are immutable: a transition returns a new task.
 */
declare const brand: unique symbol;
type Branded<Name extends string> = string & { readonly [brand]: Name };

export type TaskId = Branded<"TaskId">;
export type TenantId = Branded<"TenantId">;
export type WorkerId = Branded<"WorkerId">;

export type Place =
  | { readonly in: "ready"; readonly seq: number }
  | { readonly in: "delayed"; readonly dueMs: number }
  | {
      readonly in: "leased";
      readonly workerId: WorkerId;
      readonly untilMs: number;
      /** How long the lease was granted for when it was last extended. */
      readonly leaseMs: number;
      /** When it was claimed. */
      readonly sinceMs: number;
    }
  | { readonly in: "dead"; readonly atMs: number; readonly expiresMs: number | undefined }
  | {
      readonly in: "done";
      readonly how: "completed" | "failed";
      readonly workerId: WorkerId;
      /** When its last attempt began; the moment of its end when no worker ended it. */
      readonly startedMs: number;
      readonly atMs: number;
      readonly expiresMs: number;
    };

export interface Task {
  readonly id: TaskId;
  readonly tenantId: TenantId;
  /** As the producer wrote it; queues compare it without case. */
  readonly command: string;
  readonly priority: number;
  readonly webhook: string;
  readonly traceParent: string;
  readonly traceState: string;
  /** Empty when the producer gave none. */
  readonly idempotencyKey: string;
  /** The producer's JSON text when it is short; undefined when it is kept apart from the record. */
  readonly payload: string | undefined;
  readonly maxAttempts: number;
  /** Attempts that came back: by nack, abandon or lease expiry. */
  readonly attempts: number;
  /** Interrupted hand-backs in a row that did not count as attempts. */
  readonly handBacks: number;
  /** How often an operator gave the dead letter all its attempts again. */
  readonly replays: number;
  /** When its lease is revoked because somebody cancelled it; 0 when nobody did. */
  readonly cancelMs: number;
  /** The fencing token of the latest claim: 0 before the first, one more with every claim. */
  readonly leaseToken: number;
  /** The last failure a worker or the server told. */
  readonly error: string;
  readonly createdMs: number;
  readonly updatedMs: number;
  /** How many bytes are kept for it: its payload and, once it has ended, its result. */
  readonly storedBytes: number;
  readonly place: Place;
  /**
   * What its worker gave back when it is short; undefined before that, and when it is kept apart. While it
   * is leased, the files that its worker has stored so far.
   */
  readonly result: ResultBody | undefined;
  /** Undefined for most tasks, so that what is not used costs nothing. */
  readonly extras: TaskExtras | undefined;
  /** What operators did to it; undefined for most tasks. */
  readonly repairs: TaskRepairs | undefined;
  /** Undefined until there is something to keep. */
  readonly trail: Trail | undefined;
}

/** What happened to a task on its way. */
export interface Trail {
  /** The newest attempts that came back, in their order. */
  readonly attempts: readonly PastAttempt[];
  /** How far the attempt has come, as its worker last said. */
  readonly progress: Progress | undefined;
  /** The newest lines that workers wrote about it, in their order. */
  readonly logs: readonly LogLine[];
}

export interface Progress {
  /** A whole number from 0 to 100. */
  readonly percent: number;
  readonly text: string;
  readonly atMs: number;
}

export interface LogLine {
  readonly atMs: number;
  readonly text: string;
}

/** How an attempt ended that left no result. */
export const comebacks = [
  "nacked",
  "abandoned",
  "interrupted",
  "expired",
  "unsent",
  "cancelled",
  "timed_out",
] as const;

export interface PastAttempt {
  readonly workerId: WorkerId;
  readonly leaseToken: number;
  readonly startedMs: number;
  readonly endedMs: number;
  readonly outcome: (typeof comebacks)[number];
  /** What the worker said, cut to its beginning; empty when it said nothing. */
  readonly error: string;
  /** Until it could be claimed again; 0 for at once, and when it was the last. */
  readonly delayMs: number;
}

export interface TaskRepairs {
  /** The task that was replayed as this task, and the last task that this task was replayed as. */
  readonly replayOf: TaskId | "";
  readonly replayedAs: TaskId | "";
  /** The topic has made it of a dead letter, which `replayOf` names. */
  readonly isCopy: boolean;
  /** The bulk job that replayed it last, so that none does so twice. */
  readonly job: string;
}

export const noRepairs: TaskRepairs = { replayOf: "", replayedAs: "", isCopy: false, job: "" };

/** What few producers ask for. */
export interface TaskExtras {
  /** Short labels, each once. */
  readonly tags: readonly string[];
  /** How long an attempt may take; 0 for as long as its worker extends the lease. */
  readonly timeoutMs: number;
  /** How long the task may wait to be begun once it can be claimed; 0 for any time. */
  readonly ttlMs: number;
  /** The moment that follows from that; 0 without one, and once an attempt has come back. */
  readonly startByMs: number;
}

export const noExtras: TaskExtras = { tags: [], timeoutMs: 0, ttlMs: 0, startByMs: 0 };

export interface Artifact {
  readonly name: string;
  readonly url: string;
  /** Of a file that the server keeps: its size, the hash of its content, and its type. */
  readonly bytes?: number;
  readonly sha256?: string;
  readonly contentType?: string;
}

/** What a worker gave back. */
export interface ResultBody {
  /** JSON text of an object, exactly as the worker sent it; empty when there is none. */
  readonly json: string;
  readonly artifacts: readonly Artifact[];
}

export type Status = "PENDING" | "IN_PROGRESS" | "COMPLETED" | "FAILED";

export function statusOf(place: Place): Status {
  switch (place.in) {
    case "ready":
    case "delayed":
      return "PENDING";
    case "leased":
      return "IN_PROGRESS";
    case "dead":
      return "FAILED";
    case "done":
      return place.how === "completed" ? "COMPLETED" : "FAILED";
  }
}

/** The queue a command belongs to: commands differ only by their letters, not by case. */
export function queueOf(command: string): string {
  return command.toLowerCase();
}

/** Priorities are the whole numbers 0 to 9; the highest is delivered first. */
export const priorityMax = 9;

/** The nearest priority to any number, so that a producer's odd value never loses its task. */
export function clampPriority(priority: number): number {
  if (Number.isNaN(priority)) return 0;
  return Math.trunc(Math.min(priorityMax, Math.max(0, priority)));
}
