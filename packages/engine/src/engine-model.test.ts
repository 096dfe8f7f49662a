/**
 * Random lives of an engine against a sorted map: commits, flushes that are slow or find no room, logs
 * without room, records of an older version, scans over any range, and restarts. Whatever lies in the
 * kv, in the generation being flushed or in the one that grows, reads must see the map, and scans also
 * the index keys that follow from what it holds.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { settle } from "../../simulated/src/index.ts";
import { appendVersion1, EngineWorld } from "../test/engine-world.ts";
import { create, type Op, put, remove } from "./batch-codec.ts";
import type { Engine } from "./engine.ts";
import { FaultError } from "./fault.ts";
import type { Derive } from "./flusher.ts";
import { type Indexing, indexWrites, type Row } from "./index-keys.ts";
import type { KvRange } from "./kv/kv.ts";

/** What becomes of a batch that the kv reports as refused. */
type Fate = "lost" | "kept" | "hidden";
type Change = readonly [number, "write" | "remove"];

type Step =
  | { readonly kind: "commit"; readonly ops: readonly Change[] }
  | { readonly kind: "refuse"; readonly ops: readonly Change[]; readonly fate: Fate | undefined }
  | { readonly kind: "old"; readonly ops: readonly Change[]; readonly newer: readonly Change[] }
  | { readonly kind: "scan"; readonly from: number; readonly to: number; readonly limit: number }
  | { readonly kind: "ahead"; readonly numbers: readonly number[] }
  | { readonly kind: "full"; readonly fate: Fate }
  | { readonly kind: "hold" | "release" | "settle" | "flush" | "close" | "kill" };

const keyNumber = fc.nat(9);
const ops = fc.array(fc.tuple(keyNumber, fc.constantFrom("write" as const, "remove" as const)), {
  minLength: 1,
  maxLength: 6,
});
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 8, arbitrary: fc.record({ kind: fc.constant("commit" as const), ops }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("refuse" as const),
      ops,
      fate: fc.constantFrom(undefined, "lost", "kept", "hidden"),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant("old" as const), ops, newer: ops }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("full" as const),
      fate: fc.constantFrom("lost", "kept", "hidden"),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("scan" as const),
      from: keyNumber,
      to: keyNumber,
      limit: fc.nat(25),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant("ahead" as const), numbers: fc.array(keyNumber) }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constantFrom("hold", "release", "settle", "flush", "close", "kill"),
    }),
  },
);

const keyOf = (number: number): string => `k${String(number).padStart(2, "0")}`;

/** What a value holds: which key it belongs to, and the how manieth write it was. */
interface Written extends Row {
  readonly number: number;
  readonly written: number;
}

const writtenIn = (text: string): Written => {
  const [written, number] = text.split(" ").map(Number) as [number, number];
  return { written, number };
};

/** Some have no index key, some one and some two; it moves with most writes, and stays with some. */
const indexing: Indexing = {
  prefix: "k",
  rowOf: writtenIn,
  rowsIn: ({ before }) => {
    if (before.startsWith("l")) return undefined;
    return (row) => (row as Written).written % 3 > 0;
  },
  keysOf: (row) => {
    const { number, written } = row as Written;
    const keys = [`x${written % 5}/${number}`, `y${written % 2}/${number}`];
    return keys.slice(0, written % 3);
  },
  valueOf: (row) => Buffer.from(String((row as Written).number)),
};

/** Counts index keys from the net effect alone, as the store does. */
const countIndexKeys: Derive = (entries, get) => {
  let count = Number(get("count")?.toString() ?? 0);
  for (const [key, { row, below, isDeleted, born }] of entries) {
    count += row === undefined ? 0 : indexing.keysOf(row).length;
    count -= below === undefined ? 0 : indexing.keysOf(below).length;
    // From a log that has index keys in it.
    if (!key.startsWith("k")) count += isDeleted ? -1 : Number(born);
  }
  return [{ key: "count", value: Buffer.from(String(count)) }];
};

const diskFull = (): FaultError => new FaultError("disk_full", "no room");
const plenty = Number.MAX_SAFE_INTEGER;

const options = { flushBytes: 2500, segmentBytes: 2048, derive: countIndexKeys, indexing };

class Life {
  readonly world: EngineWorld;
  model = new Map<string, string>();
  gate: PromiseWithResolvers<void> | undefined;
  written = 0;
  #lost = false;
  engine: Engine;
  last: Promise<void> = Promise.resolve();

  private constructor(engine: Engine, world: EngineWorld) {
    this.engine = engine;
    this.world = world;
    world.beforeWrite = () => this.#beforeWrite();
  }

  static async begin(): Promise<Life> {
    const world = new EngineWorld(options);
    return new Life(await world.open(), world);
  }

  async step(step: Step): Promise<void> {
    switch (step.kind) {
      case "commit":
        await this.#untilOpen();
        this.last = this.engine.commit(step.ops.flatMap((op) => this.#op(op))).done;
        break;
      case "refuse":
        await this.#refuse(step.ops, step.fate);
        break;
      case "old":
        await this.#old(step.ops);
        this.#hold();
        await this.step({ kind: "commit", ops: step.newer });
        await this.step({ kind: "kill" });
        break;
      case "scan":
        return this.checkScan({ after: keyOf(step.from), before: keyOf(step.to) }, step.limit);
      case "ahead":
        // What an earlier reading brought is handed out once.
        for (const key of step.numbers.map(keyOf)) {
          assert.equal(this.engine.getText(key), this.model.get(key));
        }
        // Not waited for: what happens meanwhile must not make it stale.
        void this.engine.readAhead(step.numbers.map(keyOf)).catch(() => {});
        break;
      case "full":
        this.#fail(step.fate);
        break;
      case "hold":
        this.#hold();
        break;
      case "release":
        this.release();
        break;
      case "settle":
        await settle();
        break;
      case "flush":
        await this.#untilOpen();
        this.release();
        await this.flushAll();
        break;
      case "close":
        this.release();
        await this.engine[Symbol.asyncDispose]();
        await this.#restart();
        break;
      case "kill":
        await this.#kill();
        await this.#restart();
        break;
    }
    await this.checkScan({ after: "k", before: "l" }, 100);
    await this.checkIndex({ after: "x", before: "z" }, 100);
    await this.checkIndex({ after: "x1", before: "y0/5" }, 4);
  }

  #hold(): void {
    this.gate ??= Promise.withResolvers();
  }

  release(): void {
    this.gate?.resolve();
    this.gate = undefined;
  }

  /** Brings everything into the kv, however often there is no room for it. */
  async flushAll(): Promise<void> {
    for (;;) {
      await this.#untilOpen();
      const isDone = await this.engine.flushNow().then(
        () => true,
        () => false,
      );
      if (isDone) break;
    }
    this.checkCount();
  }

  /** The next batch for the kv meets a full disk. */
  #fail(fate: Fate): void {
    const { world } = this;
    this.#lost = fate === "lost";
    world.hidesNext = fate === "hidden";
    world.afterWrite = async () => {
      world.afterWrite = () => Promise.resolve();
      if (fate === "kept") throw diskFull();
    };
  }

  /** Applied before every batch of the kv. */
  async #beforeWrite(): Promise<void> {
    await this.gate?.promise;
    const isLost = this.#lost;
    this.#lost = false;
    if (isLost) throw diskFull();
  }

  async #untilOpen(): Promise<void> {
    for (let n = 0; this.engine.state !== "open"; n += 1) {
      assert.ok(n < 20, `the engine is ${this.engine.state}`);
      if (n === 10) this.release();
      await this.world.clock.advance(500);
    }
  }

  /** The log has no room for a batch, and nothing of it is left; nor has the kv, perhaps. */
  async #refuse(ops: readonly Change[], fate: Fate | undefined): Promise<void> {
    await this.#untilOpen();
    await this.#durable();
    if (fate !== undefined) {
      this.#fail(fate);
      this.#hold();
      void this.engine.flushNow().catch(() => {});
      await settle();
    }
    // The flush may have found no room meanwhile.
    if (this.engine.state !== "open") return;
    const before = new Map(this.model);
    this.world.disk.capacityBytes = 0;
    const large = put("large", "x".repeat(6000));
    const { done } = this.engine.commit([...ops.flatMap((op) => this.#op(op)), large]);
    this.model = before;
    await assert.rejects(done, { code: "disk_full" });
    this.release();
    await settle();
    this.world.disk.capacityBytes = plenty;
  }

  /** What was committed is durable; a flush that it waits for goes on. */
  async #durable(): Promise<void> {
    await settle();
    let isDurable = false;
    void this.last.then(() => {
      isDurable = true;
    });
    await settle();
    if (!isDurable) this.release();
    await this.last;
  }

  async #kill(): Promise<void> {
    await this.#durable();
    this.world.crash("process");
    this.release();
  }

  async #restart(): Promise<void> {
    this.world.beforeWrite = () => this.#beforeWrite();
    this.engine = await this.world.open();
    if (this.engine.state === "open") this.checkCount();
  }

  /** The data comes from an older version, whose log was not flushed; it read no newer records. */
  async #old(ops: readonly Change[]): Promise<void> {
    this.release();
    await this.flushAll();
    await this.#kill();
    await appendVersion1(this.world, [ops.flatMap((op) => this.#op(op).flatMap(asVersion1))]);
    this.#lost = true;
    await this.#restart();
  }

  #op([number, what]: Change): Op[] {
    const key = keyOf(number);
    const text = this.model.get(key);
    const before = text === undefined ? undefined : writtenIn(text);
    if (what === "remove") {
      this.model.delete(key);
      return before === undefined ? [] : [remove(key, before)];
    }
    this.written += 1;
    const value = `${this.written} ${number} ${"x".repeat(this.written % 90)}`;
    const row = writtenIn(value);
    this.model.set(key, value);
    return [before === undefined ? create(key, value, row) : put(key, value, row, before)];
  }

  async checkIndex(range: KvRange, limit: number): Promise<void> {
    const rows = [...this.model.values()].map(writtenIn);
    const entries = rows.flatMap((row) =>
      indexing.keysOf(row).map((key) => [key, String(row.number)] as const),
    );
    await this.#checkRange(entries, range, limit);
  }

  async checkScan(range: KvRange, limit: number): Promise<void> {
    const expected = await this.#checkRange([...this.model], range, limit);
    for (const [key, value] of expected) assert.equal(this.engine.get(key)?.toString(), value);
  }

  /** Both kinds of scans see these entries, as far as they lie in the range; returns those. */
  async #checkRange(
    entries: readonly (readonly [string, string])[],
    range: KvRange,
    limit: number,
  ): Promise<readonly (readonly [string, string])[]> {
    const expected = entries
      .filter(([key]) => key > range.after && key < range.before)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .slice(0, limit);
    const found = await this.engine.scan(range, limit);
    assert.deepEqual(
      found.map(([key, value]) => [key, value.toString()]),
      expected,
    );
    assert.deepEqual(
      await this.engine.scanKeys(range, limit),
      expected.map(([key]) => key),
    );
    return expected;
  }

  checkCount(): void {
    assert.equal(this.engine.stats().overlayEntries, 0);
    const indexKeys = [...this.model.values()].flatMap((text) => indexing.keysOf(writtenIn(text)));
    assert.equal(Number(this.engine.get("count")?.toString() ?? 0), indexKeys.length);
    const stored = this.world.stored().map(([key]) => key);
    assert.deepEqual(stored.filter((key) => /^[xy]/.test(key)).sort(), indexKeys.sort());
    assert.equal(stored.filter((key) => key.startsWith("k")).length, this.model.size);
  }
}

/** The same change with its index keys among the ops, as they were once logged. */
function asVersion1({ kind, key, value, row, before }: Op): Op[] {
  const index = indexWrites({ row, below: before }, indexing).map(({ key: at, value: owner }) =>
    owner === undefined ? remove(at) : create(at, owner),
  );
  return [{ kind, key, value, row: undefined, before: undefined }, ...index];
}

test("reads see what was committed, wherever it is, through flushes and restarts", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const life = await Life.begin();
      for (const each of steps) await life.step(each);
      life.release();
      await life.flushAll();
    }),
    { numRuns: Number(process.env["CODEQ_MODEL_RUNS"] ?? 250) },
  );
});
