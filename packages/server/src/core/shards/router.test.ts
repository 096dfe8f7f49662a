import assert from "node:assert/strict";
import { test } from "node:test";
import { FaultError } from "@codeq/engine";
import { limits } from "@codeq/protocol";
import type { TaskId, TenantId } from "@codeq/queue";
import { settle } from "@codeq/simulated";
import {
  acme,
  claimIds,
  completed,
  create,
  enqueue,
  owned,
  submit,
  success,
  umbrella,
} from "../../../test/broker-world.ts";
import { HeldWays, localWay, ShardedWorld } from "../../../test/queue-worlds.ts";
import { noQuotas, type Quotas, type TenantQuota } from "../../config/quotas.ts";
import type { TopicPolicy } from "../records/topic-record.ts";
import { Hint } from "./routed-queues.ts";
import { shardOf, shardOfKey } from "./shard-of.ts";

const minuteMs = 60_000;

function quota(fields: Partial<TenantQuota>): Quotas {
  return { ...noQuotas, tenants: new Map([[acme as string, { ...noQuotas.default, ...fields }]]) };
}

/** A key whose tasks go to this shard. */
function keyOf(shard: number, count: number): string {
  for (let at = 0; ; at += 1) {
    if (shardOfKey(acme, `key-${at}`, count) === shard) return `key-${at}`;
  }
}

/** How a promise stands: what it gave, or that it is pending. */
async function now<T>(promise: Promise<T>): Promise<T | "pending"> {
  await settle(20);
  return Promise.race([promise, Promise.resolve("pending" as const)]);
}

test("work that comes while a claim of somebody else is under way is given to who waits", async () => {
  const ways = new HeldWays();
  await using world = await ShardedWorld.open(1, ways.make);
  const { broker } = world;
  const [shard] = world.brokers;
  const first = await enqueue(broker);
  await settle(20);
  const { disk } = world.world(0);
  const sync = Promise.withResolvers<void>();
  disk.slow("sync", sync.promise);
  const served = claimIds(broker);
  const waiting = claimIds(broker, { waitMs: minuteMs });
  await settle(20);
  assert.equal(await now(served), "pending", "its claim is not durable yet");
  // A task comes, and is ready before the first claim is answered.
  const second = create(shard!);
  await settle(20);
  sync.resolve();
  assert.deepEqual(await now(served), [first.id]);
  const { task } = await second.done;
  assert.deepEqual(await now(waiting), [task.id]);
});

test("claims that come back from a shard with nothing keep their order", async () => {
  const ways = new HeldWays();
  await using world = await ShardedWorld.open(2, ways.make);
  const { broker } = world;
  const order: string[] = [];
  const wait = (name: string): void => {
    void claimIds(broker, { waitMs: minuteMs }).then(() => order.push(name));
  };
  wait("first");
  wait("second");
  await settle(20);
  // Both are sent for tasks that others take first.
  for (const shard of world.brokers) {
    create(shard);
    await settle(20);
  }
  assert.deepEqual(order, ["first", "second"]);
  ways.isHeld = true;
  wait("third");
  wait("fourth");
  for (const shard of world.brokers) {
    create(shard);
    await settle(20);
    void claimIds(shard);
    await settle(20);
  }
  ways.release();
  await settle(40);
  assert.equal(order.length, 2);
  for (const shard of world.brokers) {
    create(shard);
    await settle(40);
  }
  assert.deepEqual(order, ["first", "second", "third", "fourth"]);
});

test("a batch takes from one shard after the other until it is full or nothing is left", async () => {
  await using world = await ShardedWorld.open(3, localWay);
  const { broker } = world;
  for (const shard of world.brokers) for (let n = 0; n < 3; n += 1) create(shard);
  await settle(20);
  const first = await claimIds(broker, { count: 5 });
  assert.equal(new Set(first).size, 5);
  const rest = await now(claimIds(broker, { count: 100, waitMs: minuteMs }));
  assert.equal(new Set([...first, ...rest]).size, 9, "it does not wait for more");
});

test("a batch of which one shard gave a part is answered with that part when the next shard ends", async () => {
  await using world = await ShardedWorld.open(2, localWay);
  const { broker } = world;
  const [, shard] = world.brokers;
  const first = await create(world.brokers[0]!).done;
  await create(shard!).done;
  await settle(20);
  world.world(1).disk.slow("sync", new Promise(() => {}));
  const claimed = claimIds(broker, { count: 2 });
  assert.equal(await now(claimed), "pending", "the second shard is asked");
  world.crash(1);
  assert.deepEqual(await now(claimed), [first.task.id]);
});

test("leases for which a shard reads its disk count against the quota", async () => {
  await using world = await ShardedWorld.open(1, localWay, {
    quotas: quota({ concurrentLeases: 2 }),
  });
  const { broker } = world;
  for (let made = 0; made < 20; made += 1) await enqueue(broker);
  world.crash(0);
  await world.openShard(0);
  await settle(20);
  // Nothing of the queue is in memory yet, so the first claim waits for the disk.
  const { store } = world.brokers[0]!;
  const read = store.readyAfter.bind(store);
  const slow = Promise.withResolvers<void>();
  store.readyAfter = async (...of) => {
    await slow.promise;
    return read(...of);
  };
  const claims = [claimIds(broker, { count: 2 })];
  await settle(20);
  claims.push(claimIds(broker, { count: 2 }));
  await settle(20);
  slow.resolve();
  const leased = (await Promise.all(claims)).flat();
  assert.equal(leased.length, 2);
});

test("a shutdown also ends the wait of claims that are with a shard", async () => {
  const ways = new HeldWays();
  await using world = await ShardedWorld.open(1, ways.make);
  const { broker } = world;
  const [shard] = world.brokers;
  await enqueue(shard!);
  await settle(20);
  ways.isHeld = true;
  void claimIds(shard!);
  const waiting = claimIds(broker, { waitMs: minuteMs });
  await settle(20);
  broker.stopWaiting();
  ways.release();
  assert.deepEqual(await now(waiting), []);
});

test("tasks of a shard that ends and comes back are there, and the others go on", async () => {
  await using world = await ShardedWorld.open(3, localWay);
  const { broker } = world;
  const kept: TaskId[] = [];
  for (let made = 0; made < 30; made += 1) kept.push((await enqueue(broker)).id);
  const ofShard = kept.filter((id) => shardOf(id, 3) === 1);
  assert.ok(ofShard.length > 0);
  const reading = broker.get(acme, ofShard[0]!);
  world.crash(1);
  await assert.rejects(reading, FaultError);
  assert.equal(broker.state, "open");
  assert.deepEqual(
    broker.shards.map(({ state }) => state),
    ["open", "failed", "open"],
  );
  assert.match(broker.shards[1]?.error ?? "", /shard 1 has ended/);
  await assert.rejects(broker.get(acme, ofShard[0]!), FaultError);
  const keyed = create(broker, { idempotencyKey: keyOf(1, 3) });
  await settle(20);
  assert.equal(keyed.code, "storage_failed");
  for (let made = 0; made < 10; made += 1) {
    const { id } = await enqueue(broker);
    kept.push(id);
    assert.notEqual(shardOf(id, 3), 1);
  }
  await world.openShard(1);
  await settle(20);
  assert.equal(broker.shards[1]?.state, "open");
  for (const id of kept) assert.equal((await broker.get(acme, id))?.task.id, id);
  const claimed: TaskId[] = [];
  for (;;) {
    const some = await claimIds(broker, { count: 50 });
    if (some.length === 0) break;
    claimed.push(...some);
  }
  assert.deepEqual(claimed.sort(), kept.sort());
});

test("a claim that is with a shard when that ends is served by another one", async () => {
  const ways = new HeldWays();
  await using world = await ShardedWorld.open(2, ways.make);
  const { broker } = world;
  await enqueue(world.brokers[0]!);
  await settle(20);
  ways.isHeld = true;
  const waiting = claimIds(broker, { waitMs: minuteMs });
  await settle(20);
  ways.lose(0);
  world.crash(0);
  ways.isHeld = false;
  const { id } = await enqueue(world.brokers[1]!);
  assert.deepEqual(await now(waiting), [id]);
});

test("what was on its way to a shard that ends is not counted for ever", async () => {
  const ways = new HeldWays();
  const quotas = quota({ pendingTasks: 2, concurrentLeases: 1 });
  await using world = await ShardedWorld.open(2, ways.make, { quotas });
  const { broker } = world;
  const { disk } = world.world(0);
  // The shard has decided and told, and nothing of it is on the disk.
  disk.slow("write", new Promise(() => {}));
  const lost = create(broker, { idempotencyKey: keyOf(0, 2) });
  await settle(20);
  ways.isHeld = true;
  const onItsWay = create(broker, { idempotencyKey: `${keyOf(0, 2)}` });
  await settle(20);
  ways.lose(0);
  world.crash(0);
  ways.isHeld = false;
  await settle(20);
  assert.equal(lost.code, "storage_failed");
  assert.equal(onItsWay.code, "storage_failed");
  await world.openShard(0);
  await settle(20);
  await enqueue(broker);
  await enqueue(broker);
  const over = create(broker);
  await settle(20);
  assert.equal(over.code, "quota_exceeded");
});

test("while a shard is away, what it has counts", async () => {
  const quotas = quota({ pendingTasks: 4 });
  await using world = await ShardedWorld.open(2, localWay, { quotas });
  const { broker } = world;
  for (let made = 0; made < 3; made += 1) await enqueue(broker);
  world.crash(0);
  await enqueue(broker);
  const over = create(broker);
  await settle(20);
  assert.equal(over.code, "quota_exceeded");
});

const limitOf = (maxConsumers: number): TopicPolicy => ({
  priorityTiers: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
  maxAttempts: 3,
  deadLetterTopicRef: "",
  retentionSeconds: 0,
  maxConsumers,
  placement: "spread",
});

test("the limit of a topic holds over all shards, also while one of them is away", async () => {
  await using world = await ShardedWorld.open(3, localWay);
  const { broker } = world;
  for (let made = 0; made < 12; made += 1) await enqueue(broker);
  const of = { tenantId: acme, name: "work" };
  await world.done(broker.putTopic(of, limitOf(4)));
  await settle(20);
  const claims = [1, 2, 3].map(() => claimIds(broker, { count: 3 }));
  assert.equal((await Promise.all(claims)).flat().length, 4);
  world.crash(0);
  await settle(20);
  assert.deepEqual(await claimIds(broker, { count: 3 }), []);
  await world.openShard(0);
  await settle(20);
  assert.deepEqual(await claimIds(broker, { count: 3 }), []);
  await world.done(broker.putTopic(of, limitOf(6)));
  await settle(20);
  assert.equal((await claimIds(broker, { count: 5 })).length, 2);
  await world.done(broker.deleteTopic(of));
  assert.notDeepEqual(await claimIds(broker), []);
});

test("a queue with the placement one has its tasks in one shard, whose limit no node exceeds", async () => {
  await using world = await ShardedWorld.open(3, localWay);
  const { broker } = world;
  const of = { tenantId: acme, name: "work" };
  await world.done(broker.putTopic(of, { ...limitOf(4), placement: "one" }));
  await settle(20);
  const fields = [
    {},
    { lane: "a" },
    { lane: "b" },
    { idempotencyKey: "k" },
    { idempotencyKey: "l" },
  ];
  const ids: TaskId[] = [];
  for (let round = 0; round < 2; round++) {
    for (const each of fields) ids.push((await enqueue(broker, each)).id);
  }
  assert.equal(new Set(ids).size, 8, "a key gives its task again");
  const shards = new Set(ids.map((id) => shardOf(id, 3)));
  assert.equal(shards.size, 1);
  // The routers of two nodes ask the shard at the same time.
  const [home = 0] = shards;
  const claims = [claimIds(broker, { count: 3 }), claimIds(world.brokers[home]!, { count: 3 })];
  assert.equal((await Promise.all(claims)).flat().length, 4);
  const refused = create(broker, { batchId: "some" });
  await settle(20);
  assert.equal(refused.code, "placement_conflict");
});

test("a task is in the shard of the tasks of its after, which have to be in one", async () => {
  await using world = await ShardedWorld.open(3, localWay);
  const { broker } = world;
  const ids: TaskId[] = [];
  for (const lane of ["a", "b", "c", "d", "e"]) ids.push((await enqueue(broker, { lane })).id);
  const [first] = ids as [TaskId];
  const other = ids.find((id) => shardOf(id, 3) !== shardOf(first, 3)) as TaskId;
  const { id } = await enqueue(broker, { after: [first] });
  assert.equal(shardOf(id, 3), shardOf(first, 3));
  const of = { tenantId: acme, id: `after:${id}` };
  assert.equal((await world.done(Promise.resolve(broker.batches.get(of))))?.total, 1);
  const isRefused = async (fields: object): Promise<void> => {
    const refused = create(broker, fields);
    await settle(20);
    assert.equal(refused.code, "placement_conflict");
  };
  await isRefused({ after: [first, other] });
  const lanes = ["a", "b", "c", "d", "e"];
  await isRefused({ after: [first], lane: lanes[ids.indexOf(other)] });
});

test("a queue with the placement one is placed again after a shard and the router forgot it", async () => {
  await using world = await ShardedWorld.open(3, localWay);
  const { broker } = world;
  const of = { tenantId: acme, name: "work" };
  await world.done(broker.putTopic(of, { ...limitOf(0), placement: "one" }));
  await settle(20);
  const home = shardOf((await enqueue(broker)).id, 3);
  for (const shard of [0, 1, 2]) {
    world.crash(shard);
    await world.openShard(shard);
    await settle(20);
    const { id } = await enqueue(broker);
    assert.equal(shardOf(id, 3), home);
  }
  await world.done(broker.deleteTopic(of));
  const shards = new Set<number>();
  for (let n = 0; n < 9; n++) shards.add(shardOf((await enqueue(broker)).id, 3));
  assert.ok(shards.size > 1);
});

test("a router hears that another node deleted the topic of a queue", async () => {
  await using world = await ShardedWorld.open(2, localWay);
  const { broker } = world;
  const of = { tenantId: acme, name: "work" };
  await world.done(broker.putTopic(of, { ...limitOf(1), placement: "one" }));
  for (let made = 0; made < 3; made += 1) await enqueue(broker);
  await settle(20);
  assert.equal((await claimIds(broker, { count: 3 })).length, 1);
  for (const shard of world.brokers) await world.done(shard!.deleteTopic(of));
  await settle(20);
  assert.equal((await claimIds(broker, { count: 3 })).length, 2);
});

test("a claim that was with a shard when that ended counts until the shard is back", async () => {
  const ways = new HeldWays();
  await using world = await ShardedWorld.open(2, ways.make);
  const { broker } = world;
  for (const shard of [0, 1]) await enqueue(broker, { idempotencyKey: keyOf(shard, 2) });
  await world.done(broker.putTopic({ tenantId: acme, name: "work" }, limitOf(1)));
  await settle(20);
  ways.isHeld = true;
  const claim = claimIds(broker);
  await settle(20);
  ways.lose(0);
  world.crash(0);
  ways.isHeld = false;
  await settle(20);
  assert.deepEqual(await claim, [], "the first shard may have given the only lease");
  await world.openShard(0);
  await settle(20);
  assert.equal((await claimIds(broker)).length, 1);
  assert.deepEqual(await claimIds(broker), []);
});

test("shards that a crash kept from hearing of a topic hear of it at the next start", async () => {
  await using world = await ShardedWorld.open(2, localWay);
  const of = { tenantId: acme, name: "work" };
  await world.done(world.broker.putTopic(of, limitOf(4)));
  const [first, second] = world.brokers;
  // As if the process had ended between the two.
  await world.done(first!.putTopic(of, limitOf(9)));
  await world.done(second!.putTopic({ ...of, name: "other" }, limitOf(1)));
  await world.done(world.broker.opened());
  assert.deepEqual(second!.topicsOf(acme), first!.topicsOf(acme));
  assert.equal(second!.topicsOf(acme)[0]?.policy.maxConsumers, 9);
});

test("bytes of a tenant that has nothing but results count after a start", async () => {
  const quotas = quota({ storedBytes: 100 });
  await using world = await ShardedWorld.open(2, localWay, { quotas });
  const { broker } = world;
  const task = await enqueue(broker, { payload: '"89abcdef"' });
  await claimIds(broker);
  await submit(broker, owned(task), completed(JSON.stringify("x".repeat(78)))).done;
  await settle(20);
  const shard = shardOf(task.id, 2);
  world.crash(shard);
  await world.openShard(shard);
  await settle(20);
  const over = create(broker, { payload: '"89abcdefg"' });
  await settle(20);
  assert.deepEqual(over.refusal, {
    code: "quota_exceeded",
    exceeded: { quota: "storedBytes", limit: 100, current: 90 },
  });
  await enqueue(broker, { payload: '"89abcdef"' });
});

test("a shard that undid what was not durable tells anew what it has", async () => {
  await using world = await ShardedWorld.open(1, localWay, { quotas: quota({ pendingTasks: 1 }) });
  const { broker } = world;
  const [shard] = world.brokers;
  await enqueue(broker, { payload: "" });
  await settle(20);
  // As after a full disk that undid the task.
  shard!.queues.clear();
  for (const listener of shard!.onRecovered) listener();
  await settle(20);
  const claimed = claimIds(broker, { commands: undefined, waitMs: minuteMs });
  assert.equal(await now(claimed), "pending");
  // The claim waits here; it is not sent to and fro.
  assert.equal(broker.waitingClaims, 1);
  assert.equal(broker.exceededByTask({ tenantId: acme, payloadBytes: 1 } as never), undefined);
  broker.stopWaiting();
});

test("damage that a verb meets is its answer, and the shard goes on", async () => {
  await using world = await ShardedWorld.open(1, localWay);
  const { broker } = world;
  const task = await enqueue(broker);
  const { store } = world.brokers[0]!;
  const read = store.task.bind(store);
  store.task = () => {
    throw new FaultError("corrupt", "planted");
  };
  const asked = submit(broker, owned(task), success);
  await assert.rejects(Promise.resolve(broker.mayFinish(owned(task), "completed")), FaultError);
  assert.equal(asked.code, "corrupt");
  store.task = read;
  assert.deepEqual(await claimIds(broker), [task.id]);
});

test("a shard that cannot write as fast as it is asked is overloaded for the router, too", async () => {
  await using world = await ShardedWorld.open(2, localWay);
  const { broker } = world;
  let isOverloaded = true;
  Object.defineProperty(world.brokers[1], "isOverloaded", { get: () => isOverloaded });
  for (let made = 0; made < 4; made += 1) await enqueue(broker);
  assert.equal(broker.isOverloaded, true);
  isOverloaded = false;
  for (let made = 0; made < 4; made += 1) await enqueue(broker);
  assert.equal(broker.isOverloaded, false);
});

test("the events of all shards are heard, also after one was started again", async () => {
  await using world = await ShardedWorld.open(2, localWay);
  const { broker, feed } = world;
  const heard: string[] = [];
  const stop = feed.listen({
    tenantId: acme,
    hear: ({ taskId = "" }) => heard.push(taskId),
    end: () => {},
  });
  await settle(20);
  const made: string[] = [];
  for (let at = 0; at < 4; at += 1) made.push((await enqueue(broker)).id);
  world.crash(0);
  await world.openShard(0);
  await settle(20);
  for (let at = 0; at < 4; at += 1) made.push((await enqueue(broker)).id);
  await enqueue(broker, { tenantId: umbrella });
  await settle(20);
  assert.deepEqual(heard, made);
  stop();
  await settle(20);
  await enqueue(broker);
  await settle(20);
  assert.equal(heard.length, 8);
});

test("new tasks go to all shards in turn", async () => {
  await using world = await ShardedWorld.open(3, localWay);
  const found = new Set<number>();
  for (let made = 0; made < 3; made += 1) {
    found.add(shardOf((await enqueue(world.broker)).id, 3));
    await settle(5);
  }
  assert.equal(found.size, 3);
  const batch = Array.from({ length: 300 }, () => create(world.broker));
  const tasks = await Promise.all(batch.map(({ done }) => done));
  const shares = [0, 1, 2].map((shard) =>
    tasks.filter(({ task }) => shardOf(task.id, 3) === shard),
  );
  for (const { length } of shares) assert.ok(length >= 64, `${length} of 300`);
});

test("queues that nothing is known of any more are dropped", async () => {
  await using world = await ShardedWorld.open(1, localWay);
  const { broker } = world;
  for (let at = 0; at < 5000; at += 1) {
    const leave = new AbortController();
    const { signal } = leave;
    const gone = claimIds(broker, { commands: [`c${at}`], waitMs: minuteMs, signal });
    leave.abort();
    await gone;
  }
  assert.ok(broker.knownQueues <= 1024, `${broker.knownQueues} queues`);
});

test("a claim for several queues stands in all of them, however many others are dropped", async () => {
  await using world = await ShardedWorld.open(1, localWay);
  for (const broker of [world.broker, world.brokers[0]!]) {
    // One of the names is the one that makes others be dropped.
    for (let at = 0; at < 1030; at += 1) {
      const commands = [`one-${at}`, `two-${at}`];
      const waiting = claimIds(broker, { commands, waitMs: minuteMs });
      for (const command of commands.slice(0, 1)) await enqueue(broker, { command });
      assert.equal((await world.done(waiting)).length, 1, `claim ${at}`);
    }
  }
});

test("a claim for any queue looks at few of many queues", async (t) => {
  await using world = await ShardedWorld.open(3, localWay);
  const { broker } = world;
  const names = Array.from({ length: 2000 }, (_, n) => `q${n}`);
  await Promise.all(names.map((command) => enqueue(broker, { command })));
  const urgent = await enqueue(broker, { command: "urgent", priority: 9 });
  await settle(20);
  assert.equal((await claimIds(broker, { commands: undefined })).length, 1);
  const rank = Object.getOwnPropertyDescriptor(Hint.prototype, "rank");
  assert.ok(rank?.get !== undefined);
  const { get } = rank;
  let looks = 0;
  t.after(() => Object.defineProperty(Hint.prototype, "rank", rank));
  Object.defineProperty(Hint.prototype, "rank", {
    ...rank,
    get() {
      looks += 1;
      return get.call(this);
    },
  });
  const claims = Array.from({ length: 50 }, () =>
    claimIds(broker, { commands: undefined, count: 8 }),
  );
  const ids = (await world.done(Promise.all(claims))).flat();
  assert.equal(new Set(ids).size, 400);
  assert.ok(!ids.includes(urgent.id), "it came first");
  assert.ok(looks < 400 * 20, `looked ${looks} times`);
});

test("tenants do not see each other's hints", async () => {
  await using world = await ShardedWorld.open(2, localWay);
  const { broker } = world;
  await enqueue(broker, { tenantId: umbrella });
  await settle(20);
  assert.deepEqual(await claimIds(broker, { commands: undefined }), []);
  assert.equal((await claimIds(broker, { tenantId: "umbrella" as TenantId })).length, 1);
});

test("one tenant has at most half of the waits for results", async () => {
  const ways = new HeldWays();
  await using world = await ShardedWorld.open(1, ways.make);
  const { broker } = world;
  const { id } = await enqueue(broker);
  ways.isHeld = true;
  const wait = { waitMs: minuteMs, signal: undefined };
  const limit = limits.waitersMax / 2;
  for (let waits = 0; waits < limit; waits += 1) void broker.awaitResult(acme, id, wait);
  assert.equal(await now(broker.awaitResult(acme, id, wait)), "crowded");
  assert.equal(await now(broker.awaitResult(umbrella, id, wait)), "pending");
  ways.lose(0);
  ways.release();
});
