/**
 * A broker on a simulated clock, disk and kv, which can be closed, crash, run full and be opened
 * again. The contents of the kv outlive every broker, as files would.
 */
import assert from "node:assert/strict";
import { Engine, LocalLog, MemoryKv } from "@codeq/engine";
import type { Result, Task, TaskId, TenantId, WorkerId } from "@codeq/queue";
// biome-ignore lint/correctness/noUndeclaredDependencies: only tests use it.
import { SimClock, SimDisk, SimRandom, settle } from "@codeq/simulated";
import { Broker } from "../src/broker/broker.ts";
import type { EnqueueRequest } from "../src/broker/broker-requests.ts";
import type { ClaimedTask, ClaimRequest } from "../src/broker/claims.ts";
import { noQuotas, type Quotas } from "../src/config/quotas.ts";
import { type Counts, deriveCounts, noCounts } from "../src/store/counts.ts";
import { idOf, parseIndexKey, queuesPrefix, taskKey } from "../src/store/keys.ts";
import { taskIndexing } from "../src/store/keys-of.ts";
import { decodeTask, resultIn } from "../src/store/task-codec.ts";
import { TaskIds } from "../src/task-ids.ts";
import { Feed } from "../src/telemetry/feed.ts";

export interface BrokerWorldOptions {
  readonly seed?: number;
  readonly flushBytes?: number;
  readonly segmentBytes?: number;
  readonly minFreeBytes?: number;
  readonly delayedInMemoryMax?: number;
  readonly contents?: Map<string, Buffer>;
  readonly quotas?: Quotas;
}

export const acme = "acme" as TenantId;
export const umbrella = "umbrella" as TenantId;
export const worker = "worker-1" as WorkerId;

export class BrokerWorld {
  readonly clock = new SimClock();
  readonly random: SimRandom;
  readonly contents: Map<string, Buffer>;
  readonly ids: TaskIds;
  disk: SimDisk;
  beforeWrite: () => Promise<void> = () => Promise.resolve();
  readonly #options: BrokerWorldOptions;

  constructor(options: BrokerWorldOptions = {}) {
    this.#options = options;
    this.random = new SimRandom(options.seed ?? 1);
    this.contents = options.contents ?? new Map();
    const idBytes = this.random.fork("ids");
    this.ids = new TaskIds((into) => idBytes.bytes(into));
    const diskRandom = this.random.fork("disk");
    this.disk = new SimDisk({ random: () => diskRandom.next() });
  }

  async openEngine(verify: (get: Engine["get"]) => void = () => {}): Promise<Engine> {
    const { clock, disk } = this;
    const log = await LocalLog.open(disk, {
      durability: "fsync",
      segmentBytes: this.#options.segmentBytes ?? 64 * 1024,
      writer: 1,
      epoch: 1,
      shard: 0,
      monotonicMs: () => clock.monotonicMs(),
    });
    return Engine.open({
      log,
      kv: new MemoryKv({ contents: this.contents, beforeWrite: () => this.beforeWrite() }),
      indexing: taskIndexing,
      derive: deriveCounts,
      verify,
      observer: { grouped: () => {}, flushed: () => {}, stateChanged: () => {} },
      freeBytes: () => disk.freeBytes(),
      clock,
      defer: (run) => queueMicrotask(run),
      minFreeBytes: this.#options.minFreeBytes ?? 0,
      flushBytes: this.#options.flushBytes ?? 1024 * 1024,
      syncIntervalMs: undefined,
    });
  }

  openBroker(engine: Engine): Promise<Broker> {
    return Broker.open({
      engine,
      clock: this.clock,
      ids: this.ids,
      draw: () => 0.5,
      policy: { backoff: "fixed", baseSeconds: 5, maxSeconds: 900 },
      retention: { doneMs: 3_600_000, deadMs: 7_200_000 },
      delayedInMemoryMax: this.#options.delayedInMemoryMax ?? 1000,
      quotas: this.#options.quotas ?? noQuotas,
      feed: new Feed(),
    });
  }

  async open(): Promise<Broker> {
    return this.openBroker(await this.openEngine());
  }

  async reopen(broker: Broker): Promise<Broker> {
    await broker.store.engine[Symbol.asyncDispose]();
    return this.open();
  }

  /** The process ends; the next one finds what it had written. */
  async kill(): Promise<Broker> {
    this.disk = this.disk.crash("process");
    return this.open();
  }
}

export function newTask(fields: Partial<EnqueueRequest> = {}): EnqueueRequest {
  return {
    tenantId: acme,
    command: "work",
    priority: 0,
    webhook: "",
    traceParent: "",
    traceState: "",
    idempotencyKey: "",
    maxAttempts: 3,
    visibleMs: undefined,
    payload: "{}",
    payloadHash: "hash",
    ...fields,
  };
}

/** Enqueues without waiting for the commit. */
export function enqueueNow(broker: Broker, fields: Partial<EnqueueRequest> = {}): Task {
  const outcome = broker.enqueue(newTask(fields));
  assert.ok(outcome.ok);
  outcome.value.done.catch(() => {});
  return outcome.value.value.task;
}

export async function enqueue(broker: Broker, fields: Partial<EnqueueRequest> = {}): Promise<Task> {
  const outcome = broker.enqueue(newTask(fields));
  assert.ok(outcome.ok);
  await outcome.value.done;
  return outcome.value.value.task;
}

export async function claim(
  broker: Broker,
  fields: Partial<ClaimRequest> = {},
): Promise<readonly ClaimedTask[]> {
  return broker.claim({
    tenantId: acme,
    workerId: worker,
    commands: ["work"],
    leaseMs: 60_000,
    count: 1,
    waitMs: 0,
    ...fields,
  });
}

export async function claimIds(
  broker: Broker,
  fields: Partial<ClaimRequest> = {},
): Promise<TaskId[]> {
  return (await claim(broker, fields)).map(({ task }) => task.id);
}

export function owned(task: Pick<Task, "id" | "tenantId">, workerId: WorkerId = worker) {
  return { tenantId: task.tenantId, id: task.id, owner: { workerId } };
}

export const success = {
  how: "completed",
  resultJson: '{"ok":true}',
  error: "",
  artifacts: [] as Result["artifacts"],
} as const;

/** Does what the ticker does: takes ended leases back, reads and promotes what is due. */
export async function runDue(broker: Broker, clock: SimClock): Promise<Task[]> {
  const promoted: Task[] = [];
  for (;;) {
    const lease = broker.leases.first();
    const item = broker.delayed.first();
    if (lease !== undefined && lease.dueMs <= clock.monotonicMs()) {
      await broker.expire(lease.id)?.done;
    } else if (item !== undefined && item.id === undefined && item.dueMs <= clock.nowMs()) {
      await broker.delayed.readStretch(item);
    } else if (item?.id !== undefined && item.dueMs <= clock.nowMs()) {
      broker.store.engine.assertWritable();
      broker.delayed.drop(item);
      const { value, done } = broker.promote([{ id: item.id, dueMs: item.dueMs }]);
      await done;
      promoted.push(...value);
    } else {
      return promoted;
    }
  }
}

/** Counts of every queue from a walk over all index keys, durable or not. */
export async function countedKeys(engine: Engine): Promise<Map<string, Counts>> {
  const entries = await engine.scan({ after: queuesPrefix, before: `${queuesPrefix}~` }, 1e9);
  const counted = new Map<string, Counts>();
  for (const [key] of entries) {
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

/** Bytes of every tenant from a walk over all payloads and results, durable or not. */
export async function storedSizes(engine: Engine): Promise<Map<string, number>> {
  const sizes = new Map<string, number>();
  const add = (key: string, size: number): void => {
    const task = decodeTask(engine.get(taskKey(idOf(key))) ?? "");
    assert.ok(task !== undefined, `${key} belongs to no task`);
    sizes.set(task.tenantId, (sizes.get(task.tenantId) ?? 0) + size);
  };
  for (const prefix of ["codeq/tasks/", "codeq/payload/", "codeq/results/"]) {
    for (const [key, value] of await engine.scan({ after: prefix, before: `${prefix}~` }, 1e9)) {
      const text = value.toString("utf8");
      // Of a task, what travels with it.
      const [short, own] = [resultIn(text) ?? "", decodeTask(text)?.payload ?? ""];
      add(key, prefix === "codeq/tasks/" ? Buffer.byteLength(short + own) : value.length);
    }
  }
  return sizes;
}

/** Counts as the broker has them in memory, queues without anything left out. */
export function countsInMemory(broker: Broker): Map<string, Counts> {
  const found = new Map<string, Counts>();
  for (const { tenantId, name, counts } of broker.queues.all()) {
    const { ready, delayed, leased, dead } = counts;
    if ([...ready, delayed, leased, dead].some((count) => count !== 0)) {
      found.set(`${tenantId}/${name}`, { ready: [...ready], delayed, leased, dead });
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
