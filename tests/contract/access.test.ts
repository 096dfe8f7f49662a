/**
 * Who may call what. One row per route of the server and one column per kind of caller; a route
 * without a row fails. Every refusal must leave the store as it was, and one that is decided by the
 * token alone must not even look into it.
 */
import assert from "node:assert/strict";
import test, { type TestContext } from "node:test";
import { routes } from "../../packages/server/src/transport/http/http-server.ts";
import { type Reply, type RunningServer, setup, startMs } from "./setup.ts";
import type { Caller } from "./tokens.ts";

type Refused = readonly [status: number, error: string];
type Access = "producer" | "worker" | "either" | "admin";

/** What the caller gets: a status when the call is allowed, otherwise a refusal. */
type Expected = number | Refused;

interface Row {
  readonly access: Access;
  readonly path: (ids: Ids) => string;
  readonly body?: (ids: Ids) => unknown;
  readonly ok: number;
  /** What a caller of the other tenant gets for the ids of this one. */
  readonly foreign: Expected;
  /** What another worker of the same tenant gets for a task that is not its own. */
  readonly otherWorker?: Expected;
}

interface Ids {
  readonly leased: string;
  readonly done: string;
}

const result = { status: "COMPLETED", result: { secret: 1 } };
const notOwner: Refused = [403, "not-owner"];
const submitForeign: Refused = [404, "task not found"];
const verbForeign: Refused = [404, "not-found"];

const table: Readonly<Record<string, Row>> = {
  "POST /v1/codeq/tasks": {
    access: "producer",
    path: () => "/v1/codeq/tasks",
    body: () => ({ command: "new", payload: 1 }),
    ok: 202,
    foreign: 202,
  },
  "POST /v1/codeq/tasks/batch": {
    access: "producer",
    path: () => "/v1/codeq/tasks/batch",
    body: () => ({ tasks: [{ command: "new", payload: 1 }] }),
    ok: 200,
    foreign: 200,
  },
  "POST /v1/codeq/tasks/claim": {
    access: "worker",
    path: () => "/v1/codeq/tasks/claim",
    body: () => ({ commands: ["print"] }),
    ok: 200,
    foreign: 204,
    otherWorker: [403, "event type not allowed"],
  },
  "POST /v1/codeq/tasks/claim/batch": {
    access: "worker",
    path: () => "/v1/codeq/tasks/claim/batch",
    body: () => ({ count: 2, commands: ["render", "print"] }),
    ok: 200,
    foreign: 204,
    otherWorker: [403, "event type not allowed"],
  },
  "POST /v1/codeq/tasks/:id/heartbeat": {
    access: "worker",
    path: ({ leased }) => `/v1/codeq/tasks/${leased}/heartbeat`,
    body: () => ({ extendSeconds: 5000 }),
    ok: 200,
    foreign: verbForeign,
    otherWorker: notOwner,
  },
  "POST /v1/codeq/tasks/:id/abandon": {
    access: "worker",
    path: ({ leased }) => `/v1/codeq/tasks/${leased}/abandon`,
    body: () => ({}),
    ok: 200,
    foreign: verbForeign,
    otherWorker: notOwner,
  },
  "POST /v1/codeq/tasks/:id/nack": {
    access: "worker",
    path: ({ leased }) => `/v1/codeq/tasks/${leased}/nack`,
    body: () => ({ delaySeconds: 1 }),
    ok: 200,
    foreign: verbForeign,
    otherWorker: notOwner,
  },
  "POST /v1/codeq/tasks/:id/result": {
    access: "worker",
    path: ({ leased }) => `/v1/codeq/tasks/${leased}/result`,
    body: () => result,
    ok: 200,
    foreign: submitForeign,
    otherWorker: notOwner,
  },
  "POST /v1/codeq/tasks/batch/results": {
    access: "worker",
    path: () => "/v1/codeq/tasks/batch/results",
    body: ({ leased }) => ({ results: [{ taskId: leased, ...result }] }),
    ok: 200,
    foreign: submitForeign,
    otherWorker: notOwner,
  },
  "GET /v1/codeq/tasks/:id": {
    access: "either",
    path: ({ done }) => `/v1/codeq/tasks/${done}`,
    ok: 200,
    foreign: [404, "not found"],
  },
  "GET /v1/codeq/tasks/:id/result": {
    access: "either",
    path: ({ done }) => `/v1/codeq/tasks/${done}/result?waitSeconds=60`,
    ok: 200,
    foreign: [404, "task not found"],
  },
  "GET /v1/codeq/admin/queues": {
    access: "admin",
    path: () => "/v1/codeq/admin/queues",
    ok: 200,
    foreign: 200,
  },
  "GET /v1/codeq/admin/queues/:command": {
    access: "admin",
    path: () => "/v1/codeq/admin/queues/print",
    ok: 200,
    foreign: 200,
  },
  "POST /v1/codeq/admin/tasks/cleanup": {
    access: "admin",
    path: () => "/v1/codeq/admin/tasks/cleanup",
    body: () => ({ before: "2030-01-01T00:00:00Z" }),
    ok: 200,
    foreign: 200,
  },
};

const badTenant: Refused = [403, "invalid tenant claims"];
const badToken: Refused = [401, "invalid token"];
const adminOnly: Refused = [401, "unauthorized. Admin only"];

/** Callers that the token alone decides on. */
const refusedByToken: Readonly<Record<Access, Readonly<Partial<Record<Caller, Refused>>>>> = {
  producer: {
    "worker-acme": badToken,
    "worker-globex": badToken,
    "worker-few-scopes": badToken,
    "worker-number-tenant": badToken,
    "admin-by-scope": [403, "missing scope"],
    "producer-upper-tenant": badTenant,
    "admin-two-tenants": badTenant,
  },
  worker: {
    "producer-acme": badToken,
    "admin-acme": badToken,
    "admin-globex": badToken,
    "producer-upper-tenant": badToken,
    "worker-few-scopes": [403, "missing scope"],
    "worker-no-types": [401, "missing eventTypes"],
    "worker-no-scopes": [401, "missing scope"],
    "worker-number-tenant": badTenant,
  },
  either: {
    "worker-no-types": badToken,
    "worker-number-tenant": badTenant,
    "producer-upper-tenant": badTenant,
    "admin-two-tenants": badTenant,
  },
  admin: {
    "producer-acme": adminOnly,
    "producer-globex": adminOnly,
    "worker-acme": badToken,
    "worker-globex": badToken,
    "producer-upper-tenant": badTenant,
    "admin-two-tenants": badTenant,
  },
};

const allowed: Readonly<Record<Access, readonly Caller[]>> = {
  producer: ["producer-acme", "admin-acme"],
  worker: ["worker-acme"],
  either: ["producer-acme", "admin-acme", "worker-acme", "worker-few-scopes", "worker-render"],
  admin: ["admin-acme", "admin-by-scope"],
};

const foreigners: Readonly<Record<Access, readonly Caller[]>> = {
  producer: ["producer-globex"],
  worker: ["worker-globex"],
  either: ["producer-globex", "worker-globex", "admin-globex"],
  admin: ["admin-globex"],
};

const badHeaders: readonly (readonly [string | undefined, Refused])[] = [
  [undefined, [401, "missing Authorization header"]],
  ["", [401, "missing Authorization header"]],
  ["Bearer", [401, "invalid Authorization format"]],
  ["Bearer   ", [401, "invalid Authorization format"]],
  ["Basic d29ya2VyOng=", [401, "invalid Authorization format"]],
  ["producer-acme", [401, "invalid Authorization format"]],
  ["Bearer garbage", badToken],
  ["Bearer producer-acme,worker-acme", badToken],
  ["Bearer PRODUCER-ACME", badToken],
  [`Bearer ${"x".repeat(8000)}`, badToken],
];

/** A tenant with a task in every place, one of them held by `worker-acme`. */
async function populated(t: TestContext): Promise<[RunningServer, Ids]> {
  const server = await setup(t);
  const done = await server.leased({ payload: { secret: "of acme" } });
  await server.complete(done);
  await server.buried();
  await server.create({ command: "later", delaySeconds: 60, idempotencyKey: "k" });
  const leased = await server.leased({ payload: { secret: "of acme" } });
  await server.create({ command: "print" });
  return [server, { leased, done }];
}

async function ask(
  server: RunningServer,
  route: string,
  ids: Ids,
  who: { caller?: Caller; headers?: Record<string, string> },
): Promise<Reply> {
  const row = table[route] as Row;
  const method = route.slice(0, route.indexOf(" "));
  const body = row.body === undefined ? {} : { body: row.body(ids) };
  return server.ask(row.path(ids), { method, ...body, ...who });
}

function assertRefused(reply: Reply, [status, error]: Refused, why: string): void {
  // A batch tells of its items inside a 200.
  if (reply.status === 200 && reply.text.startsWith('{"results":')) {
    assert.deepEqual(reply.json.results[0].error, error, why);
    return;
  }
  assert.equal(reply.status, status, `${why}: ${reply.text}`);
  assert.equal(reply.text, JSON.stringify({ error }), why);
}

/** Runs the call and makes sure that not one byte of the store is different afterwards. */
async function untouched(
  server: RunningServer,
  why: string,
  call: () => Promise<Reply>,
): Promise<Reply> {
  const before = await server.fingerprint();
  const reply = await call();
  assert.equal(await server.fingerprint(), before, `${why} changed the store`);
  assert.equal(reply.text.includes("secret"), false, `${why} showed a payload`);
  return reply;
}

/** Counts how often the store is asked while the call runs. */
async function readsDuring(server: RunningServer, call: () => Promise<unknown>): Promise<number> {
  const { engine } = server.core;
  const { get, scan } = engine;
  let reads = 0;
  engine.get = (key) => {
    reads += 1;
    return get.call(engine, key);
  };
  engine.scan = (range, limit) => {
    reads += 1;
    return scan.call(engine, range, limit);
  };
  await call();
  Object.assign(engine, { get, scan });
  return reads;
}

test("every route has a row in the table of access, and every row has a route", () => {
  const known = routes.map(({ method, path }) => `${method} ${path}`);
  assert.deepEqual(known.toSorted(), Object.keys(table).toSorted());
});

for (const [route, row] of Object.entries(table)) {
  test(`${route} refuses headers that name nobody and reads nothing`, async (t) => {
    const [server, ids] = await populated(t);
    for (const [authorization, refused] of badHeaders) {
      const headers: Record<string, string> = authorization === undefined ? {} : { authorization };
      const why = `${route} with ${authorization?.slice(0, 40)}`;
      for (const extra of [{}, { "x-role": "ADMIN" }]) {
        const call = () => ask(server, route, ids, { headers: { ...headers, ...extra } });
        assertRefused(await untouched(server, why, call), refused, why);
        assert.equal(await readsDuring(server, call), 0, `${why} read the store`);
      }
    }
  });

  test(`${route} refuses tokens of the wrong kind and reads nothing`, async (t) => {
    const [server, ids] = await populated(t);
    for (const [name, refused] of Object.entries(refusedByToken[row.access])) {
      const caller = name as Caller;
      for (const headers of [
        {},
        { "x-role": "ADMIN" },
        { "x-role": "admin", "x-tenant": "acme" },
      ]) {
        const call = () => ask(server, route, ids, { caller, headers });
        assertRefused(await untouched(server, `${route} by ${name}`, call), refused, name);
        assert.equal(await readsDuring(server, call), 0, `${route} by ${name} read the store`);
      }
    }
  });

  test(`${route} lets those in who may`, async (t) => {
    for (const caller of allowed[row.access]) {
      const [server, ids] = await populated(t);
      const reply = await ask(server, route, ids, { caller });
      assert.equal(reply.status, row.ok, `${route} by ${caller}: ${reply.text}`);
      assert.equal(reply.text.includes('"error"'), false, reply.text);
    }
    const [server, ids] = await populated(t);
    const [caller] = allowed[row.access];
    const headers = { authorization: `bEaReR  ${caller}` };
    const reply = await ask(server, route, ids, { headers });
    assert.equal(reply.status, row.ok, `${route} with a scheme in mixed case: ${reply.text}`);
  });

  test(`${route} shows and changes nothing of another tenant`, async (t) => {
    const [server, ids] = await populated(t);
    for (const caller of foreigners[row.access]) {
      const before = new Map([...(await server.dump())].filter(([key]) => ofAcme(key, ids)));
      const lease = await server.task(ids.leased);
      const reply = await ask(server, route, ids, { caller });
      const why = `${route} by ${caller}`;
      if (typeof row.foreign === "number") assert.equal(reply.status, row.foreign, why);
      else assertRefused(reply, row.foreign, why);
      assert.equal(reply.text.includes("secret") || reply.text.includes("acme"), false, reply.text);
      const after = new Map([...(await server.dump())].filter(([key]) => ofAcme(key, ids)));
      assert.deepEqual(after, before, `${why} changed another tenant`);
      // Heartbeats are answered from memory, which the store does not show.
      assert.deepEqual(await server.task(ids.leased), lease);
    }
  });
}

/** Keys that the other tenant's own work cannot make: all but its new tasks. */
function ofAcme(key: string, ids: Ids): boolean {
  return key.includes("/acme/") || key.includes(ids.leased) || key.includes(ids.done);
}

for (const [route, { otherWorker }] of Object.entries(table)) {
  if (otherWorker === undefined) continue;
  test(`${route} by a worker of other tasks and event types changes nothing`, async (t) => {
    const [server, ids] = await populated(t);
    const call = () => ask(server, route, ids, { caller: "worker-render" });
    const why = `${route} by worker-render`;
    const lease = await server.task(ids.leased);
    assertRefused(await untouched(server, why, call), otherWorker as Refused, why);
    assert.deepEqual(await server.task(ids.leased), lease);
  });
}

test("a producer may work when the configuration says so, as itself and in its tenant", async (t) => {
  const server = await setup(t, { settings: { allowProducerAsWorker: true } });
  const id = await server.create();
  assert.equal(await server.claim({}, "producer-globex"), undefined);
  const task = await server.claim({}, "producer-acme");
  assert.equal(task.id, id);
  assert.equal(task.workerId, "shop");
  assert.equal((await server.complete(id, "producer-acme")).status, 200);
  assert.equal((await server.post("/tasks/claim", {}, "producer-upper-tenant")).status, 403);
});

test("a token is refused from the second it expires", async (t) => {
  const exp = startMs / 1000 + 1;
  const token = { token: "short-lived", subject: "shop", email: "", scopes: [], eventTypes: [] };
  const server = await setup(t, {
    settings: {
      producerAuth: [{ type: "static", tokens: [{ ...token, raw: { tenantId: "acme", exp } }] }],
    },
  });
  const ask = () =>
    server.ask("/v1/codeq/tasks/x", { headers: { authorization: "Bearer short-lived" } });
  assert.equal((await ask()).status, 404);
  await server.clock.advance(1000);
  assert.equal((await ask()).status, 401);
  assert.equal((await ask()).text, '{"error":"token is expired"}');
});
