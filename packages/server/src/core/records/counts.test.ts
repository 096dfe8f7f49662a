import assert from "node:assert/strict";
import { test } from "node:test";
import { put } from "@codeq/engine";
import type { Task } from "@codeq/queue";
import fc from "fast-check";
import { unseal } from "../../../../engine/src/kv/checked-value.ts";
import { textOf } from "../../../../engine/test/sealed.ts";
import { settle } from "../../../../simulated/src/index.ts";
import {
  abandon,
  acme,
  BrokerWorld,
  claim,
  countedKeys,
  countsInMemory,
  enqueue,
  enqueueNow,
  nack,
  owned,
  runDue,
  sorted,
  storedSizes,
  submit,
  success,
  umbrella,
} from "../../../test/broker-world.ts";
import { engineOf } from "../../../test/engine-of.ts";
import type { ShardBroker } from "../broker/shard-broker.ts";
import { countsPrefix, sequenceKey } from "../store/keys.ts";
import {
  addCounts,
  type Counts,
  changeOfCounts,
  decodeCounts,
  deriveCounts,
  noCounts,
} from "./counts.ts";

async function setup(): Promise<{ world: BrokerWorld; broker: ShardBroker }> {
  const world = new BrokerWorld({ flushBytes: 15_000, segmentBytes: 16_384 });
  return { world, broker: await world.open() };
}

/** What the kv has counted plus what it has not been told of yet, queues without anything left out. */
function storedAndUnflushed(world: BrokerWorld, broker: ShardBroker): Map<string, Counts> {
  const sums = new Map<string, Counts>();
  const add = (name: string, counts: Counts): void => {
    sums.set(name, addCounts(sums.get(name) ?? noCounts(), counts));
  };
  for (const [key, value] of world.contents) {
    if (!key.startsWith(countsPrefix)) continue;
    const [queue, tenant] = key.slice(countsPrefix.length).split("/");
    add(`${tenant === "_" ? "" : tenant}/${queue}`, decodeCounts(unseal(key, value)));
  }
  for (const { queue, tenantId, counts } of changeOfCounts(
    engineOf(broker.store).unflushed(),
  ).queues.values()) {
    add(`${tenantId}/${queue}`, counts);
  }
  for (const [name, counts] of sums) {
    const { ready, delayed, leased, dead } = counts;
    if ([...ready, delayed, leased, dead].every((count) => count === 0)) sums.delete(name);
  }
  return sums;
}

test("counts follow a task through all its places", async () => {
  const { world, broker } = await setup();
  const counts = (): number[] => {
    const { ready, delayed, leased, dead } = broker.counts(acme, "Work");
    return [ready[4] ?? 0, delayed, leased, dead];
  };
  const task = await enqueue(broker, {
    priority: 4,
    maxAttempts: 2,
    visibleMs: world.clock.nowMs() + 10,
  });
  assert.deepEqual(counts(), [0, 1, 0, 0]);
  await world.clock.advance(10);
  await runDue(broker, world.clock);
  assert.deepEqual(counts(), [1, 0, 0, 0]);
  await claim(broker);
  assert.deepEqual(counts(), [0, 0, 1, 0]);
  nack(broker, owned(task), { delaySeconds: 0, reason: "" });
  assert.deepEqual(counts(), [0, 1, 0, 0]);
  await world.clock.advance(5000);
  await runDue(broker, world.clock);
  await claim(broker);
  abandon(broker, owned(task), { interrupted: false });
  assert.deepEqual(counts(), [0, 0, 0, 1]);
  const dead = await broker.get(acme, task.id);
  await broker.delete([dead!.task]);
  assert.deepEqual(counts(), [0, 0, 0, 0]);
});

test("a queue that became empty leaves no counts in the kv, and unknown queues count nothing", async () => {
  const { world, broker } = await setup();
  const task = await enqueue(broker);
  await broker.store.flushNow();
  assert.ok(world.contents.has(`${countsPrefix}work/acme`));
  await claim(broker);
  submit(broker, owned(task), success);
  await settle();
  await broker.store.flushNow();
  assert.ok(!world.contents.has(`${countsPrefix}work/acme`));
  assert.deepEqual(broker.counts(umbrella, "nothing"), noCounts());
});

test("a key that goes and comes back between two flushes is counted once", async () => {
  const { world, broker } = await setup();
  const task = await enqueue(broker);
  await claim(broker);
  await broker.store.flushNow();
  abandon(broker, owned(task), { interrupted: false });
  await claim(broker);
  assert.equal(sorted(storedAndUnflushed(world, broker))[0]?.[1].leased, 1);
  await broker.store.flushNow();
  assert.equal(sorted(storedAndUnflushed(world, broker))[0]?.[1].leased, 1);
});

test("a task that passes between two flushes is not counted at all", async () => {
  const { world, broker } = await setup();
  const task = await enqueue(broker);
  await claim(broker);
  submit(broker, owned(task), success);
  await settle();
  await broker.store.flushNow();
  assert.deepEqual(
    [...world.contents.keys()].filter((key) => key.includes("/q/")),
    [],
  );
  assert.ok(!world.contents.has(`${countsPrefix}work/acme`));
});

type Step =
  | {
      readonly kind: "enqueue";
      readonly queue: number;
      readonly priority: number;
      readonly ms: number;
    }
  | { readonly kind: "claim"; readonly queue: number }
  | { readonly kind: "submit" | "nack" | "abandon" | "delete"; readonly which: number }
  | { readonly kind: "pass" | "flush" | "settle" | "reopen" | "kill" };

const stepArbitrary: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("enqueue" as const),
      queue: fc.nat(2),
      priority: fc.nat(9),
      ms: fc.constantFrom(0, 0, 3000),
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("claim" as const), queue: fc.nat(2) }) },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constantFrom(
        "submit" as const,
        "nack" as const,
        "abandon" as const,
        "delete" as const,
      ),
      which: fc.nat(),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constantFrom(
        "pass" as const,
        "flush" as const,
        "settle" as const,
        "reopen" as const,
        "kill" as const,
      ),
    }),
  },
);

class Walk {
  readonly world: BrokerWorld;
  broker: ShardBroker;
  readonly claimed: { readonly id: string }[] = [];

  constructor(world: BrokerWorld, broker: ShardBroker) {
    this.world = world;
    this.broker = broker;
  }

  async step(step: Step): Promise<void> {
    const { world, broker } = this;
    switch (step.kind) {
      case "enqueue": {
        const visibleMs = step.ms === 0 ? undefined : world.clock.nowMs() + step.ms;
        const tenantId = step.queue === 2 ? umbrella : acme;
        const command = `c${step.queue}`;
        enqueueNow(broker, {
          tenantId,
          command,
          priority: step.priority,
          visibleMs,
          maxAttempts: 2,
          payload: JSON.stringify("ä".repeat(step.priority)),
        });
        return;
      }
      case "claim": {
        const tenantId = step.queue === 2 ? umbrella : acme;
        const request = { tenantId, commands: [`c${step.queue}`], count: 2, leaseMs: 8000 };
        this.claimed.push(...(await claim(broker, request)).map(({ task }) => task));
        return;
      }
      case "pass":
        await world.clock.advance(2000);
        await runDue(broker, world.clock);
        return;
      case "flush":
        return broker.store.flushNow();
      case "settle":
        return settle(1);
      case "reopen":
        this.broker = await world.reopen(broker);
        return;
      case "kill":
        this.broker = await world.kill();
        return;
      default:
        this.#end(step.kind, this.claimed[step.which % this.claimed.length] as never);
    }
  }

  #end(how: "submit" | "nack" | "abandon" | "delete", task: Parameters<typeof owned>[0]): void {
    const { broker } = this;
    if (task === undefined) return;
    if (how === "submit") submit(broker, owned(task), success);
    else if (how === "nack") nack(broker, owned(task), { delaySeconds: 0, reason: "" });
    else if (how === "abandon") abandon(broker, owned(task), { interrupted: false });
    else {
      const now = broker.store.task(task.id);
      if (now !== undefined) void broker.delete([now]);
    }
  }

  async check(): Promise<void> {
    const { broker, world } = this;
    const walked = sorted(await countedKeys(broker.store));
    assert.deepEqual(sorted(countsInMemory(broker)), walked);
    assert.deepEqual(sorted(storedAndUnflushed(world, broker)), walked);
    const sizes = await storedSizes(broker.store);
    for (const tenantId of [acme, umbrella]) {
      assert.equal(broker.store.storedBytes(tenantId), sizes.get(tenantId) ?? 0);
      const state = broker.queues.findTenant(tenantId);
      const counts = walked.filter(([name]) => name.startsWith(`${tenantId}/`)).map(([, of]) => of);
      const pending = counts.map(({ ready, delayed }) => sum(ready) + delayed);
      assert.equal(state?.pending ?? 0, sum(pending));
      assert.equal(state?.leased ?? 0, sum(counts.map(({ leased }) => leased)));
    }
  }
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}

test("stored and unflushed counts are what a walk over all keys counts, and so is memory, also by tenant", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(stepArbitrary, { maxLength: 70 }), async (steps) => {
      const { world, broker } = await setup();
      const walk = new Walk(world, broker);
      for (const step of steps) {
        await walk.step(step);
        await walk.check();
      }
      await walk.broker.store.flushNow();
      await walk.check();
    }),
    { numRuns: Number(process.env["CODEQ_MODEL_RUNS"] ?? 80) },
  );
});

test("the stored sequence is at least that of every ready task, so that a restart never goes back", async () => {
  const { world, broker } = await setup();
  for (let n = 0; n < 50; n += 1) await enqueue(broker, { priority: n % 10 });
  await broker.store.flushNow();
  assert.equal(textOf(world.contents, sequenceKey), "50");
});

test("a sequence that is written by itself is never lowered by tasks that are flushed with it", async () => {
  const { world, broker } = await setup();
  await enqueue(broker);
  await engineOf(broker.store).commit([], [put(sequenceKey, "1000")]).done;
  await enqueue(broker);
  await broker.store.flushNow();
  assert.equal(textOf(world.contents, sequenceKey), "1000");
});

test("a flush neither reads nor writes the counts of a queue that gave as many tasks as it took", async () => {
  const { broker } = await setup();
  const [older, newer] = [enqueueNow(broker), enqueueNow(broker)];
  const keys: string[] = [];
  const derive = (row: Task | undefined): string[] => {
    const rows = [
      { row, below: undefined },
      { row: undefined, below: older },
    ];
    return deriveCounts({ rows, entries: [] }, (key) => {
      keys.push(key);
      return undefined;
    }).map(({ key }) => key);
  };
  assert.deepEqual(derive(newer), [sequenceKey]);
  assert.deepEqual(keys, [sequenceKey]);
  assert.deepEqual(derive(undefined), [`${countsPrefix}work/acme`]);
});
