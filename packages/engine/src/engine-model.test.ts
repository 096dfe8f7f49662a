/**
 * Random lives of an engine against a sorted map: commits, flushes that are slow, scans over any
 * range, and restarts. Whatever lies in the kv, in the generation being flushed or in the one that
 * grows, reads must see the map.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { settle } from "../../testing/src/sim-clock.ts";
import { EngineWorld } from "../test/engine-world.ts";
import { create, type Op, put, remove } from "./batch-codec.ts";
import type { Engine } from "./engine.ts";
import type { Derive } from "./flusher.ts";

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

class Life {
  readonly world = new EngineWorld({ flushBytes: 2500, segmentBytes: 2048, derive: countKeys });
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
    const world = new EngineWorld({ flushBytes: 2500, segmentBytes: 2048, derive: countKeys });
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
  }

  release(): void {
    this.world.beforeWrite = () => Promise.resolve();
    this.gate?.resolve();
    this.gate = undefined;
  }

  #op([number, what]: readonly [number, "write" | "remove"]): Op[] {
    const key = keyOf(number);
    const isThere = this.model.has(key);
    if (what === "remove") {
      this.model.delete(key);
      return isThere ? [remove(key)] : [];
    }
    this.written += 1;
    const value = `${this.written} ${"x".repeat(this.written % 90)}`;
    this.model.set(key, value);
    return [isThere ? put(key, value) : create(key, value)];
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
    assert.equal(this.world.stored().filter(([key]) => key !== "count").length, this.model.size);
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
