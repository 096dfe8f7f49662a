/**
 * The schedules of a shard. A schedule and all its tasks are in one shard, so its live tasks can be counted exactly.
 *
 * - Memory holds every schedule without a long payload, and can be rebuilt from the store.
 * - A task and the state of its schedule are written in one log record: a crash or another leader fires nothing twice
 *   and leaves nothing out.
 * - The next nominal instant is not stored. It follows from the spec and `handledMs`, so that other data of time
 *   zones, after an update or a change of the leader, cannot repeat an instant that was handled.
 */
import { limits } from "@codeq/protocol";
import {
  afterEnd,
  type Change,
  compileSpec,
  countOutcome,
  durationMs,
  type Fired,
  fire,
  isFailure,
  isLive,
  newScheduleState,
  nextNominal,
  pauseSchedule,
  queueOf,
  resumeSchedule,
  type SchedulePause,
  type SchedulePolicy,
  type ScheduleState,
  type Spec,
  type SpecText,
  skipHeld,
  spreadDelayMs,
  statusOf,
  type Task,
  type TaskId,
  type TaskSchedule,
  type TenantId,
} from "@codeq/queue";
import type { Exceeded } from "../../config/quotas.ts";
import type { ScheduleReport } from "../../telemetry/events.ts";
import type { Clock } from "../clock.ts";
import { type HeapItem, IndexedHeap } from "../indexed-heap.ts";
import {
  type InstantOfSchedule,
  type PutRecord,
  removalsOfSchedule,
  type ScheduleOf,
  type ScheduleOptions,
  type ShownRun,
  type ShownSchedule,
  specTextOf,
  textOfOptions,
  writeOfSchedule,
  writeOfState,
} from "../records/schedule-record.ts";
import { pageOf } from "../search/large-pages.ts";
import type { Run } from "../search/task-search.ts";
import type { QueueName, RecordWrite, Store } from "../store/store.ts";
import type { Zones } from "../zones.ts";
import type { QuotaOf } from "./tenant-quotas.ts";

export type PutSchedule =
  | { readonly ok: true; readonly schedule: ShownSchedule; readonly isNew: boolean }
  | { readonly ok: false; readonly code: "version_mismatch"; readonly version: number };

export type RanSchedule =
  | { readonly ok: true; readonly taskId: TaskId }
  | { readonly ok: false; readonly code: "schedule_not_found" }
  | { readonly ok: false; readonly code: "schedule_busy"; readonly taskId: TaskId }
  | { readonly ok: false; readonly code: "quota_exceeded"; readonly exceeded: Exceeded };

export interface WantedSchedules {
  readonly tenantId: TenantId;
  readonly prefix: string;
  /** The id that the page begins behind. */
  readonly after: string;
  readonly limit: number;
}

interface Entry extends HeapItem, ScheduleOf {
  /** Without its payload when that is long. */
  record: PutRecord;
  hasLongPayload: boolean;
  payloadBytes: number;
  /** Finds the compiled spec. */
  specText: string;
  state: ScheduleState;
  policy: SchedulePolicy;
  /** Tasks that have not ended. */
  live: Set<TaskId>;
  /** The next nominal instant, which can take milliseconds to find. */
  nextMs: number | undefined;
}

/** Longer payloads are not kept in memory. */
const keptPayloadChars = 256;
const specsMax = 1000;
/** Shared by schedules that have created nothing: a set of its own is a tenth of what a schedule takes. */
const noLive: Set<TaskId> = new Set();
/** Tasks that a schedule with `replace` cancels when it fires; those beyond are cancelled when it fires again. */
const cancelledMax = 500;

/** What a nominal instant comes to. */
export interface CreatedScheduled {
  readonly changes: readonly Change[];
  /** The task that has the unique key, so that no task is created. */
  readonly heldBy: TaskId | undefined;
}

export interface SchedulesParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly zones: Zones;
  readonly create: (
    tenantId: TenantId,
    options: ScheduleOptions,
    schedule: TaskSchedule,
  ) => CreatedScheduled;
  /** The cancellation of a task; undefined when it has ended. */
  readonly cancel: (id: TaskId, graceMs: number) => Change | undefined;
  readonly exceededBy: (task: QuotaOf) => Exceeded | undefined;
  /** How many such tasks the tenant may have beside those that it has. */
  readonly roomFor: (task: QuotaOf) => number;
  /**
   * Writes changes of tasks and the state of the schedules that they move in one log record. Resolves when that is
   * durable.
   */
  readonly apply: (changes: readonly Change[]) => Promise<void>;
  /** The same for a schedule that has moved, even without a task. Calls `report` when that is durable. */
  readonly fire: (changes: readonly Change[], moved: ScheduleOf, report: () => void) => void;
}

export class Schedules {
  /** Called when a schedule may be due earlier than before. */
  onDue: () => void = () => {};
  /** Called with what became durable. */
  onReport: (report: ScheduleReport) => void = () => {};
  readonly #parts: SchedulesParts;
  readonly #tenants: Map<TenantId, Map<string, Entry>> = new Map();
  /** By tenant, how many tasks of its schedules have not ended. */
  readonly #live: Map<TenantId, number> = new Map();
  #size = 0;
  readonly #due: IndexedHeap<Entry> = new IndexedHeap();
  /** Compiled specs by their texts. */
  readonly #specs: Map<string, Spec> = new Map();
  #backfill: Promise<unknown> = Promise.resolve();

  constructor(parts: SchedulesParts) {
    this.#parts = parts;
  }

  get size(): number {
    return this.#size;
  }

  /** When the first task is to be created, on the wall clock. */
  get dueMs(): number | undefined {
    return this.#due.peek()?.dueMs;
  }

  /** Reads everything from the store. */
  async recover(): Promise<void> {
    for (const entry of [...this.#due.values()]) this.#due.remove(entry);
    this.#tenants.clear();
    this.#live.clear();
    this.#size = 0;
    const { store } = this.#parts;
    for await (const { record, state } of store.schedules()) this.#add(record, state);
    for await (const { tenantId, id, taskId } of store.liveOfSchedules()) {
      const entry = this.#find({ tenantId, id });
      if (entry !== undefined) this.#addLive(entry, taskId);
    }
    for (const entry of this.#waiting()) this.#plan(entry);
    this.onDue();
  }

  /** Creates or changes a schedule; its spec has been checked. */
  async put(
    of: ScheduleOf,
    options: ScheduleOptions,
    ifVersion: number | undefined,
  ): Promise<PutSchedule> {
    const { store, clock } = this.#parts;
    const left = this.#find(of) === undefined ? await this.#leftBy(of) : [];
    store.assertWritable();
    const before = this.#find(of);
    const version = before?.record.version ?? 0;
    if (ifVersion !== undefined && ifVersion !== version) {
      return { ok: false, code: "version_mismatch", version };
    }
    const nowMs = Math.floor(clock.nowMs());
    if (before === undefined) {
      const record = { ...of, options, version: 1, createdMs: nowMs, updatedMs: nowMs };
      const entry = this.#add(record, newScheduleState(nowMs));
      for (const id of left) if (isLiveTask(store.task(id))) this.#addLive(entry, id);
      await this.#write(entry, [writeOfSchedule(record)]);
      return { ok: true, schedule: this.#shown(entry), isNew: true };
    }
    const known = this.#optionsOf(before);
    if (known !== undefined && textOfOptions(known) === textOfOptions(options)) {
      // The request before may not be durable yet.
      await store.commitRecords([]).done;
      return { ok: true, schedule: this.#shown(before), isNew: false };
    }
    const isSameSpec = before.specText === textOfSpec(options);
    if (!isSameSpec) this.#settle(before, nowMs);
    const record = { ...before.record, options, version: version + 1, updatedMs: nowMs };
    this.#take(before, record);
    // A clock that was set back must not make instants of the new spec due that were those of the old one.
    const handledMs = Math.max(before.state.handledMs, nowMs);
    if (!isSameSpec) before.state = { ...before.state, handledMs };
    this.#plan(before);
    await this.#write(before, [writeOfSchedule(record)]);
    return { ok: true, schedule: this.#shown(before), isNew: false };
  }

  /** Tasks of a deleted schedule, which count when one with its id is put again, as after a restart. */
  async #leftBy(of: ScheduleOf): Promise<readonly TaskId[]> {
    const left: TaskId[] = [];
    for await (const { taskId } of this.#parts.store.liveOfSchedules(of)) left.push(taskId);
    return left;
  }

  /** Counts everything up to now by the spec that is about to change. */
  #settle(entry: Entry, nowMs: number): void {
    const { pause } = entry.state;
    if (pause === undefined) {
      this.#fire(entry);
      return;
    }
    const skipped = resumeSchedule(this.#specOf(entry), entry.policy, entry.state, nowMs);
    entry.state = { ...skipped.state, pause };
  }

  async #write(entry: Entry, put: readonly RecordWrite[] = []): Promise<void> {
    await this.#parts.store.commitRecords([...put, writeOfState(entry, entry.state)]).done;
  }

  get(of: ScheduleOf): ShownSchedule | undefined {
    const entry = this.#find(of);
    return entry && this.#shown(entry);
  }

  /** In the order of their ids. */
  list({ tenantId, prefix, after, limit }: WantedSchedules): Run<ShownSchedule> {
    const ofTenant = this.#tenants.get(tenantId);
    const ids = [...(ofTenant?.keys() ?? [])].filter((id) => id > after && id.startsWith(prefix));
    ids.sort();
    return pageOf(ids.slice(0, limit), ids.length > limit, (id) => {
      const entry = ofTenant?.get(id);
      const item = entry && this.#shown(entry);
      return item && { item, chars: item.payload.length };
    });
  }

  count(tenantId: TenantId): number {
    return this.#tenants.get(tenantId)?.size ?? 0;
  }

  /** Whether a schedule creates tasks in a queue. */
  hasQueue({ tenantId, name }: QueueName): boolean {
    const all = [...(this.#tenants.get(tenantId)?.values() ?? [])];
    return all.some(({ record }) => queueOf(record.options.command) === name);
  }

  /** False when there is no such schedule. */
  async delete(of: ScheduleOf): Promise<boolean> {
    this.#parts.store.assertDeletable();
    const entry = this.#find(of);
    if (entry === undefined) return false;
    const ofTenant = this.#tenants.get(of.tenantId);
    ofTenant?.delete(of.id);
    if (ofTenant?.size === 0) this.#tenants.delete(of.tenantId);
    this.#size -= 1;
    this.#countLive(of.tenantId, -entry.live.size);
    this.#due.remove(entry);
    await this.#parts.store.commitRecords(removalsOfSchedule(of)).done;
    return true;
  }

  /** What is due now is decided first; nothing is created from then on. */
  async pause(of: ScheduleOf, pause: SchedulePause): Promise<ShownSchedule | undefined> {
    this.#parts.store.assertWritable();
    const entry = this.#find(of);
    if (entry === undefined) return undefined;
    if (entry.state.pause === undefined) this.#fire(entry);
    entry.state = pauseSchedule(entry.state, pause);
    this.#plan(entry);
    await this.#write(entry);
    this.#report(entry, { pause });
    return this.#shown(entry);
  }

  async resume(of: ScheduleOf): Promise<ShownSchedule | undefined> {
    const { store, clock } = this.#parts;
    store.assertWritable();
    const entry = this.#find(of);
    if (entry === undefined) return undefined;
    if (entry.state.pause !== undefined) {
      const nowMs = Math.floor(clock.nowMs());
      const resumed = resumeSchedule(this.#specOf(entry), entry.policy, entry.state, nowMs);
      entry.state = resumed.state;
      this.#plan(entry);
      await this.#write(entry);
      this.#report(entry, { ...resumed, isResumed: true });
    }
    return this.#shown(entry);
  }

  /** Creates a task now; the plan does not change. */
  async run(of: ScheduleOf): Promise<RanSchedule> {
    const { store, clock, exceededBy } = this.#parts;
    store.assertWritable();
    const entry = this.#find(of);
    if (entry === undefined) return { ok: false, code: "schedule_not_found" };
    const [running] = entry.live;
    const isCrowded = (this.#live.get(of.tenantId) ?? 0) >= limits.scheduledLiveMax;
    if (running !== undefined && (isCrowded || entry.policy.overlap !== "allow")) {
      return { ok: false, code: "schedule_busy", taskId: running };
    }
    const exceeded = exceededBy(quotaOf(entry));
    if (exceeded !== undefined) return { ok: false, code: "quota_exceeded", exceeded };
    const { changes, held, heldBy } = this.#create(entry, [Math.floor(clock.nowMs())], "manual");
    await this.#parts.apply(changes);
    if (heldBy !== undefined && entry.record.options.unique?.on === "refuse") {
      return { ok: false, code: "schedule_busy", taskId: heldBy };
    }
    const created = held.length > 0 ? heldBy : changes.at(-1)?.after?.id;
    if (created === undefined) return { ok: false, code: "schedule_not_found" };
    return { ok: true, taskId: created };
  }

  /**
   * Creates tasks for nominal instants of the past that have none. Answers with the outcome of each. One at a time,
   * so that no instant gets two tasks.
   */
  backfill(of: ScheduleOf, instants: readonly number[]): Promise<readonly Backfilled[]> {
    const done = this.#backfill.then(() => this.#backfillNow(of, instants));
    this.#backfill = done.catch(() => {});
    return done;
  }

  /** Nominal instants of a stretch of the past that have no task, and where to go on; a limit bounds the search. */
  async missing(
    of: ScheduleOf,
    { afterMs, untilMs, limit }: { afterMs: number; untilMs: number; limit: number },
  ): Promise<{ readonly instants: readonly number[]; readonly nextMs: number | undefined }> {
    const entry = this.#find(of);
    const instants: number[] = [];
    if (entry === undefined) return { instants, nextMs: undefined };
    const spec = this.#specOf(entry);
    const lastMs = Math.min(untilMs, Math.floor(this.#parts.clock.nowMs()));
    let at = spec.next(afterMs);
    for (let looked = 0; at !== undefined && at <= lastMs; looked++, at = spec.next(at)) {
      if (looked === limit) return { instants, nextMs: at - 1 };
      const isDue = at > entry.state.handledMs || at === entry.state.waitingMs;
      const hasTask = (await this.#parts.store.runOfSchedule(of, at)) !== undefined;
      if (!isDue && !hasTask) instants.push(at);
    }
    return { instants, nextMs: undefined };
  }

  async #backfillNow(of: ScheduleOf, instants: readonly number[]): Promise<readonly Backfilled[]> {
    const { store, roomFor, apply } = this.#parts;
    const changes: Change[] = [];
    const answers: Backfilled[] = [];
    for (const ms of instants) {
      const known = await store.runOfSchedule(of, ms);
      const entry = this.#find(of);
      if (entry === undefined) answers.push("schedule_not_found");
      else if (known !== undefined || entry.state.waitingMs === ms) answers.push("already_ran");
      else if (roomFor(quotaOf(entry)) <= changes.length) answers.push("quota_exceeded");
      else {
        changes.push(...this.#create(entry, [ms], "backfill").changes);
        answers.push("created");
      }
    }
    store.assertWritable();
    if (changes.length > 0) await apply(changes);
    return answers;
  }

  /** Tasks as long as they are kept, and the last skips, the newest first; undefined without the schedule. */
  async runs(of: ScheduleOf, limit: number): Promise<readonly ShownRun[]> {
    const { store } = this.#parts;
    const ids = await store.runsOfSchedule(of, limit);
    const tasks = ids.flatMap((id) => store.task(id) ?? []).flatMap(runOf);
    const skips = (this.#find(of)?.state.skips ?? []).map(
      ({ why, fromMs, toMs, count }): ShownRun => ({
        atMs: fromMs,
        untilMs: toMs,
        kind: "skipped",
        why,
        count,
      }),
    );
    return newestRuns([...tasks, ...skips], limit);
  }

  async look(of: ScheduleOf, nominalMs: number): Promise<InstantOfSchedule> {
    const taskId = await this.#parts.store.runOfSchedule(of, nominalMs);
    const skips = this.#find(of)?.state.skips.find(
      ({ fromMs, toMs }) => fromMs <= nominalMs && nominalMs <= toMs,
    );
    return { taskId, skips };
  }

  /** Fires what is due; at most so many schedules. Resolves when that is durable. */
  async fireDue(max: number): Promise<void> {
    const { store, clock } = this.#parts;
    store.assertWritable();
    const nowMs = clock.nowMs();
    let fired = 0;
    for (; fired < max; fired++) {
      const entry = this.#due.peek();
      if (entry === undefined || entry.dueMs > nowMs) break;
      this.#fire(entry);
    }
    if (fired > 0) await store.commitRecords([]).done;
  }

  /** Decides and writes in this turn. */
  #fire(entry: Entry): void {
    const { clock, cancel } = this.#parts;
    const freed = this.#afterEnd(entry, entry.state);
    if (freed !== undefined) {
      this.#advance(entry, freed);
      return;
    }
    const room = this.#creatableOf(entry);
    const input = { nowMs: clock.nowMs(), live: entry.live.size, room };
    const outcome = fire(this.#specOf(entry), entry.policy, entry.state, input);
    if (outcome.state.handledMs === entry.state.handledMs) {
      this.#plan(entry);
      return;
    }
    const cancelled: Change[] = [];
    if (outcome.cancels) {
      const graceMs = entry.record.options.graceSeconds * 1000;
      const oldest = [...entry.live].slice(0, cancelledMax);
      cancelled.push(...oldest.flatMap((id) => cancel(id, graceMs) ?? []));
    }
    this.#advance(entry, outcome, cancelled);
  }

  /** Moves the schedule on, and creates its tasks as far as they may have their unique key. */
  #advance(entry: Entry, outcome: Fired, others: readonly Change[] = []): void {
    const before = entry.state;
    entry.state = outcome.state;
    const { changes, held } = this.#create(entry, outcome.fire, "fired");
    const did = skipHeld(before, outcome, held);
    if (held.length > 0) entry.state = did.state;
    changes.push(...others);
    this.#parts.fire(changes, entry, () => this.#report(entry, did));
    this.#plan(entry);
  }

  /**
   * The tasks of some instants. Of several instants with a unique key, only the last one becomes a task. Nothing when
   * the task of the schedule cannot be read: then the schedule is paused, and says so.
   */
  #create(
    entry: Entry,
    instants: readonly number[],
    kind: TaskSchedule["kind"],
  ): { readonly changes: Change[]; readonly held: number[]; readonly heldBy: TaskId | undefined } {
    const options = instants.length === 0 ? undefined : this.#optionsOf(entry);
    const changes: Change[] = [];
    const held: number[] = [];
    let heldBy: TaskId | undefined;
    if (options === undefined) {
      if (instants.length > 0) this.#pauseDamaged(entry);
      return { changes, held, heldBy };
    }
    const isOne = options.unique !== undefined && kind !== "backfill";
    for (const forMs of instants) {
      const isSuperseded = isOne && forMs !== instants.at(-1);
      const made = isSuperseded
        ? undefined
        : this.#parts.create(entry.tenantId, options, { id: entry.id, forMs, kind });
      if (made !== undefined) changes.push(...made.changes);
      heldBy = made?.heldBy;
      const last = made?.changes.at(-1);
      if (last === undefined || last.before !== undefined) held.push(forMs);
    }
    return { changes, held, heldBy };
  }

  #pauseDamaged(entry: Entry): void {
    const reason = "the stored task of the schedule is damaged; put the schedule again";
    const atMs = Math.floor(this.#parts.clock.nowMs());
    entry.state = pauseSchedule(entry.state, { by: "server", reason, atMs });
  }

  #optionsOf({ record, hasLongPayload }: Entry): ScheduleOptions | undefined {
    return hasLongPayload ? this.#parts.store.schedule(record)?.options : record.options;
  }

  /** Reports what became durable. */
  #report({ tenantId, id: scheduleId, policy, record }: Entry, did: Done): void {
    const { fire: fired = [], skipped = [], pause, isResumed = false } = did;
    const atMs = Math.floor(this.#parts.clock.nowMs());
    const last = fired.at(-1);
    const lateMs = last === undefined ? 0 : Math.max(0, atMs - last - policy.delayMs);
    const { command } = record.options;
    const of = { tenantId, scheduleId, atMs, command };
    this.onReport({ ...of, fired: fired.length, lateMs, skipped, pause, isResumed });
  }

  /**
   * Follows changes of tasks before they are written. Returns what has to be written with them: tasks that waited for
   * a task to end, and the states of the schedules; and what to call when that is durable.
   */
  follow(changes: readonly Change[], touched: readonly ScheduleOf[] = []): Followed {
    if (touched.length === 0 && !changes.some(isOfSchedule)) {
      return { changes, writes: [], reports: [] };
    }
    const all = [...changes];
    const reports: (() => void)[] = [];
    const changed = new Set(touched as readonly Entry[]);
    // A task that is created here is followed as well, which adds it to the live tasks.
    for (let at = 0; at < all.length; at++) {
      const change = all[at] as Change;
      const entry = this.#entryOf(change);
      if (entry === undefined) continue;
      const state = this.#followOne(entry, change, { all, reports });
      if (state === entry.state) continue;
      entry.state = state;
      changed.add(entry);
      this.#plan(entry);
    }
    const writes: RecordWrite[] = [];
    for (const entry of changed) {
      if (this.#find(entry) === entry) writes.push(writeOfState(entry, entry.state));
    }
    return { changes: all, writes, reports };
  }

  #entryOf({ before, after }: Change): Entry | undefined {
    const task = (after ?? before) as Task;
    if (task.schedule === undefined || task.schedule.kind === "backfill") return undefined;
    return this.#find({ tenantId: task.tenantId, id: task.schedule.id });
  }

  #followOne(
    entry: Entry,
    { before, after, because }: Change,
    { all, reports }: { readonly all: Change[]; readonly reports: (() => void)[] },
  ): ScheduleState {
    const wasLive = before !== undefined && isLive(before);
    const isLiveNow = after !== undefined && isLive(after);
    if (isLiveNow) this.#addLive(entry, after.id);
    else if (before !== undefined) this.#dropLive(entry, before.id);
    if (!wasLive || isLiveNow) return entry.state;
    const { clock, store } = this.#parts;
    const nowMs = Math.floor(clock.nowMs());
    // A task that was cancelled or deleted neither failed nor succeeded.
    const isOutcome = after !== undefined && because !== "cancelled" && after.cancelMs === 0;
    const state = isOutcome
      ? countOutcome(entry.policy, entry.state, { hasFailed: isFailure(after), nowMs })
      : entry.state;
    const { pause } = state;
    if (pause !== entry.state.pause) reports.push(() => this.#report(entry, { pause }));
    // A full disk takes the end of a task, but no new one: that is created when there is room. A task with a unique
    // key is created a moment later, when the change that gives the key back is known.
    const isNow = store.state === "open" && entry.record.options.unique === undefined;
    const next = isNow ? this.#afterEnd(entry, state) : undefined;
    if (next === undefined) {
      if (state.waitingMs !== undefined) this.#plan(entry);
      return state;
    }
    all.push(...this.#create(entry, next.fire, "fired").changes);
    reports.push(() => this.#report(entry, next));
    return next.state;
  }

  /** What follows when the task that is waited for has ended; undefined while it has not. */
  #afterEnd(entry: Entry, state: ScheduleState): Fired | undefined {
    if (state.waitingMs === undefined) return undefined;
    const nowMs = Math.floor(this.#parts.clock.nowMs());
    const { policy, live } = entry;
    return afterEnd(policy, state, { nowMs, live: live.size, room: this.#creatableOf(entry) });
  }

  /** How many tasks the schedules of the tenant may create now; those that have not ended are in memory. */
  #creatableOf(entry: Entry): number {
    const left = limits.scheduledLiveMax - (this.#live.get(entry.tenantId) ?? 0);
    return Math.max(0, Math.min(left, this.#parts.roomFor(quotaOf(entry))));
  }

  #addLive(entry: Entry, id: TaskId): void {
    if (entry.live.has(id)) return;
    if (entry.live === noLive) entry.live = new Set();
    entry.live.add(id);
    this.#countLive(entry.tenantId, 1);
  }

  #dropLive({ live, tenantId }: Entry, id: TaskId): void {
    if (live.delete(id)) this.#countLive(tenantId, -1);
  }

  #countLive(tenantId: TenantId, change: number): void {
    const count = (this.#live.get(tenantId) ?? 0) + change;
    if (count === 0) this.#live.delete(tenantId);
    else this.#live.set(tenantId, count);
  }

  #waiting(): Entry[] {
    const all = [...this.#tenants.values()].flatMap((ofTenant) => [...ofTenant.values()]);
    return all.filter(({ state }) => state.waitingMs !== undefined);
  }

  #add(record: PutRecord, state: ScheduleState): Entry {
    const { tenantId, id, options } = record;
    const entry: Entry = {
      tenantId,
      id,
      record,
      hasLongPayload: false,
      payloadBytes: 0,
      specText: "",
      state,
      policy: policyOf(record, options),
      live: noLive,
      nextMs: undefined,
      dueMs: 0,
      heapIndex: -1,
    };
    this.#take(entry, record);
    const ofTenant = this.#tenants.get(tenantId) ?? new Map<string, Entry>();
    this.#tenants.set(tenantId, ofTenant.set(id, entry));
    this.#size += 1;
    this.#plan(entry);
    return entry;
  }

  #take(entry: Entry, record: PutRecord): void {
    const { options } = record;
    entry.hasLongPayload = options.payload.length > keptPayloadChars;
    entry.payloadBytes = Buffer.byteLength(options.payload);
    entry.policy = policyOf(record, options);
    entry.specText = textOfSpec(options);
    entry.record = entry.hasLongPayload
      ? { ...record, options: { ...options, payload: "" } }
      : record;
  }

  /** Puts the schedule where its next task is due. */
  #plan(entry: Entry): void {
    const { state, live } = entry;
    const isFree = state.waitingMs !== undefined && live.size === 0 && state.pause === undefined;
    entry.nextMs = this.#nextOf(entry);
    const nextMs = isFree ? state.waitingMs : entry.nextMs;
    if (nextMs === undefined) {
      this.#due.remove(entry);
      return;
    }
    entry.dueMs = nextMs + entry.policy.delayMs;
    if (entry.heapIndex < 0) this.#due.push(entry);
    else this.#due.update(entry);
    if (this.#due.peek() === entry) this.onDue();
  }

  #nextOf(entry: Entry): number | undefined {
    return nextNominal(this.#specOf(entry), entry.policy, entry.state);
  }

  #specOf({ record: { options }, specText: text }: Entry): Spec {
    const known = this.#specs.get(text);
    if (known !== undefined) return known;
    const zone = this.#parts.zones.find(options.tz);
    const spec = zone && compileSpec(specTextOf(options), zone);
    if (this.#specs.size >= specsMax) {
      const [oldest] = this.#specs.keys();
      this.#specs.delete(oldest as string);
    }
    // A zone that this runtime does not know any more fires nothing until it does.
    const compiled = spec?.ok ? spec.value : neverFires;
    this.#specs.set(text, compiled);
    return compiled;
  }

  #shown(entry: Entry): ShownSchedule {
    const { record, state, policy, id, live } = entry;
    const { fired, skipped, failures, pause, handledMs, firedMs, waitingMs } = state;
    const { version, createdMs, updatedMs } = record;
    return {
      ...(this.#optionsOf(entry) ?? record.options),
      id,
      version,
      createdMs,
      updatedMs,
      nextMs: pause === undefined ? entry.nextMs : undefined,
      delayMs: policy.delayMs,
      lastMs: firedMs,
      waitingMs,
      handledMs,
      fired,
      skipped,
      live: live.size,
      failures,
      paused: pause,
    };
  }

  #find(of: ScheduleOf): Entry | undefined {
    return this.#tenants.get(of.tenantId)?.get(of.id);
  }
}

/** What a schedule did. */
type Done = Partial<Pick<Fired, "fire" | "skipped">> & {
  readonly pause?: SchedulePause | undefined;
  readonly isResumed?: boolean;
};

interface Followed {
  readonly changes: readonly Change[];
  readonly writes: readonly RecordWrite[];
  readonly reports: readonly (() => void)[];
}

/** Whether a schedule created the task. */
function isOfSchedule({ before, after }: Change): boolean {
  return (after ?? before)?.schedule !== undefined;
}

export type Backfilled = "created" | "already_ran" | "schedule_not_found" | "quota_exceeded";

function quotaOf({ tenantId, record, payloadBytes }: Entry): QuotaOf {
  const { command, lane } = record.options;
  return { tenantId, command, lane, payloadBytes };
}

function isLiveTask(task: Task | undefined): boolean {
  return task !== undefined && isLive(task);
}

/** The newest first. */
export function newestRuns(runs: readonly ShownRun[], limit: number): readonly ShownRun[] {
  return runs.toSorted((one, other) => other.atMs - one.atMs).slice(0, limit);
}

function runOf({ id, place, createdMs, schedule }: Task): ShownRun[] {
  if (schedule === undefined) return [];
  const { forMs: atMs, kind } = schedule;
  return [{ atMs, taskId: id, status: statusOf(place), createdMs, kind, count: 1 }];
}

function policyOf({ tenantId, id }: ScheduleOf, options: ScheduleOptions): SchedulePolicy {
  const { overlap, catchUp, within, spread, times, pauseAfterFailures } = options;
  return {
    overlap,
    catchUp,
    withinMs: durationMs(within),
    delayMs: spreadDelayMs(`${tenantId}/${id}`, durationMs(spread) ?? 0),
    times,
    pauseAfterFailures,
  };
}

/** A schedule that had created all its tasks counts from now when it may create more. */
function textOfSpec({ times, ...options }: SpecText & { readonly times: number }): string {
  return JSON.stringify([specTextOf(options), times]);
}

const neverFires: Spec = { next: () => undefined, count: () => 0 };
