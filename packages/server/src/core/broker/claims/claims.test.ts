import assert from "node:assert/strict";
import { test } from "node:test";
import { recordOf } from "@codeq/engine";
import { enqueue as enqueueTask, type TaskId, type WorkerId } from "@codeq/queue";
import { sealed, textOf } from "../../../../../engine/test/sealed.ts";
import { settle } from "../../../../../simulated/src/index.ts";
import {
  abandon,
  acme,
  BrokerWorld,
  type BrokerWorldOptions,
  claim,
  claimIds,
  countedKeys,
  countsInMemory,
  enqueue,
  enqueueNow,
  newTask,
  owned,
  sorted,
  standing,
  submit,
  success,
  umbrella,
} from "../../../../test/broker-world.ts";
import { countsKey, pendingPrefix, queuePrefix, sortable, taskKey } from "../../store/keys.ts";
import { taskRows } from "../../store/task-rows.ts";
import { QueueState } from "../queues/queue-state.ts";
import type { ShardBroker } from "../shard-broker.ts";

/** How many tasks all windows together may hold. */
const windowsEntriesMax = 1_048_576;

async function setup(
  options: BrokerWorldOptions = {},
): Promise<{ world: BrokerWorld; broker: ShardBroker }> {
  const world = new BrokerWorld(options);
  return { world, broker: await world.open() };
}

test("S7: tasks of one priority are delivered in the order they came", async () => {
  const { broker } = await setup();
  const tasks = await Promise.all(Array.from({ length: 30 }, () => enqueue(broker)));
  const claimed = await claimIds(broker, { count: 100 });
  assert.deepEqual(
    claimed,
    tasks.map(({ id }) => id),
  );
  assert.deepEqual(await claimIds(broker), []);
});

test("S7: a task that comes back goes to the back of its priority", async () => {
  const { broker } = await setup();
  const [first, second] = [await enqueue(broker), await enqueue(broker)];
  const [claimed] = await claim(broker);
  assert.equal(claimed?.task.id, first.id);
  assert.ok(!abandon(broker, owned(first), { interrupted: false }).isRefused);
  const third = await enqueue(broker);
  assert.deepEqual(await claimIds(broker, { count: 9 }), [second.id, first.id, third.id]);
});

test("S8: over several commands the highest priority comes first, then who came first", async () => {
  const { broker } = await setup();
  const low = await enqueue(broker, { command: "b", priority: 1 });
  const a1 = await enqueue(broker, { command: "a", priority: 5 });
  const b1 = await enqueue(broker, { command: "b", priority: 5 });
  const a2 = await enqueue(broker, { command: "a", priority: 5 });
  const high = await enqueue(broker, { command: "b", priority: 9 });
  await enqueue(broker, { command: "c", priority: 9 });
  const ids = await claimIds(broker, { commands: ["a", "b", "A"], count: 10 });
  assert.deepEqual(ids, [high.id, a1.id, b1.id, a2.id, low.id]);
});

test("S8: the order holds when the heads have to be read from disk", async () => {
  const { world, broker } = await setup();
  const expected: string[] = [];
  for (let n = 0; n < 20; n += 1) {
    expected.push((await enqueue(broker, { command: `c${n % 4}`, priority: 5 })).id);
  }
  const next = await world.reopen(broker);
  const commands = ["c0", "c1", "c2", "c3"];
  const ids: string[] = [];
  for (let n = 0; n < 20; n += 1) ids.push(...(await claimIds(next, { commands, count: 1 })));
  assert.deepEqual(ids, expected);
});

test("S9: a claim without commands takes from every command of its tenant, of any priority", async () => {
  const { broker } = await setup();
  const first = await enqueue(broker, { command: "a", priority: 2 });
  const second = await enqueue(broker, { command: "b", priority: 2 });
  const urgent = await enqueue(broker, { command: "c", priority: 7 });
  await enqueue(broker, { tenantId: umbrella, command: "a", priority: 9 });
  const ids = await claimIds(broker, { commands: undefined, count: 10 });
  assert.deepEqual(ids, [urgent.id, first.id, second.id]);
  assert.deepEqual(
    await claimIds(broker, { tenantId: "nobody" as typeof acme, commands: undefined }),
    [],
  );
});

test("S22: the case of a command does not matter", async () => {
  const { broker } = await setup();
  const task = await enqueue(broker, { command: "Send-Mail" });
  const [claimed] = await claim(broker, { commands: ["sEND-mAIL"] });
  assert.equal(claimed?.task.id, task.id);
  assert.equal(claimed?.task.command, "Send-Mail");
});

test("a claim carries the payload, a lease and a token that grows with every claim", async () => {
  const { world, broker } = await setup();
  const task = await enqueue(broker, { payload: '{"big":12345678901234567890}' });
  const [first] = await claim(broker, { leaseMs: 1234 });
  assert.equal(first?.payload, '{"big":12345678901234567890}');
  assert.equal(first?.task.leaseToken, 1);
  assert.deepEqual(first?.task.place, {
    in: "leased",
    workerId: "worker-1",
    sinceMs: world.clock.nowMs(),
    untilMs: world.clock.nowMs() + 1234,
    leaseMs: 1234,
  });
  abandon(broker, owned(task), { interrupted: true });
  const [second] = await claim(broker);
  assert.equal(second?.task.leaseToken, 2);
});

test("a claim is answered only when it is durable", async () => {
  const { world, broker } = await setup();
  await enqueue(broker);
  const gate = Promise.withResolvers<void>();
  world.disk.slow("sync", gate.promise);
  const claimed = claimIds(broker);
  assert.equal(await standing(claimed), "pending");
  gate.resolve();
  assert.equal((await claimed).length, 1);
});

test("a waiting claim is served in the turn in which the task is enqueued, by the same commit", async () => {
  const { world, broker } = await setup();
  const waiting = claim(broker, { waitMs: 1000 });
  await settle();
  const task = enqueueNow(broker);
  assert.equal(broker.counts(acme, "work").leased, 1);
  assert.equal(broker.claims.waiting.size, 0);
  assert.deepEqual(
    (await waiting).map((each) => each.task.id),
    [task.id],
  );
  assert.equal(world.clock.timers, 0);
});

test("those who wait are served in the order they came, whatever they wait for", async () => {
  const { broker } = await setup();
  const served: string[] = [];
  const wait = (name: string, commands: string[] | undefined): void => {
    void claim(broker, { commands, waitMs: 1000, workerId: name as WorkerId }).then((tasks) => {
      served.push(`${name}:${tasks[0]?.task.command ?? "nothing"}`);
    });
  };
  wait("one", ["a"]);
  wait("any", undefined);
  wait("both", ["a", "b"]);
  wait("last", ["a"]);
  await settle();
  for (const command of ["b", "b", "a", "a"]) enqueueNow(broker, { command });
  await settle();
  assert.deepEqual(served.sort(), ["any:b", "both:b", "last:a", "one:a"]);
  assert.equal(broker.claims.waiting.size, 0);
});

test("whoever came first gets the task: one who takes any, or one who takes this", async () => {
  for (const lines of [
    [undefined, ["work"]],
    [["work"], undefined],
    [["x", "work"], ["work"]],
  ]) {
    const { broker } = await setup();
    const waits = lines.map((commands) => claimIds(broker, { commands, waitMs: 1000 }));
    await settle();
    const first = await enqueue(broker);
    assert.deepEqual(await waits[0], [first.id]);
    assert.equal(await standing(waits[1]!), "pending");
    const second = await enqueue(broker);
    assert.deepEqual(await waits[1], [second.id]);
  }
});

test("a waiter of another tenant is not served", async () => {
  const { broker } = await setup();
  const foreign = claim(broker, { tenantId: umbrella, commands: undefined, waitMs: 1000 });
  await enqueue(broker);
  assert.equal(await standing(foreign), "pending");
});

test("a wait ends with nothing when its time is up, or when its caller goes away", async () => {
  const { world, broker } = await setup();
  const timed = claimIds(broker, { waitMs: 1000 });
  const controller = new AbortController();
  const aborted = claimIds(broker, { waitMs: 1000, signal: controller.signal });
  const gone = claimIds(broker, { waitMs: 1000, signal: AbortSignal.abort() });
  assert.deepEqual(await gone, []);
  await settle();
  controller.abort();
  assert.deepEqual(await aborted, []);
  await world.clock.advance(999);
  assert.equal(await standing(timed), "pending");
  await world.clock.advance(1);
  assert.deepEqual(await timed, []);
  assert.equal(world.clock.timers, 0);
  await enqueue(broker);
  assert.equal((await claimIds(broker)).length, 1);
});

test("a caller that went away while the disk was read gets nothing, and nothing is lost", async () => {
  const { world, broker } = await setup();
  await enqueue(broker);
  const next = await world.reopen(broker);
  const controller = new AbortController();
  const claimed = claimIds(next, { signal: controller.signal });
  controller.abort();
  assert.deepEqual(await claimed, []);
  assert.equal(next.counts(acme, "work").leased, 0);
  assert.equal((await claimIds(next)).length, 1);
});

test("a shutdown ends every wait", async () => {
  const { broker } = await setup();
  const waits = [
    claimIds(broker, { waitMs: 1000 }),
    claimIds(broker, { waitMs: 1, commands: undefined }),
  ];
  await settle();
  broker.stopWaiting();
  assert.deepEqual(await Promise.all(waits), [[], []]);
});

test("a task that comes back wakes who waits", async () => {
  const { broker } = await setup();
  const task = await enqueue(broker);
  await claim(broker);
  const waiting = claimIds(broker, { waitMs: 1000, workerId: "other" as WorkerId });
  await settle();
  abandon(broker, owned(task), { interrupted: false });
  assert.deepEqual(await waiting, [task.id]);
});

test("one waiter takes as many as are there, and the rest is for the next", async () => {
  const { broker } = await setup();
  const tasks = await Promise.all(Array.from({ length: 5 }, () => enqueue(broker)));
  const [some, others] = await Promise.all([
    claimIds(broker, { count: 3, waitMs: 10 }),
    claimIds(broker, { count: 3, waitMs: 10 }),
  ]);
  assert.deepEqual(
    [...(some ?? []), ...(others ?? [])],
    tasks.map(({ id }) => id),
  );
});

test("an unreadable record is counted, kept and passed over", async () => {
  const { world, broker } = await setup();
  const [bad, good] = [await enqueue(broker), await enqueue(broker)];
  const gone = await enqueue(broker);
  const after = await enqueue(broker);
  await broker.store[Symbol.asyncDispose]();
  world.contents.set(taskKey(bad.id), Buffer.from('["damaged'));
  world.contents.delete(taskKey(gone.id));
  const next = await world.open();
  assert.deepEqual(await claimIds(next, { count: 9 }), [good.id, after.id]);
  assert.equal(next.store.quarantined, 1);
  assert.equal(next.counts(acme, "work").ready[0], 0);
  const last = await world.reopen(next);
  assert.equal(world.contents.get(taskKey(bad.id))?.toString(), '["damaged');
  assert.equal(textOf(world.contents, `codeq/quarantine/${taskKey(bad.id)}`), '["damaged');
  assert.equal(last.counts(acme, "work").ready[0], 0);
  assert.deepEqual(await claimIds(last, { count: 9 }), []);
});

test("a queue whose only record is unreadable lets its waiter wait, not spin", async () => {
  const { world, broker } = await setup();
  const bad = await enqueue(broker);
  await broker.store[Symbol.asyncDispose]();
  world.contents.set(taskKey(bad.id), Buffer.from("?"));
  const next = await world.open();
  const waiting = claimIds(next, { waitMs: 1000 });
  assert.equal(await standing(waiting), "pending");
  const good = await enqueue(next);
  assert.deepEqual(await waiting, [good.id]);
});

/** Queues as a server left them: index keys and counts, the records only where they are claimed. */
function backlog(queues: number, tasksEach: number): Map<string, Buffer> {
  const contents = new Map<string, Buffer>();
  const none = Buffer.alloc(0);
  const put = (key: string, value: Buffer | string): void => {
    contents.set(key, sealed(key, value));
  };
  let seq = 0;
  for (let task = 0; task < tasksEach; task += 1) {
    for (let queue = 0; queue < queues; queue += 1) {
      seq += 1;
      const prefix = pendingPrefix(queuePrefix(`q${queue}`, acme), 0);
      const id = `00000000-0000-7000-8000-${String(seq).padStart(12, "0")}` as TaskId;
      contents.set(`${prefix}${sortable(seq)}/${id}`, none);
      if (task >= 3) continue;
      const at = { id, nowMs: 1, seq, keepsPayload: true };
      const record = enqueueTask(newTask({ command: `q${queue}` }), at);
      put(taskKey(id), recordOf(record, taskRows));
    }
  }
  for (let queue = 0; queue < queues; queue += 1) {
    const counts = [0, 0, 0, 0, 0, tasksEach, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    put(countsKey(`q${queue}`, acme), counts.join(" "));
  }
  put("codeq/meta/sequence", String(seq));
  return contents;
}

test("many queues on disk together do not fill the memory when all of them are looked at", async () => {
  const { broker } = await setup({ contents: backlog(320, 1000) });
  // As if others had nearly all of the room.
  const others = windowsEntriesMax - 100_000;
  broker.queues.windowEntries = others;
  const [first] = await claim(broker, { commands: undefined });
  assert.equal(first?.task.command, "q0");
  const claimed = await claim(broker, { commands: undefined, count: 500 });
  assert.deepEqual(
    claimed.slice(0, 4).map(({ task }) => task.command),
    ["q1", "q2", "q3", "q4"],
  );
  const held = broker.queues.windowEntries - others;
  assert.ok(held <= 138_000, `${held} in memory`);
});

test("queues that were used once are forgotten when there are many, and come back when needed", async () => {
  const { broker } = await setup();
  for (let n = 0; n < 3000; n += 1) {
    const task = enqueueNow(broker, { command: `q${n}` });
    await claim(broker, { commands: [`q${n}`] });
    assert.ok(!submit(broker, owned(task), success).isRefused);
  }
  await settle();
  assert.ok([...broker.queues.all()].length <= 2100);
  assert.equal(countsInMemory(broker).size, 0);
  const task = await enqueue(broker, { command: "q5" });
  assert.deepEqual(await claimIds(broker, { commands: ["q5"] }), [task.id]);
});

test("D3: what does not fit the window is delivered all the same, once and in order", async () => {
  const { broker } = await setup({ flushBytes: 4 * 1024 * 1024 });
  const others = windowsEntriesMax - 4096;
  broker.queues.windowEntries = others;
  const expected: string[] = [];
  for (let n = 0; n < 20_000; n += 1) {
    expected.push(enqueueNow(broker).id);
    if (n % 1000 === 0) await settle(1);
  }
  assert.ok(broker.queues.windowEntries <= others + 4096);
  const ids: string[] = [];
  while (ids.length < expected.length) {
    const some = await claimIds(broker, { count: 256 });
    assert.notEqual(some.length, 0);
    ids.push(...some);
    assert.ok(broker.queues.windowEntries <= others + 4096 + 2048);
    // Arrivals in the middle go to the back.
    if (ids.length % 5 === 1 && expected.length < 20_100) expected.push(enqueueNow(broker).id);
  }
  assert.deepEqual(ids, expected);
  assert.equal(broker.queues.windowEntries, others);
});

test("D3: a long queue is held in memory whole, and delivered without looking for it on disk", async () => {
  const { broker } = await setup({ flushBytes: 4 * 1024 * 1024 });
  broker.store.readyAfter = () => assert.fail("everything is in memory");
  const expected: string[] = [];
  for (let n = 0; n < 20_000; n += 1) {
    expected.push(enqueueNow(broker).id);
    if (n % 1000 === 0) await settle(1);
  }
  assert.equal(broker.queues.windowEntries, 20_000);
  const ids: string[] = [];
  while (ids.length < expected.length) {
    const some = await claimIds(broker, { count: 256 });
    assert.notEqual(some.length, 0);
    ids.push(...some);
    if (ids.length % 5 === 1) expected.push(enqueueNow(broker).id);
  }
  assert.deepEqual(ids, expected);
  assert.equal(broker.queues.windowEntries, 0);
});

test("a bucket that is many times the window survives a restart and is delivered in order", async () => {
  const { world, broker } = await setup({ flushBytes: 64 * 1024 * 1024, segmentBytes: 1 << 26 });
  const count = 20_500;
  const expected: string[] = [];
  for (let n = 0; n < count; n += 1) {
    expected.push(enqueueNow(broker, { payload: "1" }).id);
    if (n % 5000 === 0) await settle();
  }
  const next = await world.reopen(broker);
  assert.equal(next.counts(acme, "work").ready[0], count);
  assert.equal(next.queues.windowEntries, 0);
  let at = 0;
  while (at < count) {
    const some = await claimIds(next, { count: 1024 });
    assert.deepEqual(some, expected.slice(at, at + some.length));
    assert.notEqual(some.length, 0);
    at += some.length;
    assert.ok(next.queues.windowEntries <= 4096 + 2048);
  }
  assert.deepEqual(await claimIds(next), []);
  assert.deepEqual(sorted(countsInMemory(next)), sorted(await countedKeys(next.store)));
});

test("S8: a claim for any queue keeps the order while queues change, are paused and are read again", async () => {
  const { world, broker: first } = await setup({ seed: 7 });
  let broker = first;
  /** What is ready, as `priority, sequence` orders it: tasks of one priority come in the order of arrival. */
  const ready: { id: TaskId; command: string; priority: number }[] = [];
  const paused = new Set<string>();
  const random = world.random.fork("steps");
  const below = (end: number): number => Math.floor(random.next() * end);
  for (let step = 0; step < 600; step += 1) {
    const what = below(10);
    if (what < 5) {
      const fields = { command: `c${below(12)}`, priority: below(3) };
      ready.push({ ...(await enqueue(broker, fields)), ...fields });
    } else if (what < 6) {
      const name = `c${below(12)}`;
      const pause = paused.has(name) ? undefined : { atMs: 0, by: "", reason: "" };
      await broker.pause({ tenantId: acme, name }, pause);
      if (pause === undefined) paused.delete(name);
      else paused.add(name);
    } else if (what < 7 && step % 5 === 0) {
      broker = await world.reopen(broker);
    } else {
      const commands = what === 7 ? [`c${below(12)}`, `c${below(12)}`] : undefined;
      const count = 1 + below(4);
      const open = ready.filter(
        ({ command }) => !paused.has(command) && (commands?.includes(command) ?? true),
      );
      const expected = open.toSorted((a, b) => b.priority - a.priority).slice(0, count);
      const ids = await claimIds(broker, { commands, count });
      // A claim ends early when a head has to be read; what it has got is in order.
      assert.deepEqual(
        ids,
        expected.slice(0, ids.length).map(({ id }) => id),
      );
      assert.equal(ids.length === 0, expected.length === 0);
      for (const id of ids)
        ready.splice(
          ready.findIndex((each) => each.id === id),
          1,
        );
    }
  }
});

/** So many queues with two tasks each. */
async function manyQueues(broker: ShardBroker, count: number): Promise<void> {
  const names = Array.from({ length: count * 2 }, (_, n) => `q${n % count}`);
  await Promise.all(names.map((command) => enqueue(broker, { command })));
}

test("a claim for any queue reads the heads of many queues together, some at a time", async () => {
  const { world, broker } = await setup();
  await manyQueues(broker, 2000);
  const next = await world.reopen(broker);
  const { store } = next;
  const read = store.firstReady.bind(store);
  const pieces: number[] = [];
  store.firstReady = (queues, limit) => {
    pieces.push(queues.length);
    return read(queues, limit);
  };
  const claims = [claim(next, { commands: undefined }), claim(next, { commands: undefined })];
  const claimed = (await Promise.all(claims)).flat().map(({ task }) => task.command);
  assert.deepEqual(claimed, ["q0", "q1"]);
  assert.deepEqual(pieces, [1024, 976]);
  const rest: string[] = [];
  while (rest.length < 3998) {
    const tasks = await claim(next, { commands: undefined, count: 256 });
    rest.push(...tasks.map(({ task }) => task.command));
  }
  const expected = Array.from({ length: 3998 }, (_, n) => `q${(n + 2) % 2000}`);
  assert.deepEqual(rest, expected);
});

test("a claim for any queue looks at few of many queues", async (t) => {
  const { broker } = await setup();
  await manyQueues(broker, 5000);
  await claim(broker, { commands: undefined });
  const top = Object.getOwnPropertyDescriptor(QueueState.prototype, "topPriority");
  assert.ok(top?.get !== undefined);
  const { get } = top;
  let looks = 0;
  t.after(() => Object.defineProperty(QueueState.prototype, "topPriority", top));
  Object.defineProperty(QueueState.prototype, "topPriority", {
    ...top,
    get() {
      looks += 1;
      return get.call(this);
    },
  });
  assert.equal((await claim(broker, { commands: undefined, count: 256 })).length, 256);
  assert.ok(looks < 256 * 8, `looked ${looks} times`);
});
