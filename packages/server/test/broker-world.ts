/**
 * A broker on a simulated clock, disk and kv, which can be closed, crash, run full and be opened
 * again. The contents of the kv outlive every broker, as files would.
 */
import assert from "node:assert/strict";
import { LocalLog, MemoryKv } from "@codeq/engine";
import {
  type Change,
  type NackRequest,
  type NewTask,
  queueOf,
  type ResultBody,
  type Returned,
  type Submission,
  type Task,
  type TaskId,
  type TenantId,
  type WorkerId,
} from "@codeq/queue";
// biome-ignore lint/correctness/noUndeclaredDependencies: only tests use it.
import { SimClock, SimDisk, SimRandom, settle } from "@codeq/simulated";
import { noQuotas, type Quotas } from "../src/config/quotas.ts";
import type { Broker } from "../src/core/broker/broker.ts";
import { Claim, type ClaimRequest } from "../src/core/broker/claims/claim.ts";
import { ShardBroker } from "../src/core/broker/shard-broker.ts";
import type {
  ClaimedTask,
  Enqueued,
  OwnedTask,
  Refused,
  Submitted,
  Waiter,
} from "../src/core/broker/verbs.ts";
import { type Counts, isEmpty, noCounts } from "../src/core/records/counts.ts";
import { idsOfShard } from "../src/core/shards/shard-of.ts";
import { idOf, parseIndexKey, queuesPrefix, tasksPrefix } from "../src/core/store/keys.ts";
import { type Position, Store } from "../src/core/store/store.ts";
import { decodeResult, readTask } from "../src/core/store/task-codec.ts";
import { type DrawId, TaskIds } from "../src/core/task-ids.ts";
import { engineOf } from "./engine-of.ts";

export interface BrokerWorldOptions {
  readonly seed?: number;
  readonly flushBytes?: number;
  readonly segmentBytes?: number;
  readonly minFreeBytes?: number;
  readonly keyLifeMs?: number;
  readonly delayedInMemoryMax?: number;
  readonly contents?: Map<string, Buffer>;
  readonly quotas?: Quotas;
  readonly clock?: SimClock;
  /** Which of several it is. */
  readonly shard?: { readonly shard: number; readonly count: number };
}

export const acme = "acme" as TenantId;
export const umbrella = "umbrella" as TenantId;
export const worker = "worker-1" as WorkerId;

export class BrokerWorld {
  readonly clock: SimClock;
  readonly random: SimRandom;
  readonly contents: Map<string, Buffer>;
  readonly ids: DrawId;
  disk: SimDisk;
  beforeWrite: () => Promise<void> = () => Promise.resolve();
  /** Hears of every durable change. */
  observe: (change: Change) => void = () => {};
  readonly #options: BrokerWorldOptions;
  /** What an earlier process left behind writes nothing any more. */
  #life = 1;

  constructor(options: BrokerWorldOptions = {}) {
    this.#options = options;
    this.clock = options.clock ?? new SimClock();
    this.random = new SimRandom(options.seed ?? 1);
    this.contents = options.contents ?? new Map();
    const idBytes = this.random.fork("ids");
    const drawn = new TaskIds((into) => idBytes.bytes(into));
    this.ids = idsOfShard(drawn, options.shard ?? { shard: 0, count: 1 });
    const diskRandom = this.random.fork("disk");
    this.disk = new SimDisk({ random: () => diskRandom.next() });
  }

  async openStore(shards = 1): Promise<Store> {
    const { clock, disk } = this;
    const life = this.#life;
    const beforeWrite = (): Promise<void> =>
      life === this.#life ? this.beforeWrite() : new Promise(() => {});
    const log = await LocalLog.open(disk, {
      durability: "fsync",
      segmentBytes: this.#options.segmentBytes ?? 64 * 1024,
      writer: 1,
      epoch: 1,
      shard: 0,
      monotonicMs: () => clock.monotonicMs(),
    });
    return Store.open({
      shards,
      log,
      kv: new MemoryKv({ contents: this.contents, beforeWrite }),
      observer: { grouped: () => {}, flushed: () => {}, stateChanged: () => {} },
      freeBytes: () => disk.freeBytes(),
      clock,
      defer: (run) => queueMicrotask(run),
      minFreeBytes: this.#options.minFreeBytes ?? 0,
      flushBytes: this.#options.flushBytes ?? 1024 * 1024,
      syncIntervalMs: undefined,
    });
  }

  openBroker(store: Store): Promise<ShardBroker> {
    return ShardBroker.open({
      store,
      clock: this.clock,
      ids: this.ids,
      draw: () => 0.5,
      policy: { backoff: "fixed", baseSeconds: 5, maxSeconds: 900 },
      retention: { doneMs: 3_600_000, deadMs: 7_200_000 },
      keyLifeMs: this.#options.keyLifeMs,
      delayedInMemoryMax: this.#options.delayedInMemoryMax ?? 1000,
      quotas: this.#options.quotas ?? noQuotas,
      disableEndpointAfterMs: 0,
      prepareRemoval: () => () => Promise.resolve(),
      observe: (change) => this.observe(change),
    });
  }

  async open(): Promise<ShardBroker> {
    return this.openBroker(await this.openStore());
  }

  async reopen(broker: ShardBroker): Promise<ShardBroker> {
    await broker.store[Symbol.asyncDispose]();
    return this.open();
  }

  /** The process ends; the next one finds what it had written. */
  async kill(): Promise<ShardBroker> {
    this.crash("process");
    return this.open();
  }

  crash(mode: "process" | "power"): void {
    this.#life += 1;
    this.disk = this.disk.crash(mode);
  }
}

export function newTask(fields: Partial<NewTask> = {}): NewTask {
  const payload = fields.payload ?? "{}";
  return {
    tenantId: acme,
    command: "work",
    priority: 0,
    webhook: "",
    traceParent: "",
    traceState: "",
    idempotencyKey: "",
    payload,
    payloadBytes: Buffer.byteLength(payload),
    payloadHash: "hash",
    keepsFirst: false,
    maxAttempts: 3,
    visibleMs: undefined,
    extras: undefined,
    ...fields,
  };
}

/** A question to the broker: what has come back of it so far, and what will. */
export class Asked<Answer> implements Waiter<Answer> {
  answer: Answer | undefined;
  refusal: Refused | undefined;
  readonly #told: PromiseWithResolvers<Answer> = Promise.withResolvers();

  constructor() {
    // Not everybody who asks waits for the answer.
    this.#told.promise.catch(() => {});
  }

  /** Resolves with the answer when it is durable; rejects with why there is none. */
  get done(): Promise<Answer> {
    return this.#told.promise;
  }

  get isRefused(): boolean {
    return this.refusal !== undefined;
  }

  /** Why it was refused. */
  get code(): string | undefined {
    return this.refusal?.code;
  }

  durable(answer: Answer): void {
    this.#assertFirst();
    this.answer = answer;
    this.#told.resolve(answer);
  }

  refused(why: Refused): void {
    this.#assertFirst();
    this.refusal = why;
    this.#told.reject(why);
  }

  #assertFirst(): void {
    const isFirst = this.answer === undefined && this.refusal === undefined;
    assert.ok(isFirst, "everybody who asks is answered once");
  }
}

function ask<Answer>(verb: (waiter: Waiter<Answer>) => void): Asked<Answer> {
  const asked = new Asked<Answer>();
  verb(asked);
  return asked;
}

export function create(broker: Broker, fields: Partial<NewTask> = {}): Asked<Enqueued> {
  return ask((waiter) => broker.enqueue(newTask(fields), waiter));
}

export function submit(broker: Broker, of: OwnedTask, submission: Submission): Asked<Submitted> {
  return ask((waiter) => broker.submit(of, submission, waiter));
}

export function nack(broker: Broker, of: OwnedTask, request: NackRequest): Asked<Returned> {
  return ask((waiter) => broker.nack(of, request, waiter));
}

export function abandon(
  broker: Broker,
  of: OwnedTask,
  request: { readonly interrupted: boolean },
): Asked<Returned> {
  return ask((waiter) => broker.abandon(of, request, waiter));
}

export function heartbeat(
  broker: Broker,
  of: OwnedTask,
  leaseMs: number,
): Asked<{ readonly untilMs: number }> {
  return ask((waiter) => broker.heartbeat(of, { leaseMs }, waiter));
}

/** What is decided while the function runs, durable or not. */
export function decidedBy({ store }: Pick<ShardBroker, "store">, run: () => void): Change[] {
  const decided: Change[] = [];
  const { commit } = store;
  store.commit = (changes, records) => {
    decided.push(...changes);
    return commit.call(store, changes, records);
  };
  try {
    run();
  } finally {
    store.commit = commit;
  }
  return decided;
}

/** Enqueues without waiting for the commit. */
export function enqueueNow(broker: ShardBroker, fields: Partial<NewTask> = {}): Task {
  const [created] = decidedBy(broker, () => create(broker, fields));
  assert.equal(created?.because, "created");
  return created?.after as Task;
}

export async function enqueue(broker: Broker, fields: Partial<NewTask> = {}): Promise<Task> {
  return (await create(broker, fields).done).task;
}

interface ClaimFields extends Omit<ClaimRequest, "queues"> {
  /** Undefined for every command of the tenant. */
  readonly commands: readonly string[] | undefined;
  readonly signal: AbortSignal;
}

/** A claim as a promise. */
export class AskedClaim extends Claim {
  readonly asked: Asked<readonly ClaimedTask[]> = new Asked();

  durable(tasks: readonly ClaimedTask[]): void {
    this.asked.durable(tasks);
  }

  refused(why: Refused): void {
    this.asked.refused(why);
  }
}

export function claim(
  broker: Broker,
  fields: Partial<ClaimFields> = {},
): Promise<readonly ClaimedTask[]> {
  const { signal, commands, ...request }: Partial<ClaimFields> = { commands: ["work"], ...fields };
  const asked = new AskedClaim({
    tenantId: acme,
    workerId: worker,
    queues: commands && [...new Set(commands.map(queueOf))],
    leaseMs: 60_000,
    count: 1,
    waitMs: 0,
    ...request,
  });
  if (signal?.aborted) asked.isCancelled = true;
  signal?.addEventListener("abort", () => broker.cancelClaim(asked), { once: true });
  broker.claim(asked);
  return asked.asked.done;
}

export async function claimIds(
  broker: Broker,
  fields: Partial<ClaimFields> = {},
): Promise<TaskId[]> {
  return (await claim(broker, fields)).map(({ task }) => task.id);
}

export function owned(task: Pick<Task, "id" | "tenantId">, workerId: WorkerId = worker): OwnedTask {
  return { tenantId: task.tenantId, id: task.id, owner: { workerId } };
}

/** A task that was completed with this. */
export function completed(json: string, artifacts: ResultBody["artifacts"] = []): Submission {
  const result = { json, artifacts };
  return { how: "completed", error: "", result, resultBytes: sizeOf(result) };
}

export const success: Submission = completed('{"ok":true}');

/** Does what the ticker does: wakes lanes, takes ended leases back, reads and promotes what is due. */
export async function runDue(
  broker: ShardBroker,
  clock: Pick<SimClock, "nowMs" | "monotonicMs">,
): Promise<Task[]> {
  const promoted: Task[] = [];
  broker.wakeLanes(1000);
  for (;;) {
    const lease = broker.leases.first();
    const item = broker.delayed.first();
    if (lease !== undefined && lease.dueMs <= clock.monotonicMs()) {
      broker.expire(lease.id);
      await broker.store.whenDurable(lease.id);
    } else if (item !== undefined && item.id === undefined && item.dueMs <= clock.nowMs()) {
      await broker.delayed.readStretch(item);
    } else if (item?.id !== undefined && item.dueMs <= clock.nowMs()) {
      broker.store.assertWritable();
      broker.delayed.drop(item);
      promoted.push(...(await promoteNow(broker, { id: item.id, number: item.dueMs }).done));
    } else {
      return promoted;
    }
  }
}

/** Promotes one task: which were, and which are when that is durable. */
export function promoteNow(
  broker: ShardBroker,
  due: Position,
): { readonly tasks: readonly Task[]; readonly done: Promise<readonly Task[]> } {
  let durable = Promise.resolve();
  const decided = decidedBy(broker, () => {
    durable = broker.promote([due]);
  });
  const tasks = decided
    .filter(({ because }) => because === "promoted")
    .map(({ after }) => after as Task);
  return { tasks, done: durable.then(() => tasks) };
}

/** Counts of every queue from a walk over all index keys and tasks, durable or not. */
export async function countedKeys(store: Store): Promise<Map<string, Counts>> {
  const counted = new Map<string, Counts>();
  for (const [key, record] of await entriesUnder(store, tasksPrefix)) {
    const task = decodeTask(key, record);
    if (task?.place.in !== "done" || task.place.how !== "failed") continue;
    const name = `${task.tenantId}/${queueOf(task.command)}`;
    const counts = counted.get(name) ?? noCounts();
    counted.set(name, { ...counts, failed: counts.failed + 1 });
  }
  for (const [key] of await entriesUnder(store, queuesPrefix)) {
    const { queue, tenantId, kind, priority } = parseIndexKey(key);
    const name = `${tenantId}/${queue}`;
    const counts = counted.get(name) ?? noCounts();
    counted.set(name, counts);
    if (kind === "pending") counts.ready[priority] = (counts.ready[priority] ?? 0) + 1;
    else if (kind === "inprog") counts.leased += 1;
    else if (kind === "delayed") counts.delayed += 1;
    else counts.dead += 1;
  }
  return counted;
}

/** What lies below a prefix, durable or not. */
export function entriesUnder(
  store: Store,
  prefix: string,
): Promise<(readonly [key: string, value: Buffer])[]> {
  return engineOf(store).scan({ after: prefix, before: `${prefix}~` }, 1e9);
}

/** The task of a record. */
export function decodeTask(key: string, record: Buffer): Task | undefined {
  return readTask({ buffer: record, start: 0, end: record.length }, idOf(key));
}

/** Bytes of every tenant from a walk over all payloads and results, durable or not. */
export async function storedSizes(store: Store): Promise<Map<string, number>> {
  const sizes = new Map<string, number>();
  const owners = new Map<string, string>();
  const add = (key: string, size: number): void => {
    const owner = owners.get(idOf(key));
    assert.ok(owner !== undefined, `${key} belongs to no task`);
    sizes.set(owner, (sizes.get(owner) ?? 0) + size);
  };
  for (const [key, record] of await entriesUnder(store, tasksPrefix)) {
    const task = decodeTask(key, record);
    assert.ok(task !== undefined, `${key} cannot be read`);
    owners.set(task.id, task.tenantId);
    // What travels with it.
    add(key, Buffer.byteLength(task.payload ?? "") + sizeOf(task.result));
  }
  for (const [key, value] of await entriesUnder(store, "codeq/payload/")) add(key, value.length);
  for (const [key, value] of await entriesUnder(store, "codeq/results/")) {
    const result = decodeResult(value);
    assert.ok(result !== undefined, `${key} cannot be read`);
    add(key, sizeOf(result));
  }
  return sizes;
}

function sizeOf(result: ResultBody | undefined): number {
  const texts = result?.artifacts.flatMap(({ name, url }) => [name, url]) ?? [];
  const bytes = result?.artifacts.reduce((sum, each) => sum + (each.bytes ?? 0), 0) ?? 0;
  return Buffer.byteLength([result?.json, ...texts].join("")) + bytes;
}

/** Counts as the broker has them in memory, queues without anything left out. */
export function countsInMemory(broker: ShardBroker): Map<string, Counts> {
  const found = new Map<string, Counts>();
  for (const { tenantId, name, counts } of broker.queues.all()) {
    if (!isEmpty(counts)) {
      found.set(`${tenantId}/${name}`, { ...counts, ready: [...counts.ready] });
    }
  }
  return found;
}

export function sorted<T>(map: ReadonlyMap<string, T>): [string, T][] {
  return [...map].sort(([a], [b]) => (a < b ? -1 : 1));
}

/** How a promise stands after everything that needs no timer has happened. */
export async function standing(promise: Promise<unknown>): Promise<string> {
  await settle();
  const pending = Symbol("pending");
  try {
    const value = await Promise.race([promise, Promise.resolve(pending)]);
    return value === pending ? "pending" : "done";
  } catch (error) {
    return (error as { code?: string }).code ?? String(error);
  }
}
