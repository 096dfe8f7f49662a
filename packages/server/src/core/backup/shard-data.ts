/**
 * The data of one store while the number of shards is changed: read in pieces from a store that has it,
 * and written to a store that gets it.
 *
 * - Index keys, counts and stored bytes are not copied. They follow from the tasks.
 * - A task, its payload and its result are written together, and a task that is there already is left
 *   alone. So everything may be written a second time after a crash.
 * - What cannot be read is handed out by itself, and never taken for something that is not there.
 */
import { Engine, type EngineOptions, FaultError, type Op, put, recordOf } from "@codeq/engine";
import {
  expiresMsOf,
  type IdempotencyEntry,
  type Task,
  type TaskId,
  type TenantId,
} from "@codeq/queue";
import {
  addCounts,
  type Counts,
  changeOfCounts,
  decodeCounts,
  deriveCounts,
  isEmpty,
  noCounts,
} from "../records/counts.ts";
import { decodeIdempotency, encodeIdempotency } from "../records/idempotency-record.ts";
import { checkFormat, readKind, type StoreKind, writeFormat } from "../store/format.ts";
import {
  allAuditPrefix,
  allTriagePrefix,
  allUndeliveredPrefix,
  apiKeysPrefix,
  apiKeyUsesPrefix,
  countsKey,
  countsPrefix,
  deliveryPrefix,
  endOf,
  endpointsPrefix,
  idempotencyKeyOf,
  idOf,
  jobsPrefix,
  parseIndexKey,
  pausedPrefix,
  payloadKey,
  quarantineKey,
  queuesPrefix,
  resultKey,
  retentionPrefix,
  sequenceKey,
  seriesPrefix,
  shardsKey,
  signingPrefix,
  startByPrefix,
  storedBytesKey,
  subscriptionsPrefix,
  subscriptionTurnsPrefix,
  tasksPrefix,
  topicsPrefix,
  webhookPrefix,
} from "../store/keys.ts";
import { StoredBytes } from "../store/stored-bytes.ts";
import { decodeResult } from "../store/task-codec.ts";
import { taskRows } from "../store/task-rows.ts";

const everythingPrefix = "codeq/";
const idempotencyPrefix = "codeq/idempo/";
const quarantinePrefix = quarantineKey("");
const bytesPrefix = "codeq/bytes/";
const metaPrefix = "codeq/meta/";
/** Copied key by key. */
const copiedPrefixes = [
  webhookPrefix,
  deliveryPrefix,
  allUndeliveredPrefix,
  quarantinePrefix,
  apiKeysPrefix,
  apiKeyUsesPrefix,
  allAuditPrefix,
  subscriptionsPrefix,
  subscriptionTurnsPrefix,
  jobsPrefix,
] as const;
/** Every shard has these records. */
const sharedPrefixes = [
  pausedPrefix,
  topicsPrefix,
  endpointsPrefix,
  signingPrefix,
  allTriagePrefix,
] as const;
const knownPrefixes = [
  ...copiedPrefixes,
  ...sharedPrefixes,
  tasksPrefix,
  "codeq/payload/",
  "codeq/results/",
  idempotencyPrefix,
  retentionPrefix,
  startByPrefix,
  queuesPrefix,
  countsPrefix,
  bytesPrefix,
  metaPrefix,
  // Begins anew, since points of several shards cannot be told apart once they are in one.
  seriesPrefix,
];

const pieceItems = 500;
const pieceBytes = 4 * 1024 * 1024;
const countedPiece = 10_000;

export interface MovedTask {
  readonly task: Task;
  /** Undefined when it travels with the task, and when it cannot be read. */
  readonly payload: Buffer | undefined;
  /** The same for what its worker gave back. */
  readonly result: Buffer | undefined;
}

/** An idempotency key and the task of the same store that it stands for. */
export interface MovedKey {
  readonly tenantId: TenantId;
  readonly key: string;
  readonly entry: IdempotencyEntry;
}

export interface MovedEntry {
  readonly key: string;
  readonly value: Buffer;
}

export interface Piece<Item> {
  readonly items: readonly Item[];
  /** What cannot be read, as it lies there. */
  readonly damaged: readonly MovedEntry[];
  /** Where to go on reading. */
  readonly after: string;
}

/** Whose shard a key belongs to. */
export type KeyOwner =
  | { readonly of: "task"; readonly id: TaskId }
  | { readonly of: "key"; readonly tenantId: TenantId; readonly key: string }
  | { readonly of: "control" };

/** What all tasks of a store, or of several, add up to. */
export class Sums {
  tasks = 0;
  retention = 0;
  readonly places: Map<string, Counts> = new Map();
  readonly storedBytes: Map<string, number> = new Map();

  addTask(task: Task): void {
    this.tasks += 1;
    if (expiresMsOf(task) !== undefined) this.retention += 1;
    const rows = [{ row: task, below: undefined }] as unknown as Parameters<
      typeof changeOfCounts
    >[0]["rows"];
    for (const [key, { counts }] of changeOfCounts({ rows, entries: [] }).queues) {
      this.addPlaces(key, counts);
    }
    this.addBytes(storedBytesKey(task.tenantId), task.storedBytes);
  }

  addPlaces(key: string, counts: Counts): void {
    const sum = addCounts(this.places.get(key) ?? noCounts(), counts);
    if (isEmpty(sum)) this.places.delete(key);
    else this.places.set(key, sum);
  }

  /** Places by the keys of the queues, which failed tasks have none of. */
  get keyed(): ReadonlyMap<string, Counts> {
    const counted = [...this.places].map(
      ([key, counts]) => [key, { ...counts, failed: 0 }] as const,
    );
    return new Map(counted.filter(([, counts]) => !isEmpty(counts)));
  }

  addBytes(key: string, bytes: number): void {
    const sum = (this.storedBytes.get(key) ?? 0) + bytes;
    if (sum === 0) this.storedBytes.delete(key);
    else this.storedBytes.set(key, sum);
  }
}

export type ShardDataOptions = Omit<EngineOptions, "rows" | "derive" | "verify" | "observer"> & {
  /** What the store has to be; any without it. */
  readonly kind?: StoreKind | undefined;
  /** It is made when it is not there. */
  readonly mayBeNew: boolean;
};

/** A result that cannot be decoded. */
const unreadable = Buffer.alloc(0);
const silent = { grouped: () => {}, flushed: () => {}, stateChanged: () => {} };

export class ShardData implements AsyncDisposable {
  readonly kind: StoreKind;
  readonly #engine: Engine;
  readonly #bytes: StoredBytes;

  private constructor(engine: Engine, kind: StoreKind) {
    this.#engine = engine;
    this.kind = kind;
    this.#bytes = new StoredBytes((key) => engine.getText(key));
    engine.onClosing = () => this.#bytes.takeChanges();
  }

  static async open(options: ShardDataOptions): Promise<ShardData> {
    const { kind, mayBeNew } = options;
    const engine = await Engine.open({
      ...options,
      rows: taskRows,
      derive: deriveCounts,
      observer: silent,
      verify: (get) => {
        if (kind === undefined) readKind(get);
        else checkFormat(get, kind);
      },
    });
    try {
      if (kind !== undefined && mayBeNew) await writeFormat(engine, kind);
      const found = readKind((key) => engine.get(key));
      if (found !== undefined) return new ShardData(engine, found);
      throw new FaultError("format", "the store has never been used by a server");
    } catch (error) {
      await engine[Symbol.asyncDispose]();
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#engine[Symbol.asyncDispose]();
  }

  /** The first key that this version knows nothing of. */
  async unknownKey(): Promise<string | undefined> {
    for (let after = everythingPrefix; ; ) {
      const [key] = await this.#engine.scanKeys({ after, before: endOf(everythingPrefix) }, 1);
      if (key === undefined) return undefined;
      const prefix = knownPrefixes.find((each) => key.startsWith(each));
      if (prefix === undefined) return key;
      after = endOf(prefix);
    }
  }

  get sequence(): number {
    return Number(this.#engine.getText(sequenceKey) ?? 0);
  }

  /** Numbers of new tasks are greater than this one. */
  async raiseSequence(sequence: number): Promise<void> {
    if (this.sequence < sequence) await this.#write([put(sequenceKey, String(sequence))]);
  }

  /** All shards that this store knows of have been made. */
  async noteShards(): Promise<void> {
    if (this.#engine.get(shardsKey) === undefined) await this.#write([put(shardsKey, "")]);
  }

  countTasks(): Promise<number> {
    return this.#countKeys(tasksPrefix);
  }

  /** Tasks in the order of their ids, behind one of them. */
  async *tasks(after: string): AsyncGenerator<Piece<MovedTask>> {
    for await (const keys of this.#keys(tasksPrefix, after, pieceItems)) {
      await this.#engine.readRowsAhead(keys.map(idOf));
      let items: MovedTask[] = [];
      let damaged: MovedEntry[] = [];
      let bytes = 0;
      for (const key of keys) {
        const task = this.#engine.row(idOf(key)) as Task | undefined;
        if (task === undefined) {
          damaged.push(this.#raw(key));
          continue;
        }
        const moved = this.#moved(task, damaged);
        items.push(moved);
        bytes += task.storedBytes;
        if (bytes < pieceBytes) continue;
        yield { items, damaged, after: task.id };
        items = [];
        damaged = [];
        bytes = 0;
      }
      if (items.length + damaged.length > 0) {
        yield { items, damaged, after: idOf(keys.at(-1) as string) };
      }
    }
  }

  #moved(task: Task, damaged: MovedEntry[]): MovedTask {
    const { place } = task;
    const hasEnded = place.in === "done" || place.in === "dead";
    const hasResult = hasEnded && task.result === undefined;
    const payload =
      task.payload === undefined ? this.#readOr(payloadKey(task.id), damaged) : undefined;
    const readable = damaged.length;
    const result = hasResult ? this.#readOr(resultKey(task.id), damaged) : undefined;
    // A payload that is missing is damaged; a result that is missing is none.
    return { task, payload, result: damaged.length > readable ? unreadable : result };
  }

  /** Idempotency keys of tasks in this store; those of others are not in it. */
  async *idempotencyKeys(): AsyncGenerator<Piece<MovedKey>> {
    for await (const keys of this.#keys(idempotencyPrefix, "", pieceItems)) {
      const items: MovedKey[] = [];
      const damaged: MovedEntry[] = [];
      for (const key of keys) {
        const value = this.#readOr(key, damaged);
        if (value === undefined) continue;
        const entry = decodeIdempotency(value.toString("utf8"));
        if (entry === undefined) damaged.push({ key, value });
        else if (this.#engine.row(entry.taskId) !== undefined) {
          items.push({ ...keyIn(key), entry });
        }
      }
      yield { items, damaged, after: keys.at(-1) as string };
    }
  }

  /** Records of one task, and of none. */
  entries(): AsyncGenerator<Piece<MovedEntry>> {
    return this.#entries(copiedPrefixes);
  }

  /** Records that every shard has. */
  sharedEntries(): AsyncGenerator<Piece<MovedEntry>> {
    return this.#entries(sharedPrefixes);
  }

  async *#entries(prefixes: readonly string[]): AsyncGenerator<Piece<MovedEntry>> {
    for (const prefix of prefixes) {
      for await (const keys of this.#keys(prefix, "", pieceItems)) {
        const items: MovedEntry[] = [];
        const damaged: MovedEntry[] = [];
        for (const key of keys) {
          const value = this.#readOr(key, damaged);
          if (value !== undefined) items.push({ key, value });
        }
        yield { items, damaged, after: keys.at(-1) as string };
      }
    }
  }

  async putTasks(tasks: readonly MovedTask[]): Promise<void> {
    const fresh = tasks.filter(({ task }) => this.#engine.row(task.id) === undefined);
    if (fresh.length === 0) return;
    const ops: Op[] = [];
    for (const { task, payload, result } of fresh) {
      if (payload !== undefined) ops.push(put(payloadKey(task.id), payload));
      if (result !== undefined) ops.push(put(resultKey(task.id), result));
    }
    const changes = fresh.map(({ task }) => ({ before: undefined, after: task }));
    const group = this.#engine.commit(changes, ops);
    // After the commit: a group that closes in between has neither the tasks nor their bytes.
    for (const { task } of fresh) this.#bytes.add(task.tenantId, task.storedBytes);
    await group.done;
  }

  async putKeys(keys: readonly MovedKey[]): Promise<void> {
    await this.#write(
      keys.map(({ tenantId, key, entry }) =>
        put(idempotencyKeyOf(tenantId, key), encodeIdempotency(entry)),
      ),
    );
  }

  async putEntries(entries: readonly MovedEntry[]): Promise<void> {
    await this.#write(entries.map(({ key, value }) => put(key, value)));
  }

  /** What another shard has written already is left alone. */
  async putMissing(entries: readonly MovedEntry[]): Promise<void> {
    await this.putEntries(entries.filter((entry) => !this.hasEntry(entry)));
  }

  hasEntry({ key }: MovedEntry): boolean {
    return this.#engine.get(key) !== undefined;
  }

  async setAside(entries: readonly MovedEntry[]): Promise<void> {
    await this.#write(entries.map(({ key, value }) => put(quarantineKey(key), value)));
  }

  /** Whether a copy of what cannot be read is in quarantine. */
  isSetAside({ key }: MovedEntry): boolean {
    return this.#engine.get(quarantineKey(key)) !== undefined;
  }

  /** Makes comparing each of these tasks cheap. */
  async readAhead(tasks: readonly MovedTask[]): Promise<void> {
    await this.#engine.readRowsAhead(tasks.map(({ task }) => task.id));
  }

  /** Whether the task is here with all that belongs to it. */
  isSameTask({ task, payload, result }: MovedTask): boolean {
    const found = this.#engine.row(task.id);
    return (
      found !== undefined &&
      recordOf(found, taskRows).equals(recordOf(task, taskRows)) &&
      (task.payload !== undefined || this.#has(payloadKey(task.id), payload)) &&
      (task.result !== undefined || this.#has(resultKey(task.id), result))
    );
  }

  isSameKey({ tenantId, key, entry }: MovedKey): boolean {
    return this.#has(idempotencyKeyOf(tenantId, key), Buffer.from(encodeIdempotency(entry)));
  }

  isSameEntry({ key, value }: MovedEntry): boolean {
    return this.#has(key, value);
  }

  /** What the counters of the store say. Everything must be flushed. */
  async addStored(to: Sums): Promise<void> {
    to.tasks += await this.#countKeys(tasksPrefix);
    to.retention += await this.#countKeys(retentionPrefix);
    for await (const keys of this.#keys(countsPrefix, "", pieceItems)) {
      for (const key of keys) to.addPlaces(key, decodeCounts(this.#engine.get(key) as Buffer));
    }
    for await (const keys of this.#keys(bytesPrefix, "", pieceItems)) {
      for (const key of keys) to.addBytes(key, Number(this.#engine.getText(key)));
    }
  }

  /** What the keys of the queues say. */
  async addIndexed(to: Sums): Promise<void> {
    for await (const keys of this.#keys(queuesPrefix, "", countedPiece)) {
      for (const key of keys) {
        const { queue, tenantId, kind, priority } = parseIndexKey(key);
        const counts = noCounts();
        if (kind === "pending") counts.ready[priority] = 1;
        else counts[({ inprog: "leased", delayed: "delayed", dlq: "dead" } as const)[kind]] = 1;
        to.addPlaces(countsKey(queue, tenantId), counts);
      }
    }
  }

  /** How many idempotency keys there are, and how many other entries that were copied. */
  async countEntries(): Promise<{ readonly keys: number; readonly others: number }> {
    let others = 0;
    for (const prefix of copiedPrefixes) others += await this.#countKeys(prefix);
    return { keys: await this.#countKeys(idempotencyPrefix), others };
  }

  /** Brings everything into the tables. */
  async flush(): Promise<void> {
    await this.#engine.flushNow();
  }

  /** Reads all files; throws when one is not what was written. */
  async scrub(): Promise<void> {
    await this.#engine.scrub();
  }

  async #write(ops: readonly Op[]): Promise<void> {
    if (ops.length > 0) await this.#engine.commit([], ops).done;
  }

  #has(key: string, value: Buffer | undefined): boolean {
    const found = this.#engine.get(key);
    return found === undefined || value === undefined ? found === value : found.equals(value);
  }

  #readOr(key: string, damaged: MovedEntry[]): Buffer | undefined {
    try {
      const value = this.#engine.get(key);
      const isResult = key.startsWith("codeq/results/");
      if (value === undefined || !isResult || decodeResult(value) !== undefined) return value;
    } catch (error) {
      if (!(error instanceof FaultError) || error.code !== "corrupt") throw error;
    }
    damaged.push(this.#raw(key));
    return undefined;
  }

  #raw(key: string): MovedEntry {
    return { key, value: this.#engine.raw(key) ?? Buffer.alloc(0) };
  }

  async #countKeys(prefix: string): Promise<number> {
    let count = 0;
    for await (const keys of this.#keys(prefix, "", countedPiece)) count += keys.length;
    return count;
  }

  async *#keys(prefix: string, after: string, limit: number): AsyncGenerator<readonly string[]> {
    let from = prefix + after;
    for (;;) {
      const keys = await this.#engine.scanKeys({ after: from, before: endOf(prefix) }, limit);
      const last = keys.at(-1);
      if (last === undefined) return;
      yield keys;
      from = last;
    }
  }
}

export function ownerOf(key: string): KeyOwner {
  if (key.startsWith(quarantinePrefix)) return ownerOf(key.slice(quarantinePrefix.length));
  if (key.startsWith(idempotencyPrefix)) return { of: "key", ...keyIn(key) };
  const isOfTask = [
    "codeq/payload/",
    "codeq/results/",
    tasksPrefix,
    webhookPrefix,
    deliveryPrefix,
    allUndeliveredPrefix,
    queuesPrefix,
  ].some((prefix) => key.startsWith(prefix));
  return isOfTask ? { of: "task", id: idOf(key) } : { of: "control" };
}

/** The tenant and the key that a producer gave. */
function keyIn(storeKey: string): { readonly tenantId: TenantId; readonly key: string } {
  const [tenant = "", ...rest] = storeKey.slice(idempotencyPrefix.length).split("/");
  return {
    tenantId: (tenant === "_" ? "" : tenant) as TenantId,
    key: decodeURIComponent(rest.join("/")),
  };
}
