/**
 * Random lives of an engine against plain maps: changes of rows and of other keys, flushes that are slow
 * or find no room, logs without room, scans over any range, and restarts. Whatever lies in the kv, in the
 * generation being flushed or in the one that grows, reads must see the maps, and scans also the index
 * keys that follow from the rows.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { settle } from "../../simulated/src/index.ts";
import { EngineWorld } from "../test/engine-world.ts";
import { changed, countIndexKeys, type Thing, thing, things } from "../test/things.ts";
import { create, type Op, put, remove } from "./batch-codec.ts";
import type { Engine } from "./engine.ts";
import { FaultError } from "./fault.ts";
import { unseal } from "./kv/checked-value.ts";
import type { KvRange } from "./kv/kv.ts";
import { type RowChange, recordOf } from "./row-codec.ts";

/** What becomes of a batch that the kv reports as refused. */
type Fate = "lost" | "kept" | "hidden";
type Change = readonly [number, "write" | "move" | "remove" | "put" | "erase"];

type Step =
  | { readonly kind: "commit"; readonly ops: readonly Change[] }
  | { readonly kind: "refuse"; readonly ops: readonly Change[]; readonly fate: Fate | undefined }
  | { readonly kind: "scan"; readonly from: number; readonly to: number; readonly limit: number }
  | { readonly kind: "ahead"; readonly numbers: readonly number[] }
  | { readonly kind: "full"; readonly fate: Fate }
  | { readonly kind: "hold" | "release" | "settle" | "flush" | "close" | "kill" };

const keyNumber = fc.nat(9);
const what: fc.Arbitrary<Change[1]> = fc.constantFrom("write", "move", "remove", "put", "erase");
const ops = fc.array(fc.tuple(keyNumber, what), { minLength: 1, maxLength: 6 });
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

const idOf = (number: number): string => `n${number}`;
const keyOf = (number: number): string => `k${number}`;
const rowKeyOf = (number: number): string => things.prefix + idOf(number);

/** Some have no index key, some one and some two; some keep one of two when they move. */
const shelves = ["", "one", "two", "one+two", "two+three"];

const diskFull = (): FaultError => new FaultError("disk_full", "no room");
const plenty = Number.MAX_SAFE_INTEGER;

const options = { flushBytes: 6000, segmentBytes: 2048, derive: countIndexKeys };

class Life {
  readonly world: EngineWorld;
  rows: Map<string, Thing> = new Map();
  keys: Map<string, string> = new Map();
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
        this.last = this.#commit(step.ops);
        break;
      case "refuse":
        await this.#refuse(step.ops, step.fate);
        break;
      case "scan":
        await this.#checkRange({ after: keyOf(step.from), before: keyOf(step.to) }, step.limit);
        await this.#checkRange({ after: rowKeyOf(step.from), before: `${things.prefix}~` }, 3);
        return;
      case "ahead":
        this.#checkReads();
        // Not waited for: what happens meanwhile must not make it stale.
        void this.engine.readAhead(step.numbers.map(keyOf)).catch(() => {});
        void this.engine.readRowsAhead(step.numbers.map(idOf)).catch(() => {});
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
    this.#checkReads();
    await this.#checkRange({ after: "k", before: "t/~" }, 100);
    await this.#checkRange({ after: "shelf/one/n5", before: "shelf/two/n5" }, 4);
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
    this.checkStored();
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
    const { rows, keys } = this;
    [this.rows, this.keys] = [new Map(rows), new Map(keys)];
    this.world.disk.capacityBytes = 0;
    const done = this.#commit(ops, [put("large", "x".repeat(6000))]);
    [this.rows, this.keys] = [rows, keys];
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
    if (this.engine.state === "open") this.checkStored();
  }

  #commit(steps: readonly Change[], ops: Op[] = []): Promise<void> {
    const changes: RowChange[] = [];
    for (const [number, what] of steps) {
      this.written += 1;
      if (what === "put" || what === "erase") this.#write(ops, keyOf(number), what === "put");
      else this.#change(changes, idOf(number), what);
    }
    return this.engine.commit(changes, ops).done;
  }

  #change(changes: RowChange[], id: string, what: "write" | "move" | "remove"): void {
    const before = this.rows.get(id);
    const keep = this.written % 4 > 0;
    if (what === "remove") {
      if (before !== undefined) changes.push({ before, after: undefined, keep });
      this.rows.delete(id);
      return;
    }
    const shelf = shelves[this.written % shelves.length] as string;
    const note = `${this.written}é ${"x".repeat(this.written % 90)}`;
    const to = what === "move" ? { shelf } : { note };
    const after = before === undefined ? thing(id, shelf, note) : changed(before, to);
    this.rows.set(id, after);
    changes.push({ before, after, keep });
  }

  #write(ops: Op[], key: string, isPut: boolean): void {
    const isThere = this.keys.has(key);
    const value = `${this.written} ${"y".repeat(this.written % 90)}`;
    if (isPut) {
      ops.push(isThere ? put(key, value) : create(key, value));
      this.keys.set(key, value);
    } else if (isThere) {
      ops.push(remove(key));
      this.keys.delete(key);
    }
  }

  /** What scans find: keys, records of rows, and index keys. */
  #entries(): (readonly [string, string])[] {
    const entries = [...this.keys];
    for (const row of this.rows.values()) {
      entries.push([things.prefix + row.id, recordOf(row, things).toString("latin1")]);
      for (const key of things.keysOf(row)) entries.push([key, row.id]);
    }
    return entries;
  }

  #checkReads(): void {
    for (let number = 0; number < 10; number += 1) {
      const [id, key] = [idOf(number), keyOf(number)];
      assert.deepEqual(this.engine.row(id), this.rows.get(id));
      assert.equal(this.engine.get(key)?.toString(), this.keys.get(key));
      assert.equal(this.engine.getText(key), this.keys.get(key));
    }
  }

  /** Both kinds of scans see what lies in the range. */
  async #checkRange(range: KvRange, limit: number): Promise<void> {
    const entries = this.#entries().sort(([a], [b]) => (a < b ? -1 : 1));
    const within = ({ after, before }: KvRange): (readonly [string, string])[] =>
      entries.filter(([key]) => key > after && key < before).slice(0, limit);
    const expected = within(range);
    const found = await this.engine.scan(range, limit);
    assert.deepEqual(
      found.map(([key, value]) => [key, value.toString("latin1")]),
      expected,
    );
    assert.deepEqual(
      await this.engine.scanKeys(range, limit),
      expected.map(([key]) => key),
    );
    const parts = partsOf(
      range,
      entries.map(([key]) => key),
    );
    assert.deepEqual(
      await this.engine.firstKeys(parts, limit),
      parts.map((part) => within(part).map(([key]) => key)),
    );
  }

  checkStored(): void {
    assert.equal(this.engine.stats().overlayEntries, 0);
    const indexKeys = [...this.rows.values()].flatMap((row) => things.keysOf(row));
    assert.equal(Number(this.engine.get("count")?.toString() ?? 0), indexKeys.length);
    const stored = [...this.world.contents]
      .filter(([key]) => key !== "count" && !key.startsWith("codeq/meta/"))
      .map(([key, value]): [string, string] => {
        const bytes = things.isIndexKey(key) ? value : unseal(key, value);
        return [key, bytes.toString("latin1")];
      });
    assert.deepEqual(stored.sort(), this.#entries().sort());
  }
}

/** Cuts the range at every third key, and leaves out every fourth part. */
function partsOf({ after, before }: KvRange, keys: readonly string[]): KvRange[] {
  const cuts = keys.filter((key, at) => at % 3 === 0 && key > after && key < before);
  const ends = [after, ...cuts, before];
  return cuts
    .map((_, at) => ({ after: ends[at] as string, before: ends[at + 1] as string }))
    .filter((_, at) => at % 4 < 3);
}

test("reads see what was committed, wherever it is, through flushes and restarts", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60, size: "max" }), async (steps) => {
      const life = await Life.begin();
      for (const each of steps) await life.step(each);
      life.release();
      await life.flushAll();
    }),
    { numRuns: Number(process.env["CODEQ_MODEL_RUNS"] ?? 250) },
  );
});
