/** Sessions of the web console: what a browser sends unasked is never enough to do something. */
import assert from "node:assert/strict";
import test from "node:test";
import { settle } from "@codeq/simulated";
import { developmentToken } from "../../packages/server/src/config/auth/choose-auth.ts";
import { type RunningServer, setup } from "./setup.ts";

const session = "/ui/session";
const queues = "/v1/codeq/admin/queues";
const host = { host: "codeq.example:8080" };

/** Signs in; the cookie as the browser sends it back, and the second secret. */
async function signIn(server: RunningServer, token = "admin-acme", headers = {}) {
  const reply = await server.ask(session, {
    method: "POST",
    headers: { ...host, authorization: `Bearer ${token}`, ...headers },
  });
  assert.equal(reply.status, 200, reply.text);
  const set = String(reply.headers["set-cookie"]);
  return { set, cookie: set.split(";")[0] ?? "", csrf: String(reply.json.csrf), reply };
}

test("a session does what its token may do, and nothing else", async (t) => {
  const server = await setup(t);
  const { cookie, csrf, reply } = await signIn(server);
  assert.equal(reply.json.subject, "boss");
  assert.equal(reply.json.tenantId, "acme");
  assert.equal(reply.json.role, "admin");
  const headers = { ...host, cookie, "x-codeq-csrf": csrf };
  assert.equal((await server.ask(queues, { headers })).status, 200);
  const paused = await server.ask(`${queues}/render/pause`, { method: "POST", headers, body: {} });
  assert.equal(paused.json.by, "boss");
  const other = await server.ask(`${queues}?tenant=globex`, { headers });
  assert.equal(other.status, 403);
});

test("the cookie is out of reach for scripts and for other sites", async (t) => {
  const server = await setup(t);
  const { set } = await signIn(server);
  assert.match(
    set,
    /^codeq-session-8080=[\w-]+; Path=\/; HttpOnly; SameSite=Strict; Max-Age=43200$/,
  );
  const behindTls = await signIn(server, "admin-acme", { "x-forwarded-proto": "https" });
  assert.match(behindTls.set, /; Secure$/);
});

test("CSRF: the cookie alone counts for nothing, whatever is asked", async (t) => {
  const server = await setup(t);
  const { cookie, csrf } = await signIn(server);
  const other = await signIn(server);
  for (const method of ["GET", "POST"]) {
    const path = method === "GET" ? queues : `${queues}/render/pause`;
    for (const wrong of [{}, { "x-codeq-csrf": "" }, { "x-codeq-csrf": other.csrf }]) {
      const headers = { ...host, cookie, ...wrong };
      assert.equal((await server.ask(path, { method, headers })).status, 401, method);
    }
  }
  const unasked = await server.ask(session, { method: "DELETE", headers: { ...host, cookie } });
  assert.equal(unasked.status, 401);
  const asked = { ...host, cookie, "x-codeq-csrf": csrf };
  assert.equal((await server.ask(queues, { headers: asked })).status, 200);
});

test("fixation: signing in makes another session, and a cookie from elsewhere is none", async (t) => {
  const server = await setup(t);
  const planted = await signIn(server, "admin-globex");
  const own = await signIn(server, "admin-acme", { cookie: planted.cookie });
  assert.notEqual(own.cookie, planted.cookie);
  assert.equal(own.reply.json.tenantId, "acme");
  const stranger = await setup(t, { seed: 2 });
  const headers = { ...host, cookie: own.cookie, "x-codeq-csrf": own.csrf };
  assert.equal((await stranger.ask(queues, { headers })).status, 401);
  assert.equal((await stranger.ask(session, { headers })).status, 401);
});

test("a token in the URL is not looked at", async (t) => {
  const server = await setup(t);
  for (const path of [`${queues}?token=admin-acme`, `${queues}?access_token=admin-acme`]) {
    assert.equal((await server.ask(path, { headers: host })).status, 401);
  }
  const reply = await server.ask(`${session}?token=admin-acme`, { method: "POST", headers: host });
  assert.equal(reply.status, 401);
  assert.equal(reply.headers["set-cookie"], undefined);
});

test("after signing out the session is over, also for a copy of its cookie", async (t) => {
  const server = await setup(t);
  const { cookie, csrf } = await signIn(server);
  const headers = { ...host, cookie, "x-codeq-csrf": csrf };
  const reply = await server.ask(session, { method: "DELETE", headers });
  assert.equal(reply.status, 204);
  assert.match(String(reply.headers["set-cookie"]), /^codeq-session-8080=; .*Max-Age=0/);
  assert.equal((await server.ask(queues, { headers })).status, 401);
  assert.equal((await server.ask(session, { headers })).status, 401);
});

test("a revoked API key ends its sessions", async (t) => {
  const server = await setup(t);
  const key = await server.post("/admin/keys", { name: "console", role: "admin" }, "admin-acme");
  const { cookie, csrf } = await signIn(server, key.json.token);
  const headers = { ...host, cookie, "x-codeq-csrf": csrf };
  assert.equal((await server.ask(queues, { headers })).status, 200);
  await server.ask(`/v1/codeq/admin/keys/${key.json.id}`, {
    method: "DELETE",
    caller: "admin-acme",
  });
  assert.equal((await server.ask(queues, { headers })).status, 401);
  assert.equal((await server.ask(session, { headers })).status, 401);
});

test("only admins get a session, and who is refused is recorded", async (t) => {
  const server = await setup(t);
  const codes = {
    "producer-acme": "admin_only",
    "worker-acme": "invalid_token",
    nobody: "invalid_token",
  };
  for (const [token, code] of Object.entries(codes)) {
    const headers = { ...host, authorization: `Bearer ${token}` };
    const reply = await server.ask(session, { method: "POST", headers });
    assert.equal(reply.status, 401, token);
    assert.equal(reply.headers["codeq-error"], code, token);
    assert.equal(reply.headers["set-cookie"], undefined);
  }
  await server.clock.advance(1000);
  await settle();
  const { records } = (await server.ask("/v1/codeq/admin/audit?tenant=*", { caller: "operator" }))
    .json;
  const refused = records.filter(({ action }: { action: string }) => action === "sign_in");
  assert.ok(refused.length > 0, JSON.stringify(records));
});

test("a token that does not fit into a cookie is refused with what to do", async (t) => {
  const server = await setup(t, {
    settings: { producerAuth: [{ type: "static", tokens: [longToken] }] },
  });
  const headers = { ...host, authorization: `Bearer ${longToken.token}` };
  const reply = await server.ask(session, { method: "POST", headers });
  assert.equal(reply.status, 400);
  assert.match(reply.json.error, /sign in with an API key/);
});

const longToken = {
  token: "x".repeat(3000),
  subject: "boss",
  email: "",
  scopes: [],
  eventTypes: [],
  raw: { role: "admin", tenantId: "acme" },
};

test("a server for development lets callers on this machine in unasked, and nobody else", async (t) => {
  const settings = {
    env: "dev",
    producerAuth: [
      { type: "static" as const, tokens: [{ ...longToken, token: developmentToken }] },
    ],
  };
  const server = await setup(t, { settings });
  for (const name of ["localhost:8080", "127.0.0.1:8080", "[::1]:8080"]) {
    const reply = await server.ask(session, { headers: { host: name } });
    assert.equal(reply.status, 200, name);
    assert.match(String(reply.headers["set-cookie"]), /HttpOnly/);
  }
  const others = [
    { host: "codeq.example:8080" },
    { host: "localhost.attacker.example" },
    { host: "localhost:8080", "x-forwarded-for": "203.0.113.7" },
    { host: "localhost:8080", forwarded: "for=203.0.113.7" },
    { host: "localhost:8080", "sec-fetch-site": "cross-site" },
  ];
  for (const headers of others) {
    const reply = await server.ask(session, { headers });
    assert.equal(reply.status, 401, JSON.stringify(headers));
    assert.equal(reply.headers["set-cookie"], undefined);
  }
  const production = await setup(t, { settings: { ...settings, env: "prod" } });
  assert.equal((await production.ask(session, { headers: { host: "localhost" } })).status, 401);
});

test("without the console there are no pages and no sessions", async (t) => {
  const server = await setup(t, { settings: { console: false } });
  assert.equal((await server.ask("/", {})).status, 404);
  const headers = { ...host, authorization: "Bearer admin-acme" };
  assert.equal((await server.ask(session, { method: "POST", headers })).status, 404);
});
