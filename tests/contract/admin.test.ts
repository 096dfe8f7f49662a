/** The routes of administrators: contract 2.16 and 2.17, for the caller's own tenant. */
import assert from "node:assert/strict";
import test from "node:test";
import { setup } from "./setup.ts";

const fields = ["command", "ready", "delayed", "inProgress", "dlq", "failed"];

test("queue counts follow every transition", async (t) => {
  const server = await setup(t);
  const seen: number[][] = [];
  const look = async () => {
    const reply = await server.get("/admin/queues/render", "admin-acme");
    assert.deepEqual(Object.keys(reply.json), fields);
    const { ready, delayed, inProgress, dlq } = reply.json;
    seen.push([ready, delayed, inProgress, dlq]);
  };
  await look();
  await server.create({ maxAttempts: 2 });
  await server.create({ delaySeconds: 60 });
  await look();
  const { id } = await server.claim();
  await look();
  await server.post(`/tasks/${id}/nack`, { delaySeconds: 1 }, "worker-acme");
  await look();
  await server.clock.advance(1000);
  await look();
  await server.claim();
  await server.post(`/tasks/${id}/nack`, {}, "worker-acme");
  await look();
  assert.deepEqual(seen, [
    [0, 0, 0, 0],
    [1, 1, 0, 0],
    [0, 1, 1, 0],
    [0, 2, 0, 0],
    [1, 1, 0, 0],
    [0, 1, 0, 1],
  ]);
});

test("the command of the path is echoed and its case does not matter", async (t) => {
  const server = await setup(t);
  await server.create({ command: "Render" });
  const reply = await server.get("/admin/queues/rENDER", "admin-acme");
  assert.equal(
    reply.text,
    '{"command":"rENDER","ready":1,"delayed":0,"inProgress":0,"dlq":0,"failed":0}',
  );
});

test("a blank command is refused and an unknown one has zeros", async (t) => {
  const server = await setup(t);
  const blank = await server.get("/admin/queues/%20", "admin-acme");
  assert.equal(blank.status, 400);
  assert.equal(blank.text, '{"error":"command is required"}');
  for (const command of ["nothing", "a%2Fb", "%22%3E", "constructor", "__proto__"]) {
    const { json } = await server.get(`/admin/queues/${command}`, "admin-acme");
    assert.equal(json.command, decodeURIComponent(command));
    assert.equal(json.ready + json.delayed + json.inProgress + json.dlq, 0);
  }
});

test("the list of queues has one entry for each bucket that holds something", async (t) => {
  const server = await setup(t);
  await server.buried({ command: "Print" });
  await server.leased({ command: "render" });
  await server.create({ command: "Render", priority: 9 });
  await server.create({ command: "render", priority: 9 });
  await server.create({ command: "render" });
  await server.create({ command: "render", delaySeconds: 9 });
  const reply = await server.get("/admin/queues", "admin-acme");
  assert.deepEqual(reply.json, {
    "codeq:q:print:acme:dlq": 1,
    "codeq:q:render:acme:pending:0": 1,
    "codeq:q:render:acme:pending:9": 2,
    "codeq:q:render:acme:inprog": 1,
    "codeq:q:render:acme:delayed": 1,
  });
  assert.equal((await server.get("/admin/queues", "admin-globex")).text, "{}");
});

test("clean-up echoes its arguments and deletes what has expired", async (t) => {
  const server = await setup(t, { settings: { retentionSeconds: 100, timezone: "Asia/Kolkata" } });
  const ids = [await server.leased(), await server.leased(), await server.leased()];
  for (const id of ids) await server.complete(id);
  const clean = (body: unknown) => server.post("/admin/tasks/cleanup", body, "admin-acme");
  for (const body of ["nonsense", "[]", '{"befor":"2026-01-02T03:04:05Z"}']) {
    const reply = await clean(body);
    assert.equal(reply.status, 400);
    assert.match(reply.json.error, /^invalid body: /);
  }
  for (const body of [undefined, "", "{}"]) {
    const reply = await clean(body);
    assert.equal(reply.status, 200);
    assert.equal(reply.text, '{"before":"2026-01-02T08:34:05+05:30","deleted":0,"limit":0}');
  }
  const before = "2026-01-02T04:06:05.5+01:00";
  const one = await clean({ limit: 1, before });
  assert.equal(one.text, '{"before":"2026-01-02T04:06:05+01:00","deleted":1,"limit":1}');
  const rest = await clean({ before, limit: -7 });
  assert.equal(rest.text, '{"before":"2026-01-02T04:06:05+01:00","deleted":2,"limit":-7}');
  for (const id of ids) assert.equal((await server.get(`/tasks/${id}`)).status, 404);
});

test("clean-up refuses what is not a time or too much", async (t) => {
  const server = await setup(t);
  const clean = (body: object) => server.post("/admin/tasks/cleanup", body, "admin-acme");
  for (const before of ["yesterday", "2026-01-02", "2026-13-01T00:00:00Z"]) {
    const reply = await clean({ before });
    assert.equal(reply.status, 400);
    assert.equal(reply.text, `{"error":"invalid 'before' (use RFC3339)"}`);
  }
  const reply = await clean({ limit: 100_001 });
  assert.equal(reply.text, `{"error":"invalid 'limit' (must be <= 100000)"}`);
  for (const before of ["0000-01-01T00:00:00Z", "9999-12-31T23:59:59+00:00"]) {
    assert.equal((await clean({ before })).status, 200);
  }
});
