import assert from "node:assert/strict";
import { test } from "node:test";
import { type CodeqError, Permanent, type TaskFailedError, task } from "../index.ts";
import { type TestServer, testServer } from "../test-server/index.ts";

const mail = task<{ readonly to: string }>("mail", { retry: { maxAttempts: 1 } });

/** A server with so many dead letters of the same name. */
async function setup(count: number): Promise<{ server: TestServer; ids: string[] }> {
  const server = await testServer();
  const worker = server.client.worker(
    mail.handle(() => {
      throw new Error("no such host");
    }),
  );
  const items = Array.from({ length: count }, (_, n) => ({ input: { to: `user-${n}` } }));
  const runs = await server.client.enqueueMany(mail, items);
  await server.runUntilIdle();
  await worker.close();
  return { server, ids: runs.map(({ id }) => id) };
}

test("tasks are found by a filter, over as many pages as there are", async () => {
  const { server, ids } = await setup(5);
  await using _ = server;
  const { admin } = server.client;
  const found: string[] = [];
  const filter = { place: "dead", command: "MAIL", error: "HOST" } as const;
  for await (const { id } of admin.tasks(filter, { order: "oldest", limit: 2 })) found.push(id);
  assert.deepEqual(found, ids);
  const page = await admin.findTasks({ payload: "to:user-3", createdAfter: new Date(0) });
  assert.deepEqual(
    page.tasks.map(({ id }) => id),
    [ids[3]],
  );
  assert.equal((await admin.findTasks({ place: "dead" }, { limit: 1 })).total, 5);
});

test("keys are made, rotated and revoked, and the audit trail tells of them", async () => {
  await using server = await testServer();
  const { admin } = server.client;
  const made = await admin.keys.create({ name: "shop", scopes: ["codeq:create"] });
  const rotated = await admin.keys.rotate(made.id);
  assert.deepEqual([rotated.name, rotated.scopes], [made.name, made.scopes]);
  await admin.keys.revoke(made.id);
  const listed = async (all: AsyncIterable<unknown>): Promise<unknown[]> => {
    const found: unknown[] = [];
    for await (const each of all) found.push(each);
    return found;
  };
  const keys = (await listed(admin.keys.list())) as (typeof made)[];
  assert.deepEqual(
    keys.map(({ id }) => id),
    [rotated.id],
  );
  const records = await listed(admin.audit({ action: "revoke_api_key", from: new Date(0) }));
  assert.equal((records[0] as { target: string }).target, made.id);
  assert.deepEqual(await listed(admin.workers()), []);
  const refused = (error: CodeqError): boolean => error.code === "operator_only";
  await assert.rejects(listed(admin.tenants()), refused);
});

test("a dead letter is looked at, replayed, and done", async () => {
  const { server, ids } = await setup(1);
  await using _ = server;
  const { admin } = server.client;
  const [id = ""] = ids;
  const { task: dead, result } = await admin.task(id.slice(-8));
  assert.deepEqual([dead.id, dead.place, dead.payload], [id, "dead", '{"to":"user-0"}']);
  assert.deepEqual([result?.status, result?.error], ["FAILED", dead.error]);
  const again = await admin.replay(id);
  assert.deepEqual([again.place, again.replays], ["ready", 1]);
  server.client.worker(mail.handle(() => undefined));
  await server.runUntilIdle();
  assert.equal(await server.client.run(mail, id).result(), undefined);
});

test("dead letters are replayed and deleted by ids, by a filter, or all", async () => {
  const { server, ids } = await setup(4);
  await using _ = server;
  const { admin } = server.client;
  const done = { failed: [], hasMore: false };
  const dry = await admin.replayDeadLetters({ error: "host" }, { dryRun: true });
  assert.deepEqual(dry, { ...done, matched: 4, changed: 0 });
  const replayed = await admin.replayDeadLetters({ ids: ids.slice(0, 1) });
  assert.deepEqual(replayed, { ...done, matched: 1, changed: 1 });
  const deleted = await admin.deleteDeadLetters({ command: "mail" }, { limit: 2 });
  assert.deepEqual(deleted, { failed: [], hasMore: true, matched: 2, changed: 2 });
  const purged = await admin.deleteDeadLetters({ all: true });
  assert.deepEqual(purged, { ...done, matched: 1, changed: 1 });
  assert.deepEqual(server.counts(mail), { ready: 1, delayed: 0, leased: 0, dead: 0 });
});

test("a task that ended is deleted, and what cannot be done is refused with a code", async () => {
  await using server = await testServer();
  const { admin } = server.client;
  const worker = server.client.worker(
    mail.handle(() => {
      throw new Permanent("unknown address");
    }),
  );
  const { id } = await server.client.enqueue(mail, { to: "ada" });
  await server.runUntilIdle();
  await worker.close();
  const [failed] = (await admin.findTasks({ place: "failed" })).tasks;
  assert.equal(failed?.id, id);
  await admin.deleteTask(id);
  await assert.rejects(admin.task(id), (error: CodeqError) => error.code === "not_found");
  const waiting = await server.client.enqueue(mail, { to: "ada" });
  await assert.rejects(
    admin.replay(waiting.id),
    (error: CodeqError) => error.code === "not_failed",
  );
  await assert.rejects(
    admin.deleteTask(waiting.id),
    (error: CodeqError) => error.code === "not_ended",
  );
  await assert.rejects(
    admin.findTasks({ error: "" }),
    (error: CodeqError) => error.code === "invalid_argument",
  );
});

test("a paused queue stands still until it is resumed", async () => {
  await using server = await testServer();
  const { admin } = server.client;
  const { by, reason } = await admin.pause("Mail", { reason: "maintenance" });
  assert.deepEqual([by, reason], ["static", "maintenance"]);
  assert.deepEqual(
    (await admin.pauses()).map(({ command }) => command),
    ["mail"],
  );
  const done: string[] = [];
  server.client.worker(mail.handle(({ to }) => void done.push(to)));
  await server.client.enqueue(mail, { to: "ada" });
  await server.advance("1m");
  assert.deepEqual(done, []);
  await admin.resume("mail");
  await server.runUntilIdle();
  assert.deepEqual(done, ["ada"]);
  assert.deepEqual(await admin.pauses(), []);
});

test("a task that waits is cancelled, and its producer is told why", async () => {
  await using server = await testServer();
  const run = await server.client.enqueue(mail, { to: "ada" });
  await run.cancel();
  await assert.rejects(
    run.result(),
    (error: TaskFailedError) => error.code === "task_failed" && error.reason === "CANCELLED",
  );
  await assert.rejects(run.cancel(), (error: CodeqError) => error.code === "has_ended");
  const other = await server.client.enqueue(mail, { to: "bob" });
  const cancelled = await server.client.admin.cancel(other.id.slice(-8));
  assert.deepEqual([cancelled.place, cancelled.error], ["cancelled", "CANCELLED"]);
});

test("a handler is told over its stream at once, and what it throws ends the task", async () => {
  await using server = await testServer();
  const started = Promise.withResolvers<AbortSignal>();
  server.client.worker(
    mail.handle(async (_input, { signal }) => {
      started.resolve(signal);
      await new Promise<void>((resolve) => {
        signal.addEventListener("abort", () => resolve(), { once: true });
      });
      throw signal.reason;
    }),
  );
  const run = await server.client.enqueue(mail, { to: "ada" });
  const signal = await started.promise;
  await run.cancel({ grace: "10m" });
  await assert.rejects(run.result(), (error: TaskFailedError) => error.reason === "CANCELLED");
  assert.equal((signal.reason as CodeqError).code, "task_cancelled");
  assert.deepEqual(server.counts(mail), { ready: 0, delayed: 0, leased: 0, dead: 0 });
});

test("a handler that does not stop loses its task when the grace is over", async () => {
  await using server = await testServer();
  const started = Promise.withResolvers<void>();
  const going = Promise.withResolvers<void>();
  const worker = server.client.worker(
    mail.handle(async () => {
      started.resolve();
      await going.promise;
    }),
  );
  const run = await server.client.enqueue(mail, { to: "ada" });
  await started.promise;
  await run.cancel({ grace: "5s" });
  await server.advance("4s");
  assert.equal(server.counts(mail).leased, 1);
  await server.advance("2s");
  assert.equal(server.counts(mail).leased, 0);
  await assert.rejects(run.result(), (error: TaskFailedError) => error.reason === "CANCELLED");
  going.resolve();
  await worker.close();
});

test("a task that waits is edited, moved and run, and its producer sees where it is", async () => {
  await using server = await testServer();
  const { admin } = server.client;
  const options = { delay: "1h", tags: ["vip"], idempotencyKey: "k" } as const;
  const run = await server.client.enqueue(mail, { to: "ada" }, options);
  assert.deepEqual((await run.status()).tags, ["vip"]);
  const later = await admin.reschedule(run.id, { delay: "2h" });
  assert.deepEqual(
    [later.place, Date.parse(later.dueAt ?? "") - server.now.getTime()],
    ["delayed", 7_200_000],
  );
  await admin.reschedule(run.id, new Date(server.now.getTime() + 60_000));
  const edited = await admin.edit(run.id, { priority: 4, payload: { to: "bob" } });
  assert.deepEqual([edited.priority, edited.payload], [4, '{"to":"bob"}']);
  assert.equal((await admin.move(run.id, "post")).command, "post");
  assert.equal((await admin.runNow(run.id)).place, "ready");
  const post = task<{ readonly to: string }, { readonly tags: readonly string[] }>("post");
  server.client.worker(post.handle(({ to }, { tags }) => ({ tags: [...tags, to] })));
  await server.runUntilIdle();
  assert.deepEqual(await server.client.run(post, run.id).result(), { tags: ["vip", "bob"] });
  assert.deepEqual(
    [(await run.status()).status, (await run.status()).command],
    ["COMPLETED", "post"],
  );
  await assert.rejects(admin.runNow(run.id), (error: CodeqError) => error.code === "not_waiting");
  assert.equal((await admin.findTasks({ tag: "vip" })).tasks.length, 1);
  await assert.rejects(
    server.client.enqueue(mail, { to: "ada" }, { tags: ["a b"] }),
    (error: CodeqError) => error.code === "invalid_option",
  );
});

test("a queue with a topic has its policy, until the topic is deleted", async () => {
  await using server = await testServer();
  const { admin } = server.client;
  const made = await admin.putTopic("mail", { priorityTiers: [0, 5], maxAttempts: 7 });
  assert.deepEqual([made.version, made.policy.maxAttempts], [1, 7]);
  const greet = task("mail");
  const { id } = await server.client.enqueue(greet, undefined);
  assert.equal((await admin.task(id)).task.maxAttempts, 7);
  const changed = await admin.putTopic("mail", { ...made.policy, maxConsumers: 2 });
  assert.equal(changed.version, 2);
  assert.deepEqual(await admin.topic("mail"), changed);
  const names: string[] = [];
  for await (const { topicName } of admin.topics()) names.push(topicName);
  assert.deepEqual(names, ["mail"]);
  await admin.deleteTopic("mail");
  await assert.rejects(
    admin.topic("mail"),
    (error: CodeqError) => error.code === "topic_not_found",
  );
  await assert.rejects(
    admin.putTopic("mail", { priorityTiers: [], maxAttempts: 1 }),
    (error: CodeqError) => error.code === "invalid_topic",
  );
});

test("a run tells why it waits and who had it, and a worker why it gets nothing", async () => {
  await using server = await testServer();
  const run = await server.client.enqueue(mail, { to: "ada" });
  const { rule, ahead } = await run.explain();
  assert.deepEqual([rule, ahead], ["no_worker", { higher: 0, older: 0, isAtLeast: false }]);
  const worker = server.client.worker(
    mail.handle(() => undefined),
    { name: "w" },
  );
  await server.runUntilIdle();
  assert.equal((await run.explain()).rule, "done");
  const [attempt] = (await run.status()).attemptHistory ?? [];
  assert.equal(attempt?.outcome, "completed");
  const { task: shown } = await server.client.admin.task(run.id);
  assert.deepEqual(shown.attemptHistory, [attempt]);
  const explained = await server.client.admin.explainTask(run.id.slice(-8));
  assert.deepEqual([explained.taskId, explained.rule], [run.id, "done"]);
  const idle = await server.client.admin.explainWorker(attempt?.workerId ?? "");
  assert.deepEqual([idle.rule, idle.asksFor, idle.streams], ["no_work", ["mail"], 1]);
  await worker.close();
});

async function all<T>(from: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const each of from) found.push(each);
  return found;
}

test("what a handler says is shown with the task, and its producer hears it", async () => {
  await using server = await testServer();
  const going = Promise.withResolvers<void>();
  const started = Promise.withResolvers<void>();
  server.client.worker(
    mail.handle(async (_input, ctx) => {
      ctx.progress(0.25, "letters");
      ctx.log("dear Ada");
      started.resolve();
      await going.promise;
      ctx.progress(1);
      ctx.log("yours");
    }),
  );
  const run = await server.client.enqueue(mail, { to: "ada" });
  await started.promise;
  await server.advance("2s");
  const { progress, logs } = await run.status();
  assert.deepEqual([progress?.percent, progress?.text], [25, "letters"]);
  assert.deepEqual(
    logs?.map(({ text }) => text),
    ["dear Ada"],
  );
  const updates = all(run.events());
  await server.advance("1s");
  going.resolve();
  await server.runUntilIdle();
  const [first, ...rest] = await updates;
  assert.equal(first?.event === "task" && first.task.id, run.id);
  assert.deepEqual(
    rest.map(({ event }) => event),
    ["progress", "log", "completed", "result"],
  );
  const last = rest.at(-1);
  assert.ok(last?.event === "result");
  assert.deepEqual([last.taskId, last.status], [run.id, "COMPLETED"]);
  assert.equal((await run.status()).progress?.percent, 100);
});

test("a closed client asks nothing, and what it followed has ended", async () => {
  await using server = await testServer();
  const client = server.newClient();
  const run = await client.enqueue(mail, { to: "ada" });
  const ended = assert.rejects(all(run.events()), { name: "CodeqError", code: "closed" });
  await client.close();
  await ended;
  await assert.rejects(all(run.events()), { code: "closed" });
  await assert.rejects(client.admin.findTasks(), (error: CodeqError) => error.code === "closed");
});

test("queues are shown with rates and totals, and what happened by the minute", async () => {
  await using server = await testServer();
  await server.client.enqueue(mail, { to: "ada" });
  await server.client.enqueue(mail, { to: "bob" });
  const { queues, totals } = await server.client.admin.queues();
  const [shown] = queues;
  assert.deepEqual([shown?.command, shown?.ready, shown?.failed], ["mail", 2, 0]);
  assert.equal(shown?.rates.enqueued, 0.033);
  assert.deepEqual([totals.queues, totals.ready], [1, 2]);
  await server.advance("1m");
  for (const options of [{}, { command: "Mail" }]) {
    const { points, resolution } = await server.client.admin.series(options);
    assert.deepEqual([resolution, points.length, points[0]?.enqueued], ["minute", 1, 2]);
  }
  assert.deepEqual((await server.client.admin.series({ resolution: "hour" })).points, []);
  const trends = await server.client.admin.trends(["Mail", "other"], { last: 3 });
  const of = trends.queues.map(({ command, enqueued }) => [command, enqueued]);
  assert.deepEqual(of, [
    ["mail", [0, 0, 2]],
    ["other", [0, 0, 0]],
  ]);
  await assert.rejects(server.client.admin.trends([], { last: 61 }), /1 to 60/);
  await assert.rejects(server.client.admin.trends(Array(101).fill("a")), /at most 100 queues/);
  await assert.rejects(server.client.admin.trends(["a b"]), { code: "invalid_command" });
});

test("administrators see what became of webhooks, send them again, and change the secret", async () => {
  await using server = await testServer();
  const { webhooks } = server.client.admin;
  server.client.worker(mail.handle(() => undefined));
  const webhook = "https://example.com/mailed";
  const { id } = await server.client.enqueue(mail, { to: "ada" }, { webhook });
  await server.runUntilIdle();
  const log = await webhooks.deliveries(id.slice(-8));
  assert.deepEqual([log.state, log.url, log.total], ["delivered", webhook, 1]);
  assert.equal((await webhooks.redeliver(id)).taskId, id);
  await server.runUntilIdle();
  assert.equal((await webhooks.deliveries(id)).total, 2);
  assert.equal(server.webhooks.length, 2);
  const since = new Date(0);
  const none = { matched: 0, redelivered: 0, failed: [], hasMore: false };
  assert.deepEqual(await webhooks.redeliverFailed({ since }), none);
  for await (const each of webhooks.failed({ since })) assert.fail(each.taskId);
  assert.deepEqual(await webhooks.endpoints(), []);
  await assert.rejects(webhooks.enable(webhook), { code: "endpoint_not_found" });
  const created = await webhooks.rotateSecret({ overlap: "1h" });
  assert.match(created.secret, /^whsec_/);
  const [newest, before] = await webhooks.secrets();
  assert.deepEqual([newest?.id, before?.id], [created.id, "configuration"]);
  await webhooks.revokeSecret(created.id);
  assert.deepEqual(await webhooks.secrets(), []);
});

test("failures are grouped, and a task is tried again as a new one", async () => {
  await using server = await testServer();
  const worker = server.client.worker(
    mail.handle(({ to }) => Promise.reject(new Permanent(`no such user: "${to}"`))),
  );
  const runs = [await server.client.enqueue(mail, { to: "ada" })];
  runs.push(await server.client.enqueue(mail, { to: "bob" }));
  for (const run of runs) await assert.rejects(run.result());
  await worker.close();
  const [group, ...others] = await server.client.admin.failureGroups({ command: "mail" });
  assert.deepEqual([group?.text, group?.count, others.length], ["no such user: <text>", 2, 0]);
  assert.deepEqual([group?.state, group?.trend.at(-1)], ["open", 2]);
  await server.client.admin.triage(group?.id ?? "", { state: "resolved", reason: "fixed" });
  const [resolved] = await server.client.admin.failureGroups({ command: "mail" });
  assert.deepEqual([resolved?.state, resolved?.triage?.reason], ["resolved", "fixed"]);
  const [run] = runs;
  const made = await server.client.admin.replay(run?.id ?? "", { payload: { to: "eve" } });
  assert.deepEqual([made.replayOf, made.payload], [run?.id, '{"to":"eve"}']);
  const old = await server.client.admin.task(run?.id ?? "");
  assert.equal(old.task.replayedAs, made.id);
});

test("a job replays dead letters, and can be looked at, paused and aborted", async () => {
  await using server = await testServer();
  const worker = server.client.worker(mail.handle(() => Promise.reject(new Error("no such host"))));
  const run = await server.client.enqueue(mail, { to: "ada" }, { maxAttempts: 1 });
  await assert.rejects(run.result());
  await worker.close();
  const options = { action: "replay", filter: { command: "mail" } } as const;
  assert.equal(await server.client.admin.countJob(options), 1);
  const { id, state } = await server.client.admin.startJob({ ...options, canary: { first: 1 } });
  assert.equal(state, "running");
  await server.advance("1s");
  const watched = await server.client.admin.job(id);
  assert.deepEqual([watched.changed, watched.canary?.stage?.waiting], [1, 1]);
  assert.equal((await server.client.admin.pauseJob(id)).state, "paused");
  assert.equal((await server.client.admin.resumeJob(id)).state, "running");
  assert.equal((await server.client.admin.abortJob(id)).state, "aborted");
  const jobs = await server.client.admin.jobs();
  assert.deepEqual([jobs.length, jobs[0]?.id], [1, id]);
  const move = { action: "move", moveTo: "post", all: true } as const;
  assert.equal((await server.client.admin.startJob(move)).moveTo, "post");
});

test("all subscriptions of the tenant are made, renewed, listed and deleted", async () => {
  await using server = await testServer();
  const { subscriptions } = server.client.admin;
  const { id } = await subscriptions.create({ url: "https://worker.example.com/wake" });
  const { expiresAt } = await subscriptions.renew(id, { ttl: "1h" });
  const listed = [];
  for await (const each of subscriptions.list()) listed.push(each);
  assert.deepEqual(
    listed.map((each) => [each.id, each.tasks, each.expiresAt]),
    [[id, ["*"], expiresAt]],
  );
  assert.deepEqual(await subscriptions.get(id), listed[0]);
  await subscriptions.delete(id);
  for await (const left of subscriptions.list()) assert.fail(left.id);
});
