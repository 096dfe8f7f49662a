/**
 * A batch: members, and one callback that is held until they have ended. What a batch counts is a function of the
 * changes of its tasks, and is written in their log record: the end of the last member, its count and the release of the
 * callback are one fact.
 *
 *   open       takes members; leaves by seal, failure with `failFast`, cancel or expiry
 *   sealed     waits for its members; leaves with the end of the last one, or by cancel
 *   released   the callback was released, once
 *   failed     the callback is a dead letter, because a member failed; a replay of the member holds it again
 *   cancelled  the callback was cancelled; when the whole batch was, members that have not ended are cancelled
 *   expired    it was not sealed in time; the callback is a dead letter, and members go on
 */
import type { Retention } from "../ended.ts";
import { emptyResult } from "../ended.ts";
import { type BatchEnd, isFailure, type Task, type TaskId } from "../task.ts";

export const batchPhases = [
  "open",
  "sealed",
  "released",
  "failed",
  "cancelled",
  "expired",
] as const;
export type BatchPhase = (typeof batchPhases)[number];

/** When the callback runs: when every member succeeded, or when every member has ended. */
export const batchConditions = ["success", "end"] as const;

/** What a batch is created with. */
export interface BatchSpec {
  readonly callbackId: TaskId;
  readonly on: (typeof batchConditions)[number];
  /** The first failure seals the batch and cancels the members that have not ended. */
  readonly failFast: boolean;
  /** A batch that is open expires then. */
  readonly openUntilMs: number;
}

/** What is left to do for the members of a batch, piece by piece. */
export const batchChores = ["none", "cancel", "delete"] as const;

export interface BatchState extends BatchEnd {
  readonly phase: BatchPhase;
  /** All members that it ever had, and those that have not ended. */
  readonly total: number;
  readonly pending: number;
  /** A member that failed. */
  readonly failure: BatchFailure | undefined;
  /** When the callback was released, failed or cancelled; 0 before. */
  readonly endedMs: number;
  readonly chore: (typeof batchChores)[number];
}

export interface BatchFailure {
  readonly taskId: TaskId;
  readonly error: string;
}

export const newBatchState: BatchState = {
  phase: "open",
  total: 0,
  pending: 0,
  succeeded: 0,
  failed: 0,
  cancelled: 0,
  failure: undefined,
  endedMs: 0,
  chore: "none",
};

/** How much of the error of a member is kept. */
const failureCharsMax = 200;

type Part = "pending" | keyof BatchEnd;

/** What a member counts as. */
export function partOf(task: Task): Part {
  const { place } = task;
  if (isFailure(task)) return "failed";
  if (place.in !== "done") return "pending";
  return place.how === "cancelled" ? "cancelled" : "succeeded";
}

/** Whether members can be added. */
export function isUnfinished({ phase }: Pick<BatchState, "phase">): boolean {
  return phase === "open" || phase === "sealed";
}

/** Counts one change of a member; the same state when nothing changes. A member that was deleted stays counted. */
export function countMember(
  spec: Pick<BatchSpec, "failFast">,
  state: BatchState,
  before: Task | undefined,
  after: Task | undefined,
): BatchState {
  if (after === undefined) return state;
  const to = partOf(after);
  if (before === undefined) return { ...state, total: state.total + 1, [to]: state[to] + 1 };
  const from = partOf(before);
  if (from === to) return state;
  // One copy that is changed in place, because this is done for every end.
  const moved: { -readonly [Name in keyof BatchState]: BatchState[Name] } = { ...state };
  moved[from] -= 1;
  moved[to] += 1;
  if (to === "failed") return withFailure(spec, moved, after);
  if (state.failure?.taskId === after.id) moved.failure = undefined;
  // The callback did not run: the batch waits for the replayed member.
  const waits = from === "failed" && state.phase === "failed";
  return waits ? { ...moved, phase: "sealed", endedMs: 0 } : moved;
}

/** A failed member has left, because a new task has taken its place. */
export function withoutMember(state: BatchState, { id }: Task): BatchState {
  const failure = state.failure?.taskId === id ? undefined : state.failure;
  const left = { ...state, failure, total: state.total - 1, failed: state.failed - 1 };
  return state.phase === "failed" ? { ...left, phase: "sealed", endedMs: 0 } : left;
}

/** Whether a replay of a failed member can still lead to the callback. */
export function waitsForReplay({ phase }: Pick<BatchState, "phase">): boolean {
  return phase === "open" || phase === "sealed" || phase === "failed";
}

function withFailure(
  { failFast }: Pick<BatchSpec, "failFast">,
  state: BatchState,
  { id: taskId, error }: Task,
): BatchState {
  const failure = state.failure ?? { taskId, error: error.slice(0, failureCharsMax) };
  if (!failFast || !isUnfinished(state)) return { ...state, failure };
  return { ...state, failure, phase: "sealed", chore: "cancel" };
}

/** Follows what others did to the callback: a worker, an operator, or its retention. */
export function followCallback(
  state: BatchState,
  before: Task,
  after: Task | undefined,
  nowMs: number,
): BatchState {
  // Members that have to be cancelled are cancelled first.
  if (after === undefined) return state.chore === "cancel" ? state : { ...state, chore: "delete" };
  const wasHeld = before.place.in === "held";
  if (wasHeld && after.place.in === "done" && isUnfinished(state)) {
    return { ...state, phase: "cancelled", endedMs: nowMs };
  }
  const isForced = before.place.in === "dead" && after.place.in === "ready";
  const mayBe = state.phase === "failed" || state.phase === "expired";
  return isForced && mayBe ? { ...state, phase: "released", endedMs: nowMs } : state;
}

/** What a batch does that nothing is pending in; undefined while it waits. */
export function decideBatch(
  { on }: Pick<BatchSpec, "on">,
  { phase, pending, failed, cancelled }: BatchState,
): "release" | "fail" | undefined {
  if (phase !== "sealed" || pending > 0) return undefined;
  return on === "end" || failed + cancelled === 0 ? "release" : "fail";
}

/** The callback, which sees how the members ended. */
export function callbackAtEnd(task: Task, { succeeded, failed, cancelled }: BatchEnd): Task {
  const ended = { succeeded, failed, cancelled };
  return { ...task, batch: task.batch && { ...task.batch, ended } };
}

/** The held callback of a batch whose members have ended. */
export function releasedCallback(
  task: Task,
  end: BatchEnd,
  at: { readonly nowMs: number; readonly seq: number },
): Task {
  const { extras } = task;
  const ttlMs = extras?.ttlMs ?? 0;
  return {
    ...callbackAtEnd(task, end),
    place: { in: "ready", seq: at.seq },
    updatedMs: at.nowMs,
    extras: extras && (ttlMs === 0 ? extras : { ...extras, startByMs: at.nowMs + ttlMs }),
  };
}

/** The callback as a dead letter: it will not run by itself. */
export function failedCallback(
  task: Task,
  error: string,
  { nowMs, retention }: { readonly nowMs: number; readonly retention: Retention },
): Task {
  const expiresMs = retention.deadMs === 0 ? undefined : nowMs + retention.deadMs;
  return {
    ...task,
    error,
    result: emptyResult,
    updatedMs: nowMs,
    place: { in: "dead", atMs: nowMs, expiresMs },
  };
}

/** Why a callback failed, as its error. */
export function batchError({ phase, total, failed, cancelled, failure }: BatchState): string {
  if (phase === "expired") return "BATCH_EXPIRED: the batch was not sealed in time";
  const some = [
    failed > 0 ? `${failed} failed` : "",
    cancelled > 0 ? `${cancelled} cancelled` : "",
  ];
  const why = failure === undefined ? "" : `; task ${failure.taskId}: ${failure.error}`;
  return `BATCH_FAILED: ${some.filter(Boolean).join(", ")} of ${total}${why}`;
}

/** A callback that failed with its batch and has not run; it is held again when a member is replayed. */
export function heldAgain(task: Task, nowMs: number): Task {
  if (task.place.in !== "dead" || task.leaseToken !== 0) return task;
  return { ...task, error: "", result: undefined, updatedMs: nowMs, place: { in: "held" } };
}
