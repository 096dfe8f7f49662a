/** POST /tasks, POST /tasks/batch and GET /tasks/:id, as contract 2.4, 2.5, 2.13 and decisions say. */
import assert from "node:assert/strict";
import test from "node:test";
import { setup } from "./setup.ts";

const uuidV7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

test("a created task is answered with 202 and the record in the order of the contract", async (t) => {
  const server = await setup(t);
  const body = {
    command: "Render",
    payload: { id: 7 },
    priority: 5,
    webhook: "https://a.example/x",
  };
  const reply = await server.post("/tasks", body, "producer-acme");
  assert.equal(reply.status, 202);
  assert.equal(reply.headers["content-type"], "application/json; charset=utf-8");
  assert.equal(reply.headers["idempotent-replayed"], undefined);
  assert.match(reply.json.id, uuidV7);
  const expected = {
    id: reply.json.id,
    command: "Render",
    payload: '{"id":7}',
    priority: 5,
    webhook: "https://a.example/x",
    status: "PENDING",
    lastKnownLocation: "PENDING_LIST",
    maxAttempts: 5,
    tenantId: "acme",
    createdAt: "2026-01-02T03:04:05.12Z",
    updatedAt: "2026-01-02T03:04:05.12Z",
  };
  assert.equal(reply.text, JSON.stringify(expected));
  assert.equal((await server.get(`/tasks/${expected.id}`)).text, JSON.stringify(expected));
});

test("fields that are empty are left out", async (t) => {
  const server = await setup(t);
  const { json } = await server.post("/tasks", { command: "a", payload: 0 }, "producer-acme");
  const always = ["id", "command", "payload", "status", "lastKnownLocation", "maxAttempts"];
  assert.deepEqual(Object.keys(json), [...always, "tenantId", "createdAt", "updatedAt"]);
  assert.equal(json.payload, "0");
});

test("the trace context of the request is kept with the task", async (t) => {
  const server = await setup(t);
  const traceparent = `00-${"a".repeat(32)}-${"b".repeat(16)}-01`;
  const send = (headers: Record<string, string>) =>
    server.ask("/v1/codeq/tasks", {
      method: "POST",
      caller: "producer-acme",
      headers,
      body: { command: "render", payload: 1 },
    });
  const { json } = await send({ traceparent, tracestate: "k=v" });
  assert.equal(json.traceParent, traceparent);
  assert.equal(json.traceState, "k=v");
  assert.deepEqual(Object.keys(json).slice(3, 6), ["traceParent", "traceState", "status"]);
  assert.equal(
    (await send({ traceparent: "nonsense", tracestate: "k=v" })).json.traceState,
    undefined,
  );
});

test("every JSON value but null is a payload, and its text is kept", async (t) => {
  const server = await setup(t);
  const texts = [
    "0",
    "false",
    '""',
    "[]",
    "{}",
    '{ "b" : 1,\t"a":[ 1e400, -0 ] }',
    '"\\u0000\\ud800"',
  ];
  for (const text of texts) {
    const body = `{"payload":${text} , "command":"render"}`;
    const reply = await server.post("/tasks", body, "producer-acme");
    assert.equal(reply.status, 202, text);
    assert.equal(reply.json.payload, text);
    assert.equal((await server.task(reply.json.id)).payload, text);
  }
});

test("a body without command or payload, or with wrong types, is an invalid body", async (t) => {
  const server = await setup(t);
  const bodies: [unknown, string][] = [
    ["", "it is empty; send a JSON object, such as {}"],
    ["null", "it must be an object, got null"],
    ["[]", "it must be an object, got []"],
    ['"text"', 'it must be an object, got "text"'],
    ["7", "it must be an object, got 7"],
    ["{", "it is not JSON: unexpected text at position 1"],
    ["{}", "command is required"],
    ['{"command":"a","payload":1} x', "it is not JSON: unexpected text at position 28"],
    [{ payload: 1 }, "command is required"],
    [{ command: "", payload: 1 }, 'command must be a string that is not empty, got ""'],
    [{ command: null, payload: 1 }, "command must be a string, got null"],
    [{ command: 7, payload: 1 }, "command must be a string, got 7"],
    [{ command: "a" }, "payload is required"],
    [{ command: "a", payload: null }, "payload must be a value other than null, got null"],
    [{ command: "a", payload: 1, priority: "high" }, 'priority must be a number, got "high"'],
    [{ command: "a", payload: 1, priority: 1.5 }, "priority must be a whole number, got 1.5"],
    [{ command: "a", payload: 1, webhook: 7 }, "webhook must be a string, got 7"],
    [{ command: "a", payload: 1, maxAttempts: true }, "maxAttempts must be a number, got true"],
    [{ command: "a", payload: 1, idempotencyKey: 7 }, "idempotencyKey must be a string, got 7"],
    [{ command: "a", payload: 1, runAt: 17 }, "runAt must be a string, got 17"],
    [{ command: "a", payload: 1, delaySeconds: "3" }, 'delaySeconds must be a number, got "3"'],
  ];
  for (const [body, why] of bodies) {
    const reply = await server.post("/tasks", body, "producer-acme");
    assert.deepEqual(reply.json, { error: `invalid body: ${why}` });
    assert.equal(reply.status, 400);
  }
  assert.equal((await server.stats()).ready, 0);
});

test("fields that are null count as absent", async (t) => {
  const server = await setup(t);
  const nothing = { priority: null, webhook: null, maxAttempts: null, idempotencyKey: null };
  const body = { command: "a", payload: 1, ...nothing, runAt: null, delaySeconds: null };
  const reply = await server.post("/tasks", body, "producer-acme");
  assert.equal(reply.status, 202);
  assert.equal(reply.json.maxAttempts, 5);
});

test("a field that is not known is refused, and ignored for old clients by a setting", async (t) => {
  const server = await setup(t);
  const body = { command: "render", payload: 1, dealySeconds: 5 };
  const reply = await server.post("/tasks", body, "producer-acme");
  assert.equal(reply.status, 400);
  const error = 'invalid body: unknown field "dealySeconds"; did you mean "delaySeconds"?';
  assert.deepEqual(reply.json, { error });
  const batch = await server.post("/tasks/batch", { tasks: [body] }, "producer-acme");
  assert.match(batch.json.error, /^invalid body: unknown field "dealySeconds" in tasks\[0\]; did/);
  const claim = await server.post("/tasks/claim", { command: "render" }, "worker-acme");
  const commands = 'invalid body: unknown field "command"; did you mean "commands"?';
  assert.deepEqual(claim.json, { error: commands });
  const lenient = await setup(t, { settings: { lenientInput: true } });
  assert.equal((await lenient.post("/tasks", body, "producer-acme")).status, 202);
  const queued = await lenient.post("/tasks/batch", { tasks: [body] }, "producer-acme");
  assert.equal(queued.json.results.length, 1);
  const id = (await lenient.post("/tasks/claim", { command: "x" }, "worker-acme")).json.id;
  const nonsense = await lenient.post(`/tasks/${id}/abandon`, "not json", "worker-acme");
  assert.equal(nonsense.text, '{"status":"requeued"}');
  assert.equal((await lenient.get(`/tasks/${id}/result?wait=1&wait=2`)).status, 404);
});

test("a value that cannot be accepted is refused with its own text", async (t) => {
  const server = await setup(t);
  const tenYears = 10 * 366 * 24 * 60 * 60;
  const cases: [object, string][] = [
    [{ command: "   " }, "invalid command"],
    [{ command: "a/b" }, "invalid command"],
    [{ command: "x".repeat(129) }, "invalid command"],
    [{ webhook: "ftp://a.example/" }, "invalid webhook url"],
    [{ webhook: "not a url" }, "invalid webhook url"],
    [{ webhook: "http://" }, "invalid webhook url"],
    [{ webhook: "http://%ff@a.example/" }, "invalid webhook url"],
    [{ webhook: "http://user:%c3%28@a.example/" }, "invalid webhook url"],
    [{ webhook: "http://a.example:0/" }, "invalid webhook url"],
    [{ webhook: `http://a.example/${"x".repeat(2048)}` }, "invalid webhook url"],
    [{ runAt: "tomorrow" }, "invalid 'runAt' (use RFC3339)"],
    [{ runAt: "2026-01-02 03:04:05Z" }, "invalid 'runAt' (use RFC3339)"],
    [{ runAt: "2026-01-02T03:04:05" }, "invalid 'runAt' (use RFC3339)"],
    [{ runAt: "2026-02-30T00:00:00Z" }, "invalid 'runAt' (use RFC3339)"],
    [{ runAt: "2046-01-02T03:04:05Z" }, `invalid 'runAt' (at most ${tenYears} seconds ahead)`],
    [{ delaySeconds: -1 }, "invalid 'delaySeconds' (must be >= 0)"],
    [{ delaySeconds: -1, runAt: "2026-01-02T03:04:05Z" }, "invalid 'delaySeconds' (must be >= 0)"],
    [{ delaySeconds: tenYears + 1 }, `invalid 'delaySeconds' (must be <= ${tenYears})`],
    [{ maxAttempts: 1001 }, "invalid 'maxAttempts' (must be <= 1000)"],
    [{ idempotencyKey: "k".repeat(257) }, "invalid 'idempotencyKey' (at most 256 characters)"],
  ];
  const before = await server.fingerprint();
  for (const [fields, text] of cases) {
    const body = { command: "render", payload: 1, ...fields };
    const reply = await server.post("/tasks", body, "producer-acme");
    assert.equal(reply.text, JSON.stringify({ error: text }), JSON.stringify(fields));
    assert.equal(reply.status, 400);
  }
  assert.equal(await server.fingerprint(), before);
});

test("the edges of every limit are accepted", async (t) => {
  const server = await setup(t);
  const tenYears = 10 * 366 * 24 * 60 * 60;
  for (const fields of [
    { command: "x".repeat(128) },
    { command: "A0_.:-" },
    { maxAttempts: 1000 },
    { delaySeconds: tenYears },
    { idempotencyKey: "k".repeat(256) },
    { webhook: "http://a.example:1/hook" },
    { payload: "x".repeat(1024 * 1024 - 2) },
  ]) {
    await server.create(fields);
  }
});

test("a priority out of range is set to the nearest one, and the answer says so", async (t) => {
  const server = await setup(t);
  const told = async (priority: number) => {
    const reply = await server.post(
      "/tasks",
      { command: "x", payload: 1, priority },
      "producer-acme",
    );
    return reply.headers["codeq-priority-set"];
  };
  assert.deepEqual(await Promise.all([99, -1, 10].map(told)), ["9", "0", "9"]);
  assert.deepEqual(await Promise.all([0, 5, 9].map(told)), [undefined, undefined, undefined]);
  const key = { idempotencyKey: "order-7" };
  const tasks = [
    { command: "x", payload: 1, priority: 99, ...key },
    { command: "x", payload: 2, priority: 4, ...key },
    { command: "x", payload: 3, priority: 4 },
  ];
  const { results } = (await server.post("/tasks/batch", { tasks }, "producer-acme")).json;
  assert.deepEqual(
    results.map(({ prioritySet }: { prioritySet?: number }) => prioritySet),
    [9, undefined, undefined],
  );
  assert.equal(results[1].code, "idempotency_key_reused");
  assert.match(results[1].error, new RegExp(`order-7.*${results[0].task.id}`));
});

test("priorities are clamped and attempts default when they are not positive", async (t) => {
  const server = await setup(t);
  for (const [priority, shown] of [
    [-1, undefined],
    [0, undefined],
    [9, 9],
    [10, 9],
    [1e308, 9],
  ]) {
    const { priority: kept } = await server.task(await server.create({ priority }));
    assert.equal(kept, shown);
  }
  for (const maxAttempts of [0, -3]) {
    assert.equal((await server.task(await server.create({ maxAttempts }))).maxAttempts, 5);
  }
  assert.equal((await server.task(await server.create({ maxAttempts: 1 }))).maxAttempts, 1);
});

test("a task for later is delayed until its time, one for the past is ready at once", async (t) => {
  const server = await setup(t);
  const place = async (fields: object) =>
    (await server.task(await server.create(fields))).lastKnownLocation;
  assert.equal(await place({ delaySeconds: 1 }), "DELAYED_ZSET");
  assert.equal(await place({ runAt: "2026-01-02T03:04:05.121Z" }), "DELAYED_ZSET");
  assert.equal(await place({ runAt: "2026-01-02T03:04:05.12Z" }), "PENDING_LIST");
  assert.equal(await place({ runAt: "2020-01-01T00:00:00Z", delaySeconds: 50 }), "PENDING_LIST");
});

test("delays count to the millisecond: of a new task, of a nack and of an edit", async (t) => {
  const server = await setup(t);
  const due = async (ms: number): Promise<void> => {
    await server.clock.advance(ms - 1);
    assert.equal(await server.claim(), undefined);
    await server.clock.advance(1);
  };
  const id = await server.create({ delaySeconds: 1.25 });
  await due(1250);
  assert.equal((await server.claim()).id, id);
  const nack = await server.post(`/tasks/${id}/nack`, { delaySeconds: 0.075 }, "worker-acme");
  assert.equal(nack.text, '{"status":"requeued","delaySeconds":0.075}');
  const edited = await server.ask(`/v1/codeq/admin/tasks/${id}`, {
    method: "PATCH",
    caller: "admin-acme",
    body: { delaySeconds: 2.001 },
  });
  assert.equal(edited.status, 200, edited.text);
  await due(2001);
  assert.equal((await server.claim()).id, id);
});

test("a payload beyond its limit is refused with 413 and the configured number", async (t) => {
  const server = await setup(t, { settings: { payloadBytesMax: 2000 } });
  const send = (chars: number) =>
    server.post("/tasks", { command: "a", payload: "é".repeat(chars) }, "producer-acme");
  const refused = await send(1000);
  assert.equal(refused.status, 413);
  assert.equal(refused.text, '{"error":"payload is larger than 2000 bytes"}');
  assert.equal((await send(999)).status, 202);
});

test("a body beyond its limit is refused with 413", async (t) => {
  const server = await setup(t);
  const body = { command: "a", payload: "x".repeat(4 * 1024 * 1024) };
  const reply = await server.post("/tasks", body, "producer-acme");
  assert.equal(reply.status, 413);
  assert.equal(reply.text, '{"error":"request body is too large"}');
});

test("a batch answers each item in order and a bad item does not stop the others", async (t) => {
  const server = await setup(t);
  const tasks = [
    { command: "one", payload: { n: 1 } },
    { payload: 2 },
    { command: "three" },
    { command: "four", payload: null, priority: 3 },
    { command: "five", payload: 5, delaySeconds: -1 },
    { command: "six", payload: { payload: [1, { payload: 2 }] } },
  ];
  const reply = await server.post("/tasks/batch", { tasks }, "producer-acme");
  assert.equal(reply.status, 200);
  const { results } = reply.json;
  assert.deepEqual(Object.keys(reply.json), ["results"]);
  assert.equal(results[0].task.payload, '{"n":1}');
  assert.deepEqual(results[1], { error: "invalid command", code: "invalid_command" });
  assert.equal(results[2].task.payload, "null");
  assert.equal(results[3].task.payload, "null");
  assert.equal(results[4].error, "invalid 'delaySeconds' (must be >= 0)");
  assert.equal(results[4].code, "invalid_argument");
  assert.equal(results[5].task.payload, '{"payload":[1,{"payload":2}]}');
  for (const { task } of results.filter((each: { task?: object }) => each.task !== undefined)) {
    assert.deepEqual(await server.task(task.id), task);
  }
});

test("an empty batch or a type error in any item fails the whole batch", async (t) => {
  const server = await setup(t);
  const good = { command: "render", payload: 1 };
  const bodies: unknown[] = [
    ...["", "{}", "[]", '{"tasks":null}', '{"tasks":{}}', '{"tasks":[]}'],
    { tasks: [good, 7] },
    { tasks: [good, null] },
    { tasks: [good, { command: 7, payload: 1 }] },
    { tasks: [good, { command: "a", payload: 1, priority: "x" }] },
  ];
  for (const body of bodies) {
    const reply = await server.post("/tasks/batch", body, "producer-acme");
    assert.match(reply.json.error, /^invalid body: (it|tasks)/, JSON.stringify(body));
    assert.equal(reply.status, 400);
  }
  assert.equal((await server.stats()).ready, 0);
});

test("a batch may have as many items as configured and no more", async (t) => {
  const server = await setup(t);
  const tasks = (count: number) => ({
    tasks: Array.from({ length: count }, (_, n) => ({ command: "render", payload: n })),
  });
  const refused = await server.post("/tasks/batch", tasks(1001), "producer-acme");
  assert.equal(refused.status, 400);
  assert.equal(refused.text, '{"error":"batch size exceeds maximum of 1000"}');
  const { json } = await server.post("/tasks/batch", tasks(1000), "producer-acme");
  const payloads = json.results.map((each: { task: { payload: string } }) => each.task.payload);
  assert.deepEqual(
    payloads,
    tasks(1000).tasks.map(({ payload }) => String(payload)),
  );
  const small = await setup(t, { settings: { createBatchMax: 2 } });
  const text = (await small.post("/tasks/batch", tasks(3), "producer-acme")).text;
  assert.equal(text, '{"error":"batch size exceeds maximum of 2"}');
});

test("a repeated idempotency key answers 202 with the task as it is now", async (t) => {
  const server = await setup(t);
  const body = { command: "render", payload: { n: 1 }, idempotencyKey: "order/7 ü" };
  const first = await server.post("/tasks", body, "producer-acme");
  await server.claim();
  const again = await server.post("/tasks", { ...body, command: "RENDER" }, "producer-acme");
  assert.equal(again.status, 202);
  assert.equal(again.headers["idempotent-replayed"], "true");
  assert.equal(first.headers["idempotent-replayed"], undefined);
  assert.equal(again.json.id, first.json.id);
  assert.equal(again.json.status, "IN_PROGRESS");
  await server.complete(first.json.id);
  const last = await server.post("/tasks", body, "producer-acme");
  assert.equal(last.json.status, "COMPLETED");
  assert.equal(last.json.payload, '{"n":1}');
});

test("an idempotency key for another command or payload is refused with 409", async (t) => {
  const server = await setup(t);
  const body = { command: "render", payload: { n: 1 }, idempotencyKey: "k" };
  const taskId = await server.create(body);
  const before = await server.fingerprint();
  for (const other of [{ command: "print" }, { payload: { n: 2 } }, { payload: { n: "1" } }]) {
    const reply = await server.post("/tasks", { ...body, ...other }, "producer-acme");
    assert.equal(reply.status, 409);
    assert.match(reply.json.error, /^idempotency key reused: "k" belongs to task .*; use another/);
    assert.deepEqual([reply.json.key, reply.json.taskId], ["k", taskId]);
  }
  assert.equal(await server.fingerprint(), before);
});

test("a batch knows the keys of its own items and marks the replays", async (t) => {
  const server = await setup(t);
  const item = { command: "render", payload: 1, idempotencyKey: "k" };
  const tasks = [item, item, { ...item, payload: 2 }];
  const { json } = await server.post("/tasks/batch", { tasks }, "producer-acme");
  assert.equal(json.results[0].idempotentReplayed, undefined);
  assert.equal(json.results[1].idempotentReplayed, true);
  assert.equal(json.results[1].task.id, json.results[0].task.id);
  assert.match(json.results[2].error, /^idempotency key reused: "k"/);
  assert.equal(json.results[2].taskId, json.results[0].task.id);
});

test("with the mode first, a key answers with its first task, whatever the request says", async (t) => {
  const body = { command: "render", payload: { n: 1 }, idempotencyKey: "k" };
  const other = { command: "print", payload: { n: 2 }, idempotencyKey: "k" };
  const server = await setup(t);
  const id = await server.create(body);
  const send = (mode: string, path = "/tasks", sent: object = other) =>
    server.ask(`/v1/codeq${path}`, {
      method: "POST",
      caller: "producer-acme",
      headers: { "Codeq-Idempotency-Mode": mode },
      body: sent,
    });
  const again = await send("first");
  assert.deepEqual([again.status, again.headers["idempotent-replayed"]], [202, "true"]);
  const { id: sameId, command, payload } = again.json;
  assert.deepEqual([sameId, command, payload], [id, "render", '{"n":1}']);
  const batch = await send("first", "/tasks/batch", { tasks: [other] });
  assert.equal(batch.json.results[0].task.payload, '{"n":1}');
  assert.equal((await send("strict")).status, 409);
  const odd = await send("last");
  assert.equal(odd.text, `{"error":"invalid 'Codeq-Idempotency-Mode' (must be strict or first)"}`);
  const lenient = await setup(t, { settings: { idempotencyMode: "first" } });
  const first = await lenient.create(body);
  assert.equal(await lenient.create(other), first);
});

test("the task of a key is found by the key, and after its deletion what became of it", async (t) => {
  const settings = { retentionSeconds: 60, idempotencySeconds: 600 };
  const server = await setup(t, { settings });
  const body = { command: "render", payload: { n: 1 }, idempotencyKey: "order/7 ü" };
  const path = `/tasks/by-key/${encodeURIComponent(body.idempotencyKey)}`;
  assert.equal((await server.get(path)).status, 404);
  const id = await server.create(body);
  assert.equal((await server.get(path)).text, (await server.get(`/tasks/${id}`)).text);
  const foreign = await server.ask(`/v1/codeq${path}`, { caller: "producer-globex" });
  assert.equal(foreign.status, 404);
  await server.claim();
  await server.complete(id);
  await server.clock.advance(200_000);
  assert.equal((await server.get(`/tasks/${id}`)).status, 404);
  const gone = await server.get(path);
  assert.equal(gone.status, 410);
  const { taskId, key, status, endedAt } = gone.json;
  const ended = "2026-01-02T03:04:05Z";
  assert.deepEqual([taskId, key, status, endedAt], [id, "order/7 ü", "COMPLETED", ended]);
  const again = await server.post("/tasks", body, "producer-acme");
  assert.deepEqual([again.status, again.json.id, again.json.status], [202, id, "COMPLETED"]);
  const other = await server.post("/tasks", { ...body, payload: 2 }, "producer-acme");
  assert.deepEqual([other.status, other.json.taskId], [409, id]);
  await server.clock.advance(400_000);
  assert.equal((await server.get(path)).status, 404);
  assert.notEqual(await server.create(body), id);
});

test("a task that does not exist is not found", async (t) => {
  const server = await setup(t);
  for (const id of ["nothing", "019b7ca9-8d00-7000-b60d-c48d25699bac", "..%2f..", "a%00b"]) {
    for (const caller of ["producer-acme", "worker-acme"] as const) {
      const reply = await server.get(`/tasks/${id}`, caller);
      assert.equal(reply.status, 404);
      assert.equal(reply.text, '{"error":"not found"}');
    }
  }
});

test("a unique key gives the task that is there, refuses, or changes the waiting task", async (t) => {
  const server = await setup(t);
  const send = (on: string, payload: unknown, over: object = {}) =>
    server.post(
      "/tasks",
      { command: "sync", payload, unique: { key: "a/1", on, ...over } },
      "producer-acme",
    );
  const first = await send("return", 1);
  assert.deepEqual([first.json.uniqueKey, first.json.deduplicated], ["a/1", undefined]);
  const again = await send("return", 2);
  const { id, payload, deduplicated } = again.json;
  assert.deepEqual([again.status, id, payload, deduplicated], [202, first.json.id, "1", true]);
  const refused = await send("refuse", 2);
  assert.deepEqual([refused.status, refused.json.key], [409, "a/1"]);
  assert.equal(refused.json.taskId, first.json.id);
  const replaced = await send("latest", 3);
  assert.deepEqual([replaced.json.id, replaced.json.payload], [first.json.id, "3"]);
  assert.equal(replaced.json.replaced, 1);
  const tasks = [{ command: "sync", payload: 4, unique: { key: "a/1" } }];
  const batch = await server.post("/tasks/batch", { tasks }, "producer-acme");
  assert.equal(batch.json.results[0].deduplicated, true);
  assert.equal(batch.json.results[0].task.payload, "3");
  await server.claim();
  const waiting = await send("latest", 5);
  assert.deepEqual([waiting.json.waitsForKey, waiting.json.runAt], [true, undefined]);
  for (const [wrong, field] of [
    [{ key: "" }, "key"],
    [{ while: "x" }, "while"],
    [{ on: "x" }, "on"],
    [{ for: "5" }, "for"],
    [{ maxWait: "999d" }, "maxWait"],
  ] as const) {
    const reply = await send("return", 1, wrong);
    assert.match(reply.json.error, new RegExp(`^invalid 'unique.${field}' `));
  }
});
