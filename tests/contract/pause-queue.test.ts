/** Pausing and resuming a queue. */
import assert from "node:assert/strict";
import test from "node:test";
import { type Reply, type RunningServer, setup } from "./setup.ts";

const halt = (server: RunningServer, command: string, body?: unknown): Promise<Reply> =>
  server.post(`/admin/queues/${command}/pause`, body, "admin-acme");
const resume = (server: RunningServer, command: string): Promise<Reply> =>
  server.post(`/admin/queues/${command}/resume`, undefined, "admin-acme");

test("claims pass a paused queue over, and producers notice nothing", async (t) => {
  const server = await setup(t);
  const first = await server.create({ command: "Mail", priority: 9 });
  const reply = await halt(server, "mail", { reason: "the provider is down" });
  assert.equal(reply.status, 200, reply.text);
  assert.deepEqual(reply.json, {
    command: "mail",
    by: "boss",
    at: "2026-01-02T03:04:05.12Z",
    reason: "the provider is down",
  });
  const second = await server.create({ command: "mail" });
  const other = await server.create({ command: "other" });
  assert.equal((await server.claim({})).id, other);
  assert.equal(await server.claim({}), undefined);
  assert.equal(await server.claim({ commands: ["MAIL"] }), undefined);
  const stats = await server.stats("MAIL");
  assert.deepEqual([stats.ready, stats.paused.reason], [2, "the provider is down"]);
  const { pauses } = (await server.get("/admin/pauses", "admin-acme")).json;
  assert.deepEqual(pauses, [reply.json]);
  assert.deepEqual((await resume(server, "Mail")).json, { command: "mail", paused: false });
  assert.equal((await server.stats("mail")).paused, undefined);
  assert.equal((await server.claim({})).id, first);
  assert.equal((await server.claim({})).id, second);
});

test("a claim that waits is served when the queue is resumed", async (t) => {
  const server = await setup(t);
  await halt(server, "mail");
  const waiting = server.claim({ commands: ["mail"], waitSeconds: 10 });
  await server.untilWaiting(1);
  const id = await server.create({ command: "mail" });
  await server.untilWaiting(1);
  await resume(server, "mail");
  assert.equal((await waiting).id, id);
});

test("what a worker has goes on, and what comes back waits", async (t) => {
  const server = await setup(t);
  const done = await server.leased({ command: "mail" });
  const back = await server.leased({ command: "mail" });
  await halt(server, "mail");
  assert.equal((await server.complete(done)).status, 200);
  await server.post(`/tasks/${back}/abandon`, {}, "worker-acme");
  assert.equal(await server.claim({}), undefined);
  assert.equal((await server.stats("mail")).ready, 1);
});

test("a pause survives a power failure, and is of one tenant", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  await server.create({ command: "mail" });
  await halt(server, "mail");
  const foreign = await server.create({ command: "mail" }, "producer-globex");
  server.world.crash("power");
  const next = await server.world.start();
  t.after(() => next.stop());
  assert.equal(await next.claim({}), undefined);
  assert.equal((await next.claim({}, "worker-globex")).id, foreign);
  assert.equal((await next.stats("mail")).paused.by, "boss");
  await resume(next, "mail");
  assert.notEqual(await next.claim({}), undefined);
});

test("what cannot be paused is refused", async (t) => {
  const server = await setup(t);
  const bad = await halt(server, "a%2Fb");
  assert.deepEqual([bad.status, bad.headers["codeq-error"]], [400, "invalid_command"]);
  for (const body of [{ why: "x" }, { reason: 1 }, "[]", "x"]) {
    const reply = await halt(server, "mail", body);
    assert.equal(reply.status, 400);
    assert.match(reply.json.error, /^invalid body: /);
  }
  const long = await halt(server, "mail", { reason: "x".repeat(4097) });
  assert.equal(long.status, 400);
  assert.deepEqual((await server.get("/admin/pauses", "admin-acme")).json, { pauses: [] });
});

test("a tenant pauses a bounded number of queues", async (t) => {
  const server = await setup(t);
  const all = Array.from({ length: 1000 }, (_, n) => halt(server, `q${n}`));
  for (const { status } of await Promise.all(all)) assert.equal(status, 200);
  const more = await halt(server, "one-more");
  assert.deepEqual([more.status, more.headers["codeq-error"]], [409, "too_many_pauses"]);
  assert.equal((await halt(server, "q7", { reason: "again" })).status, 200);
});
