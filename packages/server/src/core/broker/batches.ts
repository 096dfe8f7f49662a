/**
 * The batches of a shard. A batch, its members and its callback are in one shard, so what it counts is exact.
 *
 * - The state of a batch is written in the log record of the change that it follows from. The end of the last member,
 *   its count and the release of the callback are one record: the callback comes neither early nor twice, and a crash
 *   or another leader finds all of it or nothing.
 * - Nothing is rebuilt at a start, and a batch at rest is on the disk only: memory has some states as a cache.
 * - What concerns many members, to cancel or to delete them, is done in the background, piece by piece.
 */
import { hash } from "node:crypto";
import { limits } from "@codeq/protocol";
import {
  type BatchPhase,
  type BatchState,
  batchError,
  type Change,
  callbackAtEnd,
  changeOf,
  countMember,
  decideBatch,
  failedCallback,
  followCallback,
  heldAgain,
  isFailure,
  isUnfinished,
  newBatchState,
  partOf,
  type Retention,
  releasedCallback,
  statusOf,
  type Task,
  type TaskId,
  type TenantId,
  waitsForReplay,
  withoutMember,
} from "@codeq/queue";
import type { Exceeded } from "../../config/quotas.ts";
import type { Clock } from "../clock.ts";
import {
  type BatchOf,
  type BatchOptions,
  type BatchRecord,
  batchOfAfter,
  dueWrites,
  removalsOfAwaited,
  removalsOfBatch,
  type ShownBatch,
  type ShownMember,
  stateKeyOf,
  writeOfBatch,
  writeOfBatchState,
  writesOfAwaited,
} from "../records/batch-record.ts";
import { type PageItem, pageOf } from "../search/large-pages.ts";
import type { Run } from "../search/task-search.ts";
import type { RecordWrite, Store } from "../store/store.ts";
import { TenantShares } from "../tenant-shares.ts";
import type { QuotaOf } from "./tenant-quotas.ts";

export type PutBatch =
  | { readonly ok: true; readonly batch: ShownBatch; readonly isNew: boolean }
  | { readonly ok: false; readonly code: "batch_exists" }
  | { readonly ok: false; readonly code: "quota_exceeded"; readonly exceeded: Exceeded };

export type ChangedBatch =
  | { readonly ok: true; readonly batch: ShownBatch }
  | { readonly ok: false; readonly code: "batch_not_found" | "batch_over" };

export type MemberRefusal = "batch_not_found" | "batch_sealed" | "batch_full";
export type AfterRefusal =
  | "after_unknown"
  | "after_failed"
  | "after_waits"
  | "after_full"
  | "after_crowded";

export interface WantedBatches {
  readonly tenantId: TenantId;
  /** The id that the page begins behind. */
  readonly after: string;
  readonly limit: number;
}

export interface WantedMembers {
  readonly after: string;
  readonly limit: number;
  readonly failed: boolean;
}

export interface FoundMembers {
  readonly members: readonly ShownMember[];
  readonly next: string | undefined;
}

interface Entry extends BatchOf {
  readonly record: BatchRecord;
  /** Made once, because it is used at every end of a member. */
  readonly stateKey: string;
  state: BatchState;
  /** The phase when its state was last written. */
  writtenPhase: BatchPhase | undefined;
  /** Where the index of moments has it. */
  dueMs: number | undefined;
}

/** Members that an explanation looks at, and how many of them it names. */
const lookedMax = 1000;
const namedMax = 3;

/** By name. */
type Entries = Map<string, Entry>;

export interface BatchesParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly nextSequence: () => number;
  readonly retentionOf: (task: Task) => Retention;
  /** The creation of a held task. */
  readonly create: (of: BatchOf, options: BatchOptions) => Change;
  /** The cancellation of a task; undefined when it has ended. */
  readonly cancel: (id: TaskId, graceMs: number) => Change | undefined;
  readonly remove: (tasks: readonly Task[]) => Promise<void>;
  readonly exceededBy: (task: QuotaOf) => Exceeded | undefined;
  /** Writes changes, what follows from them for these batches, and records, in one log record. */
  readonly apply: (
    changes: readonly Change[],
    batches: readonly BatchOf[],
    writes: readonly RecordWrite[],
  ) => Promise<void>;
}

/** A member can leave its batch, and no task joins one later. */
function isOfBatch({ before, after }: Change): boolean {
  return (before ?? after)?.batch !== undefined;
}

interface Awaited {
  readonly task: TaskId;
  readonly of: BatchOf;
}

export interface Followed {
  readonly changes: readonly Change[];
  readonly writes: readonly RecordWrite[];
  /** Tasks that batches wait for no more. */
  readonly over: readonly Awaited[];
}

export class Batches {
  /** States that are kept in memory. The simulation keeps fewer, and has smaller pieces of background work. */
  cachedMax = 1000;
  pieceMembers = 500;
  /** Called with the moment at which a batch expires or has something left to do. */
  onDue: (dueMs: number) => void = () => {};
  /** Since the start, how many batches came to each phase. */
  readonly became: Record<BatchPhase, number> = {
    open: 0,
    sealed: 0,
    released: 0,
    failed: 0,
    cancelled: 0,
    expired: 0,
  };
  readonly #parts: BatchesParts;
  readonly #cache: Map<string, Entry> = new Map();
  /** Tasks that have not succeeded, and the ids of the batches of tasks that wait for them with `after`. */
  readonly #awaited: Map<TaskId, Set<string>> = new Map();
  readonly #waits: TenantShares = new TenantShares(limits.afterWaitsMax);
  /** How far the members of a batch were looked at; begins again after a restart. */
  readonly #lookedTo: Map<string, string> = new Map();

  constructor(parts: BatchesParts) {
    this.#parts = parts;
  }

  /** After a full disk undid changes. */
  forget(): void {
    this.#cache.clear();
    this.#lookedTo.clear();
  }

  /** Reads which tasks others wait for. All else is read when it is needed. */
  async recover(): Promise<void> {
    this.forget();
    this.#awaited.clear();
    this.#waits.clear();
    // Each id is in memory once, however many tasks its batch waits for.
    const ids = new Map<string, string>();
    for await (const { taskId, of } of this.#parts.store.awaited()) {
      const id = ids.get(of.id) ?? of.id;
      ids.set(id, id);
      this.#await(taskId, { ...of, id });
    }
  }

  #await(task: TaskId, { tenantId, id }: BatchOf): void {
    const known = this.#awaited.get(task);
    if (known === undefined) this.#awaited.set(task, new Set([id]));
    else known.add(id);
    this.#waits.add(tenantId, 1);
  }

  #stopAwaiting(task: TaskId, { tenantId, id }: BatchOf): void {
    const known = this.#awaited.get(task);
    if (known?.delete(id) !== true) return;
    if (known.size === 0) this.#awaited.delete(task);
    this.#waits.add(tenantId, -1);
  }

  /** Whether others wait for one of the tasks. */
  awaits(changes: readonly Change[]): boolean {
    if (this.#awaited.size === 0) return false;
    return changes.some(({ after }) => after !== undefined && this.#awaited.has(after.id));
  }

  /** Why a task cannot wait for these; undefined when it can. */
  refusalOfAfter(tenantId: TenantId, ids: readonly TaskId[]): AfterRefusal | undefined {
    for (const id of ids) {
      const task = this.#parts.store.task(id);
      if (task?.tenantId !== tenantId) return "after_unknown";
      // Without chains, the end of a task changes only those that wait for it, however many tasks there are.
      if (task.place.in === "held") return "after_waits";
      const part = partOf(task);
      if (part === "failed" || part === "cancelled") return "after_failed";
      if ((this.#awaited.get(id)?.size ?? 0) >= limits.afterWaitersMax) return "after_full";
    }
    return this.#waits.hasRoomFor(tenantId) ? undefined : "after_crowded";
  }

  /** Makes a held task the callback of a batch of its own; returns what is written with the task. */
  waitFor(callback: Task, after: readonly TaskId[]): { of: BatchOf; writes: RecordWrite[] } {
    const { id: callbackId, tenantId, command, createdMs } = callback;
    const of = { tenantId, id: batchOfAfter(callbackId) };
    const record: BatchRecord = {
      callbackId,
      command,
      createdMs,
      after,
      on: "success",
      failFast: false,
      openUntilMs: 0,
      asked: "",
    };
    let state: BatchState = { ...newBatchState, phase: "sealed" };
    const awaited: TaskId[] = [];
    for (const id of after) {
      const task = this.#parts.store.task(id);
      state = countMember(record, state, undefined, task);
      if (task !== undefined && partOf(task) === "succeeded") continue;
      awaited.push(id);
      this.#await(id, of);
    }
    this.#keep(newEntry(of, record, state));
    return { of, writes: [writeOfBatch(of, record), ...writesOfAwaited(of, awaited)] };
  }

  /** Why the batch takes no more members; undefined when it does. */
  refusalOf(of: BatchOf): MemberRefusal | undefined {
    const entry = this.#find(of);
    if (entry === undefined) return "batch_not_found";
    const { phase, total } = entry.state;
    if (phase !== "open" || entry.record.openUntilMs <= this.#nowMs) return "batch_sealed";
    return total >= limits.batchMembersMax ? "batch_full" : undefined;
  }

  async put(of: BatchOf, options: BatchOptions): Promise<PutBatch> {
    const { store, create, exceededBy, apply } = this.#parts;
    store.assertWritable();
    const asked = hash("sha256", JSON.stringify(options));
    const before = this.#find(of);
    if (before !== undefined) {
      if (before.record.asked !== asked) return { ok: false, code: "batch_exists" };
      await store.commitRecords([]).done;
      return { ok: true, batch: this.#shown(before), isNew: false };
    }
    const { command, payload } = options;
    const { tenantId } = of;
    const exceeded = exceededBy({ tenantId, command, payloadBytes: Buffer.byteLength(payload) });
    if (exceeded !== undefined) return { ok: false, code: "quota_exceeded", exceeded };
    const callback = create(of, options);
    const createdMs = this.#nowMs;
    const record: BatchRecord = {
      callbackId: (callback.after as Task).id,
      command,
      on: options.on,
      failFast: options.failFast,
      createdMs,
      openUntilMs: createdMs + options.openSeconds * 1000,
      asked,
      after: [],
    };
    const entry = newEntry(of, record, newBatchState);
    this.#keep(entry);
    await apply([callback], [entry], [writeOfBatch(of, record)]);
    return { ok: true, batch: this.#shown(entry), isNew: true };
  }

  get(of: BatchOf): ShownBatch | undefined {
    const entry = this.#find(of);
    return entry && this.#shown(entry);
  }

  async list({ tenantId, after, limit }: WantedBatches): Promise<Run<ShownBatch>> {
    const ids = await this.#parts.store.batchesOf(tenantId, after, limit + 1);
    return pageOf(ids.slice(0, limit), ids.length > limit, (id) => {
      const item = this.get({ tenantId, id });
      return item && { item, chars: item.failure?.error.length ?? 0 };
    });
  }

  /** Members with their results, in the order of their ids; undefined without the batch. */
  async members(of: BatchOf, wanted: WantedMembers): Promise<FoundMembers | undefined> {
    const { store } = this.#parts;
    const entry = this.#find(of);
    if (entry === undefined) return undefined;
    const ids =
      entry.record.after.length === 0
        ? await store.membersOfBatch(of, wanted)
        : this.#pageOfAfter(entry.record.after, wanted);
    // What a full disk undoes is read as it was before.
    await Promise.all(ids.map((each) => store.whenDurable(each)?.catch(() => {})));
    await store.readAhead(ids);
    const { items, reached } = pageOf(ids, ids.length === wanted.limit, (taskId) => {
      const task = store.task(taskId as TaskId);
      return task && this.#member(task);
    });
    return { members: items, next: reached };
  }

  #member(task: Task): PageItem<ShownMember> {
    const { id, command, error, place } = task;
    const { resultJson = "", artifacts = [] } = this.#parts.store.wholeResult(task) ?? {};
    const item = {
      taskId: id,
      command,
      status: statusOf(place),
      error,
      result: resultJson === "" ? undefined : resultJson,
      artifacts: artifacts.length === 0 ? undefined : artifacts,
    };
    return { item, chars: resultJson.length + error.length };
  }

  /** A few tasks that have not ended; of a large batch, only the first members are looked at. */
  async pendingOf(of: BatchOf): Promise<Pick<Task, "id" | "command">[]> {
    const { after = [] } = this.#find(of)?.record ?? {};
    const wanted = { after: "", limit: lookedMax, failed: false };
    const ids = after.length > 0 ? after : await this.#parts.store.membersOfBatch(of, wanted);
    const found: Pick<Task, "id" | "command">[] = [];
    for (const each of ids) {
      const task = this.#parts.store.task(each);
      if (task === undefined || partOf(task) !== "pending") continue;
      const { id, command } = task;
      if (found.push({ id, command }) === namedMax) break;
    }
    return found;
  }

  #pageOfAfter(ids: readonly TaskId[], { after, limit, failed }: WantedMembers): TaskId[] {
    const isWanted = (id: TaskId): boolean => {
      const task = failed ? this.#parts.store.task(id) : undefined;
      return id > after && (!failed || (task !== undefined && isFailure(task)));
    };
    return ids.filter(isWanted).sort().slice(0, limit);
  }

  /** No more members; the callback is released now when all have ended. */
  seal(of: BatchOf): Promise<ChangedBatch> {
    return this.#change(
      of,
      ({ phase }) => phase === "sealed" || phase === "released" || phase === "failed",
      (entry) => {
        if (entry.state.phase !== "open") return undefined;
        entry.state = { ...entry.state, phase: "sealed" };
        return [];
      },
    );
  }

  /** Cancels the callback now, and the members in the background. */
  cancel(of: BatchOf): Promise<ChangedBatch> {
    return this.#change(
      of,
      // Where only the callback was cancelled, members may be left.
      ({ phase, pending, chore }) => phase === "cancelled" && (pending === 0 || chore === "cancel"),
      (entry) => {
        const { phase, endedMs } = entry.state;
        if (!isUnfinished(entry.state) && phase !== "cancelled") return undefined;
        const change = this.#parts.cancel(entry.record.callbackId, 0);
        const end = {
          phase: "cancelled",
          endedMs: endedMs || this.#nowMs,
          chore: "cancel",
        } as const;
        entry.state = { ...entry.state, ...end };
        return change === undefined ? [] : [change];
      },
    );
  }

  /** `act` gives undefined when the phase does not allow it. */
  async #change(
    of: BatchOf,
    isDone: (state: BatchState) => boolean,
    act: (entry: Entry) => Change[] | undefined,
  ): Promise<ChangedBatch> {
    const { store, apply } = this.#parts;
    store.assertWritable();
    const entry = this.#find(of);
    if (entry === undefined) return { ok: false, code: "batch_not_found" };
    const isRepeat = isDone(entry.state);
    const changes = isRepeat ? undefined : act(entry);
    // The request before, of which the answer speaks, may not be durable yet.
    if (changes === undefined) await store.commitRecords([]).done;
    else await apply(changes, [entry], []);
    if (changes === undefined && !isRepeat) return { ok: false, code: "batch_over" };
    return { ok: true, batch: this.#shown(entry) };
  }

  /** Whether a member must be kept, because the callback may still read its result. */
  keeps({ tenantId, batch }: Task): boolean {
    if (batch === undefined || batch.isCallback) return false;
    const entry = this.#find({ tenantId, id: batch.id });
    const callback = entry && this.#parts.store.task(entry.record.callbackId);
    return callback !== undefined && callback.place.in !== "done";
  }

  /** Whether a new task can take the place of a failed member. */
  givesPlace(task: Task): boolean {
    const { tenantId, batch } = task;
    if (batch === undefined || batch.isCallback || !isFailure(task)) return false;
    const entry = this.#find({ tenantId, id: batch.id });
    return entry !== undefined && waitsForReplay(entry.state);
  }

  /**
   * Follows changes of tasks before they are written. Returns what has to be written with them: the callbacks of
   * batches that end with them, and the states.
   */
  follow(given: readonly Change[], touched: readonly BatchOf[]): Followed {
    if (touched.length === 0 && this.#awaited.size === 0) {
      if (!given.some(isOfBatch)) return { changes: given, writes: [], over: [] };
      const followed = given.length === 1 ? this.#followOne(given) : undefined;
      if (followed !== undefined) return followed;
    }
    return this.#followAll(given, touched);
  }

  #followAll(given: readonly Change[], touched: readonly BatchOf[]): Followed {
    const changes = [...given];
    // A state that is counted here is not in the store yet, and may have to leave the cache.
    const entries: Entries = new Map();
    for (const of of touched) {
      const entry = this.#find(of);
      if (entry !== undefined) entries.set(nameOf(of), entry);
    }
    const again = this.#countAll(changes, entries);
    const writes: RecordWrite[] = [];
    const over = given.flatMap((change) => this.#awaitedUntil(change));
    for (const entry of entries.values()) {
      if (again.has(entry)) this.#holdAgain(entry, changes);
      this.#decide(entry, changes);
      const { phase } = entry.state;
      if (phase !== entry.writtenPhase) this.became[phase] += 1;
      entry.writtenPhase = phase;
      writes.push(writeOfBatchState(entry.stateKey, entry.state), ...this.#plan(entry));
      if (entry.record.after.length === 0 || !isSettled(entry.state)) continue;
      over.push(...entry.record.after.map((task) => ({ task, of: entry })));
    }
    // One by one as the tasks succeed, so that the end of the last one costs no more than that of the first.
    for (const { task, of } of over) {
      if (this.#awaited.get(task)?.has(of.id)) writes.push(...removalsOfAwaited(of, [task]));
    }
    return { changes, writes, over };
  }

  /**
   * Nearly all ends are of one member of a batch that goes on waiting: then only the counts change. Undefined for all
   * else, with nothing changed.
   */
  #followOne(changes: readonly Change[]): Followed | undefined {
    const [{ before, after } = {}] = changes;
    const batch = after?.batch;
    if (before === undefined || batch === undefined || batch.isCallback) return undefined;
    const entry = this.#find({ tenantId: before.tenantId, id: batch.id });
    if (entry === undefined) return undefined;
    const state = countMember(entry.record, entry.state, before, after);
    if (state === entry.state) return { changes, writes: [], over: [] };
    const { phase, chore, pending } = state;
    const goesOn = phase === "open" || (phase === "sealed" && pending > 0);
    if (!goesOn || phase !== entry.state.phase || chore !== entry.state.chore) return undefined;
    entry.state = state;
    return { changes, writes: [writeOfBatchState(entry.stateKey, state)], over: [] };
  }

  /** A task that has succeeded stays so. */
  #awaitedUntil({ after }: Change): Awaited[] {
    const ids = after === undefined ? undefined : this.#awaited.get(after.id);
    if (after === undefined || ids === undefined || partOf(after) !== "succeeded") return [];
    const { id: task, tenantId } = after;
    return [...ids].map((id) => ({ task, of: { tenantId, id } }));
  }

  /** Adds the batches that changed; returns those whose callbacks are held again. */
  #countAll(changes: Change[], entries: Entries): ReadonlySet<Entry> {
    const again = new Set<Entry>();
    for (const [at, change] of changes.entries()) {
      for (const entry of this.#entriesOf(change, entries)) {
        const state = this.#count(entry, change);
        if (state === entry.state) continue;
        if (entry.state.phase === "failed" && state.phase === "sealed") again.add(entry);
        // An operator runs the callback of a batch that failed or expired.
        const isForced = state.phase === "released" && entry.state.phase !== "released";
        if (isForced && change.after !== undefined) {
          changes[at] = { ...change, after: callbackAtEnd(change.after, state) };
        }
        entry.state = state;
        entries.set(nameOf(entry), entry);
      }
    }
    return again;
  }

  /** After the changes of `follow` were written. */
  written({ over }: Followed): void {
    for (const { task, of } of over) this.#stopAwaiting(task, of);
  }

  #entriesOf({ before, after }: Change, counted: Entries): Entry[] {
    const { id, tenantId, batch } = (before ?? after) as Task;
    const find = (of: BatchOf): Entry | undefined => counted.get(nameOf(of)) ?? this.#find(of);
    const own = batch && find({ tenantId, id: batch.id });
    const entries = own === undefined ? [] : [own];
    for (const waiting of this.#awaited.get(id) ?? []) {
      const entry = find({ tenantId, id: waiting });
      if (entry !== undefined) entries.push(entry);
    }
    return entries;
  }

  #count({ id, record, state }: Entry, { before, after }: Change): BatchState {
    const hasLeft = before?.batch?.id === id && after !== undefined && after.batch === undefined;
    if (hasLeft) return withoutMember(state, before);
    if ((after ?? before)?.id !== record.callbackId) {
      return countMember(record, state, before, after);
    }
    return before === undefined ? state : followCallback(state, before, after, this.#nowMs);
  }

  /** A failed member was replayed before the callback ran. */
  #holdAgain(entry: Entry, changes: Change[]): void {
    const task = this.#parts.store.task(entry.record.callbackId);
    const held = task && heldAgain(task, this.#nowMs);
    if (task === undefined || held === undefined || held === task) {
      entry.state = { ...entry.state, phase: "failed" };
      return;
    }
    changes.push(changeOf(task, held, "replayed", "a member of its batch was replayed"));
  }

  /** Adds the change of the callback when the batch has ended. */
  #decide(entry: Entry, changes: Change[]): void {
    const { record, state } = entry;
    const nowMs = this.#nowMs;
    const decision = state.phase === "expired" ? "fail" : decideBatch(record, state);
    if (decision === undefined || (state.phase === "expired" && state.endedMs !== 0)) return;
    const at = changes.findIndex(({ after }) => after?.id === record.callbackId);
    const changed = changes[at];
    const task = changed?.after ?? this.#parts.store.task(record.callbackId);
    const phase =
      decision === "release" ? "released" : state.phase === "expired" ? "expired" : "failed";
    entry.state = { ...state, phase, endedMs: nowMs };
    if (task?.place.in !== "held") return;
    const seq = this.#parts.nextSequence();
    const retention = this.#parts.retentionOf(task);
    const after =
      decision === "release"
        ? releasedCallback(task, state, { nowMs, seq })
        : failedCallback(task, batchError(state), { nowMs, retention });
    const because = decision === "release" ? "promoted" : "unreached";
    if (changed !== undefined) changes[at] = { ...changed, after };
    else changes.push({ ...changeOf(task, after, because), keep: decision === "release" });
  }

  /** The moment of the batch in the index of moments. */
  #plan(entry: Entry): RecordWrite[] {
    const { dueMs: before } = entry;
    entry.dueMs = dueMsOf(entry);
    if (entry.dueMs !== undefined && entry.dueMs !== before) this.onDue(entry.dueMs);
    return dueWrites(entry, before, entry.dueMs);
  }

  /** Expires a batch, or does a piece of what is left to do for its members. */
  async work(of: BatchOf): Promise<void> {
    const entry = this.#find(of);
    if (entry === undefined) return;
    const { phase, chore } = entry.state;
    if (phase === "open" && entry.record.openUntilMs <= this.#nowMs) {
      entry.state = { ...entry.state, phase: "expired" };
      await this.#parts.apply([], [entry], []);
    } else if (chore === "cancel") await this.#cancelMembers(entry);
    else if (chore === "delete" && entry.state.pending === 0) await this.#deleteMembers(entry);
  }

  async #cancelMembers(entry: Entry): Promise<void> {
    const { store, cancel, apply } = this.#parts;
    const ids = await this.#nextPiece(entry);
    store.assertWritable();
    const graceMs = limits.cancelGraceSecondsDefault * 1000;
    const changes = ids.flatMap((id) => cancel(id, graceMs) ?? []);
    const isDone = ids.length < this.pieceMembers;
    const current = this.#find(entry);
    if (current === undefined) return;
    if (isDone && current.state.chore === "cancel") {
      // The callback may have been deleted in the meantime.
      const isLeft = store.task(current.record.callbackId) !== undefined;
      current.state = { ...current.state, chore: isLeft ? "none" : "delete" };
    }
    await apply(changes, isDone ? [current] : [], []);
    this.#looked(entry, isDone ? undefined : ids.at(-1));
  }

  async #deleteMembers(entry: Entry): Promise<void> {
    const { store, remove } = this.#parts;
    const ids = await this.#nextPiece(entry);
    // A member that was replayed in the meantime is deleted after its end.
    if (this.#find(entry)?.state.pending !== 0) {
      this.#looked(entry, undefined);
      return;
    }
    await remove(ids.flatMap((id) => store.task(id) ?? []));
    if (ids.length === this.pieceMembers) {
      this.#looked(entry, ids.at(-1));
      return;
    }
    this.#looked(entry, undefined);
    this.#cache.delete(nameOf(entry));
    const { after } = entry.record;
    const removals = [...removalsOfBatch(entry), ...removalsOfAwaited(entry, after)];
    for (const task of after) this.#stopAwaiting(task, entry);
    await store.commitRecords([...removals, ...dueWrites(entry, 0, undefined)]).done;
  }

  #nextPiece(entry: Entry): Promise<readonly TaskId[]> {
    const after = this.#lookedTo.get(nameOf(entry)) ?? "";
    return this.#parts.store.membersOfBatch(entry, {
      after,
      limit: this.pieceMembers,
      failed: false,
    });
  }

  #looked(of: BatchOf, to: string | undefined): void {
    if (to === undefined) {
      this.#lookedTo.delete(nameOf(of));
      return;
    }
    this.#lookedTo.set(nameOf(of), to);
    this.onDue(0);
  }

  get #nowMs(): number {
    return Math.floor(this.#parts.clock.nowMs());
  }

  #find(of: BatchOf): Entry | undefined {
    const name = nameOf(of);
    const known = this.#cache.get(name);
    if (known !== undefined) return known;
    const stored = this.#parts.store.batch(of);
    if (stored === undefined) return undefined;
    const entry = newEntry(of, stored.record, stored.state);
    entry.writtenPhase = stored.state.phase;
    entry.dueMs = dueMsOf(entry);
    this.#keep(entry);
    return entry;
  }

  #keep(entry: Entry): void {
    if (this.#cache.size >= this.cachedMax) {
      const [oldest] = this.#cache.keys();
      this.#cache.delete(oldest as string);
    }
    this.#cache.set(nameOf(entry), entry);
  }

  #shown({ id, record, state }: Entry): ShownBatch {
    const { command, callbackId, on, failFast, createdMs, openUntilMs } = record;
    const { chore: _, endedMs, ...counts } = state;
    return {
      id,
      command,
      callbackId,
      on,
      failFast,
      createdMs,
      openUntilMs: state.phase === "open" ? openUntilMs : undefined,
      ...counts,
      endedMs: endedMs === 0 ? undefined : endedMs,
    };
  }
}

function newEntry({ tenantId, id }: BatchOf, record: BatchRecord, state: BatchState): Entry {
  const stateKey = stateKeyOf({ tenantId, id });
  return { tenantId, id, record, stateKey, state, writtenPhase: undefined, dueMs: undefined };
}

/** Follows from the record and the state, so that it need not be stored; 0 stands for at once. */
function dueMsOf({ record, state }: Pick<Entry, "record" | "state">): number | undefined {
  const { phase, chore, pending } = state;
  if (chore === "cancel" || (chore === "delete" && pending === 0)) return 0;
  return phase === "open" ? record.openUntilMs : undefined;
}

/** Whether nothing that happens to a member can change the callback or the counts any more. */
function isSettled({ phase, pending, failed }: BatchState): boolean {
  return (phase === "released" || phase === "cancelled") && pending + failed === 0;
}

function nameOf({ tenantId, id }: BatchOf): string {
  return `${tenantId}/${id}`;
}
