/**
 * What each durability mode promises about a power failure, on real files and the real key-value
 * store. `fsync`: nothing acknowledged is lost. `interval`: nothing that was acknowledged longer ago
 * than the interval. `os`: nothing in particular. In all of them the server comes back with a state
 * that it once had, whole.
 *
 * The failure comes at any operation on the log's files, also while the server starts. The key-value
 * store syncs by itself; its directory stays as the process left it. Time is simulated.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, test } from "node:test";
import { type Engine, LevelKv, LocalLog, type Log, recordOf } from "@codeq/engine";
import type { NewTask, Returned, Task, TaskId, TenantId, WorkerId } from "@codeq/queue";
import { SimClock, SimRandom, settle } from "@codeq/simulated";
import { type DecodedOp, decodeBody, opKinds } from "../../packages/engine/src/batch-codec.ts";
import { noQuotas } from "../../packages/server/src/config/quotas.ts";
import { ShardBroker } from "../../packages/server/src/core/broker/shard-broker.ts";
import type { Enqueued, Submitted } from "../../packages/server/src/core/broker/verbs.ts";
import { formatKey, taskKey } from "../../packages/server/src/core/store/keys.ts";
import { Store } from "../../packages/server/src/core/store/store.ts";
import { readTask } from "../../packages/server/src/core/store/task-codec.ts";
import { keysOf, taskRows } from "../../packages/server/src/core/store/task-rows.ts";
import { promoteDueTasks } from "../../packages/server/src/core/sweeps/sweeps.ts";
import { TaskIds } from "../../packages/server/src/core/task-ids.ts";
import { campaignLength } from "../campaign-length.ts";
import { temporaryDirectory } from "../e2e/server-process.ts";
import { tapEngine } from "../simulation/engine-tap.ts";
import { ask, claim } from "./ask-broker.ts";
import { entriesOf, readStore } from "./check-store.ts";
import { PowerLossDisk } from "./power-loss-disk.ts";

type Mode = "fsync" | "interval" | "os";

const seed = process.env["CODEQ_SEED"] ?? String(Date.now());
/** Each with a directory of its own, so that looking at all of it stays quick. */
const machines = 3;
const rounds = campaignLength({ short: 8, long: 40 });
const tenantId = "t" as TenantId;
const syncIntervalMs = 8;
/** A sync takes a few turns, in which the simulated time may move on a little. */
const syncSlackMs = 2;
const clients = 6;
/** Small, so that rotation, recycling and flushes happen often; some lives do without flushes. */
const segmentBytes = 32 * 1024;
const sweeps = { sweepBatchMax: 256, retentionSweepSeconds: 1 };
const flushBytesChoices = [64 * 1024, 8 * 1024 * 1024];

describe("after a power failure", () => {
  for (const [mode, promise] of [
    ["fsync", "nothing acknowledged is lost"],
    ["interval", "at most the last interval is lost"],
    ["os", "the state is one that it once had"],
  ] as const) {
    test(`${promise} when durability is ${mode}`, async (t) => {
      const totals = { failures: 0, inStart: 0, acknowledged: 0, lostRecords: 0 };
      for (let machine = 1; machine <= machines; machine += 1) {
        const directory = temporaryDirectory();
        try {
          await failAgainAndAgain(new Machine(mode, directory.path, machine), totals);
        } finally {
          directory.dispose();
        }
      }
      t.diagnostic(`${mode}: ${JSON.stringify(totals)}, seed ${seed}`);
      assert.ok(totals.acknowledged > machines * rounds, "the load did something");
      if (mode !== "fsync") assert.ok(totals.lostRecords > 0, "some failure took something");
    });
  }
});

async function failAgainAndAgain(machine: Machine, totals: Totals): Promise<void> {
  try {
    for (let round = 1; round <= rounds; round += 1) await machine.live();
    await machine.live({ isLast: true });
  } catch (error) {
    throw new Error(`${machine.totals.failures + 1}. life, seed ${seed}`, { cause: error });
  }
  for (const name of Object.keys(totals) as (keyof Totals)[]) totals[name] += machine.totals[name];
}

interface Totals {
  failures: number;
  inStart: number;
  acknowledged: number;
  lostRecords: number;
}

/** Somebody was told, when the log had this last record. */
interface Told {
  readonly id: TaskId;
  readonly logIndex: number;
  readonly payload: string;
  readonly resultJson: string | undefined;
}

class Machine {
  readonly #mode: Mode;
  readonly #directory: string;
  readonly #random: SimRandom;
  readonly #clock = new SimClock();
  /** Bodies of all records that were ever appended and not lost, by index. */
  #records: Buffer[] = [];
  /** What the records up to `#modelIndex` make of an empty store. */
  readonly #model = new Map<string, string>();
  readonly #tasks = new Map<TaskId, Task>();
  #modelIndex = 0;
  #told: Told[] = [];
  /** How far the log was acknowledged at which time. */
  #timeline: { readonly ms: number; readonly logIndex: number }[] = [];
  readonly totals: Totals = { failures: 0, inStart: 0, acknowledged: 0, lostRecords: 0 };
  #failedMs = 0;
  /** Requested syncs of the log that have not ended, also those that wait for files to be closed. */
  #syncs = 0;
  /** The disk of the last life when it did not lose its power. */
  #crashed: PowerLossDisk | undefined;
  /** Since the last start that got as far as to look. */
  #powerFailed = false;

  constructor(mode: Mode, directory: string, number: number) {
    this.#mode = mode;
    this.#directory = directory;
    this.#random = new SimRandom(`${seed}/${mode}/${number}`);
  }

  /** One start, some work, one power failure. */
  async live(options: { readonly isLast?: boolean } = {}): Promise<void> {
    const random = this.#random;
    const operations =
      options.isLast === true
        ? Number.POSITIVE_INFINITY
        : 1 + random.int(random.pick([20, 300, 1000]));
    const disk = await PowerLossDisk.open(join(this.#directory, "log"), {
      random,
      operations,
      after: this.#crashed,
    });
    const kv = await LevelKv.open(join(this.#directory, "kv"));
    const store = await this.#start(disk, kv).catch(async (error: unknown) => {
      await kv.close();
      if (!disk.isLost) throw error;
      this.totals.inStart += 1;
      return undefined;
    });
    if (store !== undefined) {
      if (options.isLast !== true) await this.#work(store, disk);
      await store[Symbol.asyncDispose]();
    }
    this.totals.failures += 1;
    // Sometimes only the process ends, and the power fails in the life after.
    this.#crashed = random.next() < 0.3 ? disk : undefined;
    if (this.#crashed !== undefined) return;
    disk.losePower();
    this.#powerFailed = true;
  }

  async #start(disk: PowerLossDisk, kv: LevelKv): Promise<Store> {
    const log = await LocalLog.open(disk, {
      durability: this.#mode,
      writer: 1,
      epoch: 1,
      shard: 0,
      segmentBytes,
      monotonicMs: () => this.#clock.monotonicMs(),
    });
    this.#checkEnd(log.lastIndex);
    try {
      const recorded = this.#recorded(log);
      const tap = tapEngine(recorded);
      const store = await Store.open({
        shards: 1,
        kv,
        log: recorded,
        clock: this.#clock,
        observer: { grouped: () => {}, flushed: () => {}, stateChanged: () => {} },
        freeBytes: () => disk.freeBytes(),
        defer: (run) => void setImmediate(run),
        minFreeBytes: 0,
        flushBytes: this.#random.pick(flushBytesChoices),
        syncIntervalMs: this.#mode === "interval" ? syncIntervalMs : undefined,
      });
      await this.#checkState(tap.engine as Engine);
      return store;
    } catch (error) {
      await log.close().catch(() => {});
      throw error;
    }
  }

  /** The log, with a copy of everything that it is given. */
  #recorded(log: LocalLog): Log {
    let given = log.lastIndex;
    const recorded: Log = {
      get firstIndex() {
        return log.firstIndex;
      },
      get lastIndex() {
        return log.lastIndex;
      },
      get bytes() {
        return log.bytes;
      },
      get canAppend() {
        return log.canAppend;
      },
      append: (frame, appended) => {
        const end = headerBytes + frame.bodyBytes;
        given += 1;
        this.#records[given] = Buffer.from(frame.buffer.subarray(headerBytes, end));
        log.append(frame, appended);
      },
      sync: () => {
        this.#syncs += 1;
        return log.sync().finally(() => {
          this.#syncs -= 1;
        });
      },
      readFrom: (index) => log.readFrom(index),
      trim: (index) => log.trim(index),
      close: () => log.close(),
    };
    return recorded;
  }

  /** The promise of the mode: how much of what was acknowledged the log must still have. */
  #checkEnd(lastIndex: number): void {
    const acknowledged = this.#timeline.at(-1)?.logIndex ?? 0;
    const until = this.#failedMs - syncIntervalMs - syncSlackMs;
    const old = this.#timeline.findLast(({ ms }) => ms <= until)?.logIndex ?? 0;
    const afterPowerLoss = { fsync: acknowledged, interval: old, os: 0 }[this.#mode];
    const promised = this.#powerFailed ? afterPowerLoss : acknowledged;
    this.#powerFailed = false;
    assert.ok(
      lastIndex >= promised,
      `the log ends at ${lastIndex}; ${promised} of ${acknowledged} was promised to stay`,
    );
    this.totals.lostRecords += Math.max(0, acknowledged - lastIndex);
    for (; this.#modelIndex < lastIndex; this.#modelIndex += 1) this.#apply(this.#modelIndex + 1);
    assert.equal(this.#modelIndex, lastIndex, "a record is gone that was there after a restart");
    this.#records.length = lastIndex + 1;
    this.#timeline = [{ ms: Number.NEGATIVE_INFINITY, logIndex: lastIndex }];
    this.#told = this.#told.filter(({ logIndex }) => logIndex <= lastIndex);
  }

  #apply(index: number): void {
    const body = this.#records[index];
    assert.ok(body !== undefined, `record ${index} was never appended`);
    for (const op of decodeBody(body)) {
      const { kind, key, value } = op;
      if (kind >= opKinds.rowCreated) this.#applyRow(op);
      else if (kind === opKinds.delete) this.#model.delete(key);
      else this.#model.set(key, value.buffer.toString("latin1", value.start, value.end));
    }
  }

  /** A task is its record and the index keys that follow from it. */
  #applyRow({ kind, key, value }: DecodedOp): void {
    const id = key as TaskId;
    const before = this.#tasks.get(id);
    assert.equal(before === undefined, kind === opKinds.rowCreated, `${id} is there or not`);
    for (const index of before === undefined ? [] : keysOf(before)) this.#model.delete(index);
    if (kind === opKinds.rowDeleted) {
      this.#tasks.delete(id);
      this.#model.delete(taskKey(id));
      return;
    }
    const task = readTask(value, id, before);
    assert.ok(task !== undefined, `${id} cannot be read`);
    this.#tasks.set(id, task);
    this.#model.set(taskKey(id), recordOf(task, taskRows).toString("latin1"));
    for (const index of keysOf(task)) this.#model.set(index, task.tenantId);
  }

  /** Exactly what the surviving records say, and everything that clients were told in it. */
  async #checkState(engine: Engine): Promise<void> {
    const found = new Map<string, string>();
    for await (const [key, value] of entriesOf(engine)) {
      const isDerived = /^codeq\/(counts\/|failure-counts\/|meta\/(position|sequence)$)/.test(key);
      // Written by the first start itself.
      const isFirst = key === formatKey && this.#modelIndex === 0;
      if (!isDerived && !isFirst) found.set(key, value.toString("latin1"));
    }
    const differs = [...new Set([...found.keys(), ...this.#model.keys()])].filter(
      (key) => found.get(key) !== this.#model.get(key),
    );
    const shown = differs.slice(0, 5).map((key) => `${key}: ${found.get(key)}`);
    assert.deepEqual(shown, [], `${differs.length} keys are not what the log says`);
    const { tasks, payloads, results, problems } = await readStore(engine);
    assert.deepEqual(problems, []);
    for (const { id, payload, resultJson } of this.#told) {
      assert.ok(tasks.has(id), `${id} was acknowledged and is gone`);
      assert.equal(payloads.get(id), payload);
      if (resultJson !== undefined) assert.equal(results.get(id)?.resultJson, resultJson);
    }
  }

  async #work(store: Store, disk: PowerLossDisk): Promise<void> {
    const clock = this.#clock;
    const random = this.#random;
    const broker = await ShardBroker.open({
      store,
      clock,
      draw: () => random.next(),
      ids: new TaskIds((bytes) => random.bytes(bytes)),
      policy: { backoff: "fixed", baseSeconds: 1, maxSeconds: 900 },
      retention: { doneMs: 86_400_000, deadMs: 0 },
      delayedInMemoryMax: 1000,
      quotas: noQuotas,
      disableEndpointAfterMs: 0,
      prepareRemoval: () => () => Promise.resolve(),
      observe: () => {},
    });
    void disk.lost.then(() => {
      this.#failedMs = clock.monotonicMs();
    });
    const work = Array.from({ length: clients }, async () => {
      while (!disk.isLost) await this.#step(broker, () => disk.isLost);
    });
    while (!disk.isLost) {
      await clock.advance(1);
      // A sync takes no time here: the clock stands still until it has ended.
      while (disk.syncsInFlight > 0 || this.#syncs > 0) await settle(1);
    }
    await Promise.all(work);
  }

  async #step(broker: ShardBroker, isLost: () => boolean): Promise<void> {
    try {
      const told = await this.#act(broker);
      if (isLost() || told === undefined) return;
      this.totals.acknowledged += 1;
      this.#told.push(told);
      this.#timeline.push({ ms: this.#clock.monotonicMs(), logIndex: told.logIndex });
    } catch (error) {
      if (!isLost()) throw error;
    }
  }

  /** What a client is told when everything it waited for has come. */
  async #act(broker: ShardBroker): Promise<Told | undefined> {
    const random = this.#random;
    const { store } = broker;
    const draw = random.next();
    if (draw < 0.1) {
      await promoteDueTasks({ broker, clock: this.#clock, config: sweeps }).runOnce();
      return undefined;
    }
    if (draw < 0.55) return this.#enqueue(broker);
    const workerId = `w${random.int(3)}` as WorkerId;
    const [claimed] = await claim(broker, {
      tenantId,
      workerId,
      queues: ["c"],
      leaseMs: 600_000,
      count: 1,
      waitMs: 0,
    });
    if (claimed === undefined) return this.#enqueue(broker);
    const { task, payload } = claimed;
    const of = { tenantId, id: task.id, owner: { workerId, leaseToken: task.leaseToken } };
    const told = (resultJson?: string): Told => {
      return { id: task.id, logIndex: durableIndex(store), payload, resultJson };
    };
    if (draw < 0.65) return told();
    if (draw < 0.75) {
      const request = { delaySeconds: random.int(2), reason: "again" };
      await ask<Returned>((waiter) => broker.nack(of, request, waiter));
      return told();
    }
    const resultJson = `{"token":${task.leaseToken}}`;
    const result = { json: resultJson, artifacts: [] };
    const submission = {
      how: "completed",
      error: "",
      result,
      resultBytes: resultJson.length,
    } as const;
    await ask<Submitted>((waiter) => broker.submit(of, submission, waiter));
    return told(resultJson);
  }

  async #enqueue(broker: ShardBroker): Promise<Told> {
    const random = this.#random;
    const payload = `{"size":"${"x".repeat(random.int(random.pick([100, 100, 3000])))}"}`;
    const isKeyed = random.next() < 0.3;
    const visibleMs = random.next() < 0.2 ? this.#clock.nowMs() + 1 + random.int(50) : undefined;
    const input: NewTask = {
      tenantId,
      command: "c",
      priority: random.int(3),
      webhook: "",
      traceParent: "",
      traceState: "",
      idempotencyKey: isKeyed ? `k${random.int(1_000_000)}` : "",
      maxAttempts: 3,
      visibleMs,
      extras: undefined,
      payload,
      payloadBytes: payload.length,
      payloadHash: "",
      keepsFirst: false,
    };
    const value = await ask<Enqueued>((waiter) => broker.enqueue(input, waiter));
    const kept = value.replayed ? broker.store.payload(value.task) : payload;
    return {
      id: value.task.id,
      logIndex: durableIndex(broker.store),
      payload: kept,
      resultJson: undefined,
    };
  }
}

const headerBytes = 64;

function durableIndex(store: Store): number {
  return store.stats().durableIndex;
}
