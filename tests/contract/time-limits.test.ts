/** Tasks with a timeout for every attempt, and with a time in which they have to be begun. */
import assert from "node:assert/strict";
import test from "node:test";
import { openFeed } from "./feed-reader.ts";
import { setup } from "./setup.ts";

test("a lease ends with the timeout of its task, however often its worker extends it", async (t) => {
  const server = await setup(t);
  const feed = await openFeed(server);
  const id = await server.create({ timeoutSeconds: 40, maxAttempts: 2 });
  const claimed = await server.claim({ leaseSeconds: 600 });
  assert.equal(claimed.timeoutSeconds, 40);
  const endMs = server.clock.nowMs() + 40_000;
  assert.equal(Date.parse(claimed.leaseUntil), Math.floor(endMs / 1000) * 1000);
  for (let beats = 0; beats < 3; beats += 1) {
    await server.clock.advance(12_000);
    const beat = { extendSeconds: 600 };
    assert.equal((await server.post(`/tasks/${id}/heartbeat`, beat, "worker-acme")).status, 200);
    assert.equal(Date.parse((await server.task(id)).leaseUntil), Date.parse(claimed.leaseUntil));
  }
  await server.clock.advance(4000);
  const retried = await server.task(id);
  assert.deepEqual(
    [retried.status, retried.error, retried.attempts, retried.attemptHistory[0].outcome],
    ["PENDING", "TIMEOUT", 1, "timed_out"],
  );
  const late = await server.complete(id);
  assert.deepEqual([late.status, late.headers["codeq-error"]], [409, "not_in_progress"]);
  await server.clock.advance(60_000);
  // Every attempt has the whole time, and a short lease ends before.
  assert.equal((await server.claim({ leaseSeconds: 30 }))?.id, id);
  await server.clock.advance(30_000);
  const dead = await server.task(id);
  assert.deepEqual([dead.lastKnownLocation, dead.error], ["DLQ_SET", "LEASE_EXPIRED"]);
  assert.equal(await server.metric('codeq_task_timeout_total{command="render"}'), 1);
  assert.equal(await server.metric('codeq_lease_expired_total{command="render"}'), 1);
  const told = (await feed.untilEvents(7)).map(({ event, reason }) => `${event} ${reason ?? ""}`);
  assert.deepEqual(told.slice(2, 3), ["lease_expired TIMEOUT"]);
  assert.deepEqual(told.slice(5), ["lease_expired ", "failed LEASE_EXPIRED"]);
  feed.leave();
});

test("a task that no worker begins in time fails, and whoever waits for it hears of it", async (t) => {
  const posted: string[] = [];
  const post = (task: { readonly id: string }): Promise<number> => {
    posted.push(task.id);
    return Promise.resolve(200);
  };
  const server = await setup(t, { post });
  const feed = await openFeed(server);
  const webhook = "https://hooks.example/x";
  const id = await server.create({ ttlSeconds: 30, webhook });
  const made = await server.task(id);
  assert.equal(made.ttlSeconds, 30);
  assert.equal(Date.parse(made.startBy), Date.parse(made.createdAt) + 30_000);
  const waiting = server.get(`/tasks/${id}/result?waitSeconds=60`);
  await server.clock.advance(29_900);
  assert.equal((await server.task(id)).status, "PENDING");
  await server.clock.advance(300);
  const { result } = (await waiting).json;
  assert.deepEqual([result.status, result.error], ["FAILED", "EXPIRED"]);
  assert.equal((await server.task(id)).startBy, undefined);
  assert.equal(await server.claim(), undefined);
  const stats = await server.stats();
  assert.deepEqual([stats.ready, stats.failed, stats.dlq], [0, 1, 0]);
  assert.equal(await server.metric('codeq_task_expired_total{command="render"}'), 1);
  const [, failed] = await feed.untilEvents(2);
  assert.deepEqual([failed.event, failed.how, failed.reason], ["failed", "expired", "EXPIRED"]);
  feed.leave();
  await server.clock.advance(1000);
  assert.deepEqual(posted, [id]);
  const found = await server.get("/admin/tasks?place=failed&error=EXPIRED", "admin-acme");
  assert.equal(found.json.tasks[0].id, id);
  const why = (await server.get(`/tasks/${id}/explain`)).json;
  assert.deepEqual([why.rule, why.why], ["failed", "it failed: EXPIRED"]);
});

test("the time to live counts from when a task can be claimed, and ends with the first claim", async (t) => {
  const server = await setup(t);
  const delayed = await server.create({ command: "later", delaySeconds: 100, ttlSeconds: 30 });
  const id = await server.create({ ttlSeconds: 30, maxAttempts: 3 });
  await server.claim({ commands: ["render"] });
  const nack = { delaySeconds: 60, reason: "busy" };
  assert.equal((await server.post(`/tasks/${id}/nack`, nack, "worker-acme")).status, 200);
  await server.clock.advance(60_100);
  assert.equal((await server.task(id)).startBy, undefined);
  assert.equal((await server.claim({ commands: ["render"] })).id, id);
  await server.clock.advance(60_000);
  assert.equal((await server.claim({ commands: ["later"] })).id, delayed);
  const put = await server.create({ command: "put-off", ttlSeconds: 30 });
  const edit = { method: "PATCH", caller: "admin-acme", body: { delaySeconds: 100 } } as const;
  assert.equal((await server.ask(`/v1/codeq/admin/tasks/${put}`, edit)).status, 200);
  await server.clock.advance(129_000);
  assert.equal((await server.task(put)).status, "PENDING");
  await server.clock.advance(1200);
  assert.equal((await server.task(put)).error, "EXPIRED");
});

test("a claim ends what nobody began in time and takes the next, however much there is", async (t) => {
  const server = await setup(t);
  for (let batch = 0; batch < 3; batch += 1) {
    const tasks = Array.from({ length: 100 }, () => ({ command: "render", ttlSeconds: 5 }));
    await server.post("/tasks/batch", { tasks }, "producer-acme");
  }
  const last = await server.create();
  // The claim is there before the sweep.
  server.clock.stall(6000);
  assert.equal((await server.claim()).id, last);
  await server.clock.advance(1000);
  assert.equal((await server.stats()).failed, 300);
});

test("limits of time survive a restart, and what passed meanwhile has passed", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  const waiting = await server.create({ command: "waits", ttlSeconds: 30 });
  const running = await server.leased({ command: "runs", timeoutSeconds: 30, maxAttempts: 1 });
  const again = await server.restart();
  await again.clock.advance(31_000);
  assert.equal((await again.task(waiting)).error, "EXPIRED");
  const late = await again.task(running);
  assert.deepEqual([late.lastKnownLocation, late.error], ["DLQ_SET", "TIMEOUT"]);
});

test("limits of time that make no sense are refused with the field", async (t) => {
  const server = await setup(t);
  const cases: [object, RegExp][] = [
    [{ timeoutSeconds: -1 }, /^invalid 'timeoutSeconds' \(0 to 2592000\)$/],
    [{ timeoutSeconds: 2_592_001 }, /^invalid 'timeoutSeconds'/],
    [{ ttlSeconds: -1 }, /^invalid 'ttlSeconds' \(0 to \d+\)$/],
    [{ ttlSeconds: 316_224_001 }, /^invalid 'ttlSeconds'/],
    [{ ttlSeconds: "5" }, /ttlSeconds must be/],
    [{ ttlSecond: 5 }, /did you mean "ttlSeconds"/],
  ];
  for (const [fields, error] of cases) {
    const body = { command: "render", payload: {}, ...fields };
    const reply = await server.post("/tasks", body, "producer-acme");
    assert.equal(reply.status, 400, reply.text);
    assert.match(reply.json.error, error);
  }
  const none = await server.task(await server.create({ timeoutSeconds: 0, ttlSeconds: 0 }));
  assert.deepEqual([none.timeoutSeconds, none.ttlSeconds, none.tags], Array(3).fill(undefined));
});
