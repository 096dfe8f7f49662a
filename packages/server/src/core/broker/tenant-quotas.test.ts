import assert from "node:assert/strict";
import { test } from "node:test";
import type { NewTask } from "@codeq/queue";
import fc from "fast-check";
import { settle } from "../../../../simulated/src/index.ts";
import {
  abandon,
  acme,
  BrokerWorld,
  claim,
  claimIds,
  create,
  enqueue,
  enqueueNow,
  nack,
  owned,
  runDue,
  standing,
  submit,
  success,
  umbrella,
} from "../../../test/broker-world.ts";
import { noQuotas, type Quotas, type TenantQuota } from "../../config/quotas.ts";
import type { ShardBroker } from "./shard-broker.ts";

/** For `acme`; `umbrella` may have what it likes. */
function quotas(quota: Partial<TenantQuota>): Quotas {
  return { ...noQuotas, tenants: new Map([[acme, { ...noQuotas.default, ...quota }]]) };
}

async function setup(
  quota: Partial<TenantQuota>,
): Promise<{ world: BrokerWorld; broker: ShardBroker }> {
  const world = new BrokerWorld({ quotas: quotas(quota) });
  return { world, broker: await world.open() };
}

/** What a new task exceeds; undefined when it was taken. */
function refused(broker: ShardBroker, fields: Partial<NewTask> = {}): unknown {
  const { refusal } = create(broker, fields);
  return refusal !== undefined && "exceeded" in refusal ? refusal.exceeded : refusal?.code;
}

const none = undefined;

test("queues: a task in one more queue is refused, tasks in queues with tasks are not", async () => {
  const { world, broker } = await setup({ queues: 2 });
  const over = { quota: "queues", limit: 2, current: 2 };
  const { id } = await enqueue(broker, { command: "a" });
  const commands = ["b", "c", "A", "b"];
  assert.deepEqual(
    commands.map((command) => refused(broker, { command })),
    [none, over, none, none],
  );
  assert.equal(refused(broker, { tenantId: umbrella, command: "c" }), none);
  await settle();
  const opened = await world.reopen(broker);
  assert.deepEqual(refused(opened, { command: "c" }), over);
  // A worker that waits for a queue does not make the queue count.
  void claim(opened, { commands: ["c"], waitMs: 60_000 });
  assert.deepEqual(refused(opened, { command: "c" }), over);
  const [task] = await claim(opened, { commands: ["b"] });
  const moved = await opened.act({ tenantId: acme, id }, { kind: "edit", edit: { command: "c" } });
  assert.deepEqual(moved, { ok: false, code: "quota_exceeded", exceeded: over });
  assert.ok(task !== undefined && !submit(opened, owned(task.task), success).isRefused);
  const [last] = await claim(opened, { commands: ["b"] });
  assert.deepEqual(refused(opened, { command: "d" }), over);
  assert.ok(last !== undefined && !submit(opened, owned(last.task), success).isRefused);
  assert.equal(refused(opened, { command: "d" }), none);
});

test("pending tasks: those that are ready or delayed, over all queues of the tenant", async () => {
  const { world, broker } = await setup({ pendingTasks: 3 });
  const over = { quota: "pendingTasks", limit: 3, current: 3 };
  const visibleMs = world.clock.nowMs() + 1000;
  assert.deepEqual(
    [{ command: "a" }, { command: "b", visibleMs }, { command: "c" }, { command: "d" }].map(
      (fields) => refused(broker, fields),
    ),
    [none, none, none, over],
  );
  assert.equal(refused(broker, { tenantId: umbrella }), none);
  // A lease makes room, and what comes back takes it whatever the limit says.
  await settle();
  const [claimed] = await claim(broker, { commands: ["a"] });
  assert.equal(refused(broker), none);
  assert.deepEqual(refused(broker), over);
  abandon(broker, owned(claimed!.task), { interrupted: false });
  assert.deepEqual(refused(broker), { ...over, current: 4 });
});

test("a key that was used before is answered, however full the tenant is", async () => {
  const { broker } = await setup({ pendingTasks: 1 });
  await enqueue(broker, { idempotencyKey: "k" });
  assert.notEqual(refused(broker), none);
  assert.equal(refused(broker, { idempotencyKey: "k" }), none);
  assert.equal(
    refused(broker, { idempotencyKey: "k", command: "other" }),
    "idempotency_key_reused",
  );
});

test("stored bytes: a payload that does not fit is refused, a smaller one is taken", async () => {
  const { broker } = await setup({ storedBytes: 10 });
  assert.equal(refused(broker, { payload: '"12345"' }), none);
  const over = { quota: "storedBytes", limit: 10, current: 7 };
  assert.deepEqual(refused(broker, { payload: '"12"' }), over);
  assert.equal(refused(broker, { payload: '"1"' }), none);
  assert.deepEqual(refused(broker, { payload: "1" }), { ...over, current: 10 });
  assert.equal(refused(broker, { tenantId: umbrella, payload: '"1234567890"' }), none);
});

test("stored bytes: a result is always taken, counts, and goes with its task", async () => {
  const { world, broker } = await setup({ storedBytes: 10 });
  const task = await enqueue(broker, { payload: '"12345678"' });
  await claim(broker);
  const done = submit(broker, owned(task), success);
  const { storedBytes } = broker.store.task(task.id)!;
  assert.ok(storedBytes > 10);
  assert.deepEqual(refused(broker), { quota: "storedBytes", limit: 10, current: storedBytes });
  await settle();
  const again = await world.kill();
  assert.deepEqual(refused(again), { quota: "storedBytes", limit: 10, current: storedBytes });
  await again.delete([(await done.done).task]);
  assert.equal(refused(again), none);
});

test("concurrent leases: a claim gets what is left, and one that gets nothing is told", async () => {
  const { world, broker } = await setup({ concurrentLeases: 3 });
  for (let n = 0; n < 6; n += 1) await enqueue(broker, { command: `c${n % 2}` });
  assert.equal((await claim(broker, { commands: undefined, count: 2 })).length, 2);
  assert.equal(broker.quotas.exceededByLease(acme), none);
  assert.equal((await claim(broker, { commands: undefined, count: 5 })).length, 1);
  assert.equal((await claim(broker, { commands: undefined, count: 5 })).length, 0);
  const over = { quota: "concurrentLeases", limit: 3, current: 3 };
  assert.deepEqual(broker.quotas.exceededByLease(acme), over);
  enqueueNow(broker, { tenantId: umbrella });
  assert.equal((await claim(broker, { tenantId: umbrella })).length, 1);
  const again = await world.kill();
  assert.deepEqual(again.quotas.exceededByLease(acme), over);
  assert.equal((await claim(again, { commands: undefined, count: 5 })).length, 0);
});

type End = (broker: ShardBroker, of: ReturnType<typeof owned>, world: BrokerWorld) => unknown;

const ends: readonly (readonly [string, End])[] = [
  ["its task is done", (broker, of) => submit(broker, of, success)],
  ["its task comes back", (broker, of) => nack(broker, of, { delaySeconds: 9, reason: "" })],
  ["its task is abandoned", (broker, of) => abandon(broker, of, { interrupted: true })],
  ["its worker was gone", (broker, of) => broker.release(of)],
  [
    "its time is over",
    async (broker, _of, world) => {
      await world.clock.advance(60_000);
      await runDue(broker, world.clock);
    },
  ],
];

for (const [why, end] of ends) {
  test(`a claim that waits for a lease is served when one ends because ${why}`, async () => {
    const { world, broker } = await setup({ concurrentLeases: 1 });
    const first = await enqueue(broker);
    const second = await enqueue(broker);
    await claim(broker);
    const waiting = claimIds(broker, { waitMs: 600_000 });
    assert.equal(await standing(waiting), "pending");
    await end(broker, owned(first), world);
    assert.equal(await standing(waiting), "done");
    assert.deepEqual(await waiting, [second.id]);
    assert.equal(broker.leases.size, 1);
  });
}

test("those who wait for a lease are served in the order they came, over all queues", async () => {
  const { broker } = await setup({ concurrentLeases: 1 });
  const held = await enqueue(broker, { command: "held" });
  await claim(broker, { commands: ["held"] });
  const served: string[] = [];
  const wait = (commands: string[] | undefined): void => {
    void claim(broker, { commands, waitMs: 60_000 }).then(([claimed]) => {
      served.push(claimed!.task.command);
      submit(broker, owned(claimed!.task), success);
    });
  };
  wait(["z"]);
  wait(["a"]);
  wait(undefined);
  wait(["m"]);
  for (const command of ["a", "m", "x", "z"]) enqueueNow(broker, { command });
  await settle();
  assert.deepEqual(served, []);
  submit(broker, owned(held), success);
  await settle();
  // The one for whatever there is takes what has been ready longest.
  assert.deepEqual(served, ["z", "a", "m"]);
  assert.equal(broker.claims.waiting.size, 1);
});

test("work that arrives while the tenant has all its leases waits, and is given when one ends", async () => {
  const { broker } = await setup({ concurrentLeases: 1 });
  const first = await enqueue(broker);
  await claim(broker);
  const waiting = claimIds(broker, { waitMs: 60_000 });
  const second = await enqueue(broker);
  assert.equal(await standing(waiting), "pending");
  submit(broker, owned(first), success);
  assert.equal(await standing(waiting), "done");
  assert.deepEqual(await waiting, [second.id]);
});

test("a tenant at its limit holds up no other tenant", async () => {
  const { broker } = await setup({ concurrentLeases: 1, pendingTasks: 2 });
  await enqueue(broker);
  await claim(broker);
  enqueueNow(broker);
  enqueueNow(broker);
  assert.notEqual(refused(broker), none);
  const blocked = claim(broker, { waitMs: 60_000 });
  const others = claimIds(broker, { tenantId: umbrella, waitMs: 60_000 });
  const task = enqueueNow(broker, { tenantId: umbrella });
  assert.equal(await standing(others), "done");
  assert.deepEqual(await others, [task.id]);
  assert.equal(await standing(blocked), "pending");
});

type Step =
  | { readonly kind: "enqueue"; readonly command: number }
  | { readonly kind: "claim"; readonly command: number; readonly count: number; waits: boolean }
  | { readonly kind: "end"; readonly how: "submit" | "nack" | "abandon" | "release" }
  | { readonly kind: "pass" | "settle" | "kill" };

const stepArbitrary: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant("enqueue" as const), command: fc.nat(2) }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("claim" as const),
      command: fc.nat(3),
      count: fc.integer({ min: 1, max: 4 }),
      waits: fc.boolean(),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("end" as const),
      how: fc.constantFrom(
        "submit" as const,
        "nack" as const,
        "abandon" as const,
        "release" as const,
      ),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom("pass", "settle", "kill") }) },
);

/** Long ones, which fill the tenant up. */
const stepsArbitrary = fc.array(stepArbitrary, { minLength: 10, maxLength: 80, size: "max" });

/** Whoever waits although there is work for it and a lease to be had. */
function forgotten(broker: ShardBroker): number {
  const tenant = broker.queues.findTenant(acme);
  if (tenant === undefined || broker.quotas.leasesLeft(acme) === 0) return 0;
  const queues = [...tenant.queues.values()].filter(({ readyTotal }) => readyTotal > 0);
  const any = queues.length > 0 ? tenant.anyWaiters.size : 0;
  return queues.reduce((sum, { waiters }) => sum + waiters.size, any);
}

test("never more leases or pending tasks than allowed, and nobody waits for what is there", async () => {
  await fc.assert(
    fc.asyncProperty(stepsArbitrary, async (steps) => {
      const world = new BrokerWorld({
        quotas: quotas({ concurrentLeases: 3, pendingTasks: 6 }),
        flushBytes: 15_000,
      });
      let broker = await world.open();
      const held: { readonly id: string }[] = [];
      for (const step of steps) {
        if (step.kind === "enqueue") {
          const pending = broker.queues.findTenant(acme)?.pending ?? 0;
          const over = refused(broker, { command: `c${step.command}`, maxAttempts: 9 });
          assert.equal(over === none, pending < 6);
        } else if (step.kind === "claim") {
          const commands = step.command === 3 ? undefined : [`c${step.command}`];
          const waitMs = step.waits ? 50_000 : 0;
          const claimed = claim(broker, { commands, count: step.count, waitMs, leaseMs: 20_000 });
          void claimed.then((tasks) => held.push(...tasks.map(({ task }) => task)));
          if (!step.waits) await claimed;
        } else if (step.kind === "end") {
          const of = owned((held.shift() ?? { id: "none", tenantId: acme }) as never);
          if (step.how === "submit") submit(broker, of, success);
          else if (step.how === "nack") nack(broker, of, { delaySeconds: 1, reason: "" });
          else if (step.how === "abandon") abandon(broker, of, { interrupted: false });
          else broker.release(of);
        } else if (step.kind === "pass") {
          await world.clock.advance(10_000);
          await runDue(broker, world.clock);
        } else if (step.kind === "settle") {
          await settle();
        } else {
          await settle();
          broker = await world.kill();
        }
        assert.ok(broker.leases.size <= 3, `${broker.leases.size} leases`);
        await settle();
        assert.equal(forgotten(broker), 0);
      }
    }),
    { numRuns: Number(process.env["CODEQ_MODEL_RUNS"] ?? 100) },
  );
});
