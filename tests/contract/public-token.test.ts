/** Tokens for browsers: what they show, what they refuse, and what pages of other sites may ask. */
import assert from "node:assert/strict";
import test from "node:test";
import { limits } from "@codeq/protocol";
import { routes } from "../../packages/server/src/start/features.ts";
import { type Reply, type RunningServer, setup, until } from "./setup.ts";

const day = 86_400;

async function publicToken(server: RunningServer, id: string, body?: object): Promise<string> {
  const reply = await server.post(`/tasks/${id}/public-token`, body, "producer-acme");
  assert.equal(reply.status, 201, reply.text);
  return reply.json.token;
}

function watch(server: RunningServer, id: string, token: string): Promise<Reply> {
  const headers = { authorization: `Bearer ${token}` };
  return server.ask(`/v1/codeq/tasks/${id}/events`, { headers });
}

// biome-ignore lint/suspicious/noExplicitAny: events as they are on the wire.
function eventsIn({ text }: Reply): any[] {
  return [...text.matchAll(/^data: (.*)$/gm)].map(([, data = ""]) => JSON.parse(data));
}

test("a browser sees progress, log and result of the task, and nothing that is not for it", async (t) => {
  const server = await setup(t);
  const id = await server.create({
    payload: { secret: 1 },
    webhook: "https://hidden.example/hook",
    tags: ["hidden"],
    idempotencyKey: "hidden",
    maxAttempts: 2,
  });
  const token = await publicToken(server, id);
  await server.claim();
  const nack = { reason: "not yet", stack: "at hidden.ts:1" };
  await server.post(`/tasks/${id}/nack`, nack, "worker-acme");
  await server.clock.advance(600_000);
  const watched = watch(server, id, token);
  await until(() => server.core.feed.isHeard);
  await server.claim();
  const said = { progress: { percent: 40, text: "pages" }, logs: ["began"] };
  await server.post(`/tasks/${id}/heartbeat`, said, "worker-acme");
  const result = { status: "COMPLETED", result: { pages: 7 } };
  await server.post(`/tasks/${id}/result`, result, "worker-acme");
  const reply = await watched;
  assert.equal(reply.headers["access-control-allow-origin"], "*");
  const told = eventsIn(reply);
  assert.deepEqual(
    told.map(({ event, status }) => event ?? status),
    ["PENDING", "claimed", "progress", "log", "completed", "result"],
  );
  const [first, claimed, progress, log] = told;
  assert.deepEqual(Object.keys(first), ["id", "command", "status", "createdAt", "updatedAt"]);
  assert.deepEqual(Object.keys(claimed), ["event", "time", "taskId", "command", "attempt"]);
  assert.deepEqual([progress.percent, progress.text, log.lines], [40, "pages", ["began"]]);
  assert.deepEqual(told.at(-1).result, { pages: 7 });
  assert.doesNotMatch(reply.text, /secret|hidden|worker|acme/);
  const after = await watch(server, id, token);
  assert.deepEqual(eventsIn(after)[0].progress.percent, 40);
  assert.equal(eventsIn(after).at(-1).event, "result");
});

test("the token opens one task, and no other door", async (t) => {
  const server = await setup(t);
  const id = await server.create();
  const other = await server.create();
  const token = await publicToken(server, id);
  assert.equal((await watch(server, other, token)).text, '{"error":"not found"}');
  const doors = routes.filter(({ name }) => name !== "watchTask");
  assert.ok(doors.length > 80);
  const headers = { authorization: `Bearer ${token}`, "x-role": "ADMIN" };
  for (const { method, path } of doors) {
    const url = path.replace(":id", id).replaceAll(/:\w+/g, "x");
    const reply = await server.ask(url, { method, headers });
    assert.equal(reply.status, 401, `${method} ${path}: ${reply.text}`);
  }
});

test("the token ends with its time, with the token of its caller, and with the API key", async (t) => {
  const server = await setup(t);
  const id = await server.create();
  const short = await publicToken(server, id, { seconds: 60 });
  const usual = await publicToken(server, id);
  const key = { name: "shop", scopes: ["codeq:create"], expiresInSeconds: 600 };
  const { id: keyId, token: caller } = (await server.post("/admin/keys", key, "admin-acme")).json;
  const asked = { method: "POST", caller, body: { seconds: day } };
  const made = await server.ask(`/v1/codeq/tasks/${id}/public-token`, asked);
  assert.equal(made.status, 201, made.text);
  const expiresMs = Date.parse(made.json.expiresAt) - server.clock.nowMs();
  assert.ok(expiresMs <= 600_000 && expiresMs > 598_000, made.text);
  const isWatched = (): boolean => server.core.feed.isHeard;
  const begun = async (): Promise<void> => {
    await until(isWatched);
    // The watch reads the task first. A shard answers in order.
    await server.get(`/tasks/${id}`);
  };
  const watched = watch(server, id, short);
  await begun();
  await server.clock.advance(60_000);
  assert.equal(eventsIn(await watched).at(-1).code, "token_expired");
  assert.equal((await watch(server, id, short)).text, '{"error":"token is expired"}');
  // Otherwise the last watch could be taken for the next one.
  await until(() => !isWatched());
  const revoked = watch(server, id, made.json.token);
  await begun();
  await server.ask(`/v1/codeq/admin/keys/${keyId}`, { method: "DELETE", caller: "admin-acme" });
  assert.equal(eventsIn(await revoked).at(-1).code, "token_revoked");
  await until(() => !isWatched());
  assert.equal((await watch(server, id, made.json.token)).status, 401);
  await server.clock.advance(3_539_000);
  const still = server.ask(`/v1/codeq/tasks/${id}/events`, {
    headers: { authorization: `Bearer ${usual}` },
  });
  await begun();
  await server.clock.advance(1000);
  assert.equal(eventsIn(await still).at(-1).code, "token_expired");
});

test("browsers have feeds of their own: they take none of the tenant's, and few watch one task", async (t) => {
  const server = await setup(t);
  const id = await server.create();
  const token = await publicToken(server, id);
  const watched = Array.from({ length: limits.publicFeedsPerTaskMax }, () =>
    watch(server, id, token),
  );
  await until(() => server.core.feed.browsers === limits.publicFeedsPerTaskMax);
  assert.equal((await watch(server, id, token)).status, 429);
  assert.equal(server.core.feed.size, 0);
  assert.equal(await server.metric("codeq_feeds_open"), limits.publicFeedsPerTaskMax);
  const other = await server.create();
  const another = watch(server, other, await publicToken(server, other));
  await until(() => server.core.feed.browsers === limits.publicFeedsPerTaskMax + 1);
  for (const task of [await server.claim(), await server.claim()]) {
    await server.post(
      `/tasks/${task.id}/result`,
      { status: "COMPLETED", result: {} },
      "worker-acme",
    );
  }
  for (const each of [...watched, another]) {
    assert.equal(eventsIn(await each).at(-1).status, "COMPLETED");
  }
  await until(() => server.core.feed.browsers === 0);
});

test("a token that was changed, and one of another server, is refused", async (t) => {
  const server = await setup(t);
  const other = await setup(t, { settings: { consoleSecret: "another secret of 32 characters." } });
  const id = await server.create();
  const token = await publicToken(server, id);
  const at = 20;
  const changed = token.slice(0, at) + (token[at] === "A" ? "B" : "A") + token.slice(at + 1);
  const foreign = await publicToken(other, await other.create());
  for (const each of [changed, foreign, "cqp_", "cqp_AAAA", `${token}.`.slice(0, 30)]) {
    const reply = await watch(server, id, each);
    assert.equal(reply.text, '{"error":"invalid token"}', each);
    assert.equal(reply.headers["access-control-allow-origin"], "*");
  }
});

test("its length has bounds, and the task has to be there", async (t) => {
  const server = await setup(t);
  const id = await server.create();
  for (const seconds of [0, day + 1, "1h"]) {
    const reply = await server.post(`/tasks/${id}/public-token`, { seconds }, "producer-acme");
    assert.equal(reply.status, 400, reply.text);
  }
  const foreign = await server.post(`/tasks/${id}/public-token`, {}, "producer-globex");
  assert.equal(foreign.status, 404);
});

test("pages of other sites may ask for the events of a task, and for nothing else", async (t) => {
  const server = await setup(t);
  const id = await server.create();
  const headers = {
    origin: "https://shop.example",
    "access-control-request-method": "GET",
    "access-control-request-headers": "authorization",
  };
  const preflight = (url: string) => server.app.inject({ method: "OPTIONS", url, headers });
  const allowed = await preflight(`/v1/codeq/tasks/${id}/events`);
  assert.equal(allowed.statusCode, 204);
  assert.equal(allowed.headers["access-control-allow-origin"], "*");
  assert.equal(allowed.headers["access-control-allow-methods"], "GET");
  assert.match(String(allowed.headers["access-control-allow-headers"]), /authorization/);
  assert.equal(allowed.headers["access-control-allow-credentials"], undefined);
  for (const { path, name } of routes) {
    if (name === "watchTask") continue;
    const reply = await preflight(path.replace(":id", id).replaceAll(/:\w+/g, "x"));
    assert.equal(reply.headers["access-control-allow-origin"], undefined, path);
  }
  const other = await server.ask(`/v1/codeq/tasks/${id}`, { headers, caller: "producer-acme" });
  assert.equal(other.headers["access-control-allow-origin"], undefined);
});
