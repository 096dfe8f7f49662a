/** Contract 13, S8: a stream ends with the token that opened it. */
import assert from "node:assert/strict";
import test, { type TestContext } from "node:test";
import { SimIssuer } from "@codeq/simulated";
import type { JwksProviderConfig } from "../../packages/server/src/config/settings.ts";
import { startMs, until } from "../contract/setup.ts";
import { type Server, setup as startServer } from "./setup.ts";

const refreshMs = 60_000;
const jwks = (audience: string): JwksProviderConfig => ({
  type: "jwks",
  jwksUrl: "https://id.example.com/keys",
  issuer: "https://id.example.com",
  audience,
  clockSkewMs: 0,
  httpTimeoutMs: 5000,
  refreshMs,
  staleMs: 3_600_000,
  refetchMs: 10_000,
});
const end = { code: "UNAUTHENTICATED", details: "token was revoked" };

interface Bench {
  readonly server: Server;
  readonly issuer: SimIssuer;
  /** Whether the identity server answers. */
  readonly identity: { isUp: boolean };
  readonly worker: (kid: string) => string;
  readonly producer: (kid: string) => string;
}

async function setup(t: TestContext): Promise<Bench> {
  const issuer = new SimIssuer().addKey("one").addKey("two");
  const identity = { isUp: true };
  const server = await startServer(t, {
    settings: { producerAuth: [jwks("codeq")], workerAuth: [jwks("codeq-worker")] },
    fetchKeySet: async () => {
      if (!identity.isUp) throw new Error("connection refused");
      return issuer.keySet();
    },
  });
  // The keys are there when the first stream comes, and the next fetch is an interval away.
  await server.pass(1);
  const claims = { sub: "w", tenantId: "acme", exp: startMs / 1000 + 86_400, eventTypes: ["*"] };
  const scope = "codeq:claim codeq:nack codeq:create";
  return {
    server,
    issuer,
    identity,
    worker: (kid) => issuer.token({ ...claims, aud: "codeq-worker", scope }, { kid }),
    producer: (kid) => issuer.token({ ...claims, aud: "codeq", scope }, { kid }),
  };
}

test("S8: streams end at the moment at which the key of their token is found to be gone", async (t) => {
  const { server, issuer, worker, producer } = await setup(t);
  const revoked = [await server.worker(worker("one")), await server.producer(producer("one"))];
  const lasting = [await server.worker(worker("two")), await server.producer(producer("two"))];
  issuer.removeKey("one");
  await server.pass(refreshMs - 2);
  for (const call of [...revoked, ...lasting]) await call.expectSilence();
  await server.pass(1);
  for (const call of revoked) assert.deepEqual(await call.ended, end);
  for (const call of lasting) await call.expectSilence();
});

test("S8: a revoked stream takes nothing more and gets no task", async (t) => {
  const { server, issuer, worker, producer } = await setup(t);
  const tokens = [worker("one"), producer("one")] as const;
  const workers = await server.worker(tokens[0]);
  const producers = await server.producer(tokens[1]);
  workers.send({ ready: { commands: ["render"] } });
  await server.untilWaiting(1);
  issuer.removeKey("one");
  await server.pass(refreshMs);
  producers.send({ create: { seq: 1, command: "render" } });
  assert.deepEqual([await workers.ended, await producers.ended], [end, end]);
  assert.deepEqual([workers.unread, producers.unread], [[], []]);
  await server.untilWaiting(0);
  assert.equal(server.readyNow(), 0, "nothing was created");
  const next = await server.producer(producer("two"));
  const { createAck } = await next.ask({ create: { seq: 1, command: "render" } });
  assert.equal(createAck.ok, true);
  assert.equal(server.readyNow(), 1, "nobody took it");
  for (const [kind, token] of [
    ["worker", tokens[0]],
    ["producer", tokens[1]],
  ] as const) {
    const again = server.open(kind);
    again.send({ hello: { token } });
    const details = "auth failed: invalid token";
    assert.deepEqual(await again.ended, { code: "UNAUTHENTICATED", details });
  }
});

test("S8: streams go on while the identity server is down, as long as its keys may be used", async (t) => {
  const { server, identity, worker } = await setup(t);
  const call = await server.worker(worker("one"));
  identity.isUp = false;
  await server.pass(3_590_000);
  await call.expectSilence();
  await server.pass(20_000);
  assert.deepEqual(await call.ended, end);
  const next = server.open("worker");
  next.send({ hello: { token: worker("one") } });
  assert.deepEqual(await next.ended, {
    code: "UNAVAILABLE",
    details: "the keys to verify tokens cannot be fetched; try again",
  });
});

test("S8: streams that have ended by themselves are forgotten", async (t) => {
  const { server, worker } = await setup(t);
  let watched = 0;
  const { revocations } = server.api.core;
  const watch = revocations.watch.bind(revocations);
  revocations.watch = (identity, onRevoked) => {
    watched += 1;
    const stop = watch(identity, onRevoked);
    return () => {
      watched -= 1;
      stop();
    };
  };
  const calls = [await server.worker(worker("one")), await server.worker(worker("two"))];
  assert.equal(watched, 2);
  for (const call of calls) call.close();
  await until(() => watched === 0);
});
