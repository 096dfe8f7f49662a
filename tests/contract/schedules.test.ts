/** Schedules over HTTP: the sentences of docs/guide/schedules.md, each with a test. */
import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import { noQuotas, type TenantQuota } from "../../packages/server/src/config/quotas.ts";
import { Zones } from "../../packages/server/src/core/zones.ts";
import { openFeed } from "./feed-reader.ts";
import { onlyWith, type Reply, type RunningServer, setup } from "./setup.ts";

const base = "/v1/codeq/admin/schedules";
const caller = "admin-acme";
const minutely = { command: "render", cron: "* * * * *", overlap: "allow" };
const secondMs = 1000;
const minuteMs = 60 * secondMs;
const hourMs = 60 * minuteMs;

function put(server: RunningServer, id: string, body: object, query = ""): Promise<Reply> {
  return server.ask(`${base}/${id}${query}`, { method: "PUT", caller, body });
}

async function made(server: RunningServer, id: string, body: object): Promise<void> {
  const reply = await put(server, id, body);
  assert.equal(reply.status, 201, reply.text);
}

// biome-ignore lint/suspicious/noExplicitAny: the answers of several endpoints.
async function shown(server: RunningServer, path: string): Promise<any> {
  const reply = await server.get(`/admin/schedules/${path}`, caller);
  assert.equal(reply.status, 200, reply.text);
  return reply.json;
}

function change(
  server: RunningServer,
  id: string,
  verb: string,
  body: object = {},
): Promise<Reply> {
  return server.post(`/admin/schedules/${id}/${verb}`, body, caller);
}

/** The nominal instants that became tasks, the earliest first. */
async function fired(server: RunningServer, id: string): Promise<string[]> {
  const { runs } = await shown(server, `${id}/runs?limit=1000`);
  return runs
    .filter((run: { taskId?: string }) => run.taskId !== undefined)
    .map((run: { at: string }) => run.at)
    .reverse();
}

async function skips(server: RunningServer, id: string): Promise<[string, number][]> {
  const { skipped } = await shown(server, id);
  return Object.entries<number>(skipped).filter(([, count]) => count > 0);
}

function advanceTo(server: RunningServer, instant: string): Promise<void> {
  return server.clock.advance(Date.parse(instant) - server.clock.nowMs());
}

test("a schedule is put, read, listed and deleted", async (t) => {
  const server = await setup(t);
  const body = {
    ...minutely,
    payload: { page: 1 },
    priority: 3,
    tags: ["nightly"],
    tz: "Europe/Paris",
  };
  const reply = await put(server, "digest-acme", body);
  assert.equal(reply.status, 201, reply.text);
  assert.equal(reply.headers["etag"], '"1"');
  assert.deepEqual(reply.json, {
    id: "digest-acme",
    command: "render",
    payload: { page: 1 },
    priority: 3,
    tags: ["nightly"],
    cron: "* * * * *",
    tz: "Europe/Paris",
    overlap: "allow",
    version: 1,
    createdAt: "2026-01-02T03:04:05.12Z",
    updatedAt: "2026-01-02T03:04:05.12Z",
    nextAt: "2026-01-02T03:05:00Z",
    handledAt: "2026-01-02T03:04:05.12Z",
    fired: 0,
    skipped: { late: 0, superseded: 0, overlap: 0, replaced: 0, paused: 0, quota: 0, unique: 0 },
    live: 0,
  });
  assert.deepEqual(await shown(server, "digest-acme"), reply.json);
  await made(server, "digest-bolt", minutely);
  await made(server, "other", minutely);
  const first = await server.get("/admin/schedules?prefix=digest-&limit=1", caller);
  assert.deepEqual([first.json.schedules.length, first.json.next], [1, "digest-acme"]);
  const rest = await server.get("/admin/schedules?prefix=digest-&after=digest-acme", caller);
  assert.deepEqual(
    rest.json.schedules.map(({ id }: { id: string }) => id),
    ["digest-bolt"],
  );
  assert.equal(rest.json.next, undefined);
  const gone = await server.ask(`${base}/other`, { method: "DELETE", caller });
  assert.equal(gone.status, 204);
  for (const [method, path] of [
    ["GET", "other"],
    ["DELETE", "other"],
    ["GET", "other/runs"],
  ]) {
    const missing = await server.ask(`${base}/${path}`, { method: method as "GET", caller });
    assert.deepEqual([missing.status, missing.headers["codeq-error"]], [404, "schedule_not_found"]);
  }
  const foreign = await server.get("/admin/schedules", "admin-globex");
  assert.deepEqual(foreign.json.schedules, []);
});

test("each nominal instant creates one task, which says what it was created for", async (t) => {
  const server = await setup(t);
  await made(server, "digest", {
    ...minutely,
    payload: { page: 1 },
    maxAttempts: 2,
    timeoutSeconds: 30,
  });
  await server.clock.advance(3 * minuteMs);
  assert.deepEqual(await fired(server, "digest"), [
    "2026-01-02T03:05:00Z",
    "2026-01-02T03:06:00Z",
    "2026-01-02T03:07:00Z",
  ]);
  const task = await server.claim();
  assert.deepEqual(
    [task.command, task.payload, task.scheduleId, task.maxAttempts, task.timeoutSeconds],
    ["render", '{"page":1}', "digest", 2, 30],
  );
  assert.ok(
    ["2026-01-02T03:05:00Z", "2026-01-02T03:06:00Z", "2026-01-02T03:07:00Z"].includes(
      task.scheduledFor,
    ),
  );
  const { fired: count, live, lastAt } = await shown(server, "digest");
  assert.deepEqual([count, live, lastAt], [3, 3, "2026-01-02T03:07:00Z"]);
});

test("a long payload is stored and reaches every task", async (t) => {
  const server = await setup(t);
  const payload = { text: "x".repeat(5000) };
  await made(server, "digest", { ...minutely, payload });
  await server.clock.advance(minuteMs);
  assert.deepEqual(JSON.parse((await server.claim()).payload), payload);
  assert.deepEqual((await shown(server, "digest")).payload, payload);
  const again = await put(server, "digest", { ...minutely, payload });
  assert.deepEqual([again.status, again.json.version], [200, 1]);
});

test("the same request again changes nothing, and another task only the task", async (t) => {
  const server = await setup(t);
  const every = { command: "render", every: "10m", overlap: "allow" };
  await made(server, "digest", every);
  await server.clock.advance(3 * minuteMs);
  const same = await put(server, "digest", every);
  assert.deepEqual(
    [same.status, same.json.version, same.json.nextAt],
    [200, 1, "2026-01-02T03:10:00Z"],
  );
  const other = await put(server, "digest", { ...every, payload: { page: 2 } });
  assert.deepEqual([other.json.version, other.json.nextAt], [2, "2026-01-02T03:10:00Z"]);
  assert.equal(other.json.handledAt, same.json.handledAt);
  await server.clock.advance(5 * minuteMs);
  assert.equal((await server.claim()).payload, '{"page":2}');
});

test("another spec counts from now, and fires nothing of the past", async (t) => {
  const server = await setup(t);
  await made(server, "digest", { command: "render", cron: "0 9 * * *", overlap: "allow" });
  await advanceTo(server, "2026-01-02T12:00:30Z");
  assert.deepEqual(await fired(server, "digest"), ["2026-01-02T09:00:00Z"]);
  const changed = await put(server, "digest", {
    command: "render",
    cron: "0 10 * * *",
    overlap: "allow",
  });
  assert.equal(changed.json.nextAt, "2026-01-03T10:00:00Z");
  await advanceTo(server, "2026-01-03T10:00:30Z");
  assert.deepEqual(await fired(server, "digest"), ["2026-01-02T09:00:00Z", "2026-01-03T10:00:00Z"]);
});

test("If-Match and ifVersion refuse a change of another version", async (t) => {
  const server = await setup(t);
  const first = await put(server, "digest", minutely, "?ifVersion=0");
  assert.equal(first.status, 201);
  const again = await put(server, "digest", { ...minutely, priority: 1 }, "?ifVersion=0");
  assert.equal(again.status, 412);
  assert.match(again.json.error, /its version is 1; read the schedule and decide again/);
  const headers = { "if-match": '"1"' };
  const body = { ...minutely, priority: 1 };
  const right = await server.ask(`${base}/digest`, { method: "PUT", caller, headers, body });
  assert.deepEqual([right.status, right.json.version], [200, 2]);
});

describe("time zones", () => {
  const paris = { command: "render", tz: "Europe/Paris", overlap: "allow" };

  test("a fixed time in the gap fires at the first instant after the gap", async (t) => {
    const server = await setup(t);
    await advanceTo(server, "2026-03-28T12:00:00Z");
    await made(server, "digest", { ...paris, cron: "30 2 * * *" });
    await advanceTo(server, "2026-03-30T12:00:00Z");
    assert.deepEqual(await fired(server, "digest"), [
      "2026-03-29T01:00:00Z",
      "2026-03-30T00:30:00Z",
    ]);
  });

  test("a fixed time that comes twice fires the first time only", async (t) => {
    const server = await setup(t);
    await advanceTo(server, "2026-10-24T12:00:00Z");
    await made(server, "digest", { ...paris, cron: "30 2 * * *" });
    await advanceTo(server, "2026-10-26T12:00:00Z");
    assert.deepEqual(await fired(server, "digest"), [
      "2026-10-25T00:30:00Z",
      "2026-10-26T01:30:00Z",
    ]);
  });

  test("a wildcard fires in both passes of a repeated hour", async (t) => {
    const server = await setup(t);
    await advanceTo(server, "2026-10-24T23:59:00Z");
    await made(server, "digest", { ...paris, cron: "30 * * * *" });
    await advanceTo(server, "2026-10-25T03:00:00Z");
    assert.deepEqual(await fired(server, "digest"), [
      "2026-10-25T00:30:00Z",
      "2026-10-25T01:30:00Z",
      "2026-10-25T02:30:00Z",
    ]);
  });

  test("a wildcard fires nothing in the gap", async (t) => {
    const server = await setup(t);
    await advanceTo(server, "2026-03-28T23:59:00Z");
    await made(server, "digest", { ...paris, cron: "30 2/1 * * *" });
    await advanceTo(server, "2026-03-29T02:00:00Z");
    // 02:30 does not exist on this day; 03:30 is the next.
    assert.deepEqual(await fired(server, "digest"), ["2026-03-29T01:30:00Z"]);
  });

  test("every is elapsed time and does not see changes of the clock", async (t) => {
    const server = await setup(t);
    await advanceTo(server, "2026-03-28T23:00:00Z");
    await made(server, "digest", { ...paris, every: "1h" });
    await advanceTo(server, "2026-03-29T03:30:00Z");
    assert.equal((await fired(server, "digest")).length, 4);
  });
});

describe("down time", () => {
  async function downFor(
    t: Parameters<typeof setup>[0],
    body: object,
    ms: number,
  ): Promise<RunningServer> {
    const server = await setup(t);
    await made(server, "digest", { command: "render", every: "1h", overlap: "allow", ...body });
    const { world } = server;
    await world.stop();
    await world.clock.advance(ms);
    const next = await world.start();
    await next.clock.advance(1);
    return next;
  }

  test("the latest task that was missed is created, if it is at most an hour late", async (t) => {
    const server = await downFor(t, {}, 5 * hourMs);
    assert.deepEqual(await fired(server, "digest"), ["2026-01-02T08:00:00Z"]);
    assert.deepEqual(await skips(server, "digest"), [["late", 4]]);
  });

  test("with catchUp all every task that was missed is created", async (t) => {
    const server = await downFor(t, { catchUp: "all" }, 5 * hourMs);
    assert.equal((await fired(server, "digest")).length, 5);
    assert.deepEqual(await skips(server, "digest"), []);
  });

  test("with catchUp none nothing is created that is more than a minute late", async (t) => {
    const server = await downFor(t, { catchUp: "none" }, 5 * hourMs);
    assert.deepEqual(await fired(server, "digest"), []);
    assert.deepEqual(await skips(server, "digest"), [["late", 5]]);
    await advanceTo(server, "2026-01-02T09:00:01Z");
    assert.deepEqual(await fired(server, "digest"), ["2026-01-02T09:00:00Z"]);
  });

  test("within bounds how late a task may be created", async (t) => {
    const server = await downFor(t, { catchUp: "all", within: "90m" }, 5 * hourMs);
    assert.deepEqual(await fired(server, "digest"), [
      "2026-01-02T07:00:00Z",
      "2026-01-02T08:00:00Z",
    ]);
  });
});

describe("a clock that is set", () => {
  test("back fires nothing twice", async (t) => {
    const server = await setup(t);
    await made(server, "digest", minutely);
    await server.clock.advance(3 * minuteMs);
    server.clock.stepWall(-2 * minuteMs);
    await server.clock.advance(2 * minuteMs - 30 * secondMs);
    assert.equal((await fired(server, "digest")).length, 3);
    await server.clock.advance(2 * minuteMs);
    assert.equal((await fired(server, "digest")).length, 4);
  });

  test("back and another spec fire nothing twice", async (t) => {
    const server = await setup(t);
    await made(server, "digest", minutely);
    await server.clock.advance(3 * minuteMs);
    server.clock.stepWall(-2 * minuteMs);
    await put(server, "digest", { ...minutely, cron: "*/1 * * * *" });
    await server.clock.advance(4 * minuteMs);
    const minutes = (await fired(server, "digest")).map((at) => at.slice(14, 16));
    assert.deepEqual(minutes, ["05", "06", "07", "08", "09"]);
  });

  test("forward is like down time", async (t) => {
    const server = await setup(t);
    await made(server, "digest", minutely);
    server.clock.stepWall(10 * minuteMs);
    // A step of the wall clock is believed after a minute.
    await server.clock.advance(minuteMs + 2 * secondMs);
    assert.deepEqual(await fired(server, "digest"), [
      "2026-01-02T03:05:00Z",
      "2026-01-02T03:15:00Z",
    ]);
    assert.deepEqual(await skips(server, "digest"), [["superseded", 9]]);
  });
});

describe("overlap", () => {
  const body = { command: "render", cron: "* * * * *" };

  test("skip creates nothing while a task has not ended", async (t) => {
    const server = await setup(t);
    await made(server, "digest", body);
    await server.clock.advance(3 * minuteMs);
    assert.deepEqual(await fired(server, "digest"), ["2026-01-02T03:05:00Z"]);
    assert.deepEqual(await skips(server, "digest"), [["overlap", 2]]);
    const { id } = await server.claim();
    await server.complete(id);
    await server.clock.advance(minuteMs);
    assert.equal((await fired(server, "digest")).length, 2);
  });

  test("one creates the task that waits in the moment in which the running one ends", async (t) => {
    const server = await setup(t);
    await made(server, "digest", { ...body, overlap: "one" });
    await server.clock.advance(3 * minuteMs);
    const { waitingAt, live } = await shown(server, "digest");
    assert.deepEqual([waitingAt, live], ["2026-01-02T03:06:00Z", 1]);
    assert.deepEqual(await skips(server, "digest"), [["overlap", 1]]);
    const { id } = await server.claim();
    await server.complete(id);
    const next = await server.claim();
    assert.equal(next.scheduledFor, "2026-01-02T03:06:00Z");
  });

  test("replace cancels the running task and creates the next when it has ended", async (t) => {
    const server = await setup(t);
    await made(server, "digest", { ...body, overlap: "replace", graceSeconds: 10 });
    await server.clock.advance(minuteMs);
    const first = await server.claim({ leaseSeconds: 600 });
    await server.clock.advance(minuteMs);
    assert.equal((await shown(server, "digest")).waitingAt, "2026-01-02T03:06:00Z");
    await server.clock.advance(11 * secondMs);
    assert.equal((await server.task(first.id)).error, "CANCELLED");
    assert.equal((await server.claim()).scheduledFor, "2026-01-02T03:06:00Z");
  });

  test("replace ends a task that still waits at once", async (t) => {
    const server = await setup(t);
    await made(server, "digest", { ...body, overlap: "replace" });
    await server.clock.advance(2 * minuteMs);
    const task = await server.claim();
    assert.equal(task.scheduledFor, "2026-01-02T03:06:00Z");
    assert.equal((await shown(server, "digest")).live, 1);
  });
});

describe("with a unique key", onlyWith.broker, () => {
  const unique = { key: "ada", on: "latest" };
  const body = { command: "sync", cron: "* * * * *", overlap: "allow", payload: 1, unique };
  const enqueue = (server: RunningServer, payload: unknown, on = "latest") =>
    server.create({ command: "sync", payload, unique: { key: "ada", on } });

  test("an instant becomes the task of the key, and is skipped while another task has it", async (t) => {
    const server = await setup(t);
    await made(server, "nightly", body);
    const own = await enqueue(server, 0);
    await server.clock.advance(minuteMs);
    // The task that waits gets what the schedule says.
    assert.equal((await server.task(own)).payload, "1");
    assert.deepEqual(await skips(server, "nightly"), [["unique", 1]]);
    await server.claim();
    await server.clock.advance(minuteMs);
    assert.deepEqual(await fired(server, "nightly"), ["2026-01-02T03:06:00Z"]);
    const next = await enqueue(server, 2);
    const { scheduleId, waitsForKey } = await server.task(next);
    assert.deepEqual([scheduleId, waitsForKey], ["nightly", true]);
    await server.complete(own);
    const claimed = await server.claim();
    assert.deepEqual([claimed.id, claimed.payload], [next, "2"]);
    await server.complete(next);
    await server.clock.advance(minuteMs);
    const { fired: count, lastAt, live, skipped } = await shown(server, "nightly");
    assert.deepEqual([count, lastAt, live, skipped.unique], [2, "2026-01-02T03:07:00Z", 1, 1]);
  });

  test("return and refuse skip, and cancel takes the place of the other task", async (t) => {
    const server = await setup(t);
    for (const on of ["return", "refuse", "cancel"]) {
      await made(server, on, { ...body, unique: { key: on, on } });
    }
    const ids = await Promise.all(
      ["return", "refuse", "cancel"].map((key) =>
        server.create({ command: "sync", payload: 0, unique: { key } }),
      ),
    );
    await server.clock.advance(minuteMs);
    const [returned, refused, cancelled] = await Promise.all(ids.map((id) => server.task(id)));
    assert.deepEqual([returned.payload, refused.payload, cancelled.error], ["0", "0", "CANCELLED"]);
    assert.deepEqual(await skips(server, "return"), [["unique", 1]]);
    assert.deepEqual(await skips(server, "refuse"), [["unique", 1]]);
    assert.deepEqual(await fired(server, "cancel"), ["2026-01-02T03:05:00Z"]);
    const { why, text } = await shown(server, "return/explain?at=2026-01-02T03:05");
    assert.equal(why, "unique");
    assert.match(text, /another task had the unique key/);
  });

  test("of several instants that are due together, the last one becomes a task", async (t) => {
    const server = await setup(t);
    await made(server, "nightly", { ...body, catchUp: "all" });
    await server.world.stop();
    await server.world.clock.advance(3 * minuteMs);
    const next = await server.world.start();
    await next.clock.advance(1);
    assert.deepEqual(await fired(next, "nightly"), ["2026-01-02T03:07:00Z"]);
    assert.deepEqual(await skips(next, "nightly"), [["unique", 2]]);
  });

  test("a task that waits for the running one of the schedule has the key after it", async (t) => {
    const server = await setup(t);
    await made(server, "nightly", { ...body, overlap: "one" });
    await server.clock.advance(2 * minuteMs);
    const { id } = await server.claim();
    const { waitingAt } = await shown(server, "nightly");
    assert.equal(waitingAt, "2026-01-02T03:06:00Z");
    await server.complete(id);
    await server.clock.advance(secondMs);
    const next = await server.claim();
    assert.deepEqual([next.scheduledFor, next.uniqueKey], ["2026-01-02T03:06:00Z", "ada"]);
    assert.equal(await enqueue(server, 5, "return"), next.id);
  });

  test("run now gives the task of the key, and a backfill has no key", async (t) => {
    const server = await setup(t);
    await made(server, "nightly", { ...body, unique: { key: "ada" } });
    await made(server, "strict", { ...body, unique: { key: "ada", on: "refuse" } });
    const id = await enqueue(server, 0);
    const ran = await change(server, "nightly", "run");
    assert.deepEqual([ran.status, ran.json.taskId], [201, id]);
    const busy = await change(server, "strict", "run");
    assert.deepEqual([busy.status, busy.json.error.includes(id)], [409, true]);
    await server.clock.advance(3 * minuteMs);
    const span = { from: "2026-01-02T03:05:00Z", until: "2026-01-02T03:07:00Z" };
    const job = await change(server, "nightly", "backfill", span);
    assert.equal(job.status, 201, job.text);
    await server.clock.advance(10 * secondMs);
    assert.equal((await fired(server, "nightly")).length, 3);
    const { runs } = await shown(server, "nightly/runs");
    const [task] = runs.filter(({ kind }: { kind: string }) => kind === "backfill");
    assert.equal((await server.task(task.taskId)).uniqueKey, undefined);
  });

  test("the request is the same with and without what is the default", async (t) => {
    const server = await setup(t);
    await made(server, "nightly", { ...body, unique: { key: "ada" }, lane: "acme", cost: 2 });
    const whole = { on: "return", key: "ada", while: "unfinished" };
    const same = await put(server, "nightly", { ...body, unique: whole, lane: "acme", cost: 2 });
    const { version, unique: kept, lane, cost } = same.json;
    assert.deepEqual([same.status, version, lane, cost], [200, 1, "acme", 2]);
    assert.deepEqual(kept, whole);
    await server.clock.advance(minuteMs);
    const task = await server.claim();
    assert.deepEqual([task.uniqueKey, task.lane, task.cost], ["ada", "acme", 2]);
    const restarted = await server.restart();
    assert.deepEqual((await shown(restarted, "nightly")).unique, whole);
  });
});

test("with several shards a schedule has neither a unique key nor a lane", async (t) => {
  const server = await setup(t, { settings: { shards: 3 } });
  for (const more of [{ unique: { key: "ada" } }, { lane: "acme" }]) {
    const reply = await put(server, "digest", { ...minutely, ...more });
    assert.deepEqual([reply.status, reply.headers["codeq-error"]], [400, "placement_conflict"]);
    assert.match(reply.json.error, /leave them out, and let its task enqueue the other one/);
  }
  assert.equal((await put(server, "digest", { ...minutely, cost: 2 })).status, 201);
});

test("with several shards a schedule has no queue with the placement one", async (t) => {
  const server = await setup(t, { settings: { shards: 3 } });
  const place = (queue: string) => {
    const body = { priorityTiers: [0], maxAttempts: 3, placement: "one" };
    return server.ask(`/v1/codeq/admin/topics/${queue}`, { method: "PUT", caller, body });
  };
  assert.equal((await place("exact")).status, 201);
  const refused = await put(server, "digest", { ...minutely, command: "Exact" });
  assert.deepEqual([refused.status, refused.headers["codeq-error"]], [400, "placement_conflict"]);
  assert.match(refused.json.error, /or a queue with the placement one/);
  await made(server, "digest", minutely);
  const late = await place("render");
  assert.deepEqual([late.status, late.headers["codeq-error"]], [409, "placement_in_use"]);
  assert.match(late.json.error, /delete its schedules/);
  await server.ask(`${base}/digest`, { method: "DELETE", caller });
  assert.equal((await place("render")).status, 201);
});

/** Catches up with 21 instants of a tenant that may have so much. */
async function caughtUp(t: TestContext, quota: Partial<TenantQuota>, body: object) {
  const quotas = { ...noQuotas, default: { ...noQuotas.default, ...quota } };
  const server = await setup(t, { settings: { quotas } });
  await made(server, "digest", { ...minutely, catchUp: "all", ...body });
  server.clock.stepWall(20 * minuteMs);
  // A step of the wall clock is believed after a minute.
  await server.clock.advance(minuteMs + 2 * secondMs);
  return server;
}

describe("a quota", () => {
  test("bounds what is caught up with, and how much a backfill creates", async (t) => {
    const server = await caughtUp(t, { pendingTasks: 5 }, {});
    assert.equal((await shown(server, "digest")).fired, 5);
    assert.deepEqual(await skips(server, "digest"), [["quota", 16]]);
    const { id } = await server.claim();
    await server.complete(id);
    const span = { from: "2026-01-02T02:00:00Z", until: "2026-01-02T03:00:00Z" };
    await change(server, "digest", "backfill", span);
    await server.clock.advance(10_000);
    const { jobs } = (await server.get("/admin/jobs", caller)).json;
    assert.deepEqual([jobs[0].state, jobs[0].changed], ["paused", 1]);
    assert.match(jobs[0].reason, /quota of the tenant is reached/);
    const refused = await change(server, "digest", "run");
    assert.deepEqual([refused.status, refused.json.quota], [429, "pendingTasks"]);
  });

  test("of bytes counts the payload of each task", async (t) => {
    const payload = "x".repeat(998);
    const server = await caughtUp(t, { storedBytes: 3500 }, { payload });
    assert.equal((await shown(server, "digest")).fired, 3);
    assert.deepEqual(await skips(server, "digest"), [["quota", 18]]);
    assert.equal((await change(server, "digest", "run")).json.quota, "storedBytes");
  });

  test("of queues is one for tasks of schedules, too", async (t) => {
    const server = await caughtUp(t, { queues: 1 }, {});
    await made(server, "other", { ...minutely, command: "other" });
    await server.clock.advance(minuteMs);
    assert.deepEqual(await skips(server, "other"), [["quota", 1]]);
    assert.equal((await change(server, "other", "run")).json.quota, "queues");
    await made(server, "same", { ...minutely });
    await server.clock.advance(minuteMs);
    assert.deepEqual(await skips(server, "same"), []);
  });

  test("holds in the shard of a schedule", async (t) => {
    const quotas = { ...noQuotas, default: { ...noQuotas.default, pendingTasks: 5 } };
    const server = await setup(t, { settings: { quotas, shards: 3 } });
    await made(server, "digest", minutely);
    await server.clock.advance(20 * minuteMs);
    assert.equal((await shown(server, "digest")).fired, 5);
  });
});

test("times ends a schedule, and from and until bound it", async (t) => {
  const server = await setup(t);
  await made(server, "thrice", { ...minutely, times: 3 });
  await made(server, "bounded", {
    ...minutely,
    from: "2026-01-02T03:06:00Z",
    until: "2026-01-02T03:07:00Z",
  });
  await server.clock.advance(10 * minuteMs);
  assert.equal((await fired(server, "thrice")).length, 3);
  assert.equal((await shown(server, "thrice")).nextAt, undefined);
  assert.deepEqual(await fired(server, "bounded"), [
    "2026-01-02T03:06:00Z",
    "2026-01-02T03:07:00Z",
  ]);
});

test("spread delays the tasks of a schedule by the same time always", async (t) => {
  const server = await setup(t);
  await made(server, "digest", { ...minutely, spread: "30s" });
  const { delayMs } = await shown(server, "digest");
  assert.ok(delayMs > 0 && delayMs < 30_000);
  await advanceTo(server, "2026-01-02T03:05:00Z");
  await server.clock.advance(delayMs - 1);
  assert.deepEqual(await fired(server, "digest"), []);
  await server.clock.advance(1);
  assert.deepEqual(await fired(server, "digest"), ["2026-01-02T03:05:00Z"]);
});

test("a pause has an author and a reason, and what was due is skipped", async (t) => {
  const server = await setup(t);
  await made(server, "digest", minutely);
  const paused = await change(server, "digest", "pause", { reason: "deploy" });
  assert.deepEqual(paused.json.paused, {
    by: "boss",
    reason: "deploy",
    at: "2026-01-02T03:04:05.12Z",
  });
  assert.equal(paused.json.nextAt, undefined);
  await server.clock.advance(5 * minuteMs);
  assert.deepEqual(await fired(server, "digest"), []);
  const resumed = await change(server, "digest", "resume");
  assert.deepEqual([resumed.json.paused, resumed.json.skipped.paused], [undefined, 5]);
  await server.clock.advance(minuteMs);
  assert.deepEqual(await fired(server, "digest"), ["2026-01-02T03:10:00Z"]);
});

test("failed tasks in a row pause the schedule", async (t) => {
  const server = await setup(t);
  await made(server, "digest", { ...minutely, maxAttempts: 1, pauseAfterFailures: 2 });
  for (const failures of [1, 2]) {
    await server.clock.advance(minuteMs);
    const { id } = await server.claim();
    await server.post(`/tasks/${id}/nack`, { reason: "broken" }, "worker-acme");
    if (failures === 1) assert.equal((await shown(server, "digest")).failures, 1);
  }
  const { paused } = await shown(server, "digest");
  assert.deepEqual([paused.by, paused.reason], ["server", "2 tasks failed in a row"]);
});

test("run now creates a task beside the plan, unless one is live", async (t) => {
  const server = await setup(t);
  await made(server, "digest", { command: "render", cron: "0 9 * * *" });
  const ran = await change(server, "digest", "run");
  assert.equal(ran.status, 201, ran.text);
  const busy = await change(server, "digest", "run");
  assert.deepEqual([busy.status, busy.json.error.includes(ran.json.taskId)], [409, true]);
  assert.match(busy.json.error, /has not ended; wait for it, cancel it, or set overlap to "allow"/);
  const { fired: count, live, nextAt } = await shown(server, "digest");
  assert.deepEqual([count, live, nextAt], [0, 1, "2026-01-02T09:00:00Z"]);
  const { runs } = await shown(server, "digest/runs");
  assert.deepEqual([runs[0].kind, runs[0].taskId], ["manual", ran.json.taskId]);
});

test("the history has tasks and skips with their reasons", async (t) => {
  const server = await setup(t);
  await made(server, "digest", { command: "render", cron: "* * * * *" });
  await server.clock.advance(3 * minuteMs);
  const { runs } = await shown(server, "digest/runs");
  assert.deepEqual(
    runs.map(({ kind, why, at, until, count }: Record<string, unknown>) => [
      kind,
      why,
      at,
      until,
      count,
    ]),
    [
      ["skipped", "overlap", "2026-01-02T03:06:00Z", "2026-01-02T03:07:00Z", 2],
      ["fired", undefined, "2026-01-02T03:05:00Z", undefined, 1],
    ],
  );
});

test("explain says why a schedule did or did not run", async (t) => {
  const server = await setup(t);
  await made(server, "digest", { command: "render", cron: "* * * * *" });
  await server.clock.advance(2 * minuteMs);
  const ask = (at: string) => shown(server, `digest/explain?at=${at}`);
  const task = await ask("2026-01-02T03:05:00Z");
  assert.equal(task.outcome, "fired");
  const skip = await ask("2026-01-02T03:06");
  assert.deepEqual([skip.outcome, skip.why], ["skipped", "overlap"]);
  assert.match(skip.text, /a task of the schedule had not ended/);
  assert.equal((await ask("2026-01-02T04:00")).outcome, "planned");
  assert.equal((await ask("2026-01-02T03:05:30")).outcome, "not_nominal");
  assert.match((await ask("2026-01-01T00:00")).text, /was created after/);
  await made(server, "paris", { command: "render", cron: "30 2 * * *", tz: "Europe/Paris" });
  const gap = await shown(server, "paris/explain?at=2026-03-29T02:30");
  assert.deepEqual([gap.outcome, gap.nominalAt], ["planned", "2026-03-29T01:00:00Z"]);
  assert.match(
    gap.text,
    /02:30 does not exist in Europe\/Paris: clocks were set forward to 2026-03-29 03:00/,
  );
  const wrong = await server.get("/admin/schedules/digest/explain?at=noon", caller);
  assert.equal(wrong.status, 400);
});

test("a preview names gaps and repeated hours", async (t) => {
  const server = await setup(t);
  const ask = (body: object) => server.post("/admin/schedules/preview", body, caller);
  const spec = { cron: "30 2 * * *", tz: "Europe/Paris", count: 2 };
  const spring = await ask({ ...spec, after: "2026-03-28T12:00:00Z" });
  assert.equal(spring.status, 200, spring.text);
  assert.deepEqual(spring.json.runs, [
    {
      at: "2026-03-29T01:00:00Z",
      local: "2026-03-29 03:00",
      offset: "+02:00",
      note: "clocks are set forward: local times from 02:00 on are missing; this is the first instant after",
    },
    { at: "2026-03-30T00:30:00Z", local: "2026-03-30 02:30", offset: "+02:00" },
  ]);
  const autumn = await ask({ ...spec, after: "2026-10-24T12:00:00Z" });
  assert.match(autumn.json.runs[0].note, /comes twice, and the schedule fires the first time only/);
  const hourly = await ask({
    cron: "30 * * * *",
    tz: "Europe/Paris",
    count: 2,
    after: "2026-10-25T00:00:00Z",
  });
  assert.match(hourly.json.runs[0].note, /fires both times/);
  assert.match(hourly.json.runs[1].note, /comes a second time/);
});

test("a year in which a schedule of seconds was paused is counted exactly, with what is excepted", async (t) => {
  const server = await setup(t);
  const except = ["* 0-11 * * *", "2026-03-01"];
  await made(server, "ticks", { ...minutely, cron: "* * * * * *", except });
  await change(server, "ticks", "pause");
  const { handledAt } = await shown(server, "ticks");
  server.clock.stepWall(365 * 24 * hourMs);
  await server.clock.advance(minuteMs + 2 * secondMs);
  const { json } = await change(server, "ticks", "resume");
  assert.equal(handledAt, "2026-01-02T03:04:05.12Z");
  // 364 afternoons, without 1 March, and none of the night and the morning at the end.
  assert.equal(json.skipped.paused, (365 - 1) * 12 * 3600);
  assert.equal(json.handledAt, "2027-01-01T23:59:59Z");
});

const mistakes: readonly [object, RegExp][] = [
  [{ cron: "0 0 30 2 *" }, /never fires: no month that it names has such a day; write for example/],
  [
    { cron: "0 9 * * *", tz: "Europe/Pariss" },
    /"Europe\/Pariss" is no IANA time zone; write for example "Europe\/Paris"/,
  ],
  [{ every: "500ms" }, /the shortest period is 1s/],
  [
    { cron: "0 9 * * *", until: "2025-01-01T00:00:00Z" },
    /never fires from now on; look at 'until' and 'except'/,
  ],
  [{ cron: "0 9 * * *", except: ["* * * * *"] }, /never fires from now on/],
  [{ cron: "0 9 * * *", except: ["0 * * * * *"] }, /^invalid 'except' \("0 \* .* has six fields/],
  [{ cron: "0 9 * * *", spread: "soon" }, /"soon" is no length of time/],
  [{ cron: "0 9 * * *", overlap: "often" }, /use allow, skip, one or replace/],
  [{ cron: "0 9 * * *", webhook: "ftp://x" }, /an http or https URL/],
  [{ cron: "0 9 * * *", webhook: "http://127.0.0.1/" }, /URL of a public address, or any address/],
  [{ cron: "0 9 * * *", tags: ["a b"] }, /without spaces and commas/],
  [{ cron: "0 9 * * *", priority: 11 }, /0 to 9/],
  [{ cron: "0 9 * * *", unique: {} }, /invalid 'unique.key' \(1 to 200 characters, and/],
  [{ cron: "0 9 * * *", unique: { key: "k", on: "drop" } }, /one of return, refuse, replace/],
  [{ cron: "0 9 * * *", unique: { key: "k", for: "5" } }, /a length of time such as 5m/],
  [{ cron: "0 9 * * *", lane: "ü".repeat(200) }, /invalid 'lane' \(at most \d+ bytes/],
  [{ cron: "0 9 * * *", lane: ".." }, /and not \. or \.\., which no URL can name/],
  [{ cron: "0 9 * * *", cost: -1 }, /invalid 'cost'/],
  [{}, /give either cron, such as/],
];

for (const [body, why] of mistakes) {
  test(`${JSON.stringify(body)} is refused with what to do`, async (t) => {
    const server = await setup(t);
    const reply = await put(server, "digest", { command: "render", ...body });
    assert.equal(reply.status, 422, reply.text);
    assert.match(reply.json.error, why);
  });
}

test("a task over the limits, unknown fields and odd ids are refused", async (t) => {
  const server = await setup(t, { settings: { payloadBytesMax: 100 } });
  const large = await put(server, "digest", { ...minutely, payload: "x".repeat(200) });
  assert.equal(large.status, 413);
  assert.match(large.json.error, /larger than 100 bytes; store the data elsewhere/);
  assert.equal((await put(server, "digest", { ...minutely, crom: "1" })).status, 400);
  assert.equal((await put(server, "digest", { cron: "* * * * *" })).status, 400);
  assert.equal((await put(server, "a%2Fb", minutely)).status, 422);
});

test("schedule 10,001 of a tenant is refused", onlyWith.broker, async (t) => {
  const server = await setup(t);
  for (let at = 0; at < 10_000; at += 500) {
    const some = Array.from({ length: 500 }, (_, step) => `s${at + step}`);
    await Promise.all(some.map((id) => put(server, id, minutely)));
  }
  const refused = await put(server, "one-more", minutely);
  assert.deepEqual([refused.status, refused.headers["codeq-error"]], [409, "too_many_schedules"]);
  assert.match(refused.json.error, /delete some, or let one schedule create several tasks/);
  assert.equal((await put(server, "s1", { ...minutely, priority: 1 })).status, 200);
});

test("schedules, their plan and their live tasks survive a restart and a crash", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  await made(server, "digest", { command: "render", cron: "* * * * *", overlap: "one" });
  await server.clock.advance(3 * minuteMs);
  const before = await shown(server, "digest");
  server.world.crash("power");
  const next = await server.world.start();
  assert.deepEqual(await shown(next, "digest"), before);
  const { id } = await next.claim();
  await next.complete(id);
  assert.equal((await next.claim()).scheduledFor, "2026-01-02T03:06:00Z");
});

test(
  "on a full disk tasks end and none is created, until there is room",
  onlyWith.disk,
  async (t) => {
    const server = await setup(t, { storage: "sim-disk" });
    const body = { command: "render", cron: "* * * * *", overlap: "one" };
    await made(server, "digest", body);
    await server.clock.advance(2 * minuteMs);
    const { id } = await server.claim();
    server.world.disk.failNext("write", "ENOSPC");
    const full = await server.post("/tasks", { command: "a", payload: 1 }, "producer-acme");
    assert.equal(full.status, 507);
    await server.complete(id);
    const { live, waitingAt, fired: count } = await shown(server, "digest");
    assert.deepEqual([live, waitingAt, count], [0, "2026-01-02T03:06:00Z", 1]);
    await server.clock.advance(2 * secondMs);
    assert.equal((await server.claim()).scheduledFor, "2026-01-02T03:06:00Z");
    assert.deepEqual(await skips(server, "digest"), []);
  },
);

test("other data of time zones after a restart moves what is to come, and repeats nothing", async (t) => {
  const server = await setup(t);
  await made(server, "digest", { ...minutely, cron: "0 9 * * *", tz: "Europe/Paris" });
  await advanceTo(server, "2026-01-02T08:30:00Z");
  await server.world.stop();
  const { find } = Zones.prototype;
  t.after(() => {
    Zones.prototype.find = find;
  });
  // The clocks of Paris are half an hour ahead of what they were.
  Zones.prototype.find = function (name) {
    const zone = find.call(this, name);
    return zone && { ...zone, offsetMs: (atMs) => zone.offsetMs(atMs) + 30 * minuteMs };
  };
  const next = await server.world.start();
  const { handledAt, nextAt } = await shown(next, "digest");
  assert.deepEqual([handledAt, nextAt], ["2026-01-02T08:00:00Z", "2026-01-03T07:30:00Z"]);
  await advanceTo(next, "2026-01-03T12:00:00Z");
  assert.deepEqual(await fired(next, "digest"), ["2026-01-02T08:00:00Z", "2026-01-03T07:30:00Z"]);
});

test("a schedule that is deleted and put again counts the tasks of the first one", async (t) => {
  const server = await setup(t);
  const body = { command: "render", cron: "* * * * *" };
  await made(server, "digest", body);
  await server.clock.advance(minuteMs);
  const { id } = await server.claim();
  await server.ask(`${base}/digest`, { method: "DELETE", caller });
  await made(server, "digest", body);
  assert.equal((await shown(server, "digest")).live, 1);
  await server.clock.advance(minuteMs);
  assert.deepEqual(await skips(server, "digest"), [["overlap", 1]]);
  await server.world.stop();
  const next = await server.world.start();
  assert.equal((await shown(next, "digest")).live, 1);
  await next.complete(id);
  assert.equal((await shown(next, "digest")).live, 0);
});

test("the event feed has what schedules did, with their names", async (t) => {
  const server = await setup(t);
  const feed = await openFeed(server);
  const body = { command: "render", cron: "* * * * *", maxAttempts: 1, pauseAfterFailures: 1 };
  await made(server, "digest", body);
  await server.clock.advance(2 * minuteMs);
  await change(server, "digest", "pause", { reason: "deploy" });
  await server.clock.advance(minuteMs);
  await change(server, "digest", "resume");
  const { id } = await server.claim();
  await server.post(`/tasks/${id}/nack`, { reason: "broken" }, "worker-acme");
  await feed.untilEvents(8);
  const ofSchedule = { tenantId: "acme", scheduleId: "digest", command: "render" };
  const events = feed.events.map(
    ({ time: _, taskId: __, priority: ___, attempt: ____, ...rest }) => rest,
  );
  assert.deepEqual(
    events.filter(({ scheduleId }) => scheduleId !== undefined),
    [
      { event: "created", ...ofSchedule, scheduledFor: "2026-01-02T03:05:00Z" },
      {
        event: "schedule_skipped",
        ...ofSchedule,
        scheduledFor: "2026-01-02T03:06:00Z",
        count: 1,
        reason: "overlap",
      },
      { event: "schedule_paused", ...ofSchedule, by: "boss", reason: "deploy" },
      {
        event: "schedule_skipped",
        ...ofSchedule,
        scheduledFor: "2026-01-02T03:07:00Z",
        count: 1,
        reason: "paused",
      },
      { event: "schedule_resumed", ...ofSchedule },
      { event: "schedule_paused", ...ofSchedule, by: "server", reason: "a task failed" },
    ],
  );
  const only = await openFeed(server, "?type=schedule_paused,schedule_resumed");
  await change(server, "digest", "resume");
  await only.untilEvents(1);
  assert.deepEqual(only.names, ["schedule_resumed"]);
});

test("tasks are found by their schedule", async (t) => {
  const server = await setup(t);
  await made(server, "digest", minutely);
  await made(server, "other", minutely);
  await server.create();
  await server.clock.advance(minuteMs);
  const found = await server.get("/admin/tasks?schedule=digest", caller);
  assert.deepEqual(
    found.json.tasks.map(({ scheduleId }: { scheduleId: string }) => scheduleId),
    ["digest"],
  );
});

test("metrics count what was fired and skipped, and the audit trail who did what", async (t) => {
  const server = await setup(t);
  await made(server, "digest", { command: "render", cron: "* * * * *" });
  await server.clock.advance(3 * minuteMs);
  assert.equal(await server.metric('codeq_schedule_fired_total{command="render"}'), 1);
  assert.equal(
    await server.metric('codeq_schedule_skipped_total{command="render",reason="overlap"}'),
    2,
  );
  const lateness = "codeq_schedule_lateness_seconds";
  assert.equal(await server.metric(`${lateness}_count`), 1);
  assert.ok((await server.metric(`${lateness}_sum`)) < 0.1);
  await change(server, "digest", "pause", { reason: "deploy" });
  const audit = await server.get("/admin/audit", caller);
  const actions = audit.json.records.map(({ action, target }: Record<string, string>) => [
    action,
    target,
  ]);
  assert.deepEqual(actions.slice(0, 2), [
    ["pause_schedule", "digest"],
    ["put_schedule", "digest"],
  ]);
});

test("a page of schedules with large payloads ends early, and none is left out", async (t) => {
  const server = await setup(t);
  const payload = { big: "x".repeat(1_000_000) };
  for (let n = 0; n < 7; n++) await made(server, `big-${n}`, { ...minutely, payload });
  const ids: string[] = [];
  const sizes: number[] = [];
  for (let after = ""; ; ) {
    const { json } = await server.get(`/admin/schedules?limit=1000&after=${after}`, caller);
    ids.push(...json.schedules.map(({ id }: { id: string }) => id));
    sizes.push(json.schedules.length);
    if (json.next === undefined) break;
    after = json.next;
  }
  // Each shard has a part of the page.
  assert.ok(
    sizes.every((size) => size <= 5 * server.config.shards),
    `${sizes}`,
  );
  assert.equal(new Set(ids).size, 7);
});
