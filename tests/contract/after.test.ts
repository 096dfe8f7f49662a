/** Tasks that wait for other tasks with `after`, over HTTP. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { errors, limits } from "@codeq/protocol";
import { type Reply, type RunningServer, setup } from "./setup.ts";
import type { Caller } from "./tokens.ts";

/** Tasks of a lane are in one shard. */
const fetch = { command: "fetch", lane: "first" };
const missing = "00000000-0000-7000-8000-000000000000";

function create(server: RunningServer, fields: object = {}): Promise<Reply> {
  const body = { command: "load", payload: 1, ...fields };
  return server.post("/tasks", body, "producer-acme");
}

async function place(server: RunningServer, id: string): Promise<string> {
  return (await server.task(id)).lastKnownLocation;
}

async function finish(server: RunningServer, status = "COMPLETED", command = "fetch") {
  const task = await server.claim({ commands: [command] });
  const body = status === "COMPLETED" ? { status, result: { n: 1 } } : { status, error: "broken" };
  await server.post(`/tasks/${task.id}/result`, body, "worker-acme");
  return task;
}

async function refusedWith(reply: Promise<Reply>): Promise<unknown[]> {
  const { status, json } = await reply;
  const known = Object.entries(errors).find(([, { text }]) => json.error === text);
  return [status, known?.[0] ?? json.error];
}

async function started(server: RunningServer, count = 2) {
  const after: string[] = [];
  for (let task = 0; task < count; task++) after.push(await server.create(fetch));
  const created = await create(server, { after });
  assert.equal(created.status, 202, created.text);
  return { after, id: created.json.id as string };
}

test("a task waits until those before it have succeeded, and sees their results", async (t) => {
  const server = await setup(t);
  const { after, id } = await started(server);
  assert.equal(await place(server, id), "HELD_SET");
  await finish(server);
  const { json } = await server.get(`/tasks/${id}/explain`);
  const why = `it waits for 1 of 2 tasks of its 'after': fetch ${after[1]}`;
  assert.deepEqual([json.rule, json.why], ["held", why]);
  await finish(server);
  const task = await server.claim({ commands: ["load"] });
  assert.equal(task.id, id);
  assert.deepEqual(task.batchEnded, { succeeded: 2, failed: 0, cancelled: 0 });
  const first = await server.get(`/batches/${task.batchId}/results?limit=1`);
  const rest = await server.get(`/batches/${task.batchId}/results?after=${first.json.next}`);
  const members = [...first.json.members, ...rest.json.members];
  assert.deepEqual(
    members.map(({ taskId }) => taskId),
    after.toSorted(),
  );
  assert.deepEqual(members[0].result, { n: 1 });
});

test("a task whose predecessors have ended already is ready at once, also with the same key", async (t) => {
  const server = await setup(t);
  const after = [await server.create(fetch)];
  await finish(server);
  const { json } = await create(server, { after, idempotencyKey: "k" });
  assert.equal(await place(server, json.id), "PENDING_LIST");
  const again = await create(server, { after, idempotencyKey: "k" });
  assert.equal(again.json.id, json.id);
  const other = await create(server, { after, idempotencyKey: "k", payload: 2 });
  assert.match(other.json.error, /^idempotency key reused/);
  assert.equal((await server.claim({ commands: ["load"] })).id, json.id);
});

test("a task becomes a dead letter when one before it fails, and waits again for its replay", async (t) => {
  const server = await setup(t);
  const { after, id } = await started(server);
  await finish(server, "FAILED");
  assert.equal(await place(server, id), "HELD_SET", "the other one has not ended");
  await finish(server);
  assert.equal(await place(server, id), "DLQ_SET");
  const { error } = await server.task(id);
  assert.equal(error, `BATCH_FAILED: 1 failed of 2; task ${after[0]}: broken`);
  await server.post(`/admin/tasks/${after[0]}/replay`, undefined, "admin-acme");
  assert.equal(await place(server, id), "HELD_SET");
  await finish(server);
  assert.equal((await server.claim({ commands: ["load"] })).id, id);
});

test("a cancelled task fails those that wait for it; one that waits can be cancelled", async (t) => {
  const server = await setup(t);
  const { after, id } = await started(server, 1);
  const { json: other } = await create(server, { after });
  const cancel = (each: string) =>
    server.post(`/admin/tasks/${each}/cancel`, undefined, "admin-acme");
  await cancel(other.id);
  assert.equal((await server.task(other.id)).error, "CANCELLED");
  await cancel(after[0] as string);
  assert.match((await server.task(id)).error, /^BATCH_FAILED: 1 cancelled of 1/);
});

test("a restart finds who waits, and nothing is left behind after retention", async (t) => {
  let server = await setup(t, { settings: { retentionSweepSeconds: 1 } });
  const { id } = await started(server);
  const awaited = async (): Promise<number> =>
    [...(await server.dump()).keys()].filter((key) => key.includes("batch-awaits")).length;
  // Several shards have stores of their own.
  const isStoredHere = server.config.shards === 1 ? 1 : 0;
  assert.equal(await awaited(), 2 * isStoredHere);
  await finish(server);
  assert.equal(await awaited(), isStoredHere, "what has succeeded is awaited no more");
  server = await server.restart();
  assert.equal(await place(server, id), "HELD_SET");
  await finish(server);
  assert.equal((await finish(server, "COMPLETED", "load")).id, id);
  assert.equal(await awaited(), 0, "what was released waits for nothing");
  await server.clock.advance(26 * 3_600_000);
  const left = [...(await server.dump()).keys()].filter((key) => /batch|tasks\//.test(key));
  assert.deepEqual(left, []);
});

const bad: readonly (readonly [string, object, number, string | RegExp])[] = [
  ["a task that does not exist", { after: [missing] }, 404, "after_unknown"],
  ["a text that is no id", { after: ["first"] }, 400, /'after' \(ids of 1 to 100 tasks\)/],
  ["a unique key", { after: [missing], unique: { key: "k" } }, 400, /cannot have a unique key/],
  ["a delay", { after: [missing], delaySeconds: 5 }, 400, /cannot have a time/],
  ["a batch", { after: [missing], batchId: "b1" }, 400, /a member of a batch cannot have/],
  [
    "too many tasks",
    { after: Array.from({ length: limits.afterMax + 1 }, () => missing) },
    400,
    /'after' \(ids of 1 to 100 tasks\)/,
  ],
];

for (const [what, fields, status, expected] of bad) {
  test(`after is refused with ${what}`, async (t) => {
    const server = await setup(t);
    const [found, why] = await refusedWith(create(server, fields));
    assert.equal(found, status);
    if (typeof expected === "string") assert.equal(why, expected);
    else assert.match(String(why), expected);
  });
}

test("after is refused with tasks that failed, that wait or that belong to another tenant", async (t) => {
  const server = await setup(t);
  const { id } = await started(server, 1);
  assert.deepEqual(await refusedWith(create(server, { after: [id] })), [409, "after_waits"]);
  const { id: dead } = await finish(server, "FAILED");
  assert.deepEqual(await refusedWith(create(server, { after: [dead] })), [409, "after_failed"]);
  const body = { command: "load", payload: 1, after: [dead] };
  const foreign = server.post("/tasks", body, "producer-globex");
  assert.deepEqual(await refusedWith(foreign), [404, "after_unknown"]);
});

test("1,000 tasks may wait for one, and are released with its end", async (t) => {
  const server = await setup(t, { settings: { createBatchMax: 1000 } });
  const after = [await server.create(fetch)];
  const tasks = Array.from({ length: limits.afterWaitersMax }, () => ({
    command: "load",
    payload: 1,
    after,
  }));
  const reply = await server.post("/tasks/batch", { tasks }, "producer-acme");
  assert.equal(reply.status, 200, reply.text.slice(0, 200));
  assert.deepEqual(await refusedWith(create(server, { after })), [409, "after_full"]);
  await finish(server);
  const { json } = await server.get("/admin/queues/load", "admin-acme");
  assert.equal(json.ready, limits.afterWaitersMax);
});

test("a tenant has a limit of tasks that are waited for, also after a restart", async (t) => {
  let server = await setup(t, { settings: { createBatchMax: 1000 } });
  const batch = async (tasks: object[], caller: Caller = "producer-acme"): Promise<Reply> => {
    const reply = await server.post("/tasks/batch", { tasks }, caller);
    assert.equal(reply.status, 200, reply.text.slice(0, 200));
    return reply;
  };
  const idsIn = ({ json }: Reply): string[] =>
    json.results.map(({ task }: { task: { id: string } }) => task.id);
  const predecessors = async (caller?: Caller): Promise<string[]> =>
    idsIn(await batch(Array(limits.afterMax).fill({ ...fetch, payload: 1 }), caller));
  const waiting = (after: string[], count: number): object[] =>
    Array(count).fill({ command: "load", payload: 1, after });
  const ofTenant = limits.afterWaitsMax / 2;
  let after: string[] = [];
  for (let left = ofTenant / limits.afterMax; left > 0; left -= 1000) {
    after = await predecessors();
    await batch(waiting(after, Math.min(left, 1000)));
  }
  server = await server.restart();
  assert.deepEqual(await refusedWith(create(server, { after })), [429, "after_crowded"]);
  await batch(waiting(await predecessors("producer-globex"), 1), "producer-globex");
  await finish(server);
  assert.equal((await create(server, { after })).status, 202);
});
