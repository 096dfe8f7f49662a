/** Bulk jobs: what they change, how they are held up, and that nothing is changed twice. */
import assert from "node:assert/strict";
import test from "node:test";
import { noQuotas } from "../../packages/server/src/config/quotas.ts";
import { type Reply, type RunningServer, setup } from "./setup.ts";

const start = (server: RunningServer, body: unknown): Promise<Reply> =>
  server.post("/admin/jobs", body, "admin-acme");

// biome-ignore lint/suspicious/noExplicitAny: the job as it is on the wire.
async function begun(server: RunningServer, body: unknown): Promise<any> {
  const reply = await start(server, body);
  assert.equal(reply.status, 201, reply.text);
  return reply.json;
}

// biome-ignore lint/suspicious/noExplicitAny: the job as it is on the wire.
async function job(server: RunningServer, id: string): Promise<any> {
  return (await server.get(`/admin/jobs/${id}`, "admin-acme")).json;
}

const set = (server: RunningServer, id: string, verb: string): Promise<Reply> =>
  server.post(`/admin/jobs/${id}/${verb}`, undefined, "admin-acme");

/** Lets the clock run until the job is in one of these states. */
// biome-ignore lint/suspicious/noExplicitAny: the job as it is on the wire.
async function untilIn(server: RunningServer, id: string, ...states: string[]): Promise<any> {
  for (let second = 0; second < 100; second++) {
    const found = await job(server, id);
    if (states.includes(found.state)) return found;
    await server.clock.advance(1000);
  }
  assert.fail(`the job is ${JSON.stringify(await job(server, id))}`);
}

async function buryMany(server: RunningServer, count: number, command = "mail"): Promise<string[]> {
  const ids: string[] = [];
  for (let n = 0; n < count; n++) ids.push(await server.buried({ command }));
  return ids;
}

/** Runs a function once, when a job is about to change the first of these tasks. */
function beforeActs(
  { core: { broker } }: RunningServer,
  ids: readonly string[],
  run: () => Promise<void>,
): void {
  const act = broker.act.bind(broker);
  let ran: Promise<void> | undefined;
  broker.act = async (of, action) => {
    if (ids.includes(of.id)) {
      ran ??= run();
      await ran;
    }
    return act(of, action);
  };
}

async function workOff(server: RunningServer, command: string, count: number): Promise<void> {
  for (let n = 0; n < count; n++) {
    await server.complete((await server.claim({ commands: [command] })).id);
  }
}

test("a job knows its total before it changes a task, from counters or by reading", async (t) => {
  const server = await setup(t);
  await buryMany(server, 3);
  await buryMany(server, 2, "other");
  const { groups } = (await server.get("/admin/failure-groups", "admin-acme")).json;
  const total = async (fields: object): Promise<number> => {
    const { id } = await begun(server, { action: "replay", ratePerSecond: 1, ...fields });
    const seen: number[] = [];
    for (;;) {
      const job = (await server.get(`/admin/jobs/${id}`, "admin-acme")).json;
      if (job.total === undefined) assert.equal(job.matched, 0);
      else seen.push(job.total);
      if (job.total !== undefined) break;
      await server.clock.advance(10);
    }
    await server.post(`/admin/jobs/${id}/abort`, {}, "admin-acme");
    return seen[0] as number;
  };
  assert.equal(await total({ all: true }), 5);
  const [group] = groups;
  await buryMany(server, 1);
  const both = { group: group.id };
  const dry = await start(server, { action: "delete", ...both, dryRun: true });
  const counted = (await server.get(`/admin/failure-groups?group=${group.id}`, "admin-acme")).json;
  assert.equal(dry.json.matched, counted.groups[0].count);
  assert.equal(await total(both), counted.groups[0].count);
  assert.equal(await total({ error: "no such error" }), 0);
  const refused = await start(server, { action: "replay", all: true, after: "x" });
  assert.equal(refused.status, 400);
});

test("a job replays what matches, and leaves a record of it", async (t) => {
  const server = await setup(t);
  await buryMany(server, 5);
  await buryMany(server, 2, "other");
  const dry = await start(server, { action: "replay", command: "mail", dryRun: true });
  assert.deepEqual([dry.status, dry.json], [200, { matched: 5, hasMore: false }]);
  const { id, state, filter, by, total, etaSeconds } = await begun(server, {
    action: "replay",
    command: "mail",
    ratePerSecond: 1,
  });
  assert.deepEqual([state, filter, by], ["running", { command: "mail" }, "boss"]);
  assert.deepEqual([total, etaSeconds], [5, 5]);
  const done = await untilIn(server, id, "done");
  assert.deepEqual([done.matched, done.changed, done.failed, done.failures], [5, 5, 0, []]);
  assert.deepEqual([(await server.stats("mail")).ready, (await server.stats("other")).dlq], [5, 2]);
  const { jobs } = (await server.get("/admin/jobs", "admin-acme")).json;
  assert.deepEqual(jobs, [done]);
  const { records } = (await server.get("/admin/audit", "admin-acme")).json;
  const told = records.map((record: { action: string }) => record.action);
  assert.deepEqual(told, ["end_job", "create_job", "create_job"]);
  assert.match(records[0].detail, /^done, 5 of 5 tasks$/);
});

test("a job is held back by its rate, paused, resumed and aborted", async (t) => {
  const server = await setup(t);
  await buryMany(server, 30);
  const { id } = await begun(server, { action: "delete", all: true, ratePerSecond: 5 });
  await server.clock.advance(1500);
  const early = await job(server, id);
  assert.ok(early.changed >= 5 && early.changed <= 15, JSON.stringify(early));
  const paused = await set(server, id, "pause");
  assert.deepEqual([paused.json.state, paused.json.reason], ["paused", undefined]);
  const { changed } = await job(server, id);
  await server.clock.advance(10_000);
  assert.equal((await job(server, id)).changed, changed);
  const next = await server.restart();
  t.after(() => next.stop());
  await next.clock.advance(10_000);
  assert.equal((await job(next, id)).changed, changed);
  assert.equal((await set(next, id, "resume")).json.state, "running");
  await next.clock.advance(1500);
  assert.ok((await job(next, id)).changed > changed);
  const aborted = await set(next, id, "abort");
  assert.equal(aborted.json.state, "aborted");
  await next.clock.advance(10_000);
  assert.equal((await next.stats("mail")).dlq, 30 - (await job(next, id)).changed);
  for (const verb of ["pause", "resume", "abort"]) {
    const reply = await set(next, id, verb);
    assert.deepEqual([reply.status, reply.headers["codeq-error"]], [409, "job_has_ended"]);
  }
});

test("a job goes on after a power failure, and replays no task twice", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  const ids = await buryMany(server, 12);
  const { id } = await begun(server, { action: "replay", all: true, ratePerSecond: 4 });
  for (let n = 0; n < 50 && (await server.stats("mail")).ready < 4; n++) {
    await server.clock.advance(1);
  }
  server.world.crash("power");
  const next = await server.world.start();
  t.after(() => next.stop());
  // What it has replayed dies again, and would match again.
  for (let count = (await next.stats("mail")).ready; count > 0; count--) {
    const task = await next.claim({ commands: ["mail"] });
    await next.post(`/tasks/${task.id}/nack`, {}, "worker-acme");
  }
  const done = await untilIn(next, id, "done");
  assert.equal(done.changed, 12, JSON.stringify(done));
  for (const each of ids) assert.equal((await next.task(each)).replays, 1);
});

test("waiting and running tasks are cancelled, and those that have ended are left alone", async (t) => {
  const server = await setup(t);
  await server.complete(await server.leased({ command: "mail" }));
  const leased = await server.leased({ command: "mail" });
  await server.create({ command: "mail" });
  await server.create({ command: "mail", delaySeconds: 1000 });
  const { id } = await begun(server, { action: "cancel", command: "mail", graceSeconds: 0 });
  const done = await untilIn(server, id, "done");
  assert.deepEqual([done.matched, done.changed, done.failed], [3, 3, 0]);
  assert.equal((await server.task(leased)).error, "CANCELLED");
  // Tasks that were created later are not meant.
  await server.create({ command: "mail" });
  await server.clock.advance(5000);
  assert.equal((await server.stats("mail")).ready, 1);
});

test("waiting tasks are moved to another queue, and those that run or have ended are left alone", async (t) => {
  const server = await setup(t);
  await server.complete(await server.leased({ command: "mail" }));
  const leased = await server.leased({ command: "mail" });
  const ready = await server.create({ command: "Mail", priority: 3, tags: ["vip"] });
  const delayed = await server.create({ command: "mail", delaySeconds: 1000 });
  await server.create({ command: "post" });
  const move = { action: "move", moveTo: "Post" };
  const dry = await start(server, { ...move, all: true, dryRun: true });
  assert.deepEqual(dry.json, { matched: 2, hasMore: false });
  const { id, moveTo } = await begun(server, { ...move, command: "mail" });
  assert.equal(moveTo, "Post");
  const done = await untilIn(server, id, "done");
  assert.deepEqual([done.matched, done.changed, done.failed], [2, 2, 0]);
  const moved = await server.task(ready);
  assert.deepEqual([moved.command, moved.priority, moved.tags], ["Post", 3, ["vip"]]);
  assert.equal((await server.task(delayed)).lastKnownLocation, "DELAYED_ZSET");
  assert.equal((await server.task(leased)).command, "mail");
  const { ready: left, delayed: later, inProgress } = await server.stats("mail");
  assert.deepEqual([left, later, inProgress], [0, 0, 1]);
  const stats = await server.stats("post");
  assert.deepEqual([stats.ready, stats.delayed], [2, 1]);
  assert.equal((await server.claim({ commands: ["post"] })).id, ready);
});

test("a move goes on after a power failure, also when workers have begun what was moved", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  for (let n = 0; n < 8; n++) await server.create({ command: "mail" });
  const body = { action: "move", moveTo: "post", all: true, ratePerSecond: 4 };
  const { id } = await begun(server, body);
  for (let n = 0; n < 50 && (await server.stats("post")).ready < 4; n++) {
    await server.clock.advance(1);
  }
  server.world.crash("power");
  const next = await server.world.start();
  t.after(() => next.stop());
  await next.claim({ commands: ["post"] });
  const done = await untilIn(next, id, "done");
  assert.deepEqual([done.changed, done.failed], [8, 0]);
  assert.deepEqual([(await next.stats("post")).ready, (await next.stats("mail")).ready], [7, 0]);
});

test("a canary goes on in larger stages while its tasks succeed", async (t) => {
  const server = await setup(t);
  await buryMany(server, 10);
  const body = { action: "replay", all: true, canary: true, canaryFirst: 2 };
  const { id, canary } = await begun(server, body);
  assert.deepEqual(canary, { first: 2, factor: 2, failurePercent: 20 });
  const sizes: number[] = [];
  for (let left = 10; left > 0; ) {
    await server.clock.advance(1000);
    const { ready } = await server.stats("mail");
    if (ready === 0) continue;
    sizes.push(ready);
    left -= ready;
    for (let n = 0; n < ready; n++) {
      const task = await server.claim({ commands: ["mail"] });
      await server.complete(task.id);
    }
  }
  assert.deepEqual(sizes, [2, 4, 4]);
  assert.equal((await untilIn(server, id, "done")).changed, 10);
});

test("a canary stops by itself when too many fail again, and says what is left", async (t) => {
  const server = await setup(t);
  await buryMany(server, 10);
  const { id } = await begun(server, {
    action: "replay",
    all: true,
    canary: true,
    canaryFirst: 4,
    canaryFailurePercent: 25,
  });
  await server.clock.advance(1000);
  const waiting = (await job(server, id)).canary.stage;
  assert.deepEqual(waiting, { size: 4, waiting: 4, succeeded: 0, failedAgain: 0 });
  for (let n = 0; n < 2; n++) {
    const task = await server.claim({ commands: ["mail"] });
    await server.post(`/tasks/${task.id}/nack`, {}, "worker-acme");
  }
  const stopped = await untilIn(server, id, "stopped");
  assert.equal(stopped.reason, "2 of 4 replayed tasks failed again; 8 failures are left");
  assert.equal(stopped.changed, 4);
  await server.clock.advance(10_000);
  assert.deepEqual([(await server.stats("mail")).ready, (await server.stats("mail")).dlq], [2, 8]);
});

test("jobs of other tenants are not there, and what makes no sense is refused", async (t) => {
  const server = await setup(t);
  await buryMany(server, 1);
  const { id } = await begun(server, { action: "delete", all: true });
  for (const [method, path] of [
    ["GET", `/v1/codeq/admin/jobs/${id}`],
    ["POST", `/v1/codeq/admin/jobs/${id}/abort`],
    ["GET", "/v1/codeq/admin/jobs/unknown"],
  ] as const) {
    const reply = await server.ask(path, { method, caller: "admin-globex" });
    assert.deepEqual([reply.status, reply.headers["codeq-error"]], [404, "job_not_found"]);
  }
  assert.deepEqual((await server.get("/admin/jobs", "admin-globex")).json, { jobs: [] });
  for (const body of [
    {},
    { action: "replay" },
    { action: "explode", all: true },
    { action: "replay", all: true, command: "mail" },
    { action: "replay", place: "ready" },
    { action: "cancel", place: "dead" },
    { action: "delete", place: "leased" },
    { action: "delete", all: true, canary: true },
    { action: "replay", all: true, graceSeconds: 5 },
    { action: "replay", all: true, moveTo: "post" },
    { action: "move", all: true },
    { action: "move", all: true, moveTo: "no/slash" },
    { action: "move", all: true, moveTo: "post", place: "leased" },
    { action: "replay", all: true, ratePerSecond: 0 },
    { action: "replay", all: true, ratePerSecond: 1e9 },
    { action: "replay", all: true, canary: true, canaryFirst: 0 },
    { action: "replay", all: true, canary: true, canaryFailurePercent: 101 },
    { action: "replay", group: "x" },
    { action: "replay", error: "x".repeat(2000) },
    { action: "replay", all: true, rate: 5 },
  ]) {
    const reply = await start(server, body);
    assert.equal(reply.status, 400, `${JSON.stringify(body)}: ${reply.text}`);
  }
});

test("a tenant has a bounded number of jobs", async (t) => {
  const server = await setup(t);
  for (let n = 0; n < 10; n++) {
    const { id } = await begun(server, { action: "replay", command: "mail" });
    await set(server, id, "pause");
  }
  const more = await start(server, { action: "replay", command: "mail" });
  assert.deepEqual([more.status, more.headers["codeq-error"]], [409, "too_many_jobs"]);
});

for (const verb of ["pause", "abort"] as const) {
  test(`${verb} holds while the jobs of the same round have their turn`, async (t) => {
    const server = await setup(t);
    const first = await buryMany(server, 3, "first");
    await buryMany(server, 3, "second");
    await begun(server, { action: "delete", command: "first" });
    const second = await begun(server, { action: "delete", command: "second" });
    const empty = await begun(server, { action: "delete", command: "empty" });
    let told = 0;
    beforeActs(server, first, async () => {
      for (const { id } of [second, empty])
        told += Number((await set(server, id, verb)).status === 200);
    });
    await server.clock.advance(5000);
    assert.equal(told, 2);
    assert.deepEqual(
      [(await server.stats("first")).dlq, (await server.stats("second")).dlq],
      [0, 3],
    );
    const state = verb === "pause" ? "paused" : "aborted";
    for (const { id } of [second, empty]) assert.equal((await job(server, id)).state, state);
  });
}

test("what a quota refused is changed when the job is resumed, also by a canary", async (t) => {
  const quotas = { ...noQuotas, default: { ...noQuotas.default, pendingTasks: 5 } };
  const server = await setup(t, { settings: { quotas } });
  await buryMany(server, 8);
  await buryMany(server, 8, "canary");
  const plain = await begun(server, { action: "replay", command: "mail" });
  const full = await untilIn(server, plain.id, "paused");
  const { matched, changed, failed, reason } = full;
  assert.deepEqual([matched, changed, failed], [8, 5, 0]);
  assert.equal(reason, "the quota of the tenant is reached; resume it when there is room");
  // Without room nothing is lost either.
  await set(server, plain.id, "resume");
  assert.equal((await untilIn(server, plain.id, "paused")).changed, 5);
  await workOff(server, "mail", 5);
  await set(server, plain.id, "resume");
  const done = await untilIn(server, plain.id, "done");
  assert.deepEqual([done.matched, done.changed, done.failed], [8, 8, 0]);
  await workOff(server, "mail", 3);
  const body = { action: "replay", command: "canary", canary: true, canaryFirst: 8 };
  const { id } = await begun(server, body);
  assert.equal((await untilIn(server, id, "paused")).changed, 5);
  await workOff(server, "canary", 5);
  await set(server, id, "resume");
  await server.clock.advance(1000);
  const { stage } = (await job(server, id)).canary;
  assert.deepEqual(stage, { size: 8, waiting: 3, succeeded: 5, failedAgain: 0 });
  await workOff(server, "canary", 3);
  assert.equal((await untilIn(server, id, "done")).changed, 8);
});

test("outcomes and ids of dead letters are looked up without reading payloads", async (t) => {
  const server = await setup(t);
  const ids = await buryMany(server, 3);
  const { broker } = server.core;
  let read = 0;
  const get = broker.get.bind(broker);
  broker.get = (...of) => {
    read += 1;
    return get(...of);
  };
  const body = { action: "replay", all: true, canary: true, canaryFirst: 3 };
  const { id } = await begun(server, body);
  await server.clock.advance(3000);
  assert.equal((await job(server, id)).canary.stage.waiting, 3);
  const deleted = await server.post("/admin/dead-letters/delete", { ids }, "admin-acme");
  const notDead = ids.map((each) => ({ id: each, code: "not_failed" }));
  assert.deepEqual(deleted.json.failed, notDead, deleted.text);
  assert.equal(read, 0);
});

test("a job that waits for its search holds up no notification", async (t) => {
  let told = 0;
  const notify = (): Promise<number> => {
    told += 1;
    return Promise.resolve(200);
  };
  const server = await setup(t, { settings: { webhookAllowPrivateNetworks: true }, notify });
  const wanted = { callbackUrl: "http://127.0.0.1:9/x", eventTypes: ["render"] };
  await server.post("/workers/subscriptions", wanted, "worker-acme");
  const { broker } = server.core;
  const find = broker.find.bind(broker);
  const searching = Promise.withResolvers<void>();
  const search = Promise.withResolvers<void>();
  broker.find = async (asked) => {
    searching.resolve();
    await search.promise;
    return find(asked);
  };
  const { id } = await begun(server, { action: "delete", command: "mail" });
  await server.clock.advance(100);
  await searching.promise;
  await server.create();
  await server.clock.advance(30_000);
  const toldMeanwhile = told;
  const { state } = await job(server, id);
  search.resolve();
  assert.deepEqual([toldMeanwhile > 0, state], [true, "running"]);
  await untilIn(server, id, "done");
});

test("what a filter says of payloads is not shown to those from whom payloads are hidden", async (t) => {
  const server = await setup(t);
  const payload = "customer.ssn:123-45-6789";
  const { id, filter } = await begun(server, { action: "delete", command: "mail", payload });
  assert.equal(filter.payload, payload);
  const dead = { command: "mail", payload };
  await server.post("/admin/dead-letters/delete", dead, "admin-acme");
  await start(server, { action: "delete", payload: "123-45-6789" });
  for (const path of ["/admin/jobs", `/admin/jobs/${id}`, "/admin/audit"]) {
    const { status, text } = await server.get(path, "admin-blind");
    assert.equal(status, 200);
    assert.ok(text.includes("mail") && !text.includes("123-45-6789"), text);
  }
  const { records } = (await server.get("/admin/audit", "admin-acme")).json;
  const targets = records.map(({ target }: { target?: string }) => target);
  assert.ok(targets.includes("delete command=mail payload=customer.ssn"), targets.join(", "));
  assert.ok(targets.includes("command=mail payload=customer.ssn"), targets.join(", "));
  const paused = await server.post(`/admin/jobs/${id}/pause`, undefined, "admin-blind");
  assert.deepEqual(paused.json.filter, { command: "mail" });
  assert.equal((await job(server, id)).filter.payload, payload);
});
