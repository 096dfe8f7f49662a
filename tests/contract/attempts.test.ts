/** Contract 13, D15 to D24: attempts, retries and delays that the older server got wrong. */
import assert from "node:assert/strict";
import test from "node:test";
import { FaultError } from "@codeq/engine";
import { backoffPolicies, backoffSeconds } from "@codeq/queue";
import { onlyWith, type RunningServer, setup, until } from "./setup.ts";

type Way = (server: RunningServer, id: string) => Promise<unknown>;

/** The ways in which an attempt comes back and counts. */
const waysBack: Readonly<Record<string, Way>> = {
  nack: (server, id) => server.post(`/tasks/${id}/nack`, { delaySeconds: 1 }, "worker-acme"),
  abandon: (server, id) => server.post(`/tasks/${id}/abandon`, {}, "worker-acme"),
  expiry: (server) => server.clock.advance(5000),
};

for (const [name, comeBack] of Object.entries(waysBack)) {
  test(`D15: a task that always comes back by ${name} is delivered exactly maxAttempts times`, async (t) => {
    const settings = { backoffPolicy: "fixed", backoffBaseSeconds: 1 } as const;
    const server = await setup(t, { settings });
    for (const maxAttempts of [1, 2, 5]) {
      const id = await server.create({ maxAttempts });
      const attempts: number[] = [];
      for (;;) {
        const task = await server.claim({ leaseSeconds: 5 });
        if (task === undefined) break;
        assert.equal(task.id, id);
        attempts.push(task.attempts ?? 0);
        await comeBack(server, id);
        await server.clock.advance(1000);
      }
      assert.deepEqual(attempts, [...Array(maxAttempts).keys()]);
      const task = await server.task(id);
      assert.equal(task.status, "FAILED");
      assert.equal(task.attempts, maxAttempts);
      assert.equal(task.error, name === "expiry" ? "LEASE_EXPIRED" : "MAX_ATTEMPTS");
    }
  });
}

test("D16: one idempotency key makes one task, however many ask at the same time", async (t) => {
  const server = await setup(t);
  const body = { command: "render", payload: { n: 1 }, idempotencyKey: "k" };
  const replies = await Promise.all(
    Array.from({ length: 50 }, () => server.post("/tasks", body, "producer-acme")),
  );
  assert.equal(new Set(replies.map(({ json }) => json.id)).size, 1);
  const fresh = replies.filter(({ headers }) => headers["idempotent-replayed"] === undefined);
  assert.equal(fresh.length, 1);
  assert.equal((await server.stats()).ready, 1);
});

test("D16: a key of one tenant says nothing to another", async (t) => {
  const server = await setup(t);
  const key = { idempotencyKey: "k" };
  const ours = await server.create({ ...key, payload: { secret: 1 } });
  const theirs = await server.post(
    "/tasks",
    { command: "render", payload: 2, ...key },
    "producer-globex",
  );
  assert.equal(theirs.status, 202);
  assert.notEqual(theirs.json.id, ours);
  assert.equal(theirs.json.payload, "2");
});

test("D16: a key is still known after a restart", async (t) => {
  const server = await setup(t);
  const id = await server.create({ idempotencyKey: "k" });
  const after = await server.restart();
  t.after(() => after.stop());
  assert.equal(await after.create({ idempotencyKey: "k" }), id);
});

test("D17: a buried task has a result that says why", async (t) => {
  const server = await setup(t);
  const id = await server.leased({ maxAttempts: 1 });
  const reader = server.get(`/tasks/${id}/result?waitSeconds=60`);
  await server.untilWaiting(1, "results");
  await server.post(`/tasks/${id}/nack`, { reason: "no paper" }, "worker-acme");
  const { json, status } = await reader;
  assert.equal(status, 200);
  assert.deepEqual(json.result, {
    taskId: id,
    status: "FAILED",
    error: "no paper",
    completedAt: "2026-01-02T03:04:05.12Z",
  });
  assert.equal(json.task.lastKnownLocation, "DLQ_SET");
});

test("D18: a lease that ends with the last attempt calls the webhook", async (t) => {
  const posted: (readonly [string, string, string])[] = [];
  const server = await setup(t, {
    post: (task, result) => {
      posted.push([task.id, result.status, result.error]);
      return Promise.resolve(200);
    },
  });
  const id = await server.create({ maxAttempts: 1, webhook: "http://a.example/" });
  await server.claim({ leaseSeconds: 1 });
  await server.clock.advance(1001);
  await until(() => posted.length > 0);
  assert.deepEqual(posted, [[id, "FAILED", "LEASE_EXPIRED"]]);
});

test("D19: a delayed task becomes ready by itself and wakes who waits", async (t) => {
  const server = await setup(t);
  await server.create({ delaySeconds: 10 });
  const id = await server.create({ command: "later", delaySeconds: 10 });
  await server.clock.advance(9999);
  const waiting = server.claim({ waitSeconds: 30, commands: ["later"] });
  await server.untilWaiting(1);
  assert.equal((await server.stats()).delayed, 1);
  await server.clock.advance(1);
  assert.deepEqual(await server.stats(), {
    command: "render",
    ready: 1,
    delayed: 0,
    inProgress: 0,
    dlq: 0,
    failed: 0,
  });
  assert.equal((await waiting).id, id);
});

test("D19: a task that was delayed through a restart becomes ready by itself", async (t) => {
  const server = await setup(t);
  await server.create({ delaySeconds: 10 });
  const after = await server.restart();
  t.after(() => after.stop());
  await after.clock.advance(10_000);
  assert.equal((await after.stats()).ready, 1);
});

test("D20: delays and leases are exact to the millisecond", async (t) => {
  const server = await setup(t);
  const id = await server.create({ runAt: "2026-01-02T03:04:05.777Z" });
  await server.clock.advance(656);
  assert.equal(await server.claim(), undefined);
  await server.clock.advance(1);
  assert.equal((await server.claim({ leaseSeconds: 1 })).id, id);
  await server.clock.advance(999);
  assert.equal((await server.task(id)).status, "IN_PROGRESS");
  await server.clock.advance(1);
  assert.equal((await server.task(id)).status, "PENDING");
});

test("D20: a step of the wall clock neither shortens nor prolongs a lease", async (t) => {
  for (const step of [-3_600_000, 3_600_000]) {
    const server = await setup(t);
    const id = await server.create();
    await server.claim({ leaseSeconds: 60 });
    server.clock.stepWall(step);
    await server.clock.advance(59_999);
    assert.equal((await server.task(id)).status, "IN_PROGRESS");
    await server.clock.advance(1);
    assert.equal((await server.task(id)).status, "PENDING");
  }
});

test("D21: a worker that abandons all it gets does not do so for ever", async (t) => {
  const server = await setup(t);
  await server.create();
  let attempts = 0;
  for (; attempts < 1000; attempts += 1) {
    const task = await server.claim();
    if (task === undefined) break;
    await server.post(`/tasks/${task.id}/abandon`, { interrupted: true }, "worker-acme");
  }
  // Each of the 5 attempts may be preceded by 3 free hand-backs.
  assert.equal(attempts, 20);
  assert.equal((await server.stats()).dlq, 1);
});

test("D22: leases that end together come back at different times", async (t) => {
  const server = await setup(t, { settings: { backoffBaseSeconds: 100 } });
  for (let n = 0; n < 40; n += 1) await server.create();
  await server.post("/tasks/claim/batch", { count: 40, leaseSeconds: 5 }, "worker-acme");
  await server.clock.advance(5000);
  const sizes = new Set<number>();
  for (let second = 0; second <= 200; second += 1) {
    sizes.add((await server.stats()).ready);
    await server.clock.advance(1000);
  }
  assert.equal((await server.stats()).ready, 40);
  assert.ok(sizes.size > 15, `only ${sizes.size} different moments`);
});

test("D22: no number of attempts makes a delay wrong", async (t) => {
  for (const backoff of backoffPolicies) {
    for (const attempts of [0, 1, 61, 62, 63, 64, 1023, 1024, 1e9, Number.MAX_SAFE_INTEGER]) {
      for (const draw of [0, 0.5, 1 - 2 ** -53]) {
        const delay = backoffSeconds({ backoff, baseSeconds: 5, maxSeconds: 900 }, attempts, draw);
        assert.ok(Number.isInteger(delay) && delay >= 0 && delay <= 900, `${backoff} ${attempts}`);
      }
    }
  }
  const server = await setup(t, { settings: { backoffPolicy: "exp_equal_jitter" } });
  const id = await server.create({ maxAttempts: 1000 });
  for (let attempt = 0; attempt < 70; attempt += 1) {
    await server.claim();
    await server.post(`/tasks/${id}/abandon`, {}, "worker-acme");
  }
  await server.claim();
  const { json } = await server.post(`/tasks/${id}/nack`, {}, "worker-acme");
  assert.ok(json.delaySeconds >= 450 && json.delaySeconds <= 900, String(json.delaySeconds));
});

test("D23: data of another number of shards is not opened", onlyWith.shards, async (t) => {
  const server = await setup(t, { storage: "files" });
  await server.create();
  await assert.rejects(server.restart({ shards: 2 }), (error: unknown) => {
    assert.ok(error instanceof FaultError);
    assert.equal(error.code, "format");
    assert.match(error.message, /created with shards=1, the configuration has shards=2/);
    return true;
  });
});

test("D24: commands are one queue whatever their case, for claims and for permissions", async (t) => {
  const server = await setup(t);
  const ids = [
    await server.create({ command: "RENDER" }),
    await server.create({ command: "render" }),
    await server.create({ command: "Render" }),
  ];
  assert.equal((await server.stats("rendeR")).ready, 3);
  for (const [i, id] of ids.entries()) {
    const task = await server.claim({ commands: ["rEnDer"] }, "worker-render");
    assert.equal(task.id, id);
    assert.equal(task.command, ["RENDER", "render", "Render"][i], "its spelling is kept");
  }
});

test("D24: names that look like parts of keys survive a restart", async (t) => {
  const tenants = ["pending", "inprog", "delayed", "dlq", "aa"];
  const token = (kind: string, tenantId: string) => ({
    token: `${kind}-${tenantId}`,
    subject: kind,
    email: "",
    eventTypes: ["*"],
    scopes: ["codeq:create", "codeq:claim", "codeq:nack", "codeq:admin"],
    raw: { tenantId },
  });
  const server = await setup(t, {
    settings: {
      producerAuth: [{ type: "static", tokens: tenants.map((each) => token("p", each)) }],
      workerAuth: [{ type: "static", tokens: tenants.map((each) => token("w", each)) }],
    },
  });
  const ask = (on: RunningServer, path: string, who: string, body?: unknown) =>
    on.ask(`/v1/codeq${path}`, {
      method: body === undefined ? "GET" : "POST",
      body,
      headers: { authorization: `Bearer ${who}` },
    });
  const commands = ["pending", "inprog", "delayed", "dlq", "a.b:c-d_e"];
  for (const tenant of tenants) {
    for (const command of commands) {
      const task = { command, payload: 1, maxAttempts: 1 };
      await ask(server, "/tasks", `p-${tenant}`, task);
      const claimed = await ask(server, "/tasks/claim", `w-${tenant}`, { commands: [command] });
      await ask(server, `/tasks/${claimed.json.id}/nack`, `w-${tenant}`, {});
      await ask(server, "/tasks", `p-${tenant}`, task);
      await ask(server, "/tasks/claim", `w-${tenant}`, { commands: [command] });
      await ask(server, "/tasks", `p-${tenant}`, { ...task, delaySeconds: 99 });
      await ask(server, "/tasks", `p-${tenant}`, task);
    }
  }
  for (const path of ["tasks%2Fa", "a/b"]) {
    const reply = await ask(server, "/tasks", "p-aa", { command: path, payload: 1 });
    assert.equal(reply.text, '{"error":"invalid command"}');
  }
  const after = await server.restart();
  t.after(() => after.stop());
  for (const tenant of tenants) {
    for (const command of commands) {
      const { json } = await ask(after, `/admin/queues/${command}`, `p-${tenant}`);
      assert.deepEqual(json, { command, ready: 1, delayed: 1, inProgress: 1, dlq: 1, failed: 0 });
      const claim = await ask(after, "/tasks/claim", `w-${tenant}`, { commands: [command] });
      assert.equal(claim.json.tenantId, tenant);
    }
  }
});
