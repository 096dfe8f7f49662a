/**
 * The rule of schedules: which of the nominal instants that are due become tasks, and why the others are skipped.
 *
 * Every nominal instant up to `handledMs` was either fired or skipped, and was counted once; one of them may wait for
 * the running task to end. Nominal instants only grow, so a clock that is set back fires nothing twice.
 */
import type { Spec } from "./spec.ts";

type Overlap = "allow" | "skip" | "one" | "replace";
type CatchUp = "none" | "latest" | "all";

export const skipReasons = [
  "late",
  "superseded",
  "overlap",
  "replaced",
  "paused",
  "quota",
  "unique",
] as const;
/**
 * `late`: too late to catch up. `superseded`: a later one was due as well. `overlap`: a task of the schedule was
 * running. `replaced`: a later one replaced it while it waited. `paused`: the schedule was paused. `quota`: the tenant
 * had no room for the task, by its quota or because too many tasks of its schedules have not ended. `unique`: another task has the unique key.
 */
export type SkipReason = (typeof skipReasons)[number];

/** Skips in a row for the same reason. */
export interface Skips {
  readonly why: SkipReason;
  readonly fromMs: number;
  readonly toMs: number;
  readonly count: number;
}

export interface SchedulePause {
  /** Who paused it; `server` after too many failures. */
  readonly by: string;
  readonly reason: string;
  readonly atMs: number;
}

/** What a schedule does, without its task. */
export interface SchedulePolicy {
  readonly overlap: Overlap;
  readonly catchUp: CatchUp;
  /** How late a task may be created; undefined for the default of `catchUp`. */
  readonly withinMs: number | undefined;
  /** How long after each nominal instant its task is created: the share of this schedule in its `spread`. */
  readonly delayMs: number;
  /** Tasks to create in all; 0 for any number. */
  readonly times: number;
  /** The schedule is paused after so many failed tasks in a row; 0 for never. */
  readonly pauseAfterFailures: number;
}

export interface ScheduleState {
  readonly handledMs: number;
  readonly fired: number;
  /** The last nominal instant that became a task. */
  readonly firedMs: number | undefined;
  readonly skipped: Readonly<Record<SkipReason, number>>;
  /** The last skips, the newest at the end. */
  readonly skips: readonly Skips[];
  /** The nominal instant that waits for the running task to end. */
  readonly waitingMs: number | undefined;
  /** Failed tasks in a row. */
  readonly failures: number;
  readonly pause: SchedulePause | undefined;
}

export interface Fired {
  readonly state: ScheduleState;
  /** The nominal instants for which tasks are created now. */
  readonly fire: readonly number[];
  readonly skipped: readonly Skips[];
  /** Whether the running tasks are to be cancelled. */
  readonly cancels: boolean;
}

export interface FireInput {
  readonly nowMs: number;
  /** Tasks of the schedule that have not ended. */
  readonly live: number;
  /** How many tasks the tenant may have beside those that it has. */
  readonly room: number;
}

/** `all` catches up with so many. */
const catchUpMax = 1000;
/** How late a task may be with `none`, and with `latest` when nothing else is said. */
const onTimeMs = 60_000;
const latestMs = 3_600_000;
const skipsKept = 20;

const noSkips = Object.fromEntries(skipReasons.map((why) => [why, 0])) as ScheduleState["skipped"];

/** A schedule that counts from now. */
export function newScheduleState(nowMs: number): ScheduleState {
  return {
    handledMs: nowMs,
    fired: 0,
    firedMs: undefined,
    skipped: noSkips,
    skips: [],
    waitingMs: undefined,
    failures: 0,
    pause: undefined,
  };
}

/** The next nominal instant; undefined when there is none, and while the schedule is paused. */
export function nextNominal(
  spec: Spec,
  { times }: SchedulePolicy,
  { handledMs, fired, waitingMs, pause }: ScheduleState,
): number | undefined {
  if (pause !== undefined) return undefined;
  const planned = fired + (waitingMs === undefined ? 0 : 1);
  return times > 0 && planned >= times ? undefined : spec.next(handledMs);
}

/** Decides about all nominal instants that are due, the earliest first. */
export function fire(
  spec: Spec,
  policy: SchedulePolicy,
  state: ScheduleState,
  input: FireInput,
): Fired {
  const decision = new Decision(policy, state, input);
  const dueMs = Math.floor(input.nowMs - policy.delayMs);
  const lateMs = Math.ceil(lateBeforeMs(policy, input.nowMs)) - 1;
  const firstMs = decision.hasEnded ? undefined : spec.next(state.handledMs);
  if (firstMs === undefined || firstMs > dueMs) return decision.outcome();
  // Nearly always one instant is due, so that there is nothing to count.
  if (firstMs > lateMs && (spec.next(firstMs) ?? Number.POSITIVE_INFINITY) > dueMs) {
    decision.create(firstMs);
    return decision.outcome();
  }
  decision.skipAll("late", spec, lateMs);
  const isAll = policy.catchUp === "all";
  const olderMs = untilLast(spec, isAll ? catchUpMax : 1, { fromMs: decision.handledMs, dueMs });
  decision.skipAll(isAll ? "late" : "superseded", spec, olderMs);
  let nominalMs = spec.next(decision.handledMs);
  while (nominalMs !== undefined && nominalMs <= dueMs && !decision.hasEnded) {
    decision.create(nominalMs);
    nominalMs = spec.next(nominalMs);
  }
  return decision.outcome();
}

/** The instant behind which only so many nominal instants are due. */
function untilLast(
  spec: Spec,
  most: number,
  { fromMs, dueMs }: { readonly fromMs: number; readonly dueMs: number },
): number {
  const isMore = (ms: number): boolean => spec.count(ms, dueMs) > most;
  if (dueMs <= fromMs || !isMore(fromMs)) return fromMs;
  let low = fromMs;
  let high = dueMs;
  while (high - low > 1) {
    const middle = low + Math.floor((high - low) / 2);
    if (isMore(middle)) low = middle;
    else high = middle;
  }
  return high;
}

/** Nominal instants before this one are too late. */
function lateBeforeMs({ catchUp, withinMs, delayMs }: SchedulePolicy, nowMs: number): number {
  const within = catchUp === "none" ? Math.min(withinMs ?? onTimeMs, onTimeMs) : withinMs;
  return nowMs - delayMs - (within ?? lateDefaultMs[catchUp]);
}

const lateDefaultMs = { none: onTimeMs, latest: latestMs, all: Number.POSITIVE_INFINITY };

/** The running task has ended: creates the task that waited for it. */
export function afterEnd(
  policy: SchedulePolicy,
  state: ScheduleState,
  input: FireInput,
): Fired | undefined {
  const { waitingMs } = state;
  if (waitingMs === undefined || input.live > 0) return undefined;
  const decision = new Decision(policy, { ...state, waitingMs: undefined }, input);
  if (state.pause === undefined) decision.create(waitingMs);
  else decision.skip("paused", waitingMs);
  return decision.outcome();
}

/** Skips instants that were to be fired and got no task, because another task has their unique key. */
export function skipHeld(before: ScheduleState, outcome: Fired, held: readonly number[]): Fired {
  const [fromMs] = held;
  if (fromMs === undefined) return outcome;
  const fired = outcome.fire.filter((ms) => !held.includes(ms));
  const skips: Skips = { why: "unique", fromMs, toMs: held.at(-1) ?? fromMs, count: held.length };
  const { state } = outcome;
  return {
    ...outcome,
    fire: fired,
    skipped: [...outcome.skipped, skips],
    state: {
      ...state,
      fired: state.fired - held.length,
      firedMs: fired.at(-1) ?? before.firedMs,
      skipped: { ...state.skipped, unique: state.skipped.unique + held.length },
      skips: withSkips(state.skips, skips, fired),
    },
  };
}

/** Counts the outcome of a task, and pauses after too many failures. */
export function countOutcome(
  { pauseAfterFailures }: SchedulePolicy,
  state: ScheduleState,
  { hasFailed, nowMs }: { readonly hasFailed: boolean; readonly nowMs: number },
): ScheduleState {
  const failures = hasFailed ? state.failures + 1 : 0;
  if (failures === state.failures) return state;
  const isTooMany = pauseAfterFailures > 0 && failures >= pauseAfterFailures;
  if (!isTooMany || state.pause !== undefined) return { ...state, failures };
  const reason = failures === 1 ? "a task failed" : `${failures} tasks failed in a row`;
  return { ...state, failures, pause: { by: "server", reason, atMs: nowMs } };
}

export function pauseSchedule(state: ScheduleState, pause: SchedulePause): ScheduleState {
  return { ...state, pause };
}

/** What was due during the pause is skipped; the failures that led to it are forgotten. */
export function resumeSchedule(
  spec: Spec,
  policy: SchedulePolicy,
  state: ScheduleState,
  nowMs: number,
): Fired {
  const resumed = { ...state, pause: undefined, failures: 0 };
  const decision = new Decision(policy, resumed, { nowMs, live: 0, room: 0 });
  decision.skipAll("paused", spec, Math.floor(nowMs - policy.delayMs));
  return decision.outcome();
}

/** What is decided in one go. */
class Decision {
  handledMs: number;
  readonly #policy: SchedulePolicy;
  readonly #before: ScheduleState;
  readonly #fire: number[] = [];
  readonly #skipped: Skips[] = [];
  #live: number;
  #room: number;
  #waitingMs: number | undefined;
  #cancels = false;

  constructor(policy: SchedulePolicy, state: ScheduleState, { live, room }: FireInput) {
    this.#policy = policy;
    this.#before = state;
    this.handledMs = state.handledMs;
    this.#waitingMs = state.waitingMs;
    this.#live = live;
    this.#room = room;
  }

  /** Whether the schedule has created all its tasks. */
  get hasEnded(): boolean {
    const { times } = this.#policy;
    const waiting = this.#waitingMs === undefined ? 0 : 1;
    return times > 0 && this.#before.fired + this.#fire.length + waiting >= times;
  }

  skip(why: SkipReason, nominalMs: number): void {
    this.#add({ why, fromMs: nominalMs, toMs: nominalMs, count: 1 });
    this.handledMs = Math.max(this.handledMs, nominalMs);
  }

  #add(skips: Skips): void {
    const last = this.#skipped.at(-1);
    if (last === undefined || !areInARow(last, skips, this.#fire)) this.#skipped.push(skips);
    else this.#skipped[this.#skipped.length - 1] = joined(last, skips);
  }

  /** Skips everything up to an instant. */
  skipAll(why: SkipReason, spec: Spec, untilMs: number): void {
    const fromMs = this.hasEnded ? undefined : spec.next(this.handledMs);
    if (fromMs === undefined || fromMs > untilMs) return;
    const count = spec.count(this.handledMs, untilMs);
    const toMs = untilLast(spec, 0, { fromMs: this.handledMs, dueMs: untilMs });
    this.#add({ why, fromMs, toMs, count });
    this.handledMs = toMs;
  }

  create(nominalMs: number): void {
    this.handledMs = Math.max(this.handledMs, nominalMs);
    const { overlap } = this.#policy;
    if (overlap !== "allow" && this.#live > 0) {
      this.#overlap(overlap, nominalMs);
    } else if (this.#room <= 0) {
      this.skip("quota", nominalMs);
    } else {
      this.#fire.push(nominalMs);
      this.#live += 1;
      this.#room -= 1;
    }
  }

  #overlap(overlap: Exclude<Overlap, "allow">, nominalMs: number): void {
    const waitingMs = this.#waitingMs;
    if (overlap === "skip" || (overlap === "one" && waitingMs !== undefined)) {
      this.skip("overlap", nominalMs);
      return;
    }
    if (overlap === "replace") this.#cancels = true;
    if (waitingMs !== undefined) this.skip("replaced", waitingMs);
    this.#waitingMs = nominalMs;
  }

  outcome(): Fired {
    const before = this.#before;
    const skipped = this.#skipped;
    const counted = skipped.length === 0 ? before : this.#counted(skipped);
    const state: ScheduleState = {
      handledMs: this.handledMs,
      fired: before.fired + this.#fire.length,
      firedMs: this.#fire.at(-1) ?? before.firedMs,
      skipped: counted.skipped,
      skips: counted.skips,
      waitingMs: this.#waitingMs,
      failures: before.failures,
      pause: before.pause,
    };
    return { state, fire: this.#fire, skipped, cancels: this.#cancels };
  }

  #counted(skipped: readonly Skips[]): Pick<ScheduleState, "skipped" | "skips"> {
    const { skipped: before, skips, firedMs } = this.#before;
    const counts = { ...before };
    for (const { why, count } of skipped) counts[why] += count;
    const fired = firedMs === undefined ? this.#fire : [firedMs, ...this.#fire];
    const kept = skipped.reduce((all, next) => withSkips(all, next, fired), skips);
    return { skipped: counts, skips: kept };
  }
}

function withSkips(
  kept: readonly Skips[],
  next: Skips,
  fired: readonly number[],
): readonly Skips[] {
  const last = kept.at(-1);
  if (last === undefined || !areInARow(last, next, fired)) return [...kept, next].slice(-skipsKept);
  return [...kept.slice(0, -1), joined(last, next)];
}

/** Whether no task was created between skips for the same reason. */
function areInARow(one: Skips, other: Skips, fired: readonly number[]): boolean {
  return one.why === other.why && !fired.some((ms) => ms > one.toMs && ms < other.fromMs);
}

function joined(one: Skips, other: Skips): Skips {
  return {
    why: one.why,
    fromMs: Math.min(one.fromMs, other.fromMs),
    toMs: Math.max(one.toMs, other.toMs),
    count: one.count + other.count,
  };
}

/** The share of a schedule in its spread: the same for the same id, on every server. */
export function spreadDelayMs(key: string, spreadMs: number): number {
  if (spreadMs < 1) return 0;
  let hash = 0x811c9dc5;
  for (let at = 0; at < key.length; at++) {
    hash = Math.imul(hash ^ key.charCodeAt(at), 0x01000193) >>> 0;
  }
  return Math.floor((hash / 2 ** 32) * spreadMs);
}
