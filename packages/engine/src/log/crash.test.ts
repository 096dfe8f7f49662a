import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { SimDisk } from "../../../simulated/src/sim-disk.ts";
import { append, frameOf } from "../../test/log-contract.ts";
import { type Durability, LocalLog } from "./local-log.ts";

/**
 * A server that is killed, or loses power, before any operation of its disk, again and again, also
 * while it starts. After each crash the log must hold what the durability mode promised, in order.
 */
type Step =
  | {
      readonly kind: "append";
      readonly bytes: number;
      /** Given to the log together with the first one, if it takes both. */
      readonly second: number | undefined;
      readonly alongside: "none" | "sync" | "trim";
    }
  | { readonly kind: "sync" }
  | { readonly kind: "trim"; readonly back: number }
  | {
      readonly kind: "full";
      readonly operation: "write" | "sync" | "rename" | "capacity";
      /** How many appends are under way when it happens. */
      readonly appends: number;
    }
  | { readonly kind: "reopen" };

interface Life {
  readonly steps: readonly Step[];
  /** Disk operations until the crash. */
  readonly operations: number;
  readonly crash: "process" | "power";
}

const bytesArbitrary: fc.Arbitrary<number> = fc.oneof(
  { weight: 9, arbitrary: fc.nat(700) },
  fc.integer({ min: 2000, max: 5000 }),
);

const stepArbitrary: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant("append" as const),
      bytes: bytesArbitrary,
      second: fc.option(bytesArbitrary, { nil: undefined }),
      alongside: fc.constantFrom(
        "none" as const,
        "none" as const,
        "sync" as const,
        "trim" as const,
      ),
    }),
  },
  fc.record({ kind: fc.constant("sync" as const) }),
  fc.record({ kind: fc.constant("trim" as const), back: fc.nat(6) }),
  fc.record({
    kind: fc.constant("full" as const),
    operation: fc.constantFrom("write", "sync", "rename", "capacity"),
    appends: fc.integer({ min: 1, max: 2 }),
  }),
  fc.record({ kind: fc.constant("reopen" as const) }),
);

const lifeArbitrary: fc.Arbitrary<Life> = fc.record({
  steps: fc.array(stepArbitrary, { maxLength: 40 }),
  operations: fc.oneof(fc.nat(30), fc.nat(250)),
  crash: fc.constantFrom("process", "power"),
});

/** Runs one log through its lives and remembers what it promised. */
class World {
  readonly durability: Durability;
  disk: SimDisk;
  log: LocalLog | undefined;
  operationsLeft = Number.POSITIVE_INFINITY;
  crashPoint: PromiseWithResolvers<"crashed"> = Promise.withResolvers();
  readonly random: () => number;
  /** Body of every record that was given to the log, by index; the last ones may be in flight. */
  readonly bodies: string[] = [""];
  acknowledged = 0;
  durable = 0;
  powerFailed = false;
  counter = 0;

  constructor(durability: Durability, random: () => number) {
    this.durability = durability;
    this.random = random;
    this.disk = new SimDisk({ random, latency: () => this.#latency() });
  }

  async #latency(): Promise<void> {
    this.operationsLeft -= 1;
    // What is under way at the same time ends in any order.
    for (let turns = Math.floor(this.random() * 8); turns > 0; turns -= 1) await undefined;
    if (this.operationsLeft >= 0) return;
    this.crashPoint.resolve("crashed");
    await new Promise(() => {});
  }

  async live(life: Life): Promise<void> {
    this.crashPoint = Promise.withResolvers();
    this.operationsLeft = life.operations;
    const work = this.#work(life.steps);
    await Promise.race([work, this.crashPoint.promise]);
    this.disk = this.disk.crash(life.crash);
    this.disk.capacityBytes = Number.MAX_SAFE_INTEGER;
    this.log = undefined;
    this.powerFailed ||= life.crash === "power";
  }

  async #work(steps: readonly Step[]): Promise<void> {
    await this.open();
    for (const step of steps) await this.#step(step);
  }

  async open(): Promise<void> {
    const { disk, durability } = this;
    const options = { durability, segmentBytes: 2048, writer: 1, epoch: 1, shard: 0 };
    this.log = await LocalLog.open(disk, { ...options, monotonicMs: () => 0 });
    const { operationsLeft } = this;
    this.operationsLeft = Number.POSITIVE_INFINITY;
    await this.#check(this.log);
    this.operationsLeft = operationsLeft;
  }

  async #check(log: LocalLog): Promise<void> {
    const promised = this.powerFailed ? this.durable : this.acknowledged;
    assert.ok(log.lastIndex >= promised, `ends at ${log.lastIndex}, promised ${promised}`);
    assert.ok(log.lastIndex < this.bodies.length, "holds a record that nobody wrote");
    let index = log.firstIndex;
    for await (const record of log.readFrom(index)) {
      assert.equal(record.index, index);
      assert.equal(record.body.toString(), this.bodies[index]);
      index += 1;
    }
    assert.equal(index, log.lastIndex + 1);
    this.bodies.length = index;
    this.acknowledged = log.lastIndex;
    this.durable = log.lastIndex;
    this.powerFailed = false;
  }

  async #step(step: Step): Promise<void> {
    const { log } = this;
    assert.ok(log);
    switch (step.kind) {
      case "append": {
        const trim = step.alongside === "trim" ? log.trim(log.lastIndex) : undefined;
        const sync = step.alongside === "sync" ? this.#sync(log) : undefined;
        const given = [this.#append(log, step.bytes)];
        if (step.second !== undefined && log.canAppend) given.push(this.#append(log, step.second));
        await Promise.all([...given, trim, sync]);
        return;
      }
      case "sync":
        return this.#sync(log);
      case "trim":
        return log.trim(log.lastIndex - step.back);
      case "full":
        return this.#fillDisk(log, step);
      case "reopen":
        await log.close();
        this.durable = this.acknowledged;
        return this.open();
    }
  }

  async #append(log: LocalLog, bytes: number): Promise<boolean> {
    this.counter += 1;
    const body = `${this.counter}:`.padEnd(bytes, String(this.counter));
    const expected = this.bodies.length;
    this.bodies.push(body);
    try {
      assert.equal(await append(log, frameOf(body)), expected);
    } catch (error) {
      assert.equal((error as { code?: string }).code, "disk_full");
      this.bodies.length = Math.min(this.bodies.length, expected);
      return false;
    }
    assert.equal(expected, this.acknowledged + 1, "acknowledged in order");
    this.acknowledged = expected;
    if (this.durability === "fsync") this.durable = expected;
    return true;
  }

  async #sync(log: LocalLog): Promise<void> {
    const { acknowledged } = this;
    await log.sync();
    this.durable = Math.max(this.durable, acknowledged);
  }

  /** Appends until the disk refuses, then makes room again. */
  async #fillDisk(log: LocalLog, { operation, appends }: Step & { kind: "full" }): Promise<void> {
    // Outside of an append, a sync that finds no room is a failure for good.
    if (operation === "sync" && this.durability !== "fsync") return;
    if (operation === "capacity") this.disk.capacityBytes = 0;
    else this.disk.failNext(operation, "ENOSPC");
    for (let tries = 0; tries < 20; tries += 1) {
      const given: Promise<boolean>[] = [];
      do given.push(this.#append(log, 600));
      while (given.length < appends && log.canAppend);
      if ((await Promise.all(given)).includes(false)) break;
    }
    this.disk.capacityBytes = Number.MAX_SAFE_INTEGER;
  }
}

for (const durability of ["fsync", "interval", "os"] as const satisfies Durability[]) {
  test(`crashes lose nothing that ${durability} promised, and leave a log in order`, async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(lifeArbitrary, { minLength: 1, maxLength: 5 }),
        fc.infiniteStream(fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })),
        async (lives, randoms) => {
          const world = new World(durability, () => randoms.next().value ?? 0);
          for (const life of lives) await world.live(life);
          world.operationsLeft = Number.POSITIVE_INFINITY;
          await world.open();
          await world.log?.close();
        },
      ),
      { numRuns: Number(process.env["CODEQ_CRASH_RUNS"] ?? 300) },
    );
  });
}
