/** The metrics of contract 8.1: each moves when what it counts happens, and commands are bounded. */
import assert from "node:assert/strict";
import test from "node:test";
import { onlyWith, type RunningServer, setup, until } from "./setup.ts";

async function changes(
  server: RunningServer,
  series: string,
  work: () => Promise<unknown>,
): Promise<number> {
  const before = await server.metric(series);
  await work();
  return (await server.metric(series)) - before;
}

test("every metric of the contract is declared with its type", async (t) => {
  const server = await setup(t);
  const reply = await server.ask("/metrics", {});
  assert.equal(reply.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
  for (const [name, type] of [
    ["codeq_task_created_total", "counter"],
    ["codeq_task_claimed_total", "counter"],
    ["codeq_task_completed_total", "counter"],
    ["codeq_task_processing_latency_seconds", "histogram"],
    ["codeq_lease_expired_total", "counter"],
    ["codeq_webhook_deliveries_total", "counter"],
    ["codeq_rate_limit_hits_total", "counter"],
    ["codeq_queue_depth", "gauge"],
    ["codeq_dlq_depth", "gauge"],
    ["codeq_subscriptions_active", "gauge"],
  ]) {
    assert.ok(reply.text.includes(`# TYPE ${name} ${type}\n`), name);
  }
});

test("requests with a unique key are counted by what they came to", async (t) => {
  const server = await setup(t);
  const ask = (on: string, payload: number) =>
    server.create({ command: "render", payload, unique: { key: "k", on } });
  const counts = async () => {
    const outcomes = ["created", "queued", "replaced", "returned", "refused"];
    const of = (outcome: string) =>
      server.metric(`codeq_unique_requests_total{outcome="${outcome}"}`);
    return Promise.all(outcomes.map(of));
  };
  assert.deepEqual(await counts(), [0, 0, 0, 0, 0]);
  await ask("return", 1);
  await ask("return", 2);
  await assert.rejects(ask("refuse", 3));
  await ask("replace", 4);
  assert.deepEqual(await counts(), [1, 0, 1, 1, 1]);
  await server.claim({ commands: ["render"] });
  await ask("latest", 5);
  await ask("latest", 6);
  assert.deepEqual(await counts(), [1, 1, 2, 1, 1]);
});

test(
  "the age of the task that is next in line is told, and nothing when there is none",
  onlyWith.order,
  async (t) => {
    const server = await setup(t);
    const series = 'codeq_queue_oldest_seconds{command="render"}';
    const { text } = await server.ask("/metrics", {});
    assert.doesNotMatch(text, /codeq_queue_oldest_seconds\{/);
    await server.create({ command: "render", payload: 1 });
    await server.create({ command: "render", payload: 2, priority: 9 });
    await server.clock.advance(75_000);
    await server.create({ command: "render", payload: 3 });
    assert.equal(await server.metric(series), 75);
    await server.claim({ commands: ["render"] });
    await server.claim({ commands: ["render"] });
    assert.equal(await server.metric(series), 0);
  },
);

test("creations are counted, replays and refusals are not", async (t) => {
  const server = await setup(t);
  const series = 'codeq_task_created_total{command="render"}';
  const one = { command: "render", payload: 1, idempotencyKey: "k" };
  assert.equal(await changes(server, series, () => server.create(one)), 1);
  assert.equal(await changes(server, series, () => server.create(one)), 0);
  const tasks = [{ command: "render" }, { command: "render", delaySeconds: -1 }, one];
  const batch = () => server.post("/tasks/batch", { tasks }, "producer-acme");
  assert.equal(await changes(server, series, batch), 1);
});

test(
  "counters and gauges name a command as its producers wrote it last",
  onlyWith.spelling,
  async (t) => {
    const server = await setup(t);
    await server.create({ command: "render" });
    await server.create({ command: "GENERATE_Master" });
    await server.create({ command: "GENERATE_MASTER" });
    await server.claim({ commands: ["generate_master"] });
    const named = 'command="GENERATE_MASTER"';
    assert.equal(await server.metric(`codeq_task_created_total{${named}}`), 2);
    assert.equal(await server.metric(`codeq_task_claimed_total{${named}}`), 1);
    assert.equal(await server.metric(`codeq_queue_depth{${named},queue="ready"}`), 1);
    assert.equal(await server.metric(`codeq_dlq_depth{${named}}`), 0);
    const { text } = await server.ask("/metrics", {});
    const others = [...text.matchAll(/command="(generate\w+)"/gi)].map(([, name]) => name);
    assert.deepEqual([...new Set(others)], ["GENERATE_MASTER"]);
    assert.match(text, /codeq_queue_depth\{command="render",/);
  },
);

test("the end of a certificate is absent without TLS", async (t) => {
  const server = await setup(t);
  const { text } = await server.ask("/metrics", {});
  assert.match(text, /^# TYPE codeq_tls_certificate_expiry_seconds gauge$/m);
  assert.doesNotMatch(text, /^codeq_tls_certificate_expiry_seconds/m);
});

test("claims are counted one by one", async (t) => {
  const server = await setup(t);
  const series = 'codeq_task_claimed_total{command="render"}';
  for (let n = 0; n < 3; n += 1) await server.create();
  assert.equal(await changes(server, series, () => server.claim()), 1);
  const batch = () => server.post("/tasks/claim/batch", { count: 5 }, "worker-acme");
  assert.equal(await changes(server, series, batch), 2);
  assert.equal(await changes(server, series, () => server.claim()), 0);
});

test("ends are counted with their status and the time they took", async (t) => {
  const server = await setup(t);
  const ended = (status: string) =>
    `codeq_task_completed_total{command="render",status="${status}"}`;
  const id = await server.leased();
  await server.clock.advance(4000);
  assert.equal(await changes(server, ended("COMPLETED"), () => server.complete(id)), 1);
  assert.equal(await changes(server, ended("COMPLETED"), () => server.complete(id)), 0);
  const latency = "codeq_task_processing_latency_seconds";
  const labels = 'command="render",status="COMPLETED"';
  assert.equal(await server.metric(`${latency}_bucket{${labels},le="2.5"}`), 0);
  assert.equal(await server.metric(`${latency}_bucket{${labels},le="5"}`), 1);
  assert.equal(await server.metric(`${latency}_sum{${labels}}`), 4);
  const failing = await server.leased();
  const fail = () =>
    server.post(`/tasks/${failing}/result`, { status: "FAILED", error: "x" }, "worker-acme");
  assert.equal(await changes(server, ended("FAILED"), fail), 1);
  assert.equal(await changes(server, ended("FAILED"), () => server.buried()), 1);
  const abandoned = await server.leased({ maxAttempts: 1 });
  const abandon = () => server.post(`/tasks/${abandoned}/abandon`, {}, "worker-acme");
  assert.equal(await changes(server, ended("FAILED"), abandon), 1);
});

test("a lease that runs out is counted, and the burial it leads to as well", async (t) => {
  const server = await setup(t);
  await server.create({ maxAttempts: 1 });
  await server.claim({ leaseSeconds: 1 });
  const ended = 'codeq_task_completed_total{command="render",status="FAILED"}';
  await server.clock.advance(999);
  const expired = () => server.metric('codeq_lease_expired_total{command="render"}');
  assert.equal(await expired(), 0);
  assert.equal(await changes(server, ended, () => server.clock.advance(1)), 1);
  assert.equal(await expired(), 1);
});

test("webhook deliveries are counted by outcome, a failure once after the last try", async (t) => {
  const statuses = [500, 500, 204];
  const server = await setup(t, {
    settings: { resultWebhookMaxAttempts: 2 },
    post: () => Promise.resolve(statuses.shift()),
  });
  const outcome = (name: string) =>
    server.metric(
      `codeq_webhook_deliveries_total{kind="task_result",command="render",outcome="${name}"}`,
    );
  await server.complete(await server.leased({ webhook: "http://a.example/" }));
  await server.clock.advance(1);
  assert.equal(await outcome("failure"), 0);
  await server.clock.advance(2000);
  await until(async () => (await outcome("failure")) === 1);
  await server.complete(await server.leased({ webhook: "http://a.example/" }));
  await server.clock.advance(1);
  await until(async () => (await outcome("success")) === 1);
  assert.equal(await outcome("failure"), 1);
});

test("depth gauges show every place, over all tenants", async (t) => {
  const server = await setup(t);
  await server.buried();
  await server.leased();
  await server.create();
  await server.create({}, "producer-globex");
  await server.create({ delaySeconds: 5 });
  const depth = (queue: string) =>
    server.metric(`codeq_queue_depth{command="render",queue="${queue}"}`);
  assert.equal(await depth("ready"), 2);
  assert.equal(await depth("delayed"), 1);
  assert.equal(await depth("in_progress"), 1);
  assert.equal(await depth("dlq"), 1);
  assert.equal(await server.metric('codeq_dlq_depth{command="render"}'), 1);
});

test("waiters, requests and operations are measured", async (t) => {
  const server = await setup(t);
  const pending = server.post("/tasks/claim", { waitSeconds: 1 }, "worker-acme");
  await server.untilWaiting(1);
  assert.equal(await server.metric('codeq_waiters{kind="claim"}'), 1);
  await server.clock.advance(1000);
  await pending;
  assert.equal(await server.metric('codeq_waiters{kind="claim"}'), 0);
  const route = 'route="/v1/codeq/tasks/claim",method="POST"';
  assert.equal(await server.metric(`codeq_http_requests_total{${route},status="204"}`), 1);
  const series = 'codeq_operation_seconds_count{operation="claim_tasks",outcome="ok"}';
  assert.equal(await server.metric(series), 1);
});

test("the writes of tasks are timed until they are durable, without the waiting of claims", async (t) => {
  const server = await setup(t);
  const claimed = server.post("/tasks/claim", { waitSeconds: 10 }, "worker-acme");
  await server.untilWaiting(1);
  await server.clock.advance(5000);
  const id = await server.create({ command: "render" });
  assert.equal((await claimed).status, 200);
  const body = { status: "COMPLETED", result: {} };
  assert.equal((await server.post(`/tasks/${id}/result`, body, "worker-acme")).status, 200);
  for (const operation of ["task.save", "task.claim", "result.save"]) {
    const series = (what: string): Promise<number> =>
      server.metric(`codeq_store_operation_seconds_${what}{operation="${operation}"}`);
    assert.equal(await series("count"), 1, operation);
    assert.ok((await series("sum")) < 5, operation);
  }
});

test(
  "S12: commands, paths and methods of strangers make no new series beyond the bound",
  onlyWith.series,
  async (t) => {
    const server = await setup(t, { settings: { metricsCommandsMax: 3 } });
    for (let n = 0; n < 20; n += 1) await server.create({ command: `command-${n}` });
    for (let n = 0; n < 300; n += 1) await server.ask(`/random/${n}`, { method: "GET" });
    const { text } = await server.ask("/metrics", {});
    const created = text.split("\n").filter((line) => line.startsWith("codeq_task_created_total{"));
    assert.equal(created.length, 4);
    assert.ok(created.includes('codeq_task_created_total{command="_other"} 17'));
    const depth = text.split("\n").filter((line) => line.startsWith("codeq_queue_depth{"));
    assert.equal(depth.length, 4 * 4);
    assert.ok(depth.includes('codeq_queue_depth{command="_other",queue="ready"} 17'));
    assert.equal(text.includes("/random/"), false);
    assert.ok(text.split("\n").length < 1000);
  },
);

test("commands are named to this machine, to operators and with the token, and to nobody else", async (t) => {
  const server = await setup(t, { settings: { metricsToken: "scrape-me" } });
  await server.create({ command: "secret-project" });
  const scrape = async (headers: Record<string, string>, remoteAddress = "192.0.2.7") => {
    const { payload } = await server.app.inject({ url: "/metrics", headers, remoteAddress });
    return payload;
  };
  const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
  for (const text of [
    await scrape({}, "127.0.0.1"),
    await scrape({}, "::1"),
    await scrape({}, "::ffff:127.0.0.1"),
    await scrape(bearer("scrape-me")),
    await scrape(bearer("operator")),
  ]) {
    assert.match(text, /command="secret-project"/);
  }
  for (const text of [
    await scrape({}),
    await scrape({ "x-forwarded-for": "192.0.2.7" }, "127.0.0.1"),
    await scrape({ forwarded: "for=192.0.2.7" }, "::1"),
    await scrape(bearer("scrape-m")),
    await scrape(bearer("")),
    await scrape(bearer("admin-acme")),
    await scrape(bearer("worker-acme")),
  ]) {
    assert.doesNotMatch(text, /secret-project/);
    assert.match(text, /^codeq_task_created_total\{command="_all"\} 1$/m);
  }
});

test("callers without a token share a page for 5 seconds, and get none when metrics are not public", async (t) => {
  const scrape = (server: Awaited<ReturnType<typeof setup>>) =>
    server.app.inject({ url: "/metrics", remoteAddress: "192.0.2.7" });
  const open = await setup(t);
  await open.create({ command: "a" });
  const first = (await scrape(open)).payload;
  await open.create({ command: "b" });
  assert.equal((await scrape(open)).payload, first);
  await open.clock.advance(5000);
  assert.match((await scrape(open)).payload, /^codeq_task_created_total\{command="_all"\} 2$/m);
  const closed = await setup(t, { settings: { metricsPublic: false } });
  assert.equal((await scrape(closed)).statusCode, 401);
  assert.equal((await closed.app.inject({ url: "/metrics" })).statusCode, 200);
});
