/** API keys over REST: what they may do, who may make them, and how they end. */
import assert from "node:assert/strict";
import test from "node:test";
import { settle } from "@codeq/simulated";
import { type Reply, type RunningServer, setup, startMs, until } from "./setup.ts";
import type { Caller } from "./tokens.ts";

const base = "/v1/codeq";
const allScopes = [
  ...["codeq:create", "codeq:claim", "codeq:heartbeat", "codeq:abandon"],
  ...["codeq:nack", "codeq:result", "codeq:subscribe"],
];

interface Made {
  readonly id: string;
  readonly token: string;
}

async function made(
  server: RunningServer,
  fields: object = {},
  caller: Caller = "admin-acme",
): Promise<Made> {
  const reply = await create(server, fields, caller);
  assert.equal(reply.status, 201, reply.text);
  return reply.json;
}

function create(
  server: RunningServer,
  fields: object = {},
  caller: Caller = "admin-acme",
): Promise<Reply> {
  return server.post("/admin/keys", { name: "ci", scopes: allScopes, ...fields }, caller);
}

/** A request with an API key. */
function by(
  server: RunningServer,
  token: string,
  path: string,
  ask: { readonly method?: string; readonly body?: unknown; readonly role?: string } = {},
): Promise<Reply> {
  const { role, ...rest } = ask;
  const headers = {
    authorization: `Bearer ${token}`,
    ...(role === undefined ? {} : { "x-role": role }),
  };
  const method = rest.method ?? (rest.body === undefined ? "GET" : "POST");
  return server.ask(base + path, { ...rest, method, headers });
}

function revoke(
  server: RunningServer,
  id: string,
  caller: Caller = "admin-acme",
  query = "",
): Promise<Reply> {
  return server.ask(`${base}/admin/keys/${id}${query}`, { method: "DELETE", caller });
}

/** Whether a token is good for anything at all. */
async function isGood(server: RunningServer, token: string): Promise<boolean> {
  const { status, text } = await by(server, token, "/tasks/nothing");
  if (status === 401) assert.equal(text, '{"error":"invalid token"}');
  return status === 404;
}

function refusedWith(reply: Reply, status: number, error: string): void {
  assert.deepEqual([reply.status, reply.text], [status, JSON.stringify({ error })]);
}

test("a key is shown whole once, and afterwards everything but its secret", async (t) => {
  const server = await setup(t);
  const reply = await create(server, {
    name: " build farm ",
    eventTypes: ["Render", "print"],
    role: "admin",
    scopes: ["codeq:claim", "codeq:claim"],
    expiresAt: "2026-01-02T04:00:00Z",
  });
  assert.equal(reply.status, 201);
  const { token, ...rest } = reply.json;
  const { id } = rest;
  assert.match(token, new RegExp(`^${id}_[0-9a-z]{47}$`));
  assert.deepEqual(rest, {
    id,
    name: "build farm",
    tenantId: "acme",
    role: "admin",
    scopes: ["codeq:claim"],
    eventTypes: ["Render", "print"],
    createdAt: "2026-01-02T03:04:05.12Z",
    createdBy: "boss",
    expiresAt: "2026-01-02T04:00:00Z",
  });
  assert.deepEqual((await server.get(`/admin/keys/${id}`, "admin-acme")).json, rest);
  assert.deepEqual((await server.get("/admin/keys", "admin-acme")).json, { keys: [rest] });
});

test("a key may do what its scopes say and nothing else", async (t) => {
  const server = await setup(t, { settings: { allowProducerAsWorker: true } });
  const id = await server.create({ command: "print" });
  const asked = {
    "codeq:create": ["/tasks", { command: "print", payload: 1 }, 202],
    "codeq:claim": ["/tasks/claim", { commands: ["print"] }, 200],
    "codeq:heartbeat": [`/tasks/${id}/heartbeat`, {}, 403],
    "codeq:nack": [`/tasks/${id}/nack`, {}, 403],
    "codeq:abandon": [`/tasks/${id}/abandon`, {}, 403],
    "codeq:result": [`/tasks/${id}/result`, { status: "COMPLETED", result: {} }, 403],
  } as const;
  for (const scope of allScopes) {
    const { token } = await made(server, { scopes: [scope] });
    for (const [needed, [path, body, status]] of Object.entries(asked)) {
      const reply = await by(server, token, path, { body });
      if (scope !== needed) refusedWith(reply, 403, "missing scope");
      else if (status === 403) refusedWith(reply, 403, "not-owner");
      else assert.equal(reply.status, status, `${scope}: ${reply.text}`);
    }
    assert.equal((await by(server, token, `/tasks/${id}`)).status, 200, "everybody may read");
    refusedWith(await by(server, token, "/admin/queues"), 401, "unauthorized. Admin only");
  }
});

test("a key works on its event types, and creates those", async (t) => {
  const server = await setup(t);
  const { token } = await made(server, { eventTypes: ["Render"] });
  for (const [path, field] of [
    ["/tasks", { command: "print", payload: 1 }],
    ["/tasks/claim", { commands: ["print"] }],
  ] as const) {
    refusedWith(await by(server, token, path, { body: field }), 403, "event type not allowed");
  }
  const task = await by(server, token, "/tasks", { body: { command: "RENDER", payload: 1 } });
  assert.equal(task.status, 202);
  const claimed = await by(server, token, "/tasks/claim", { body: {} });
  assert.equal(claimed.json.id, task.json.id);
});

test("a key is in the tenant that it was made in", async (t) => {
  const server = await setup(t);
  const { id, token } = await made(server, { role: "admin" }, "admin-globex");
  const task = await server.create();
  refusedWith(await by(server, token, `/tasks/${task}`), 404, "not found");
  assert.equal((await by(server, token, "/tasks/claim", { body: {} })).status, 204);
  refusedWith(await by(server, token, "/admin/queues?tenant=acme"), 403, onlyOperators);
  const mine = await by(server, token, "/tasks", { body: { command: "x", payload: 1 } });
  assert.equal(mine.json.tenantId, "globex");
  const claimed = await by(server, token, "/tasks/claim", { body: {} });
  assert.deepEqual([claimed.json.id, claimed.json.workerId], [mine.json.id, id]);
});

const onlyOperators = "only operators may select another tenant";

test("the role header gives a key no role", async (t) => {
  const server = await setup(t, { settings: { allowRoleHeader: true } });
  const { token } = await made(server);
  const reply = await by(server, token, "/admin/queues", { role: "ADMIN" });
  refusedWith(reply, 401, "unauthorized. Admin only");
});

test("an admin's key administers, and creates no tasks unless it may", async (t) => {
  const server = await setup(t);
  const { id, token } = await made(server, { role: "ADMIN", scopes: [] });
  assert.equal((await by(server, token, "/admin/queues")).status, 200);
  const body = { command: "x", payload: 1 };
  refusedWith(await by(server, token, "/tasks", { body }), 403, "missing scope");
  const key = { name: "second", scopes: ["codeq:create"] };
  const second = await by(server, token, "/admin/keys", { body: key });
  assert.equal(second.json.createdBy, id);
  assert.equal((await by(server, second.json.token, "/tasks", { body })).status, 202);
  const gone = await by(server, token, `/admin/keys/${id}`, { method: "DELETE" });
  assert.equal(gone.status, 204, "it may end itself");
  assert.equal(await isGood(server, token), false);
  assert.equal(await isGood(server, second.json.token), true);
});

test("nobody gives what it does not have", async (t) => {
  const server = await setup(t);
  const before = await server.fingerprint();
  const noOperator = "only operators may create keys with the role operator";
  for (const caller of ["admin-acme", "admin-by-scope"] as const) {
    refusedWith(await create(server, { role: "operator" }, caller), 403, noOperator);
  }
  for (const scope of ["codeq:operator", "codeq:admin"]) {
    assert.equal((await create(server, { scopes: [scope] })).status, 400, scope);
  }
  const notMine = "a key can only have event types of its creator";
  for (const eventTypes of [["print"], ["*"], ["render", "print"], []]) {
    refusedWith(await create(server, { eventTypes }, "admin-render"), 403, notMine);
  }
  assert.equal(await server.fingerprint(), before);
  assert.equal((await create(server, { eventTypes: ["RENDER"] }, "admin-render")).status, 201);
  const { token } = await made(server, { role: "admin", eventTypes: ["render"] });
  const body = { name: "x", role: "admin", eventTypes: ["print"] };
  refusedWith(await by(server, token, "/admin/keys", { body }), 403, notMine);
});

test("an operator manages the keys of every tenant, and makes operators", async (t) => {
  const server = await setup(t);
  const acme = await made(server);
  const globex = await made(server, {}, "admin-globex");
  const ask = (path: string, method = "GET", body?: unknown) =>
    server.ask(base + path, {
      method,
      caller: "operator",
      ...(body === undefined ? {} : { body }),
    });
  const ids = async (query: string): Promise<string[]> =>
    (await ask(`/admin/keys${query}`)).json.keys.map(({ id }: Made) => id);
  assert.deepEqual(await ids(""), []);
  assert.deepEqual(await ids("?tenant=acme"), [acme.id]);
  assert.deepEqual(await ids("?tenant=*"), [acme.id, globex.id]);
  assert.equal((await ask(`/admin/keys/${acme.id}`)).status, 404);
  assert.equal((await ask(`/admin/keys/${acme.id}?tenant=globex`)).status, 404);
  assert.equal((await ask(`/admin/keys/${acme.id}?tenant=*`)).json.tenantId, "acme");
  assert.equal((await revoke(server, acme.id, "operator")).status, 404);
  assert.equal((await revoke(server, acme.id, "operator", "?tenant=acme")).status, 204);
  assert.equal((await revoke(server, globex.id, "operator", "?tenant=*")).status, 204);
  assert.equal(await isGood(server, acme.token), false);
  const root = { name: "root", role: "operator" };
  refusedWith(await ask("/admin/keys?tenant=*", "POST", root), 400, "invalid 'tenant'");
  refusedWith(await ask("/admin/queues?tenant=*"), 400, "invalid 'tenant'");
  const { json } = await ask("/admin/keys?tenant=acme", "POST", root);
  assert.equal(json.tenantId, "acme");
  const all = await by(server, json.token, "/admin/keys?tenant=*");
  assert.deepEqual([all.status, all.json.keys.length], [200, 1]);
});

test("keys of other tenants do not exist, whatever is asked", async (t) => {
  const server = await setup(t);
  const { id, token } = await made(server);
  assert.equal((await revoke(server, id, "admin-globex")).status, 404);
  refusedWith(await revoke(server, id, "admin-globex", "?tenant=acme"), 403, onlyOperators);
  refusedWith(await revoke(server, id, "admin-globex", "?tenant=*"), 403, onlyOperators);
  for (const caller of ["admin-globex", "admin-acme"] as const) {
    const reply = await server.get("/admin/keys?tenant=*", caller);
    refusedWith(reply, 403, onlyOperators);
  }
  assert.deepEqual((await server.get("/admin/keys", "admin-globex")).json, { keys: [] });
  const after = `acme/${id.slice(0, -1)}`;
  const page = await server.get(`/admin/keys?after=${after}`, "admin-globex");
  assert.deepEqual(page.json, { keys: [] });
  assert.equal(await isGood(server, token), true);
});

test("what a key is asked to be is checked, each part for itself", async (t) => {
  const server = await setup(t);
  const before = await server.fingerprint();
  const name = "invalid 'name' (1 to 128 characters on one line)";
  const scopes = `invalid 'scopes' (of ${allScopes.join(", ")}, codeq:payloads-hidden)`;
  const types = "invalid 'eventTypes' (at most 256 commands, or *)";
  const seconds = 10 * 366 * 24 * 60 * 60;
  const many = (count: number) => Array.from({ length: count }, (_, at) => `type-${at}`);
  const cases: readonly (readonly [object, string])[] = [
    [{ name: "" }, name],
    [{ name: "   " }, name],
    [{ name: "x".repeat(129) }, name],
    [{ name: "two\nlines" }, name],
    [{ name: "half \ud800 pair" }, name],
    [{ scopes: ["claim"] }, scopes],
    [{ scopes: ["codeq:*"] }, scopes],
    [{ scopes: [] }, "a key needs scopes or a role"],
    [{ scopes: null }, "a key needs scopes or a role"],
    [{ role: "root" }, "invalid 'role' (one of none, viewer, admin, operator)"],
    [{ eventTypes: [""] }, types],
    [{ eventTypes: ["a b"] }, types],
    [{ eventTypes: many(257) }, types],
    [{ expiresAt: "tomorrow" }, "invalid 'expiresAt' (use RFC3339)"],
    [
      { expiresAt: "2026-01-02T03:04:05Z" },
      `invalid 'expiresAt' (within ${seconds} seconds from now)`,
    ],
    [
      { expiresAt: "2099-01-02T03:04:05Z" },
      `invalid 'expiresAt' (within ${seconds} seconds from now)`,
    ],
    [{ expiresInSeconds: -1 }, `invalid 'expiresInSeconds' (1 to ${seconds})`],
    [{ expiresInSeconds: seconds + 1 }, `invalid 'expiresInSeconds' (1 to ${seconds})`],
    [
      { expiresInSeconds: 1, expiresAt: "2027-01-01T00:00:00Z" },
      "pass 'expiresAt' or 'expiresInSeconds', not both",
    ],
  ];
  for (const [fields, error] of cases) refusedWith(await create(server, fields), 400, error);
  for (const [fields, why] of [
    [{ name: 7 }, "name must be a string, got 7"],
    [{ name: undefined }, "name is required"],
    [{ scopes: "codeq:claim" }, 'scopes must be an array, got "codeq:claim"'],
    [{ eventtypes: ["render"] }, 'unknown field "eventtypes"; did you mean "eventTypes"?'],
    [{ expiresInSeconds: 1.5 }, "expiresInSeconds must be a whole number, got 1.5"],
  ] as const) {
    refusedWith(await create(server, fields), 400, `invalid body: ${why}`);
  }
  assert.equal(await server.fingerprint(), before, "nothing of it was kept");
  for (const fields of [
    { name: "x".repeat(128) },
    { eventTypes: many(256) },
    { expiresInSeconds: seconds },
    { name: "Schlüssel für 日本" },
  ]) {
    assert.equal((await create(server, fields)).status, 201);
  }
});

test("pages of keys follow each other", async (t) => {
  const server = await setup(t);
  const ids: string[] = [];
  for (let count = 0; count < 5; count += 1) {
    ids.push((await made(server)).id);
    await server.clock.advance(1);
  }
  const found: string[] = [];
  for (let query = "?limit=2"; query !== ""; ) {
    const { json } = await server.get(`/admin/keys${query}`, "admin-acme");
    found.push(...json.keys.map(({ id }: Made) => id));
    query = json.next === undefined ? "" : `?limit=2&after=${encodeURIComponent(json.next)}`;
  }
  assert.deepEqual(found, ids);
  const limit = "invalid 'limit' (1 to 1000)";
  for (const [query, error] of [
    ["limit=0", limit],
    ["limit=1001", limit],
    ["limit=x", 'limit must be a whole number, got "x"'],
    ["limit=", 'limit must be a whole number, got ""'],
    ["limit=1.5", 'limit must be a whole number, got "1.5"'],
    ["limit=1&limit=2", "query parameter limit is given more than once"],
    ["limits=2", 'unknown query parameter "limits"; did you mean "limit"?'],
    ["after=x", "invalid 'after' (use 'next' of the previous page)"],
    ["after=acme/../x", "invalid 'after' (use 'next' of the previous page)"],
  ] as const) {
    refusedWith(await server.get(`/admin/keys?${query}`, "admin-acme"), 400, error);
  }
});

test("a key is refused from the moment it expires, and is listed until it is revoked", async (t) => {
  const server = await setup(t);
  const { id, token } = await made(server, { expiresInSeconds: 60 });
  await server.clock.advance(59_999);
  assert.equal(await isGood(server, token), true);
  await server.clock.advance(1);
  refusedWith(await by(server, token, "/tasks/x"), 401, "token is expired");
  assert.equal((await server.get(`/admin/keys/${id}`, "admin-acme")).status, 200);
  assert.equal((await revoke(server, id)).status, 204);
  assert.equal((await by(server, token, "/tasks/x")).status, 401);
  assert.deepEqual((await server.get("/admin/keys", "admin-acme")).json, { keys: [] });
});

test("a mistyped key is told so, and an unknown one that it is invalid", async (t) => {
  const server = await setup(t);
  const { token } = await made(server);
  const mistyped = "the API key is mistyped or incomplete";
  for (const wrong of [token.slice(0, -1), `${token}0`, token.replace("cq_", "cq_0"), "cq_"]) {
    refusedWith(await by(server, wrong, "/tasks/x"), 401, mistyped);
    refusedWith(await by(server, wrong, "/tasks", { body: {} }), 401, mistyped);
    refusedWith(await by(server, wrong, "/admin/queues"), 401, mistyped);
  }
});

test("when the answer to a revocation comes the key is refused, also where somebody waits", async (t) => {
  const server = await setup(t);
  const { id, token } = await made(server);
  const other = await made(server);
  const task = await server.create({ command: "later", delaySeconds: 3600 });
  const wait = { commands: ["render"], waitSeconds: 30 };
  const claim = by(server, token, "/tasks/claim", { body: wait });
  const result = by(server, token, `/tasks/${task}/result?waitSeconds=60`);
  const unconcerned = by(server, other.token, "/tasks/claim", { body: wait });
  await server.untilWaiting(2);
  await server.untilWaiting(1, "results");
  const { fired } = server.clock;
  assert.equal((await revoke(server, id)).status, 204);
  refusedWith(await claim, 401, "token was revoked");
  refusedWith(await result, 401, "token was revoked");
  assert.equal(await isGood(server, token), false);
  assert.equal(server.clock.fired, fired, "no timer had to run");
  await server.untilWaiting(1);
  const next = await server.create();
  assert.equal((await unconcerned).json.id, next, "the task went to the one who still may");
});

test("keys and revocations outlive a restart and a power failure", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  const kept = await made(server);
  const gone = await made(server);
  await revoke(server, gone.id);
  server.world.crash("power");
  const second = await server.world.start();
  const third = await second.restart();
  t.after(() => third.stop());
  assert.equal(await isGood(third, kept.token), true);
  assert.equal(await isGood(third, gone.token), false);
});

test("the last use of a key is shown, and written once a while", async (t) => {
  const server = await setup(t);
  const { id, token } = await made(server);
  const lastUsed = async (on: RunningServer): Promise<string | undefined> =>
    (await on.get(`/admin/keys/${id}`, "admin-acme")).json.lastUsedAt;
  assert.equal(await lastUsed(server), undefined);
  const before = await server.dump();
  await isGood(server, token);
  assert.equal(await lastUsed(server), "2026-01-02T03:04:05.12Z");
  assert.deepEqual(await server.dump(), before, "a request writes nothing");
  await server.clock.advance(60_000);
  await until(async () => (await server.dump()).get(`codeq/key-uses/${id}`) === String(startMs));
  await isGood(server, token);
  const restarted = await server.restart();
  t.after(() => restarted.stop());
  assert.equal(await lastUsed(restarted), "2026-01-02T03:04:05.12Z");
});

test("the secret is in the answer to its creation and nowhere else", async (t) => {
  const server = await setup(t);
  const { id, token } = await made(server, { role: "admin" });
  const secret = token.slice(id.length + 1, -7);
  const said: string[] = [];
  const hear = async (reply: Promise<Reply>): Promise<void> => {
    const { text, headers } = await reply;
    said.push(text, JSON.stringify(headers));
  };
  await hear(by(server, token, "/tasks", { body: { command: "x", payload: 1 } }));
  await hear(by(server, token, "/tasks", { body: { command: "not a command", payload: 1 } }));
  await hear(by(server, token, "/tasks", { body: "not json" }));
  await hear(by(server, `${token}x`, "/tasks/x"));
  await hear(by(server, `x${token}`, "/tasks/x"));
  await hear(by(server, token, `/tasks/${id}`));
  await hear(by(server, token, "/admin/keys"));
  await hear(by(server, token, `/admin/keys/${id}`));
  await hear(by(server, token, "/admin/queues?tenant=acme,globex"));
  await hear(revoke(server, id));
  await hear(by(server, token, "/tasks/x"));
  await hear(server.ask("/metrics", {}));
  await server.clock.advance(120_000);
  await settle();
  const everything = [...said, ...server.lines, ...[...(await server.dump())].flat()].join("\n");
  assert.ok(everything.includes(id), "the id is seen");
  assert.equal(everything.includes(secret), false);
});
