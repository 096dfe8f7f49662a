/** What administrators do, where the tasks of a tenant are in several shards. */
import assert from "node:assert/strict";
import test, { type TestContext } from "node:test";
import { noQuotas } from "../../packages/server/src/config/quotas.ts";
import type { Config } from "../../packages/server/src/config/settings.ts";
import { type RunningServer, setup } from "./setup.ts";

function open(t: TestContext, settings: Partial<Config> = {}): Promise<RunningServer> {
  return setup(t, {
    storage: "files",
    settings: { shards: 3, persistenceProvider: "memory", ...settings },
  });
}

test("pages are put together from all shards, in order and without gaps", async (t) => {
  const server = await open(t);
  const ids: string[] = [];
  for (let n = 0; n < 30; n++) ids.push(await server.create());
  ids.sort();
  for (const order of ["oldest", "newest"]) {
    const seen: string[] = [];
    for (let after: string | undefined = ""; after !== undefined; ) {
      const query = `order=${order}&limit=7&after=${after}`;
      const { json } = await server.get(`/admin/tasks?${query}`, "admin-acme");
      seen.push(...json.tasks.map(({ id }: { id: string }) => id));
      after = json.next;
    }
    assert.deepEqual(seen, order === "oldest" ? ids : ids.toReversed());
  }
  const { json } = await server.get("/admin/tasks?place=ready&limit=1", "admin-acme");
  assert.equal(json.total, 30);
});

test("a queue is paused in all shards, and resumed in all of them", async (t) => {
  const server = await open(t);
  for (let n = 0; n < 9; n++) await server.create({ command: "mail" });
  await server.post("/admin/queues/mail/pause", undefined, "admin-acme");
  assert.equal(await server.claim({}), undefined);
  const { pauses } = (await server.get("/admin/pauses", "admin-acme")).json;
  assert.deepEqual([pauses.length, pauses[0].by], [1, "boss"]);
  const waiting = server.claim({ waitSeconds: 10 });
  await server.post("/admin/queues/mail/resume", undefined, "admin-acme");
  assert.notEqual(await waiting, undefined);
  for (let n = 0; n < 8; n++) assert.notEqual(await server.claim({}), undefined);
});

test("a task is cancelled in its shard, and its worker hears of it there", async (t) => {
  const server = await open(t);
  const waiting = await server.create({ command: "other" });
  const running = await server.leased();
  for (const id of [waiting, running]) {
    const reply = await server.post(`/tasks/${id}/cancel`, { graceSeconds: 5 }, "producer-acme");
    assert.equal(reply.status, 200, reply.text);
  }
  assert.equal((await server.task(waiting)).error, "CANCELLED");
  const beat = await server.post(`/tasks/${running}/heartbeat`, {}, "worker-acme");
  assert.equal(beat.text, '{"ok":true,"cancelled":true}');
});

test("a task is edited in its shard, and whoever waits for its new queue gets it", async (t) => {
  const server = await open(t);
  for (let n = 0; n < 6; n++) {
    const id = await server.create({ delaySeconds: 600 });
    const waiting = server.claim({ commands: [`print-${n}`], waitSeconds: 5 });
    await server.untilWaiting(1);
    const body = { command: `print-${n}`, delaySeconds: 0, payload: { n } };
    const path = `/v1/codeq/admin/tasks/${id}`;
    const reply = await server.ask(path, { method: "PATCH", caller: "admin-acme", body });
    assert.equal(reply.status, 200, reply.text);
    const claimed = await waiting;
    assert.deepEqual([claimed?.id, claimed?.payload], [id, `{"n":${n}}`]);
  }
  assert.equal((await server.stats()).delayed, 0);
});

test("what is ahead of a task is told over all shards, as far as it can be", async (t) => {
  const server = await open(t);
  for (let n = 0; n < 9; n++) await server.create();
  for (let n = 0; n < 3; n++) await server.create({ priority: 5 });
  const last = await server.create();
  const { ahead, queue, rule } = (await server.get(`/tasks/${last}/explain`)).json;
  assert.deepEqual([rule, queue.ready, ahead.higher], ["no_worker", 13, 3]);
  assert.ok(ahead.isEstimate && ahead.older > 0 && ahead.older <= 9);
  await server.post("/admin/queues/render/pause", {}, "admin-acme");
  assert.equal((await server.get(`/tasks/${last}/explain`)).json.rule, "paused");
});

test("dead letters of all shards are replayed and deleted, within the quota", async (t) => {
  const quotas = { ...noQuotas, default: { ...noQuotas.default, pendingTasks: 4 } };
  const server = await open(t, { quotas });
  const ids: string[] = [];
  for (let n = 0; n < 9; n++) ids.push(await server.buried());
  const bulk = (verb: string, body: object) =>
    server.post(`/admin/dead-letters/${verb}`, body, "admin-acme");
  const replayed = (await bulk("replay", { command: "render" })).json;
  assert.deepEqual([replayed.replayed, replayed.failed.length], [4, 5]);
  assert.deepEqual((await bulk("delete", { all: true })).json, {
    deleted: 5,
    matched: 5,
    failed: [],
    hasMore: false,
  });
  const { json } = await server.get("/admin/tasks", "admin-acme");
  assert.equal(json.tasks.length, 4);
  const [{ id }] = json.tasks;
  const one = await server.get(`/admin/tasks/${id.slice(-8)}`, "admin-acme");
  assert.equal(one.json.task.id, id);
  const again = await server.post(`/admin/tasks/${id}/replay`, undefined, "admin-acme");
  assert.equal(again.headers["codeq-error"], "quota_exceeded");
});
