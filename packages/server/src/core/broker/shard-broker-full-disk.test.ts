/**
 * A full disk undoes what was decided but not durable. Afterwards the broker's memory must be what a
 * fresh start on the same data would build, and nothing that was refused may show up again.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Task, TaskId, TenantId, WorkerId } from "@codeq/queue";
import fc from "fast-check";
import { settle } from "../../../../simulated/src/index.ts";
import {
  Asked,
  abandon,
  acme,
  BrokerWorld,
  claim,
  claimIds,
  completed,
  countedKeys,
  countsInMemory,
  create,
  decidedBy,
  enqueue,
  entriesUnder,
  heartbeat,
  nack,
  owned,
  runDue,
  sorted,
  standing,
  submit,
  success,
  worker,
} from "../../../test/broker-world.ts";
import { idOf } from "../store/keys.ts";
import type { ShardBroker } from "./shard-broker.ts";
import type { Enqueued } from "./verbs.ts";

const plenty = Number.MAX_SAFE_INTEGER;
const large = JSON.stringify("x".repeat(6000));

async function setup(): Promise<{ world: BrokerWorld; broker: ShardBroker }> {
  const world = new BrokerWorld({ segmentBytes: 4096, flushBytes: 20_000, minFreeBytes: 100 });
  return { world, broker: await world.open() };
}

async function makeRoom(world: BrokerWorld): Promise<void> {
  world.disk.capacityBytes = plenty;
  await world.clock.advance(1000);
}

test("a refused enqueue leaves no task, no count, no idempotency key and no waiter behind", async () => {
  const { world, broker } = await setup();
  await enqueue(broker);
  await claim(broker);
  const waiting = claim(broker, { waitMs: 60_000, workerId: "other" as WorkerId });
  await settle();
  world.disk.capacityBytes = 0;
  let refused = new Asked<Enqueued>();
  const [decided] = decidedBy(broker, () => {
    refused = create(broker, { idempotencyKey: "k", payload: large });
  });
  assert.ok(!refused.isRefused);
  await assert.rejects(refused.done, { code: "disk_full" });
  await assert.rejects(waiting, { code: "disk_full" });
  await settle();
  assert.equal(create(broker).code, "disk_full");
  await assert.rejects(claim(broker), { code: "disk_full" });
  assert.equal(await broker.get(acme, decided!.after!.id), undefined);
  await makeRoom(world);
  const again = await create(broker, { idempotencyKey: "k", payload: large }).done;
  assert.ok(!again.replayed);
  assert.deepEqual(await claimIds(broker, { count: 5 }), [again.task.id]);
});

test("a refused claim, submit and nack are as if they had not been", async () => {
  const { world, broker } = await setup();
  const tasks = [await enqueue(broker), await enqueue(broker), await enqueue(broker)];
  await claim(broker, { count: 2 });
  world.disk.capacityBytes = 0;
  create(broker, { payload: large });
  const submitted = submit(broker, owned(tasks[0]!), success);
  const nacked = nack(broker, owned(tasks[1]!), { delaySeconds: 9, reason: "" });
  const claimed = claim(broker);
  assert.ok(!submitted.isRefused && !nacked.isRefused);
  await assert.rejects(submitted.done, { code: "disk_full" });
  await assert.rejects(nacked.done, { code: "disk_full" });
  await assert.rejects(claimed, { code: "disk_full" });
  await makeRoom(world);
  assert.equal(await broker.result(acme, tasks[0]!.id), undefined);
  assert.equal(broker.leases.size, 2);
  assert.deepEqual(await claimIds(broker, { count: 5 }), [tasks[2]!.id]);
  await submit(broker, owned(tasks[0]!), success).done;
  await submit(broker, owned(tasks[1]!), success).done;
});

test("a worker keeps its lease through a full disk, and its heartbeats are answered", async () => {
  const { world, broker } = await setup();
  const task = await enqueue(broker);
  await claim(broker, { leaseMs: 30_000 });
  world.disk.capacityBytes = 0;
  create(broker, { payload: large });
  await settle();
  for (let n = 0; n < 10; n += 1) {
    await world.clock.advance(10_000);
    const { untilMs } = await heartbeat(broker, owned(task), 30_000).done;
    assert.equal(untilMs, world.clock.nowMs() + 30_000);
  }
  await makeRoom(world);
  await submit(broker, owned(task), success).done;
});

test("who waits for a result goes on waiting when the submit was refused", async () => {
  const { world, broker } = await setup();
  const task = await enqueue(broker);
  await claim(broker);
  const waiting = broker.results.wait(task, { waitMs: 60_000, signal: undefined });
  world.disk.capacityBytes = 0;
  submit(broker, owned(task), completed(large));
  assert.equal(await standing(waiting), "pending");
  await makeRoom(world);
  submit(broker, owned(task), success);
  await waiting;
});

type Step =
  | {
      readonly kind: "enqueue";
      readonly queue: number;
      readonly priority: number;
      readonly delayMs: number;
    }
  | { readonly kind: "claim"; readonly queue: number; readonly count: number }
  | { readonly kind: "submit" | "nack" | "abandon" | "heartbeat"; readonly which: number }
  | { readonly kind: "pass"; readonly ms: number }
  | { readonly kind: "wait" | "flush" | "fill" };

const stepArbitrary: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant("enqueue" as const),
      queue: fc.nat(2),
      priority: fc.constantFrom(0, 3, 9),
      delayMs: fc.constantFrom(0, 0, 0, 700, 5000),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("claim" as const),
      queue: fc.nat(2),
      count: fc.nat(4),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constantFrom(
        "submit" as const,
        "nack" as const,
        "abandon" as const,
        "heartbeat" as const,
      ),
      which: fc.nat(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("pass" as const), ms: fc.nat(9000) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constantFrom("wait" as const, "flush" as const, "fill" as const),
    }),
  },
);

/** A broker that does random things and remembers what it promised. */
class Walk {
  readonly world: BrokerWorld;
  readonly broker: ShardBroker;
  readonly kept = new Set<TaskId>();
  readonly refused = new Set<TaskId>();
  claimed: Task[] = [];

  constructor(world: BrokerWorld, broker: ShardBroker) {
    this.world = world;
    this.broker = broker;
  }

  async step(step: Step): Promise<void> {
    const { world, broker } = this;
    const { store } = broker;
    switch (step.kind) {
      case "pass":
        return this.#pass(step.ms);
      case "wait":
        return settle();
      case "flush":
        return store.flushNow().catch(() => {});
      case "fill":
        world.disk.capacityBytes = 0;
        return;
      case "enqueue":
        return store.state === "open" ? this.#enqueue(step) : makeRoom(world);
      case "claim":
        return store.state === "open" ? this.#claim(step) : makeRoom(world);
      default:
        return store.state === "open" ? this.#finish(step) : makeRoom(world);
    }
  }

  async #pass(ms: number): Promise<void> {
    await this.world.clock.advance(ms);
    await runDue(this.broker, this.world.clock).catch((error: { code?: string }) => {
      assert.equal(error.code, "disk_full");
    });
  }

  #enqueue(step: Extract<Step, { kind: "enqueue" }>): void {
    const visibleMs = step.delayMs === 0 ? undefined : this.world.clock.nowMs() + step.delayMs;
    const command = `c${step.queue}`;
    const payload = JSON.stringify("x".repeat(800));
    const { priority } = step;
    let asked = new Asked<Enqueued>();
    const [decided] = decidedBy(this.broker, () => {
      asked = create(this.broker, { command, priority, visibleMs, payload, maxAttempts: 2 });
    });
    const { id } = decided!.after!;
    asked.done.then(
      () => this.kept.add(id),
      () => this.refused.add(id),
    );
  }

  async #claim(step: Extract<Step, { kind: "claim" }>): Promise<void> {
    const request = { commands: [`c${step.queue}`], count: step.count, leaseMs: 6000 };
    const claimed = await claim(this.broker, request).catch(() => []);
    this.claimed.push(...claimed.map(({ task }) => task));
  }

  #finish(step: Extract<Step, { kind: "submit" | "nack" | "abandon" | "heartbeat" }>): void {
    const task = this.claimed[step.which % this.claimed.length];
    if (task === undefined) return;
    const { broker } = this;
    if (step.kind === "submit") submit(broker, owned(task), success);
    else if (step.kind === "nack") nack(broker, owned(task), { delaySeconds: 0, reason: "" });
    else if (step.kind === "abandon") abandon(broker, owned(task), { interrupted: false });
    else heartbeat(broker, owned(task), 6000);
  }

  async check(): Promise<void> {
    const { world, broker } = this;
    await makeRoom(world);
    await settle();
    const { store } = broker;
    assert.equal(store.state, "open");
    const counted = sorted(await countedKeys(store));
    assert.deepEqual(sorted(countsInMemory(broker)), counted);
    for (const id of this.kept) assert.ok(store.task(id), `${id} was acknowledged`);
    for (const id of this.refused) assert.equal(store.task(id), undefined);
    const leased = await idsUnder(broker, "/inprog/");
    assert.deepEqual(
      [...leased].filter((id) => broker.leases.get(id) === undefined),
      [],
    );
    assert.equal(broker.leases.size, leased.size);
    const fresh = await world.openBroker(store);
    assert.deepEqual(sorted(countsInMemory(fresh)), counted);
    assert.equal(fresh.leases.size, broker.leases.size);
  }
}

async function idsUnder(broker: ShardBroker, part: string): Promise<Set<TaskId>> {
  const entries = await entriesUnder(broker.store, "codeq/q/");
  return new Set(entries.filter(([key]) => key.includes(part)).map(([key]) => idOf(key)));
}

/** Finishes everything that is there, by promotion, claim and submit, in the order it comes. */
async function drain(walk: Walk, broker: ShardBroker): Promise<void> {
  const tenantId: TenantId = acme;
  for (let round = 0; round < 200; round += 1) {
    await walk.world.clock.advance(10_000);
    await runDue(broker, walk.world.clock);
    const tasks = await claim(broker, { commands: undefined, count: 256 });
    if (tasks.length === 0 && countsAre(broker, 0)) return;
    for (const { task } of tasks) {
      const of = { tenantId, id: task.id, owner: { workerId: worker } };
      assert.ok(!submit(broker, of, success).isRefused);
    }
  }
  assert.fail(`not finished: ${JSON.stringify(sorted(countsInMemory(broker)))}`);
}

function countsAre(broker: ShardBroker, left: number): boolean {
  return sorted(countsInMemory(broker)).every(
    ([, { ready, delayed, leased }]) => ready.every((n) => n === left) && delayed + leased === left,
  );
}

test("whatever is undone, memory is what a fresh start would build, and all work is finished", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(stepArbitrary, { maxLength: 80 }), async (steps) => {
      const { world, broker } = await setup();
      const walk = new Walk(world, broker);
      for (const step of steps) await walk.step(step);
      await walk.check();
      await drain(walk, await world.kill());
    }),
    { numRuns: Number(process.env["CODEQ_MODEL_RUNS"] ?? 80) },
  );
});

test("what is left in memory after a rollback can be finished without a restart", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(stepArbitrary, { maxLength: 60 }), async (steps) => {
      const { world, broker } = await setup();
      const walk = new Walk(world, broker);
      for (const step of steps) await walk.step(step);
      await makeRoom(world);
      await settle();
      await drain(walk, broker);
      assert.deepEqual([...(await idsUnder(broker, "/pending/"))], []);
      for (const id of walk.kept) {
        const read = await broker.get(acme, id);
        assert.ok(read?.task.place.in === "done" || read?.task.place.in === "dead", id);
        assert.ok(await broker.result(acme, id), id);
      }
    }),
    { numRuns: Number(process.env["CODEQ_MODEL_RUNS"] ?? 60) },
  );
});
