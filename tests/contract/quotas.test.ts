/** What one tenant may have: refusals say which quota, how much and how much there is; others go on. */
import assert from "node:assert/strict";
import test from "node:test";
import { noQuotas, type TenantQuota } from "../../packages/server/src/config/quotas.ts";
import type { Config } from "../../packages/server/src/config/settings.ts";
import { onlyWith, type Reply, setup } from "./setup.ts";

/** For `acme` only. */
function quota(own: Partial<TenantQuota>): { settings: Partial<Config> } {
  const tenants = new Map([["acme", { ...noQuotas.default, ...own }]]);
  return { settings: { quotas: { ...noQuotas, tenants } } };
}

function assertOver(reply: Reply, name: string, limit: number, current: number): void {
  assert.equal(reply.status, 429);
  assert.deepEqual(reply.json, {
    error: `quota exceeded: ${name} is ${current}, the limit is ${limit}`,
    quota: name,
    limit,
    current,
    retryAfterSeconds: 1,
  });
  assert.equal(reply.headers["retry-after"], "1");
}

const task = { command: "render", payload: {} };

test("pending tasks: one too many is refused, another tenant's are not", async (t) => {
  const server = await setup(t, quota({ pendingTasks: 2 }));
  const create = (caller: "producer-acme" | "producer-globex") =>
    server.post("/tasks", task, caller);
  await server.create();
  await server.create({ command: "encode", delaySeconds: 60 });
  const before = await server.fingerprint();
  assertOver(await create("producer-acme"), "pendingTasks", 2, 2);
  assert.equal(await server.fingerprint(), before);
  for (let n = 0; n < 5; n += 1) assert.equal((await create("producer-globex")).status, 202);
  await server.claim({ commands: ["render"] });
  assert.equal((await create("producer-acme")).status, 202);
  assertOver(await create("producer-acme"), "pendingTasks", 2, 2);
  const refusals = 'codeq_quota_refusals_total{quota="pendingTasks"}';
  assert.equal(await server.metric(refusals), 2);
});

test("queues: the refusal of one queue too many says what to do", onlyWith.queues, async (t) => {
  const server = await setup(t, quota({ queues: 1 }));
  await server.create({ command: "render" });
  const refused = await server.post("/tasks", { command: "encode", payload: {} }, "producer-acme");
  assert.equal(refused.status, 429);
  assert.equal(
    refused.json.error,
    "quota exceeded: queues is 1, the limit is 1; use commands that have tasks, or have an operator raise the quota",
  );
  assert.equal((await server.post("/tasks", task, "producer-acme")).status, 202);
});

test("queues: each shard has no more than the quota, and other tenants are not concerned", async (t) => {
  const server = await setup(t, quota({ queues: 2 }));
  const { shards } = server.config;
  const accepted = new Set<string>();
  for (let n = 0; n < 12; n += 1) {
    const command = `queue-${n}`;
    const { status, json } = await server.post("/tasks", { command, payload: {} }, "producer-acme");
    if (status === 202) accepted.add(command);
    else assert.deepEqual([status, json.quota, json.limit, json.current], [429, "queues", 2, 2]);
    const other = await server.post("/tasks", { command, payload: {} }, "producer-globex");
    assert.equal(other.status, 202);
  }
  assert.ok(accepted.size >= 2 && accepted.size <= 2 * shards, `${accepted.size} queues`);
});

test("a batch is taken as far as the quota goes, each item telling for itself", async (t) => {
  const server = await setup(t, quota({ pendingTasks: 2 }));
  const batch = (count: number) =>
    server.post("/tasks/batch", { tasks: Array(count).fill(task) }, "producer-acme");
  const reply = await batch(3);
  assert.equal(reply.status, 200);
  const [first, second, third] = reply.json.results;
  assert.ok(first.task.id !== undefined && second.task.id !== undefined);
  assert.deepEqual(third, {
    error: "quota exceeded: pendingTasks is 2, the limit is 2",
    code: "quota_exceeded",
    quota: "pendingTasks",
    limit: 2,
    current: 2,
    retryAfterSeconds: 1,
  });
  assertOver(await batch(2), "pendingTasks", 2, 2);
});

test("a repeated idempotency key is answered although the tenant is full", async (t) => {
  const server = await setup(t, quota({ pendingTasks: 1 }));
  const keyed = { ...task, idempotencyKey: "k" };
  const id = await server.create(keyed);
  const reply = await server.post("/tasks", keyed, "producer-acme");
  assert.equal(reply.status, 202);
  assert.equal(reply.json.id, id);
  assert.equal(reply.headers["idempotent-replayed"], "true");
});

test("stored bytes: counted through results, deletions and restarts", async (t) => {
  const server = await setup(t, { ...quota({ storedBytes: 200 }), storage: "sim-disk" });
  const large = { command: "render", payload: "x".repeat(98) };
  const id = await server.leased(large);
  assertOver(
    await server.post("/tasks", { ...large, payload: "x".repeat(99) }, "producer-acme"),
    "storedBytes",
    200,
    100,
  );
  assert.equal((await server.complete(id)).status, 200);
  const current = 100 + '{"ok":1}'.length;
  server.world.crash("process");
  const again = await server.world.start(server.config);
  t.after(() => again.stop());
  assertOver(await again.post("/tasks", large, "producer-acme"), "storedBytes", 200, current);
  assert.equal((await again.post("/tasks", large, "producer-globex")).status, 202);
  const before = "2030-01-01T00:00:00Z";
  const cleaned = await again.post("/admin/tasks/cleanup", { before }, "admin-acme");
  assert.equal(cleaned.json.deleted, 1);
  assert.equal((await again.post("/tasks", large, "producer-acme")).status, 202);
});

test("a result is taken however full the tenant is", async (t) => {
  const server = await setup(t, quota({ storedBytes: 10 }));
  const id = await server.leased({ payload: "12345678" });
  const result = { status: "COMPLETED", result: { text: "x".repeat(1000) } };
  assert.equal((await server.post(`/tasks/${id}/result`, result, "worker-acme")).status, 200);
});

test("concurrent leases: a claim gets what is left, then it is told, and others claim on", async (t) => {
  const server = await setup(t, quota({ concurrentLeases: 2 }));
  for (let n = 0; n < 5; n += 1) await server.create();
  await server.create({}, "producer-globex");
  const batch = () => server.post("/tasks/claim/batch", { count: 5 }, "worker-acme");
  const claimed = await batch();
  assert.equal(claimed.json.tasks.length, 2);
  assertOver(await batch(), "concurrentLeases", 2, 2);
  const single = await server.post("/tasks/claim", {}, "worker-acme-2");
  assertOver(single, "concurrentLeases", 2, 2);
  assert.notEqual(await server.claim({}, "worker-globex"), undefined);
  await server.complete(claimed.json.tasks[0].id);
  assert.equal((await batch()).json.tasks.length, 1);
});

test("a claim that waits is served when a lease ends, and told when none did", async (t) => {
  const server = await setup(t, quota({ concurrentLeases: 1 }));
  const first = await server.leased();
  const second = await server.create();
  const wait = () => server.post("/tasks/claim", { waitSeconds: 10 }, "worker-acme-2");
  const served = wait();
  await server.untilWaiting(1);
  await server.complete(first);
  assert.equal((await served).json.id, second);
  const told = wait();
  await server.untilWaiting(1);
  await server.clock.advance(10_000);
  assertOver(await told, "concurrentLeases", 1, 1);
  // Without work it waits for that, and hears of none.
  await server.complete(second, "worker-acme-2");
  assert.equal(await server.claim(), undefined);
});

test("requests per second: all requests of a tenant count, whoever sends them", async (t) => {
  const server = await setup(t, quota({ requestsPerSecond: 3 }));
  const id = await server.create();
  assert.equal((await server.get(`/tasks/${id}`, "worker-acme")).status, 200);
  const third = await server.get("/admin/queues", "admin-acme");
  assert.equal(third.headers["ratelimit-policy"], '"requests";q=3;w=1');
  assert.equal(third.headers["ratelimit"], '"requests";r=0;t=1');
  for (const reply of [
    await server.get(`/tasks/${id}`),
    await server.post("/tasks", task, "producer-acme"),
    await server.post("/tasks/claim", {}, "worker-acme-2"),
    await server.post(`/tasks/${id}/heartbeat`, {}, "worker-acme"),
  ]) {
    assertOver(reply, "requestsPerSecond", 3, 3);
    assert.equal(reply.headers["ratelimit"], '"requests";r=0;t=1');
  }
  assert.equal((await server.get("/admin/queues", "admin-globex")).status, 200);
  await server.clock.advance(334);
  assert.equal((await server.get(`/tasks/${id}`)).status, 200);
  assert.equal((await server.get(`/tasks/${id}`)).status, 429);
  const refusals = 'codeq_quota_refusals_total{quota="requestsPerSecond"}';
  assert.equal(await server.metric(refusals), 5);
  assert.equal((await server.ask("/healthz", {})).status, 200);
});

test("a request over both the quota and the rate limit does not use up the rate", async (t) => {
  const { settings } = quota({ requestsPerSecond: 1 });
  const rate = {
    "rateLimit.producer.requestsPerMinute": 60,
    "rateLimit.producer.burstSize": 3,
  } as const;
  const server = await setup(t, { settings: { ...settings, ...rate } });
  const create = () => server.post("/tasks", task, "producer-acme");
  const first = await create();
  assert.equal(first.headers["ratelimit"], '"token";r=2;t=1, "requests";r=0;t=1');
  for (let n = 0; n < 5; n += 1) assert.equal((await create()).status, 429);
  await server.clock.advance(1000);
  assert.equal((await create()).headers["ratelimit"], '"token";r=2;t=1, "requests";r=0;t=1');
});

test("S12: whatever is exceeded, no series names a tenant, a subject or a token", async (t) => {
  const server = await setup(
    t,
    quota({ pendingTasks: 1, storedBytes: 5, requestsPerSecond: 20, concurrentLeases: 1 }),
  );
  for (let n = 0; n < 15; n += 1) {
    await server.post("/tasks", task, "producer-acme");
    await server.post("/tasks/claim", {}, "worker-acme");
  }
  const { text } = await server.ask("/metrics", {});
  const lines = text.split("\n").filter((line) => line.startsWith("codeq_quota_refusals_total"));
  assert.deepEqual(
    lines.map((line) => /quota="(\w+)"/.exec(line)?.[1]).sort(),
    ["concurrentLeases", "pendingTasks", "requestsPerSecond"].sort(),
  );
  assert.doesNotMatch(text, /acme|worker-1|shop/);
});
