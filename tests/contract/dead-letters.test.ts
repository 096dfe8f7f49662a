/** What operators do about dead letters: look, replay, delete. */
import assert from "node:assert/strict";
import test from "node:test";
import { noQuotas } from "../../packages/server/src/config/quotas.ts";
import { onlyWith, type Reply, type RunningServer, setup, until } from "./setup.ts";

const replay = (server: RunningServer, id: string): Promise<Reply> =>
  server.post(`/admin/tasks/${id}/replay`, undefined, "admin-acme");
const bulk = (server: RunningServer, verb: "replay" | "delete", body: object): Promise<Reply> =>
  server.post(`/admin/dead-letters/${verb}`, body, "admin-acme");
const remove = (server: RunningServer, id: string): Promise<Reply> =>
  server.ask(`/v1/codeq/admin/tasks/${id}`, { method: "DELETE", caller: "admin-acme" });

test("a dead letter is shown with its payload, error, attempts and result", async (t) => {
  const server = await setup(t);
  const id = await server.buried({ payload: { to: "ada" } });
  const { task, result } = (await server.get(`/admin/tasks/${id}`, "admin-acme")).json;
  assert.equal(task.payload, '{"to":"ada"}');
  assert.deepEqual([task.place, task.error, task.attempts], ["dead", "broken", 1]);
  assert.deepEqual([result.status, result.error], ["FAILED", "broken"]);
});

test("a replayed dead letter keeps its id and gets all its attempts again", async (t) => {
  const server = await setup(t);
  const id = await server.buried();
  const reply = await replay(server, id.slice(-8));
  assert.equal(reply.status, 200, reply.text);
  const { task } = reply.json;
  assert.deepEqual([task.id, task.place, task.replays], [id, "ready", 1]);
  assert.equal(task.attempts, undefined);
  assert.deepEqual(await server.stats(), {
    command: "render",
    ready: 1,
    delayed: 0,
    inProgress: 0,
    dlq: 0,
    failed: 0,
  });
  assert.equal((await server.get(`/tasks/${id}/result`)).status, 404);
  const claimed = await server.claim();
  assert.equal(claimed.id, id);
  assert.equal(claimed.leaseToken, 2);
  await server.complete(id);
  const { result } = (await server.get(`/tasks/${id}/result`)).json;
  assert.deepEqual([result.status, result.error], ["COMPLETED", undefined]);
  assert.equal((await server.task(id)).replays, 1);
});

test("a claim that waits gets a replayed task, and a waiting reader hears of its new end", async (t) => {
  const server = await setup(t);
  const id = await server.buried();
  const waiting = server.claim({ waitSeconds: 10 });
  await server.untilWaiting(1);
  await replay(server, id);
  assert.equal((await waiting).id, id);
  const reading = server.get(`/tasks/${id}/result?waitSeconds=10`);
  await server.untilWaiting(1, "results");
  await server.complete(id);
  assert.equal((await reading).json.result.status, "COMPLETED");
});

test("a replay survives a crash, and the task can die and be replayed again", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  const id = await server.buried();
  await replay(server, id);
  server.world.crash("power");
  const next = await server.world.start();
  t.after(() => next.stop());
  const task = await next.task(id);
  assert.deepEqual([task.status, task.replays], ["PENDING", 1]);
  assert.equal((await next.claim()).id, id);
  await next.post(`/tasks/${id}/nack`, { reason: "again" }, "worker-acme");
  assert.equal((await next.task(id)).error, "again");
  assert.equal((await replay(next, id)).json.task.replays, 2);
});

test("what is not dead is not replayed, and what has not ended is not deleted", async (t) => {
  const server = await setup(t);
  const ready = await server.create();
  const done = await server.leased({ command: "other" });
  await server.complete(done);
  for (const id of [ready, done]) {
    const refused = await replay(server, id);
    assert.equal(refused.status, 409);
    assert.equal(refused.headers["codeq-error"], "not_failed");
  }
  const kept = await remove(server, ready);
  assert.equal(kept.status, 409);
  assert.equal(kept.headers["codeq-error"], "not_ended");
  assert.equal((await remove(server, done)).status, 204);
  assert.equal((await server.get(`/tasks/${done}`)).status, 404);
  assert.equal((await remove(server, done)).status, 404);
  assert.equal((await replay(server, done)).status, 404);
});

test("many are replayed by their ids, and those that are not dead are told", async (t) => {
  const server = await setup(t);
  const ids = [await server.buried(), await server.buried()];
  const ready = await server.create({ command: "other" });
  const unknown = "01890a5d-ac96-774b-bcce-b302099a8057";
  const reply = await bulk(server, "replay", { ids: [...ids, ready, unknown, "zz"] });
  assert.deepEqual(reply.json, {
    replayed: 2,
    matched: 2,
    failed: [
      { id: "zz", code: "invalid_argument" },
      { id: ready, code: "not_failed" },
      { id: unknown, code: "not_found" },
    ],
    hasMore: false,
  });
});

test("those that match a filter are replayed, a bounded number at a time", async (t) => {
  const server = await setup(t);
  for (let n = 0; n < 5; n++) await server.buried({ command: "mail" });
  const other = await server.buried({ command: "other" });
  const dry = await bulk(server, "replay", { command: "mail", dryRun: true });
  assert.deepEqual(dry.json, { replayed: 0, matched: 5, failed: [], hasMore: false });
  const some = await bulk(server, "replay", { command: "MAIL", error: "brok", limit: 3 });
  assert.deepEqual(some.json, { replayed: 3, matched: 3, failed: [], hasMore: true });
  const rest = await bulk(server, "replay", { command: "mail", limit: 3 });
  assert.deepEqual(rest.json, { replayed: 2, matched: 2, failed: [], hasMore: false });
  assert.equal((await server.stats("mail")).ready, 5);
  assert.equal((await server.task(other)).status, "FAILED");
});

test("all dead letters are purged, also those that are kept for ever", async (t) => {
  const server = await setup(t, { settings: { dlqRetentionSeconds: 0 } });
  const dead = await server.buried({ command: "a", idempotencyKey: "k" });
  await server.buried({ command: "b" });
  const waiting = await server.create({ command: "c" });
  const done = await server.leased({ command: "d" });
  await server.complete(done);
  const purged = await bulk(server, "delete", { all: true });
  assert.deepEqual(purged.json, { deleted: 2, matched: 2, failed: [], hasMore: false });
  assert.equal((await server.get(`/tasks/${dead}`)).status, 404);
  assert.equal((await server.task(waiting)).status, "PENDING");
  assert.equal((await server.task(done)).status, "COMPLETED");
  const left = [...(await server.dump()).keys()].filter((key) => key.includes(dead));
  assert.deepEqual(left, []);
  const again = await server.create({ command: "a", idempotencyKey: "k" });
  assert.equal(again, dead, "the key outlives the task");
});

test("a request has to say which dead letters it means", async (t) => {
  const server = await setup(t);
  await server.buried();
  const cases: readonly (readonly [object, string])[] = [
    [{}, "pass one of 'ids', a filter, or 'all': true"],
    [{ all: true, command: "x" }, "pass one of 'ids', a filter, or 'all': true"],
    [{ ids: ["01890a5d"], all: true }, "pass one of 'ids', a filter, or 'all': true"],
    [{ comand: "x" }, 'invalid body: unknown field "comand"; did you mean "command"?'],
    [{ place: "done" }, 'invalid body: unknown field "place"'],
    [{ error: "" }, "invalid 'error': it is empty"],
    [{ all: true, limit: 10_001 }, "invalid 'limit' (1 to 10000)"],
    [{ all: true, limit: -1 }, "invalid 'limit' (1 to 10000)"],
    [{ ids: Array.from({ length: 1001 }, () => "01890a5d") }, "too many 'ids' (at most 1000)"],
    [{ all: "yes" }, "invalid body"],
  ];
  for (const [body, text] of cases) {
    for (const verb of ["replay", "delete"] as const) {
      const reply = await bulk(server, verb, body);
      assert.equal(reply.status, 400, JSON.stringify(body));
      assert.ok(reply.json.error.startsWith(text), reply.text);
    }
  }
  assert.equal((await server.stats()).dlq, 1);
});

test("a replay counts in the quota of tasks that wait", onlyWith.order, async (t) => {
  const pendingTasks = 2;
  const quotas = { ...noQuotas, default: { ...noQuotas.default, pendingTasks } };
  const server = await setup(t, { settings: { quotas } });
  const ids = [await server.buried(), await server.buried(), await server.buried()];
  const reply = await bulk(server, "replay", { all: true });
  assert.deepEqual([reply.json.replayed, reply.json.matched], [2, 3]);
  assert.deepEqual(reply.json.failed, [{ id: ids[2], code: "quota_exceeded" }]);
  const one = await replay(server, ids[2] ?? "");
  assert.equal(one.status, 429);
  assert.equal(one.headers["codeq-error"], "quota_exceeded");
});

test("replays and deletions are in the audit trail, by whom and of what", async (t) => {
  const server = await setup(t);
  const first = await server.buried();
  const second = await server.buried();
  await replay(server, first);
  await remove(server, second);
  await bulk(server, "delete", { command: "render" });
  const { records } = (await server.get("/admin/audit", "admin-acme")).json;
  const shown = records.map(
    (each: Record<string, string>) => `${each["action"]} ${each["target"]} ${each["detail"]}`,
  );
  assert.deepEqual(shown, [
    "delete_dead_letters command=render 0 of 0 tasks",
    `delete_task ${second} ${second}`,
    `replay_task ${first} ${first}`,
  ]);
});

test("the result of a replayed task is posted again when it ends", async (t) => {
  const posted: string[] = [];
  const post = async (_task: unknown, result: { readonly status: string }): Promise<number> => {
    posted.push(result.status);
    return 200;
  };
  const server = await setup(t, { post });
  const id = await server.buried({ webhook: "https://hooks.example/" });
  await server.clock.advance(1);
  await until(() => posted.length === 1);
  await replay(server, id);
  await server.claim();
  await server.complete(id);
  await server.clock.advance(1);
  await until(() => posted.length === 2);
  assert.deepEqual(posted, ["FAILED", "COMPLETED"]);
});
