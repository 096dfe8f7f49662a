/**
 * Random lives of an engine against a sorted map: commits, flushes that are slow, scans over any
 * range, and restarts. Whatever lies in the kv, in the generation being flushed or in the one that
 * grows, reads must see the map, and scans also the index keys that follow from what it holds.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { settle } from "../../testing/src/sim-clock.ts";
import { EngineWorld } from "../test/engine-world.ts";
import { create, type Op, put, remove } from "./batch-codec.ts";
import type { Engine } from "./engine.ts";
import type { Derive } from "./flusher.ts";
import type { Indexing, Row } from "./index-keys.ts";

type Step =
  | { readonly kind: "commit"; readonly ops: readonly (readonly [number, "write" | "remove"])[] }
  | { readonly kind: "scan"; readonly from: number; readonly to: number; readonly limit: number }
  | { readonly kind: "ahead"; readonly numbers: readonly number[] }
  | { readonly kind: "hold" | "release" | "settle" | "flush" | "close" | "kill" };

const keyNumber = fc.nat(19);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant("commit" as const),
      ops: fc.array(fc.tuple(keyNumber, fc.constantFrom("write" as const, "remove" as const)), {
        minLength: 1,
        maxLength: 6,
      }),
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

/** Counts keys from the net effect alone, as the store does. */
const countKeys: Derive = (entries, get) => {
  let count = Number(get("count")?.toString() ?? 0);
  for (const [, { value, born }] of entries) count += value === undefined ? -1 : Number(born);
  return [{ key: "count", value: Buffer.from(String(count)) }];
};

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
  keysOf: (row) => {
    const { number, written } = row as Written;
    const keys = [`x${written % 5}/${number}`, `y${written % 2}/${number}`];
    return keys.slice(0, written % 3);
  },
  valueOf: (row) => Buffer.from(String((row as Written).number)),
};

const options = { flushBytes: 2500, segmentBytes: 2048, derive: countKeys, indexing };

class Life {
  readonly world: EngineWorld;
  readonly model = new Map<string, string>();
  gate: PromiseWithResolvers<void> | undefined;
  written = 0;
  engine: Engine;
  last: Promise<void> = Promise.resolve();

  private constructor(engine: Engine, world: EngineWorld) {
    this.engine = engine;
    this.world = world;
  }

  static async begin(): Promise<Life> {
    const world = new EngineWorld(options);
    return new Life(await world.open(), world);
  }

  async step(step: Step): Promise<void> {
    switch (step.kind) {
      case "commit":
        this.last = this.engine.commit(step.ops.flatMap((op) => this.#op(op))).done;
        break;
      case "scan":
        return this.checkScan({ after: keyOf(step.from), before: keyOf(step.to) }, step.limit);
      case "ahead":
        // Not waited for: what happens meanwhile must not make it stale.
        void this.engine.readAhead(step.numbers.map(keyOf)).catch(() => {});
        break;
      case "hold":
        this.gate ??= Promise.withResolvers();
        this.world.beforeWrite = () => this.gate?.promise ?? Promise.resolve();
        break;
      case "release":
        this.release();
        break;
      case "settle":
        await settle();
        break;
      case "flush":
        this.release();
        await this.engine.flushNow();
        this.checkCount();
        break;
      case "close":
        this.release();
        await this.engine[Symbol.asyncDispose]();
        this.engine = await this.world.open();
        this.checkCount();
        break;
      case "kill":
        this.release();
        await this.last;
        this.world.crash("process");
        this.engine = await this.world.open();
        this.checkCount();
        break;
    }
    await this.checkScan({ after: "k", before: "l" }, 100);
    await this.checkIndex({ after: "x", before: "z" }, 100);
    await this.checkIndex({ after: "x1", before: "y0/5" }, 4);
  }

  release(): void {
    this.world.beforeWrite = () => Promise.resolve();
    this.gate?.resolve();
    this.gate = undefined;
  }

  #op([number, what]: readonly [number, "write" | "remove"]): Op[] {
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

  async checkIndex(range: { after: string; before: string }, limit: number): Promise<void> {
    const expected = [...this.model.values()]
      .map(writtenIn)
      .flatMap((row) => indexing.keysOf(row).map((key) => [key, String(row.number)] as const))
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
  }

  async checkScan(range: { after: string; before: string }, limit: number): Promise<void> {
    const expected = [...this.model]
      .filter(([key]) => key > range.after && key < range.before)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .slice(0, limit);
    const found = await this.engine.scan(range, limit);
    assert.deepEqual(
      found.map(([key, value]) => [key, value.toString()]),
      expected,
    );
    for (const [key, value] of expected) assert.equal(this.engine.get(key)?.toString(), value);
  }

  checkCount(): void {
    assert.equal(this.engine.stats().overlayEntries, 0);
    assert.equal(Number(this.engine.get("count")?.toString() ?? 0), this.model.size);
    assert.equal(
      this.world.stored().filter(([key]) => key.startsWith("k")).length,
      this.model.size,
    );
  }
}

test("reads see what was committed, wherever it is, through flushes and restarts", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const life = await Life.begin();
      for (const each of steps) await life.step(each);
      life.release();
      await life.engine.flushNow();
      life.checkCount();
    }),
    { numRuns: Number(process.env["CODEQ_MODEL_RUNS"] ?? 250) },
  );
});
