/** Batches over HTTP: the sentences of docs/guide/batches.md, each with a test. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { errors, limits } from "@codeq/protocol";
import { openFeed } from "./feed-reader.ts";
import { type Options, type Reply, type RunningServer, setup, until } from "./setup.ts";

const producer = "producer-acme";
const report = { command: "render", payload: { report: 1 } };
const hourMs = 3_600_000;

function put(server: RunningServer, id = "b1", body: object = {}): Promise<Reply> {
  const path = `/v1/codeq/batches/${id}`;
  const options = { ...report, ...body };
  return server.ask(path, { method: "PUT", caller: producer, body: options });
}

function change(server: RunningServer, verb: "seal" | "cancel", id = "b1"): Promise<Reply> {
  return server.post(`/batches/${id}/${verb}`, undefined, producer);
}

// biome-ignore lint/suspicious/noExplicitAny: the answers of several endpoints.
async function read(server: RunningServer, path = "b1"): Promise<any> {
  const reply = await server.get(`/batches/${path}`);
  assert.equal(reply.status, 200, reply.text);
  return reply.json;
}

/** The phase, and how many members are pending, succeeded, failed and cancelled. */
async function counts(server: RunningServer, id = "b1"): Promise<unknown[]> {
  const { phase, pending, succeeded, failed, cancelled } = await read(server, id);
  return [phase, pending, succeeded, failed, cancelled];
}

async function opened(server: RunningServer, members: number, body: object = {}): Promise<string> {
  const reply = await put(server, "b1", body);
  assert.equal(reply.status, 201, reply.text);
  for (let member = 0; member < members; member++) await add(server, { payload: member });
  return reply.json.callbackId;
}

function add(server: RunningServer, fields: object = {}): Promise<string> {
  return server.create({ command: "print", batchId: "b1", ...fields });
}

/** Claims the next member and ends it. */
async function finish(server: RunningServer, status = "COMPLETED", commands = ["print"]) {
  const task = await server.claim({ commands });
  const body = status === "COMPLETED" ? { status, result: { n: 1 } } : { status, error: "broken" };
  await server.post(`/tasks/${task.id}/result`, body, "worker-acme");
  return task;
}

async function refusedWith(reply: Promise<Reply>): Promise<unknown[]> {
  const { status, json } = await reply;
  const known = Object.entries(errors).find(([, { text }]) => json.error.startsWith(text));
  return [status, known?.[0] ?? json.error];
}

test("the callback is held until the last member has ended, and knows how they ended", async (t) => {
  const server = await setup(t);
  const callbackId = await opened(server, 3);
  assert.deepEqual(await counts(server), ["open", 3, 0, 0, 0]);
  assert.equal((await change(server, "seal")).status, 200);
  assert.equal((await server.task(callbackId)).lastKnownLocation, "HELD_SET");
  await finish(server);
  const why = await server.get(`/tasks/${callbackId}/explain`);
  assert.equal(why.json.rule, "held");
  const { members } = await read(server, "b1/results");
  const waitsFor = members
    .filter(({ status }: { status: string }) => status === "PENDING")
    .map(({ taskId, command }: { taskId: string; command: string }) => ({ taskId, command }));
  const names = waitsFor.map(({ taskId }: { taskId: string }) => `print ${taskId}`).join(", ");
  assert.equal(why.json.why, `it waits for 2 of 3 members of batch b1: ${names}`);
  assert.deepEqual(why.json.waitsFor, waitsFor);
  await finish(server);
  assert.equal(
    (await server.post("/tasks/claim", { commands: ["render"] }, "worker-acme")).status,
    204,
  );
  await finish(server);
  assert.deepEqual(await counts(server), ["released", 0, 3, 0, 0]);
  const callback = await server.claim({ commands: ["render"] });
  assert.equal(callback.id, callbackId);
  assert.deepEqual(callback.payload, '{"report":1}');
  assert.equal(callback.batchId, "b1");
  assert.deepEqual(callback.batchEnded, { succeeded: 3, failed: 0, cancelled: 0 });
});

test("an explanation names three of many members, and says that the batch is open", async (t) => {
  const server = await setup(t);
  const callbackId = await opened(server, 0);
  const ids: string[] = [];
  for (let member = 0; member < 5; member++) ids.push(await add(server));
  await server.post(`/admin/tasks/${ids[0]}/cancel`, undefined, "admin-acme");
  const names = ids.slice(1, 4).map((id) => `print ${id}`);
  const { why } = (await server.get(`/tasks/${callbackId}/explain`)).json;
  const open = "it waits for its batch to be sealed, and for 4 of 5 members of batch b1";
  assert.equal(why, `${open}: ${names.join(", ")}, …`);
});

test("results are read page by page, also failed members alone", async (t) => {
  const server = await setup(t);
  await opened(server, 2, { on: "end" });
  await finish(server);
  await finish(server, "FAILED");
  const first = await read(server, "b1/results?limit=1");
  const second = await read(server, `b1/results?limit=1&after=${first.next}`);
  assert.deepEqual(first.members[0].result, { n: 1 });
  assert.equal(second.members[0].error, "broken");
  const failed = await read(server, "b1/results?failed=true");
  assert.deepEqual(failed.members, second.members);
  const found = await server.get("/admin/tasks?batch=b1&place=failure", "admin-acme");
  assert.deepEqual(
    found.json.tasks.map(({ id }: { id: string }) => id),
    [second.members[0].taskId],
  );
});

test("with success a failed member fails the callback; its replay holds the callback again", async (t) => {
  const server = await setup(t);
  const callbackId = await opened(server, 2);
  await change(server, "seal");
  const { id } = await finish(server, "FAILED");
  await finish(server);
  assert.deepEqual(await counts(server), ["failed", 0, 1, 1, 0]);
  const dead = await server.task(callbackId);
  assert.equal(dead.error, `BATCH_FAILED: 1 failed of 2; task ${id}: broken`);
  const replayed = await server.post(`/admin/tasks/${id}/replay`, undefined, "admin-acme");
  assert.equal(replayed.status, 200, replayed.text);
  assert.deepEqual(await counts(server), ["sealed", 1, 1, 0, 0]);
  assert.equal((await server.task(callbackId)).lastKnownLocation, "HELD_SET");
  await finish(server);
  assert.deepEqual(await counts(server), ["released", 0, 2, 0, 0]);
  assert.equal((await server.claim({ commands: ["render"] })).id, callbackId);
});

test("a failed member that is replayed with another payload gives its place to the new task", async (t) => {
  const server = await setup(t, { settings: { retentionSweepSeconds: 1 } });
  const callbackId = await opened(server, 2);
  await change(server, "seal");
  const { id } = await finish(server, "FAILED");
  await finish(server);
  assert.deepEqual(await counts(server), ["failed", 0, 1, 1, 0]);
  const changes = { payload: { corrected: true } };
  const replayed = await server.post(`/admin/tasks/${id}/replay`, changes, "admin-acme");
  assert.equal(replayed.status, 200, replayed.text);
  assert.deepEqual(await counts(server), ["sealed", 1, 1, 0, 0]);
  assert.equal((await read(server)).total, 2);
  assert.equal((await server.task(callbackId)).lastKnownLocation, "HELD_SET");
  assert.equal((await server.task(id)).batchId, undefined, "the old task has left");
  const corrected = await finish(server);
  assert.equal(corrected.payload, '{"corrected":true}');
  assert.deepEqual(await counts(server), ["released", 0, 2, 0, 0]);
  const { members } = await read(server, "b1/results");
  assert.equal(
    members.map(({ taskId }: { taskId: string }) => taskId).includes(corrected.id),
    true,
  );
  assert.deepEqual((await finish(server, "COMPLETED", ["render"])).batchEnded.succeeded, 2);
});

test("after the callback was released, a replayed member does not release it again", async (t) => {
  const server = await setup(t);
  await opened(server, 1, { on: "end" });
  await change(server, "seal");
  const { id } = await finish(server, "FAILED");
  const callback = await finish(server, "COMPLETED", ["render"]);
  assert.deepEqual(callback.batchEnded, { succeeded: 0, failed: 1, cancelled: 0 });
  const changes = { payload: 2 };
  const other = await server.post(`/admin/tasks/${id}/replay`, changes, "admin-acme");
  assert.equal(other.json.batchId, undefined, "a new task belongs to no batch then");
  await finish(server);
  assert.deepEqual(await counts(server), ["released", 0, 0, 1, 0]);
  await server.post(`/admin/tasks/${id}/replay`, undefined, "admin-acme");
  await finish(server);
  assert.deepEqual(await counts(server), ["released", 0, 1, 0, 0]);
  assert.equal((await server.task(callback.id)).status, "COMPLETED");
});

test("failFast seals the batch at the first failure and cancels the other members", async (t) => {
  const server = await setup(t);
  const callbackId = await opened(server, 4, { failFast: true });
  await finish(server, "FAILED");
  await server.clock.advance(1000);
  assert.deepEqual(await counts(server), ["failed", 0, 0, 1, 3]);
  assert.match((await server.task(callbackId)).error, /^BATCH_FAILED: 1 failed, 3 cancelled of 4/);
  assert.deepEqual(await refusedWith(tryToAdd(server)), [409, "batch_sealed"]);
});

function tryToAdd(server: RunningServer, fields: object = {}, batchId = "b1"): Promise<Reply> {
  return server.post("/tasks", { command: "print", payload: 1, batchId, ...fields }, producer);
}

test("cancel ends the callback at once and the members in the background", async (t) => {
  const server = await setup(t);
  const callbackId = await opened(server, 3);
  await server.claim({ commands: ["print"] });
  assert.equal((await change(server, "cancel")).json.phase, "cancelled");
  assert.equal((await server.task(callbackId)).error, "CANCELLED");
  await server.clock.advance(1000);
  assert.deepEqual(await counts(server), ["cancelled", 1, 0, 0, 2]);
  await server.clock.advance(60_000);
  assert.deepEqual(await counts(server), ["cancelled", 0, 0, 0, 3]);
  assert.equal((await change(server, "cancel")).status, 200, "again");
  assert.deepEqual(await refusedWith(change(server, "seal")), [409, "batch_over"]);
});

test("where only the callback was cancelled, the batch can still be cancelled with its members", async (t) => {
  const server = await setup(t);
  const callbackId = await opened(server, 2);
  await server.post(`/admin/tasks/${callbackId}/cancel`, {}, "admin-acme");
  await server.clock.advance(1000);
  assert.deepEqual(await counts(server), ["cancelled", 2, 0, 0, 0], "members go on");
  assert.equal((await change(server, "cancel")).json.phase, "cancelled");
  await server.clock.advance(1000);
  assert.deepEqual(await counts(server), ["cancelled", 0, 0, 0, 2]);
});

test("a batch that nobody seals expires, and its callback says so", async (t) => {
  const server = await setup(t);
  const callbackId = await opened(server, 1, { openSeconds: 60 });
  await server.clock.advance(61_000);
  assert.deepEqual(await counts(server), ["expired", 1, 0, 0, 0]);
  const { error, lastKnownLocation } = await server.task(callbackId);
  assert.equal(lastKnownLocation, "DLQ_SET");
  assert.equal(error, "BATCH_EXPIRED: the batch was not sealed in time");
  assert.deepEqual(await refusedWith(tryToAdd(server)), [409, "batch_sealed"]);
  await finish(server);
  assert.deepEqual(await counts(server), ["expired", 0, 1, 0, 0]);
});

test("an empty batch releases its callback with the seal", async (t) => {
  const server = await setup(t);
  const callbackId = await opened(server, 0);
  await change(server, "seal");
  assert.equal((await server.claim({ commands: ["render"] })).id, callbackId);
});

test("the same request again changes nothing; other options are refused", async (t) => {
  const server = await setup(t);
  const callbackId = await opened(server, 1);
  const again = await put(server);
  assert.deepEqual([again.status, again.json.callbackId], [200, callbackId]);
  assert.deepEqual(await refusedWith(put(server, "b1", { on: "end" })), [409, "batch_exists"]);
  assert.equal((await change(server, "seal")).status, 200);
  assert.equal((await change(server, "seal")).status, 200);
});

test("members are kept until the callback is deleted, and then the whole batch goes", async (t) => {
  const server = await setup(t, { settings: { retentionSweepSeconds: 1 } });
  await opened(server, 2);
  await change(server, "seal");
  const { id } = await finish(server);
  await finish(server);
  await server.clock.advance(30 * 24 * hourMs);
  assert.equal((await read(server, "b1/results")).members.length, 2);
  const deleted = server.ask(`/v1/codeq/admin/tasks/${id}`, {
    method: "DELETE",
    caller: "admin-acme",
  });
  assert.deepEqual(await refusedWith(deleted), [409, "batch_unfinished"]);
  await finish(server, "COMPLETED", ["render"]);
  await server.clock.advance(23 * hourMs);
  assert.equal((await read(server, "b1/results")).members.length, 2);
  await server.clock.advance(2 * hourMs);
  assert.equal((await server.get("/batches/b1")).status, 404);
  assert.equal((await server.get(`/tasks/${id}`)).status, 404);
  const left = [...(await server.dump()).keys()].filter((key) => /batch|tasks\//.test(key));
  assert.deepEqual(left, []);
});

test("what is wrong is refused with what to do", async (t) => {
  const server = await setup(t);
  await opened(server, 0);
  const unique = await tryToAdd(server, { unique: { key: "k" } });
  assert.match(unique.json.error, /a member of a batch cannot have a unique key/);
  assert.deepEqual(await refusedWith(tryToAdd(server, {}, "other")), [404, "batch_not_found"]);
  assert.deepEqual(await refusedWith(tryToAdd(server, {}, "no batch")), [
    400,
    "invalid 'batchId' (the id of a batch)",
  ]);
  assert.equal((await put(server, "b2", { batchId: "b2" })).status, 400, "waits for itself");
  assert.equal((await put(server, "b2", { command: undefined })).status, 400);
  assert.equal((await put(server, "b2", { on: "start" })).status, 400);
  assert.equal((await put(server, "b2", { openSeconds: 0 })).status, 400);
  assert.equal((await put(server, "b 2")).status, 400);
  const reserved = await put(server, `after:${"0".repeat(36)}`);
  assert.deepEqual([reserved.status, reserved.json.error.slice(0, 12)], [400, "invalid 'id'"]);
  const foreign = server.post(
    "/tasks",
    { command: "render", payload: 1, batchId: "b1" },
    "producer-globex",
  );
  assert.deepEqual(await refusedWith(foreign), [404, "batch_not_found"]);
});

const bad: readonly (readonly [string, object, number])[] = [
  ["an unknown option", { callback: "x" }, 400],
  ["failFast as a text", { failFast: "yes" }, 400],
  ["more than 30 days to stay open", { openSeconds: limits.batchOpenSecondsMax + 1 }, 400],
  ["a part of a second to stay open", { openSeconds: 1.5 }, 400],
  ["a command with a space", { command: "a b" }, 400],
  ["a webhook that is no URL", { webhook: "hook" }, 400],
  ["a tag with a comma", { tags: ["a,b"] }, 400],
  ["a payload above the limit", { payload: "x".repeat(2_000_000) }, 413],
];

for (const [what, body, status] of bad) {
  test(`a batch is refused with ${what}, and nothing is created`, async (t) => {
    const server = await setup(t);
    const reply = await put(server, "b1", body);
    assert.equal(reply.status, status, reply.text);
    assert.equal((await server.get("/batches/b1")).status, 404);
    const { json } = await server.get("/admin/tasks", "admin-acme");
    assert.deepEqual(json.tasks, []);
  });
}

test("a batch that was cancelled, is unknown or belongs to one task takes no members", async (t) => {
  const server = await setup(t);
  await opened(server, 1);
  await change(server, "cancel");
  assert.deepEqual(await refusedWith(tryToAdd(server)), [409, "batch_sealed"]);
  for (const verb of ["seal", "cancel"] as const) {
    assert.deepEqual(await refusedWith(change(server, verb, "b2")), [404, "batch_not_found"]);
  }
  assert.equal((await server.get("/batches/b2/results")).status, 404);
  const first = await server.create({ command: "print" });
  const waiting = await server.create({ command: "render", after: [first] });
  const own = tryToAdd(server, {}, `after:${waiting}`);
  assert.deepEqual(await refusedWith(own), [409, "batch_sealed"]);
});

test("the same idempotency key adds one member; in another batch it is a conflict", async (t) => {
  const server = await setup(t);
  await opened(server, 0);
  await put(server, "b2");
  const id = await add(server, { idempotencyKey: "k" });
  assert.equal(await add(server, { idempotencyKey: "k" }), id);
  assert.deepEqual(await counts(server), ["open", 1, 0, 0, 0]);
  const other = tryToAdd(server, { idempotencyKey: "k", payload: "null" }, "b1");
  assert.deepEqual(await refusedWith(other), [409, "idempotency_key_reused"]);
});

test("a key of a task that the batch would not wait for is refused, whatever the mode", async (t) => {
  const server = await setup(t, { settings: { retentionSweepSeconds: 1 } });
  await server.create({ command: "print", idempotencyKey: "outside" });
  await opened(server, 0);
  const headers = { "codeq-idempotency-mode": "first" };
  const first = (idempotencyKey: string, payload = 1): Promise<Reply> => {
    const body = { command: "print", payload, batchId: "b1", idempotencyKey };
    return server.ask("/v1/codeq/tasks", { method: "POST", caller: producer, body, headers });
  };
  assert.deepEqual(await refusedWith(first("outside")), [409, "idempotency_key_reused"]);
  const { id } = (await first("inside")).json;
  assert.equal((await first("inside", 2)).json.id, id, "of the batch itself");
  await change(server, "seal");
  assert.equal((await first("inside", 3)).json.id, id, "after the seal");
  await finish(server);
  await finish(server);
  await finish(server, "COMPLETED", ["render"]);
  await server.clock.advance(26 * hourMs);
  assert.equal((await server.get("/batches/b1")).status, 404);
  await opened(server, 0);
  assert.deepEqual(await refusedWith(first("inside")), [409, "idempotency_key_reused"], "deleted");
  assert.deepEqual(await counts(server), ["open", 0, 0, 0, 0]);
});

test("an operator runs the callback of a batch that failed or expired, and it sees how members ended", async (t) => {
  const server = await setup(t);
  const callbackId = await opened(server, 2, { openSeconds: 60 });
  await finish(server);
  await server.clock.advance(61_000);
  assert.deepEqual(await counts(server), ["expired", 1, 1, 0, 0]);
  await finish(server, "FAILED");
  const replayed = await server.post(`/admin/tasks/${callbackId}/replay`, undefined, "admin-acme");
  assert.equal(replayed.status, 200, replayed.text);
  const callback = await server.claim({ commands: ["render"] });
  assert.deepEqual(callback.batchEnded, { succeeded: 1, failed: 1, cancelled: 0 });
  assert.deepEqual(await counts(server), ["released", 0, 1, 1, 0]);
});

test("a restart finds a batch as it was", async (t) => {
  let server = await setup(t);
  const callbackId = await opened(server, 2);
  await change(server, "seal");
  await finish(server);
  server = await server.restart();
  assert.deepEqual(await counts(server), ["sealed", 1, 1, 0, 0]);
  await finish(server);
  assert.equal((await server.claim({ commands: ["render"] })).id, callbackId);
  const listed = await server.get("/admin/batches", "viewer-acme");
  assert.deepEqual(
    listed.json.batches.map(({ id, phase }: { id: string; phase: string }) => [id, phase]),
    [["b1", "released"]],
  );
});

test("an operator seals a batch that its producer left open, and that is audited", async (t) => {
  const server = await setup(t);
  const callbackId = await opened(server, 0);
  const denied = await server.post("/admin/batches/b1/seal", undefined, "viewer-acme");
  assert.equal(denied.status, 403);
  const sealed = await server.post("/admin/batches/b1/seal", undefined, "admin-acme");
  assert.equal(sealed.json.phase, "released", sealed.text);
  assert.equal((await server.claim({ commands: ["render"] })).id, callbackId);
  const { json } = await server.get("/admin/audit?action=seal_any_batch", "admin-acme");
  assert.deepEqual(
    json.records.map(({ target, outcome }: Record<string, string>) => [target, outcome]),
    [["b1", "ok"]],
  );
});

test("a bulk job replays the failed members, and the callback waits for them again", async (t) => {
  const server = await setup(t);
  await opened(server, 3);
  await change(server, "seal");
  await finish(server, "FAILED");
  await finish(server);
  await finish(server, "FAILED");
  assert.deepEqual(await counts(server), ["failed", 0, 1, 2, 0]);
  assert.equal((await change(server, "seal")).json.phase, "failed", "it was sealed");
  const body = { action: "replay", batch: "b1", place: "failure" };
  const job = await server.post("/admin/jobs", body, "admin-acme");
  assert.equal(job.status, 201, job.text);
  await until(async () => {
    await server.clock.advance(1000);
    return (await read(server)).pending === 2;
  });
  assert.deepEqual(await counts(server), ["sealed", 2, 1, 0, 0]);
  await finish(server);
  await finish(server);
  assert.deepEqual(await counts(server), ["released", 0, 3, 0, 0]);
});

test("the webhook of a batch is posted with the result of its callback, or why it did not run", async (t) => {
  const posted: string[][] = [];
  const post: NonNullable<Options["post"]> = (_, { status, error }) => {
    posted.push([status, error]);
    return Promise.resolve(200);
  };
  const server = await setup(t, { post });
  const webhook = "http://a.example/hook";
  await opened(server, 1, { webhook });
  await change(server, "seal");
  await finish(server, "FAILED");
  await server.clock.advance(1);
  await until(() => posted.length === 1);
  const { id } = (await server.get("/admin/tasks?batch=b1", "admin-acme")).json.tasks[0];
  await server.post(`/admin/tasks/${id}/replay`, undefined, "admin-acme");
  await finish(server);
  await finish(server, "COMPLETED", ["render"]);
  await server.clock.advance(1);
  await until(() => posted.length === 2);
  assert.deepEqual(posted, [
    ["FAILED", `BATCH_FAILED: 1 failed of 1; task ${id}: broken`],
    ["COMPLETED", ""],
  ]);
});

test("events name the batch, and metrics count what batches became", async (t) => {
  const server = await setup(t);
  const feed = await openFeed(server);
  await opened(server, 1);
  await change(server, "seal");
  await finish(server);
  const told = await feed.untilEvents(5);
  assert.deepEqual(
    told.map(({ event, command, batchId }) => [event, command, batchId]),
    [
      ["created", "render", "b1"],
      ["created", "print", "b1"],
      ["claimed", "print", "b1"],
      ["completed", "print", "b1"],
      ["promoted", "render", "b1"],
    ],
  );
  feed.leave();
  const became = (phase: string): Promise<number> =>
    server.metric(`codeq_batches_total{phase="${phase}"}`);
  assert.deepEqual(
    await Promise.all(["open", "sealed", "released", "failed"].map(became)),
    [1, 1, 1, 0],
  );
});

test("a batch has 100,000 members, and one more is refused", { timeout: 120_000 }, async (t) => {
  const server = await setup(t, { settings: { createBatchMax: 1000 } });
  await opened(server, 0);
  const { batchMembersMax } = limits;
  const tasks = Array.from({ length: 1000 }, () => ({
    command: "print",
    payload: 1,
    batchId: "b1",
  }));
  for (let added = 0; added < batchMembersMax; added += tasks.length) {
    const reply = await server.post("/tasks/batch", { tasks }, producer);
    assert.equal(reply.status, 200, reply.text.slice(0, 200));
  }
  assert.equal((await read(server)).total, batchMembersMax);
  assert.deepEqual(await refusedWith(tryToAdd(server)), [409, "batch_full"]);
  assert.equal((await change(server, "seal")).status, 200);
});

/** Ids of all members, and how many each page had. */
async function pagesOf(server: RunningServer, path: string, name: string): Promise<number[]> {
  const sizes: number[] = [];
  for (let after = ""; ; ) {
    const { json } = await server.get(`${path}?limit=1000&after=${after}`, "admin-acme");
    sizes.push(json[name].length);
    if (json.next === undefined) return sizes;
    after = json.next;
  }
}

test("a page of large results ends early, and none is left out", async (t) => {
  const server = await setup(t);
  await opened(server, 7);
  const big = "x".repeat(1_000_000);
  for (let member = 0; member < 7; member++) {
    const { id } = await server.claim({ commands: ["print"] });
    await server.post(
      `/tasks/${id}/result`,
      { status: "COMPLETED", result: { big } },
      "worker-acme",
    );
  }
  assert.deepEqual(await pagesOf(server, "/batches/b1/results", "members"), [5, 2]);
});
