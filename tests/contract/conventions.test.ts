/** What holds for every answer: request ids, unknown paths, timestamps, probes (contract 1.2, 2.1, 8.4). */
import assert from "node:assert/strict";
import { connect } from "node:net";
import test from "node:test";
import { onlyWith, setup, startMs } from "./setup.ts";

test("every answer carries the request id of the caller, or one of its own", async (t) => {
  const server = await setup(t);
  for (const path of ["/healthz", "/nowhere", "/v1/codeq/tasks/x", "/v1/codeq/tasks/%zz"]) {
    const own = await server.ask(path, {});
    assert.match(own.headers["x-request-id"] ?? "", /^[0-9a-f]{32}$/, path);
    const sent = await server.ask(path, { headers: { "x-request-id": "my-id/7" } });
    assert.equal(sent.headers["x-request-id"], "my-id/7");
  }
  for (const id of ["", "with space", "x".repeat(129)]) {
    const { headers } = await server.ask("/healthz", { headers: { "x-request-id": id } });
    assert.match(headers["x-request-id"] ?? "", /^[0-9a-f]{32}$/);
  }
});

test("a claim that asks for no length gets five minutes", async (t) => {
  const server = await setup(t);
  await server.create();
  const { leaseUntil } = await server.claim({});
  assert.equal(Date.parse(leaseUntil), Math.floor((startMs + 300_000) / 1000) * 1000);
});

test("an unknown path or method is 404 in plain text", async (t) => {
  const server = await setup(t);
  const wrong: [string, string][] = [
    ["GET", "/nothing"],
    ["GET", "/v1/codeq"],
    ["GET", "/v1/codeq/nothing"],
    ["PUT", "/v1/codeq/tasks"],
    ["DELETE", "/v1/codeq/tasks/x"],
    ["PATCH", "/v1/codeq/tasks/x/result"],
    ["GET", "/v1/codeq/tasks"],
    ["POST", "/v1/codeq/admin/queues"],
    ["POST", "/v1/codeq/tasks/x/requeue"],
    ["GET", "/v1/codeq/tasks/a/b/c"],
    ["OPTIONS", "/v1/codeq/tasks"],
    ["HEAD", "/healthz"],
    ["POST", "/metrics"],
    ["GET", "/V1/codeq/admin/queues"],
    ["GET", "/v1/codeq/tasks/%zz"],
    ["GET", `/v1/codeq/tasks/${"x".repeat(8193)}`],
    ["GET", "/v1/codeq/../../etc/passwd"],
  ];
  for (const [method, path] of wrong) {
    const body = method === "GET" || method === "HEAD" ? undefined : "{}";
    const reply = await server.ask(path, { method, caller: "admin-acme", body });
    assert.equal(reply.status, 404, `${method} ${path}`);
    assert.match(reply.headers["content-type"] ?? "", /^text\/plain/, path);
    if (method !== "HEAD") assert.equal(reply.text, "404 page not found");
  }
});

test("a trailing slash changes nothing", async (t) => {
  const server = await setup(t);
  const body = { command: "render", payload: 1 };
  assert.equal((await server.post("/tasks/", body, "producer-acme")).status, 202);
  assert.equal((await server.post("/tasks/claim/", {}, "worker-acme")).status, 200);
  assert.equal((await server.get("/admin/queues/", "admin-acme")).status, 200);
  assert.equal((await server.ask("/healthz/", {})).status, 200);
});

test("the content type of a request is not looked at", async (t) => {
  const server = await setup(t);
  const body = '{"command":"render","payload":1}';
  const types = [
    "application/json",
    "text/plain",
    "application/x-www-form-urlencoded",
    "x",
    "a b/c",
  ];
  for (const type of [...types, "application/json; charset=latin1", "multipart/form-data", ";"]) {
    const headers = { "content-type": type };
    const ask = { method: "POST", caller: "producer-acme", headers, body } as const;
    assert.equal((await server.ask("/v1/codeq/tasks", ask)).status, 202, type);
  }
});

test("errors are JSON with the one key error", async (t) => {
  const server = await setup(t);
  for (const reply of [
    await server.get("/tasks/unknown"),
    await server.post("/tasks", "{", "producer-acme"),
    await server.ask("/v1/codeq/tasks", { method: "POST" }),
  ]) {
    assert.equal(reply.headers["content-type"], "application/json; charset=utf-8");
    assert.deepEqual(Object.keys(reply.json), ["error"]);
  }
});

test("timestamps are in the configured zone with the fraction trimmed", async (t) => {
  const cases: [string, number, string][] = [
    ["America/Sao_Paulo", 0, "2026-01-02T00:04:05.12-03:00"],
    ["UTC", 0, "2026-01-02T03:04:05.12Z"],
    ["Asia/Kolkata", 0, "2026-01-02T08:34:05.12+05:30"],
    ["UTC", 880, "2026-01-02T03:04:06Z"],
    ["UTC", 881, "2026-01-02T03:04:06.001Z"],
    ["Europe/Berlin", 180 * 24 * 60 * 60 * 1000, "2026-07-01T05:04:05.12+02:00"],
  ];
  for (const [timezone, laterMs, text] of cases) {
    const server = await setup(t, { settings: { timezone } });
    await server.clock.advance(laterMs);
    const task = await server.task(await server.create());
    assert.equal(task.createdAt, text);
    assert.equal(Date.parse(text), startMs + laterMs);
    const { leaseUntil } = await server.claim();
    assert.match(leaseUntil, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|[+-]\d\d:\d\d)$/);
    const zoneOf = (instant: string): string => instant.replace(/^[^T]+T[\d:.]+/, "");
    assert.equal(zoneOf(leaseUntil), zoneOf(text), "one object is in one zone");
    assert.equal(Date.parse(leaseUntil), Math.floor((startMs + laterMs) / 1000) * 1000 + 300_000);
  }
});

test("timestamps are UTC unless a zone is configured, and a delayed task says when it is due", async (t) => {
  const server = await setup(t);
  const later = await server.task(await server.create({ delaySeconds: 60 }));
  assert.equal(later.createdAt, "2026-01-02T03:04:05.12Z");
  assert.equal(later.runAt, "2026-01-02T03:05:05.12Z");
  assert.equal((await server.task(await server.create())).runAt, undefined);
});

test("updatedAt follows every transition and createdAt none", async (t) => {
  const server = await setup(t, { settings: { timezone: "UTC" } });
  const id = await server.create({ delaySeconds: 1 });
  const seen: string[] = [];
  const look = async () => {
    const task = await server.task(id);
    assert.equal(task.createdAt, "2026-01-02T03:04:05.12Z");
    seen.push(task.updatedAt.slice(17, -1));
  };
  await server.clock.advance(1000);
  await look();
  await server.clock.advance(1000);
  await server.claim();
  await look();
  await server.clock.advance(1000);
  await server.complete(id);
  await look();
  assert.deepEqual(seen, ["06.12", "07.12", "08.12"]);
});

test("health and readiness tell the durability and need no token", onlyWith.health, async (t) => {
  const server = await setup(t, { settings: { durability: "interval" } });
  for (const path of ["/healthz", "/readyz"]) {
    const reply = await server.ask(path, {});
    assert.equal(reply.status, 200);
    assert.deepEqual(reply.json, { status: "ok", storage: "open", durability: "interval" });
  }
});

test(
  "on a full disk the server is healthy, not ready, and refuses writes with 507 only",
  onlyWith.disk,
  async (t) => {
    const server = await setup(t, { storage: "sim-disk" });
    const id = await server.create();
    server.world.disk.failNext("write", "ENOSPC");
    const refused = await server.post("/tasks", { command: "a", payload: 1 }, "producer-acme");
    assert.equal(refused.status, 507);
    assert.equal(refused.text, `{"error":"the server's disk is full; nothing was written"}`);
    assert.equal((await server.ask("/healthz", {})).status, 200);
    const ready = await server.ask("/readyz", {});
    assert.equal(ready.status, 503);
    assert.deepEqual(ready.json, { status: "unavailable", storage: "full", durability: "fsync" });
    assert.equal((await server.task(id)).id, id);
    assert.equal((await server.post("/tasks/claim", {}, "worker-acme")).status, 507);
    assert.equal(await server.metric('codeq_storage_state{state="disk_full"}'), 1);
    await server.clock.advance(1000);
    assert.equal((await server.ask("/readyz", {})).status, 200);
    assert.equal((await server.claim()).id, id);
  },
);

test(
  "after a failed sync nothing is acknowledged and health asks for a restart",
  onlyWith.disk,
  async (t) => {
    const server = await setup(t, { storage: "sim-disk" });
    server.world.disk.failNext("sync", "EIO");
    const refused = await server.post("/tasks", { command: "a", payload: 1 }, "producer-acme");
    assert.equal(refused.status, 503);
    assert.equal(refused.text, '{"error":"storage failed; the server is stopping"}');
    assert.equal(refused.headers["retry-after"], "1");
    assert.equal((await server.ask("/healthz", {})).status, 503);
    assert.equal((await server.ask("/readyz", {})).status, 503);
    assert.equal((await server.post("/tasks/claim", {}, "worker-acme")).status, 503);
    assert.equal(await server.metric('codeq_storage_state{state="failed"}'), 1);
  },
);

test("an oversized body is refused while it is still being sent", async (t) => {
  const server = await setup(t);
  await server.app.listen({ port: 0, host: "127.0.0.1" });
  const address = server.app.server.address();
  assert.ok(typeof address === "object" && address !== null);
  const socket = connect(address.port, "127.0.0.1");
  t.after(() => socket.destroy());
  socket.write(
    "POST /v1/codeq/tasks HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer producer-acme\r\n" +
      "Content-Length: 99999999999\r\n\r\n{",
  );
  const [data] = await new Promise<[Buffer]>((resolve) => {
    socket.once("data", (chunk: Buffer) => resolve([chunk]));
  });
  assert.match(data.toString(), /^HTTP\/1\.1 413 /);
  assert.match(data.toString(), /"error":"request body is too large"/);
  assert.equal((await server.stats()).ready, 0);
});

test("authorisation comes before the body is read", async (t) => {
  const server = await setup(t);
  const body = "x".repeat(5 * 1024 * 1024);
  const reply = await server.ask("/v1/codeq/tasks", { method: "POST", body });
  assert.equal(reply.status, 401);
});

test("a refusal carries its code in a header, and in the items of a batch", async (t) => {
  const server = await setup(t);
  const cases = [
    [
      await server.post("/tasks", { command: "a b", payload: 1 }, "producer-acme"),
      "invalid_command",
    ],
    [await server.post("/tasks", {}, "producer-acme"), "invalid_body"],
    [await server.get("/tasks/nowhere"), "not_found"],
    [await server.ask("/v1/codeq/tasks/x", {}), "missing_authorization"],
  ] as const;
  for (const [reply, code] of cases) assert.equal(reply.headers["codeq-error"], code);
  const results = [{ taskId: "nowhere", status: "COMPLETED", result: {} }];
  const { json } = await server.post("/tasks/batch/results", { results }, "worker-acme");
  assert.deepEqual(json.results, [
    { taskId: "nowhere", error: "task not found", code: "task_not_found" },
  ]);
});
