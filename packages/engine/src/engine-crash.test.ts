/**
 * An engine that is killed, or loses power, before any operation of its disk or its kv, again and
 * again, also while it starts. What it finds next must be the state after some commit: the last one
 * that the durability mode promised, or a later one, and never half of one.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { settle } from "../../simulated/src/index.ts";
import { EngineWorld, everything } from "../test/engine-world.ts";
import { textOf } from "../test/sealed.ts";
import { changed, countKeys, type Thing, thing, things } from "../test/things.ts";
import { create, type Op, put, remove } from "./batch-codec.ts";
import type { Engine } from "./engine.ts";
import type { Durability } from "./log/local-log.ts";
import { type RowChange, recordOf } from "./row-codec.ts";

type Step =
  | { readonly kind: "commit"; readonly count: number; readonly bytes: number }
  | { readonly kind: "wait" | "flush" | "tick" | "close" }
  | { readonly kind: "full"; readonly where: "capacity" | "kv" };

interface Life {
  readonly steps: readonly Step[];
  /** Operations of disk and kv until the crash. */
  readonly operations: number;
  readonly crash: "process" | "power";
}

const stepArbitrary: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("commit" as const),
      count: fc.integer({ min: 1, max: 4 }),
      bytes: fc.oneof({ weight: 9, arbitrary: fc.nat(400) }, fc.integer({ min: 2000, max: 4000 })),
    }),
  },
  { weight: 4, arbitrary: fc.record({ kind: fc.constantFrom("wait", "flush", "tick", "close") }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("full" as const),
      where: fc.constantFrom("capacity", "kv"),
    }),
  },
);

const lifeArbitrary: fc.Arbitrary<Life> = fc.record({
  steps: fc.array(stepArbitrary, { maxLength: 30, size: "max" }),
  operations: fc.oneof(fc.nat(40), fc.nat(250)),
  crash: fc.constantFrom("process", "power"),
});

/** Other keys and rows after a commit. */
interface State {
  readonly keys: Map<string, string>;
  readonly rows: Map<string, Thing>;
}

const seqOf = ({ keys }: State): number => Number(keys.get("seq") ?? 0);

/** What a scan finds, in order. */
function entriesOf({ keys, rows }: State): [string, string][] {
  const entries = [...keys];
  for (const row of rows.values()) {
    entries.push([things.prefix + row.id, recordOf(row, things).toString()]);
    for (const key of things.keysOf(row)) entries.push([key, row.id]);
  }
  return entries.sort(([a], [b]) => (a < b ? -1 : 1));
}

async function found(engine: Engine): Promise<[string, string][]> {
  return (await everything(engine)).filter(([key]) => key !== "count");
}

const plenty = Number.MAX_SAFE_INTEGER;

class Story {
  readonly world: EngineWorld;
  readonly durability: Durability;
  engine: Engine | undefined;
  /** The state after every commit that was tried since the last start, the first as found. */
  states: State[] = [{ keys: new Map(), rows: new Map() }];
  /** How many of those were acknowledged, and how many survive a power failure. */
  acknowledged = 0;
  durable = 0;
  counter = 0;
  operationsLeft = plenty;
  crashPoint: PromiseWithResolvers<void> = Promise.withResolvers();
  kvIsFull = false;
  lives = 0;

  constructor(durability: Durability, seed: number) {
    this.durability = durability;
    this.world = new EngineWorld({
      ...{ seed, durability, segmentBytes: 2048, flushBytes: 3000, minFreeBytes: 1000 },
      ...(durability === "interval" ? { syncIntervalMs: 100 } : {}),
      derive: countKeys,
    });
  }

  async live(life: Life): Promise<void> {
    const { world } = this;
    this.crashPoint = Promise.withResolvers();
    this.operationsLeft = life.operations;
    this.kvIsFull = false;
    world.beforeDisk = () => this.#operation();
    world.beforeWrite = async () => {
      await this.#operation();
      if (this.kvIsFull) throw Object.assign(new Error("kv"), { code: "disk_full" });
    };
    await Promise.race([this.#work(life.steps), this.crashPoint.promise]);
    world.crash(life.crash);
    this.engine = undefined;
    this.lives += 1;
    world.disk.capacityBytes = plenty;
    await this.check(life.crash);
  }

  /** Opens what was left, in peace, and compares it with what was promised. */
  async check(crash: "process" | "power"): Promise<void> {
    const { world } = this;
    const engine = await world.open();
    const entries = await found(engine);
    const reached = Number(new Map(entries).get("seq") ?? 0);
    const position = this.states.findIndex((state) => seqOf(state) === reached);
    const promised = crash === "power" ? this.durable : this.acknowledged;
    assert.ok(position >= promised, `found commit ${position}, promised ${promised}`);
    const state = this.states[position] as State;
    assert.deepEqual(entries, entriesOf(state));
    for (const [id, row] of state.rows) assert.deepEqual(engine.row(id), row);
    assert.equal(Number(textOf(world.contents, "count") ?? 0), state.keys.size);
    await engine[Symbol.asyncDispose]();
    this.states = [state];
    this.acknowledged = 0;
    this.durable = 0;
  }

  async #operation(): Promise<void> {
    this.operationsLeft -= 1;
    if (this.operationsLeft >= 0) return;
    this.crashPoint.resolve();
    await new Promise(() => {});
  }

  async #work(steps: readonly Step[]): Promise<void> {
    const { lives } = this;
    await this.#start(lives);
    for (const step of steps) {
      if (lives !== this.lives || this.engine === undefined) return;
      await this.#step(step, this.engine);
    }
  }

  /** A process that is gone starts nothing any more. */
  async #start(lives: number): Promise<void> {
    if (lives !== this.lives) return;
    const engine = await this.world.open();
    if (lives === this.lives) this.engine = engine;
  }

  async #step(step: Step, engine: Engine): Promise<void> {
    switch (step.kind) {
      case "commit":
        for (let n = 0; n < step.count; n += 1) this.#commit(engine, step.bytes);
        return settle(1);
      case "wait":
        return settle();
      case "tick": {
        const { acknowledged, lives } = this;
        await this.world.clock.advance(100);
        const isAlive = lives === this.lives && this.operationsLeft >= 0;
        if (this.durability === "interval" && isAlive) {
          this.durable = Math.max(this.durable, acknowledged);
        }
        return;
      }
      case "flush": {
        const { acknowledged, lives } = this;
        const isFlushed = await engine.flushNow().then(
          () => true,
          () => false,
        );
        if (isFlushed && lives === this.lives) this.durable = Math.max(this.durable, acknowledged);
        return;
      }
      case "close": {
        const { lives } = this;
        await engine[Symbol.asyncDispose]();
        if (lives !== this.lives) return;
        this.durable = this.acknowledged;
        return this.#start(lives);
      }
      case "full":
        return this.#fill(engine, step.where);
    }
  }

  #commit(engine: Engine, bytes: number): void {
    if (engine !== this.engine || engine.state !== "open") return;
    this.counter += 1;
    const { keys, rows } = this.states.at(-1) as State;
    const state = { keys: new Map(keys), rows: new Map(rows) };
    const { done } = engine.commit(this.#changeRows(state), this.#changeKeys(state, bytes));
    this.states.push(state);
    const position = this.states.length - 1;
    done.then(
      () => {
        this.acknowledged = Math.max(this.acknowledged, position);
        if (this.durability === "fsync") this.durable = this.acknowledged;
      },
      (error: { code: string }) => {
        assert.equal(error.code, "disk_full");
        // It was refused, and so was everything after it: none of it may ever be seen.
        this.states.length = Math.min(this.states.length, position);
      },
    );
  }

  #changeKeys({ keys }: State, bytes: number): Op[] {
    const ops: Op[] = [];
    const write = (key: string, value: string): void => {
      ops.push(keys.has(key) ? put(key, value) : create(key, value));
      keys.set(key, value);
    };
    write("seq", String(this.counter));
    write(`k${this.counter % 7}`, `${this.counter} ${"x".repeat(bytes)}`);
    const old = `k${(this.counter * 3) % 7}`;
    if (keys.delete(old)) ops.push(remove(old));
    return ops;
  }

  #changeRows({ rows }: State): RowChange[] {
    const id = `n${this.counter % 5}`;
    const before = rows.get(id);
    const shelf = `s${this.counter % 3}`;
    const after = before === undefined ? thing(id, shelf) : changed(before, { shelf });
    rows.set(id, after);
    const changes: RowChange[] = [{ before, after, keep: this.counter % 2 === 0 }];
    const old = rows.get(`n${(this.counter * 3) % 5}`);
    if (old !== undefined && old !== after) {
      rows.delete(old.id);
      changes.push({ before: old, after: undefined });
    }
    return changes;
  }

  /** The disk has no room for a while; then it has, and the engine goes on by itself. */
  async #fill(engine: Engine, where: "capacity" | "kv"): Promise<void> {
    if (where === "capacity") this.world.disk.capacityBytes = 0;
    else this.kvIsFull = true;
    for (let n = 0; n < 12; n += 1) {
      this.#commit(engine, 900);
      await settle(1);
    }
    await settle();
    assert.deepEqual(await found(engine), entriesOf(this.states.at(-1) as State));
    this.world.disk.capacityBytes = plenty;
    this.kvIsFull = false;
    await this.world.clock.advance(2000);
    if (this.operationsLeft > 0) assert.equal(engine.state, "open");
  }
}

for (const durability of ["fsync", "interval", "os"] as const satisfies Durability[]) {
  test(`a crash at any moment loses nothing that ${durability} promised`, async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(lifeArbitrary, { minLength: 1, maxLength: 4 }),
        fc.nat(),
        async (lives, seed) => {
          const story = new Story(durability, seed);
          for (const life of lives) await story.live(life);
        },
      ),
      { numRuns: Number(process.env["CODEQ_CRASH_RUNS"] ?? 100) },
    );
  });
}
