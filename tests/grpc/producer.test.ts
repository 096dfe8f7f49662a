/** Contract 3.7: what a producer stream takes, refuses and acknowledges. */
import assert from "node:assert/strict";
import test from "node:test";
import { startMs } from "../contract/setup.ts";
import type { Call } from "./call.ts";
import type { Fields, Reply } from "./messages.ts";
import { setup } from "./setup.ts";

const seqMax = "18446744073709551615";

async function create(call: Call, fields: Fields): Promise<Reply> {
  const { createAck } = await call.ask({ create: { command: "render", ...fields } });
  return createAck;
}

function timestamp(ms: number): { seconds: number; nanos: number } {
  return { seconds: Math.floor(ms / 1000), nanos: (ms % 1000) * 1_000_000 };
}

test("a task has every field that it was created with", async (t) => {
  const server = await setup(t);
  const call = await server.producer();
  const traceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const ack = await create(call, {
    seq: 7,
    command: " Render ",
    payload: '{ "n": 12345678901234567890 }',
    priority: 9,
    webhook: "https://example.com/hook?a=1",
    maxAttempts: 3,
    idempotencyKey: "key-1",
    traceParent,
    traceState: "vendor=1",
  });
  const { taskId } = ack;
  assert.deepEqual(ack, { seq: "7", ok: true, taskId, errorMessage: "" });
  const { id, command, payload, priority, webhook, maxAttempts, status, ...rest } =
    await server.api.task(taskId);
  assert.deepEqual(
    { id, command, payload, priority, webhook, maxAttempts, status },
    {
      id: taskId,
      command: "Render",
      payload: '{ "n": 12345678901234567890 }',
      priority: 9,
      webhook: "https://example.com/hook?a=1",
      maxAttempts: 3,
      status: "PENDING",
    },
  );
  assert.deepEqual(
    [rest.tenantId, rest.traceParent, rest.traceState],
    ["acme", traceParent, "vendor=1"],
  );
});

test("what was left out has its default", async (t) => {
  const server = await setup(t);
  const call = await server.producer();
  const { taskId } = await create(call, { seq: 0, maxAttempts: -4, priority: -1 });
  const { payload, priority = 0, maxAttempts, traceParent } = await server.api.task(taskId);
  assert.deepEqual([payload, priority, maxAttempts, traceParent], ["null", 0, 5, undefined]);
  const { taskId: high } = await create(call, { seq: 0, priority: 2_000_000_000 });
  assert.equal((await server.api.task(high)).priority, 9);
});

test("a trace context that is not one is left out", async (t) => {
  const server = await setup(t);
  const call = await server.producer();
  const { taskId } = await create(call, { traceParent: "nonsense", traceState: "a=1" });
  const { traceParent, traceState } = await server.api.task(taskId);
  assert.deepEqual([traceParent, traceState], [undefined, undefined]);
});

test("a trace state that could not be sent on as a header is left out", async (t) => {
  const server = await setup(t);
  const call = await server.producer();
  const traceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  for (const traceState of ["a=1\n", "a=\r\nx-role: ADMIN", "a=\0", "a=\u00e9", "a".repeat(513)]) {
    const { taskId } = await create(call, { traceParent, traceState });
    const task = await server.api.task(taskId);
    assert.deepEqual([task.traceParent, task.traceState], [traceParent, undefined]);
  }
});

test("the sequence number comes back exactly, whatever it is, also twice", async (t) => {
  const server = await setup(t);
  const call = await server.producer();
  for (const seq of ["0", "1", "9007199254740993", "9223372036854775808", seqMax, seqMax, "1"]) {
    assert.equal((await create(call, { seq }))["seq"], seq);
    assert.equal((await create(call, { seq, command: "" }))["seq"], seq);
  }
  const { createAckBatch } = await call.ask({
    createBatch: { tasks: [{ seq: seqMax, command: "render" }, { seq: seqMax }] },
  });
  assert.deepEqual(
    createAckBatch.acks.map((ack: Reply) => [ack["seq"], ack["ok"]]),
    [
      [seqMax, true],
      [seqMax, false],
    ],
  );
});

test("every fault of a task is told in its acknowledgement, and nothing is stored", async (t) => {
  const server = await setup(t);
  const call = await server.producer();
  const tooLate = startMs + 11 * 366 * 86_400_000;
  const cases: readonly (readonly [Fields, string])[] = [
    [{ command: "" }, "command is required"],
    [{ command: " \t" }, "command is required"],
    [{ command: "a/b" }, "invalid command"],
    [{ command: "x".repeat(129) }, "invalid command"],
    [{ delaySeconds: -1 }, "delaySeconds must be >= 0"],
    [{ delaySeconds: -2_147_483_648 }, "delaySeconds must be >= 0"],
    [{ delaySeconds: 2_147_483_647 }, "invalid 'delaySeconds' (must be <= 316224000)"],
    [{ webhook: "ftp://example.com" }, "invalid webhook url"],
    [{ webhook: "nonsense" }, "invalid webhook url"],
    [{ webhook: "http://%ff@example.com/" }, "invalid webhook url"],
    [{ maxAttempts: 1001 }, "invalid 'maxAttempts' (must be <= 1000)"],
    [{ idempotencyKey: "k".repeat(257) }, "invalid 'idempotencyKey' (at most 256 characters)"],
    [{ runAt: timestamp(tooLate) }, "invalid 'runAt' (at most 316224000 seconds ahead)"],
    [
      { runAt: { seconds: "9223372036854775807" } },
      "invalid 'runAt' (at most 316224000 seconds ahead)",
    ],
    [{ payload: `"${"x".repeat(1024 * 1024)}"` }, "payload is larger than 1048576 bytes"],
    [
      { payload: Buffer.from("22c3 28ff 22".replaceAll(" ", ""), "hex") },
      "invalid payload (must be UTF-8)",
    ],
  ];
  for (const [fields, errorMessage] of cases) {
    const ack = await create(call, { seq: 5, ...fields });
    assert.deepEqual(ack, { seq: "5", ok: false, taskId: "", errorMessage });
  }
  const tasks = cases.map(([fields], index) => ({ command: "render", seq: index, ...fields }));
  for (const part of [tasks.slice(0, 14), tasks.slice(14)]) {
    const { createAckBatch } = await call.ask({ createBatch: { tasks: part } });
    assert.deepEqual(
      createAckBatch.acks,
      part.map(({ seq }) => ({
        seq: String(seq),
        ok: false,
        taskId: "",
        errorMessage: cases[seq]?.[1],
      })),
    );
  }
  assert.equal((await server.api.stats()).ready, 0);
});

test("a batch is acknowledged in one message, in its order, each task for itself", async (t) => {
  const server = await setup(t);
  const call = await server.producer();
  const tasks = [3, 1, 2, 9].map((seq) => ({ seq, command: seq === 2 ? "" : `c${seq}` }));
  const { createAckBatch } = await call.ask({ createBatch: { tasks } });
  const { acks } = createAckBatch;
  assert.deepEqual(
    acks.map((ack: Reply) => [ack["seq"], ack["ok"], ack["errorMessage"]]),
    [
      ["3", true, ""],
      ["1", true, ""],
      ["2", false, "command is required"],
      ["9", true, ""],
    ],
  );
  for (const [index, command] of [
    [0, "c3"],
    [1, "c1"],
    [3, "c9"],
  ] as const) {
    assert.equal((await server.api.task(acks[index].taskId)).command, command);
  }
  await call.expectSilence();
});

test("a batch of thousands is one batch", async (t) => {
  const server = await setup(t);
  const call = await server.producer();
  const tasks = Array.from({ length: 3000 }, (_, seq) => ({ seq, command: "render" }));
  const { createAckBatch } = await call.ask({ createBatch: { tasks } });
  assert.deepEqual(
    createAckBatch.acks.map((ack: Reply) => [ack["seq"], ack["ok"]]),
    tasks.map(({ seq }) => [String(seq), true]),
  );
  assert.equal((await server.api.stats()).ready, 3000);
});

test("an empty batch is not answered", async (t) => {
  const server = await setup(t);
  const call = await server.producer();
  call.send({ createBatch: {} }, { createBatch: { tasks: [] } });
  await call.expectSilence();
});

test("a time in the past is now, one in the future is kept to the millisecond, and wins over the delay", async (t) => {
  const server = await setup(t);
  const call = await server.producer();
  for (const runAt of [timestamp(startMs), timestamp(0), { seconds: "-9223372036854775808" }]) {
    const { taskId } = await create(call, { runAt, delaySeconds: 50 });
    assert.equal((await server.api.task(taskId)).status, "PENDING");
  }
  assert.deepEqual((await server.api.stats()).ready, 3);
  await create(call, { command: "later", runAt: timestamp(startMs + 1501), delaySeconds: 1 });
  await create(call, { command: "delayed", delaySeconds: 2 });
  await create(call, { command: "exact", delaySeconds: 1, delayMs: 1400 });
  await server.pass(1399);
  assert.equal((await server.api.stats("exact")).ready, 0);
  await server.pass(1);
  assert.equal((await server.api.stats("exact")).ready, 1);
  await server.pass(100);
  assert.equal((await server.api.stats("later")).ready, 0);
  await server.pass(1);
  assert.equal((await server.api.stats("later")).ready, 1);
  await server.pass(498);
  assert.equal((await server.api.stats("delayed")).ready, 0);
  await server.pass(1);
  assert.equal((await server.api.stats("delayed")).ready, 1);
});

test("an idempotency key answers with the task it made, per tenant, and not for other work", async (t) => {
  const server = await setup(t);
  const call = await server.producer();
  const fields = { idempotencyKey: "k", payload: "1" };
  const first = await create(call, { ...fields, seq: 1 });
  const replay = await create(call, { ...fields, seq: 2 });
  assert.deepEqual(replay, { seq: "2", ok: true, taskId: first["taskId"], errorMessage: "" });
  for (const other of [{ payload: "2" }, { command: "other" }]) {
    const refused = await create(call, { ...fields, ...other, seq: 3 });
    const { errorMessage, ...rest } = refused;
    assert.match(String(errorMessage), /^idempotency key reused: "k" belongs to task /);
    assert.deepEqual(rest, { seq: "3", ok: false, taskId: "" });
  }
  const stranger = await server.producer("producer-globex");
  const foreign = await create(stranger, fields);
  assert.equal(foreign["ok"], true);
  assert.notEqual(foreign["taskId"], first["taskId"]);
  const task = { ...fields, command: "render" };
  const { createAckBatch } = await call.ask({
    createBatch: {
      tasks: [
        { ...task, idempotencyKey: "b" },
        { ...task, idempotencyKey: "b" },
      ],
    },
  });
  const [one, two] = createAckBatch.acks;
  assert.equal(one.taskId, two.taskId);
  assert.equal((await server.api.stats()).ready, 2);
});

test("payloads are kept byte for byte", async (t) => {
  const server = await setup(t);
  const call = await server.producer();
  const worker = await server.worker();
  for (const payload of ["{ }", " [1 ,2]\n", '"日本語🎉"', "1e999", '"\\ud800"']) {
    await create(call, { payload });
    const { task } = await worker.ask({ ready: {} });
    assert.deepEqual(task.task.payload, Buffer.from(payload));
  }
});

test("a payload that is not JSON is refused, as over HTTP, and those beside it are not", async (t) => {
  const server = await setup(t);
  const call = await server.producer();
  const long = "x".repeat(20_000);
  const wrong = [
    "not json",
    "{",
    "{}{}",
    "{'a':1}",
    "[1,]",
    "01",
    "NaN",
    " ",
    "\ufeff{}",
    "\u0000",
    '"\u0001"',
    `{"a":"${long}"`,
    `["${long}",]`,
  ];
  const tasks = [...wrong, "{}"].map((payload, seq) => ({ seq, command: "render", payload }));
  const { createAckBatch } = await call.ask({ createBatch: { tasks } });
  const refused = createAckBatch.acks.slice(0, -1);
  for (const [at, ack] of refused.entries()) {
    assert.equal(ack.errorMessage, "invalid payload (must be JSON)", tasks[at]?.payload);
    const body = `{"command":"render","payload":${tasks[at]?.payload}}`;
    assert.equal((await server.api.post("/tasks", body, "producer-acme")).status, 400, body);
  }
  assert.equal(createAckBatch.acks.at(-1).ok, true);
  assert.equal((await server.api.stats()).ready, 1);
  const [first] = tasks;
  const { createAck } = await call.ask({ create: { ...first } });
  assert.equal(createAck.errorMessage, "invalid payload (must be JSON)");
});

test("tasks of one stream are claimed in the order in which they were sent", async (t) => {
  const server = await setup(t);
  const call = await server.producer();
  for (let seq = 0; seq < 300; seq += 1) {
    const task = { seq, command: "render", payload: String(seq) };
    call.send(seq % 3 === 0 ? { createBatch: { tasks: [task] } } : { create: task });
  }
  await call.take(300);
  const worker = await server.worker();
  const { taskBatch } = await worker.ask({ ready: { count: 250 } });
  assert.deepEqual(
    taskBatch.tasks.map(({ payload }: Reply) => String(payload)),
    Array.from({ length: 250 }, (_, seq) => String(seq)),
  );
});

test("a stream's tenant is its token's, so another tenant's worker never sees the task", async (t) => {
  const server = await setup(t);
  const foreign = await server.worker("worker-globex");
  foreign.send({ ready: {} });
  await server.untilWaiting(1);
  const { taskId } = await create(await server.producer(), {});
  await foreign.expectSilence();
  const { task } = await (await server.worker()).ask({ ready: {} });
  assert.equal(task.task.id, taskId);
});

test("P7: an error of the producer stream has the code first, and names no event", async (t) => {
  const server = await setup(t);
  const call = await server.producer();
  assert.deepEqual(await call.ask({}), {
    error: { code: "InvalidArgument", message: "unknown-event" },
  });
});

test("S13: a token with scopes of ours creates with codeq:create only, and its commands only", async (t) => {
  const server = await setup(t);
  const worker = server.open("producer");
  worker.send({ hello: { token: "worker-acme" } });
  assert.equal((await worker.ended).code, "UNAUTHENTICATED");
  const before = await server.api.fingerprint();
  for (const [token, command, refusal] of [
    ["producer-claims", "render", "missing scope"],
    ["producer-prints", "render", "event type not allowed"],
    ["producer-by-types", "print", "event type not allowed"],
    ["producer-no-commands", "render", "event type not allowed"],
  ] as const) {
    const call = await server.producer(token);
    const ack = await create(call, { command });
    assert.deepEqual([ack["ok"], ack["errorMessage"]], [false, refusal], token);
    const { createAckBatch } = await call.ask({ createBatch: { tasks: [{ seq: 2, command }] } });
    const { ok, errorMessage } = createAckBatch.acks[0];
    assert.deepEqual([ok, errorMessage], [false, refusal], token);
  }
  assert.equal(await server.api.fingerprint(), before);
  for (const [token, command] of [
    ["producer-acme", "render"],
    ["producer-creates", "render"],
    ["producer-prints", "PRINT"],
    ["producer-by-types", "render"],
  ] as const) {
    assert.equal((await create(await server.producer(token), { command }))["ok"], true, token);
  }
});

test("members of a batch come in the ordinary batch of tasks, and each refusal stands at its place", async (t) => {
  const server = await setup(t);
  const { api } = server;
  const options = {
    method: "PUT",
    caller: "producer-acme",
    body: { command: "report", payload: {} },
  } as const;
  assert.equal((await api.ask("/v1/codeq/batches/b1", options)).status, 201);
  const call = await server.producer();
  const of = (batchId: string) => ({ command: "render", payload: "{}", batchId });
  const { createAckBatch } = await call.ask({
    createBatch: { tasks: [of("b1"), of("none"), of("b1"), of("")] },
  });
  const oks = createAckBatch.acks.map(({ ok }: { ok: boolean }) => ok);
  assert.deepEqual(oks, [true, false, true, true]);
  assert.match(createAckBatch.acks[1].errorMessage, /^batch not found: create it with PUT/);
  await api.post("/batches/b1/seal", undefined, "producer-acme");
  const { json } = await api.get("/batches/b1");
  assert.deepEqual([json.phase, json.total, json.pending], ["sealed", 2, 2]);
  const worker = await server.worker();
  const { task } = await worker.ask({
    ready: { commands: ["render"], leaseSeconds: 60 },
  });
  assert.equal(task.task.batchId, "b1");
  const { taskId } = await create(call, { command: "render", payload: "{}" });
  const waiting = await create(call, { command: "report", payload: "{}", after: [taskId] });
  assert.equal(waiting["ok"], true);
  const place = (await api.get(`/tasks/${waiting["taskId"]}`)).json.lastKnownLocation;
  assert.equal(place, "HELD_SET");
  const late = await create(call, of("b1"));
  assert.match(late["errorMessage"], /^the batch takes no more members: it was sealed/);
});
