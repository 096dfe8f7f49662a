/** Tokens of a real identity server, through everything that happens to its keys: contract 13, S7. */
import assert from "node:assert/strict";
import { join } from "node:path";
import test, { type TestContext } from "node:test";
import type { JwksProviderConfig } from "../../packages/server/src/config/settings.ts";
import { startServer, temporaryDirectory } from "../e2e/server-process.ts";
import { algorithms, type IdentityServer, startIdentityServer } from "./identity-server.ts";
import { type Reply, type RunningServer, setup as startApi, until } from "./setup.ts";

const workerScopes = "codeq:claim codeq:result";
const clients = [
  { id: "shop", claims: { tenantId: "acme" } },
  { id: "boss", claims: { tenantId: "acme", role: "ADMIN" } },
  { id: "worker-1", claims: { tenantId: "acme", eventTypes: ["render"] } },
];

const times = {
  clockSkewMs: 60_000,
  httpTimeoutMs: 5000,
  refreshMs: 300_000,
  staleMs: 3_600_000,
  refetchMs: 10_000,
};

interface Bench {
  readonly identity: IdentityServer;
  readonly server: RunningServer;
  readonly ask: (token: string, path: string, body?: unknown) => Promise<Reply>;
  /** Lets time pass, and waits for the fetch that is due then. */
  readonly refresh: (ms: number) => Promise<void>;
}

async function setup(t: TestContext): Promise<Bench> {
  const identity = await startIdentityServer(t, clients);
  const { issuer, jwksUrl } = identity;
  const jwks = (audience: string): JwksProviderConfig => ({
    type: "jwks",
    jwksUrl,
    issuer,
    audience,
    ...times,
  });
  const server = await startApi(t, {
    settings: { producerAuth: [jwks("codeq")], workerAuth: [jwks("codeq-worker")] },
  });
  // The tokens are of today.
  const { iat } = claimsOf(await identity.token("shop", "codeq"));
  server.clock.stepWall(iat * 1000 - server.clock.nowMs());
  const fetches = async () =>
    (await server.metric('codeq_jwks_fetches_total{outcome="success"}')) +
    (await server.metric('codeq_jwks_fetches_total{outcome="failure"}'));
  return {
    identity,
    server,
    ask: (token, path, body) =>
      server.ask(`/v1/codeq${path}`, {
        ...(body === undefined ? {} : { method: "POST", body }),
        headers: { authorization: `Bearer ${token}` },
      }),
    refresh: async (ms) => {
      const before = await fetches();
      await server.clock.advance(ms);
      await until(async () => (await fetches()) > before);
    },
  };
}

function claimsOf(token: string): { readonly iat: number; readonly exp: number } {
  return JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString());
}

const task = { command: "render", payload: 1 };

test("clients of an identity server produce, work and administer", async (t) => {
  const { identity, ask } = await setup(t);
  const shop = await identity.token("shop", "codeq");
  const worker = await identity.token("worker-1", "codeq-worker", workerScopes);
  const created = await ask(shop, "/tasks", task);
  assert.equal(created.status, 202, created.text);
  assert.equal(created.json.tenantId, "acme");
  const claimed = await ask(worker, "/tasks/claim", {});
  assert.deepEqual([claimed.json.id, claimed.json.workerId], [created.json.id, "worker-1"]);
  const { id } = claimed.json;
  assert.equal((await ask(worker, `/tasks/${id}/heartbeat`, {})).text, '{"error":"missing scope"}');
  const done = await ask(worker, `/tasks/${id}/result`, { status: "COMPLETED", result: {} });
  assert.equal(done.status, 200);
  assert.equal((await ask(shop, "/admin/queues")).status, 401);
  assert.equal((await ask(await identity.token("boss", "codeq"), "/admin/queues")).status, 200);
  const other = await identity.token("worker-1", "codeq-worker", "codeq:claim");
  const denied = await ask(other, "/tasks/claim", { commands: ["print"] });
  assert.equal(denied.text, '{"error":"event type not allowed"}');
});

for (const alg of algorithms) {
  test(`a key for ${alg} is found as soon as a token is signed with it`, async (t) => {
    const { identity, ask } = await setup(t);
    identity.addKey("next", alg);
    const reply = await ask(await identity.token("shop", "codeq"), "/tasks", task);
    assert.equal(reply.status, 202, reply.text);
  });
}

test("a token is for one audience", async (t) => {
  const { identity, ask } = await setup(t);
  const worker = await identity.token("worker-1", "codeq-worker", `${workerScopes} codeq:create`);
  assert.equal((await ask(worker, "/tasks", task)).text, '{"error":"invalid audience"}');
  const shop = await identity.token("shop", "codeq", workerScopes);
  assert.equal((await ask(shop, "/tasks/claim", {})).text, '{"error":"invalid audience"}');
});

test("S7: a token expires when its time and the leeway are over", async (t) => {
  const { identity, server, ask } = await setup(t);
  const shop = await identity.token("shop", "codeq");
  assert.equal((await ask(shop, "/tasks", task)).status, 202);
  await server.clock.advance(claimsOf(shop).exp * 1000 + 59_999 - server.clock.nowMs());
  assert.equal((await ask(shop, "/tasks", task)).status, 202);
  await server.clock.advance(1);
  assert.equal((await ask(shop, "/tasks", task)).text, '{"error":"token is expired"}');
});

test("S7: keys are rotated without a refusal, and a removed key takes its tokens along", async (t) => {
  const { identity, server, ask, refresh } = await setup(t);
  const old = await identity.token("shop", "codeq");
  assert.equal((await ask(old, "/tasks", task)).status, 202);
  identity.addKey("second");
  const young = await identity.token("shop", "codeq");
  assert.equal((await ask(young, "/tasks", task)).status, 202, "with the first token of a new key");
  assert.equal((await ask(old, "/tasks", task)).status, 202);
  identity.removeKey("first");
  assert.equal((await ask(old, "/tasks", task)).status, 202, "nobody has looked yet");
  await refresh(300_000);
  const before = await server.fingerprint();
  assert.equal((await ask(old, "/tasks", task)).text, '{"error":"invalid token"}');
  assert.equal(await server.fingerprint(), before);
  assert.equal((await ask(young, "/tasks", task)).status, 202);
});

test("S7: an outage of the identity server is survived, within its limit, and so is its end", async (t) => {
  const { identity, server, ask, refresh } = await setup(t);
  const known = await identity.token("shop", "codeq");
  const fresh = await identity.token("boss", "codeq");
  assert.equal((await ask(known, "/tasks", task)).status, 202);
  identity.addKey("second");
  const unseen = await identity.token("shop", "codeq");
  await identity.stop();
  await refresh(300_000);
  assert.equal((await ask(known, "/tasks", task)).status, 202, "a token that was seen before");
  assert.equal((await ask(fresh, "/tasks", task)).status, 202, "one that was not");
  const refused = await ask(unseen, "/tasks", task);
  assert.equal(refused.status, 503, "one whose key nobody could ask for");
  assert.equal(refused.headers["retry-after"], "1");
  await server.clock.advance(3_300_000);
  const late = await ask(known, "/tasks", task);
  assert.equal(late.status, 503, "the keys are too old");
  assert.match(late.json.error, /cannot be fetched; try again/);
  await identity.start();
  await refresh(10_000);
  for (const token of [known, fresh, unseen]) {
    assert.equal((await ask(token, "/tasks", task)).status, 202, "it is back");
  }
});

test("S7: a server that starts during an outage takes tokens as soon as it can check them", async (t) => {
  const { identity, server } = await setup(t);
  const shop = await identity.token("shop", "codeq");
  await identity.stop();
  const restarted = await server.restart();
  t.after(() => restarted.stop());
  const send = () =>
    restarted.ask("/v1/codeq/tasks", {
      method: "POST",
      body: task,
      headers: { authorization: `Bearer ${shop}` },
    });
  assert.equal((await send()).status, 503);
  await identity.start();
  await restarted.clock.advance(10_000);
  await until(async () => (await send()).status === 202);
});

test("a whole server with the older keys takes tokens of an identity server", async (t) => {
  const identity = await startIdentityServer(t, clients);
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  const { issuer, jwksUrl } = identity;
  const server = await startServer({
    dataDir: join(directory.path, "data"),
    env: {
      ENV: "prod",
      WEBHOOK_HMAC_SECRET: "long and random",
      IDENTITY_JWKS_URL: jwksUrl,
      IDENTITY_ISSUER: issuer,
      IDENTITY_AUDIENCE: "codeq",
      WORKER_JWKS_URL: jwksUrl,
      WORKER_ISSUER: issuer,
    },
  });
  t.after(() => server.kill());
  const send = (path: string, token: string, body: object) =>
    fetch(`${server.url}/v1/codeq${path}`, {
      method: "POST",
      body: JSON.stringify(body),
      headers: { authorization: `Bearer ${token}` },
    });
  const shop = await identity.token("shop", "codeq");
  const created = await send("/tasks", shop, task);
  assert.equal(created.status, 202, await created.text());
  const worker = await identity.token("worker-1", "codeq-worker", workerScopes);
  assert.equal((await send("/tasks/claim", worker, {})).status, 200);
  assert.equal((await send("/tasks", "dev-token", task)).status, 401);
});
