/** Bad states of a cluster: each is told, loses nothing, and ends when its cause is gone. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { FaultError, install, MemoryKv } from "@codeq/engine";
import type { TaskId } from "@codeq/queue";
import { settle } from "@codeq/simulated";
import { MemoryLogServer } from "../../packages/engine/test/memory-shared-log.ts";
import type { Enqueued } from "../../packages/server/src/core/broker/verbs.ts";
import type { Store } from "../../packages/server/src/core/store/store.ts";
import { type Asked, create } from "../../packages/server/test/broker-world.ts";
import { ClusterWorld, type SimNode } from "../../packages/server/test/cluster-world.ts";

const hourMs = 3_600_000;

interface Setup {
  readonly world: ClusterWorld;
  readonly leader: SimNode;
  readonly followers: readonly SimNode[];
}

/** Three nodes, of which one leads. */
async function setup(): Promise<Setup> {
  const world = new ClusterWorld({ seed: 1, trouble: 0 });
  const leader = await leaderOf(world);
  return { world, leader, followers: world.nodes.filter((node) => node !== leader) };
}

async function leaderOf(world: ClusterWorld, besides?: SimNode): Promise<SimNode> {
  for (let turn = 0; turn < 400; turn += 1) {
    await world.clock.advance(100);
    const leader = world.leaderOf(0);
    const isKnown = leader?.shards[0]?.status.role === "leading";
    if (isKnown && leader !== besides) return leader;
  }
  throw new Error("no node leads");
}

/** Creates a task on a node; waits until that is answered, or for some time. */
async function ask(world: ClusterWorld, node: SimNode): Promise<Asked<Enqueued>> {
  const asked = create(node.router as NonNullable<SimNode["router"]>);
  for (let turn = 0; turn < 100; turn += 1) {
    if (asked.answer !== undefined || asked.isRefused) break;
    await world.clock.advance(20);
  }
  return asked;
}

async function created(world: ClusterWorld, node: SimNode): Promise<TaskId> {
  const { answer, refusal } = await ask(world, node);
  assert.ok(answer !== undefined, JSON.stringify(refusal));
  return answer.task.id;
}

async function assertFound(world: ClusterWorld, ids: readonly TaskId[]): Promise<void> {
  const leader = await leaderOf(world);
  for (const id of ids) assert.ok(leader.shards[0]?.broker?.store.task(id), `${id} is lost`);
}

const problemOf = (node: SimNode): string => node.shards[0]?.status.problem ?? "";

test("log servers that are down: callers do not wait, and changes are made when the servers are back", async () => {
  const { world, leader, followers } = await setup();
  const router = leader.router as NonNullable<SimNode["router"]>;
  const before = await created(world, leader);
  for (const node of world.nodes) node.isWithoutLog = true;
  const waiting = create(router, { idempotencyKey: "waits" });
  await world.clock.advance(1000);
  assert.equal(waiting.isRefused, false, "a short outage is waited for");
  await world.clock.advance(1000);
  assert.equal(waiting.code, "unknown");
  assert.equal((await ask(world, leader)).code, "not_leader", "it is not begun");
  await world.clock.advance(30_000);
  assert.match(problemOf(leader), /log servers do not answer.*Changes wait.*majority/);
  for (const node of followers) assert.match(problemOf(node), /log servers do not answer/);
  for (const node of world.nodes) node.isWithoutLog = false;
  await world.clock.advance(2000);
  const again = create(router, { idempotencyKey: "waits" });
  const { task, replayed } = await during(world, again.done);
  assert.equal(replayed, true, "the change was made");
  await assertFound(world, [before, task.id]);
  for (const node of world.nodes) assert.equal(problemOf(node), "");
});

test("a leader that is cut off answers its callers, before another node leads and afterwards", async () => {
  const { world, leader, followers } = await setup();
  leader.isWithoutLog = true;
  leader.isCutOff = true;
  const waiting = create(leader.router as NonNullable<SimNode["router"]>);
  await world.clock.advance(2000);
  assert.equal(waiting.code, "unknown");
  await world.clock.advance(2000);
  assert.ok(followers.some(({ shards }) => shards[0]?.status.role === "leading"));
  assert.equal((await ask(world, leader)).code, "not_leader");
});

test("nodes that could not take over follow again when the leader is heard", async () => {
  const { world, leader, followers } = await setup();
  const [log] = world.logs as readonly [MemoryLogServer];
  leader.pause();
  let tries = 0;
  // Records are read from any server, and where the log ends only from the one that leads it.
  Object.defineProperty(log, "bounds", {
    configurable: true,
    get: () => {
      tries += 1;
      throw new FaultError("storage_failed", "the log servers do not answer");
    },
  });
  await world.clock.advance(10_000);
  assert.ok(tries > 1, "both have tried");
  leader.goOn();
  await world.clock.advance(3000);
  const roles = followers.map(({ shards }) => shards[0]?.status.role);
  assert.deepEqual(roles, ["following", "following"]);
  for (const node of followers) assert.equal(problemOf(node), "");
});

async function during<T>(world: ClusterWorld, done: Promise<T>): Promise<T> {
  let isOver = false;
  const over = (): void => {
    isOver = true;
  };
  done.then(over, over);
  for (let turn = 0; turn < 400 && !isOver; turn += 1) await world.clock.advance(50);
  return await done;
}

test("a full log: changes are refused, and made again when it has room", async () => {
  const { world, leader } = await setup();
  const before = await created(world, leader);
  const [log] = world.logs as readonly [MemoryLogServer];
  log.bytesMax = log.bytes;
  const refused = await ask(world, leader);
  assert.equal(refused.code, "disk_full");
  assert.match(problemOf(leader), /log of this shard is full.*trimmed.*clusterLogBytes/);
  log.bytesMax = Number.POSITIVE_INFINITY;
  await world.clock.advance(10_000);
  await assertFound(world, [before, await created(world, await leaderOf(world))]);
});

test("a full log: the leader can undo what was refused also when the others have everything", async () => {
  const { world, leader, followers } = await setup();
  const ids = [await created(world, leader)];
  await world.clock.advance(5000);
  ids.push(await created(world, leader));
  for (const node of followers) {
    await during(world, node.stop());
    node.start();
    // What it had in memory is in its store now, and it tells the leader so.
    await world.clock.advance(5000);
  }
  const [log] = world.logs as readonly [MemoryLogServer];
  log.bytesMax = log.bytes;
  assert.equal((await ask(world, leader)).code, "disk_full");
  log.bytesMax = Number.POSITIVE_INFINITY;
  await world.clock.advance(10_000);
  await assertFound(world, [...ids, await created(world, await leaderOf(world))]);
});

test("a full log without a leader: a node that cannot take over trims the log, and leads", async () => {
  const { world, leader, followers } = await setup();
  const ids: TaskId[] = [];
  for (let at = 0; at < 40; at += 1) ids.push(await created(world, leader));
  for (const node of followers) {
    await during(world, node.stop());
    node.start();
    await world.clock.advance(5000);
  }
  const [log] = world.logs as readonly [MemoryLogServer];
  log.bytesMax = log.bytes;
  const { first } = log.bounds;
  leader.kill();
  const next = await leaderOf(world, leader);
  assert.ok(log.bounds.first > first, "nothing was trimmed");
  await assertFound(world, [...ids, await created(world, next)]);
});

test("a leader ends though the log servers do not answer", async () => {
  const { world, leader } = await setup();
  for (const node of world.nodes) node.isWithoutLog = true;
  const waiting = create(leader.router as NonNullable<SimNode["router"]>);
  await world.clock.advance(1000);
  let hasEnded = false;
  void leader.stop().then(() => {
    hasEnded = true;
  });
  for (let turn = 0; turn < 300 && !hasEnded; turn += 1) await world.clock.advance(50);
  assert.ok(hasEnded, "it waits for the log");
  await assert.rejects(waiting.done);
});

test("a node that stops in order needs nothing of the log that it has read", async () => {
  const { world, leader, followers } = await setup();
  const [log] = world.logs as readonly [MemoryLogServer];
  const [node] = followers as readonly [SimNode];
  const ids: TaskId[] = [];
  // Some of what is written happens to be durable.
  for (let round = 0; round < 8; round += 1) {
    ids.push(await created(world, leader));
    const { last } = log.bounds;
    await world.clock.advance(2000);
    await during(world, node.stop());
    log.trim(last + 1);
    node.start();
    await world.clock.advance(5000);
    assert.deepEqual([node.shards[0]?.status.role, node.copies], ["following", 0]);
  }
  await assertFound(world, ids);
});

test("a log without work is trimmed, and nodes that start again still find what they need in it", async () => {
  const { world, leader } = await setup();
  const [log] = world.logs as readonly [MemoryLogServer];
  const before = await created(world, leader);
  for (let round = 0; round < 3; round += 1) {
    await world.clock.advance(60_000);
    const { first, last } = log.bounds;
    assert.ok(last - first < 30, `${last - first} of about 120 new slots were kept`);
    for (const node of world.nodes) node.kill();
    for (const node of world.nodes) node.start();
    await leaderOf(world);
  }
  await assertFound(world, [before]);
  for (const { copies } of world.nodes) assert.equal(copies, 0);
});

test("an incremental backup finds what it needs in the log of a busy cluster", async () => {
  const { world, leader } = await setup();
  const [log] = world.logs as readonly [MemoryLogServer];
  await created(world, leader);
  const store = storeOf(leader);
  const full = await during(world, store.backup("shard-0", undefined));
  let { index } = await during(world, read(full));
  const before = log.bounds.first;
  for (let round = 0; round < 3; round += 1) {
    for (let at = 0; at < 30; at += 1) await created(world, leader);
    await world.clock.advance(3000);
    const continued = await during(world, store.backup("shard-0", { index }));
    const end = await during(world, read(continued));
    assert.ok(end.items >= 30, `${end.items} records`);
    ({ index } = end);
  }
  await world.clock.advance(3000);
  await created(world, leader);
  await during(world, store.mark());
  await world.clock.advance(3000);
  assert.ok(log.bounds.first > before + 60, "what was fetched is trimmed");
});

async function read(
  pieces: Awaited<ReturnType<Store["backup"]>>,
): Promise<{ readonly items: number; readonly index: number }> {
  assert.ok(pieces !== undefined, "the log does not reach back so far");
  for (;;) {
    const piece = await pieces.next();
    if (piece.done === true) return piece.value;
  }
}

function storeOf(node: SimNode): Store {
  return node.shards[0]?.broker?.store as Store;
}

test("a follower with a full disk stays behind, leads nothing, and catches up", async () => {
  const { world, leader, followers } = await setup();
  const [full, other] = followers as readonly [SimNode, SimNode];
  full.isDiskFull = true;
  const ids: TaskId[] = [];
  for (let at = 0; at < 60 && problemOf(full) === ""; at += 1)
    ids.push(await created(world, leader));
  assert.match(problemOf(full), /disk of the node is full/);
  leader.kill();
  assert.equal(await leaderOf(world, leader), other);
  full.isDiskFull = false;
  await world.clock.advance(5000);
  assert.equal(problemOf(full), "");
  assert.equal(full.shards[0]?.status.slot, other.shards[0]?.status.slot);
  other.kill();
  assert.equal(await leaderOf(world, other), full);
  await assertFound(world, ids);
});

test("after the end of a log nobody leads, also a node that cannot store the end", async () => {
  const { world, leader, followers } = await setup();
  const [full] = followers as readonly [SimNode, SimNode];
  await created(world, leader);
  full.isDiskFull = true;
  assert.equal(leader.shards[0]?.end(), true);
  const rolesOf = (): unknown[] => world.nodes.map(({ shards }) => shards[0]?.status.role);
  for (let turn = 0; turn < 200; turn += 1) {
    await world.clock.advance(50);
    assert.ok(turn < 10 || rolesOf().every((role) => role === "following" || role === "ended"));
  }
  assert.match(problemOf(full), /disk of the node is full/);
  full.isDiskFull = false;
  await world.clock.advance(5000);
  assert.deepEqual(rolesOf(), ["ended", "ended", "ended"]);
  for (const { shards } of world.nodes) {
    const { slot, epoch } = shards[0]?.status ?? {};
    assert.deepEqual([slot, epoch], [leader.shards[0]?.status.slot, 1]);
  }
});

test("a leader with a full disk refuses changes, and makes them again when it has room", async () => {
  const { world, leader } = await setup();
  const ids = [await created(world, leader)];
  leader.isDiskFull = true;
  let refusal = "";
  for (let at = 0; at < 200 && refusal === ""; at += 1) {
    const { answer, code = "" } = await ask(world, leader);
    if (answer !== undefined) ids.push(answer.task.id);
    refusal = code;
  }
  assert.equal(refusal, "disk_full");
  leader.isDiskFull = false;
  await world.clock.advance(10_000);
  await assertFound(world, [...ids, await created(world, await leaderOf(world))]);
});

for (const [how, offMs] of [
  ["ahead of", 2 * hourMs],
  ["behind", -2 * hourMs],
] as const) {
  test(`a node whose clock is two hours ${how} the others leads nothing until it is set`, async () => {
    const { world, leader } = await setup();
    const before = await created(world, leader);
    leader.clockOffMs = offMs;
    const next = await leaderOf(world, leader);
    assert.match(problemOf(leader), new RegExp(`is 7200 s ${how} the clocks of .* NTP`));
    assert.equal(problemOf(next), "");
    await world.clock.advance(10_000);
    assert.equal(await leaderOf(world), next);
    leader.clockOffMs = 0;
    await world.clock.advance(5000);
    assert.equal(problemOf(leader), "");
    await assertFound(world, [before]);
  });
}

test("data that comes from another log is neither served nor overwritten", async () => {
  const { world, leader } = await setup();
  await created(world, leader);
  await during(world, leader.stop());
  const contents = new Map(leader.contents[0]);
  assert.ok(contents.size > 3);
  const other = new MemoryLogServer(4711);
  for (let at = 0; at < 50; at += 1) other.force(Buffer.from(`record ${at}`));
  other.trim(40);
  const copy = (): never => assert.fail("nothing is copied over it");
  const kv = new MemoryKv({ contents });
  await assert.rejects(install({ kv, shared: other.connect(), copy }), (error: Error) => {
    assert.match(error.message, /data of this node comes from log 99.*servers have log 4711/);
    assert.match(error.message, /belong to the same cluster/);
    return true;
  });
  await settle(1);
  assert.deepEqual(contents, leader.contents[0]);
});

test("a log that lost records is noticed, and every node has its data on its disk", async () => {
  const { world, leader } = await setup();
  const id = await created(world, leader);
  for (const node of world.nodes) node.isWithoutLog = true;
  await world.clock.advance(100);
  const [log] = world.logs as readonly [MemoryLogServer];
  log.forget(log.bounds.last);
  for (const node of world.nodes) node.isWithoutLog = false;
  await world.clock.advance(20_000);
  assert.equal(world.leaderOf(0), undefined);
  for (const node of world.nodes) {
    assert.equal(node.shards[0]?.status.role, "diverged");
    assert.match(problemOf(node), /log.*Run `codeq cluster repair`/);
    assert.ok(node.contents[0]?.has(`codeq/tasks/${id}`), "also what it only had in memory");
  }
});
