/** Lanes through a broker: limits, rates, shares and order, and what is left of them after a restart. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Task, TaskId } from "@codeq/queue";
import { settle } from "../../../../../simulated/src/index.ts";
import {
  acme,
  BrokerWorld,
  type BrokerWorldOptions,
  claim,
  claimIds,
  create,
  enqueue,
  nack,
  owned,
  runDue,
  standing,
  submit,
  success,
  umbrella,
} from "../../../../test/broker-world.ts";
import { noQuotas } from "../../../config/quotas.ts";
import { noLaneLimits } from "../../records/lane-policy.ts";
import type { TopicPolicy } from "../../records/topic-record.ts";
import type { ShardBroker } from "../shard-broker.ts";

const plain: TopicPolicy = {
  priorityTiers: [0, 1, 5, 9],
  maxAttempts: 3,
  deadLetterTopicRef: "",
  retentionSeconds: 0,
  maxConsumers: 0,
  placement: "spread",
};
const of = { tenantId: acme, name: "work" };

async function setup(
  policy: Partial<TopicPolicy> = {},
  options: BrokerWorldOptions = {},
): Promise<{ world: BrokerWorld; broker: ShardBroker }> {
  const world = new BrokerWorld(options);
  const broker = await world.open();
  await broker.putTopic(of, { ...plain, ...policy });
  return { world, broker };
}

async function lanesOf(broker: ShardBroker, count: number): Promise<string> {
  const claimed = await claim(broker, { count });
  return claimed.map(({ task }) => task.lane?.name ?? "-").join("");
}

async function fill(broker: ShardBroker, lanes: string, fields = {}): Promise<void> {
  for (const lane of lanes) {
    const name = lane === "-" ? "" : lane;
    await enqueue(broker, { lane: name, ...fields });
  }
}

test("one lane that floods a queue does not hold up the others", async () => {
  const { broker } = await setup();
  await fill(broker, "aaaaaabc");
  assert.match(await lanesOf(broker, 9), /^a(bc|cb)aaaaa$/);
});

test("tasks without a lane get the share of one lane", async () => {
  const { broker } = await setup();
  await fill(broker, "aaa---bbb");
  const order = await lanesOf(broker, 9);
  assert.deepEqual([...order.slice(0, 3)].sort(), ["-", "a", "b"]);
  assert.deepEqual([...order.slice(3, 6)].sort(), ["-", "a", "b"]);
});

test("a lane keeps its order, and priorities come first", async () => {
  const { broker } = await setup();
  const low = await enqueue(broker, { lane: "a", priority: 1 });
  const second = await enqueue(broker, { lane: "a", priority: 1 });
  const high = await enqueue(broker, { lane: "b", priority: 5 });
  const top = await enqueue(broker, { lane: "a", priority: 9 });
  assert.deepEqual(await claimIds(broker, { count: 9 }), [top.id, high.id, low.id, second.id]);
});

test("a lane never has more leases than its limit, and the end of a lease serves the next claim", async () => {
  const { broker } = await setup({ lanes: { concurrency: 2 } });
  await fill(broker, "aaaab");
  assert.equal(await lanesOf(broker, 9), "aba");
  const waiting = claim(broker, { waitMs: 1000 });
  assert.equal(await standing(waiting), "pending");
  const leased = [...broker.leases.ofTenant(acme)];
  for (const { id } of leased) submit(broker, owned({ id, tenantId: acme }), success);
  assert.equal((await waiting)[0]?.task.lane?.name, "a");
});

test("a restart counts the leases of a lane again", async () => {
  const { world, broker } = await setup({ lanes: { concurrency: 2 } });
  await fill(broker, "aaaab");
  assert.equal(await lanesOf(broker, 9), "aba");
  const next = await world.kill();
  assert.equal(await lanesOf(next, 9), "");
  const [first] = [...next.leases.ofTenant(acme)].filter(
    ({ id }) => next.store.task(id)?.lane?.name === "a",
  );
  await submit(next, owned({ id: first!.id, tenantId: acme }), success).done;
  assert.equal(await lanesOf(next, 9), "a");
});

test("a cancelled task with a grace keeps its slot until it ends", async () => {
  const { broker } = await setup({ lanes: { concurrency: 1 } });
  await fill(broker, "aa");
  const [first] = await claim(broker);
  const { id } = first!.task;
  await broker.act({ tenantId: acme, id }, { kind: "cancel", graceMs: 5000 });
  assert.equal(await lanesOf(broker, 9), "");
  await submit(broker, owned(first!.task), success).done;
  assert.equal(await lanesOf(broker, 9), "a");
});

test("a rate hands out a burst, and wakes a claim when the next unit is due", async () => {
  const rate = { units: 60, per: "1m", burst: 2 };
  const { world, broker } = await setup({ lanes: { concurrency: 0, rate } });
  await fill(broker, "aaaa");
  assert.equal(await lanesOf(broker, 9), "aa");
  const waiting = claim(broker, { waitMs: 5000 });
  assert.equal(await standing(waiting), "pending");
  const dueMs = broker.queues.lanes.nextMs as number;
  assert.equal(dueMs, world.clock.monotonicMs() + 1000);
  await world.clock.advance(999);
  broker.wakeLanes(10);
  assert.equal(await standing(waiting), "pending");
  await world.clock.advance(1);
  broker.wakeLanes(10);
  assert.equal((await waiting).length, 1);
});

for (const policy of ["lanes", "queue"] as const) {
  for (const action of ["cancelled", "moved"] as const) {
    test(`a claim that waits for the rate of ${policy} gets a cheaper task when the next one is ${action}`, async () => {
      const rate = { units: 60, per: "1m", burst: 5 };
      const { world, broker } = await setup(
        policy === "lanes" ? { lanes: { concurrency: 0, rate } } : { rate },
      );
      await enqueue(broker, { lane: "a", cost: 5 });
      const { id } = await enqueue(broker, { lane: "a", cost: 5 });
      const cheap = await enqueue(broker, { lane: "a", cost: 1 });
      assert.equal(await lanesOf(broker, 9), "a");
      await world.clock.advance(1000);
      const waiting = claim(broker, { waitMs: 60_000 });
      assert.equal(await standing(waiting), "pending");
      const how =
        action === "moved"
          ? ({ kind: "edit", edit: { command: "other" } } as const)
          : ({ kind: "cancel", graceMs: 0 } as const);
      await broker.act({ tenantId: acme, id }, how);
      assert.equal(await standing(waiting), "done");
      assert.equal((await waiting)[0]?.task.id, cheap.id);
    });
  }
}

/** The next task is too expensive for the rate of the queue now, and a claim waits for it. */
async function waitForRate(): Promise<{
  broker: ShardBroker;
  holder: Task;
  waiting: ReturnType<typeof claim>;
}> {
  const { world, broker } = await setup({ rate: { units: 60, per: "1m", burst: 5 } });
  const holder = await enqueue(broker, { lane: "a", priority: 5, cost: 5 });
  await enqueue(broker, { lane: "a", priority: 5, cost: 5 });
  assert.equal(await lanesOf(broker, 1), "a");
  await world.clock.advance(1000);
  const waiting = claim(broker, { waitMs: 60_000 });
  assert.equal(await standing(waiting), "pending");
  return { broker, holder, waiting };
}

for (const lane of ["", "b"]) {
  test(`a claim that waits for the rate of a queue gets a cheaper task that comes first (lane "${lane}")`, async () => {
    const { broker, waiting } = await waitForRate();
    await enqueue(broker, { lane, priority: 1 });
    assert.equal(await standing(waiting), "pending");
    const cheap = await enqueue(broker, { lane, priority: 9 });
    assert.equal(await standing(waiting), "done");
    assert.equal((await waiting)[0]?.task.id, cheap.id);
  });
}

test("a claim that waits for the rate of a queue gets a task of another lane when the next lane is paused", async () => {
  const { broker, waiting } = await waitForRate();
  const cheap = await enqueue(broker, { lane: "b" });
  const pause = { by: "ann", reason: "", atMs: 1 };
  await broker.setLane({ ...of, lane: "a" }, { ...noLaneLimits, pause });
  assert.equal(await standing(waiting), "done");
  assert.equal((await waiting)[0]?.task.id, cheap.id);
});

test("a claim that waits for the rate of a queue gets a task of another lane when the next lane is held", async () => {
  const { broker, holder, waiting } = await waitForRate();
  const cheap = await enqueue(broker, { lane: "b" });
  await nack(broker, owned(holder), { delaySeconds: 0, reason: "", holdMs: 90_000 }).done;
  assert.equal(await standing(waiting), "done");
  assert.equal((await waiting)[0]?.task.id, cheap.id);
});

test("an explanation names the moment for which the queue of a task waits", async () => {
  const { broker } = await waitForRate();
  const cheap = await enqueue(broker, { lane: "b" });
  const explained = await broker.explain({ tenantId: acme, id: cheap.id });
  assert.equal(explained?.obstacle?.rule, "topic_rate");
});

test("an explanation says about how many tasks of all lanes come before a task", async () => {
  const { broker } = await setup();
  await broker.setLane({ ...of, lane: "d" }, { ...noLaneLimits, weight: 3 });
  const lanes = ["a", "b", "c", "d", ""];
  const ids: TaskId[] = [];
  for (const [at, count] of [30, 5, 9, 12, 7].entries()) {
    for (let n = 0; n < count; n++) ids.push((await enqueue(broker, { lane: lanes[at] })).id);
  }
  const begun = new Set(await claimIds(broker, { count: 7 }));
  const told = new Map<TaskId, number>();
  for (const id of ids) {
    const { ahead } = (await broker.explain({ tenantId: acme, id })) ?? {};
    if (ahead !== undefined) told.set(id, ahead.higher + ahead.older);
  }
  assert.equal(told.size, ids.length - begun.size);
  const order = await claimIds(broker, { count: 100 });
  for (const [place, id] of order.entries()) {
    const about = told.get(id) ?? Number.NaN;
    assert.ok(Math.abs(about - place) <= lanes.length, `${about} were to come first, ${place} did`);
  }
});

test("units that a lane has spent count by the rate that it gets", async () => {
  const slow = { units: 1, per: "24h", burst: 1 };
  const { world, broker } = await setup({ lanes: { concurrency: 0, rate: slow } });
  await fill(broker, "aab");
  assert.equal(await lanesOf(broker, 9), "ab");
  const waiting = claim(broker, { waitMs: 60_000 });
  const quick = { units: 60, per: "1m", burst: 1 };
  await broker.putTopic(of, { ...plain, lanes: { concurrency: 0, rate: quick } });
  assert.equal(await standing(waiting), "pending");
  await world.clock.advance(1000);
  broker.wakeLanes(10);
  assert.equal(await standing(waiting), "done");
  await fill(broker, "b");
  await broker.setLane({ ...of, lane: "b" }, { ...noLaneLimits, rate: slow });
  assert.equal(await lanesOf(await world.kill(), 9), "b");
});

test("a lane keeps what it has spent when its rate changes and the server restarts", async () => {
  const slow = { units: 1, per: "1h", burst: 100 };
  const quick = { units: 100, per: "1s", burst: 100 };
  const { world, broker } = await setup({ lanes: { concurrency: 0, rate: quick } });
  await enqueue(broker, { lane: "a", cost: 100 });
  await enqueue(broker, { lane: "a" });
  assert.equal(await lanesOf(broker, 9), "a");
  await broker.setLane({ ...of, lane: "a" }, { ...noLaneLimits, rate: slow });
  const next = await world.kill();
  await world.clock.advance(3_599_000);
  next.wakeLanes(10);
  assert.equal(await lanesOf(next, 9), "");
  await world.clock.advance(1000);
  next.wakeLanes(10);
  assert.equal(await lanesOf(next, 9), "a");
});

test("a task that could not be sent to its worker gives its units back", async () => {
  const rate = { units: 1, per: "1h", burst: 1 };
  const { broker } = await setup({ lanes: { concurrency: 0, rate } });
  const { id, tenantId } = await enqueue(broker, { lane: "a" });
  assert.equal(await lanesOf(broker, 9), "a");
  broker.release(owned({ id, tenantId }));
  assert.equal(await lanesOf(broker, 9), "a");
});

test("what a lane has spent of its rate survives a crash", async () => {
  const rate = { units: 60, per: "1m", burst: 2 };
  const { world, broker } = await setup({ lanes: { concurrency: 0, rate } });
  await fill(broker, "aaaa");
  assert.equal(await lanesOf(broker, 9), "aa");
  await world.clock.advance(400);
  const next = await world.kill();
  assert.equal(await lanesOf(next, 9), "");
  await world.clock.advance(600);
  next.wakeLanes(10);
  assert.equal(await lanesOf(next, 9), "a");
});

test("a settled task corrects the rate of its lane", async () => {
  const rate = { units: 100, per: "100s", burst: 10 };
  const { world, broker } = await setup({ lanes: { concurrency: 0, rate } });
  await fill(broker, "aaa", { cost: 10 });
  const [first] = await claim(broker, { count: 9 });
  await submit(broker, owned(first!.task), { ...success, used: 4 }).done;
  await world.clock.advance(4000);
  broker.wakeLanes(10);
  const [second] = await claim(broker, { count: 9 });
  await nack(broker, owned(second!.task), { delaySeconds: 900, reason: "", used: 15 }).done;
  const next = await world.kill();
  await world.clock.advance(14_999);
  next.wakeLanes(10);
  assert.equal(await lanesOf(next, 9), "");
  await world.clock.advance(1);
  next.wakeLanes(10);
  assert.equal(await lanesOf(next, 9), "a");
});

test("a task that costs more than the burst is refused", async () => {
  const rate = { units: 100, per: "1m", burst: 10 };
  const { broker } = await setup({ lanes: { concurrency: 0, rate } });
  const refused = create(broker, { lane: "a", cost: 11 });
  assert.equal(refused.code, "cost_above_burst");
  assert.equal(create(broker, { lane: "a", cost: 10 }).isRefused, false);
  assert.equal(create(broker, { cost: 11 }).isRefused, false);
});

test("a held lane keeps the turn of its task, and other lanes go on", async () => {
  const { world, broker } = await setup();
  const first = await enqueue(broker, { lane: "a" });
  const second = await enqueue(broker, { lane: "a" });
  await enqueue(broker, { lane: "b" });
  const [taken] = await claim(broker);
  assert.equal(taken?.task.id, first.id);
  await nack(broker, owned(first), { delaySeconds: 0, reason: "429", holdMs: 30_000 }).done;
  assert.equal(await lanesOf(broker, 9), "b");
  const next = await world.kill();
  assert.equal(await lanesOf(next, 9), "");
  await world.clock.advance(30_000);
  next.wakeLanes(10);
  assert.deepEqual(await claimIds(next, { count: 9 }), [first.id, second.id]);
  assert.equal(next.store.task(first.id)?.attempts, 0);
});

test("the rate of a queue holds for tasks with and without lanes", async () => {
  const { world, broker } = await setup({ rate: { units: 3, per: "3s", burst: 3 } });
  await fill(broker, "a-a-a");
  assert.equal((await lanesOf(broker, 9)).length, 3);
  const waiting = claim(broker, { waitMs: 5000 });
  await world.clock.advance(1000);
  broker.wakeLanes(10);
  assert.equal((await waiting).length, 1);
  assert.equal(await lanesOf(await world.kill(), 9), "");
});

test("lanes with more tasks than memory holds keep their order through a restart", async () => {
  const { world, broker } = await setup();
  const expected: string[] = [];
  for (let n = 0; n < 400; n++) expected.push((await enqueue(broker, { lane: "a" })).id);
  const gone = expected.splice(150, 1)[0] as (typeof expected)[0];
  await broker.act({ tenantId: acme, id: gone as never }, { kind: "cancel", graceMs: 0 });
  const next = await world.reopen(broker);
  await broker.store[Symbol.asyncDispose]();
  const ids: string[] = [];
  for (let n = 0; n < 100; n++) ids.push(...(await claimIds(next, { count: 4 })));
  await settle();
  assert.deepEqual(ids, expected);
});

test("lanes that do not matter any more are forgotten, with their records", async () => {
  const { world, broker } = await setup({
    lanes: { concurrency: 1, rate: { units: 1, per: "1s", burst: 1 } },
  });
  for (let first = 0; first < 17_000; first += 100) {
    for (let n = first; n < first + 100; n++) create(broker, { lane: `lane-${n}` });
    for (const { task } of await claim(broker, { count: 100 })) {
      submit(broker, owned(task), success);
    }
    if (first === 10_000) await world.clock.advance(1000);
  }
  assert.ok(broker.queues.lanes.size < 16_384, `${broker.queues.lanes.size} lanes`);
});

test("lanes that always have tasks get shares by weight, within the largest cost of each", async () => {
  const { broker } = await setup();
  const costs: Readonly<Record<string, readonly number[]>> = {
    a: [1],
    b: [3, 40],
    c: [7, 2, 25],
  };
  const weights: Readonly<Record<string, number>> = { a: 1, b: 4, c: 2 };
  for (const [lane, weight] of Object.entries(weights)) {
    await broker.setLane({ ...of, lane }, { ...noLaneLimits, weight });
  }
  for (const [lane, some] of Object.entries(costs)) {
    for (let n = 0; n < 150; n++) {
      const cost = some[n % some.length] as number;
      create(broker, { lane, cost });
    }
  }
  await settle();
  const served: Record<string, number> = { a: 0, b: 0, c: 0 };
  for (let n = 0; n < 120; n++) {
    const [one] = await claim(broker);
    const { name = "", cost = 0 } = one?.task.lane ?? {};
    served[name] = (served[name] ?? 0) + cost;
    for (const x of Object.keys(costs)) {
      for (const y of Object.keys(costs)) {
        const share = (lane: string): number => (served[lane] ?? 0) / (weights[lane] ?? 1);
        const largest = (lane: string): number =>
          Math.max(...(costs[lane] ?? [])) / (weights[lane] ?? 1);
        const apart = Math.abs(share(x) - share(y));
        assert.ok(apart <= largest(x) + largest(y), `${x} and ${y} are ${apart} apart`);
      }
    }
  }
});

test("fifty lanes of which one floods: the others wait for one round at most", async () => {
  const { broker } = await setup();
  for (let n = 0; n < 3000; n++) create(broker, { lane: "flood" });
  await settle();
  await claim(broker, { count: 10 });
  for (let lane = 0; lane < 49; lane++) await enqueue(broker, { lane: `lane-${lane}` });
  const next = await claim(broker, { count: 51 });
  const others = new Set(
    next.map(({ task }) => task.lane?.name).filter((name) => name !== "flood"),
  );
  assert.equal(others.size, 49);
});

const twoLanes = {
  quotas: { default: { ...noQuotas.default, lanes: 2 }, tenants: new Map() },
} as const;
const overTwo = {
  code: "quota_exceeded",
  exceeded: { quota: "lanes", limit: 2, current: 2 },
} as const;

test("a tenant has no more lanes in memory than its quota, and lanes that are over make room", async () => {
  const { world, broker } = await setup({}, twoLanes);
  await fill(broker, "aab");
  await assert.rejects(create(broker, { lane: "c" }).done, overTwo);
  await assert.rejects(create(broker, { lane: "a", command: "other" }).done, overTwo);
  await fill(broker, "ab-");
  await enqueue(broker, { lane: "c", tenantId: umbrella });
  for (const { task } of await claim(broker, { count: 9 })) {
    await submit(broker, owned(task), success).done;
  }
  await world.clock.advance(1000);
  await fill(broker, "cd");
  await assert.rejects(create(broker, { lane: "e" }).done, overTwo);
});

test("lanes count after a restart, too", async () => {
  const { world, broker } = await setup({}, twoLanes);
  await fill(broker, "ab");
  const next = await world.kill();
  await assert.rejects(create(next, { lane: "c" }).done, overTwo);
});

test("a delayed task whose lane the quota has no room for waits for another minute", async () => {
  const { world, broker } = await setup({}, twoLanes);
  const visibleMs = world.clock.nowMs() + 1000;
  for (const lane of ["a", "b", "c"]) await enqueue(broker, { lane, visibleMs });
  await world.clock.advance(1000);
  await runDue(broker, world.clock);
  const places = (): string => {
    const { ready, delayed } = broker.counts(acme, "work");
    return `${ready.reduce((sum, each) => sum + each)} ready, ${delayed} delayed`;
  };
  assert.equal(places(), "2 ready, 1 delayed");
  for (const { task } of await claim(broker, { count: 9 })) {
    await submit(broker, owned(task), success).done;
  }
  await world.clock.advance(59_000);
  await runDue(broker, world.clock);
  assert.equal(places(), "0 ready, 1 delayed");
  await world.clock.advance(1000);
  await runDue(broker, world.clock);
  assert.equal(places(), "1 ready, 0 delayed");
});
