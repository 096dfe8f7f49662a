/** Editing tasks that wait: their queue, priority, payload and time. */
import assert from "node:assert/strict";
import test from "node:test";
import { noQuotas } from "../../packages/server/src/config/quotas.ts";
import { openFeed } from "./feed-reader.ts";
import { onlyWith, type Reply, type RunningServer, setup } from "./setup.ts";

const edit = (server: RunningServer, id: string, body: object): Promise<Reply> =>
  server.ask(`/v1/codeq/admin/tasks/${id}`, { method: "PATCH", caller: "admin-acme", body });

async function edited(server: RunningServer, id: string, body: object): Promise<Reply> {
  const reply = await edit(server, id, body);
  assert.equal(reply.status, 200, reply.text);
  return reply;
}

test("a delayed task is made ready now, and who waits for it gets it", async (t) => {
  const server = await setup(t);
  const id = await server.create({ delaySeconds: 600 });
  const waiting = server.claim({ commands: ["render"], waitSeconds: 10 });
  await server.untilWaiting(1);
  const { task } = (await edited(server, id.slice(-8), { delaySeconds: 0 })).json;
  assert.deepEqual([task.id, task.place], [id, "ready"]);
  assert.equal((await waiting)?.id, id);
  await server.complete(id);
  await server.clock.advance(700_000);
  assert.deepEqual((await server.task(id)).status, "COMPLETED");
});

test("a task is put off and brought forward, and comes at its new time", async (t) => {
  const server = await setup(t);
  const ready = await server.create();
  const delayed = await server.create({ delaySeconds: 600 });
  await edited(server, ready, { delaySeconds: 60 });
  await edited(server, delayed, { runAt: new Date(server.clock.nowMs() + 30_000).toISOString() });
  assert.equal(await server.claim(), undefined);
  const stats = await server.stats();
  assert.deepEqual([stats.ready, stats.delayed], [0, 2]);
  await server.clock.advance(30_100);
  assert.equal((await server.claim()).id, delayed);
  await server.clock.advance(30_000);
  assert.equal((await server.claim()).id, ready);
});

test("a task is moved to another queue with everything that it has", async (t) => {
  const server = await setup(t);
  const id = await server.create({
    command: "Mail",
    priority: 3,
    tags: ["vip"],
    idempotencyKey: "k1",
    payload: { to: "ada" },
  });
  const other = await server.create({ command: "print", priority: 3 });
  const { task } = (await edited(server, id, { command: "Print" })).json;
  assert.deepEqual([task.command, task.priority, task.tags], ["Print", 3, ["vip"]]);
  assert.equal((await server.stats("mail")).ready, 0);
  assert.equal((await server.stats("print")).ready, 2);
  assert.equal(await server.claim({ commands: ["mail"] }), undefined);
  const ids = [
    (await server.claim({ commands: ["print"] })).id,
    (await server.claim({ commands: ["print"] })).id,
  ];
  assert.deepEqual(ids.sort(), [id, other].sort());
  // The producer that repeats itself is answered with its task, wherever that is now.
  const again = { command: "Mail", payload: { to: "ada" }, idempotencyKey: "k1" };
  assert.equal((await server.post("/tasks", again, "producer-acme")).json.id, id);
});

test("another priority counts at once, at the back of it", onlyWith.order, async (t) => {
  const server = await setup(t);
  const ids = [];
  for (const priority of [1, 5, 5]) ids.push(await server.create({ priority }));
  const [low, first, second] = ids as [string, string, string];
  await edited(server, low, { priority: 5 });
  await edited(server, first, { payload: { page: 2 } });
  const order = [];
  for (let n = 0; n < 3; n++) order.push((await server.claim()).id);
  assert.deepEqual(order, [first, second, low]);
});

test("a new payload is what the worker gets, short or long, also after a crash", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  const long = { text: "x".repeat(5000) };
  const cases = [
    [{ a: 1 }, { b: 2 }],
    [{ a: 1 }, long],
    [long, { b: 2 }],
    [long, { text: "y".repeat(6000) }],
  ] as const;
  const expected = new Map<string, string>();
  for (const [payload, next] of cases) {
    const id = await server.create({ payload });
    await edited(server, id, { payload: next });
    expected.set(id, JSON.stringify(next));
    assert.equal((await server.task(id)).payload, JSON.stringify(next));
  }
  server.world.crash("power");
  const next = await server.world.start();
  t.after(() => next.stop());
  for (let n = 0; n < cases.length; n++) {
    const task = await next.claim();
    assert.equal(task.payload, expected.get(task.id));
    assert.equal((await next.complete(task.id)).status, 200);
  }
  await next.post("/admin/tasks/cleanup", { before: "2030-01-01T00:00:00Z" }, "admin-acme");
  const left = [...(await next.dump()).keys()].filter((key) => /payload|bytes/.test(key));
  assert.deepEqual(left, []);
});

test("a task that a worker has, or that has ended, is not edited", async (t) => {
  const server = await setup(t);
  const leased = await server.leased();
  const done = await server.leased();
  await server.complete(done);
  const dead = await server.buried();
  for (const id of [leased, done, dead]) {
    const before = await server.fingerprint();
    const reply = await edit(server, id, { payload: 1 });
    assert.deepEqual([reply.status, reply.headers["codeq-error"]], [409, "not_waiting"]);
    assert.equal(await server.fingerprint(), before);
  }
});

test("an edit that changes nothing, or is none, leaves everything as it was", async (t) => {
  const server = await setup(t);
  const id = await server.create({ priority: 2 });
  const before = (await server.get(`/admin/tasks/${id}`, "admin-acme")).text;
  await server.clock.advance(1000);
  await edited(server, id, { priority: 2, command: "render", delaySeconds: 0 });
  const refused: readonly (readonly [object, RegExp])[] = [
    [{}, /nothing to change: pass one of command, priority, payload, runAt, delaySeconds/],
    [{ prio: 1 }, /unknown field "prio"; known fields: command, priority/],
    [{ command: "no/slash" }, /invalid command/],
    [{ delaySeconds: -1 }, /invalid 'delaySeconds'/],
    [{ runAt: "tomorrow" }, /invalid 'runAt'/],
    [{ payload: "x".repeat(1024 * 1024) }, /payload is larger than 1048576 bytes/],
  ];
  for (const [body, text] of refused) {
    const reply = await edit(server, id, body);
    assert.ok(reply.status === 400 || reply.status === 413, reply.text);
    assert.match(reply.json.error, text);
  }
  assert.equal((await server.get(`/admin/tasks/${id}`, "admin-acme")).text, before);
});

test("a payload counts in the quota of bytes when it is edited", async (t) => {
  const quotas = { ...noQuotas, default: { ...noQuotas.default, storedBytes: 1000 } };
  const server = await setup(t, { settings: { quotas } });
  const id = await server.create({ payload: "x".repeat(300) });
  await edited(server, id, { payload: "y".repeat(400) });
  const reply = await edit(server, id, { payload: "z".repeat(700) });
  assert.deepEqual([reply.status, reply.headers["codeq-error"]], [429, "quota_exceeded"]);
  await edited(server, id, { payload: 1 });
  await edited(server, id, { payload: "z".repeat(700) });
});

test("an edit is told by the feed, with the tags of its task, and stands in the audit trail", async (t) => {
  const server = await setup(t);
  const feed = await openFeed(server);
  const id = await server.create({ tags: ["vip"] });
  await edited(server, id, { priority: 4, payload: { secret: 1 } });
  const [created, told] = await feed.untilEvents(2);
  assert.deepEqual([created?.["event"], created?.["tags"]], ["created", ["vip"]]);
  assert.deepEqual([told?.["event"], told?.["priority"], told?.["tags"]], ["edited", 4, ["vip"]]);
  feed.leave();
  const { records } = (await server.get("/admin/audit", "admin-acme")).json;
  const record = records.find(({ action }: { action: string }) => action === "edit_task");
  assert.deepEqual([record.target, record.detail], [`${id} priority=4 payload`, id]);
});

test("tags are shown to producers, workers and administrators, and bad ones are refused", async (t) => {
  const server = await setup(t);
  const id = await server.create({ tags: ["a", "b", "a"] });
  assert.deepEqual((await server.task(id)).tags, ["a", "b"]);
  assert.deepEqual((await server.claim()).tags, ["a", "b"]);
  const many = Array.from({ length: 17 }, (_, n) => `tag-${n}`);
  for (const tags of [[""], ["a b"], ["a,b"], ["x".repeat(65)], many, ["\ud800"], ["\u0007"]]) {
    const body = { command: "render", payload: 1, tags };
    const reply = await server.post("/tasks", body, "producer-acme");
    assert.equal(reply.status, 400);
    assert.match(reply.json.error, /^invalid 'tags' \(at most 16, each 1 to 64 characters/);
  }
  const none = await server.create({ tags: [] });
  assert.equal((await server.task(none)).tags, undefined);
});
