/** Contract 3.5 and 3.6: results, nacks, heartbeats and abandons, and who may send them. */
import assert from "node:assert/strict";
import test from "node:test";
import { settle } from "@codeq/simulated";
import { onlyWith } from "../contract/setup.ts";
import type { Call } from "./call.ts";
import { type Fields, type Reply, workerStream } from "./messages.ts";
import { type Server, setup } from "./setup.ts";

const unknownId = "019b7ca9-8d00-7000-8000-000000000000";

async function submit(call: Call, fields: Fields): Promise<Reply> {
  return (await call.ask({ result: { status: "COMPLETED", ...fields } }))["resultAck"];
}

/** Tasks leased to one worker, in the order in which they were created. */
async function leasedMany(server: Server, count: number): Promise<{ call: Call; ids: string[] }> {
  const ids: string[] = [];
  for (let made = 0; made < count; made += 1) ids.push(await server.api.create());
  const call = await server.worker();
  // A Ready gets what one shard has.
  const leased: string[] = [];
  while (leased.length < count) {
    const { taskBatch } = await call.ask({ ready: { count: Math.max(count, 2) } });
    leased.push(...taskBatch.tasks.map(({ id }: Reply) => id));
  }
  assert.deepEqual(leased.sort(), [...ids].sort());
  return { call, ids };
}

/** The text that is stored; the REST API leaves an empty object out. */
async function resultJsonOf(server: Server, id: string): Promise<string | undefined> {
  return (await server.api.core.broker.result("acme" as never, id as never))?.resultJson;
}

async function storedResult(server: Server, id: string): Promise<Reply> {
  const reply = await server.api.get(`/tasks/${id}/result`);
  assert.equal(reply.status, 200, reply.text);
  return reply.json.result;
}

test("a completed task has its result, byte for byte", async (t) => {
  const server = await setup(t);
  const { call, task } = await server.leased();
  const taskId = task["id"];
  const resultJson = ' {"n": 12345678901234567890, "é": [1 ,2]}\n';
  assert.deepEqual(await submit(call, { taskId, resultJson }), {
    taskId,
    ok: true,
    errorMessage: "",
  });
  assert.equal((await server.api.task(taskId)).status, "COMPLETED");
  const { text } = await server.api.get(`/tasks/${taskId}/result`);
  assert.ok(text.includes('{"n": 12345678901234567890, "é": [1 ,2]}'), text);
});

test("P1: completed without a result, or with null, is a success and is stored as {}", async (t) => {
  const server = await setup(t);
  const { call, ids } = await leasedMany(server, 5);
  const results = [undefined, "", "null", " null ", "\n"];
  for (const [index, resultJson] of results.entries()) {
    const taskId = ids[index] ?? "";
    const fields = resultJson === undefined ? {} : { resultJson };
    assert.deepEqual(await submit(call, { taskId, ...fields }), {
      taskId,
      ok: true,
      errorMessage: "",
    });
    assert.equal((await storedResult(server, taskId))["status"], "COMPLETED");
    assert.equal(await resultJsonOf(server, taskId), "{}");
  }
});

test("P1: a batch of completions without results completes all of them", async (t) => {
  const server = await setup(t);
  const { call, ids } = await leasedMany(server, 20);
  const results = ids.map((taskId) => ({ taskId, status: "COMPLETED" }));
  const { resultAckBatch } = await call.ask({ resultBatch: { results } });
  assert.deepEqual(
    resultAckBatch.acks,
    ids.map((taskId) => ({ taskId, ok: true, errorMessage: "" })),
  );
  for (const id of ids) assert.equal(await resultJsonOf(server, id), "{}");
  await server.pass(1_000_000);
  assert.deepEqual(await server.api.stats(), {
    command: "render",
    ready: 0,
    delayed: 0,
    inProgress: 0,
    dlq: 0,
    failed: 0,
  });
});

test("a failed task has its error", async (t) => {
  const server = await setup(t);
  const { call, task } = await server.leased();
  const taskId = task["id"];
  const ack = await submit(call, { taskId, status: "FAILED", error: "no paper" });
  assert.equal(ack["ok"], true);
  const { status, error } = await storedResult(server, taskId);
  assert.deepEqual([status, error], ["FAILED", "no paper"]);
});

test("a result that is wrong is refused, and the task stays with its worker", async (t) => {
  const server = await setup(t);
  const { call, task } = await server.leased();
  const taskId = task["id"];
  const invalid = "invalid status (must be COMPLETED or FAILED): ";
  const cases: readonly (readonly [Fields, string])[] = [
    [{ status: "" }, `${invalid}""`],
    [{ status: "completed" }, `${invalid}"completed"`],
    [{ status: 'a"b\n' }, `${invalid}"a\\"b\\n"`],
    [{ status: "x".repeat(1_000_000) }, `${invalid}"${"x".repeat(100)}"`],
    [{ resultJson: "[1]" }, "invalid result_json"],
    [{ resultJson: '"text"' }, "invalid result_json"],
    [{ resultJson: "1" }, "invalid result_json"],
    [{ resultJson: "{" }, "invalid result_json"],
    [{ resultJson: "{}{}" }, "invalid result_json"],
    [{ resultJson: "{'a':1}" }, "invalid result_json"],
    [{ resultJson: `{"a":${"[".repeat(100_000)}` }, "invalid result_json"],
    [{ resultJson: Buffer.from("7b2261223a22ff227d", "hex") }, "invalid result_json"],
    [{ status: "FAILED" }, "error required when status=FAILED"],
    [{ status: "FAILED", error: "  " }, "error required when status=FAILED"],
    [{ status: "FAILED", error: "x".repeat(65_537) }, "invalid 'error' (at most 65536 characters)"],
  ];
  for (const [fields, errorMessage] of cases) {
    assert.deepEqual(await submit(call, { taskId, ...fields }), {
      taskId,
      ok: false,
      errorMessage,
    });
  }
  const results = cases.map(([fields]) => ({ taskId, status: "COMPLETED", ...fields }));
  const { resultAckBatch } = await call.ask({ resultBatch: { results } });
  assert.deepEqual(
    resultAckBatch.acks,
    cases.map(([, errorMessage]) => ({ taskId, ok: false, errorMessage })),
  );
  assert.equal((await server.api.task(taskId)).status, "IN_PROGRESS");
});

test("a result of a task that is unknown, foreign, another's or not running is refused", async (t) => {
  const server = await setup(t);
  const { call, ids } = await leasedMany(server, 1);
  const id = ids[0] ?? "";
  const ready = await server.api.create();
  const foreign = await server.worker("worker-globex", "worker-1");
  const other = await server.worker("worker-acme-2");
  const cases: readonly (readonly [Call, string, string])[] = [
    [call, unknownId, "task not found"],
    [call, "", "task not found"],
    [call, "../../x\u0000", "task not found"],
    [foreign, id, "task not found"],
    [other, id, "not-owner"],
    [other, ready, "not-in-progress"],
  ];
  for (const [by, taskId, errorMessage] of cases) {
    assert.deepEqual(await submit(by, { taskId }), { taskId, ok: false, errorMessage });
  }
});

test("a repeated result is acknowledged again; another outcome is not", async (t) => {
  const server = await setup(t);
  const { call, task } = await server.leased();
  const taskId = task["id"];
  assert.equal((await submit(call, { taskId, resultJson: '{"n":1}' }))["ok"], true);
  assert.equal((await submit(call, { taskId, resultJson: '{"n":2}' }))["ok"], true);
  assert.deepEqual((await storedResult(server, taskId))["result"], { n: 1 });
  const failed = await submit(call, { taskId, status: "FAILED", error: "x" });
  assert.equal(failed["errorMessage"], "not-in-progress");
  const other = await server.worker("worker-acme-2");
  assert.equal((await submit(other, { taskId }))["ok"], false);
});

test("a batch of results is acknowledged in its order, each for itself", async (t) => {
  const server = await setup(t);
  const { call, ids } = await leasedMany(server, 3);
  const [a = "", b = "", c = ""] = ids;
  const results = [
    { taskId: c, status: "COMPLETED", resultJson: "{}" },
    { taskId: unknownId, status: "COMPLETED" },
    { taskId: a, status: "FAILED", error: "broken" },
    { taskId: a, status: "COMPLETED" },
    {},
    { taskId: b, status: "COMPLETED" },
  ];
  const { resultAckBatch } = await call.ask({ resultBatch: { results } });
  assert.deepEqual(resultAckBatch.acks, [
    { taskId: c, ok: true, errorMessage: "" },
    { taskId: unknownId, ok: false, errorMessage: "task not found" },
    { taskId: a, ok: true, errorMessage: "" },
    { taskId: a, ok: false, errorMessage: "not-in-progress" },
    { taskId: "", ok: false, errorMessage: 'invalid status (must be COMPLETED or FAILED): ""' },
    { taskId: b, ok: true, errorMessage: "" },
  ]);
});

test("an empty batch of results is not answered", async (t) => {
  const server = await setup(t);
  const call = await server.worker();
  call.send({ resultBatch: {} });
  await call.expectSilence();
});

test("a nack puts the task off by its delay, or by the policy when there is none", async (t) => {
  const settings = {
    backoffPolicy: "fixed",
    backoffBaseSeconds: 7,
    backoffMaxSeconds: 50,
  } as const;
  const server = await setup(t, { settings });
  const { call, ids } = await leasedMany(server, 6);
  for (const [index, [delaySeconds, appliedDelaySeconds]] of (
    [
      [3, 3],
      [0, 7],
      [-5, 7],
      [-2_147_483_648, 7],
      [2_147_483_647, 50],
    ] as const
  ).entries()) {
    const taskId = ids[index] ?? "";
    const { nackAck } = await call.ask({ nack: { taskId, delaySeconds, reason: "busy" } });
    assert.deepEqual(nackAck, {
      taskId,
      ok: true,
      errorMessage: "",
      appliedDelaySeconds,
      dlq: false,
    });
  }
  const exact = { taskId: ids[5], delaySeconds: 0, delayMs: 2500, reason: "busy" };
  const { nackAck } = await call.ask({ nack: exact });
  assert.equal((nackAck as { appliedDelaySeconds: number }).appliedDelaySeconds, 3);
  await server.pass(2499);
  assert.equal((await server.api.stats()).delayed, 6);
  await server.pass(1);
  assert.equal((await server.api.stats()).delayed, 5);
  await server.pass(499);
  assert.equal((await server.api.stats()).delayed, 5);
  await server.pass(1);
  assert.equal((await server.api.stats()).delayed, 4);
  await server.pass(4000);
  assert.equal((await server.api.stats()).delayed, 1);
});

test("a nack of the last attempt buries the task, and says so", async (t) => {
  const server = await setup(t);
  const { call, task } = await server.leased({ maxAttempts: 1 });
  const { nackAck } = await call.ask({ nack: { taskId: task["id"], reason: "broken" } });
  assert.deepEqual(nackAck, {
    taskId: task["id"],
    ok: true,
    errorMessage: "",
    appliedDelaySeconds: 0,
    dlq: true,
  });
  const { status, error } = await storedResult(server, task["id"]);
  assert.deepEqual([status, error], ["FAILED", "broken"]);
});

test("nack, heartbeat and abandon are refused for tasks that are not the worker's", async (t) => {
  const server = await setup(t);
  const { call, ids } = await leasedMany(server, 2);
  const [id = "", done = ""] = ids;
  await submit(call, { taskId: done });
  const ready = await server.api.create();
  const foreign = await server.worker("worker-globex", "worker-1");
  const other = await server.worker("worker-acme-2");
  const cases: readonly (readonly [Call, string, string])[] = [
    [call, unknownId, "not-found"],
    [call, "", "not-found"],
    [foreign, id, "not-found"],
    [other, id, "not-owner"],
    [call, ready, "not-in-progress"],
    [call, done, "not-in-progress"],
  ];
  for (const [by, taskId, errorMessage] of cases) {
    const refused = { taskId, ok: false, errorMessage };
    assert.deepEqual(await by.ask({ nack: { taskId, delaySeconds: 5 } }), {
      nackAck: { ...refused, appliedDelaySeconds: 0, dlq: false },
    });
    assert.deepEqual(await by.ask({ heartbeat: { taskId } }), { heartbeatAck: refused });
    assert.deepEqual(await by.ask({ abandon: { taskId } }), { abandonAck: refused });
  }
  const reason = "x".repeat(4097);
  const { nackAck } = await call.ask({ nack: { taskId: id, reason } });
  assert.equal(nackAck.errorMessage, "invalid 'reason' (at most 4096 characters)");
  assert.equal((await server.api.task(id)).status, "IN_PROGRESS");
});

test("P6: a heartbeat extends the lease from now, by what it says or by the default, and never shortens it", async (t) => {
  const settings = { defaultLeaseSeconds: 20, backoffPolicy: "fixed" } as const;
  const server = await setup(t, { settings });
  const { call, task } = await server.leased();
  const taskId = task["id"];
  const statusNow = async (): Promise<string> => (await server.api.task(taskId)).status;
  for (const [extendSeconds, lastsMs] of [
    [60, 60_000],
    [0, 20_000],
    [-7, 20_000],
    [300, 30_000],
    [1, 300_000 - 30_000 + 1],
  ] as const) {
    const { heartbeatAck } = await call.ask({ heartbeat: { taskId, extendSeconds } });
    assert.deepEqual(heartbeatAck, { taskId, ok: true, errorMessage: "" });
    await server.pass(lastsMs - 1);
    assert.equal(await statusNow(), "IN_PROGRESS", String(extendSeconds));
  }
  const { heartbeatAck } = await call.ask({ heartbeat: { taskId, extendSeconds: 86_401 } });
  assert.deepEqual(heartbeatAck, {
    taskId,
    ok: false,
    errorMessage: "invalid 'extendSeconds' (must be <= 86400)",
  });
  await server.pass(1);
  assert.equal(await statusNow(), "PENDING");
  const late = await call.ask({ heartbeat: { taskId } });
  assert.equal(late["heartbeatAck"].errorMessage, "not-in-progress");
});

test("P6: a heartbeat may extend the lease by a day", async (t) => {
  const server = await setup(t);
  const { call, task } = await server.leased();
  const taskId = task["id"];
  const { heartbeatAck } = await call.ask({ heartbeat: { taskId, extendSeconds: 86_400 } });
  assert.deepEqual(heartbeatAck, { taskId, ok: true, errorMessage: "" });
});

test("an abandoned task is ready at once and counted, an interrupted one is not counted", async (t) => {
  const server = await setup(t);
  const { call, task } = await server.leased();
  const taskId = task["id"];
  for (const [interrupted, attempts] of [
    [false, 1],
    [true, 1],
    [false, 2],
  ] as const) {
    const { abandonAck } = await call.ask({ abandon: { taskId, interrupted } });
    assert.deepEqual(abandonAck, { taskId, ok: true, errorMessage: "" });
    const again = await call.ask({ ready: {} });
    assert.deepEqual([again["task"].task.id, again["task"].task.attempts], [taskId, attempts]);
  }
});

test("a lease token of an earlier claim is refused, also from the same worker", async (t) => {
  const server = await setup(t);
  const { call, task } = await server.leased();
  const taskId = task["id"];
  await call.ask({ abandon: { taskId, leaseToken: task["leaseToken"] } });
  const { task: again } = await call.ask({ ready: {} });
  assert.deepEqual([task["leaseToken"], again.task.leaseToken], ["1", "2"]);
  for (const leaseToken of ["1", "3", "18446744073709551615"]) {
    const { nackAck } = await call.ask({ nack: { taskId, leaseToken } });
    assert.equal(nackAck.errorMessage, "not-owner");
    const { heartbeatAck } = await call.ask({ heartbeat: { taskId, leaseToken } });
    assert.equal(heartbeatAck.errorMessage, "not-owner");
    const { abandonAck } = await call.ask({ abandon: { taskId, leaseToken } });
    assert.equal(abandonAck.errorMessage, "not-owner");
    assert.equal((await submit(call, { taskId, leaseToken }))["errorMessage"], "not-owner");
  }
  const { heartbeatAck } = await call.ask({ heartbeat: { taskId, leaseToken: "2" } });
  assert.equal(heartbeatAck.ok, true);
  assert.equal((await submit(call, { taskId, leaseToken: "2" }))["ok"], true);
});

test("P7: every event needs its scope; the refusal is an error that names no task", async (t) => {
  const server = await setup(t);
  const { task } = await server.leased();
  const taskId = task["id"];
  const events = {
    "codeq:claim": { ready: {} },
    "codeq:result": { result: { taskId, status: "COMPLETED" } },
    "codeq:nack": { nack: { taskId } },
    "codeq:heartbeat": { heartbeat: { taskId } },
    "codeq:abandon": { abandon: { taskId } },
  };
  const refused = { error: { message: "missing scope", code: "PermissionDenied" } };
  const nobody = await server.worker("worker-subscribes", "worker-1");
  for (const event of Object.values(events)) assert.deepEqual(await nobody.ask(event), refused);
  const batch = { resultBatch: { results: [{ taskId, status: "COMPLETED" }] } };
  assert.deepEqual(await nobody.ask(batch), refused);
  await nobody.expectSilence();
  assert.equal((await server.api.task(taskId)).status, "IN_PROGRESS");
  await server.untilWaiting(0);

  const claims = await server.worker("worker-claims");
  const id = await server.api.create();
  assert.equal((await claims.ask({ ready: {} }))["task"].task.id, id);
  assert.deepEqual(await claims.ask({ nack: { taskId: id } }), refused);
});

test("P7: the error of the worker stream has the message first on the wire", async (t) => {
  const server = await setup(t);
  const call = server.raw("worker").call(workerStream.path);
  call.send(workerStream.encode({ hello: { token: "worker-acme" } }), Buffer.alloc(0));
  const received = await call.readUntil((bytes) => bytes.includes("unknown-event"));
  const fields = [
    Buffer.from([0x0a, 13]),
    Buffer.from("unknown-event"),
    Buffer.from([0x12, 15]),
    Buffer.from("InvalidArgument"),
  ];
  assert.ok(received.includes(Buffer.concat(fields)), received.toString("latin1"));
});

test("events are applied in the order in which they were sent", onlyWith.order, async (t) => {
  const server = await setup(t);
  const { call, task } = await server.leased({ priority: 9 });
  const taskId = task["id"];
  await server.api.create({ priority: 0 });
  // Before the abandon only the other task would be there.
  call.send({ abandon: { taskId } }, { ready: {} });
  assert.equal((await call.next())["abandonAck"].ok, true);
  assert.equal((await call.next())["task"].task.id, taskId);

  call.send({ result: { taskId, status: "COMPLETED" } }, { nack: { taskId } }, { ready: {} });
  const replies = await call.take(3);
  const acks = replies.filter(({ task: assigned }) => assigned === undefined);
  assert.equal(acks.find(({ resultAck }) => resultAck)?.["resultAck"].ok, true);
  assert.equal(acks.find(({ nackAck }) => nackAck)?.["nackAck"].errorMessage, "not-in-progress");
});

test(
  "a refusal does not overtake the answer to an earlier event for its task",
  onlyWith.disk,
  async (t) => {
    const server = await setup(t, { storage: "sim-disk" });
    const { call, ids } = await leasedMany(server, 4);
    const [a, b, c, d] = ids as [string, string, string, string];
    const release = server.holdWrites();
    const results = [a, b].map((taskId) => ({ taskId, status: "COMPLETED" }));
    call.send(
      { resultBatch: { results } },
      { heartbeat: { taskId: c } },
      { result: { taskId: c, status: "COMPLETED" } },
      { nack: { taskId: a } },
      { abandon: { taskId: b } },
      { heartbeat: { taskId: c } },
      { nack: { taskId: a } },
      { heartbeat: { taskId: unknownId } },
      { heartbeat: { taskId: d } },
    );
    const first = await call.next();
    assert.equal(first["heartbeatAck"].taskId, unknownId, "it waits for no other task");
    await settle(20);
    assert.deepEqual(call.unread, []);
    release();
    const replies = await call.take(8);
    const told = replies.flatMap((reply) => {
      const [[name, value]] = Object.entries(reply) as [[string, Reply]];
      const acks: Reply[] = name === "resultAckBatch" ? value["acks"] : [value];
      return acks.map(({ taskId, ok }) => ({ name, taskId, ok }));
    });
    const of = (id: string) =>
      told.filter(({ taskId }) => taskId === id).map(({ name, ok }) => [name, ok]);
    assert.deepEqual(of(a), [
      ["resultAckBatch", true],
      ["nackAck", false],
      ["nackAck", false],
    ]);
    assert.deepEqual(of(b), [
      ["resultAckBatch", true],
      ["abandonAck", false],
    ]);
    assert.deepEqual(of(c), [
      ["heartbeatAck", true],
      ["resultAck", true],
      ["heartbeatAck", false],
    ]);
    assert.deepEqual(of(d), [["heartbeatAck", true]]);
  },
);

test(
  "a Ready behind fifty events of the same packet overtakes none of them",
  onlyWith.race,
  async (t) => {
    const server = await setup(t);
    const { ids } = await leasedMany(server, 50);
    const { encode, path } = workerStream;
    const call = server.raw("worker").call(path);
    const abandons = ids.map((taskId) => encode({ abandon: { taskId } }));
    const hello = encode({ hello: { token: "worker-acme" } });
    call.send(hello, ...abandons, encode({ ready: { count: 50 } }));
    await call.readUntil((recent) => recent.includes(ids.at(-1) ?? ""));
    // Each brings its task back, so a Ready that overtook one would have found too few.
    const { ready, inProgress } = await server.api.stats();
    assert.deepEqual({ ready, inProgress }, { ready: 0, inProgress: 50 });
  },
);

test("a worker hears on its stream at once that a task of its own was cancelled", async (t) => {
  const server = await setup(t);
  const { call, task } = await server.leased();
  const taskId = task["id"];
  const told = call.next();
  const reply = await server.api.post(`/tasks/${taskId}/cancel`, undefined, "producer-acme");
  assert.equal(reply.status, 200, reply.text);
  const heartbeatAck = { taskId, ok: true, errorMessage: "", cancelled: true };
  assert.deepEqual(await told, { heartbeatAck });
  const beat = await call.ask({ heartbeat: { taskId, extendSeconds: 600 } });
  assert.deepEqual(beat, { heartbeatAck });
});

test("a worker hears on its stream at once that a job cancelled a task of its own", async (t) => {
  const server = await setup(t);
  const { call, task } = await server.leased();
  const told = call.next();
  const job = { action: "cancel", command: "render" };
  assert.equal((await server.api.post("/admin/jobs", job, "admin-acme")).status, 201);
  await server.pass(1);
  const { heartbeatAck } = await told;
  assert.deepEqual([heartbeatAck.taskId, heartbeatAck.cancelled], [task["id"], true]);
});
