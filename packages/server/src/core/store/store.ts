/**
 * Typed access to everything that is stored; no other folder knows keys, records or the engine.
 *
 * - `commit` makes changes of tasks visible to reads at once, and durable together. A caller waits for the
 *   group before it announces them. Companion keys of a task (a long payload, the idempotency key, a
 *   webhook) are derived from the change.
 * - Reads see every decision, durable or not.
 * - A record that cannot be read is quarantined and counted, and does not exist for callers.
 */
import {
  type BackupPosition,
  create,
  Engine,
  type EngineOptions,
  type EngineState,
  type EngineStats,
  FaultError,
  Follower,
  type FollowerOptions,
  type Group,
  type KvEntry,
  type KvRange,
  type Op,
  put,
  type RowCursor,
  remove,
  unseal,
} from "@codeq/engine";
import {
  type BatchState,
  type Change,
  goneTask,
  type IdempotencyEntry,
  queueOf,
  type Result,
  resultOf,
  type ScheduleState,
  type Task,
  type TaskId,
  type TenantId,
  type UniqueEntry,
} from "@codeq/queue";
import { ControlRecords, scanAll } from "../control/control-records.ts";
import {
  type BatchOf,
  type BatchRecord,
  decodeBatch,
  decodeBatchState,
} from "../records/batch-record.ts";
import {
  addCounts,
  addReadyCounts,
  type CountsOfLane,
  type CountsOfQueue,
  changeOfCounts,
  decodeCounts,
  decodeLaneCounts,
  deriveCounts,
} from "../records/counts.ts";
import type { WebhookJob } from "../records/delivery-record.ts";
import {
  type DeliveryLog,
  decodeDelivery,
  removalsOfDelivery,
} from "../records/delivery-record.ts";
import { decodeEndpoint, type FailingEndpoint } from "../records/endpoint-record.ts";
import {
  addCell,
  allHours,
  decodeCell,
  type FailureCell,
  type FoundCells,
  isEmptyCell,
  type WantedCells,
} from "../records/failure-counts.ts";
import { decodeIdempotency, encodeIdempotency } from "../records/idempotency-record.ts";
import { decodeLimits, type NamedLaneLimits } from "../records/lane-policy.ts";
import { decodeLane, type Moments as LaneMoments } from "../records/lane-record.ts";
import { decodePause, type QueuePause } from "../records/pause-record.ts";
import {
  decodeSchedule,
  decodeState,
  type PutRecord,
  type ScheduleOf,
} from "../records/schedule-record.ts";
import {
  decodePoint,
  type SeriesName,
  type SeriesPoint,
  type SeriesRange,
} from "../records/series-record.ts";
import { decodeSigning, type SigningSecret } from "../records/signing-record.ts";
import { decodeTopic, type Topic } from "../records/topic-record.ts";
import { decodeTriage, type Triage } from "../records/triage-record.ts";
import { decodeUnique, type UniqueName } from "../records/unique-record.ts";
import { checkFormat, type StoreKind, writeFormat } from "./format.ts";
import {
  allPendingPrefix,
  batchAwaitsPrefix,
  batchDuePrefix,
  batchesOf,
  batchInDue,
  batchKey,
  batchStateKey,
  countsKey,
  countsPrefix,
  deadPrefix,
  delayedPrefix,
  deliveryKey,
  endOf,
  endpointsPrefix,
  entryKeyOf,
  failedOfBatch,
  failedPrefix,
  failureCountsPrefix,
  failuresOf,
  failureTimesOf,
  formatKey,
  heldPrefix,
  idempotencyKeyOf,
  idOf,
  inProgressPrefix,
  keptKeyOf,
  keptKeysPrefix,
  type LaneName,
  laneCountsPrefix,
  laneIn,
  lanePoliciesPrefix,
  lanePrefix,
  lanesPrefix,
  liveOfSchedule,
  membersOfBatch,
  numberOf,
  pausedPrefix,
  payloadKey,
  pendingPrefix,
  quarantineKey,
  queuePrefix,
  resultKey,
  retentionPrefix,
  runsOfSchedule,
  scheduleKey,
  scheduleLivePrefix,
  scheduleStateKey,
  schedulesPrefix,
  sequenceKey,
  seriesOf,
  seriesPrefix,
  shardsKey,
  signingPrefix,
  sortable,
  startByPrefix,
  storedBytesPrefix,
  taskKey,
  tasksPrefix,
  tenantOfStoredBytes,
  topicsPrefix,
  triagePrefix,
  undeliveredPrefix,
  uniqueKeyOf,
  uniquePrefix,
  webhookKey,
} from "./keys.ts";
import { LateWrites } from "./late-writes.ts";
import { StoredBytes } from "./stored-bytes.ts";
import { decodeResult, encodeResult } from "./task-codec.ts";
import { taskRows } from "./task-rows.ts";

export type FollowOptions = Omit<FollowerOptions, "rows" | "derive"> & StoreKind;
export interface FollowedTask {
  readonly task: Task;
  readonly payload: string;
}

export type StoreOptions = Omit<EngineOptions, "rows" | "derive" | "verify"> & StoreKind;

/** The tasks of one tenant with the same command. */
export interface QueueName {
  readonly tenantId: TenantId;
  readonly name: string;
}

/** The ready tasks of one priority of a queue without a lane, or of one lane. */
export interface ReadyBucket extends QueueName {
  readonly priority: number;
  readonly lane?: string | undefined;
}

/** A task in an index that is ordered by a number: a sequence, or a time in milliseconds. */
export interface Position {
  readonly number: number;
  readonly id: TaskId;
}

/** A record as text; the text is undefined when there is no record. */
export interface RecordText {
  readonly key: string;
  readonly text: string | undefined;
}

/** A write of a record; made by the record files, and opaque to all others. */
export type RecordWrite = Op;

const placePrefixes = {
  ready: allPendingPrefix,
  delayed: delayedPrefix,
  leased: inProgressPrefix,
  held: heldPrefix,
  dead: deadPrefix,
  failed: failedPrefix,
} as const;

const noOps: readonly Op[] = [];
const failureTriesMax = 10;
const noTries = "0";

/** Tasks by their ids, piece by piece. */
export interface TaskCursor extends RowCursor {
  next(count: number): Promise<(readonly [id: string, task: Task | undefined])[]>;
}

/** The indexes of moments: what is due, by when. */
const momentPrefixes = {
  /** Finished tasks whose retention ends. */
  expired: retentionPrefix,
  /** Waiting tasks that have to be begun. */
  lapsed: startByPrefix,
  /** Keys of deleted tasks that are kept. */
  keptKeys: keptKeysPrefix,
  /** Batches that expire or have something left to do, by name. */
  batches: batchDuePrefix,
};

export type MomentIndex = keyof typeof momentPrefixes;

export interface WantedMoments {
  readonly after: Position | undefined;
  readonly untilMs: number;
  readonly limit: number;
}

export class Store implements AsyncDisposable {
  /** Called after a full disk undid changes; new ones are refused until it has finished. */
  onRollback: () => Promise<void> = () => Promise.resolve();
  /** Until when the idempotency key of a task is kept that is deleted now; undefined when it goes with the task. */
  keyUntilMs: (task: Task) => number | undefined = () => undefined;
  /** Called with the time until which a key is kept, whenever the task of a key was deleted. */
  onKeptKey: (untilMs: number) => void = () => {};
  /** Records that could not be read since the start. */
  quarantined = 0;
  /** The records of the control store: everything that is not a task. */
  readonly control: ControlRecords;
  readonly #engine: Engine;
  readonly #bytes: StoredBytes;
  readonly #late: LateWrites = new LateWrites();

  private constructor(engine: Engine) {
    this.#engine = engine;
    this.#bytes = new StoredBytes((key) => engine.getText(key));
    this.control = new ControlRecords(engine, (key) => this.#quarantine(key));
    engine.onDamaged = (key) => this.#quarantine(key);
    engine.onClosing = () => [...this.#late.take(), ...this.#bytes.takeChanges()];
    engine.onRollback = () => {
      this.#bytes.forgetAll();
      this.#late.forgetAll();
      return this.onRollback();
    };
  }

  static async open(options: StoreOptions): Promise<Store> {
    const engine = await Engine.open({
      ...options,
      rows: taskRows,
      derive: deriveCounts,
      verify: (get) => checkFormat(get, options),
    });
    await writeFormat(engine, options);
    return new Store(engine);
  }

  /** Keeps a kv in step with a log that another node writes. Throws when the kv is of another kind. */
  static follow(options: FollowOptions): Follower {
    const { kv } = options;
    const follower = new Follower({ ...options, rows: taskRows, derive: deriveCounts });
    checkFormat((key) => {
      const stored = kv.get(key);
      return stored && unseal(key, stored);
    }, options);
    return follower;
  }

  /** A task of a following kv, with its payload; undefined when it does not exist or cannot be read. */
  static followed(follower: Follower, id: TaskId): FollowedTask | undefined {
    const task = follower.row(id) as Task | undefined;
    const payload = task && (task.payload ?? follower.getText(payloadKey(id)));
    return task === undefined || payload === undefined ? undefined : { task, payload };
  }

  get state(): EngineState {
    return this.#engine.state;
  }

  /** Whether all shards were made; a missing shard is then lost. */
  get hasShards(): boolean {
    return this.#engine.get(shardsKey) !== undefined;
  }

  /** Records that all shards were made. */
  async noteShards(): Promise<void> {
    if (!this.hasShards) await this.#engine.commit([], [put(shardsKey, "")]).done;
  }

  /** Grows with every durable group of writes. */
  get durableIndex(): number {
    return this.#engine.durableIndex;
  }

  /** True when changes have arrived faster than they can be written for so long that memory fills. */
  get isOverloaded(): boolean {
    return this.#engine.isOverloaded;
  }

  /** Throws what `commit` would throw now. */
  assertWritable(): void {
    if (this.#engine.state !== "open") this.#engine.assertWritable();
  }

  /** Like `assertWritable`, for changes that only end or delete tasks, which may use the last room on the disk. */
  assertDeletable(): void {
    if (this.#engine.state !== "open") this.#engine.assertWritable(true);
  }

  stats(): EngineStats {
    return this.#engine.stats();
  }

  /** Brings everything committed so far into the tables. */
  flushNow(): Promise<void> {
    return this.#engine.flushNow();
  }

  /** Like `flushNow`, durably. */
  settle(): Promise<void> {
    return this.#engine.settle();
  }

  /** Makes commits durable, for example before files are deleted because of a commit. */
  sync(): Promise<void> {
    return this.#engine.sync();
  }

  /** Writes a record that changes nothing, and makes everything durable: a shared log can be trimmed up to there. */
  async mark(): Promise<void> {
    const format = this.#engine.get(formatKey) as Buffer;
    await this.#engine.commit([], [put(formatKey, format)], true).done;
    await this.#engine.settle();
  }

  /** See the engine: everything, or the log behind a record. */
  backup(store: string, after: BackupPosition | undefined): ReturnType<Engine["backup"]> {
    return this.#engine.backup(store, after);
  }

  /** False for a store in memory. */
  get hasFiles(): boolean {
    return this.#engine.hasFiles;
  }

  /** Reads all files of the store; a damaged file is a final failure. */
  scrub(): Promise<void> {
    return this.#engine.scrub();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#engine[Symbol.asyncDispose]();
  }

  /** `records` are written with the changes: all of it is durable, or nothing is. */
  commit(changes: readonly Change[], records: readonly RecordWrite[] = noOps): Group {
    const frees = this.#engine.state !== "open" && changes.every(isAnEnd);
    const beside = writesBeside(changes, (task) => this.#removalsOf(task));
    const now = LateWrites.withoutLate(records);
    const writes = now.length === 0 ? beside : [...beside, ...now];
    const group = this.#engine.commit(changes, writes, frees);
    // After the commit, so that a group that closes in between has neither the change nor its bytes.
    for (let at = 0; at < changes.length; at++) {
      const { before, after } = changes[at] as Change;
      const bytes = (after?.storedBytes ?? 0) - (before?.storedBytes ?? 0);
      const { tenantId } = (after ?? before) as Task;
      if (bytes !== 0) this.#bytes.add(tenantId, bytes);
    }
    this.#late.committed(records);
    return group;
  }

  /** Writes records that are not tasks. */
  commitRecords(writes: readonly RecordWrite[]): Group {
    const group = this.#engine.commit([], LateWrites.withoutLate(writes));
    this.#late.committed(writes);
    return group;
  }

  /** Whether the records are as expected, durable or not. */
  isUnchanged(expected: readonly RecordText[]): boolean {
    return expected.every(({ key, text }) => this.#engine.getText(key) === text);
  }

  task(id: TaskId): Task | undefined {
    return this.#engine.row(id) as Task | undefined;
  }

  /** Whether the task has a record, even one that cannot be read. */
  holds(id: TaskId): boolean {
    return unlessDamaged(() => this.#engine.get(taskKey(id)) !== undefined, true);
  }

  /** Throws `corrupt` when the task exists and cannot be read. */
  assertReadable(id: TaskId): void {
    if (this.holds(id) && this.task(id) === undefined) throw damaged(taskKey(id));
  }

  /** Throws `corrupt` when it is damaged or missing. */
  payload(task: Task): string {
    if (task.payload !== undefined) return task.payload;
    const key = payloadKey(task.id);
    const text = this.#readable(key, () => this.#engine.getText(key));
    if (text === undefined) throw damaged(key);
    return text;
  }

  /** Undefined when it is damaged or missing. */
  wholePayload(task: Task): string | undefined {
    return task.payload ?? unlessDamaged(() => this.payload(task), undefined);
  }

  /** Undefined when it is damaged, and for a task that has not ended. */
  wholeResult(task: Task): Result | undefined {
    return unlessDamaged(() => this.result(task), undefined);
  }

  /** Undefined for a task that has not ended. Throws `corrupt` when it is damaged. */
  result(task: Task): Result | undefined {
    if (task.result !== undefined) return resultOf(task, task.result);
    const key = resultKey(task.id);
    const bytes = this.#readable(key, () => this.#engine.get(key));
    if (bytes === undefined) return undefined;
    const body = decodeResult(bytes);
    if (body !== undefined) return resultOf(task, body);
    this.#quarantine(key);
    throw damaged(key);
  }

  /** Resolves when the task is durable and may be reported; undefined when it is durable already. */
  whenDurable(id: TaskId): Promise<void> | undefined {
    return this.#engine.whenRowDurable(id);
  }

  /** The task that a producer's idempotency key stands for. Throws `corrupt` when it is damaged. */
  idempotency(tenantId: TenantId, key: string): IdempotencyEntry | undefined {
    return this.#entry(idempotencyKeyOf(tenantId, key));
  }

  #entry(storeKey: string): IdempotencyEntry | undefined {
    const text = this.#readable(storeKey, () => this.#engine.getText(storeKey));
    const entry = text === undefined ? undefined : decodeIdempotency(text);
    if (text !== undefined && entry === undefined) this.#quarantine(storeKey);
    return entry;
  }

  /** Removes an idempotency key. */
  forgetIdempotency(tenantId: TenantId, key: string): void {
    this.#engine.commit([], [remove(idempotencyKeyOf(tenantId, key))]);
  }

  /** Removes keys of deleted tasks; a key that has another task now stays. */
  async forgetKeys(due: readonly Position[]): Promise<void> {
    const ops = due.flatMap(({ number, id: name }) => {
      const key = entryKeyOf(name);
      const index = remove(keptKeyOf(number, key));
      return this.#keptUntilMs(key) === number ? [index, remove(key)] : [index];
    });
    if (ops.length > 0) await this.#engine.commit([], ops, true).done;
  }

  /** Undefined for the entry of a key that has a task. */
  #keptUntilMs(key: string): number | undefined {
    if (!key.startsWith(uniquePrefix)) {
      return unlessDamaged(() => this.#entry(key), undefined)?.gone?.untilMs;
    }
    const entry = unlessDamaged(() => this.#unique(key), undefined);
    return entry?.hasEnded === true ? entry.untilMs : undefined;
  }

  /** Which tasks hold a unique key and wait for it. Throws `corrupt` when it is damaged. */
  unique(name: UniqueName): UniqueEntry | undefined {
    return this.#unique(uniqueKeyOf(name));
  }

  #unique(key: string): UniqueEntry | undefined {
    const text = this.#readable(key, () => this.#engine.getText(key));
    const entry = text === undefined ? undefined : decodeUnique(text);
    if (text !== undefined && entry === undefined) this.#quarantine(key);
    return entry;
  }

  /** How many bytes of payloads and results the tenant has. */
  storedBytes(tenantId: TenantId): number {
    return this.#bytes.of(tenantId);
  }

  /** Tenants that have payloads or results. */
  async storingTenants(): Promise<readonly TenantId[]> {
    const found: TenantId[] = [];
    for await (const [key] of this.#scan(storedBytesPrefix)) found.push(tenantOfStoredBytes(key));
    return found;
  }

  /** Makes reading each of these tasks and its payload once cheap. */
  async readAhead(ids: readonly TaskId[]): Promise<void> {
    const tasks = (await this.#engine.readRowsAhead(ids)) as readonly Task[];
    const apart = tasks.filter(({ payload }) => payload === undefined);
    if (apart.length > 0) await this.#engine.readAhead(apart.map(({ id }) => payloadKey(id)));
  }

  /** Ready tasks of a priority behind a sequence number, the oldest first. */
  async readyAfter(queue: ReadyBucket, sequence: number, limit: number): Promise<Position[]> {
    const range = readyRange(queue, sequence);
    return (await this.#engine.scanKeys(range, limit)).map(positionIn);
  }

  /** The oldest ready tasks of each queue; the queues are of one tenant and in the order of their names. */
  async firstReady(queues: readonly ReadyBucket[], limit: number): Promise<Position[][]> {
    const ranges = queues.map((queue) => readyRange(queue, 0));
    const found = await this.#engine.firstKeys(ranges, limit);
    return found.map((keys) => keys.map(positionIn));
  }

  /** Takes a ready task whose record cannot be read out of its queue; its bytes are kept. */
  setAsideReady(queue: ReadyBucket, { number, id }: Position): void {
    const prefix = readyPrefix(queue);
    this.#engine.commit([], [remove(`${prefix}${sortable(number)}/${id}`)]);
  }

  /** Delayed tasks behind a position, those that are due first at the front. */
  async delayedAfter(
    queue: QueueName,
    after: Position | undefined,
    limit: number,
  ): Promise<Position[]> {
    const prefix = delayedPrefix(prefixOf(queue));
    const range = { after: keyAt(prefix, after), before: endOf(prefix) };
    return (await this.#engine.scanKeys(range, limit)).map(positionIn);
  }

  /**
   * The ids of tasks of a queue in one place, or of failures of one group; `after` works only where the index is
   * ordered by id.
   */
  async idsIn(
    queue: QueueName,
    wanted: {
      readonly place: keyof typeof placePrefixes | { readonly group: string };
      readonly limit: number;
      readonly after?: string;
      readonly order?: "newest" | "oldest";
    },
  ): Promise<TaskId[]> {
    const { place, limit, after = "", order = "oldest" } = wanted;
    const { tenantId, name } = queue;
    const prefix =
      typeof place === "string"
        ? placePrefixes[place](prefixOf(queue))
        : failuresOf({ tenantId, group: place.group, queue: name });
    const range =
      order === "oldest"
        ? { after: prefix + after, before: endOf(prefix) }
        : { after: prefix, before: after === "" ? endOf(prefix) : prefix + after, isReverse: true };
    return (await this.#engine.scanKeys(range, limit)).map(idOf);
  }

  /**
   * A view of the tasks of all tenants whose ids lie in the range; undefined for a task that cannot be read.
   * The caller closes it.
   */
  openTasks(ids: KvRange): TaskCursor {
    return this.#engine.openRows(ids) as TaskCursor;
  }

  async idsBetween(ids: KvRange, limit: number): Promise<TaskId[]> {
    const { after, before, isReverse = false } = ids;
    const end = before === "" ? endOf(tasksPrefix) : tasksPrefix + before;
    const range = { after: tasksPrefix + after, before: end, isReverse };
    return (await this.#engine.scanKeys(range, limit)).map(idOf);
  }

  /** The tasks of a queue that workers have. */
  async *leased(queue: QueueName): AsyncGenerator<Task> {
    for await (const [key] of this.#scan(inProgressPrefix(prefixOf(queue)))) {
      const task = this.task(idOf(key));
      if (task?.place.in === "leased") yield task;
    }
  }

  /** What is due no later than a moment, behind a position, the earliest first. */
  async dueAfter(
    index: MomentIndex,
    { after, untilMs, limit }: WantedMoments,
  ): Promise<Position[]> {
    const range = momentRange(momentPrefixes[index], after, untilMs);
    return (await this.#engine.scanKeys(range, limit)).map(positionIn);
  }

  /** Finished tasks that are due, with their tenants, so that tasks of other tenants need not be loaded. */
  async expiredWithOwners({
    after,
    untilMs,
    limit,
  }: WantedMoments): Promise<(Position & { readonly tenantId: string })[]> {
    const range = momentRange(retentionPrefix, after, untilMs);
    const entries = await this.#engine.scan(range, limit);
    return entries.map(([key, owner]) => ({ ...positionIn(key), tenantId: owner.toString() }));
  }

  /** The counts of tasks of every queue, and the highest sequence number in use. */
  async counts(): Promise<{
    readonly queues: readonly CountsOfQueue[];
    readonly lanes: readonly CountsOfLane[];
    readonly sequence: number;
  }> {
    for (;;) {
      const { flushedIndex } = this.#engine.stats();
      const unflushed = changeOfCounts(this.#engine.unflushed());
      const stored = Number(this.#engine.getText(sequenceKey) ?? 0);
      const { queues, lanes } = await this.#storedCounts();
      // A flush in between has moved changes from memory to the kv.
      if (this.#engine.stats().flushedIndex !== flushedIndex) continue;
      for (const { queue, tenantId, counts } of unflushed.queues.values()) {
        const key = countsKey(queue, tenantId);
        const found = queues.get(key);
        const sum = found === undefined ? counts : addCounts(found.counts, counts);
        queues.set(key, { queue, tenantId, counts: sum });
      }
      for (const [key, change] of unflushed.lanes) {
        const ready = addReadyCounts(change.ready, lanes.get(key)?.ready ?? []);
        lanes.set(key, { ...change, ready });
      }
      const sequence = Math.max(stored, unflushed.sequence);
      return { queues: [...queues.values()], lanes: [...lanes.values()], sequence };
    }
  }

  /** As the last flush left them. */
  async #storedCounts(): Promise<{
    readonly queues: Map<string, CountsOfQueue>;
    readonly lanes: Map<string, CountsOfLane>;
  }> {
    const queues = new Map<string, CountsOfQueue>();
    for await (const [key, value] of this.#scan(countsPrefix)) {
      const [name, tenant] = key.slice(countsPrefix.length).split("/") as [string, string];
      const tenantId = (tenant === "_" ? "" : tenant) as TenantId;
      queues.set(key, { queue: name, tenantId, counts: decodeCounts(value) });
    }
    const lanes = new Map<string, CountsOfLane>();
    for await (const [key, value] of this.#scan(laneCountsPrefix)) {
      lanes.set(key, { ...laneIn(key), ready: decodeLaneCounts(value) });
    }
    return { queues, lanes };
  }

  /**
   * Counters of failures of a tenant: totals, complete groups in the order of their ids, at most about `limit` of them, and
   * those of some hours for the same groups. With more groups, `next` is the last of these groups. Undefined when flushes
   * kept getting in between.
   */
  async failureCells(tenantId: TenantId, wanted: WantedCells): Promise<FoundCells | undefined> {
    for (let tries = 0; tries < failureTriesMax; tries++) {
      const { flushedIndex } = this.#engine.stats();
      const changes = changeOfCounts(this.#engine.unflushed()).failures.cells;
      const { cells, next } = await this.#storedCells(tenantId, wanted);
      // A flush in between has moved changes from memory to the kv.
      if (this.#engine.stats().flushedIndex !== flushedIndex) continue;
      const { group: only, after, hours } = wanted;
      const isWanted = ({ group, hour }: FailureCell): boolean =>
        (hour === allHours || hours.includes(hour)) &&
        (only === undefined ? group > after && group <= (next ?? group) : group === only);
      for (const [key, change] of changes) {
        if (change.tenantId !== tenantId || !isWanted(change)) continue;
        const stored = cells.get(key);
        cells.set(key, stored === undefined ? change : addCell(stored, change));
      }
      return { cells: [...cells.values()].filter((cell) => !isEmptyCell(cell)), next };
    }
    return undefined;
  }

  /** As the last flush left them. */
  async #storedCells(
    tenantId: TenantId,
    { after, group, limit, hours }: WantedCells,
  ): Promise<{ readonly cells: Map<string, FailureCell>; readonly next: string | undefined }> {
    const cells = new Map<string, FailureCell>();
    let last: string | undefined;
    let next: string | undefined;
    const stored = (hour: number): AsyncGenerator<KvEntry> => {
      const prefix = failureCountsPrefix(tenantId, hour, group);
      const start = group === undefined && after !== "" ? endOf(`${prefix}${after}/`) : prefix;
      return scanAll(this.#engine, prefix, start);
    };
    for await (const [key, value] of stored(allHours)) {
      const cell = decodeCell(key, value);
      if (cells.size >= limit && cell.group !== last) {
        next = last;
        break;
      }
      cells.set(key, cell);
      last = cell.group;
    }
    const readHour = async (hour: number): Promise<void> => {
      for await (const [key, value] of stored(hour)) {
        const cell = decodeCell(key, value);
        if (next !== undefined && cell.group > next) return;
        cells.set(key, cell);
      }
    };
    await Promise.all(hours.map(readHour));
    return { cells, next };
  }

  /** The first or the last failure of a group by the time of its end. */
  async endOfFailures(
    of: Pick<FailureCell, "tenantId" | "group">,
    order: "newest" | "oldest",
  ): Promise<TaskId | undefined> {
    const prefix = failureTimesOf(of);
    const range = { after: prefix, before: endOf(prefix), isReverse: order === "newest" };
    return (await this.#engine.scanKeys(range, 1)).map(idOf)[0];
  }

  /** What lanes have spent and until when they are held, by the clock; of the whole queue with an empty lane. */
  async *laneRecords(
    clock: Parameters<typeof decodeLane>[1],
  ): AsyncGenerator<LaneName & LaneMoments> {
    for await (const [key, value] of this.#scan(lanesPrefix)) {
      const moments = decodeLane(value.toString("latin1"), clock);
      if (moments === undefined) this.#quarantine(key);
      else yield { ...laneIn(key), ...moments };
    }
  }

  /** What administrators gave to single lanes. */
  async *laneLimits(): AsyncGenerator<NamedLaneLimits> {
    for await (const [key, value] of this.#scan(lanePoliciesPrefix)) {
      const limits = decodeLimits(value.toString("utf8"));
      if (limits === undefined) this.#quarantine(key);
      else yield { ...laneIn(key), limits };
    }
  }

  /** Every queue that is paused. */
  async *pauses(): AsyncGenerator<QueueName & { readonly pause: QueuePause }> {
    for await (const [key, value] of this.#scan(pausedPrefix)) {
      const pause = decodePause(value.toString("utf8"));
      const [name, tenant] = key.slice(pausedPrefix.length).split("/") as [string, string];
      if (pause === undefined) this.#quarantine(key);
      else yield { name, tenantId: (tenant === "_" ? "" : tenant) as TenantId, pause };
    }
  }

  /** The queues that have points of a series, and `*` for tenants that have points of all their queues. */
  async *seriesNames(): AsyncGenerator<QueueName> {
    for (let after = seriesPrefix; ; ) {
      const [key] = await this.#engine.scanKeys({ after, before: endOf(seriesPrefix) }, 1);
      if (key === undefined) return;
      const [name, tenant] = key.slice(seriesPrefix.length).split("/") as [string, string];
      const tenantId = (tenant === "_" ? "" : tenant) as TenantId;
      yield { name, tenantId };
      after = endOf(`${seriesPrefix}${name}/${tenant}/`);
    }
  }

  /** Points of a series in their order; one that cannot be read is left out. */
  async seriesPoints(of: SeriesName, range: SeriesRange): Promise<SeriesPoint[]> {
    const prefix = seriesOf(of.name, of.tenantId, of.unit);
    const { from, to, limit, isReverse = false } = range;
    const after = from <= 0 ? prefix : prefix + sortable(from - 1);
    const before = prefix + sortable(to);
    const entries = await this.#engine.scan({ after, before, isReverse }, limit);
    return entries.flatMap(([key, value]) => {
      const point = decodePoint(idOf(key), value.toString("latin1"));
      return point === undefined ? [] : [point];
    });
  }

  /** Every queue that has a topic. */
  async *topics(): AsyncGenerator<Topic> {
    for await (const [key, value] of this.#scan(topicsPrefix)) {
      const [name, tenant] = key.slice(topicsPrefix.length).split("/") as [string, string];
      const tenantId = (tenant === "_" ? "" : tenant) as TenantId;
      const topic = decodeTopic({ name, tenantId }, value.toString("utf8"));
      if (topic === undefined) this.#quarantine(key);
      else yield topic;
    }
  }

  /** Every schedule, with up to where it was fired. */
  async *schedules(): AsyncGenerator<{
    readonly record: PutRecord;
    readonly state: ScheduleState;
  }> {
    for await (const [key, value] of this.#scan(schedulesPrefix)) {
      const of = scheduleIn(key.slice(schedulesPrefix.length));
      const record = decodeSchedule(of, value.toString("utf8"));
      const stateKey = scheduleStateKey(of.tenantId, of.id);
      const text = unlessDamaged(() => this.#text(stateKey), "");
      const state = text === undefined ? undefined : decodeState(text);
      if (record === undefined) this.#quarantine(key);
      if (state === undefined) this.#quarantine(stateKey);
      if (record !== undefined && state !== undefined) yield { record, state };
    }
  }

  /** As it was put; undefined when it does not exist or cannot be read. */
  schedule(of: ScheduleOf): PutRecord | undefined {
    const key = scheduleKey(of.tenantId, of.id);
    const text = unlessDamaged(() => this.#engine.getText(key), undefined);
    return text === undefined ? undefined : decodeSchedule(of, text);
  }

  /** Every task of a schedule, or of one schedule, that has not ended. */
  async *liveOfSchedules(
    of?: ScheduleOf,
  ): AsyncGenerator<ScheduleOf & { readonly taskId: TaskId }> {
    const prefix = of === undefined ? scheduleLivePrefix : liveOfSchedule(of.tenantId, of.id);
    for await (const [key] of this.#scan(prefix)) {
      yield { ...scheduleIn(key.slice(scheduleLivePrefix.length)), taskId: idOf(key) };
    }
  }

  /** The tasks of a schedule, the newest nominal instants first. */
  async runsOfSchedule({ tenantId, id }: ScheduleOf, limit: number): Promise<TaskId[]> {
    const prefix = runsOfSchedule(tenantId, id);
    const range = { after: prefix, before: endOf(prefix), isReverse: true };
    return (await this.#engine.scanKeys(range, limit)).map(idOf);
  }

  /** The task of a nominal instant. */
  async runOfSchedule({ tenantId, id }: ScheduleOf, ms: number): Promise<TaskId | undefined> {
    const prefix = `${runsOfSchedule(tenantId, id)}${sortable(ms)}/`;
    const [key] = await this.#engine.scanKeys({ after: prefix, before: endOf(prefix) }, 1);
    return key === undefined ? undefined : idOf(key);
  }

  /** Undefined when the batch does not exist or cannot be read. */
  batch(of: BatchOf): { readonly record: BatchRecord; readonly state: BatchState } | undefined {
    const record = this.#decoded(batchKey(of.tenantId, of.id), decodeBatch);
    const state = record && this.#decoded(batchStateKey(of.tenantId, of.id), decodeBatchState);
    return record && state && { record, state };
  }

  /** A record that cannot be read is quarantined. */
  #decoded<Value>(key: string, decode: (text: string) => Value | undefined): Value | undefined {
    const text = this.#readable(key, () => this.#text(key));
    const value = text === undefined ? undefined : decode(text);
    if (text !== undefined && value === undefined) this.#quarantine(key);
    return value;
  }

  /** Of a record that may be written late. */
  #text(key: string): string | undefined {
    return this.#late.textOf(key) ?? this.#engine.getText(key);
  }

  /** The ids of the batches of a tenant behind an id. */
  async batchesOf(tenantId: TenantId, after: string, limit: number): Promise<string[]> {
    const prefix = batchesOf(tenantId);
    const keys = await this.#engine.scanKeys(
      { after: prefix + after, before: endOf(prefix) },
      limit,
    );
    return keys.map((key) => key.slice(prefix.length));
  }

  /** The members of a batch behind an id, or those that failed. */
  async membersOfBatch(
    { tenantId, id }: BatchOf,
    wanted: { readonly after: string; readonly limit: number; readonly failed: boolean },
  ): Promise<TaskId[]> {
    const prefix = (wanted.failed ? failedOfBatch : membersOfBatch)(tenantId, id);
    const range = { after: prefix + wanted.after, before: endOf(prefix) };
    return (await this.#engine.scanKeys(range, wanted.limit)).map(idOf);
  }

  /** The tasks without a batch that batches wait for. */
  async *awaited(): AsyncGenerator<{ readonly taskId: TaskId; readonly of: BatchOf }> {
    for await (const [key] of this.#scan(batchAwaitsPrefix)) {
      const [taskId = "", name = ""] = key.slice(batchAwaitsPrefix.length).split("/");
      yield { taskId: taskId as TaskId, of: batchInDue(name) };
    }
  }

  /** The triage of failure groups of a tenant. */
  async triageOf(tenantId: TenantId): Promise<Triage[]> {
    const prefix = triagePrefix(tenantId);
    const found: Triage[] = [];
    for await (const [key, value] of this.#scan(prefix)) {
      const triage = decodeTriage(key.slice(prefix.length), value.toString("utf8"));
      if (triage === undefined) this.#quarantine(key);
      else found.push(triage);
    }
    return found;
  }

  /** Webhooks between two of their keys, in the order in which they are due. */
  async webhooks(range: KvRange, limit: number): Promise<WebhookJob[]> {
    const entries = await this.#engine.scan(range, limit);
    return entries.map(([key, value]) => ({
      key,
      dueMs: numberOf(key),
      id: idOf(key),
      tries: Number(value.toString("latin1")) || 0,
    }));
  }

  hasWebhook({ key }: WebhookJob): boolean {
    return this.#engine.get(key) !== undefined;
  }

  /** Removes webhooks that are done; one of them may be scheduled again. */
  endWebhooks(
    jobs: readonly WebhookJob[],
    next?: Omit<WebhookJob, "key">,
    writes: readonly RecordWrite[] = [],
  ): Group {
    const ops = [...jobs.map(({ key }) => remove(key)), ...writes];
    if (next !== undefined) ops.push(create(webhookKey(next.dueMs, next.id), String(next.tries)));
    return this.#engine.commit([], ops);
  }

  /** The outcome of the webhook of a task; undefined before the first try, and when it is damaged. */
  deliveryLog(id: TaskId): DeliveryLog | undefined {
    const key = deliveryKey(id);
    const text = unlessDamaged(() => this.#engine.getText(key), "");
    const log = text === undefined ? undefined : decodeDelivery(text);
    if (text !== undefined && log === undefined) this.#quarantine(key);
    return log;
  }

  /** Webhooks of a tenant that were given up, behind a position, the earliest first. */
  async undeliveredAfter(
    tenantId: TenantId,
    after: Position | undefined,
    limit: number,
  ): Promise<Position[]> {
    const prefix = undeliveredPrefix(tenantId);
    const range = { after: keyAt(prefix, after), before: endOf(prefix) };
    return (await this.#engine.scanKeys(range, limit)).map(positionIn);
  }

  /** Every endpoint that fails or is disabled. */
  async *endpoints(): AsyncGenerator<readonly [TenantId, FailingEndpoint]> {
    for await (const [key, value] of this.#scan(endpointsPrefix)) {
      const [tenant, url] = key.slice(endpointsPrefix.length).split("/") as [string, string];
      const endpoint = decodeEndpoint(decodeURIComponent(url), value.toString("utf8"));
      if (endpoint === undefined) this.#quarantine(key);
      else yield [(tenant === "_" ? "" : tenant) as TenantId, endpoint];
    }
  }

  /** The secrets of every tenant that has some in the store. */
  async *signingSecrets(): AsyncGenerator<readonly [TenantId, readonly SigningSecret[]]> {
    for await (const [key, value] of this.#scan(signingPrefix)) {
      const tenant = key.slice(signingPrefix.length);
      const secrets = decodeSigning(value.toString("utf8"));
      if (secrets === undefined) this.#quarantine(key);
      else yield [(tenant === "_" ? "" : tenant) as TenantId, secrets];
    }
  }

  /** The removals that belong to the deletion of a task. */
  #removalsOf(task: Task): Op[] {
    const ops: Op[] = [];
    addRemovals(ops, task);
    if (task.idempotencyKey !== "") this.#endKey(ops, task);
    if (task.webhook !== "") ops.push(...removalsOfDelivery(task, this.deliveryLog(task.id)));
    return ops;
  }

  /** The key of a task that is deleted goes as well, or is kept for a while with the end of the task. */
  #endKey(ops: Op[], task: Task): void {
    const key = idempotencyKeyOf(task.tenantId, task.idempotencyKey);
    const untilMs = this.keyUntilMs(task);
    const gone = untilMs === undefined ? undefined : goneTask(task, untilMs);
    if (gone === undefined) {
      ops.push(remove(key));
      return;
    }
    // Without a readable entry nothing is known of the first request, so a strict second one is refused.
    const unread = { taskId: task.id, queue: queueOf(task.command), payloadHash: "" };
    const entry = unlessDamaged(() => this.#entry(key), undefined) ?? unread;
    if (entry.taskId !== task.id) return;
    ops.push(put(key, encodeIdempotency({ ...entry, gone })));
    ops.push(put(keptKeyOf(gone.untilMs, key), ""));
    this.onKeptKey(gone.untilMs);
  }

  /** All entries below a prefix in order, read in pieces so that no scan holds much at once. */
  #scan(prefix: string): AsyncGenerator<readonly [key: string, value: Buffer]> {
    return scanAll(this.#engine, prefix);
  }

  /** Quarantines a damaged value before the caller gets the error. */
  #readable<Value>(key: string, read: () => Value): Value {
    try {
      return read();
    } catch (error) {
      if (error instanceof FaultError && error.code === "corrupt") this.#quarantine(key);
      throw error;
    }
  }

  /** The bytes stay where they are and are copied aside, so that nothing later overwrites them. */
  #quarantine(key: string): void {
    this.quarantined += 1;
    const copyKey = quarantineKey(key);
    if (this.#engine.state !== "open" || this.#engine.get(copyKey) !== undefined) return;
    const bytes = this.#engine.raw(key);
    if (bytes !== undefined) this.#engine.commit([], [create(copyKey, bytes)]);
  }
}

/** Whether the change frees room, at once or later. The callback of a batch goes with the end of its last member. */
function isAnEnd({ before, after }: Change): boolean {
  if (before?.place.in === "held") return true;
  return after === undefined || after.place.in === "done" || after.place.in === "dead";
}

/** The writes besides the records of the tasks; none for most changes. */
function writesBeside(
  changes: readonly Change[],
  removalsOf: (task: Task) => readonly Op[],
): readonly Op[] {
  let ops: Op[] | undefined;
  for (let at = 0; at < changes.length; at++) {
    const change = changes[at] as Change;
    if (!hasWritesBeside(change)) continue;
    ops ??= [];
    if (change.after !== undefined) addBeside(ops, change, change.after);
    else if (change.before !== undefined) ops.push(...removalsOf(change.before));
  }
  return ops ?? noOps;
}

function hasWritesBeside({ before, after, because, payload, result }: Change): boolean {
  if (after === undefined || because === "edited") return true;
  if (before === undefined) return payload !== undefined || after.idempotencyKey !== "";
  const { place } = after;
  // A task that had ended before, and is only linked to another now, has had its webhook.
  if (before.place === place) return false;
  if (leavesResult(before, after)) return true;
  return (
    (place.in === "done" || place.in === "dead") && (result !== undefined || after.webhook !== "")
  );
}

function addBeside(ops: Op[], change: Change, after: Task): void {
  const { before, result } = change;
  if (before === undefined) {
    addOfNew(ops, after, change);
  } else if (change.because === "edited") {
    addOfEdited(ops, before, after, change);
  } else if (after.place.in === "done" || after.place.in === "dead") {
    if (result !== undefined) ops.push(create(resultKey(after.id), encodeResult(result)));
    if (after.webhook !== "") ops.push(webhookOf(after, after.place.atMs));
  } else if (leavesResult(before, after)) {
    ops.push(remove(resultKey(after.id)));
  }
}

/** Whether the change replays a dead letter whose result has a key of its own. */
function leavesResult(before: Task, after: Task): boolean {
  return isOver(before) && !isOver(after) && before.result === undefined;
}

function isOver({ place }: Task): boolean {
  return place.in === "done" || place.in === "dead";
}

/** The webhook of an earlier end may still exist when a dead letter was replayed. */
function webhookOf({ id, replays }: Task, atMs: number): Op {
  return (replays === 0 ? create : put)(webhookKey(atMs, id), noTries);
}

function addOfNew(ops: Op[], task: Task, { payload, payloadHash }: Change): void {
  if (payload !== undefined) ops.push(create(payloadKey(task.id), payload));
  if (task.idempotencyKey === "") return;
  const queue = queueOf(task.command);
  const entry = { taskId: task.id, queue, payloadHash, gone: undefined };
  // The key of a deleted task may still exist, so this is not always a creation.
  ops.push(put(idempotencyKeyOf(task.tenantId, task.idempotencyKey), encodeIdempotency(entry)));
}

/** Only when the payload has a key of its own, now or before. */
function addOfEdited(
  ops: Op[],
  before: Task,
  { id, payload: kept }: Task,
  { payload }: Change,
): void {
  if (payload !== undefined) ops.push(put(payloadKey(id), payload));
  else if (before.payload === undefined && kept !== undefined) ops.push(remove(payloadKey(id)));
}

function addRemovals(ops: Op[], task: Task): void {
  if (task.result === undefined) ops.push(remove(resultKey(task.id)));
  if (task.payload === undefined) ops.push(remove(payloadKey(task.id)));
}

function readyRange(queue: ReadyBucket, sequence: number): KvRange {
  const prefix = readyPrefix(queue);
  return { after: `${prefix}${sortable(sequence)}/~`, before: endOf(prefix) };
}

function readyPrefix({ lane, priority, ...queue }: ReadyBucket): string {
  const prefix = prefixOf(queue);
  return lane === undefined ? pendingPrefix(prefix, priority) : lanePrefix(prefix, lane, priority);
}

function prefixOf({ name, tenantId }: QueueName): string {
  return queuePrefix(name, tenantId);
}

function scheduleIn(path: string): ScheduleOf {
  const [tenant, id] = path.split("/") as [string, string];
  return { tenantId: (tenant === "_" ? "" : tenant) as TenantId, id };
}

function positionIn(key: string): Position {
  return { number: numberOf(key), id: idOf(key) };
}

function keyAt(prefix: string, position: Position | undefined): string {
  return position === undefined ? prefix : `${prefix}${sortable(position.number)}/${position.id}`;
}

function momentRange(prefix: string, after: Position | undefined, untilMs: number): KvRange {
  const isEndless = untilMs === Number.POSITIVE_INFINITY;
  const last = isEndless ? prefix : `${prefix}${sortable(untilMs)}/`;
  return { after: keyAt(prefix, after), before: endOf(last) };
}

function unlessDamaged<Value>(read: () => Value, otherwise: Value): Value {
  try {
    return read();
  } catch (error) {
    if (error instanceof FaultError && error.code === "corrupt") return otherwise;
    throw error;
  }
}

function damaged(key: string): FaultError {
  return new FaultError("corrupt", `${key} is damaged`);
}
