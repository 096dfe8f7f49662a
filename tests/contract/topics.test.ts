/** Topics: contract 12 and 13 O11. What a policy says is what the queue does. */
import assert from "node:assert/strict";
import test from "node:test";
import { limits } from "@codeq/protocol";
import { type Reply, type RunningServer, setup } from "./setup.ts";
import type { Caller } from "./tokens.ts";

const base = "/v1/codeq/admin/topics";
const policy = { priorityTiers: [0, 5], maxAttempts: 3 };

function put(
  server: RunningServer,
  name: string,
  body: unknown,
  caller: Caller = "admin-acme",
): Promise<Reply> {
  return server.ask(`${base}/${name}`, { method: "PUT", caller, body });
}

function remove(
  server: RunningServer,
  name: string,
  query = "?deletionPolicy=Delete",
): Promise<Reply> {
  return server.ask(`${base}/${name}${query}`, { method: "DELETE", caller: "admin-acme" });
}

async function topic(server: RunningServer, name: string, fields: object = {}): Promise<void> {
  const reply = await put(server, name, { ...policy, ...fields });
  assert.ok(reply.status === 200 || reply.status === 201, reply.text);
}

test("a topic is made, changed, read, listed and deleted", async (t) => {
  const server = await setup(t);
  const full = {
    priorityTiers: [9, 0, 10],
    maxAttempts: 7,
    deadLetterTopicRef: "render-dead",
    retentionSeconds: 60,
    maxConsumers: 4,
  };
  const made = await put(server, "render", full);
  assert.equal(made.status, 201, made.text);
  const shown = {
    topicId: "acme.render",
    tenantId: "acme",
    topicName: "render",
    policy: { ...full, priorityTiers: [0, 9, 10] },
    version: 1,
    createdAt: "2026-01-02T03:04:05.12Z",
    updatedAt: "2026-01-02T03:04:05.12Z",
  };
  assert.deepEqual(made.json, shown);
  await server.clock.advance(1000);
  const same = await put(server, "render", { ...full, priorityTiers: [10, 9, 0] });
  assert.deepEqual([same.status, same.json], [200, shown]);
  const changed = await put(server, "render", { ...policy, retentionSeconds: 0 });
  assert.equal(changed.status, 200);
  assert.deepEqual(changed.json, {
    ...shown,
    policy,
    version: 2,
    updatedAt: "2026-01-02T03:04:06.12Z",
  });
  assert.deepEqual((await server.get("/admin/topics/render", "admin-acme")).json, changed.json);
  await topic(server, "mail");
  const { topics } = (await server.get("/admin/topics", "admin-acme")).json;
  assert.deepEqual(
    topics.map((each: { topicName: string }) => each.topicName),
    ["mail", "render"],
  );
  const page = (await server.get("/admin/topics?limit=1", "admin-acme")).json;
  assert.deepEqual([page.topics.length, page.next], [1, "mail"]);
  assert.equal((await remove(server, "render")).status, 204);
  assert.equal((await remove(server, "render")).status, 204);
  const gone = await server.get("/admin/topics/render", "admin-acme");
  assert.deepEqual([gone.status, gone.json.error], [404, 'queue topic "acme.render" not found']);
});

test("what is wrong with a policy is named, and nothing is written", async (t) => {
  const server = await setup(t);
  const before = await server.fingerprint();
  const cases: readonly (readonly [string, object])[] = [
    ["priorityTiers", { priorityTiers: [] }],
    ["priorityTiers", { priorityTiers: undefined }],
    ["priorityTiers", { priorityTiers: [0, 11] }],
    ["priorityTiers", { priorityTiers: [-1] }],
    ["priorityTiers", { priorityTiers: [1, 1] }],
    ["priorityTiers", { priorityTiers: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10] }],
    ["maxAttempts", { maxAttempts: 0 }],
    ["maxAttempts", { maxAttempts: 101 }],
    ["deadLetterTopicRef", { deadLetterTopicRef: "up per" }],
    ["deadLetterTopicRef", { deadLetterTopicRef: "render" }],
    ["deadLetterTopicRef", { deadLetterTopicRef: "x".repeat(129) }],
    ["retentionSeconds", { retentionSeconds: -1 }],
    ["retentionSeconds", { retentionSeconds: 2_147_483_648 }],
    ["maxConsumers", { maxConsumers: 10_001 }],
  ];
  for (const [field, fields] of cases) {
    const reply = await put(server, "render", { ...policy, ...fields });
    assert.equal(reply.status, 422, `${field}: ${reply.text}`);
    assert.equal(reply.json.field, field);
    assert.ok(reply.json.error.startsWith(`invalid ${field}: `), reply.text);
  }
  for (const name of ["-a", ".a", "a b", "x".repeat(129), "a%00", "..%2Fa"]) {
    const reply = await put(server, name, policy);
    assert.deepEqual([reply.status, reply.json.field], [422, "topicName"], name);
  }
  for (const body of [
    { ...policy, maxAttempt: 1 },
    "[]",
    "{",
    "",
    { ...policy, maxAttempts: "1" },
  ]) {
    const reply = await put(server, "render", body);
    assert.equal(reply.status, 400);
    assert.match(reply.json.error, /^invalid request body: /);
  }
  const padded = `${JSON.stringify(policy)}${" ".repeat(limits.topicBodyBytesMax)}`;
  const large = await put(server, "render", padded);
  assert.deepEqual([large.status, large.headers["codeq-error"]], [413, "body_too_large"]);
  assert.equal(
    large.json.error,
    "request body is too large: at most 16384 bytes are accepted here",
  );
  const query = await remove(server, "render", "?deletionPolicy=delete");
  assert.deepEqual([query.status, query.json.error], [400, "deletionPolicy=Delete is required"]);
  assert.equal((await remove(server, "render", "")).status, 400);
  assert.equal(await server.fingerprint(), before);
  const longest = padded.slice(0, limits.topicBodyBytesMax);
  assert.equal((await put(server, "render", longest)).status, 201);
});

test("tasks get the attempts of the topic unless they name their own", async (t) => {
  const server = await setup(t);
  await topic(server, "render", { maxAttempts: 2 });
  const id = await server.create({ command: "RENDER" });
  assert.equal((await server.task(id)).maxAttempts, 2);
  const own = await server.create({ maxAttempts: 9 });
  assert.equal((await server.task(own)).maxAttempts, 9);
  const other = await server.create({ command: "other" });
  assert.equal((await server.task(other)).maxAttempts, 5);
  const foreign = await server.create({}, "producer-globex");
  assert.equal((await server.task(foreign, "producer-globex")).maxAttempts, 5);
  await remove(server, "render");
  assert.equal((await server.task(await server.create())).maxAttempts, 5);
});

test("priorities that the topic does not have are refused; none means the lowest", async (t) => {
  const server = await setup(t);
  await topic(server, "render", { priorityTiers: [3, 7, 10] });
  const bad = await server.post(
    "/tasks",
    { command: "render", payload: 1, priority: 5 },
    "producer-acme",
  );
  assert.equal(bad.status, 400);
  assert.equal(bad.headers["codeq-error"], "priority_not_allowed");
  assert.match(bad.json.error, /priority 5 is not allowed .* 3, 7/);
  assert.equal((await server.stats()).ready, 0);
  assert.equal((await server.task(await server.create({ priority: 7 }))).priority, 7);
  assert.equal((await server.task(await server.create())).priority, 3);
  const tasks = [
    { command: "render", payload: 1, priority: 4 },
    { command: "other", payload: 1, priority: 4 },
  ];
  const batch = await server.post("/tasks/batch", { tasks }, "producer-acme");
  assert.equal(batch.json.results[0].code, "priority_not_allowed");
  assert.equal(batch.json.results[1].task.priority, 4);
});

test("finished tasks are kept as long as the topic says", async (t) => {
  const server = await setup(t);
  await topic(server, "render", { retentionSeconds: 60 });
  const id = await server.leased();
  await server.complete(id);
  const other = await server.leased({ command: "other" });
  await server.complete(other);
  await server.clock.advance(59_000);
  assert.equal((await server.get(`/tasks/${id}`)).status, 200);
  await server.clock.advance(91_000);
  assert.equal((await server.get(`/tasks/${id}`)).status, 404);
  assert.equal((await server.get(`/tasks/${other}`)).status, 200);
});

test("no more tasks are with workers than the topic allows, whoever asks and how", async (t) => {
  const server = await setup(t);
  await topic(server, "render", { maxConsumers: 2 });
  for (let n = 0; n < 5; n += 1) await server.create();
  await server.create({ command: "other" });
  const body = { count: 4, commands: ["render"] };
  const first = await server.post("/tasks/claim/batch", body, "worker-acme");
  const taken = [...first.json.tasks];
  while (taken.length < 2)
    taken.push(await server.claim({ commands: ["render"] }, "worker-acme-2"));
  assert.equal(await server.claim({ commands: ["render"] }), undefined);
  assert.equal(await server.claim({ commands: ["render"] }, "worker-acme-2"), undefined);
  assert.equal((await server.claim({})).command, "other");
  assert.equal(await server.claim({}), undefined);
  const stats = await server.stats();
  assert.deepEqual([stats.ready, stats.inProgress], [3, 2]);
  assert.deepEqual(stats.topic, { version: 1, maxConsumers: 2, isAtLimit: true });
  const waiting = server.claim({ commands: ["render"], waitSeconds: 10 }, "worker-acme-2");
  await server.untilWaiting(1);
  await server.complete(
    taken[0].id,
    taken[0].workerId === "worker-1" ? "worker-acme" : "worker-acme-2",
  );
  assert.equal((await waiting).command, "render");
  assert.equal((await server.stats()).inProgress, 2);
  assert.equal(await server.claim({}), undefined);
});

test("a limit that is raised serves those who wait, and one that is lowered takes nothing away", async (t) => {
  const server = await setup(t);
  await topic(server, "render", { maxConsumers: 1 });
  for (let n = 0; n < 4; n += 1) await server.create();
  const first = await server.claim({});
  const waiting = server.claim({ waitSeconds: 10 }, "worker-acme-2");
  await server.untilWaiting(1);
  await topic(server, "render", { maxConsumers: 2 });
  const second = await waiting;
  assert.notEqual(second, undefined);
  await topic(server, "render", { maxConsumers: 1 });
  assert.equal((await server.complete(first.id)).status, 200);
  assert.equal(await server.claim({}), undefined, "one is still there");
  assert.equal((await server.complete(second.id, "worker-acme-2")).status, 200);
  assert.notEqual(await server.claim({}), undefined);
  await remove(server, "render");
  assert.notEqual(await server.claim({}), undefined);
});

test("limits are exact across kill -9, restart and the end of leases", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  await topic(server, "render", { maxConsumers: 2 });
  for (let n = 0; n < 5; n += 1) await server.create();
  const claim = { commands: ["render"], leaseSeconds: 60 };
  for (let n = 0; n < 2; n += 1) assert.notEqual(await server.claim(claim), undefined);
  server.world.crash("power");
  const next = await server.world.start();
  t.after(() => next.stop());
  assert.equal((await next.stats()).inProgress, 2);
  assert.equal(await next.claim(claim), undefined);
  assert.equal((await next.get("/admin/topics/render", "admin-acme")).json.version, 1);
  while ((await next.stats()).inProgress > 0) await next.clock.advance(5000);
  const held: unknown[] = [];
  for (let n = 0; n < 4; n += 1) held.push(await next.claim(claim));
  assert.equal(held.filter((each) => each !== undefined).length, 2);
  assert.equal((await next.stats()).inProgress, 2);
});

test("a dead letter goes on as a new task of the queue that the topic names", async (t) => {
  const server = await setup(t);
  await topic(server, "render", { deadLetterTopicRef: "render-dead", priorityTiers: [0, 5] });
  await topic(server, "render-dead", { maxAttempts: 8, priorityTiers: [2] });
  const payload = { big: "x".repeat(2000) };
  const nack = await server.buried({ payload, priority: 5, idempotencyKey: "k" });
  const copy = await server.claim({ commands: ["render-dead"] });
  assert.deepEqual(
    [copy.replayOf, JSON.parse(copy.payload), copy.maxAttempts, copy.priority],
    [nack, payload, 8, 2],
  );
  assert.notEqual(copy.id, nack);
  const dead = await server.task(nack);
  assert.deepEqual([dead.status, dead.lastKnownLocation], ["FAILED", "DLQ_SET"]);
  const again = await server.create({ idempotencyKey: "k", payload, priority: 5, maxAttempts: 1 });
  assert.equal(again, nack, "the key is still that of the first");
  // By the end of a lease, too.
  const expired = await server.create({ maxAttempts: 1 });
  await server.claim({ commands: ["render"], leaseSeconds: 10 });
  while ((await server.stats("render-dead")).ready === 0) await server.clock.advance(1000);
  assert.equal((await server.claim({ commands: ["render-dead"] })).replayOf, expired);
});

test("what is a copy already stays a dead letter, so that topics cannot send tasks in circles", async (t) => {
  const server = await setup(t);
  await topic(server, "render", { deadLetterTopicRef: "other", maxAttempts: 1 });
  await topic(server, "other", { deadLetterTopicRef: "render", maxAttempts: 1 });
  await server.buried();
  const copy = await server.claim({ commands: ["other"] });
  await server.post(`/tasks/${copy.id}/nack`, {}, "worker-acme");
  assert.equal((await server.stats("render")).ready, 0);
  assert.equal((await server.stats("other")).dlq, 1);
});

test("a dead letter and its copy are durable together", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  await topic(server, "render", { deadLetterTopicRef: "render-dead" });
  const id = await server.buried();
  server.world.crash("power");
  const next = await server.world.start();
  t.after(() => next.stop());
  assert.equal((await next.claim({ commands: ["render-dead"] })).replayOf, id);
});

test("a tenant has a bounded number of topics", async (t) => {
  const server = await setup(t);
  const all = Array.from({ length: 1000 }, (_, n) => put(server, `t${n}`, policy));
  for (const { status } of await Promise.all(all)) assert.equal(status, 201);
  const more = await put(server, "one-more", policy);
  assert.deepEqual([more.status, more.headers["codeq-error"]], [409, "too_many_topics"]);
  assert.equal((await put(server, "t7", { ...policy, maxAttempts: 9 })).status, 200);
});

test("a dead letter that was replayed with changes is copied when it dies again", async (t) => {
  const server = await setup(t);
  await topic(server, "mail", { maxAttempts: 1, deadLetterTopicRef: "mail-dead" });
  const id = await server.buried({ command: "mail" });
  assert.equal((await server.stats("mail-dead")).ready, 1);
  await server.post(`/admin/tasks/${id}/replay`, { payload: { a: 2 } }, "admin-acme");
  const again = await server.claim({ commands: ["mail"] });
  await server.post(`/tasks/${again.id}/nack`, {}, "worker-acme");
  assert.equal((await server.stats("mail-dead")).ready, 2);
});

test("edits and replays keep to the priorities of the topic, and a moved task gets one of them", async (t) => {
  const server = await setup(t);
  await topic(server, "mail");
  const dead = await server.buried({ command: "mail", maxAttempts: 1 });
  const id = await server.create({ command: "mail", priority: 5 });
  const edit = (of: string, body: object): Promise<Reply> =>
    server.ask(`/v1/codeq/admin/tasks/${of}`, { method: "PATCH", caller: "admin-acme", body });
  for (const reply of [
    await edit(id, { priority: 7 }),
    await server.post(`/admin/tasks/${dead}/replay`, { priority: 7 }, "admin-acme"),
  ]) {
    assert.deepEqual([reply.status, reply.headers["codeq-error"]], [400, "priority_not_allowed"]);
    assert.equal(reply.json.error, "priority 7 is not allowed by the topic; allowed: 0, 5");
  }
  assert.equal((await server.task(id)).priority, 5);
  assert.equal((await edit(id, { priority: 0 })).json.task.priority ?? 0, 0);
  const other = await server.create({ command: "other", priority: 7 });
  assert.equal((await edit(other, { priority: 8 })).json.task.priority, 8);
  const moved = await edit(other, { command: "mail" });
  assert.deepEqual([moved.status, moved.json.task.priority ?? 0], [200, 0]);
});

test("every name of a queue is the name of a topic, letter case ignored", async (t) => {
  const server = await setup(t);
  const queue = "Csv.Import:v_2-";
  const longest = "x".repeat(128);
  for (const name of [queue, longest]) {
    const reply = await put(server, name, { ...policy, maxAttempts: 7 });
    assert.deepEqual([reply.status, reply.json.topicName], [201, name.toLowerCase()]);
    const id = await server.create({ command: name.toUpperCase(), maxAttempts: 0, priority: 5 });
    assert.equal((await server.task(id)).maxAttempts, 7);
  }
  assert.equal((await put(server, queue.toLowerCase(), policy)).status, 200);
  const own = await put(server, "a", { ...policy, deadLetterTopicRef: "A" });
  assert.equal(own.json.field, "deadLetterTopicRef");
});
