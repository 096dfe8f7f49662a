/** Contract 3.3 and 3.7: how a session begins, who a worker is (S4), and when its token ends it (S8). */
import assert from "node:assert/strict";
import test from "node:test";
import { until } from "../contract/setup.ts";
import { type Fields, workerStream } from "./messages.ts";
import { setup } from "./setup.ts";

test("both services answer on both ports, with a HelloAck as the first message", async (t) => {
  const server = await setup(t);
  for (const port of ["worker", "producer"] as const) {
    const worker = server.open("worker", port);
    assert.deepEqual(await worker.ask({ hello: { token: "worker-acme", workerId: "w-7" } }), {
      helloAck: { workerId: "w-7", tenantId: "acme" },
    });
    const producer = server.open("producer", port);
    assert.deepEqual(await producer.ask({ hello: { token: "producer-acme" } }), {
      helloAck: { tenantId: "acme", subject: "shop" },
    });
    const created = await producer.ask({ create: { seq: 1, command: `on-${port}` } });
    const { task } = await worker.ask({ ready: { commands: [`on-${port}`] } });
    assert.equal(task.task.id, created["createAck"].taskId);
  }
});

test("a Hello with a bad token ends the worker stream, and says why", async (t) => {
  const server = await setup(t);
  for (const [token, code, details] of [
    ["", "UNAUTHENTICATED", "auth failed: missing token"],
    ["  ", "UNAUTHENTICATED", "auth failed: missing token"],
    ["nonsense", "UNAUTHENTICATED", "auth failed: invalid token"],
    ["producer-acme", "UNAUTHENTICATED", "auth failed: invalid token"],
    ["worker-no-types", "UNAUTHENTICATED", "auth failed: missing eventTypes"],
    ["worker-no-scopes", "UNAUTHENTICATED", "auth failed: missing scope"],
    ["worker-number-tenant", "PERMISSION_DENIED", "invalid tenant claims"],
  ] as const) {
    const call = server.open("worker");
    call.send({ hello: { token, workerId: "w" } });
    assert.deepEqual(await call.ended, { code, details }, token);
    assert.deepEqual(call.unread, [], token);
  }
});

test("a Hello with a bad token ends the producer stream, and says why", async (t) => {
  const server = await setup(t);
  for (const [token, code, details] of [
    ["", "UNAUTHENTICATED", "missing token"],
    ["\t\n", "UNAUTHENTICATED", "missing token"],
    ["nonsense", "UNAUTHENTICATED", "auth failed: invalid token"],
    ["worker-acme", "UNAUTHENTICATED", "auth failed: invalid token"],
    ["producer-upper-tenant", "PERMISSION_DENIED", "invalid tenant claims"],
  ] as const) {
    const call = server.open("producer");
    call.send({ hello: { token } });
    assert.deepEqual(await call.ended, { code, details }, token);
    assert.deepEqual(call.unread, [], token);
  }
});

test("spaces around the token and the worker id do not count", async (t) => {
  const server = await setup(t);
  const call = server.open("worker");
  const hello = { token: " worker-acme\n", workerId: "  w 7\t" };
  assert.deepEqual(await call.ask({ hello }), {
    helloAck: { workerId: "w 7", tenantId: "acme" },
  });
});

test("without a worker id, or with one of spaces, the subject of the token is the name", async (t) => {
  const server = await setup(t);
  for (const workerId of ["", "   ", "worker-1"]) {
    const call = server.open("worker");
    const { helloAck } = await call.ask({ hello: { token: "worker-acme", workerId } });
    assert.equal(helloAck.workerId, "worker-1");
  }
});

test("a producer's token may work when the server allows it", async (t) => {
  const server = await setup(t, { settings: { allowProducerAsWorker: true } });
  const call = server.open("worker");
  assert.deepEqual(await call.ask({ hello: { token: "producer-acme" } }), {
    helloAck: { workerId: "shop", tenantId: "acme" },
  });
  const id = await server.api.create();
  const { task } = await call.ask({ ready: {} });
  assert.equal(task.task.id, id);
});

test("a session that begins with anything but a Hello is ended", async (t) => {
  const server = await setup(t);
  const end = { code: "FAILED_PRECONDITION", details: "first event must be Hello" };
  const firsts: readonly (readonly ["worker" | "producer", Fields])[] = [
    ["worker", { ready: {} }],
    ["worker", { result: { taskId: "x", status: "COMPLETED" } }],
    ["worker", {}],
    ["producer", { create: { seq: 1, command: "render" } }],
    ["producer", { createBatch: { tasks: [{ seq: 1, command: "render" }] } }],
    ["producer", {}],
  ];
  for (const [kind, event] of firsts) {
    const call = server.open(kind);
    call.send(event);
    assert.deepEqual(await call.ended, end);
  }
  assert.equal((await server.api.stats()).ready, 0);
});

test("nothing that stands behind a refused Hello is done", async (t) => {
  const server = await setup(t);
  const call = server.open("producer");
  const create = { create: { seq: 1, command: "render" } };
  call.send(
    { hello: { token: "nonsense" } },
    create,
    { hello: { token: "producer-acme" } },
    create,
  );
  assert.equal((await call.ended).code, "UNAUTHENTICATED");
  assert.equal((await server.api.stats()).ready, 0);
});

test("what stands behind an accepted Hello is done in its order", async (t) => {
  const server = await setup(t);
  const call = server.open("producer");
  call.send({ hello: { token: "producer-acme" } });
  for (let seq = 1; seq <= 20; seq += 1) call.send({ create: { seq, command: "render" } });
  const [first, ...acks] = await call.take(21);
  assert.ok(first?.["helloAck"] !== undefined);
  assert.deepEqual(
    acks.map(({ createAck }) => createAck.seq),
    Array.from({ length: 20 }, (_, index) => String(index + 1)),
  );
});

test("a second Hello is refused, and the session goes on as whom it began", async (t) => {
  const server = await setup(t);
  const refused = { code: "FailedPrecondition", message: "already-authenticated" };
  const worker = await server.worker("worker-acme", "w-7");
  assert.deepEqual(await worker.ask({ hello: { token: "worker-globex", workerId: "other" } }), {
    error: refused,
  });
  const producer = await server.producer();
  assert.deepEqual(await producer.ask({ hello: { token: "producer-globex" } }), {
    error: refused,
  });
  producer.send({ create: { seq: 1, command: "render" } });
  const { task } = await worker.ask({ ready: {} });
  assert.deepEqual([task.task.tenantId, task.task.workerId], ["acme", "w-7"]);
});

test("an event without content, or of a kind that is unknown, is refused", async (t) => {
  const server = await setup(t);
  const refused = { code: "InvalidArgument", message: "unknown-event" };
  // Field 15 with an empty message in it.
  const unknown = Buffer.from("7a00", "hex");
  for (const call of [await server.worker(), await server.producer()]) {
    assert.deepEqual(await call.ask({}), { error: refused });
    assert.deepEqual(await call.ask(unknown), { error: refused });
    await call.expectSilence();
  }
});

test("a token that cannot be checked ends its own stream as an internal error, and is logged", async (t) => {
  const server = await setup(t);
  const other = await server.worker();
  const { authenticator } = server.api.core;
  authenticator.authenticate = () => Promise.reject(new Error("broken on purpose"));
  for (const kind of ["worker", "producer"] as const) {
    const call = server.open(kind);
    call.send({ hello: { token: `${kind}-acme` } });
    assert.deepEqual(await call.ended, { code: "INTERNAL", details: "internal error" });
  }
  const bugs = server.takeBugs();
  assert.equal(bugs.length, 2);
  for (const line of bugs) assert.match(line, /broken on purpose/);
  for (const line of bugs) assert.doesNotMatch(line, /-acme/);
  await other.expectSilence();
});

test("a stream without a Hello is ended after 10 seconds", async (t) => {
  const server = await setup(t);
  for (const kind of ["worker", "producer"] as const) {
    const silent = server.open(kind);
    const late = server.open(kind);
    await until(() => server.grpc[kind].streams === 2);
    await server.pass(9999);
    const token = `${kind}-acme`;
    assert.ok((await late.ask({ hello: { token } }))["helloAck"] !== undefined);
    await server.pass(1);
    const end = { code: "DEADLINE_EXCEEDED", details: "no Hello in time" };
    assert.deepEqual(await silent.ended, end);
    await server.pass(20_000);
    await late.expectSilence();
    late.close();
    await until(() => server.grpc[kind].streams === 0);
  }
});

test("a stream that is closed before its Hello ends with OK", async (t) => {
  const server = await setup(t);
  for (const kind of ["worker", "producer"] as const) {
    const call = server.open(kind);
    call.halfClose();
    assert.deepEqual(await call.ended, { code: "OK", details: "" });
  }
});

test("a Hello with the half-close right behind it is answered before the end", async (t) => {
  const server = await setup(t);
  const call = server.open("worker");
  call.send({ hello: { token: "worker-acme" } });
  call.halfClose();
  assert.ok((await call.next())["helloAck"] !== undefined);
  assert.deepEqual(await call.ended, { code: "OK", details: "" });
});

test("S4: a task shows the worker's name as it was sent", async (t) => {
  const server = await setup(t);
  const name = "~büro@7/%40";
  const call = await server.worker("worker-acme", name);
  await server.api.create();
  const { task } = await call.ask({ ready: {} });
  assert.equal(task.task.workerId, name);
});

test("S4: a worker id belongs to the token that used it, not to whoever says it", async (t) => {
  const server = await setup(t);
  await server.api.create();
  const owner = await server.worker("worker-acme", "w-7");
  const { task } = await owner.ask({ ready: {} });
  const { id, leaseToken } = task.task;
  const stored = await server.api.core.shard.get("acme" as never, id);
  const inside = stored?.task.place.in === "leased" ? stored.task.place.workerId : "";

  const strangers = [
    ["worker-acme-2", "w-7", "not-owner"],
    ["worker-acme-2", "worker-1", "not-owner"],
    ["worker-acme-2", inside, "not-owner"],
    ["worker-acme", "w-8", "not-owner"],
    ["worker-acme", "", "not-owner"],
    ["worker-globex", "w-7", "not-found"],
    ["worker-globex", inside, "not-found"],
  ] as const;
  for (const [token, workerId, refusal] of strangers) {
    const call = await server.worker(token, workerId);
    const nacked = await call.ask({ nack: { taskId: id, leaseToken } });
    assert.deepEqual([nacked["nackAck"].ok, nacked["nackAck"].errorMessage], [false, refusal]);
    const beat = await call.ask({ heartbeat: { taskId: id } });
    assert.equal(beat["heartbeatAck"].errorMessage, refusal);
    const abandoned = await call.ask({ abandon: { taskId: id } });
    assert.equal(abandoned["abandonAck"].errorMessage, refusal);
    const done = await call.ask({ result: { taskId: id, status: "COMPLETED" } });
    const expected = refusal === "not-found" ? "task not found" : refusal;
    assert.equal(done["resultAck"].errorMessage, expected);
  }
  // A stream that comes back with the same token and name is the same worker.
  const again = await server.worker("worker-acme", "w-7");
  const { resultAck } = await again.ask({ result: { taskId: id, status: "COMPLETED" } });
  assert.deepEqual(resultAck, { taskId: id, ok: true, errorMessage: "" });
});

test("S4: a name that is longer than a name is refused", async (t) => {
  const server = await setup(t);
  const longest = "é".repeat(256);
  const accepted = server.open("worker");
  const { helloAck } = await accepted.ask({ hello: { token: "worker-acme", workerId: longest } });
  assert.equal(helloAck.workerId, longest);
  const refused = server.open("worker");
  refused.send({ hello: { token: "worker-acme", workerId: `${longest}x` } });
  assert.deepEqual(await refused.ended, {
    code: "INVALID_ARGUMENT",
    details: "worker_id is longer than 256 characters",
  });
});

test("S8: a token that expires ends its stream 30 seconds later", async (t) => {
  const server = await setup(t);
  for (const kind of ["worker", "producer"] as const) {
    const call = server.open(kind);
    assert.ok((await call.ask({ hello: { token: `${kind}-expires` } }))["helloAck"] !== undefined);
  }
  const worker = await server.worker("worker-expires");
  const producer = await server.producer("producer-expires");
  const lasting = await server.worker();
  // The token ends at a whole second, the time of the test begins at 120 ms.
  await server.pass(89_879);
  const create = { create: { seq: 1, command: "render" } };
  assert.equal((await producer.ask(create))["createAck"].ok, true);
  await worker.expectSilence();
  await server.pass(1);
  const end = { code: "UNAUTHENTICATED", details: "token is expired" };
  assert.deepEqual(await worker.ended, end);
  assert.deepEqual(await producer.ended, end);
  await lasting.expectSilence();
});

test("S8: a token that has expired already is refused, without a grace", async (t) => {
  const server = await setup(t);
  await server.pass(59_879);
  const early = server.open("worker");
  assert.ok((await early.ask({ hello: { token: "worker-expires" } }))["helloAck"] !== undefined);
  await server.pass(1);
  for (const kind of ["worker", "producer"] as const) {
    const call = server.open(kind);
    call.send({ hello: { token: `${kind}-expires` } });
    const end = { code: "UNAUTHENTICATED", details: "auth failed: token is expired" };
    assert.deepEqual(await call.ended, end);
  }
});

test("S8: a Ready is not served for a stream that its token has ended", async (t) => {
  const server = await setup(t);
  const { encode, path } = workerStream;
  const call = server.raw("worker").call(path);
  call.send(encode({ hello: { token: "worker-expires" } }));
  // It does not read the first task, so that its stream cannot close before the second one comes.
  const first = await server.api.create({ payload: "x".repeat(200_000) });
  call.send(encode({ ready: { leaseSeconds: 3600 } }), encode({ ready: {} }));
  await server.untilWaiting(1);
  assert.equal((await server.api.task(first)).status, "IN_PROGRESS");
  await server.pass(89_880);
  assert.equal(server.grpc.worker.streams, 1);
  const second = await server.api.create();
  assert.equal((await server.api.task(second)).status, "PENDING");
});

test("S8: a wall clock that is set back does not end a stream before its token", async (t) => {
  const server = await setup(t);
  const call = await server.worker("worker-expires");
  server.api.clock.stepWall(-600_000);
  await server.pass(600_000);
  await call.expectSilence();
  await server.pass(90_000);
  assert.equal((await call.ended).code, "UNAUTHENTICATED");
});
