/** What this server adds to the streams: fields and events with numbers from 100 on. */
import assert from "node:assert/strict";
import test from "node:test";
import { Call } from "./call.ts";
import { producerStream, type Reply, workerStream } from "./messages.ts";
import { type Server, setup } from "./setup.ts";

const unknownId = "01890000-0000-7000-8000-000000000000";
const traceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/** A stream that shows everything it is sent. */
async function open(server: Server, kind: "worker" | "producer"): Promise<Call> {
  const codec = kind === "worker" ? workerStream : producerStream;
  const all = { ...codec, decode: codec.decodeAll };
  const call = server.track(new Call(all, `127.0.0.1:${server.ports[kind]}`));
  const { helloAck } = await call.ask({ hello: { token: `${kind}-acme` } });
  assert.equal(helloAck.instance, "test");
  return call;
}

test("acknowledgements and errors carry the code of the refusal", async (t) => {
  const server = await setup(t);
  const worker = await open(server, "worker");
  const id = { taskId: unknownId };
  const cases: [object, (reply: Reply) => Reply, string][] = [
    [{ heartbeat: id }, (reply) => reply["heartbeatAck"], "task_unknown"],
    [{ nack: id }, (reply) => reply["nackAck"], "task_unknown"],
    [{ abandon: id }, (reply) => reply["abandonAck"], "task_unknown"],
    [{ result: { ...id, status: "X" } }, (reply) => reply["resultAck"], "invalid_argument"],
    [{ result: { ...id, status: "COMPLETED" } }, (reply) => reply["resultAck"], "task_not_found"],
    [{ ready: { commands: ["a b"] } }, (reply) => reply["error"], "invalid_command"],
    [{ hello: {} }, (reply) => reply["error"], "invalid_argument"],
  ];
  for (const [event, pick, code] of cases) {
    const answer = pick(await worker.ask({ ...event }));
    assert.equal(answer?.["errorCode"], code, JSON.stringify(event));
  }
  const producer = await open(server, "producer");
  const { createAck } = await producer.ask({ create: { command: "a b" } });
  assert.equal(createAck.errorCode, "invalid_command");
  const accepted = await producer.ask({ create: { command: "render" } });
  assert.equal(accepted["createAck"].errorCode, "");
});

test("acknowledgements repeat the lease token of their event, and nothing when it had none", async (t) => {
  const server = await setup(t);
  const taskId = await server.api.create();
  const worker = await open(server, "worker");
  const { task } = await worker.ask({ ready: {} });
  assert.equal(task.task.leaseToken, "1");
  const tokenOf = async (event: object): Promise<[boolean, string]> => {
    const reply = await worker.ask({ ...event });
    const { nackAck, heartbeatAck, abandonAck, resultAck, resultAckBatch } = reply;
    const ack = nackAck ?? heartbeatAck ?? abandonAck ?? resultAck ?? resultAckBatch.acks[0];
    return [ack.ok, ack.leaseToken];
  };
  const stale = { taskId, leaseToken: "7" };
  const result = { status: "COMPLETED", resultJson: "{}" };
  assert.deepEqual(await tokenOf({ heartbeat: { taskId } }), [true, "0"]);
  assert.deepEqual(await tokenOf({ heartbeat: { taskId, leaseToken: "1" } }), [true, "1"]);
  assert.deepEqual(await tokenOf({ heartbeat: stale }), [false, "7"]);
  assert.deepEqual(await tokenOf({ nack: stale }), [false, "7"]);
  assert.deepEqual(await tokenOf({ abandon: stale }), [false, "7"]);
  assert.deepEqual(await tokenOf({ result: { ...stale, ...result } }), [false, "7"]);
  const results = [{ taskId, leaseToken: "1", ...result }];
  assert.deepEqual(await tokenOf({ resultBatch: { results } }), [true, "1"]);
});

test("a worker gets the trace context that the producer sent", async (t) => {
  const server = await setup(t);
  const producer = await open(server, "producer");
  await producer.ask({ create: { command: "render", traceParent, traceState: "vendor=1" } });
  const worker = await open(server, "worker");
  const { task } = await worker.ask({ ready: {} });
  assert.deepEqual([task.task.traceParent, task.task.traceState], [traceParent, "vendor=1"]);
});

test("a stream carries lanes and costs, holds a lane, and settles what a task took", async (t) => {
  const server = await setup(t);
  const rate = { units: 10, per: "10s", burst: 10 };
  const body = { priorityTiers: [0], maxAttempts: 3, lanes: { rate } };
  const topic = "/v1/codeq/admin/topics/render";
  const put = { method: "PUT", caller: "admin-acme", body } as const;
  assert.equal((await server.api.ask(topic, put)).status, 201);
  const producer = await open(server, "producer");
  for (const cost of [6, 4]) {
    await producer.ask({ create: { command: "render", lane: "ada", cost } });
  }
  const refused = await producer.ask({ create: { command: "render", lane: "ada", cost: 11 } });
  assert.equal(refused["createAck"].errorCode, "cost_above_burst");
  const worker = await open(server, "worker");
  const first = (await worker.ask({ ready: { commands: ["render"] } }))["task"].task;
  assert.deepEqual([first.lane, first.cost], ["ada", 6]);
  const { nackAck } = await worker.ask({ nack: { taskId: first.id, holdSeconds: 30 } });
  assert.deepEqual([nackAck.ok, nackAck.appliedDelaySeconds], [true, 30]);
  const unitsLeft = async (): Promise<number> => {
    const { json } = await server.api.get("/admin/topics/render/lanes?lane=ada", "admin-acme");
    return json.lanes[0].unitsLeft;
  };
  assert.equal(await unitsLeft(), 4);
  const waiting = worker.ask({ ready: { commands: ["render"] } });
  await server.api.clock.advance(30_000);
  const again = (await waiting)["task"].task;
  assert.deepEqual([again.id, again.attempts], [first.id, 0]);
  const result = { taskId: first.id, status: "COMPLETED", resultJson: "{}", used: { count: 9 } };
  assert.equal((await worker.ask({ result }))["resultAck"].ok, true);
  assert.equal(await unitsLeft(), 1);
});

test("a result that is waited for comes when the task ends", async (t) => {
  const server = await setup(t);
  const producer = await open(server, "producer");
  const { call: worker, task } = await server.leased();
  const taskId = task["id"];
  producer.send({ awaitResult: { taskId, waitSeconds: 60 } });
  await server.api.untilWaiting(1, "results");
  const result = { taskId, status: "COMPLETED", resultJson: '{"n":1}' };
  await worker.ask({ result });
  const { taskResult } = await producer.next();
  assert.deepEqual(taskResult, {
    taskId,
    ok: true,
    errorMessage: "",
    errorCode: "",
    status: "COMPLETED",
    error: "",
    resultJson: Buffer.from('{"n":1}'),
    attempts: 1,
    artifacts: [],
  });
  const again = await producer.ask({ awaitResult: { taskId } });
  assert.deepEqual(again["taskResult"], taskResult);
});

test("what has not ended in time, or is not there, has no result", async (t) => {
  const server = await setup(t);
  const producer = await open(server, "producer");
  const taskId = await server.api.create();
  const now = await producer.ask({ awaitResult: { taskId } });
  assert.equal(now["taskResult"].errorCode, "result_not_found");
  producer.send({ awaitResult: { taskId, waitSeconds: 2 } });
  await server.api.untilWaiting(1, "results");
  await server.api.clock.advance(2000);
  const { taskResult } = await producer.next();
  assert.deepEqual([taskResult.ok, taskResult.errorCode], [false, "result_not_found"]);
  const foreign = await producer.ask({ awaitResult: { taskId: unknownId } });
  assert.equal(foreign["taskResult"].errorCode, "task_not_found");
});

test("results that are waited for do not keep a stream open, and leave nothing behind", async (t) => {
  const server = await setup(t);
  const producer = await open(server, "producer");
  const taskId = await server.api.create();
  producer.send({ awaitResult: { taskId, waitSeconds: 60 } });
  await server.api.untilWaiting(1, "results");
  producer.halfClose();
  assert.deepEqual(await producer.ended, { code: "OK", details: "" });
  await server.api.untilWaiting(0, "results");
});

test("a result on a stream brings files, and the producer hears of them", async (t) => {
  const server = await setup(t);
  const taskId = await server.api.create();
  const worker = await open(server, "worker");
  await worker.ask({ ready: {} });
  const artifacts = [
    { name: "log", url: "https://files.example/log" },
    { name: "a.txt", content: Buffer.from("hi"), contentType: "text/plain" },
  ];
  const result = { taskId, status: "COMPLETED", resultJson: "{}" };
  const bad = [{ name: "../a", content: Buffer.from("hi") }];
  const refused = await worker.ask({ result: { ...result, artifacts: bad } });
  assert.equal(refused["resultAck"].errorCode, "invalid_argument");
  const { resultAck } = await worker.ask({ result: { ...result, artifacts } });
  assert.deepEqual([resultAck.ok, resultAck.errorMessage], [true, ""]);
  const producer = await open(server, "producer");
  const { taskResult } = await producer.ask({ awaitResult: { taskId } });
  const [link, file] = taskResult.artifacts;
  assert.deepEqual(
    [link.name, link.url, link.bytes, link.sha256],
    ["log", artifacts[0]?.url, "0", ""],
  );
  assert.deepEqual([file.name, file.bytes, file.contentType], ["a.txt", "2", "text/plain"]);
  assert.match(file.url, /^\/v1\/codeq\/tasks\/.*\/artifacts\/a\.txt\?upload=/);
});

test("the copy of a dead letter names the task that it was made of", async (t) => {
  const server = await setup(t);
  const policy = { priorityTiers: [0], maxAttempts: 3, deadLetterTopicRef: "render-dead" };
  const path = "/v1/codeq/admin/topics/render";
  const put = { method: "PUT", caller: "admin-acme", body: policy } as const;
  assert.equal((await server.api.ask(path, put)).status, 201);
  const dead = await server.api.buried();
  const worker = await open(server, "worker");
  const { task } = await worker.ask({ ready: { commands: ["render-dead"] } });
  assert.equal(task.task.replayOf, dead);
  await server.api.create();
  const plain = await worker.ask({ ready: { commands: ["render"] } });
  assert.equal(plain["task"].task.replayOf, "");
});

test("a key has one task over streams, and unique keys and modes are refused with the rule", async (t) => {
  const server = await setup(t);
  const producer = await open(server, "producer");
  const create = async (fields: object): Promise<Reply> =>
    (await producer.ask({ create: { command: "render", ...fields } }))["createAck"];
  const first = await create({ idempotencyKey: "k", payload: "1" });
  const other = { idempotencyKey: "k", payload: "2" };
  const same = await create({ ...other, idempotencyMode: "first" });
  assert.deepEqual([same["ok"], same["taskId"]], [true, first["taskId"]]);
  const strict = await create({ ...other, idempotencyMode: "strict" });
  assert.deepEqual([strict["ok"], strict["errorCode"]], [false, "idempotency_key_reused"]);
  const holder = await create({ uniqueKey: "ada", payload: "1" });
  const returned = await create({ uniqueKey: "ada", payload: "2" });
  assert.deepEqual([returned["taskId"], returned["deduplicated"]], [holder["taskId"], true]);
  assert.equal(holder["deduplicated"], false);
  const { createAckBatch } = await producer.ask({
    createBatch: {
      tasks: [
        { command: "render", uniqueKey: "ada", uniqueOn: "latest", payload: "3" },
        { command: "render", uniqueKey: "ada", uniqueOn: "refuse" },
        { command: "render", uniqueKey: "bob", uniqueOn: "refuse" },
      ],
    },
  });
  assert.deepEqual(
    createAckBatch.acks.map(({ ok, errorCode, deduplicated }: Reply) => [
      ok,
      errorCode,
      deduplicated,
    ]),
    [
      [true, "", true],
      [false, "unique_key_held", false],
      [true, "", false],
    ],
  );
  const { payload, replaced } = await server.api.task(holder["taskId"]);
  assert.deepEqual([payload, replaced], ["3", 1]);
  const length = "(a length of time such as 5m, at most 2592000 seconds)";
  for (const [fields, errorMessage] of [
    [
      { uniqueKey: "k".repeat(201) },
      "invalid 'unique.key' (1 to 200 characters, and no control characters)",
    ],
    [{ uniqueWhile: "x" }, "invalid 'unique.while' (one of unfinished, waiting)"],
    [{ uniqueOn: "x" }, "invalid 'unique.on' (one of return, refuse, replace, latest, cancel)"],
    [{ uniqueFor: "5" }, `invalid 'unique.for' ${length}`],
    [{ uniqueMaxWait: "31d" }, `invalid 'unique.maxWait' ${length}`],
    [{ idempotencyMode: "x" }, "invalid 'Codeq-Idempotency-Mode' (must be strict or first)"],
  ] as const) {
    const refused = await create({ uniqueKey: "eve", ...fields });
    assert.deepEqual(
      [refused["errorCode"], refused["errorMessage"]],
      ["invalid_argument", errorMessage],
    );
  }
});
