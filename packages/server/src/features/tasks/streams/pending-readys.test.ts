/** The Readys of one stream with a real broker; the limits and the stream are the test's. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { TaskId, WorkerId } from "@codeq/queue";
import fc from "fast-check";
import { type SimClock, settle } from "../../../../../simulated/src/index.ts";
import {
  acme,
  BrokerWorld,
  claim,
  claimIds,
  create,
  enqueue,
  enqueueNow,
  worker,
} from "../../../../test/broker-world.ts";
import type { ShardBroker } from "../../../core/broker/shard-broker.ts";
import type { ClaimedTask, Refused } from "../../../core/broker/verbs.ts";
import type { Dispatch } from "../../../edge/dispatch.ts";
import { type Admission, type Refusal, refusal } from "../../../edge/operation.ts";
import {
  PendingReady,
  PendingReadys,
  type ReadyOwner,
  type ReadyRequest,
  type ReadyStream,
  WaitingReadys,
} from "./pending-readys.ts";

const workerId = "worker-1" as WorkerId;

class World {
  readonly clock: SimClock;
  readonly broker: ShardBroker;
  readonly world: BrokerWorld;
  readonly readys: PendingReadys;
  readonly counts = { pendingReadys: 0 };
  readonly delivered: TaskId[][] = [];
  readonly refused: string[] = [];
  readonly noted: string[] = [];
  /** How many claims the rate limit lets in; who is not has to wait so long. */
  allowance = Number.POSITIVE_INFINITY;
  readonly retryAfterMs = 300;
  /** What claims count as, together. */
  counted = 0;
  takes = true;
  refusedNow: Refusal | undefined;
  /** What was delivered last and has not left yet. */
  unsent: (() => void) | undefined;

  constructor(world: BrokerWorld, broker: ShardBroker) {
    this.world = world;
    this.clock = world.clock;
    this.broker = broker;
    const dispatch = {
      server: { broker: broker, config: { defaultLeaseSeconds: 60 } },
      admit: () => this.#admit(),
      noteItems: (_: unknown, { ok }: { ok: number }) => this.noted.push(`ok ${ok}`),
      noteRefusal: (action: string, refused: Refusal) => {
        this.noted.push(`${action} ${refused.code}`);
        return refused;
      },
      noteUse: () => this.noted.push("used"),
      asRefusal: () => refusal("internal"),
      refusalNow: () => this.refusedNow,
    };
    const identity = { tenantId: acme, workerId, eventTypes: ["*"], apiKeyId: "key" };
    const stream = {
      call: { identity, from: undefined },
      deliver: (tasks: readonly ClaimedTask[], _: boolean, unsent: (of: typeof tasks) => void) => {
        if (!this.takes) return false;
        this.delivered.push(tasks.map(({ task }) => task.id));
        this.unsent = () => unsent(tasks);
        return true;
      },
      refuse: ({ code }: Refusal) => this.refused.push(code),
    };
    this.readys = new PendingReadys(
      {
        dispatch: dispatch as unknown as Dispatch,
        clock: world.clock,
        claimBatchMax: 10,
        counts: this.counts,
      },
      stream as unknown as ReadyStream,
    );
  }

  #admit(): unknown {
    if (this.allowance === 0) {
      return { ...refusal("rate_limited"), retryAfterMs: this.retryAfterMs };
    }
    this.allowance -= 1;
    const admission: Pick<Admission, "countUpTo" | "takeBack"> = {
      countUpTo: (most) => {
        this.counted += most;
        return most;
      },
      takeBack: (count) => {
        this.counted -= count;
      },
    };
    return { ok: true, value: admission };
  }

  ready(fields: Partial<ReadyRequest> = {}): Refusal | undefined {
    return this.readys.add({ commands: ["work"], leaseSeconds: 0, count: 1, ...fields });
  }

  /** How many ask for work. */
  get waiting(): number {
    return this.broker.claims.waiting.size;
  }
}

async function setup(): Promise<World> {
  const world = new BrokerWorld();
  return new World(world, await world.open());
}

test("a Ready waits for a task, gets one, and is over", async () => {
  const world = await setup();
  assert.equal(world.ready(), undefined);
  assert.deepEqual([world.waiting, world.counts.pendingReadys], [1, 1]);
  const task = await enqueue(world.broker);
  await enqueue(world.broker);
  assert.deepEqual(world.delivered, [[task.id]]);
  assert.deepEqual([world.waiting, world.counts.pendingReadys, world.counted], [0, 0, 1]);
  assert.deepEqual(world.noted, ["used", "ok 1"]);
  assert.equal(world.clock.timers, 0);
});

test("a task that is there is given at once, as many as were asked for and no more than allowed", async () => {
  const world = await setup();
  for (let n = 0; n < 14; n += 1) await enqueue(world.broker);
  world.ready({ count: 3 });
  world.ready({ count: 99 });
  world.ready({ count: 99 });
  await settle();
  assert.deepEqual(
    world.delivered.map(({ length }) => length),
    [3, 10, 1],
  );
  assert.equal(world.counted, 14, "a claim counts as what it was given");
});

test("Readys are served in the order they came", async () => {
  const world = await setup();
  world.ready({ commands: ["a"] });
  world.ready({ commands: ["b"] });
  world.ready({ commands: ["a", "b"] });
  world.ready({ commands: [] });
  const [b, a, first, second] = ["b", "a", "b", "c"].map(
    (command) => enqueueNow(world.broker, { command }).id,
  );
  await settle();
  assert.deepEqual(world.delivered, [[b], [a], [first], [second]]);
});

test("a worker that does not read gets nothing, and its Readys keep waiting", async () => {
  const world = await setup();
  world.ready();
  world.readys.suspend();
  world.readys.suspend();
  assert.equal(world.waiting, 0);
  world.ready();
  const task = await enqueue(world.broker);
  await world.clock.advance(60_000);
  assert.deepEqual([world.delivered, world.counts.pendingReadys], [[], 2]);
  assert.equal(world.broker.counts(acme, "work").ready[0], 1);
  world.readys.resume();
  await settle();
  assert.deepEqual(world.delivered, [[task.id]]);
  assert.deepEqual([world.waiting, world.counts.pendingReadys], [1, 1]);
});

test("a worker that cannot take a task when it is durable gets it later, or another does", async () => {
  const world = await setup();
  world.ready();
  world.takes = false;
  const task = await enqueue(world.broker);
  await settle();
  assert.deepEqual([world.delivered, world.counts.pendingReadys], [[], 1]);
  const { ready, leased } = world.broker.counts(acme, "work");
  assert.deepEqual([ready[0], leased], [1, 0], "it goes back at once");
  world.takes = true;
  await world.clock.advance(500);
  assert.deepEqual(world.delivered, [[task.id]]);
  assert.equal(world.broker.store.task(task.id)?.attempts, 0, "and counts as no attempt");
});

test("what never left the process goes back, though the Ready is over", async () => {
  const world = await setup();
  const task = await enqueue(world.broker);
  world.ready();
  await settle();
  world.unsent?.();
  await settle();
  assert.deepEqual(await claimIds(world.broker), [task.id]);
});

test("over the rate they wait in the order they came, and ask when they may", async () => {
  const world = await setup();
  world.allowance = 1;
  const ids = [];
  for (const command of ["a", "b", "c"]) {
    ids.push((await enqueue(world.broker, { command })).id);
    world.ready({ commands: [command] });
  }
  await settle();
  assert.deepEqual(world.delivered, [[ids[0]]]);
  assert.equal(world.clock.timers, 1);
  world.allowance = 1;
  await world.clock.advance(world.retryAfterMs - 1);
  assert.equal(world.delivered.length, 1);
  await world.clock.advance(1);
  assert.deepEqual(world.delivered.slice(1), [[ids[1]]]);
  world.allowance = 9;
  await world.clock.advance(world.retryAfterMs);
  assert.deepEqual(world.delivered.slice(2), [[ids[2]]]);
  assert.deepEqual([world.counts.pendingReadys, world.clock.timers], [0, 0]);
});

test("a Ready is let in once, however often it is put off", async () => {
  const world = await setup();
  world.allowance = 1;
  world.takes = false;
  const task = await enqueue(world.broker);
  world.ready();
  await world.clock.advance(5000);
  world.readys.suspend();
  world.readys.resume();
  world.takes = true;
  await world.clock.advance(500);
  assert.deepEqual(world.delivered, [[task.id]]);
});

test("a full disk is waited for", async () => {
  const world = await setup();
  const { disk } = world.world;
  world.ready();
  disk.capacityBytes = 0;
  disk.failNext("write", "ENOSPC");
  await assert.rejects(create(world.broker).done, { code: "disk_full" });
  await settle();
  world.ready();
  await world.clock.advance(3000);
  assert.deepEqual([world.delivered, world.refused, world.counts.pendingReadys], [[], [], 2]);
  disk.capacityBytes = Number.MAX_SAFE_INTEGER;
  await world.clock.advance(2000);
  const [first, second] = [await enqueue(world.broker), await enqueue(world.broker)];
  await settle();
  assert.deepEqual(world.delivered, [[first.id], [second.id]]);
});

test("so is a server that is overloaded or about to stop", async () => {
  const world = await setup();
  const task = await enqueue(world.broker);
  for (const code of ["overloaded", "shutting_down"] as const) {
    world.refusedNow = refusal(code);
    world.ready();
    await world.clock.advance(2000);
    assert.deepEqual([world.delivered, world.refused], [[], []]);
  }
  world.refusedNow = undefined;
  await world.clock.advance(500);
  assert.deepEqual(world.delivered, [[task.id]]);
  assert.equal(world.waiting, 1);
});

test("what will never be served is refused at once, and noted", async () => {
  const world = await setup();
  assert.equal(world.ready({ commands: ["not a command!"] })?.code, "invalid_command");
  assert.equal(world.ready({ leaseSeconds: 1e9 })?.code, "invalid_argument");
  assert.deepEqual(world.noted, [
    ...["used", "claim_tasks invalid_command"],
    ...["used", "claim_tasks invalid_argument"],
  ]);
  assert.deepEqual([world.waiting, world.counts.pendingReadys], [0, 0]);
});

test("too many Readys are refused, and those that were taken stay", async () => {
  const world = await setup();
  for (let n = 0; n < 1024; n += 1) assert.equal(world.ready(), undefined);
  assert.equal(world.ready()?.code, "overloaded");
  assert.deepEqual([world.waiting, world.counts.pendingReadys], [1024, 1024]);
  await enqueue(world.broker);
  await settle();
  assert.equal(world.ready(), undefined);
});

test("a bug costs its Ready, and no other", async () => {
  const world = await setup();
  const { broker } = world;
  const original = broker.claim.bind(broker);
  let calls = 0;
  broker.claim = (claim) => {
    calls += 1;
    if (calls === 1) assert.fail("broken on purpose");
    original(claim);
  };
  world.readys.suspend();
  world.ready();
  world.ready();
  world.readys.resume();
  assert.deepEqual(world.refused, ["internal"]);
  assert.deepEqual([world.waiting, world.counts.pendingReadys], [1, 1]);
});

test("a stream that ends leaves nothing behind: no Ready, no timer, no task", async () => {
  const world = await setup();
  world.ready();
  world.allowance = 0;
  world.ready();
  world.readys.close();
  assert.deepEqual([world.waiting, world.counts.pendingReadys, world.clock.timers], [0, 0, 0]);
  world.readys.close();
  assert.equal(world.counts.pendingReadys, 0);
  const task = await enqueue(world.broker);
  assert.deepEqual(await claimIds(world.broker), [task.id]);
});

test("tasks that become durable for a stream that is gone go back at once", async () => {
  const world = await setup();
  world.ready();
  const gate = Promise.withResolvers<void>();
  world.world.disk.slow("sync", gate.promise);
  const task = enqueueNow(world.broker);
  await settle();
  world.readys.close();
  gate.resolve();
  await settle();
  assert.deepEqual([world.delivered, world.counts.pendingReadys], [[], 0]);
  const [again] = await claim(world.broker);
  assert.deepEqual([again?.task.id, again?.task.attempts], [task.id, 0]);
});

test("a Ready that was called off while the disk was read asks again", async () => {
  const before = await setup();
  const task = await enqueue(before.broker);
  const world = new World(before.world, await before.world.reopen(before.broker));
  world.ready();
  world.readys.suspend();
  await settle();
  assert.deepEqual([world.delivered, world.counts.pendingReadys], [[], 1]);
  world.readys.resume();
  await settle();
  assert.deepEqual(world.delivered, [[task.id]]);
});

test("whatever happens, every Ready is served or held, and every task is where it should be", async () => {
  const step = fc.constantFrom(
    ...(["ready", "ready", "enqueue", "enqueue", "suspend", "resume", "settle"] as const),
    ...(["pass", "block", "unblock", "limit", "allow"] as const),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const world = await setup();
      let [readys, tasks] = [0, 0];
      for (const kind of steps) {
        if (kind === "ready") {
          world.ready();
          readys += 1;
        } else if (kind === "enqueue") {
          enqueueNow(world.broker);
          tasks += 1;
        } else if (kind === "suspend") world.readys.suspend();
        else if (kind === "resume") world.readys.resume();
        else if (kind === "settle") await settle();
        else if (kind === "pass") await world.clock.advance(400);
        else if (kind === "block" || kind === "unblock") world.takes = kind === "unblock";
        else world.allowance = kind === "limit" ? 0 : Number.POSITIVE_INFINITY;
        assert.ok(world.counts.pendingReadys <= readys);
      }
      world.takes = true;
      world.allowance = Number.POSITIVE_INFINITY;
      world.readys.resume();
      await world.clock.advance(2000);
      const ids = world.delivered.flat();
      assert.equal(new Set(ids).size, ids.length, "no task is given twice");
      assert.equal(ids.length, Math.min(readys, tasks));
      assert.equal(world.counts.pendingReadys, readys - ids.length);
      assert.equal(world.waiting, readys - ids.length);
      assert.equal(world.broker.counts(acme, "work").ready[0], tasks - ids.length);
      world.readys.close();
      assert.deepEqual([world.counts.pendingReadys, world.waiting, world.clock.timers], [0, 0, 0]);
    }),
    { numRuns: 100 },
  );
});

const nobody: ReadyOwner = { claimed: () => {}, claimRefused: () => {} };

function readyOf(chars: number, owner: ReadyOwner = nobody): PendingReady {
  const request = { tenantId: acme, workerId: worker, queues: undefined, leaseMs: 1, count: 1 };
  return new PendingReady(
    owner,
    { ...request, waitMs: Number.POSITIVE_INFINITY },
    { startedMs: 0, asBatch: false, chars },
  );
}

test("those that are held come out in their order, once", () => {
  const held = new WaitingReadys();
  const readys = [readyOf(1), readyOf(2), readyOf(3)];
  assert.deepEqual(held.take(), []);
  for (const ready of readys) {
    held.count(ready);
    held.hold(ready);
  }
  assert.equal(held.isEmpty, false);
  assert.deepEqual(held.take(), readys);
  assert.deepEqual([held.take(), held.isEmpty], [[], true]);
});

test("what is held while others are handed out is handed out with the next", () => {
  const held = new WaitingReadys();
  const [first, second] = [readyOf(1), readyOf(1)];
  held.hold(first);
  for (const ready of held.take()) held.hold(ready);
  held.hold(second);
  assert.deepEqual(held.take(), [first, second]);
});

test("there are at most 1024, those that ask for work among them", () => {
  const held = new WaitingReadys();
  const readys = Array.from({ length: 1024 }, () => readyOf(0));
  for (const ready of readys) {
    assert.ok(held.hasRoomFor(0));
    held.count(ready);
  }
  assert.equal(held.hasRoomFor(0), false);
  held.end(readys[5] as PendingReady);
  assert.ok(held.hasRoomFor(0));
});

test("all together ask with at most a million characters", () => {
  const held = new WaitingReadys();
  const most = 1024 * 1024;
  const large = readyOf(most - 1);
  assert.ok(held.hasRoomFor(most));
  assert.equal(held.hasRoomFor(most + 1), false);
  held.count(large);
  assert.ok(held.hasRoomFor(1));
  assert.equal(held.hasRoomFor(2), false);
  held.end(large);
  assert.ok(held.hasRoomFor(most));
});

test("a Ready passes what its claim got on to who asked", () => {
  const told: unknown[] = [];
  const ready = readyOf(1, {
    claimed: (each, tasks) => told.push([each, tasks]),
    claimRefused: (each, why) => told.push([each, why]),
  });
  const tasks: ClaimedTask[] = [];
  const why: Refused = { code: "task_unknown" };
  ready.durable(tasks);
  ready.refused(why);
  assert.deepEqual(told, [
    [ready, tasks],
    [ready, why],
  ]);
});
