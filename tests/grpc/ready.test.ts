/** Contract 3.4: a Ready is held until it is served, in its turn, with what was asked for. */
import assert from "node:assert/strict";
import test from "node:test";
import type { Call } from "./call.ts";
import type { Fields, Reply } from "./messages.ts";
import { type Server, setup } from "./setup.ts";

const mebibyte = 1024 * 1024;

function secondsOf(ms: number): { seconds: string; nanos: number } {
  return { seconds: String(Math.floor(ms / 1000)), nanos: (ms % 1000) * 1_000_000 };
}

test("a task comes with every field", async (t) => {
  const server = await setup(t);
  const { clock } = server.api;
  const createdAt = secondsOf(clock.nowMs());
  const webhook = "https://example.com/x";
  const tags = ["red"];
  const rest = { priority: 4, webhook, maxAttempts: 7, tags, timeoutSeconds: 300 };
  const fields = { command: "Render", payload: { a: [1] }, ...rest };
  const id = await server.api.create(fields);
  await server.pass(1500);
  const call = await server.worker("worker-acme", "w-7");
  const updatedAt = secondsOf(clock.nowMs());
  assert.deepEqual(
    await call.ask({ ready: { commands: ["render"], leaseSeconds: 60, count: 1 } }),
    {
      task: {
        task: {
          id,
          command: "Render",
          payload: Buffer.from('{"a":[1]}'),
          priority: 4,
          scheduleId: "",
          scheduledForMs: "0",
          webhook,
          maxAttempts: 7,
          status: "IN_PROGRESS",
          workerId: "w-7",
          attempts: 0,
          leaseUntil: "2026-01-02T03:05:06Z",
          tenantId: "acme",
          createdAt,
          updatedAt,
          leaseToken: "1",
          tags,
          timeoutSeconds: 300,
          batchId: "",
          isBatchCallback: false,
          batchSucceeded: "0",
          batchFailed: "0",
          batchCancelled: "0",
          lane: "",
          cost: 1,
        },
      },
    },
  );
});

test("up to one task is answered with an assignment, more with a batch, also of one", async (t) => {
  const server = await setup(t);
  const call = await server.worker();
  for (const count of [0, 1, -1, -2_147_483_648]) {
    const id = await server.api.create();
    const reply = await call.ask({ ready: { count } });
    assert.equal(reply["task"]?.task.id, id, String(count));
  }
  for (const count of [2, 10, 2_147_483_647]) {
    const id = await server.api.create();
    const reply = await call.ask({ ready: { count } });
    assert.deepEqual(
      reply["taskBatch"].tasks.map((task: Reply) => task["id"]),
      [id],
    );
  }
});

test("a batch has what is there, and the next Ready waits", async (t) => {
  const server = await setup(t);
  const ids = [];
  for (let made = 0; made < 5; made += 1) ids.push(await server.api.create());
  const call = await server.worker();
  const first = await call.ask({ ready: { count: 3 } });
  assert.deepEqual(
    first["taskBatch"].tasks.map((task: Reply) => task["id"]),
    ids.slice(0, 3),
  );
  const second = await call.ask({ ready: { count: 3 } });
  assert.deepEqual(
    second["taskBatch"].tasks.map((task: Reply) => task["id"]),
    ids.slice(3),
  );
  call.send({ ready: { count: 3 } });
  await server.untilWaiting(1);
  await call.expectSilence();
  const id = await server.api.create();
  const third = await call.next();
  assert.deepEqual(
    third["taskBatch"].tasks.map((task: Reply) => task["id"]),
    [id],
  );
});

test("P5: a count above the limit is served up to the limit", async (t) => {
  const server = await setup(t, { settings: { claimBatchMax: 20 } });
  const producer = await server.producer();
  const tasks = Array.from({ length: 30 }, (_, seq) => ({ seq, command: "render" }));
  await producer.ask({ createBatch: { tasks } });
  const call = await server.worker();
  const { taskBatch } = await call.ask({ ready: { count: 1_000_000 } });
  assert.equal(taskBatch.tasks.length, 20);
  const rest = await call.ask({ ready: { count: 1_000_000 } });
  assert.equal(rest["taskBatch"].tasks.length, 10);
});

test("P5: tasks that are large together come in several messages, none over 4 MiB", async (t) => {
  const server = await setup(t);
  const producer = await server.producer();
  // Two bytes each, so that bytes and characters differ.
  const payload = `"${"é".repeat(mebibyte / 2 - 1)}"`;
  for (let seq = 0; seq < 8; seq += 1) {
    const { createAck } = await producer.ask({ create: { seq, command: "render", payload } });
    assert.equal(createAck.ok, true);
  }
  const call = await server.worker();
  call.send({ ready: { count: 8 } });
  const sizes: number[] = [];
  let received = 0;
  // The client refuses more than 4 MiB, as all of them do.
  do {
    const { taskBatch } = await call.next();
    for (const task of taskBatch.tasks) assert.equal(task.payload.length, mebibyte);
    sizes.push(taskBatch.tasks.length);
    received += taskBatch.tasks.length;
  } while (received < (await server.api.stats()).inProgress);
  assert.ok(sizes.length > 1 && Math.max(...sizes) === 3, sizes.join());
  await call.expectSilence();
});

test("P5: the largest payloads, claimed by many Readys at once, all arrive", async (t) => {
  const server = await setup(t);
  const producer = await server.producer();
  const payload = `"${"x".repeat(mebibyte - 2)}"`;
  for (let seq = 0; seq < 24; seq += 1) {
    await producer.ask({ create: { seq, command: "render", payload } });
  }
  const call = await server.worker();
  call.send(...Array.from({ length: 24 }, () => ({ ready: {} })));
  const ids = new Set<string>();
  while (ids.size < 24) {
    const { task } = await nextInTime(server, call);
    assert.equal(task.task.attempts, 0);
    ids.add(task.task.id);
  }
  await call.expectSilence();
});

/** The next reply; Readys that had to be put off are tried again as time passes. */
async function nextInTime(server: Server, call: Call): Promise<Reply> {
  const reply = call.next();
  let isThere = false;
  void reply.finally(() => {
    isThere = true;
  });
  while (!isThere) await server.pass(500);
  return await reply;
}

test("P2: a Ready is held for as long as it takes, and nothing is sent meanwhile", async (t) => {
  const server = await setup(t);
  const single = await server.worker();
  const batch = await server.worker("worker-acme-2");
  single.send({ ready: {} });
  await server.untilWaiting(1);
  batch.send({ ready: { count: 5 } });
  await server.untilWaiting(2);
  await server.pass(600_000);
  await single.expectSilence();
  await batch.expectSilence();
  const first = await server.api.create();
  assert.equal((await single.next())["task"].task.id, first);
  const second = await server.api.create();
  assert.equal((await batch.next())["taskBatch"].tasks[0].id, second);
});

test("a Ready is served in the turn in which a delayed task becomes due", async (t) => {
  const server = await setup(t);
  const id = await server.api.create({ delaySeconds: 100 });
  const call = await server.worker();
  call.send({ ready: {} });
  await server.untilWaiting(1);
  await server.pass(99_999);
  assert.deepEqual(call.unread, []);
  await server.pass(1);
  assert.equal((await call.next())["task"].task.id, id);
});

test("a Ready that waits costs no timer", async (t) => {
  const server = await setup(t);
  const call = await server.worker();
  await server.pass(1000);
  const before = server.api.clock.timers;
  call.send(...Array.from({ length: 50 }, () => ({ ready: {} })));
  await server.untilWaiting(50);
  assert.equal(server.api.clock.timers, before);
});

test("a Ready asks for its commands, without regard to case and spaces", async (t) => {
  const server = await setup(t);
  const call = await server.worker();
  await server.api.create({ command: "other" });
  const id = await server.api.create({ command: "Render" });
  const { task } = await call.ask({ ready: { commands: ["", " RENDER ", "render", " "] } });
  assert.equal(task.task.id, id);
  call.send({ ready: { commands: ["render", "encode"] } });
  await server.untilWaiting(1);
  const encode = await server.api.create({ command: "encode" });
  assert.equal((await call.next())["task"].task.id, encode);
});

test("a Ready without commands gets what the token allows", async (t) => {
  const server = await setup(t);
  const limited = await server.worker("worker-render");
  limited.send({ ready: {} });
  await server.untilWaiting(1);
  const other = await server.api.create({ command: "other" });
  const render = await server.api.create({ command: "render" });
  assert.equal((await limited.next())["task"].task.id, render);
  const free = await server.worker();
  assert.equal((await free.ask({ ready: {} }))["task"].task.id, other);
});

test("a Ready that cannot be served is refused, and the stream goes on", async (t) => {
  const server = await setup(t);
  const tooMany = Array.from({ length: 257 }, (_, index) => `c${index}`);
  const cases: readonly (readonly [string, Fields, string, string])[] = [
    ["worker-render", { commands: ["other"] }, "PermissionDenied", "event type not allowed"],
    [
      "worker-render",
      { commands: ["render", "other"] },
      "PermissionDenied",
      "event type not allowed",
    ],
    ["worker-render", { commands: ["*"] }, "InvalidArgument", "invalid command"],
    ["worker-render", { commands: [" ", ""] }, "PermissionDenied", "event type not allowed"],
    ["worker-acme", { commands: [""] }, "PermissionDenied", "event type not allowed"],
    ["worker-acme", { commands: ["a/b"] }, "InvalidArgument", "invalid command"],
    ["worker-acme", { commands: tooMany }, "InvalidArgument", "invalid 'commands' (at most 256)"],
    [
      "worker-acme",
      { leaseSeconds: 86_401 },
      "InvalidArgument",
      "invalid 'leaseSeconds' (must be <= 86400)",
    ],
    ["worker-subscribes", {}, "PermissionDenied", "missing scope"],
  ];
  for (const [token, ready, code, message] of cases) {
    const call = await server.worker(token);
    assert.deepEqual(await call.ask({ ready }), { error: { message, code } });
    await call.expectSilence();
    call.close();
  }
  assert.equal(server.api.core.shard.claims.waiting.size, 0);
});

test("a lease of zero or less is the default one", async (t) => {
  const server = await setup(t, { settings: { defaultLeaseSeconds: 10 } });
  const call = await server.worker();
  for (const leaseSeconds of [0, -1, -2_147_483_648]) {
    await server.api.create();
    const { task } = await call.ask({ ready: { leaseSeconds } });
    assert.equal(task.task.leaseUntil, "2026-01-02T03:04:15Z");
  }
  await server.api.create();
  const { task } = await call.ask({ ready: { leaseSeconds: 86_400 } });
  assert.equal(task.task.leaseUntil, "2026-01-03T03:04:05Z");
});

test("Readys of one stream do not wait for each other", async (t) => {
  const server = await setup(t);
  const call = await server.worker();
  call.send({ ready: { commands: ["a"] } }, { ready: { commands: ["b"] } });
  await server.untilWaiting(2);
  const b = await server.api.create({ command: "b" });
  assert.equal((await call.next())["task"].task.id, b);
  const a = await server.api.create({ command: "a" });
  assert.equal((await call.next())["task"].task.id, a);
});

test("the Readys of several streams are served in the order in which they came", async (t) => {
  const server = await setup(t);
  const streams = [await server.worker(), await server.worker("worker-acme-2")];
  streams.push(await server.worker("worker-acme", "third"));
  const order = [2, 0, 0, 1, 2, 1, 0];
  for (const [index, at] of order.entries()) {
    streams[at]?.send({ ready: { commands: index % 2 === 0 ? ["render"] : [] } });
    await server.untilWaiting(index + 1);
  }
  const producer = await server.producer();
  const tasks = order.map((_, seq) => ({ seq, command: "render", payload: String(seq) }));
  await producer.ask({ createBatch: { tasks } });
  const served: number[] = [];
  for (const [at, stream] of streams.entries()) {
    const own = order.filter((each) => each === at).length;
    for (const { task } of await stream.take(own)) served[Number(String(task.task.payload))] = at;
  }
  assert.deepEqual(served, order);
});

test("workers on HTTP and on streams wait in the same line", async (t) => {
  const server = await setup(t);
  const stream = await server.worker();
  const served: string[] = [];
  const claims: Promise<unknown>[] = [];
  for (let index = 0; index < 8; index += 1) {
    if (index % 2 === 0) {
      stream.send({ ready: { commands: ["render"] } });
    } else {
      const claim = { commands: ["render"], waitSeconds: 30 };
      claims.push(
        server.api.claim(claim, "worker-acme-2").then(({ payload }) => {
          served[Number(payload)] = "http";
        }),
      );
    }
    await server.untilWaiting(index + 1);
  }
  for (let index = 0; index < 8; index += 1) await server.api.create({ payload: index });
  for (const { task } of await stream.take(4)) served[Number(String(task.task.payload))] = "stream";
  await Promise.all(claims);
  assert.deepEqual(served, [
    "stream",
    "http",
    "stream",
    "http",
    "stream",
    "http",
    "stream",
    "http",
  ]);
});

test("with a backlog, workers on HTTP and on streams take turns at the oldest tasks", async (t) => {
  const server = await setup(t);
  const stream = await server.worker();
  for (let index = 0; index < 10; index += 1) await server.api.create({ payload: index });
  const taken: number[] = [];
  for (let turn = 0; turn < 5; turn += 1) {
    const { task } = await stream.ask({ ready: {} });
    taken.push(Number(String(task.task.payload)));
    taken.push(Number((await server.api.claim({}, "worker-acme-2")).payload));
  }
  assert.deepEqual(taken, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
});

test("a task that comes back is served to whoever waits, with its attempt counted", async (t) => {
  const server = await setup(t);
  const { call, task } = await server.leased();
  const other = await server.worker("worker-acme-2");
  other.send({ ready: {} });
  await server.untilWaiting(1);
  await call.ask({ abandon: { taskId: task["id"] } });
  const { task: again } = await other.next();
  assert.deepEqual(
    [again.task.id, again.task.attempts, again.task.leaseToken, again.task.workerId],
    [task["id"], 1, "2", "worker-2"],
  );
});

test("a bug in the server is told as such, and ends neither the stream nor the server", async (t) => {
  const server = await setup(t);
  const call = await server.worker();
  const { shard } = server.api.core;
  const claim = shard.claim.bind(shard);
  shard.claim = () => assert.fail("broken on purpose");
  assert.deepEqual(await call.ask({ ready: {} }), {
    error: { code: "Internal", message: "internal error" },
  });
  shard.claim = claim;
  assert.equal(server.api.lines.filter((line) => line.includes("broken on purpose")).length, 1);
  const id = await server.api.create();
  assert.equal((await call.ask({ ready: {} }))["task"].task.id, id);
});

test("a bug that a task or a result meets costs only that one", async (t) => {
  const server = await setup(t);
  const { shard } = server.api.core;
  const enqueue = shard.enqueue.bind(shard);
  const submit = shard.submit.bind(shard);
  const producer = await server.producer();
  shard.enqueue = () => assert.fail("broken on purpose");
  const refused = await producer.ask({ create: { seq: 1, command: "render", payload: "1" } });
  assert.equal(refused["createAck"].errorMessage, "internal error");
  shard.enqueue = enqueue;
  const taken = await producer.ask({ create: { seq: 2, command: "render", payload: "1" } });
  const { taskId } = taken["createAck"];
  const worker = await server.worker();
  assert.equal((await worker.ask({ ready: {} }))["task"].task.id, taskId);
  const result = { result: { taskId, status: "COMPLETED" } };
  shard.submit = () => assert.fail("broken on purpose");
  assert.equal((await worker.ask(result))["resultAck"].errorMessage, "internal error");
  shard.submit = submit;
  assert.equal((await worker.ask(result))["resultAck"].ok, true);
});
