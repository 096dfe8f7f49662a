/** Failure groups, and replaying a task as a new one. */
import assert from "node:assert/strict";
import test from "node:test";
import { limits } from "@codeq/protocol";
import { type Reply, type RunningServer, setup } from "./setup.ts";

// biome-ignore lint/suspicious/noExplicitAny: the answer as it is on the wire.
async function groups(server: RunningServer, query = ""): Promise<any> {
  const reply = await server.get(`/admin/failure-groups${query}`, "admin-acme");
  assert.equal(reply.status, 200, reply.text);
  return reply.json;
}

const replay = (server: RunningServer, id: string, body?: unknown): Promise<Reply> =>
  server.post(`/admin/tasks/${id}/replay`, body, "admin-acme");

async function dead(server: RunningServer, command: string, reason: string): Promise<string> {
  const id = await server.leased({ command, maxAttempts: 1 });
  await server.post(`/tasks/${id}/nack`, { reason }, "worker-acme");
  return id;
}

async function failed(server: RunningServer, command: string, error: string): Promise<string> {
  const id = await server.leased({ command });
  await server.post(`/tasks/${id}/result`, { status: "FAILED", error }, "worker-acme");
  return id;
}

test("failures are grouped by what their errors have in common", async (t) => {
  const server = await setup(t);
  await dead(server, "mail", "timeout after 10 ms");
  await server.clock.advance(1000);
  await dead(server, "mail", "timeout after 200 ms");
  await server.clock.advance(1000);
  const last = await failed(server, "Push", "timeout after 3 ms");
  await failed(server, "push", "no such user");
  await server.complete(await server.leased({ command: "mail" }));
  const answer = await groups(server);
  assert.equal(answer.next, undefined);
  const [first, second] = answer.groups;
  assert.equal(answer.groups.length, 2);
  assert.match(first.id, /^[0-9a-f]{12}$/);
  const { id: _, ...shown } = first;
  assert.deepEqual(shown, {
    text: "timeout after <n> ms",
    count: 3,
    dlq: 2,
    failed: 1,
    firstSeen: "2026-01-02T03:04:05.12Z",
    lastSeen: "2026-01-02T03:04:07.12Z",
    commands: [
      { command: "mail", count: 2 },
      { command: "push", count: 1 },
    ],
    example: { taskId: last, error: "timeout after 3 ms" },
    trend: [...new Array(23).fill(0), 3],
    state: "open",
  });
  assert.deepEqual([second.text, second.count], ["no such user", 1]);
  const counts = async (query: string): Promise<number[]> =>
    (await groups(server, query)).groups.map((group: { count: number }) => group.count);
  assert.deepEqual(await counts("?place=dead"), [2]);
  assert.deepEqual(await counts("?command=PUSH"), [1, 1]);
  assert.deepEqual(await counts(`?group=${second.id}`), [1]);
  const foreign = await server.get("/admin/failure-groups", "admin-globex");
  assert.deepEqual(foreign.json.groups, []);
});

test("groups stay exact while failures are replayed, cancelled and deleted", async (t) => {
  const server = await setup(t);
  const counts = async (): Promise<unknown> =>
    (await groups(server)).groups.map((group: { dlq: number; failed: number; text: string }) => [
      group.text,
      group.dlq,
      group.failed,
    ]);
  const [one, two] = [
    await failed(server, "mail", "bounced"),
    await failed(server, "mail", "bounced"),
  ];
  await dead(server, "push", "bounced");
  const stopped = await server.create({ command: "mail" });
  await server.post(`/admin/tasks/${stopped}/cancel`, {}, "admin-acme");
  assert.deepEqual(await counts(), [["bounced", 1, 2]]);
  assert.equal(
    (await server.get(`/admin/tasks?place=cancelled`, "admin-acme")).json.tasks.length,
    1,
  );
  assert.equal((await replay(server, one)).json.task.place, "ready");
  assert.deepEqual(await counts(), [["bounced", 1, 1]]);
  const removed = await server.post("/admin/dead-letters/delete", { ids: [two] }, "admin-acme");
  assert.equal(removed.json.deleted, 1);
  assert.deepEqual(await counts(), [["bounced", 1, 0]]);
  const rest = await server.post("/admin/dead-letters/replay", { all: true }, "admin-acme");
  assert.equal(rest.json.replayed, 1);
  assert.deepEqual(await counts(), []);
});

test("a group is a filter of tasks and of dead letters", async (t) => {
  const server = await setup(t);
  const one = await dead(server, "mail", "timeout after 10 ms");
  await dead(server, "mail", "no such host");
  const two = await dead(server, "mail", "timeout after 11 ms");
  const [{ id: group }] = (await groups(server)).groups;
  const listed = await server.get(`/admin/tasks?group=${group}&order=oldest`, "admin-acme");
  const ids = listed.json.tasks.map((task: { id: string }) => task.id);
  assert.deepEqual(ids.sort(), [one, two].sort());
  const done = await server.post("/admin/dead-letters/replay", { group }, "admin-acme");
  assert.deepEqual([done.json.matched, done.json.replayed], [2, 2]);
  // Their errors are as before, but they are no failures any more.
  assert.equal((await groups(server)).groups.length, 1);
  const left = await server.get(`/admin/tasks?group=${group}`, "admin-acme");
  assert.deepEqual(left.json.tasks, []);
  assert.equal((await server.stats("mail")).dlq, 1);
});

test("what is looked at for groups is bounded, and goes on where it ended", async (t) => {
  const server = await setup(t);
  await dead(server, "mail", "timeout");
  const { next } = await groups(server, "?after=failed:");
  assert.equal(next, undefined);
  for (const query of [
    "?after=x",
    "?after=dead",
    "?after=dead:%00",
    "?after=dead:,",
    "?place=ready",
    "?group=x",
    "?limit=1",
  ]) {
    const reply = await server.get(`/admin/failure-groups${query}`, "admin-acme");
    assert.equal(reply.status, 400, `${query}: ${reply.text}`);
  }
});

test("a task that has ended is tried again as a new one, and both name each other", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  const payload = { to: "nobody", text: "x".repeat(2000) };
  const fields = { command: "mail", maxAttempts: 1, priority: 2, idempotencyKey: "k", payload };
  const old = await server.leased(fields);
  await server.post(`/tasks/${old}/nack`, { reason: "no such host" }, "worker-acme");
  const changed = await replay(server, old, { payload: { to: "ada" }, priority: 9 });
  assert.equal(changed.status, 200, changed.text);
  const { task } = changed.json;
  assert.notEqual(task.id, old);
  assert.deepEqual(
    [task.replayOf, task.place, task.priority, task.maxAttempts, task.payload],
    [old, "ready", 9, 1, '{"to":"ada"}'],
  );
  const shown = await server.get(`/admin/tasks/${old}`, "admin-acme");
  assert.deepEqual([shown.json.task.place, shown.json.task.replayedAs], ["dead", task.id]);
  const moved = await replay(server, old, { command: "post", delaySeconds: 60 });
  assert.deepEqual([moved.json.task.command, moved.json.task.place], ["post", "delayed"]);
  const again = await server.get(`/admin/tasks/${moved.json.task.id}`, "admin-acme");
  assert.equal(again.json.task.payload, JSON.stringify(payload));
  assert.equal((await server.claim({ commands: ["mail"] })).id, task.id);
  server.world.crash("power");
  const next = await server.world.start();
  t.after(() => next.stop());
  assert.equal((await next.task(task.id)).replayOf, old);
  assert.equal((await next.task(old)).replayedAs, moved.json.task.id);
  // The key still stands for the first one, which can still be replayed itself.
  assert.equal((await replay(next, old)).json.task.place, "ready");
});

test("a webhook is not sent again because a task was tried again", async (t) => {
  const sent: string[] = [];
  const server = await setup(t, {
    post: (task) => {
      sent.push(task.webhook);
      return Promise.resolve(200);
    },
  });
  const id = await server.leased({ maxAttempts: 1, webhook: "http://a.example/" });
  await server.post(`/tasks/${id}/nack`, {}, "worker-acme");
  await server.clock.advance(1000);
  assert.equal(sent.length, 1);
  assert.equal((await replay(server, id, { payload: 2 })).status, 200);
  const next = await server.restart();
  t.after(() => next.stop());
  await next.clock.advance(60_000);
  assert.equal(sent.length, 1);
});

test("what cannot be tried again as a new task is refused, and nothing is made", async (t) => {
  const server = await setup(t);
  const id = await server.buried();
  const waiting = await server.create();
  const cases: [id: string, body: unknown, status: number, code: string][] = [
    [waiting, { priority: 1 }, 409, "not_ended"],
    [waiting, undefined, 409, "not_failed"],
    [id, { command: "a/b" }, 400, "invalid_command"],
    [id, { priority: 10 }, 400, "invalid_argument"],
    [id, { maxAttempts: 0 }, 400, "invalid_argument"],
    [id, { delaySeconds: -1 }, 400, "invalid_argument"],
    [id, { payload: "x".repeat(1024 * 1024) }, 413, "payload_too_large"],
    [id, { queue: "x" }, 400, "invalid_body"],
    ["00000000-0000", { priority: 1 }, 404, "not_found"],
  ];
  for (const [which, body, status, code] of cases) {
    const reply = await replay(server, which, body);
    assert.deepEqual([reply.status, reply.headers["codeq-error"]], [status, code], reply.text);
  }
  assert.equal((await server.stats()).ready, 1);
});

const triage = (server: RunningServer, id: string, body: object): Promise<Reply> =>
  server.ask(`/v1/codeq/admin/failure-groups/${id}/triage`, {
    method: "PUT",
    caller: "admin-acme",
    body,
  });

test("the trend of a group has its failures by the hour", async (t) => {
  const server = await setup(t);
  await dead(server, "mail", "timeout");
  await server.clock.advance(2 * 3_600_000);
  for (const command of ["mail", "push"]) await dead(server, command, "timeout");
  const [group] = (await groups(server)).groups;
  assert.deepEqual(group.trend, [...new Array(21).fill(0), 1, 0, 2]);
});

test("a list of more groups than an answer has goes on, and each group is complete and in one answer", async (t) => {
  const server = await setup(t, { settings: { flushBytes: 65_536 } });
  const names = Array.from({ length: 2010 }, (_, n) => {
    const letters = [n / 676, n / 26, n].map((each) => String.fromCharCode(97 + (each % 26)));
    return `no ${letters.join("")} here`;
  });
  await failMany(server, "mail", names);
  await server.clock.advance(3_600_000);
  await failMany(server, "push", names);
  await failMany(server, "rest", names.slice(0, 5));
  const { answers, found } = await allGroups(server);
  // Each of several shards has fewer counters than one answer may read.
  assert.equal(answers, server.config.shards === 1 ? 3 : 1);
  assert.deepEqual([...found.keys()].sort(), names.toSorted());
  for (const [n, name] of names.entries()) {
    const { count, trend } = found.get(name) ?? assert.fail(name);
    assert.deepEqual([count, trend.slice(-2)], n < 5 ? [3, [1, 2]] : [2, [1, 1]], name);
  }
  const { found: ofQueue } = await allGroups(server, "command=rest&");
  assert.equal(ofQueue.size, 5);
  for (const { count, trend } of ofQueue.values()) {
    assert.deepEqual([count, trend.slice(-2)], [1, [0, 1]]);
  }
});

interface Listed {
  readonly text: string;
  readonly count: number;
  readonly trend: readonly number[];
}

/** Fails when a group is in two answers. */
async function allGroups(server: RunningServer, query = "") {
  const found = new Map<string, Listed>();
  let [answers, after] = [0, ""];
  do {
    const page = await groups(server, `?${query}after=${after}`);
    for (const group of page.groups as readonly Listed[]) {
      assert.ok(!found.has(group.text), `${group.text} is in two answers`);
      found.set(group.text, group);
    }
    answers += 1;
    after = page.next ?? "";
  } while (after !== "");
  return { answers, found };
}

async function failMany(server: RunningServer, command: string, errors: readonly string[]) {
  for (let at = 0; at < errors.length; at += 250) {
    const piece = errors.slice(at, at + 250);
    const tasks = piece.map(() => ({ command, payload: {} }));
    await server.post("/tasks/batch", { tasks }, "producer-acme");
    const { json } = await server.post(
      "/tasks/claim/batch",
      { commands: [command], count: piece.length },
      "worker-acme",
    );
    assert.equal(json.tasks.length, piece.length);
    const results = piece.map((error, n) => ({
      taskId: json.tasks[n].id,
      status: "FAILED",
      error,
    }));
    await server.post("/tasks/batch/results", { results }, "worker-acme");
  }
}

test("a group is resolved, and marked when it comes back; restarts forget nothing", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  await dead(server, "mail", "timeout after 10 ms");
  const [{ id }] = (await groups(server)).groups;
  const at = "2026-01-02T03:04:05.12Z";
  const resolved = await triage(server, id, { state: "resolved", reason: "fixed" });
  const decided = { by: "boss", at, reason: "fixed" };
  assert.deepEqual(resolved.json, { id, state: "resolved", triage: decided });
  server.world.crash("power");
  const next = await server.world.start();
  t.after(() => next.stop());
  const shown = async (): Promise<unknown[]> => {
    const [group] = (await groups(next)).groups;
    return [group.state, group.triage];
  };
  assert.deepEqual(await shown(), ["resolved", decided]);
  const foreign = await next.get("/admin/failure-groups", "admin-globex");
  assert.deepEqual(foreign.json.groups, []);
  await next.clock.advance(1000);
  await dead(next, "mail", "timeout after 20 ms");
  assert.deepEqual(await shown(), ["returned", decided]);
  assert.equal((await triage(next, id, { state: "ignored" })).json.state, "ignored");
  assert.deepEqual(await shown(), ["ignored", { by: "boss", at: "2026-01-02T03:04:06.12Z" }]);
  assert.deepEqual((await triage(next, id, { state: "open" })).json, { id, state: "open" });
  assert.deepEqual(await shown(), ["open", undefined]);
});

test("a snoozed group is open again when its time is over", async (t) => {
  const server = await setup(t);
  await dead(server, "mail", "timeout");
  const [{ id }] = (await groups(server)).groups;
  const { triage: decided } = (await triage(server, id, { state: "snoozed", snoozeSeconds: 60 }))
    .json;
  assert.equal(decided.until, "2026-01-02T03:05:05.12Z");
  const state = async (): Promise<string> => (await groups(server)).groups[0].state;
  await server.clock.advance(59_999);
  assert.equal(await state(), "snoozed");
  await server.clock.advance(1);
  assert.equal(await state(), "open");
});

test("what is no decision about a group is refused", async (t) => {
  const server = await setup(t);
  const bad: readonly (readonly [string, object])[] = [
    ["no-group", { state: "resolved" }],
    ["3f2a9c1e5b7d", { state: "done" }],
    ["3f2a9c1e5b7d", { state: "snoozed" }],
    ["3f2a9c1e5b7d", { state: "resolved", snoozeSeconds: 5 }],
    ["3f2a9c1e5b7d", { state: "snoozed", snoozeSeconds: 0 }],
    ["3f2a9c1e5b7d", { state: "ignored", reason: "x".repeat(limits.reasonCharsMax + 1) }],
    ["3f2a9c1e5b7d", { state: "ignored", for: "ever" }],
  ];
  for (const [id, body] of bad) {
    assert.equal((await triage(server, id, body)).status, 400, JSON.stringify(body).slice(0, 99));
  }
});
