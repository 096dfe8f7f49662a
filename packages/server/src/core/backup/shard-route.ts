/**
 * The way of every entry of old stores to the new stores of another number of shards.
 *
 * - An entry is copied as it is, with its checksum, to the shard of its task, to the control store, or to all shards.
 * - Index keys, counts and stored bytes are made again from the tasks. The series begin again, since points of several
 *   shards cannot be separated once they are in one series.
 * - An idempotency key goes to the shard that is asked for it and to that of its task. The key of a deleted task goes
 *   to the shard that is asked for it, as long as it is kept. A key whose task is gone for other reasons is left out.
 * - A batch stays together only in one store. With more stores, tasks of a batch that has ended leave it, and a batch
 *   that has not ended stops everything.
 * - A record that cannot be read stops everything or is put in quarantine, and is never taken for one that is missing.
 */
import { entriesOf, FaultError, type Kv, sealed, sealedEnd, unseal } from "@codeq/engine";
import {
  isUnfinished,
  released,
  type Task,
  type TaskId,
  type TenantId,
  type UniqueEntry,
} from "@codeq/queue";
import { isControlKey } from "../control/control-records.ts";
import { decodeBatchState } from "../records/batch-record.ts";
import { deriveCounts } from "../records/counts.ts";
import { decodeIdempotency } from "../records/idempotency-record.ts";
import { homeOfSchedule } from "../records/schedule-record.ts";
import { decodeTopic } from "../records/topic-record.ts";
import { decodeUnique, type UniqueName, uniqueNameOf } from "../records/unique-record.ts";
import {
  allFailureCountsPrefix,
  allTriagePrefix,
  allUndeliveredPrefix,
  batchAwaitsPrefix,
  batchDuePrefix,
  batchesPrefix,
  batchStateKey,
  batchStatePrefix,
  countsPrefix,
  deliveryPrefix,
  endOf,
  endpointsPrefix,
  idempotencyPrefix,
  idOf,
  keptKeyOf,
  keptKeysPrefix,
  laneCountsPrefix,
  lanePoliciesPrefix,
  lanesPrefix,
  pausedPrefix,
  quarantineKey,
  scheduleStatePrefix,
  schedulesPrefix,
  sequenceKey,
  seriesPrefix,
  shardsKey,
  signingPrefix,
  storedBytesKey,
  storedBytesPrefix,
  taskKey,
  tasksPrefix,
  topicKey,
  topicsPrefix,
  uniqueKeyOf,
  uniquePrefix,
  webhookPrefix,
} from "../store/keys.ts";
import { decodeResult, readTask, taskBytesMax, writeTask } from "../store/task-codec.ts";
import { keysOf, taskRows } from "../store/task-rows.ts";

const metaPrefix = "codeq/meta/";
const quarantinePrefix = quarantineKey("");
const payloadPrefix = "codeq/payload/";
const resultPrefix = "codeq/results/";
const bodyPrefixes = [payloadPrefix, resultPrefix];
const ofTaskPrefixes = [
  tasksPrefix,
  ...bodyPrefixes,
  webhookPrefix,
  deliveryPrefix,
  allUndeliveredPrefix,
];
const ofAllShardsPrefixes = [
  pausedPrefix,
  topicsPrefix,
  endpointsPrefix,
  signingPrefix,
  allTriagePrefix,
  lanesPrefix,
  lanePoliciesPrefix,
];
const batchPrefixes = [batchesPrefix, batchStatePrefix, batchAwaitsPrefix, batchDuePrefix];
const schedulePrefixes = [schedulesPrefix, scheduleStatePrefix];
const derivedPrefixes = [
  countsPrefix,
  laneCountsPrefix,
  allFailureCountsPrefix,
  storedBytesPrefix,
  seriesPrefix,
  keptKeysPrefix,
];
/** Tasks first: which of them are left out decides about the rest. */
const ranges = [
  { after: tasksPrefix, before: endOf(tasksPrefix) },
  { after: "", before: tasksPrefix },
  { after: endOf(tasksPrefix), before: "\x7f" },
] as const;

/** Which of the new shards a task, and an idempotency key, belong to. */
export interface NewShards {
  readonly count: number;
  readonly ofTask: (id: TaskId) => number;
  readonly ofKey: (tenantId: TenantId, key: string) => number;
  readonly ofUnique: (name: UniqueName, isPlaced: boolean) => number;
}

/** An entry as a kv stores it, and the number of its new store: 0 is the control store, which with one shard has all. */
export type RoutedEntry = readonly [store: number, key: string, stored: Buffer];

/** How many tasks a store has whose kv has everything. */
export async function countTasks(kv: Kv): Promise<number> {
  let count = 0;
  for await (const entries of entriesOf(kv, ranges[0])) count += entries.length;
  return count;
}

/** What the tasks of a new store add up to. */
class Sums {
  /** Tasks that were not added up yet. */
  readonly tasks: Task[] = [];
  /** Counts of queues by their keys, as a flush writes them. */
  readonly counts: Map<string, Buffer> = new Map();
  /** Stored bytes of tenants by their keys. */
  readonly bytes: Map<string, number> = new Map();

  addUp(): void {
    const tasks = this.tasks.splice(0);
    const rows = tasks.map((row) => ({ row, below: undefined }));
    const writes = deriveCounts({ rows, entries: [] }, (key) => this.counts.get(key));
    for (const { key, value } of writes) if (value !== undefined) this.counts.set(key, value);
    for (const { tenantId, storedBytes } of tasks.filter((task) => task.storedBytes > 0)) {
      const key = storedBytesKey(tenantId);
      this.bytes.set(key, (this.bytes.get(key) ?? 0) + storedBytes);
    }
  }
}

/** The old store that is read, and its tasks that cannot be read. */
interface Source {
  readonly kv: Kv;
  readonly leftOut: Set<TaskId>;
}

const none: readonly RoutedEntry[] = [];

export class ShardRoute {
  /** How many tasks were routed. */
  tasks = 0;
  /** Records that could not be read. */
  setAside = 0;
  readonly #shards: NewShards;
  readonly #setsAsideDamaged: boolean;
  readonly #nowMs: number;
  /** By the numbers of the new stores. */
  readonly #sums: readonly Sums[];
  /** Keys that all shards have. The first old shard with a record of such a key decides. */
  readonly #ofAllShards: Set<string> = new Set();
  #sequence = 0;
  /** The keys of topics whose queues have all of their tasks in one shard. */
  #placed: ReadonlySet<string> = new Set();

  constructor(
    shards: NewShards,
    { setsAsideDamaged, nowMs }: { readonly setsAsideDamaged: boolean; readonly nowMs: number },
  ) {
    this.#shards = shards;
    this.#setsAsideDamaged = setsAsideDamaged;
    this.#nowMs = nowMs;
    this.#sums = [0, ...this.#shardStores()].map(() => new Sums());
  }

  /** The entries of an old store whose kv has everything. */
  async *of(kv: Kv): AsyncGenerator<readonly RoutedEntry[], void, void> {
    const source = { kv, leftOut: new Set<TaskId>() };
    // Every old shard has the topics.
    this.#placed = await placedQueues(kv);
    for (const range of ranges) {
      for await (const entries of entriesOf(kv, range)) {
        yield entries.flatMap(([key, stored]) => this.#route(source, key, stored));
        for (const sums of this.#sums) sums.addUp();
      }
    }
  }

  /** Entries that follow from those of all old stores. */
  *derived(): Generator<RoutedEntry, void, void> {
    const sequence = Buffer.from(String(this.#sequence));
    for (const store of this.#shardStores()) yield routedTo(store, sequenceKey, sequence);
    if (this.#shards.count > 1) yield routedTo(0, shardsKey, Buffer.alloc(0));
    for (const [store, { counts, bytes }] of this.#sums.entries()) {
      for (const [key, value] of counts) if (key !== sequenceKey) yield routedTo(store, key, value);
      for (const [key, sum] of bytes) yield routedTo(store, key, Buffer.from(String(sum)));
    }
  }

  #route(source: Source, key: string, stored: Buffer): readonly RoutedEntry[] {
    if (key.startsWith(metaPrefix)) {
      const isSequence = key === sequenceKey;
      const sequence = isSequence ? Number(unseal(key, stored).toString("latin1")) : 0;
      this.#sequence = Math.max(this.#sequence, sequence);
      return none;
    }
    if (this.#isLeftOut(key)) return none;
    const end = sealedEnd(key, stored);
    const value = end === undefined ? undefined : stored.subarray(0, end);
    if (key.startsWith(tasksPrefix)) return this.#task(source, key, { stored, value });
    if (hasPrefix(key, bodyPrefixes)) return this.#body(source, key, { stored, value });
    if (value === undefined) return this.#damaged(source, key, stored);
    if (key.startsWith(idempotencyPrefix)) return this.#key(source, key, { stored, value });
    if (key.startsWith(uniquePrefix)) return this.#unique(key, { stored, value });
    if (hasPrefix(key, ofAllShardsPrefixes)) {
      if (this.#ofAllShards.has(key)) return none;
      this.#ofAllShards.add(key);
      return this.#shardStores().map((store) => [store, key, stored]);
    }
    return [[this.#storeOf(key), key, stored]];
  }

  /** What is made again, or does not survive the change. */
  #isLeftOut(key: string): boolean {
    if (this.#shards.count > 1 && hasPrefix(key, batchPrefixes)) return true;
    return taskRows.isIndexKey(key) || hasPrefix(key, derivedPrefixes);
  }

  #task(source: Source, key: string, { stored, value }: Read): readonly RoutedEntry[] {
    const id = idOf(key);
    const task = value && readTask({ buffer: value, start: 0, end: value.length }, id);
    if (task === undefined) {
      source.leftOut.add(id);
      return this.#damaged(source, key, stored);
    }
    const store = this.#storeOf(key);
    this.tasks += 1;
    const freed = this.#freed(source, task) ?? this.#withoutBatch(source, task);
    if (freed !== undefined) return this.#indexed(store, freed, sealed(key, encodeTask(freed)));
    return this.#indexed(store, task, stored);
  }

  #indexed(store: number, task: Task, stored: Buffer): readonly RoutedEntry[] {
    const key = taskKey(task.id);
    this.#sums[store]?.tasks.push(task);
    const owner = taskRows.valueOf(task);
    const indexes = keysOf(task).filter((index) => index !== "");
    return [[store, key, stored], ...indexes.map((index) => [store, index, owner] as const)];
  }

  /** A long payload or result. */
  #body(source: Source, key: string, { stored, value }: Read): readonly RoutedEntry[] {
    if (source.leftOut.has(idOf(key))) return none;
    const isResult = key.startsWith(resultPrefix);
    const isReadable = value !== undefined && (!isResult || decodeResult(value) !== undefined);
    if (isReadable) return [[this.#storeOf(key), key, stored]];
    const damaged = this.#damaged(source, key, stored);
    // A payload that is missing is known to be damaged. A missing result would mean that there was none.
    return isResult ? [...damaged, routedTo(this.#storeOf(key), key, Buffer.alloc(0))] : damaged;
  }

  /** Another shard may have the key as well; only the shard of the task is followed. */
  #key(source: Source, key: string, { stored, value }: SoundRead): readonly RoutedEntry[] {
    const entry = decodeIdempotency(value.toString("utf8"));
    if (entry === undefined) return this.#damaged(source, key, stored);
    const { taskId, gone } = entry;
    if (gone !== undefined) {
      // Another task may have the key since it ended.
      if (gone.untilMs <= this.#nowMs) return none;
      const store = this.#storeOf(key);
      return [[store, key, stored], routedTo(store, keptKeyOf(gone.untilMs, key), Buffer.alloc(0))];
    }
    if (source.leftOut.has(taskId) || source.kv.get(taskKey(taskId)) === undefined) return none;
    const stores = new Set([this.#storeOf(key), this.#storeOf(taskKey(taskId))]);
    return [...stores].map((store) => [store, key, stored]);
  }

  /** Stays when the shard that is asked for it has its tasks; otherwise its tasks lose it. */
  #unique(key: string, { stored, value }: SoundRead): readonly RoutedEntry[] {
    const entry = decodeUnique(value.toString("utf8"));
    if (entry === undefined || !this.#staysTogether(key, entry)) return none;
    const store = this.#storeOf(key);
    const { untilMs, hasEnded } = entry;
    const kept = routedTo(store, keptKeyOf(untilMs, key), Buffer.alloc(0));
    return hasEnded ? [[store, key, stored], kept] : [[store, key, stored]];
  }

  #staysTogether(key: string, { holder, waiting }: UniqueEntry): boolean {
    const home = this.#storeOf(key);
    const ids = waiting === "" ? [holder] : [holder, waiting];
    return ids.every((id) => this.#storeOf(taskKey(id)) === home);
  }

  /** A task that waited for another one whose end its new shard would not learn of. */
  #freed({ kv }: Source, task: Task): Task | undefined {
    const name = uniqueNameOf(task);
    if (name === undefined) return undefined;
    const key = uniqueKeyOf(name);
    const stored = kv.get(key);
    const entry = stored && decodeUnique(unseal(key, stored).toString("utf8"));
    if (entry !== undefined && this.#staysTogether(key, entry)) return undefined;
    const at = { nowMs: this.#nowMs, seq: this.#sequence };
    return { ...released(task, at), unique: undefined };
  }

  /** A task that leaves its batch, because members and callback may come to different shards. */
  #withoutBatch({ kv }: Source, task: Task): Task | undefined {
    const { batch, tenantId } = task;
    if (batch === undefined || this.#shards.count === 1) return undefined;
    const key = batchStateKey(tenantId, batch.id);
    const stored = kv.get(key);
    const state = stored && decodeBatchState(unseal(key, stored).toString("utf8"));
    const isOver = state === undefined ? task.place.in !== "held" : !isUnfinished(state);
    if (isOver) return { ...task, batch: undefined };
    throw new FaultError(
      "format",
      `the batch ${batch.id} of the tenant ${tenantId || "(none)"} has not ended, and its tasks cannot be split over ` +
        "shards. The data is unchanged. Start the server, let the batch end or cancel it, and try again.",
    );
  }

  #damaged({ kv }: Source, key: string, stored: Buffer): readonly RoutedEntry[] {
    if (!this.#setsAsideDamaged) {
      throw new FaultError(
        "corrupt",
        `${key} cannot be read. The data is unchanged. Restore a backup, or add ` +
          "--set-aside-damaged to leave out tasks that cannot be read and keep them in quarantine.",
      );
    }
    this.setAside += 1;
    const aside = quarantineKey(key);
    // A copy may be in quarantine already.
    return kv.get(aside) === undefined ? [routedTo(this.#storeOf(key), aside, stored)] : none;
  }

  /** Throws when this version does not know such keys. */
  #storeOf(key: string): number {
    if (key.startsWith(quarantinePrefix)) return this.#storeOf(key.slice(quarantinePrefix.length));
    if (hasPrefix(key, ofTaskPrefixes)) return this.#storeOfShard(this.#shards.ofTask(idOf(key)));
    if (key.startsWith(idempotencyPrefix)) {
      const [tenant = "", ...rest] = key.slice(idempotencyPrefix.length).split("/");
      const tenantId = (tenant === "_" ? "" : tenant) as TenantId;
      return this.#storeOfShard(this.#shards.ofKey(tenantId, decodeURIComponent(rest.join("/"))));
    }
    const schedule = schedulePrefixes.find((prefix) => key.startsWith(prefix));
    if (schedule !== undefined) {
      const [tenant = "", id = ""] = key.slice(schedule.length).split("/");
      const tenantId = (tenant === "_" ? "" : tenant) as TenantId;
      return this.#storeOfShard(this.#shards.ofKey(tenantId, homeOfSchedule(id)));
    }
    if (key.startsWith(uniquePrefix)) {
      const [tenant = "", queue = "", name = ""] = key.slice(uniquePrefix.length).split("/");
      const tenantId = (tenant === "_" ? "" : tenant) as TenantId;
      const of = { tenantId, queue, key: decodeURIComponent(name) };
      const isPlaced = this.#placed.has(topicKey(queue, tenantId));
      return this.#storeOfShard(this.#shards.ofUnique(of, isPlaced));
    }
    const isInFirst = hasPrefix(key, batchPrefixes) || hasPrefix(key, ofAllShardsPrefixes);
    if (isControlKey(key) || isInFirst) return 0;
    throw new FaultError("format", `the data has a key that this version does not know: ${key}`);
  }

  #shardStores(): number[] {
    return Array.from({ length: this.#shards.count }, (_, shard) => this.#storeOfShard(shard));
  }

  #storeOfShard(shard: number): number {
    return this.#shards.count === 1 ? 0 : shard + 1;
  }
}

async function placedQueues(kv: Kv): Promise<ReadonlySet<string>> {
  const placed = new Set<string>();
  const range = { after: topicsPrefix, before: endOf(topicsPrefix) };
  const of = { name: "", tenantId: "" as TenantId };
  for await (const entries of entriesOf(kv, range)) {
    for (const [key, stored] of entries) {
      const end = sealedEnd(key, stored);
      const text = end === undefined ? "" : stored.subarray(0, end).toString("utf8");
      if (decodeTopic(of, text)?.policy.placement === "one") placed.add(key);
    }
  }
  return placed;
}

/** Bytes of an old store, and the value in them; undefined when the checksum is wrong. */
interface Read {
  readonly stored: Buffer;
  readonly value: Buffer | undefined;
}

interface SoundRead extends Read {
  readonly value: Buffer;
}

function encodeTask(task: Task): Buffer {
  const buffer = Buffer.alloc(taskBytesMax(task));
  return buffer.subarray(0, writeTask(buffer, 0, task));
}

function routedTo(store: number, key: string, value: Buffer): RoutedEntry {
  return [store, key, sealed(key, value)];
}

function hasPrefix(key: string, prefixes: readonly string[]): boolean {
  return prefixes.some((prefix) => key.startsWith(prefix));
}
