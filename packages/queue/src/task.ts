/**
 * A task and where it is. The place decides everything else: the status shown to users, the index
 * keys in the store and the transitions that are possible are all derived from it.
 *
 *   ready    waits to be claimed; leaves by claim, edit, cancel or lapse
 *   delayed  waits for its time; leaves by promote, edit, cancel or lapse
 *   held     the callback of a batch that has not ended; leaves with the batch, or by cancel
 *   leased   a worker has it; leaves by complete, nack, abandon, expiry or cancel
 *   dead     its attempts are used up; leaves by replay, retention or an operator
 *   done     a worker finished it, it was cancelled, or no worker began it in time; leaves by retention, and by
 *            replay when it failed
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
  | { readonly in: "held" }
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
      readonly how: "completed" | "failed" | "cancelled";
      readonly workerId: WorkerId;
      /** When its last attempt began; the moment of its end when no worker ended it. */
      readonly startedMs: number;
      readonly atMs: number;
      readonly expiresMs: number;
    };

export interface Task {
  readonly id: TaskId;
  readonly tenantId: TenantId;
  /** The command as the producer wrote it; queues ignore the case of its letters. */
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
  /** How often an operator gave the failure all its attempts again. */
  readonly replays: number;
  /** When the lease of a cancelled task is revoked; 0 when the task was not cancelled. */
  readonly cancelMs: number;
  /** The fencing token of the latest claim: 0 before the first, one more with every claim. */
  readonly leaseToken: number;
  /** The last error that a worker or the server reported. */
  readonly error: string;
  readonly createdMs: number;
  readonly updatedMs: number;
  /** How many bytes are stored for it: its payload and, once it has ended, its result. */
  readonly storedBytes: number;
  readonly place: Place;
  /**
   * The result when it is short; undefined before there is one, and when it is stored under a key of its own. While
   * the task is leased, the files that its worker has stored so far.
   */
  readonly result: ResultBody | undefined;
  /** Undefined for most tasks, so that unused fields cost nothing. */
  readonly extras: TaskExtras | undefined;
  /** What operators did to it; undefined for most tasks. */
  readonly repairs: TaskRepairs | undefined;
  /** Undefined while there is nothing to record. */
  readonly trail: Trail | undefined;
  /** Undefined for a task that no schedule created. */
  readonly schedule: TaskSchedule | undefined;
  /** Undefined for a task without a unique key. */
  readonly unique: TaskUnique | undefined;
  /** Undefined for a task that belongs to no batch. */
  readonly batch: TaskBatch | undefined;
  /** Undefined for a task without a lane that costs one unit. */
  readonly lane: TaskLane | undefined;
}

/** The batch that a task is a member of, or the callback. */
export interface TaskBatch {
  readonly id: string;
  readonly isCallback: boolean;
  /** Only of a callback whose batch has ended: how its members ended. */
  readonly ended: BatchEnd | undefined;
}

export interface BatchEnd {
  readonly succeeded: number;
  readonly failed: number;
  readonly cancelled: number;
}

/** The lane of a task: limits, rates and shares are those of the tasks of its queue with the same lane. */
export interface TaskLane {
  /** Empty for a task without a lane. */
  readonly name: string;
  /** How many units of rates and shares it takes. */
  readonly cost: number;
  /** Times in a row that it came back because its lane was held, which are no attempts. */
  readonly holds: number;
  /** Its position when it was last claimed, so that a task whose lane is held keeps its turn. */
  readonly seq: number;
}

/** Empty for a task without a lane. */
export function laneOf({ lane }: Pick<Task, "lane">): string {
  return lane === undefined ? "" : lane.name;
}

export function costOf({ lane }: Pick<Task, "lane">): number {
  return lane === undefined ? 1 : lane.cost;
}

/** How a schedule creates a task: at its time, on request, or for a time in the past. */
export const scheduledKinds = ["fired", "manual", "backfill"] as const;

/** The schedule that created a task. */
export interface TaskSchedule {
  readonly id: string;
  /** The nominal instant. */
  readonly forMs: number;
  readonly kind: (typeof scheduledKinds)[number];
}

/** Whether a task counts for the overlap of its schedule: backfills do not. */
export function isLive({ place, schedule }: Pick<Task, "place" | "schedule">): boolean {
  if (schedule === undefined || schedule.kind === "backfill") return false;
  return place.in !== "done" && place.in !== "dead";
}

/** The history of a task. */
export interface Trail {
  /** The newest attempts that came back, oldest first. */
  readonly attempts: readonly PastAttempt[];
  /** The last progress that the worker reported. */
  readonly progress: Progress | undefined;
  /** The newest log lines of workers, oldest first. */
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

/** Ways in which an attempt ends; `failed` with a result, and the task was replayed. */
export const comebacks = [
  "nacked",
  "abandoned",
  "interrupted",
  "expired",
  "unsent",
  "cancelled",
  "timed_out",
  "failed",
] as const;

export interface PastAttempt {
  readonly workerId: WorkerId;
  readonly leaseToken: number;
  readonly startedMs: number;
  readonly endedMs: number;
  readonly outcome: (typeof comebacks)[number];
  /** The beginning of the worker's error message; empty when there was none. */
  readonly error: string;
  /** Where in the worker's code it failed, and its causes; empty if the worker did not say, and for older attempts. */
  readonly stack: string;
  /** How long the task waited before it could be claimed again; 0 for at once, and after the last attempt. */
  readonly delayMs: number;
}

export interface TaskRepairs {
  /** The task that was replayed as this task, and the last task that this task was replayed as. */
  readonly replayOf: TaskId | "";
  readonly replayedAs: TaskId | "";
  /** Whether the policy of a topic made this copy of a dead letter, which `replayOf` names. */
  readonly isCopy: boolean;
  /** The bulk job that last replayed the task, so that no job replays it twice. */
  readonly job: string;
}

export const noRepairs: TaskRepairs = { replayOf: "", replayedAs: "", isCopy: false, job: "" };

/** The unique key of a task. */
export interface TaskUnique {
  readonly key: string;
  readonly while: "unfinished" | "waiting";
  /** How long the key is held at least, from the creation of the task. */
  readonly forMs: number;
  /** How often a later request has changed the task, and when the first request came. */
  readonly replaced: number;
  readonly sinceMs: number;
  /** The task waits for the end of the task that holds the key. */
  readonly isHeld: boolean;
  /** When a held task can be claimed at the earliest; 0 for at once. */
  readonly dueMs: number;
}

/** Options that few producers use. */
export interface TaskExtras {
  /** Short labels without duplicates. */
  readonly tags: readonly string[];
  /** How long an attempt may take; 0 for as long as its worker extends the lease. */
  readonly timeoutMs: number;
  /** How long the task may wait to be begun once it can be claimed; 0 for any time. */
  readonly ttlMs: number;
  /** The moment at which `ttlMs` ends; 0 without a limit, and once an attempt has come back. */
  readonly startByMs: number;
}

export const noExtras: TaskExtras = { tags: [], timeoutMs: 0, ttlMs: 0, startByMs: 0 };

export interface Artifact {
  readonly name: string;
  readonly url: string;
  /** For a file that the server stores: its size, the hash of its content, and its type. */
  readonly bytes?: number;
  readonly sha256?: string;
  readonly contentType?: string;
}

/** The result of a worker. */
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
    case "held":
      return "PENDING";
    case "leased":
      return "IN_PROGRESS";
    case "dead":
      return "FAILED";
    case "done":
      return place.how === "completed" ? "COMPLETED" : "FAILED";
  }
}

/** A failure is a dead letter, or a task that ended as failed. A cancelled task is none. */
export function isFailure({ place }: Pick<Task, "place">): boolean {
  return place.in === "dead" || (place.in === "done" && place.how === "failed");
}

/** The queue a command belongs to: commands differ only by their letters, not by case. */
export function queueOf(command: string): string {
  return command.toLowerCase();
}

/** Priorities are the whole numbers 0 to 9; the highest is delivered first. */
export const priorityMax = 9;

/** The nearest priority to any number, so that an odd value never loses a task. */
export function clampPriority(priority: number): number {
  if (Number.isNaN(priority)) return 0;
  return Math.trunc(Math.min(priorityMax, Math.max(0, priority)));
}
