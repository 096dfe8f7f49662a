/** Unique tasks and idempotency keys over HTTP: what is refused and in which words, and where people see them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { openFeed } from "./feed-reader.ts";
import { type Reply, type RunningServer, setup } from "./setup.ts";

const sync = { command: "sync", payload: 1, maxAttempts: 1 };

function send(server: RunningServer, body: object, headers = {}): Promise<Reply> {
  const given = { ...sync, ...body };
  return server.ask("/v1/codeq/tasks", {
    method: "POST",
    caller: "producer-acme",
    headers,
    body: given,
  });
}

function ofAda(server: RunningServer, on: string, payload: number): Promise<Reply> {
  return send(server, { payload, unique: { key: "ada", on } });
}

const chars = "1 to 200 characters, and no control characters";
const whiles = "one of unfinished, waiting";
const actions = "one of return, refuse, replace, latest, cancel";
const length = "a length of time such as 5m, at most 2592000 seconds";

/** A value that is out of bounds; the other tasks of a batch are created all the same. */
const wrong: readonly [unique: object, field: string, rule: string][] = [
  [{}, "key", chars],
  [{ key: "" }, "key", chars],
  [{ key: "k".repeat(201) }, "key", chars],
  [{ key: "\ud800" }, "key", chars],
  [{ key: "a\0b" }, "key", chars],
  [{ key: "a\nb" }, "key", chars],
  [{ key: "k", while: "running" }, "while", whiles],
  [{ key: "k", while: "WAITING" }, "while", whiles],
  [{ key: "k", on: "drop" }, "on", actions],
  [{ key: "k", for: "5" }, "for", length],
  [{ key: "k", for: "-5m" }, "for", length],
  [{ key: "k", for: "31d" }, "for", length],
  [{ key: "k", for: "2592000.001s" }, "for", length],
  [{ key: "k", maxWait: "soon" }, "maxWait", length],
  [{ key: "k", maxWait: "1w" }, "maxWait", length],
];

for (const [unique, field, rule] of wrong) {
  test(`unique ${JSON.stringify(unique)} is refused with the rule`, async (t) => {
    const server = await setup(t);
    const before = await server.fingerprint();
    const error = `invalid 'unique.${field}' (${rule})`;
    const reply = await send(server, { unique });
    assert.deepEqual([reply.status, reply.json], [400, { error }]);
    assert.equal(await server.fingerprint(), before);
    const tasks = [{ ...sync, unique }, sync];
    const batch = await server.post("/tasks/batch", { tasks }, "producer-acme");
    const [refused, created] = batch.json.results;
    assert.deepEqual(refused, { error, code: "invalid_argument" });
    assert.equal(created.task.command, "sync");
  });
}

const known = "known fields: key, while, on, for, maxWait";

/** A value of another type; nothing of a batch is created. */
const unreadable: readonly [unique: unknown, error: string][] = [
  [{ key: 7 }, "unique.key must be a string, got 7"],
  [{ key: "k", on: 1 }, "unique.on must be a string, got 1"],
  [{ key: "k", for: 300 }, "unique.for must be a string, got 300"],
  [{ key: "k", until: "done" }, `unknown field "until" in unique; ${known}`],
  ["k", 'unique must be an object, got "k"'],
  [["k"], 'unique must be an object, got ["k"]'],
];

test("a unique of another type is refused with what it is", async (t) => {
  const server = await setup(t);
  const before = await server.fingerprint();
  for (const [unique, error] of unreadable) {
    const reply = await send(server, { unique });
    assert.deepEqual([reply.status, reply.json], [400, { error: `invalid body: ${error}` }]);
    const tasks = [sync, { ...sync, unique }];
    const batch = await server.post("/tasks/batch", { tasks }, "producer-acme");
    const inBatch = error.replace(/\bunique(?=[.; ])/, "tasks[1].unique");
    assert.deepEqual([batch.status, batch.json], [400, { error: `invalid body: ${inBatch}` }]);
  }
  assert.equal(await server.fingerprint(), before);
});

test("the longest key and the longest times are accepted", async (t) => {
  const server = await setup(t);
  const key = "ü".repeat(200);
  const reply = await send(server, { unique: { key, for: "30d", maxWait: "2592000s" } });
  assert.deepEqual([reply.status, reply.json.uniqueKey], [202, key]);
});

for (const during of ["unfinished", "waiting"]) {
  test(`a key that is held longer than ended tasks are kept keeps its task (${during})`, async (t) => {
    const server = await setup(t, { settings: { retentionSeconds: 60 } });
    const unique = { key: "ada", while: during, for: "1h" };
    const { id } = (await send(server, { unique })).json;
    const other = (await send(server, {})).json.id;
    await server.claim();
    await server.claim();
    await server.complete(id);
    await server.complete(other);
    await server.clock.advance(3_590_000);
    assert.equal((await server.get(`/tasks/${other}`)).status, 404);
    assert.equal((await send(server, { unique })).json.id, id);
    const refused = await send(server, { unique: { ...unique, on: "refuse" } });
    assert.deepEqual([refused.status, refused.json.taskId], [409, id]);
    await server.clock.advance(11_000);
    assert.notEqual((await send(server, { unique })).json.id, id);
    await server.clock.advance(120_000);
    assert.equal((await server.get(`/tasks/${id}`)).status, 404);
  });
}

test("keys that nobody used and modes that do not exist", async (t) => {
  const server = await setup(t);
  for (const key of ["nobody", "%20", "k".repeat(300), "a%00b"]) {
    const reply = await server.get(`/tasks/by-key/${key}`);
    assert.deepEqual([reply.status, reply.json], [404, { error: "not found" }], key);
  }
  const key = { idempotencyKey: "k" };
  for (const mode of ["FIRST", "first, strict", "none"]) {
    const reply = await send(server, key, { "Codeq-Idempotency-Mode": mode });
    const error = "invalid 'Codeq-Idempotency-Mode' (must be strict or first)";
    assert.deepEqual([reply.status, reply.json], [400, { error }]);
  }
  // An empty header is none.
  assert.equal((await send(server, key, { "Codeq-Idempotency-Mode": "" })).status, 202);
});

test("a task with a unique key tells how often it was replaced, and what it waits for", async (t) => {
  const server = await setup(t);
  const why = async (id: string) => (await server.get(`/tasks/${id}/explain`)).json.why;
  const { id } = (await ofAda(server, "latest", 1)).json;
  await server.clock.advance(1000);
  await ofAda(server, "latest", 2);
  await ofAda(server, "replace", 3);
  assert.match(await why(id), /; it was replaced 2 times since 2026-01-02T03:04:05.120Z$/);
  await server.claim();
  const waiting = (await ofAda(server, "latest", 4)).json.id;
  assert.equal(await why(waiting), 'it waits for the end of the task with its unique key "ada"');
});

test("the event feed has the unique key, and no time for a task that waits for it", async (t) => {
  const server = await setup(t);
  const feed = await openFeed(server);
  const { id } = (await ofAda(server, "latest", 1)).json;
  await ofAda(server, "latest", 2);
  await ofAda(server, "return", 3);
  await ofAda(server, "refuse", 4);
  await server.claim();
  const waiting = (await ofAda(server, "latest", 5)).json.id;
  await ofAda(server, "latest", 6);
  await server.complete(id);
  const events = await feed.untilEvents(7);
  const reason = "replaced by a request with the same unique key";
  assert.deepEqual(
    events.map(({ event, taskId, uniqueKey, waitsForKey, reason: why, delaySeconds }) => [
      event,
      taskId === id ? "holder" : taskId === waiting && "waiting",
      uniqueKey,
      waitsForKey,
      why,
      delaySeconds,
    ]),
    [
      ["created", "holder", "ada", undefined, undefined, undefined],
      ["edited", "holder", "ada", undefined, reason, undefined],
      ["claimed", "holder", undefined, undefined, undefined, undefined],
      ["created", "waiting", "ada", true, undefined, undefined],
      ["edited", "waiting", "ada", true, reason, undefined],
      ["completed", "holder", undefined, undefined, undefined, undefined],
      ["promoted", "waiting", undefined, undefined, undefined, undefined],
    ],
  );
  feed.leave();
});

test("an operator who needs a key that another task has is told which task", async (t) => {
  const server = await setup(t);
  const first = (await ofAda(server, "latest", 1)).json.id;
  await server.claim();
  const waiting = (await ofAda(server, "latest", 2)).json.id;
  const path = `/v1/codeq/admin/tasks/${waiting}`;
  const body = { delaySeconds: 5 };
  const moved = await server.ask(path, { method: "PATCH", caller: "admin-acme", body });
  const text = (id: string) =>
    `task ${id} has the unique key "ada"; wait for its end or cancel it, then ask again`;
  assert.deepEqual(
    [moved.status, moved.json],
    [409, { error: text(first), key: "ada", taskId: first }],
  );
  await server.post(`/tasks/${first}/nack`, { reason: "broken" }, "worker-acme");
  const replayed = await server.post(`/admin/tasks/${first}/replay`, {}, "admin-acme");
  assert.deepEqual(
    [replayed.status, replayed.json],
    [409, { error: text(waiting), key: "ada", taskId: waiting }],
  );
  assert.equal(replayed.headers["codeq-error"], "unique_key_held");
  await server.post(`/admin/tasks/${waiting}/cancel`, {}, "admin-acme");
  const again = await server.post(`/admin/tasks/${first}/replay`, {}, "admin-acme");
  assert.equal(again.status, 200, again.text);
});
