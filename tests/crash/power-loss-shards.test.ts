/**
 * A power failure of a server with four shards, on real files and the real key-value store. Each shard has
 * a log of its own, and the failure cuts each of them wherever it is: in a write, between two syncs, behind
 * a segment that is not there yet. What any client was told before is there afterwards, in its shard.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { LevelKv, LocalLog, MemoryKv, MemoryLog } from "@codeq/engine";
import type { NewTask, TaskId, TenantId, WorkerId } from "@codeq/queue";
import { SimClock, SimRandom, settle } from "@codeq/simulated";
import { loadConfig } from "../../packages/server/src/config/load.ts";
import type { Config } from "../../packages/server/src/config/settings.ts";
import type { Broker } from "../../packages/server/src/core/broker/broker.ts";
import type { ShardBroker } from "../../packages/server/src/core/broker/shard-broker.ts";
import type { Enqueued, Submitted } from "../../packages/server/src/core/broker/verbs.ts";
import { shardOf } from "../../packages/server/src/core/shards/shard-of.ts";
import { type Core, composeCore } from "../../packages/server/src/start/compose.ts";
import type { Storage } from "../../packages/server/src/start/open-data-dir.ts";
import { openLocalShards } from "../../packages/server/src/start/shards/open-local-shards.ts";
import { createLogger } from "../../packages/server/src/telemetry/logger.ts";
import { createMetrics } from "../../packages/server/src/telemetry/metrics.ts";
import { engineOf } from "../../packages/server/test/engine-of.ts";
import { campaignLength } from "../campaign-length.ts";
import { temporaryDirectory } from "../e2e/server-process.ts";
import { ask, claim } from "./ask-broker.ts";
import { readStore } from "./check-store.ts";
import { PowerLossDisk } from "./power-loss-disk.ts";

const seed = process.env["CODEQ_SEED"] ?? String(Date.now());
const rounds = campaignLength({ short: 7, long: 40 });
const shards = 4;
const clients = 12;
const tenantId = "t" as TenantId;
const segmentBytes = 32 * 1024;

/** What somebody was told. */
interface Told {
  readonly id: TaskId;
  readonly key: string;
  readonly payload: string;
  resultJson: string | undefined;
}

class Machine {
  readonly #directory: string;
  readonly #random = new SimRandom(`${seed}/shards`);
  readonly #clock = new SimClock();
  readonly #config: Config;
  /** The store of what is no task is not what fails here. */
  readonly #contents = new Map<string, Buffer>();
  #log = new MemoryLog({ writer: 1, epoch: 1, shard: 0 });
  readonly #told = new Map<TaskId, Told>();
  #keys = 0;
  readonly totals = { failures: 0, inStart: 0, tasks: 0, results: 0, cut: 0, severalCut: 0 };

  constructor(directory: string) {
    this.#directory = directory;
    const env = { CODEQ_SHARDS: String(shards), CODEQ_DATA_DIR: "unused" };
    const loaded = loadConfig({ argv: [], env, readFile: () => "" });
    assert.ok(loaded.ok);
    this.#config = loaded.config;
  }

  /** One start, some work, one power failure; the last one without a failure. */
  async live(isLast = false): Promise<void> {
    const disks = await this.#openDisks(isLast);
    const isLost = (): boolean => disks.some((disk) => disk.isLost);
    const started = await this.#start(disks).catch((error: unknown) => {
      if (!isLost()) throw error;
      this.totals.inStart += 1;
    });
    if (started !== undefined) {
      await this.#check(started.brokers);
      if (!isLast) await this.#work(started.core.broker, isLost);
      await started.core[Symbol.asyncDispose]();
    }
    if (isLast) return;
    this.totals.failures += 1;
    const cut = disks.filter((disk) => disk.losePower()).length;
    this.totals.cut += cut;
    if (cut > 1) this.totals.severalCut += 1;
  }

  /** The failure comes at an operation of one of them, and takes all. */
  async #openDisks(isLast: boolean): Promise<PowerLossDisk[]> {
    const random = this.#random;
    const first = random.int(shards);
    const disks: PowerLossDisk[] = [];
    for (let shard = 0; shard < shards; shard += 1) {
      const operations =
        isLast || shard !== first
          ? Number.POSITIVE_INFINITY
          : 1 + random.int(random.pick([60, 600, 1500]));
      const directory = join(this.#directory, `shard-${shard}`, "log");
      disks.push(await PowerLossDisk.open(directory, { random, operations, after: undefined }));
    }
    const failAll = (): void => {
      for (const disk of disks) disk.fail();
    };
    for (const { lost } of disks) void lost.then(failAll);
    return disks;
  }

  async #start(disks: readonly PowerLossDisk[]): Promise<{ core: Core; brokers: ShardBroker[] }> {
    const clock = this.#clock;
    const config = this.#config;
    const random = this.#random;
    const metrics = createMetrics({ commandsMax: 10 });
    const brokers: ShardBroker[] = [];
    const opening: Promise<Storage>[] = [];
    const openFiles = async (shard: number): Promise<Storage> => {
      const disk = disks[shard] as PowerLossDisk;
      const log = await LocalLog.open(disk, {
        durability: "fsync",
        writer: 1,
        epoch: 1,
        shard,
        segmentBytes,
        monotonicMs: () => clock.monotonicMs(),
      });
      const kv = await LevelKv.open(join(this.#directory, `shard-${shard}`, "kv"));
      return { kv, log, freeBytes: () => disk.freeBytes() };
    };
    const openStorage = (shard: number): Promise<Storage> => {
      const storage = openFiles(shard);
      opening.push(storage);
      return storage;
    };
    this.#log = this.#log.reopen();
    try {
      const core = await composeCore({
        config,
        clock,
        metrics,
        logger: createLogger({ level: "error", format: "json", nowMs: () => 0, write: () => {} }),
        storage: {
          kv: new MemoryKv({ contents: this.#contents }),
          log: this.#log,
          freeBytes: () => Promise.resolve(Number.MAX_SAFE_INTEGER),
        },
        openShards: (_known, parts) => openLocalShards({ ...parts, openStorage }),
        onBroker: (broker) => void brokers.push(broker),
        randomBytes: (into) => random.bytes(into),
        draw: () => random.next(),
        post: () => Promise.resolve(200),
        notify: () => Promise.resolve(200),
        fetchKeySet: () => Promise.reject(new Error("nobody is asked for keys")),
        defer: (run) => void setImmediate(run),
        onFailed: () => {},
      });
      return { core, brokers };
    } catch (error) {
      // Those that were opened before the failure, or since, hold their files.
      for (const opened of await Promise.allSettled(opening)) {
        if (opened.status === "fulfilled") await opened.value.kv.close().catch(() => {});
      }
      throw error;
    }
  }

  async #check(brokers: readonly ShardBroker[]): Promise<void> {
    const found = await Promise.all(brokers.map(({ store }) => readStore(engineOf(store))));
    assert.deepEqual(
      found.flatMap(({ problems }) => problems),
      [],
    );
    const keys = found.flatMap(({ tasks }) =>
      [...tasks.values()].map(({ idempotencyKey }) => idempotencyKey).filter(Boolean),
    );
    assert.equal(new Set(keys).size, keys.length, "a key stands for tasks of two shards");
    const all = new Map(found.flatMap(({ tasks }, at) => [...tasks.keys()].map((id) => [id, at])));
    for (const { id, key, payload, resultJson } of this.#told.values()) {
      const at = all.get(id);
      assert.ok(at !== undefined, `${id} was acknowledged and is gone`);
      const { tasks, payloads, results } = found[at] as (typeof found)[number];
      assert.equal(payloads.get(id), payload);
      assert.equal(tasks.get(id)?.idempotencyKey, key);
      if (resultJson !== undefined) assert.equal(results.get(id)?.resultJson, resultJson);
    }
    const used = new Set([...all.keys()].map((id) => shardOf(id, shards)));
    if (all.size > 100) assert.equal(used.size, shards, "every shard has tasks");
  }

  async #work(broker: Broker, isLost: () => boolean): Promise<void> {
    const work = Array.from({ length: clients }, async () => {
      while (!isLost()) {
        await this.#act(broker).catch((error: unknown) => {
          if (!isLost()) throw error;
        });
      }
    });
    while (!isLost()) await settle(1);
    await Promise.race([Promise.all(work), settle(1000)]);
  }

  async #act(broker: Broker): Promise<void> {
    const random = this.#random;
    if (random.next() < 0.6) return await this.#enqueue(broker);
    const workerId = `w${random.int(3)}` as WorkerId;
    const request = { tenantId, workerId, queues: ["c"], leaseMs: 600_000, count: 2, waitMs: 0 };
    for (const { task, payload } of await claim(broker, request)) {
      const { id, leaseToken, idempotencyKey: key } = task;
      const json = `{"token":${leaseToken}}`;
      const submission = {
        how: "completed",
        error: "",
        result: { json, artifacts: [] },
        resultBytes: json.length,
      } as const;
      const of = { tenantId, id, owner: { workerId, leaseToken } };
      await ask<Submitted>((waiter) => broker.submit(of, submission, waiter));
      this.#told.set(id, { id, key, payload, resultJson: json });
      this.totals.results += 1;
    }
  }

  async #enqueue(broker: Broker): Promise<void> {
    const random = this.#random;
    const payload = `{"size":"${"x".repeat(random.int(random.pick([100, 100, 3000])))}"}`;
    this.#keys += 1;
    const key = random.next() < 0.3 ? `k${this.#keys}` : "";
    const input: NewTask = {
      tenantId,
      command: "c",
      priority: random.int(3),
      webhook: "",
      traceParent: "",
      traceState: "",
      idempotencyKey: key,
      maxAttempts: 3,
      visibleMs: undefined,
      extras: undefined,
      payload,
      payloadBytes: payload.length,
      payloadHash: "",
      keepsFirst: false,
    };
    const { task } = await ask<Enqueued>((waiter) => broker.enqueue(input, waiter));
    const { id } = task;
    // Whoever has claimed and finished it was faster.
    if (!this.#told.has(id)) this.#told.set(id, { id, key, payload, resultJson: undefined });
    this.totals.tasks += 1;
  }
}

test("a power failure of four shards takes nothing that was acknowledged", async (t) => {
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  const machine = new Machine(directory.path);
  try {
    const isOver = (round: number): boolean => round > rounds && machine.totals.severalCut > 0;
    for (let round = 1; !isOver(round); round += 1) await machine.live();
    await machine.live(true);
  } catch (error) {
    throw new Error(`${machine.totals.failures + 1}. life, seed ${seed}`, { cause: error });
  }
  t.diagnostic(`${JSON.stringify(machine.totals)}, seed ${seed}`);
  assert.ok(machine.totals.tasks > rounds, "the load did something");
});
