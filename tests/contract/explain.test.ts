/** Why a task is where it is, why a worker gets nothing, and what happened to a task before. */
import assert from "node:assert/strict";
import test from "node:test";
import { noQuotas } from "../../packages/server/src/config/quotas.ts";
import { onlyWith, type RunningServer, setup } from "./setup.ts";

// biome-ignore lint/suspicious/noExplicitAny: the explanation as it is on the wire.
async function why(server: RunningServer, id: string): Promise<any> {
  const reply = await server.get(`/tasks/${id}/explain`);
  assert.equal(reply.status, 200, reply.text);
  return reply.json;
}

// biome-ignore lint/suspicious/noExplicitAny: the explanation as it is on the wire.
async function whyNot(server: RunningServer, workerId: string): Promise<any> {
  const path = `/admin/workers/${encodeURIComponent(workerId)}/explain`;
  const reply = await server.get(path, "admin-acme");
  assert.equal(reply.status, 200, reply.text);
  return reply.json;
}

test("a task tells what holds it, wherever it is", async (t) => {
  const server = await setup(t);
  const delayed = await server.create({ command: "later", delaySeconds: 60 });
  const ready = await server.create({ command: "lonely" });
  const leased = await server.leased();
  const busy = await server.create();
  const dead = await server.buried({ command: "dead" });
  const done = await server.leased({ command: "done" });
  await server.complete(done);
  const rules: readonly (readonly [string, string, RegExp])[] = [
    [delayed, "delayed", /^it waits for its time, 2026-01-02T03:05:05.120Z$/],
    [ready, "no_worker", /^no worker is connected$/],
    [leased, "leased", /^worker-1 has it since 2026-01-02T03:04:05.120Z, until .*Z unless/],
    [busy, "workers_busy", /^workers of its queue are busy with 1 task, and none asks/],
    [dead, "dead", /^it used up its 1 attempt: broken$/],
    [done, "done", /^worker-1 completed it$/],
  ];
  for (const [id, rule, text] of rules) {
    const explained = await why(server, id);
    assert.equal(explained.rule, rule);
    assert.match(explained.why, text);
  }
  assert.equal((await why(server, delayed)).dueAt, "2026-01-02T03:05:05.12Z");
  assert.equal((await server.get(`/tasks/${ready.replace(/.$/, "0")}/explain`)).status, 404);
});

test("an operator gets the explanation of another tenant's task, also by a part of its id", async (t) => {
  const server = await setup(t);
  const id = await server.create({ command: "lonely" });
  const path = `/admin/tasks/${id.slice(-8)}/explain`;
  const asked = await server.get(`${path}?tenant=acme`, "operator");
  assert.deepEqual([asked.status, asked.json.taskId, asked.json.rule], [200, id, "no_worker"]);
  assert.deepEqual((await server.get(path, "admin-acme")).json, asked.json);
  assert.equal((await server.get(path, "operator")).status, 404);
  assert.equal((await server.get(path, "admin-globex")).status, 404);
  assert.equal((await server.get("/admin/tasks/abc/explain", "admin-acme")).status, 400);
});

test("a paused queue, a quota and workers for other commands hold a ready task", async (t) => {
  const quotas = { ...noQuotas, default: { ...noQuotas.default, concurrentLeases: 1 } };
  const server = await setup(t, { settings: { quotas } });
  const id = await server.create();
  await server.post("/admin/queues/render/pause", { reason: "repairs" }, "admin-acme");
  const paused = await why(server, id);
  assert.equal(paused.rule, "paused");
  assert.match(paused.why, /^\S+ paused its queue at 2026-01-02T03:04:05.120Z: repairs$/);
  assert.equal(paused.paused.reason, "repairs");
  await server.post("/admin/queues/render/resume", undefined, "admin-acme");
  const waiting = server.claim({ commands: ["other"], waitSeconds: 10 });
  await server.untilWaiting(1);
  const unwanted = await why(server, id);
  assert.equal(unwanted.rule, "no_worker_for_command");
  assert.deepEqual(unwanted.workers, { asking: 0, connected: 1 });
  await server.create({ command: "other" });
  await waiting;
  const full = await why(server, id);
  assert.equal(full.rule, "lease_quota");
  assert.equal(full.why, "its tenant has 1 lease of the 1 that it may have");
});

test(
  "what is ahead is counted by priority and age, in memory and on disk",
  onlyWith.order,
  async (t) => {
    const server = await setup(t);
    const tasks = Array.from({ length: 6000 }, () => ({ command: "render", payload: 1 }));
    for (let at = 0; at < tasks.length; at += 1000) {
      await server.post("/tasks/batch", { tasks: tasks.slice(at, at + 1000) }, "producer-acme");
    }
    const last = await server.create();
    await server.create({ priority: 5 });
    const asked = await why(server, last);
    assert.deepEqual(asked.ahead, { higher: 1, older: 6000, isAtLeast: false });
    const gone = (await server.claim()).id;
    assert.equal((await why(server, gone)).ahead, undefined);
    const next = await server.restart();
    t.after(() => next.stop());
    assert.deepEqual((await why(next, last)).ahead, { higher: 0, older: 6000, isAtLeast: false });
  },
);

test(
  "when a task begins follows from how fast its queue is worked on",
  onlyWith.order,
  async (t) => {
    const server = await setup(t);
    const ids: string[] = [];
    for (let n = 0; n < 300; n++) ids.push(await server.create());
    for (let n = 0; n < 150; n++) {
      const { id } = await server.claim();
      await server.clock.advance(1000);
      await server.complete(id);
    }
    await server.claim();
    const asked = await why(server, ids[299] ?? "");
    assert.equal(asked.rule, "workers_busy");
    assert.ok(asked.queue.endedPerMinute > 55 && asked.queue.endedPerMinute < 65);
    assert.deepEqual(asked.ahead, { higher: 0, older: 148, isAtLeast: false });
    const { fromSeconds, toSeconds } = asked.startsIn;
    assert.ok(fromSeconds > 130 && fromSeconds <= 160 && toSeconds >= 140 && toSeconds < 180);
  },
);

test("a worker tells what it waits for, and what its queues have", async (t) => {
  const server = await setup(t);
  await server.create({ command: "later", delaySeconds: 60 });
  await server.create({ command: "paused" });
  await server.post("/admin/queues/paused/pause", { reason: "x" }, "admin-acme");
  const reply = await server.get("/admin/workers/worker-1/explain", "admin-acme");
  assert.deepEqual([reply.status, reply.headers["codeq-error"]], [404, "worker_not_found"]);
  const named = server.claim({ commands: ["later", "empty"], waitSeconds: 10 });
  await server.untilWaiting(1);
  const asked = await whyNot(server, "worker-1");
  assert.deepEqual([asked.rule, asked.claims, asked.asksFor], ["no_work", 1, ["later", "empty"]]);
  assert.match(asked.why, /^no task is ready in the queues that it asks for; 1 task due later/);
  assert.deepEqual(
    asked.queues.map(({ command, rule }: { command: string; rule: string }) => [command, rule]),
    [
      ["later", "delayed"],
      ["empty", "empty"],
    ],
  );
  const any = server.claim({ waitSeconds: 10 });
  await server.untilWaiting(2);
  const all = await whyNot(server, "worker-1");
  assert.deepEqual([all.rule, all.claims, all.asksFor], ["paused", 2, "all"]);
  await server.create({ command: "empty" });
  await server.create({ command: "empty" });
  await Promise.all([named, any]);
  const busy = await whyNot(server, "worker-1");
  assert.deepEqual([busy.rule, busy.leases], ["not_asking", 2]);
  assert.equal(busy.why, "no claim of it waits for tasks; it is busy with 2 tasks");
});

test("every attempt of a task is kept: who, when, how it ended, and the delay", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  const id = await server.create({ maxAttempts: 4 });
  const act = (verb: string, body: object) =>
    server.post(`/tasks/${id}/${verb}`, body, "worker-acme");
  assert.equal((await server.task(id)).attemptHistory, undefined);
  await server.claim();
  await server.clock.advance(1000);
  await act("heartbeat", {});
  await server.clock.advance(1000);
  await act("nack", { delaySeconds: 5, reason: "jam" });
  await server.clock.advance(5100);
  await server.claim();
  await act("abandon", { interrupted: true });
  await server.claim();
  server.world.crash("power");
  const next = await server.world.start();
  t.after(() => next.stop());
  const { attemptHistory } = await next.task(id);
  const first = { workerId: "worker-1", leaseToken: 1, startedAt: "2026-01-02T03:04:05.12Z" };
  assert.deepEqual(attemptHistory[0], {
    ...first,
    endedAt: "2026-01-02T03:04:07.12Z",
    outcome: "nacked",
    error: "jam",
    delaySeconds: 5,
  });
  const outcomes = attemptHistory.map(({ outcome }: { outcome: string }) => outcome);
  assert.deepEqual(outcomes, ["nacked", "interrupted", "running"]);
  await next.complete(id);
  const shown = await next.get(`/admin/tasks/${id}`, "admin-acme");
  assert.equal(shown.json.task.attemptHistory.at(-1).outcome, "completed");
});

test("the last twenty attempts are kept, and the others counted", async (t) => {
  const server = await setup(t);
  const id = await server.create({ maxAttempts: 100 });
  for (let n = 0; n < 25; n++) {
    await server.claim();
    await server.post(`/tasks/${id}/abandon`, {}, "worker-acme");
  }
  const { attemptHistory, attemptsOmitted } = await server.task(id);
  assert.deepEqual([attemptHistory.length, attemptsOmitted], [20, 5]);
  assert.equal(attemptHistory[0].leaseToken, 6);
});

test("a topic that allows no more holds its ready tasks, for tasks and for workers", async (t) => {
  const server = await setup(t);
  const body = { priorityTiers: [0], maxAttempts: 1, maxConsumers: 2 };
  await server.ask("/v1/codeq/admin/topics/mail", { method: "PUT", caller: "admin-acme", body });
  const ids: string[] = [];
  for (let n = 0; n < 6; n++) ids.push(await server.create({ command: "mail" }));
  const one = await server.claim({ commands: ["mail"] });
  await server.claim({ commands: ["mail"] });
  const waiting = server.claim({ commands: ["mail"], waitSeconds: 10 });
  await server.untilWaiting(1);
  const rules: string[] = [];
  for (const id of ids) rules.push((await why(server, id)).rule);
  const held = Array.from({ length: 4 }, () => "topic_limit");
  assert.deepEqual(rules.sort(), ["leased", "leased", ...held]);
  const asked = await whyNot(server, "worker-1");
  assert.deepEqual([asked.rule, asked.queues[0].rule], ["topic_limit", "topic_limit"]);
  assert.equal(asked.why, "tasks are ready, but as many are under way as the topics allow: mail");
  await server.complete(one.id);
  assert.ok(await waiting);
  await server.post("/admin/queues/mail/pause", { reason: "x" }, "admin-acme");
  const left = (await server.get("/admin/tasks?place=ready&command=mail", "admin-acme")).json;
  assert.equal((await why(server, left.tasks[0].id)).rule, "paused");
});
