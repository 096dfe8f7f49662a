/** The audit trail over REST: what leaves a record, who reads it, and what strangers cannot do to it. */
import assert from "node:assert/strict";
import test from "node:test";
import { settle } from "@codeq/simulated";
import { onlyWith, type Reply, type RunningServer, setup, until } from "./setup.ts";
import type { Caller } from "./tokens.ts";

// biome-ignore lint/suspicious/noExplicitAny: the record as it is on the wire.
type Shown = any;

async function read(
  server: RunningServer,
  caller: Caller = "admin-acme",
  query = "",
): Promise<Shown[]> {
  const reply = await server.get(`/admin/audit${query}`, caller);
  assert.equal(reply.status, 200, reply.text);
  return reply.json.records;
}

/** After what was counted has been written. */
async function readLater(
  server: RunningServer,
  caller: Caller = "admin-acme",
  query = "",
): Promise<Shown[]> {
  await server.clock.advance(1000);
  await settle();
  return read(server, caller, query);
}

const everything = "?tenant=*";
const at = "2026-01-02T03:04:05.12Z";

function withoutId({ id, ...rest }: Shown): Shown {
  assert.match(id, /^[0-9a-f]{14}\/[0-9a-f]{16}$/);
  return rest;
}

function del(server: RunningServer, path: string, caller: Caller): Promise<Reply> {
  return server.ask(`/v1/codeq${path}`, { method: "DELETE", caller });
}

test("what an admin did is recorded, with who, what, from where and what came of it", async (t) => {
  const server = await setup(t);
  const done = await server.leased();
  await server.complete(done);
  const key = { name: "ci", scopes: ["codeq:claim"], role: "admin" };
  const headers = { "x-request-id": "my-request" };
  const made = await server.ask("/v1/codeq/admin/keys", {
    method: "POST",
    caller: "admin-acme",
    headers,
    body: key,
  });
  const { id } = made.json;
  await server.post("/admin/tasks/cleanup", { before: "2030-01-01T00:00:00Z" }, "admin-acme");
  await del(server, `/admin/keys/${id}`, "admin-acme");
  const [revoked, cleaned, created, ...others] = (await read(server)).map(withoutId);
  assert.deepEqual(others, []);
  const who = {
    tenantId: "acme",
    subject: "boss",
    homeTenantId: "acme",
    issuedBy: "configuration",
    address: "127.0.0.1",
  };
  assert.deepEqual(created, {
    time: at,
    action: "create_api_key",
    target: id,
    outcome: "ok",
    ...who,
    detail: "ci: role admin, scopes codeq:claim",
    requestId: "my-request",
  });
  const { requestId, ...rest } = revoked;
  assert.match(requestId, /^[0-9a-f]{32}$/);
  assert.deepEqual(rest, {
    time: at,
    action: "revoke_api_key",
    target: id,
    detail: "ci",
    outcome: "ok",
    ...who,
  });
  assert.equal(cleaned.action, "clean_up");
  assert.deepEqual([cleaned.target, cleaned.detail], ["2030-01-01T00:00:00Z", "deleted 1 tasks"]);
  const logged = server.lines.filter((line) => line.includes('"msg":"audit"'));
  assert.equal(logged.length, 3);
  assert.match(logged[0] ?? "", new RegExp(`"action":"create_api_key","target":"${id}"`));
});

test("a key says which it is", async (t) => {
  const server = await setup(t);
  const body = { name: "boss", role: "admin" };
  const { id, token } = (await server.post("/admin/keys", body, "admin-acme")).json;
  const headers = { authorization: `Bearer ${token}` };
  await server.ask("/v1/codeq/admin/tasks/cleanup", { method: "POST", headers });
  const [record] = await read(server);
  const { subject, apiKeyId, issuedBy } = record;
  assert.deepEqual([subject, apiKeyId, issuedBy], [id, id, "API key"]);
});

test("what an admin was refused is recorded too", async (t) => {
  const server = await setup(t);
  await server.post("/admin/keys", { name: "", role: "admin" }, "admin-acme");
  await server.post("/admin/keys", { name: "x", role: "operator" }, "admin-acme");
  await server.post("/admin/tasks/cleanup", { before: "soon" }, "admin-acme");
  await del(server, "/admin/keys/cq_nothing", "admin-acme");
  const records = await readLater(server);
  assert.deepEqual(
    records.map(({ action, code, outcome, target }: Shown) => [action, outcome, code, target]),
    [
      ["revoke_api_key", "refused", "not_found", "cq_nothing"],
      ["clean_up", "refused", "invalid_argument", "soon"],
      ["create_api_key", "refused", "operator_only", undefined],
      ["create_api_key", "refused", "invalid_argument", undefined],
    ],
  );
});

test("admins read their own tenant's records, operators those of all", async (t) => {
  const server = await setup(t);
  for (const caller of ["admin-acme", "admin-globex"] as const) {
    await server.post("/admin/tasks/cleanup", {}, caller);
  }
  await server.get("/tasks/x", "nobody" as Caller);
  await server.get("/admin/queues", "producer-acme");
  const tenants = async (caller: Caller, query = ""): Promise<string[]> =>
    (await readLater(server, caller, query)).map(({ tenantId, action }: Shown) =>
      [tenantId ?? "nobody's", action].join(" "),
    );
  assert.deepEqual(await tenants("admin-acme"), ["acme list_queues", "acme clean_up"]);
  assert.deepEqual(await tenants("admin-globex"), ["globex clean_up"]);
  assert.deepEqual(await tenants("operator"), []);
  assert.deepEqual(await tenants("operator", "?tenant=globex"), ["globex clean_up"]);
  assert.deepEqual(await tenants("operator", everything), [
    "globex list_audit",
    "acme list_queues",
    "nobody's get_task",
    "globex clean_up",
    "acme clean_up",
  ]);
  for (const query of [everything, "?tenant=acme"]) {
    assert.equal((await server.get(`/admin/audit${query}`, "admin-globex")).status, 403);
  }
  assert.equal((await server.get("/admin/audit", "producer-acme")).status, 401);
  assert.equal((await server.get("/admin/audit", "worker-acme")).status, 401);
});

test("an operator that looks into another tenant is seen there, and counted", async (t) => {
  const server = await setup(t);
  for (let times = 0; times < 5; times += 1) {
    await server.get("/admin/queues/render?tenant=acme", "operator");
  }
  await server.get("/admin/queues?tenant=acme", "operator");
  await server.get("/admin/keys?tenant=acme", "operator");
  await server.get("/admin/queues", "operator");
  await server.get("/admin/queues?tenant=ops-team", "operator");
  const records = await readLater(server);
  assert.deepEqual(
    records.map((each: Shown) => [each.action, each.target, each.homeTenantId, each.count]),
    [
      ["list_api_keys", undefined, "ops-team", undefined],
      ["list_queues", undefined, "ops-team", undefined],
      ["get_queue", "render", "ops-team", 5],
    ],
  );
  assert.equal(records[2].lastTime, at);
  assert.deepEqual((await read(server, "operator")).length, 0, "at home nobody is watched");
  await server.get("/admin/tenants", "operator");
  const [looked] = await readLater(server, "operator", `${everything}&action=list_tenants`);
  assert.deepEqual([looked.tenantId, looked.homeTenantId], ["*", "ops-team"]);
});

test("refused callers are recorded by reason, and counted when it is the same again", async (t) => {
  const server = await setup(t);
  const ask = (authorization: string | undefined, path = "/tasks/x") =>
    server.ask(`/v1/codeq${path}`, {
      headers: authorization === undefined ? {} : { authorization },
    });
  for (let times = 0; times < 3; times += 1) await ask("Bearer garbage");
  await ask(undefined);
  await ask("Basic x");
  await ask("Bearer garbage", "/tasks/x/result");
  await ask("Bearer producer-upper-tenant");
  const records = await readLater(server, "operator", everything);
  const shown = records.map((each: Shown) => [each.action, each.code, each.count ?? 1]);
  assert.deepEqual(shown, [
    ["get_task", "invalid_tenant", 1],
    ["get_result", "invalid_token", 1],
    ["get_task", "invalid_authorization", 1],
    ["get_task", "missing_authorization", 1],
    ["get_task", "invalid_token", 3],
  ]);
  for (const each of records) {
    assert.deepEqual(
      [each.subject, each.tenantId, each.address],
      [undefined, undefined, "127.0.0.1"],
    );
  }
  const series = 'codeq_access_refusals_total{code="invalid_token"}';
  assert.equal(await server.metric(series), 4);
});

test("what a caller may not do is recorded under its name, in its tenant", async (t) => {
  const server = await setup(t);
  await server.get("/admin/queues", "producer-acme");
  await server.post("/tasks/claim", {}, "worker-few-scopes");
  await server.post("/tasks/claim", { commands: ["print"] }, "worker-render");
  const limited = { name: "x", scopes: ["codeq:create"], eventTypes: ["render"] };
  const { token, id } = (await server.post("/admin/keys", limited, "admin-acme")).json;
  const tasks = [{ command: "print" }, { command: "render" }, { command: "print" }];
  const batch = await server.ask("/v1/codeq/tasks/batch", {
    method: "POST",
    body: { tasks },
    headers: { authorization: `Bearer ${token}` },
  });
  assert.equal(batch.status, 200);
  const records = await readLater(server, "admin-acme", "?outcome=refused");
  assert.deepEqual(
    records.map((each: Shown) => [each.action, each.subject, each.code, each.count]),
    [
      ["create_tasks", id, "event_type_not_allowed", 2],
      ["claim_tasks", "worker-4", "event_type_not_allowed", undefined],
      ["claim_tasks", "worker-3", "missing_scope", undefined],
      ["list_queues", "shop", "admin_only", undefined],
    ],
  );
});

test("refusals that are about the request and not about the caller are none of its business", async (t) => {
  const server = await setup(t);
  const id = await server.leased();
  await server.get("/tasks/nothing");
  await server.post("/tasks", { command: "not a command" }, "producer-acme");
  await server.post(`/tasks/${id}/heartbeat`, {}, "worker-acme-2");
  await server.ask("/nowhere", {});
  assert.deepEqual(await readLater(server, "operator", everything), []);
});

test("time, action and outcome narrow the list, and pages go through it", async (t) => {
  const server = await setup(t);
  for (let minute = 0; minute < 5; minute += 1) {
    await server.post("/admin/tasks/cleanup", {}, "admin-acme");
    await server.post("/admin/keys", { name: `k${minute}`, role: "admin" }, "admin-acme");
    await server.clock.advance(60_000);
  }
  const count = async (query: string): Promise<number> =>
    (await read(server, "admin-acme", query)).length;
  assert.equal(await count(""), 10);
  assert.equal(await count("?action=clean_up"), 5);
  assert.equal(await count("?outcome=refused"), 0);
  assert.equal(await count("?outcome=ok&action=create_api_key"), 5);
  assert.equal(await count("?from=2026-01-02T03:05:05.12Z"), 8);
  assert.equal(await count("?to=2026-01-02T03:05:05.12Z"), 2);
  assert.equal(await count("?from=2026-01-02T03:05:05.12Z&to=2026-01-02T03:07:05.12Z"), 4);
  const found: string[] = [];
  for (let next: string | undefined = ""; next !== undefined; ) {
    const query = `?action=create_api_key&limit=2&after=${encodeURIComponent(next)}`;
    const { json } = await server.get(`/admin/audit${query}`, "admin-acme");
    assert.ok(json.records.length <= 2);
    found.push(...json.records.map(({ detail }: Shown) => detail.slice(0, 2)));
    next = json.next;
  }
  assert.deepEqual(found, ["k4", "k3", "k2", "k1", "k0"]);
  for (const [query, error] of [
    ["limit=0", "invalid 'limit' (1 to 1000)"],
    ["limit=1001", "invalid 'limit' (1 to 1000)"],
    ["after=x", "invalid 'after' (use 'next' of the previous page)"],
    ["from=yesterday", "invalid 'from' (use RFC3339)"],
    ["to=2026-01-02", "invalid 'to' (use RFC3339)"],
    ["action=DROP%20TABLE", "invalid 'action'"],
    ["outcome=good", "invalid 'outcome' (one of ok, refused, failed)"],
    ["action=a&action=b", "query parameter action is given more than once"],
  ] as const) {
    const reply = await server.get(`/admin/audit?${query}`, "admin-acme");
    assert.deepEqual([reply.status, reply.json], [400, { error }], query);
  }
});

test("a flood of strangers leaves a bounded number of records and writes, and hides nobody", async (t) => {
  const server = await setup(t);
  const before = (await server.dump()).size;
  for (let number = 0; number < 2000; number += 1) {
    await server.app.inject({
      method: "GET",
      url: "/v1/codeq/tasks/x",
      remoteAddress: `10.0.${number >> 8}.${number & 255}`,
      headers: { authorization: `Bearer garbage-${number}` },
    });
  }
  assert.equal((await server.dump()).size, before, "nothing is written while they come");
  await server.get("/admin/queues", "producer-acme");
  const records = await readLater(server, "operator", `${everything}&limit=1000`);
  assert.equal(records.length, 102);
  const others = records.find(({ action }: Shown) => action === "other_strangers");
  assert.equal(others.count, 1900);
  assert.equal((await read(server))[0].subject, "shop");
  assert.equal((await server.dump()).size, before + 2 * 102);
  const all = [...(await server.dump())].flat().join("\n") + server.lines.join("\n");
  assert.equal(all.includes("garbage"), false, "no token is kept");
});

test("records are gone when their retention is over", async (t) => {
  const server = await setup(t, { settings: { auditRetentionSeconds: 3600 } });
  await server.post("/admin/tasks/cleanup", {}, "admin-acme");
  await server.clock.advance(3_599_000);
  assert.equal((await read(server)).length, 1);
  await server.clock.advance(3_601_000);
  await until(async () => (await read(server)).length === 0);
  const left = [...(await server.dump()).keys()].filter((key) => key.startsWith("codeq/audit/"));
  assert.deepEqual(left, []);
});

test("records outlive a power failure once the action was answered", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  const { id } = (await server.post("/admin/keys", { name: "x", role: "admin" }, "admin-acme"))
    .json;
  await server.post("/admin/tasks/cleanup", {}, "admin-acme");
  await del(server, `/admin/keys/${id}`, "admin-acme");
  server.world.crash("power");
  const next = await server.world.start();
  t.after(() => next.stop());
  const actions = (await read(next)).map(({ action }: Shown) => action);
  assert.deepEqual(actions, ["revoke_api_key", "clean_up", "create_api_key"]);
});

test("a change is not answered before its record is durable", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  const held = Promise.withResolvers<void>();
  server.world.disk.slow("write", held.promise);
  let isAnswered = false;
  // There is nothing to clean up, so the record is all that is written.
  const cleaned = server.post("/admin/tasks/cleanup", {}, "admin-acme").finally(() => {
    isAnswered = true;
  });
  await settle(100);
  assert.equal(isAnswered, false);
  held.resolve();
  assert.equal((await cleaned).status, 200);
});

test(
  "a full disk refuses what changes and not what reads, and the log tells of both",
  onlyWith.disk,
  async (t) => {
    const server = await setup(t, { storage: "sim-disk" });
    await server.create({ payload: "x".repeat(1000) });
    server.world.disk.capacityBytes = 0;
    const large = { command: "render", payload: "x".repeat(100_000) };
    assert.equal((await server.post("/tasks", large, "producer-acme")).status, 507);
    assert.equal((await server.get("/admin/queues?tenant=acme", "operator")).status, 200);
    const key = { name: "x", role: "admin" };
    assert.equal((await server.post("/admin/keys", key, "admin-acme")).status, 507);
    await server.clock.advance(1000);
    await settle();
    const logged = server.lines.filter((line) => line.includes('"msg":"audit"'));
    const actions = logged.map((line) => JSON.parse(line).action);
    assert.deepEqual(actions, ["list_queues", "create_api_key"]);
  },
);
