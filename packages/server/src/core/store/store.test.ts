import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type Change,
  changeOf,
  emptyResult,
  enqueue as enqueueTask,
  type Task,
  type TaskId,
  type TenantId,
  type WorkerId,
} from "@codeq/queue";
import fc from "fast-check";
import { sealed, textOf } from "../../../../engine/test/sealed.ts";
import { settle } from "../../../../simulated/src/index.ts";
import { anyPlace, anyResult, anyTask } from "../../../test/any-task.ts";
import {
  acme,
  BrokerWorld,
  type BrokerWorldOptions,
  claim,
  completed,
  enqueue,
  entriesUnder,
  newTask,
  owned,
  standing,
  submit,
  success,
  umbrella,
  worker,
} from "../../../test/broker-world.ts";
import {
  firstWebhook,
  lastWebhook,
  type WebhookJob,
  webhooksFrom,
} from "../records/delivery-record.ts";
import { idempotencyKeyOf, payloadKey, resultKey, taskKey } from "./keys.ts";
import type { Store } from "./store.ts";

function webhooksOf(store: Store): Promise<WebhookJob[]> {
  return store.webhooks({ after: firstWebhook, before: lastWebhook }, 9);
}

function jobOf(job: Omit<WebhookJob, "key">): WebhookJob {
  return { key: `${webhooksFrom(job.dueMs)}/${job.id}`, ...job };
}

const longJson = JSON.stringify({ text: "x".repeat(600) });

/** A store with finished tasks and a ready one, flushed, and a way to spoil what it has. */
async function setup(): Promise<{
  world: BrokerWorld;
  ready: TaskId;
  done: TaskId;
  /** Finished as well; payload and result are long. */
  long: TaskId;
  open: () => Promise<Store>;
}> {
  const world = new BrokerWorld();
  const broker = await world.open();
  const done = await enqueue(broker, { payload: '{"a":1}' });
  await claim(broker);
  await submit(broker, owned(done), success).done;
  const long = await enqueue(broker, { payload: longJson });
  await claim(broker);
  await submit(broker, owned(long), completed(longJson)).done;
  const ready = await enqueue(broker, { idempotencyKey: "k" });
  await broker.store[Symbol.asyncDispose]();
  return { world, ready: ready.id, done: done.id, long: long.id, open: () => world.openStore() };
}

async function empty(options: BrokerWorldOptions = {}): Promise<Store> {
  return new BrokerWorld(options).openStore();
}

function idAt(number: number): TaskId {
  return `018bcfe5-6800-7000-8000-${String(number).padStart(12, "0")}` as TaskId;
}

/** A ready task that nobody has claimed. */
function taskAt(number: number, fields: Partial<Task> = {}): Task {
  const at = { id: idAt(number), nowMs: 1000, seq: number, keepsPayload: true };
  return { ...enqueueTask(newTask(), at), ...fields };
}

function created(task: Task, fields: Partial<Change> = {}): Change {
  return { ...changeOf(undefined, task, "created"), ...fields };
}

const done = (atMs: number, expiresMs: number): Task["place"] => ({
  in: "done",
  how: "completed",
  workerId: worker,
  startedMs: atMs,
  atMs,
  expiresMs,
});

/** Every key, without those that are about the store itself. */
async function keysOfTasks(store: Store): Promise<string[]> {
  const entries = await entriesUnder(store, "codeq/");
  return entries
    .map(([key]) => key)
    .filter((key) => !/^codeq\/(meta|counts|lane-counts)\//.test(key));
}

test("tasks, payloads, results and idempotency entries are found by their ids", async () => {
  const { ready, done, open } = await setup();
  const store = await open();
  assert.equal(store.task(ready)?.place.in, "ready");
  assert.equal(store.payload(store.task(done)!), '{"a":1}');
  assert.equal(store.result(store.task(done)!)?.status, "COMPLETED");
  assert.equal(store.result(store.task(ready)!), undefined);
  assert.deepEqual(store.idempotency(acme, "k"), {
    taskId: ready,
    queue: "work",
    payloadHash: "hash",
    gone: undefined,
  });
  assert.equal(store.idempotency("other" as TenantId, "k"), undefined);
  assert.equal(store.task("unknown" as TaskId), undefined);
  assert.equal(store.quarantined, 0);
});

test("what cannot be read is counted, copied aside once and left where it is", async () => {
  const { world, ready, long, open } = await setup();
  const [unreadable, foreign] = [taskKey(ready), resultKey(long)];
  world.contents.set(unreadable, Buffer.from("\u0000bad"));
  world.contents.set(foreign, sealed(foreign, "[1]"));
  const store = await open();
  assert.equal(store.task(ready), undefined);
  assert.equal(store.task(ready), undefined);
  assert.ok(store.holds(ready));
  assert.throws(() => store.result(store.task(long)!), { code: "corrupt" });
  assert.equal(store.quarantined, 3);
  await store[Symbol.asyncDispose]();
  assert.equal(world.contents.get(unreadable)?.toString(), "\u0000bad");
  assert.equal(textOf(world.contents, `codeq/quarantine/${unreadable}`), "\u0000bad");
  assert.equal(textOf(world.contents, foreign), "[1]");
  assert.equal(textOf(world.contents, `codeq/quarantine/${foreign}`), "[1]");
});

test("reading what cannot be read does not need a store that can be written", async () => {
  const { world, ready, open } = await setup();
  world.contents.set(taskKey(ready), Buffer.from("bad"));
  const store = await open();
  await store[Symbol.asyncDispose]();
  assert.equal(store.task(ready), undefined);
  assert.equal(store.quarantined, 1);
});

test("a payload or result whose bytes changed is never handed out, and is kept aside as it is", async () => {
  const { world, long, open } = await setup();
  for (const key of [payloadKey(long), resultKey(long)]) {
    const bytes = world.contents.get(key) as Buffer;
    bytes[20] = (bytes[20] as number) ^ 1;
  }
  const store = await open();
  const task = store.task(long)!;
  assert.throws(() => store.payload(task), { code: "corrupt" });
  assert.equal(store.wholePayload(task), undefined);
  assert.throws(() => store.result(task), { code: "corrupt" });
  assert.equal(store.wholeResult(task), undefined);
  assert.equal(store.quarantined, 4);
  await store[Symbol.asyncDispose]();
  for (const key of [payloadKey(long), resultKey(long)]) {
    const stored = world.contents.get(key)?.toString("latin1");
    assert.equal(textOf(world.contents, `codeq/quarantine/${key}`, "latin1"), stored);
  }
});

test("a payload that is missing is a fault of the data, never another payload", async () => {
  const { world, long, open } = await setup();
  world.contents.delete(payloadKey(long));
  const store = await open();
  assert.throws(() => store.payload(store.task(long)!), { code: "corrupt" });
  assert.equal(store.wholePayload(store.task(long)!), undefined);
});

test("what is short travels with the task, what is long has a key of its own", async () => {
  const { world, done, long, open } = await setup();
  assert.equal(world.contents.get(payloadKey(done)), undefined);
  assert.equal(world.contents.get(resultKey(done)), undefined);
  assert.equal(textOf(world.contents, payloadKey(long)), longJson);
  const store = await open();
  assert.equal(store.payload(store.task(long)!), longJson);
  assert.equal(store.result(store.task(long)!)?.resultJson, longJson);
  assert.equal(store.result(store.task(done)!)?.resultJson, success.result.json);
});

test("a commit is read at once, and durable when its group is", async () => {
  const world = new BrokerWorld();
  const store = await world.openStore();
  const gate = Promise.withResolvers<void>();
  world.disk.slow("sync", gate.promise);
  const before = taskAt(1);
  store.commit([created(before)]);
  const after: Task = { ...before, attempts: 7 };
  store.commit([changeOf(before, after, "nacked")]);
  assert.equal(store.task(before.id)?.attempts, 7);
  const durable = store.whenDurable(before.id);
  assert.ok(durable !== undefined);
  assert.equal(await standing(durable), "pending");
  gate.resolve();
  await durable;
  assert.equal(store.whenDurable(before.id), undefined);
  assert.equal(store.whenDurable(idAt(2)), undefined);
});

test("the newest state of a task is read from memory, from the tables and after a restart", async () => {
  const world = new BrokerWorld();
  let store = await world.openStore();
  let task = taskAt(1);
  store.commit([created(task)]);
  for (let attempts = 1; attempts < 6; attempts += 1) {
    const after: Task = { ...task, attempts, error: "x".repeat(attempts) };
    store.commit([changeOf(task, after, "nacked")]);
    task = after;
    if (attempts === 2) await store.flushNow();
    if (attempts === 3) {
      await store[Symbol.asyncDispose]();
      store = await world.openStore();
    }
    if (attempts === 4) {
      await settle();
      world.disk = world.disk.crash("process");
      store = await world.openStore();
    }
    assert.deepEqual(store.task(task.id), task);
  }
});

test("everything that a change brings along is written with it, and goes with the task", async () => {
  const store = await empty();
  const task = taskAt(1, { payload: undefined, idempotencyKey: "k", webhook: "http://x" });
  await store.commit([created(task, { payload: longJson, payloadHash: "h" })]).done;
  assert.deepEqual(await keysOfTasks(store), [
    "codeq/bytes/acme",
    idempotencyKeyOf(acme, "k"),
    payloadKey(task.id),
    `codeq/q/work/acme/pending/9/00000000000001/${task.id}`,
    taskKey(task.id),
  ]);
  const ended: Task = { ...task, place: done(2000, 9000) };
  const result = { json: longJson, artifacts: [] };
  await store.commit([{ ...changeOf(task, ended, "finished"), result }]).done;
  const [job] = await webhooksOf(store);
  assert.deepEqual(job, jobOf({ dueMs: 2000, id: task.id, tries: 0 }));
  assert.equal(store.result(ended)?.resultJson, longJson);
  store.endWebhooks([job as WebhookJob]);
  await store.commit([changeOf(ended, undefined, "deleted")]).done;
  assert.deepEqual(await keysOfTasks(store), []);
  assert.equal(store.idempotency(acme, "k"), undefined);
  assert.equal(store.storedBytes(acme), 0);
});

test("whatever a task went through, its removal leaves nothing, flushed in between or not", async () => {
  const anyStep = fc.record({ place: anyPlace, flushes: fc.boolean() });
  await fc.assert(
    fc.asyncProperty(
      anyTask,
      fc.array(anyStep, { maxLength: 5 }),
      anyResult,
      fc.boolean(),
      async (any, steps, result, isApart) => {
        const store = await empty();
        const plain: Task = { ...any, webhook: "", result: undefined, storedBytes: 7 };
        let task: Task = { ...plain, place: { in: "ready", seq: 1 } };
        const payload = task.payload === undefined ? "[]" : undefined;
        store.commit([created(task, { payload, payloadHash: "h" })]);
        for (const { place, flushes } of steps) {
          if (place.in === "done" || place.in === "dead") continue;
          const after: Task = { ...task, place };
          store.commit([changeOf(task, after, "promoted")]);
          task = after;
          if (flushes) await store.flushNow();
        }
        const ended: Task = {
          ...task,
          result: isApart ? undefined : result,
          place: done(1, 2),
        };
        const change = changeOf(task, ended, "finished");
        store.commit([{ ...change, result: isApart ? result : undefined }]);
        assert.deepEqual(store.result(ended)?.artifacts, result.artifacts);
        assert.equal(store.storedBytes(task.tenantId), 7);
        await store.commit([changeOf(ended, undefined, "deleted")]).done;
        assert.deepEqual(await keysOfTasks(store), []);
        await store.flushNow();
        assert.deepEqual(await keysOfTasks(store), []);
        assert.deepEqual(await entriesUnder(store, "codeq/lane-counts/"), []);
        assert.equal(store.task(task.id), undefined);
      },
    ),
    { numRuns: 60 },
  );
});

test("several changes are one: all of them are there after a crash, or none", async () => {
  for (const isDurable of [false, true]) {
    const world = new BrokerWorld();
    const store = await world.openStore();
    await settle();
    if (!isDurable) world.disk.slow("write", new Promise(() => {}));
    const tasks = [taskAt(1), taskAt(2, { payload: undefined }), taskAt(3)];
    store.commit(tasks.map((task) => created(task, { payload: task.payload ? undefined : "[]" })));
    await settle();
    world.disk = world.disk.crash("process");
    const again = await world.openStore();
    assert.deepEqual(
      tasks.map(({ id }) => again.task(id)),
      isDurable ? tasks : [undefined, undefined, undefined],
    );
  }
});

test("what a full disk undid is gone, also its bytes, and whoever decided on it is told", async () => {
  const world = new BrokerWorld();
  const store = await world.openStore();
  const kept = taskAt(1);
  await store.commit([created(kept)]).done;
  let told = 0;
  store.onRollback = () => {
    told += 1;
    assert.equal(store.task(idAt(2)), undefined);
    assert.equal(store.storedBytes(acme), 2);
    return Promise.resolve();
  };
  world.disk.failNext("write", "ENOSPC");
  const refused = store.commit([created(taskAt(2))]);
  assert.equal(store.storedBytes(acme), 4);
  await assert.rejects(refused.done, { code: "disk_full" });
  await settle();
  assert.equal(told, 1);
  assert.deepEqual(store.task(kept.id), kept);
});

test("ready tasks come by sequence, of their priority alone, behind what is known", async () => {
  for (const isFlushed of [false, true]) {
    const store = await empty();
    const tasks = [5, 1, 3, 2, 4].map((number) => taskAt(number));
    const others = [
      taskAt(6, { priority: 1 }),
      taskAt(7, { command: "other" }),
      taskAt(8, { tenantId: umbrella }),
      taskAt(9, { place: { in: "delayed", dueMs: 5 } }),
    ];
    store.commit([...tasks, ...others].map((task) => created(task)));
    if (isFlushed) await store.flushNow();
    const bucket = { name: "work", tenantId: acme, priority: 0 };
    const numbers = async (after: number, limit: number): Promise<number[]> =>
      (await store.readyAfter(bucket, after, limit)).map(({ number }) => number);
    assert.deepEqual(await numbers(0, 99), [1, 2, 3, 4, 5]);
    assert.deepEqual(await numbers(2, 2), [3, 4]);
    assert.deepEqual(await numbers(5, 99), []);
    assert.equal((await store.readyAfter(bucket, 0, 1))[0]?.id, idAt(1));
    assert.deepEqual(await store.readyAfter({ ...bucket, priority: 1 }, 0, 9), [
      { number: 6, id: idAt(6) },
    ]);
  }
});

test("a ready task that was set aside is not ready any more, nor counted", async () => {
  const world = new BrokerWorld();
  let store = await world.openStore();
  store.commit([1, 2, 3, 4].map((number) => created(taskAt(number))));
  await store[Symbol.asyncDispose]();
  world.contents.set(taskKey(idAt(3)), Buffer.from("bad"));
  store = await world.openStore();
  const bucket = { name: "work", tenantId: acme, priority: 0 };
  assert.equal(store.task(idAt(3)), undefined);
  store.setAsideReady(bucket, { number: 3, id: idAt(3) });
  for (let round = 0; round < 2; round += 1) {
    const found = await store.readyAfter(bucket, 0, 9);
    assert.deepEqual(
      found.map(({ number }) => number),
      [1, 2, 4],
    );
    assert.equal((await store.counts()).queues[0]?.counts.ready[0], 3);
    await store.flushNow();
  }
  await store[Symbol.asyncDispose]();
  assert.equal(world.contents.get(taskKey(idAt(3)))?.toString(), "bad");
});

test("delayed tasks come by when they are due, then by id, behind a position", async () => {
  const store = await empty();
  const at = (number: number, dueMs: number): Task =>
    taskAt(number, { place: { in: "delayed", dueMs } });
  store.commit([at(1, 30), at(2, 10), at(4, 20), at(3, 20)].map((task) => created(task)));
  store.commit([created(taskAt(5))]);
  const queue = { name: "work", tenantId: acme };
  const all = await store.delayedAfter(queue, undefined, 99);
  assert.deepEqual(
    all.map(({ number, id }) => [number, id]),
    [
      [10, idAt(2)],
      [20, idAt(3)],
      [20, idAt(4)],
      [30, idAt(1)],
    ],
  );
  assert.deepEqual(await store.delayedAfter(queue, all[1], 1), [all[2]]);
  const first = { number: 20, id: "" as TaskId };
  assert.deepEqual(await store.delayedAfter(queue, first, 99), all.slice(1));
  assert.deepEqual(await store.delayedAfter({ ...queue, name: "other" }, undefined, 9), []);
});

test("leased tasks are those of the queue, and what cannot be read is left out", async () => {
  const world = new BrokerWorld();
  let store = await world.openStore();
  const place = {
    in: "leased",
    workerId: "w" as WorkerId,
    untilMs: 9,
    leaseMs: 5,
    sinceMs: 4,
  } as const;
  const tasks = [taskAt(1, { place }), taskAt(2, { place }), taskAt(3, { place })];
  store.commit([...tasks, taskAt(4), taskAt(5, { place, command: "x" })].map((t) => created(t)));
  await store[Symbol.asyncDispose]();
  world.contents.set(taskKey(idAt(2)), Buffer.from("bad"));
  store = await world.openStore();
  const found: Task[] = [];
  for await (const task of store.leased({ name: "work", tenantId: acme })) found.push(task);
  assert.deepEqual(found, [tasks[0], tasks[2]]);
  assert.equal(store.quarantined, 1);
});

test("ended tasks are found when their time is over, with whose they are, and never the others", async () => {
  for (const isFlushed of [false, true]) {
    const store = await empty();
    const tasks = [
      taskAt(1, { place: done(1, 300) }),
      taskAt(2, { place: done(1, 100), tenantId: umbrella }),
      taskAt(3, { place: { in: "dead", atMs: 1, expiresMs: 200 } }),
      taskAt(4, { place: { in: "dead", atMs: 1, expiresMs: undefined } }),
      taskAt(5),
    ];
    store.commit(tasks.map((task) => created(task)));
    if (isFlushed) await store.flushNow();
    const ids = async (untilMs: number): Promise<TaskId[]> =>
      (await store.dueAfter("expired", { after: undefined, untilMs, limit: 99 })).map(
        ({ id }) => id,
      );
    assert.deepEqual(await ids(99), []);
    assert.deepEqual(await ids(100), [idAt(2)]);
    assert.deepEqual(await ids(299), [idAt(2), idAt(3)]);
    assert.deepEqual(await ids(Number.POSITIVE_INFINITY), [idAt(2), idAt(3), idAt(1)]);
    const [first] = await store.dueAfter("expired", { after: undefined, untilMs: 300, limit: 1 });
    assert.deepEqual(await store.dueAfter("expired", { after: first, untilMs: 300, limit: 1 }), [
      { number: 200, id: idAt(3) },
    ]);
    assert.deepEqual(await store.expiredWithOwners({ after: first, untilMs: 300, limit: 9 }), [
      { number: 200, id: idAt(3), tenantId: "acme" },
      { number: 300, id: idAt(1), tenantId: "acme" },
    ]);
    assert.equal(
      (await store.expiredWithOwners({ after: undefined, untilMs: 100, limit: 9 }))[0]?.tenantId,
      "umbrella",
    );
  }
});

test("counts and the sequence are the same before, during and after a flush, and after a restart", async () => {
  const world = new BrokerWorld();
  let store = await world.openStore();
  const place = { in: "leased", workerId: worker, untilMs: 9, leaseMs: 5, sinceMs: 4 } as const;
  store.commit([created(taskAt(1)), created(taskAt(2, { place })), created(taskAt(41))]);
  store.commit([created(taskAt(3, { tenantId: "" as TenantId, priority: 9 }))]);
  const check = async (): Promise<void> => {
    const { queues, sequence } = await store.counts();
    const found = queues
      .map(({ queue, tenantId, counts }) => [queue, tenantId, counts.ready, counts.leased])
      .sort();
    assert.deepEqual(found, [
      ["work", "", [0, 0, 0, 0, 0, 0, 0, 0, 0, 1], 0],
      ["work", "acme", [2, 0, 0, 0, 0, 0, 0, 0, 0, 0], 1],
    ]);
    assert.equal(sequence, 41);
  };
  await check();
  const gate = Promise.withResolvers<void>();
  world.beforeWrite = () => gate.promise;
  const flushing = store.flushNow();
  await settle();
  const counting = check();
  gate.resolve();
  await Promise.all([flushing, counting]);
  await check();
  await store[Symbol.asyncDispose]();
  store = await world.openStore();
  await check();
});

test("webhooks come in the order in which they are due, and again when they are put off", async () => {
  const store = await empty();
  const ending = (number: number, atMs: number): Change => {
    const task = taskAt(number, { webhook: "http://x" });
    store.commit([created(task)]);
    return changeOf(task, { ...task, place: done(atMs, 9000) }, "finished");
  };
  store.commit([ending(1, 30), ending(2, 10)]);
  const buried = taskAt(3, { webhook: "http://x" });
  store.commit([created(buried)]);
  const grave = { in: "dead", atMs: 20, expiresMs: undefined } as const;
  store.commit([changeOf(buried, { ...buried, place: grave, result: emptyResult }, "nacked")]);
  const all = await webhooksOf(store);
  assert.deepEqual(all, [
    jobOf({ dueMs: 10, id: idAt(2), tries: 0 }),
    jobOf({ dueMs: 20, id: idAt(3), tries: 0 }),
    jobOf({ dueMs: 30, id: idAt(1), tries: 0 }),
  ]);
  const [first, second, third] = all as [WebhookJob, WebhookJob, WebhookJob];
  const behind = { after: first.key, before: lastWebhook };
  assert.deepEqual(await store.webhooks(behind, 1), [second]);
  assert.deepEqual(await store.webhooks({ after: webhooksFrom(21), before: lastWebhook }, 9), [
    third,
  ]);
  assert.ok(store.hasWebhook(first));
  store.endWebhooks([first], { dueMs: 25, id: first.id, tries: 1 });
  store.endWebhooks([second]);
  assert.ok(!store.hasWebhook(first));
  await store.flushNow();
  assert.deepEqual(await webhooksOf(store), [
    jobOf({ dueMs: 25, id: idAt(2), tries: 1 }),
    jobOf({ dueMs: 30, id: idAt(1), tries: 0 }),
  ]);
});

test("a task that waits for a webhook is not told twice by a change after its end", async () => {
  const store = await empty();
  const task = taskAt(1);
  store.commit([created(task)]);
  const ended: Task = { ...task, place: done(5, 9) };
  store.commit([changeOf(task, ended, "finished")]);
  assert.deepEqual(await webhooksOf(store), []);
});

test("reading ahead changes nothing of what is read", async () => {
  const world = new BrokerWorld();
  let store = await world.openStore();
  const [short, long] = [taskAt(1), taskAt(2, { payload: undefined })];
  store.commit([created(short), created(long, { payload: longJson })]);
  await store[Symbol.asyncDispose]();
  store = await world.openStore();
  await store.readAhead([short.id, long.id, idAt(3)]);
  assert.deepEqual([store.task(short.id), store.task(long.id)], [short, long]);
  assert.equal(store.payload(long), longJson);
  const after: Task = { ...long, attempts: 3 };
  await store.readAhead([long.id]);
  store.commit([changeOf(long, after, "nacked")]);
  await store.readAhead([long.id]);
  assert.deepEqual(store.task(long.id), after);
  await store.flushNow();
  assert.deepEqual(store.task(long.id), after);
});

test("a closed store takes nothing, and says why", async () => {
  const store = await empty();
  await store[Symbol.asyncDispose]();
  assert.equal(store.state, "closed");
  assert.throws(() => store.assertWritable(), { code: "closed" });
  assert.throws(() => store.commit([created(taskAt(1))]), { code: "closed" });
  assert.equal(store.storedBytes(acme), 0);
});
