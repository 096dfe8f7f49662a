/** The event feed: what it tells, to whom, in which order, and how it ends. */
import assert from "node:assert/strict";
import test from "node:test";
import { limits } from "@codeq/protocol";
import { settle } from "@codeq/simulated";
import type { Config } from "../../packages/server/src/config/settings.ts";
import { FeedReader, openFeed, type Told, unreadFeed } from "./feed-reader.ts";
import { onlyWith, setup, startMs, until } from "./setup.ts";
import type { Caller } from "./tokens.ts";

/** An event without what is the same in all of them. */
function brief({ time: _, tenantId: __, taskId: ___, command: ____, ...rest }: Told): object {
  return rest;
}

test("a feed is server-sent events that nothing in between may keep", async (t) => {
  const server = await setup(t);
  const feed = await openFeed(server);
  assert.equal(feed.status, 200);
  assert.equal(feed.headers["content-type"], "text/event-stream; charset=utf-8");
  assert.equal(feed.headers["cache-control"], "no-store");
  assert.equal(feed.headers["x-accel-buffering"], "no");
  assert.equal(feed.text, "retry: 1000\n\n");
  const id = await server.create({ command: "Render", priority: 3, payload: { secret: 1 } });
  await feed.untilEvents(1);
  assert.equal(
    feed.text,
    "retry: 1000\n\nevent: created\n" +
      `data: {"event":"created","time":"2026-01-02T03:04:05.12Z","tenantId":"acme",` +
      `"taskId":"${id}","command":"Render","priority":3,"attempt":1}\n\n`,
  );
  feed.leave();
});

test("every way of a task is told, each step once and in order", async (t) => {
  const server = await setup(t);
  const feed = await openFeed(server);
  const id = await server.create({ delaySeconds: 30, maxAttempts: 4, payload: { secret: 1 } });
  await server.clock.advance(30_000);
  const act = (verb: string, body: object) =>
    server.post(`/tasks/${id}/${verb}`, body, "worker-acme");
  await server.claim();
  await act("nack", { delaySeconds: 7, reason: "not today" });
  await server.clock.advance(7000);
  await server.claim();
  await act("abandon", {});
  await server.claim();
  await act("abandon", { interrupted: true });
  await server.claim({ leaseSeconds: 10 });
  await server.clock.advance(10_000);
  await server.clock.advance(600_000);
  await server.claim({ leaseSeconds: 10 });
  await server.clock.advance(10_000);
  const workerId = "worker-1";
  const told = (await feed.untilEvents(15)).map(brief);
  const claimed = { event: "claimed", priority: 0, workerId };
  assert.deepEqual(told, [
    { event: "created", priority: 0, attempt: 1, delaySeconds: 30 },
    { event: "promoted", priority: 0, attempt: 1 },
    { ...claimed, attempt: 1 },
    { event: "retried", priority: 0, attempt: 1, workerId, delaySeconds: 7, reason: "not today" },
    { event: "promoted", priority: 0, attempt: 2 },
    { ...claimed, attempt: 2 },
    { event: "released", priority: 0, attempt: 2, workerId, how: "abandoned" },
    { ...claimed, attempt: 3 },
    { event: "released", priority: 0, attempt: 3, workerId, how: "interrupted" },
    { ...claimed, attempt: 3 },
    {
      event: "lease_expired",
      priority: 0,
      attempt: 3,
      workerId,
      delaySeconds: told[10] && (told[10] as { delaySeconds: number }).delaySeconds,
    },
    { event: "promoted", priority: 0, attempt: 4 },
    { ...claimed, attempt: 4 },
    { event: "lease_expired", priority: 0, attempt: 4, workerId },
    {
      event: "failed",
      priority: 0,
      attempt: 4,
      workerId,
      how: "dead_letter",
      reason: "LEASE_EXPIRED",
    },
  ]);
  assert.deepEqual(new Set(feed.events.map(({ taskId }) => taskId)), new Set([id]));
  assert.doesNotMatch(feed.text, /secret/);
  feed.leave();
});

test("a result is told by how it ended, and never what is in it", async (t) => {
  const server = await setup(t);
  const feed = await openFeed(server);
  const done = await server.leased();
  await server.complete(done);
  await server.complete(done);
  const failed = await server.leased();
  const error = `disk ${"x".repeat(1000)}`;
  await server.post(`/tasks/${failed}/result`, { status: "FAILED", error }, "worker-acme");
  await server.buried();
  const events = await feed.untilEvents(9);
  const ends = events.filter(({ event }) => event === "completed" || event === "failed");
  assert.deepEqual(ends.map(brief), [
    { event: "completed", priority: 0, attempt: 1, workerId: "worker-1" },
    {
      event: "failed",
      priority: 0,
      attempt: 1,
      workerId: "worker-1",
      how: "permanent",
      reason: error.slice(0, 256),
    },
    {
      event: "failed",
      priority: 0,
      attempt: 1,
      workerId: "worker-1",
      how: "dead_letter",
      reason: "broken",
    },
  ]);
  assert.equal(events.length, 9, "a repeated result is told once");
  feed.leave();
});

test("a replayed creation and a claim of nothing are not told", async (t) => {
  const server = await setup(t);
  const feed = await openFeed(server);
  await server.create({ idempotencyKey: "k" });
  await server.create({ idempotencyKey: "k" });
  await server.post("/tasks/claim", { commands: ["other"] }, "worker-acme");
  await server.claim();
  await feed.untilEvents(2);
  await settle();
  assert.deepEqual(feed.names, ["created", "claimed"]);
  feed.leave();
});

test("tasks that waiters take in the turn of their return are told of in order", async (t) => {
  // Half of the expired tasks have no delay, and are claimed again in the same turn.
  const backoff = {
    backoffPolicy: "exp_full_jitter",
    backoffBaseSeconds: 1,
    backoffMaxSeconds: 1,
  };
  const server = await setup(t, { settings: backoff as Partial<Config> });
  const tasks = Array.from({ length: 200 }, () => ({ command: "render", payload: 1 }));
  await server.post("/tasks/batch", { tasks }, "producer-acme");
  const feed = await openFeed(server);
  await server.post("/tasks/claim/batch", { count: 200, leaseSeconds: 10 }, "worker-acme");
  const waiting = Array.from({ length: 150 }, () => server.claim({ waitSeconds: 30 }));
  await server.untilWaiting(150);
  await server.clock.advance(10_000);
  await server.clock.advance(1000);
  assert.equal((await Promise.all(waiting)).filter((task) => task !== undefined).length, 150);
  await until(() => feed.names.filter((name) => name === "claimed").length === 200 + 150);
  assert.deepEqual(impossible(feed.events), []);
  assert.equal(feed.names.filter((name) => name === "lease_expired").length, 200);
  feed.leave();
});

test("a result that arrives before its claim is durable is told of behind it", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  const feed = await openFeed(server);
  t.after(() => feed.leave());
  const ids = [await server.create(), await server.create(), await server.create()];
  const sync = Promise.withResolvers<void>();
  server.world.disk.slow("sync", sync.promise);
  // The claims come into the group behind this one, and so does what the worker says.
  const last = server.create({ command: "other" });
  await settle();
  const claims = [server.claim(), server.claim(), server.claim()];
  await settle();
  const says = (id: string | undefined, verb: string, body: object) =>
    server.post(`/tasks/${id}/${verb}`, body, "worker-acme");
  const said = [
    says(ids[0], "result", { status: "COMPLETED", result: {} }),
    says(ids[1], "nack", { delaySeconds: 0 }),
    says(ids[2], "abandon", {}),
  ];
  await settle();
  sync.resolve();
  await Promise.all([last, ...claims, ...said]);
  await feed.untilEvents(10);
  assert.deepEqual(impossible(feed.events), []);
});

/** Steps that the step before of the same task does not allow. */
function impossible(events: readonly Told[]): string[] {
  const allowed: Readonly<Record<string, readonly string[]>> = {
    created: ["claimed", "promoted"],
    promoted: ["claimed"],
    claimed: ["completed", "failed", "retried", "released", "lease_expired"],
    retried: ["promoted", "claimed"],
    released: ["claimed"],
    lease_expired: ["promoted", "claimed", "failed"],
  };
  const last = new Map<string, string>();
  return events.flatMap(({ taskId, event }) => {
    const before = last.get(taskId);
    last.set(taskId, event);
    const isFine = before === undefined || allowed[before]?.includes(event);
    return isFine ? [] : [`${taskId}: ${event} after ${before}`];
  });
}

test(
  "an event is told after the sync and not before, and a crash takes none back",
  onlyWith.disk,
  async (t) => {
    const server = await setup(t, { storage: "sim-disk" });
    const feed = await openFeed(server);
    // What has crashed is not stopped, and its port would stay open.
    t.after(() => server.app.server.close());
    t.after(() => feed.leave());
    const first = await server.leased();
    const sync = Promise.withResolvers<void>();
    server.world.disk.slow("sync", sync.promise);
    const created = server.create();
    const completed = server.complete(first);
    await settle();
    assert.deepEqual(feed.names, ["created", "claimed"], "told of what was not synced");
    sync.resolve();
    await Promise.all([created, completed]);
    await feed.untilEvents(4);
    server.world.disk.slow("sync", new Promise(() => {}));
    void server.create();
    await settle();
    server.world.crash("power");
    const after = await server.world.start();
    t.after(() => after.stop());
    const told = new Set(feed.events.map(({ taskId }) => taskId));
    assert.equal(told.size, 2);
    assert.deepEqual((await after.task(first)).status, "COMPLETED");
    assert.equal((await after.task(await created)).status, "PENDING");
  },
);

test("a feed is of one tenant; an operator chooses which, or all of them", async (t) => {
  const server = await setup(t);
  const feeds = {
    acme: await openFeed(server),
    globex: await openFeed(server, "", "admin-globex"),
    home: await openFeed(server, "", "operator"),
    chosen: await openFeed(server, "?tenant=globex", "operator"),
    all: await openFeed(server, "?tenant=*", "operator"),
  };
  await server.create();
  await server.create({}, "producer-globex");
  await server.create({}, "operator");
  await feeds.all.untilEvents(3);
  const tenants = ({ events }: FeedReader) => events.map(({ tenantId }) => tenantId);
  assert.deepEqual(tenants(feeds.acme), ["acme"]);
  assert.deepEqual(tenants(feeds.globex), ["globex"]);
  assert.deepEqual(tenants(feeds.home), ["ops-team"]);
  assert.deepEqual(tenants(feeds.chosen), ["globex"]);
  assert.deepEqual(tenants(feeds.all), ["acme", "globex", "ops-team"]);
  assert.equal((await openFeed(server, "?tenant=*")).status, 403);
  await server.clock.advance(60_000);
  const { records } = (await server.get("/admin/audit?tenant=globex", "operator")).json;
  assert.equal(
    records.some(({ action }: Told) => action === "watch_events"),
    true,
  );
  for (const feed of Object.values(feeds)) feed.leave();
});

test("a feed can be of one command, whatever its case, and of some kinds of events", async (t) => {
  const server = await setup(t);
  const ofCommand = await openFeed(server, "?command=RENDER");
  const ofTypes = await openFeed(server, "?type=completed,failed");
  const ofBoth = await openFeed(server, "?command=print&type=claimed");
  const done = await server.leased({ command: "Render" });
  await server.complete(done);
  await server.leased({ command: "print" });
  await ofBoth.untilEvents(1);
  assert.deepEqual(ofCommand.names, ["created", "claimed", "completed"]);
  assert.deepEqual(ofTypes.names, ["completed"]);
  assert.deepEqual(ofBoth.names, ["claimed"]);
  for (const [query, error] of [
    ["?command=a%20b", "invalid command"],
    ["?command=a&command=b", "command is given more than once"],
    ["?type=", undefined],
    ["?type=exploded", "invalid 'type'"],
    ["?type=created,,failed", "invalid 'type'"],
  ] as const) {
    const feed = await openFeed(server, query);
    assert.equal(feed.status, error === undefined ? 200 : 400, query);
    if (error !== undefined) assert.match(feed.text, new RegExp(error), query);
    feed.leave();
  }
  for (const feed of [ofCommand, ofTypes, ofBoth]) feed.leave();
});

test("a quiet feed shows a sign of life every 15 seconds, and costs no timer when it is gone", async (t) => {
  const server = await setup(t);
  await server.clock.advance(2000);
  const idle = server.clock.timers;
  const feed = await openFeed(server);
  await server.clock.advance(14_999);
  assert.equal(feed.text, "retry: 1000\n\n");
  await server.clock.advance(1);
  await server.clock.advance(15_000);
  await feed.untilText("retry: 1000\n\n:\n\n:\n\n");
  assert.equal(server.core.feed.size, 1);
  feed.leave();
  await until(() => server.core.feed.size === 0);
  assert.equal(server.clock.timers, idle);
});

test("a summary shows a sign of life every 2 seconds", async (t) => {
  const server = await setup(t);
  const feed = await openFeed(server, "?view=summary");
  await server.clock.advance(1999);
  assert.equal(feed.text, "retry: 1000\n\n");
  await server.clock.advance(1);
  await server.clock.advance(2000);
  await feed.untilText("retry: 1000\n\n:\n\n:\n\n");
  feed.leave();
});

test("a reader that does not read holds up nobody and is told how much it missed", async (t) => {
  const server = await setup(t);
  const response = await unreadFeed(server);
  await until(() => server.core.feed.isHeard);
  const tasks = Array.from({ length: 1000 }, () => ({ command: "x".repeat(128), payload: 1 }));
  let created = 0;
  const missed = () => server.metric('codeq_feed_events_total{outcome="missed"}');
  // The kernel takes some megabytes before the reader counts as slow.
  while ((await missed()) === 0) {
    const reply = await server.post("/tasks/batch", { tasks }, "producer-acme");
    assert.equal(reply.status, 200);
    created += tasks.length;
    assert.ok(created < 500_000, "a reader that reads nothing was given everything");
  }
  const told = await server.metric('codeq_feed_events_total{outcome="sent"}');
  assert.equal(told + (await missed()), created);
  const feed = new FeedReader(response);
  const isComplete = (): boolean => feed.text.includes("event: missed");
  await until(isComplete);
  await server.create({ command: "last" });
  await feed.untilText('"command":"last"');
  const { events } = feed;
  const gap = events.findIndex(({ event }) => event === "missed");
  assert.deepEqual(events[gap], { event: "missed", count: created - gap });
  assert.equal(events[gap + 1].command, "last");
  assert.equal(events.length, gap + 2);
  feed.leave();
});

test("what a stopped reader costs is bounded", async (t) => {
  const server = await setup(t);
  const stopped = await unreadFeed(server);
  t.after(() => stopped.destroy());
  await until(() => server.core.feed.isHeard);
  const ask = { headers: { authorization: "Bearer admin-acme" } };
  const tasks = Array.from({ length: 1000 }, () => ({ command: "x".repeat(128), payload: 1 }));
  const told = () => server.metric('codeq_feed_events_total{outcome="sent"}');
  const missed = () => server.metric('codeq_feed_events_total{outcome="missed"}');
  while ((await missed()) === 0) await server.post("/tasks/batch", { tasks }, "producer-acme");
  const atLimit = await told();
  for (let n = 0; n < 20; n += 1) await server.post("/tasks/batch", { tasks }, "producer-acme");
  assert.equal(await told(), atLimit, "nothing more is held for it");
  assert.equal((await server.ask("/v1/codeq/admin/queues", ask)).status, 200);
});

test("a tenant and the server have only so many feeds, and a place is free again at once", async (t) => {
  const server = await setup(t);
  const feeds: FeedReader[] = [];
  for (let n = 0; n < limits.feedsPerTenantMax; n += 1) feeds.push(await openFeed(server));
  const refused = await openFeed(server);
  assert.equal(refused.status, 429);
  assert.equal(refused.headers["codeq-error"], "too_many_feeds");
  assert.match(refused.text, /too many event feeds of this tenant are open; close one of them/);
  assert.equal((await openFeed(server, "", "admin-globex")).status, 200);
  assert.equal(await server.metric("codeq_feeds_open"), limits.feedsPerTenantMax + 1);
  feeds[0]?.leave();
  await until(() => server.core.feed.size === limits.feedsPerTenantMax);
  assert.equal((await openFeed(server)).status, 200);
  while (server.core.feed.size < limits.feedsMax) {
    const tenant = `t${server.core.feed.size}`;
    const feed = await openFeed(server, `?tenant=${tenant}`, "operator");
    assert.equal(feed.status, 200);
  }
  const full = await openFeed(server, "?tenant=another", "operator");
  assert.equal(full.status, 503);
  assert.match(full.text, /too many event feeds are open; try again/);
});

test("a feed ends with its API key, and says why", async (t) => {
  const server = await setup(t);
  const key = { name: "eyes", role: "admin" };
  const { id, token } = (await server.post("/admin/keys", key, "admin-acme")).json;
  const [feed, other] = [await openFeed(server, "", token as Caller), await openFeed(server)];
  await server.ask(`/v1/codeq/admin/keys/${id}`, { method: "DELETE", caller: "admin-acme" });
  await feed.untilOver();
  assert.deepEqual(feed.events, [
    { event: "end", code: "token_revoked", reason: "token was revoked" },
  ]);
  await server.create();
  await other.untilEvents(1);
  assert.equal(server.core.feed.size, 1);
  other.leave();
});

test("a feed ends when its token expires, not before and not later", async (t) => {
  const server = await setup(t);
  const expiresAt = new Date(startMs + 60_000).toISOString();
  const key = { name: "eyes", role: "admin", expiresAt };
  const { token } = (await server.post("/admin/keys", key, "admin-acme")).json;
  const feed = await openFeed(server, "", token as Caller);
  await server.clock.advance(59_999);
  assert.equal(feed.isOver, false);
  await server.clock.advance(1);
  await feed.untilOver();
  assert.equal(feed.events.at(-1).code, "token_expired");
  assert.equal(server.core.feed.size, 0);
});

test("a shutdown ends every feed and waits for none, not even for one that does not read", async (t) => {
  const server = await setup(t);
  const stalled = await unreadFeed(server);
  const feed = await openFeed(server);
  const tasks = Array.from({ length: 1000 }, () => ({ command: "x".repeat(128), payload: 1 }));
  const missed = () => server.metric('codeq_feed_events_total{outcome="missed"}');
  while ((await missed()) === 0) await server.post("/tasks/batch", { tasks }, "producer-acme");
  await server.stop();
  await feed.untilOver();
  assert.equal(feed.events.at(-1).code, "shutting_down");
  stalled.on("error", () => {});
  stalled.resume();
  await until(() => stalled.closed);
});

test("a summary counts events by queue, once a second, and nothing while nothing happens", async (t) => {
  const server = await setup(t);
  const [feed, other] = [
    await openFeed(server, "?view=summary"),
    await openFeed(server, "?view=summary"),
  ];
  const foreign = await openFeed(server, "?view=summary", "admin-globex");
  for (const command of ["Render", "render", "mail"]) await server.create({ command });
  await server.claim();
  await server.clock.advance(999);
  assert.deepEqual(feed.events, []);
  await server.clock.advance(1);
  const [first] = await feed.untilEvents(1);
  assert.equal(first.event, "summary");
  const { render, mail } = first.queues;
  assert.deepEqual([render.created, mail.created], [2, 1]);
  assert.equal((render.claimed ?? 0) + (mail.claimed ?? 0), 1);
  assert.deepEqual(await other.untilEvents(1), [first]);
  await server.clock.advance(5000);
  await server.create({ command: "mail" });
  await server.clock.advance(1000);
  const [, second] = await feed.untilEvents(2);
  assert.deepEqual(second.queues, { mail: { created: 1 } });
  assert.deepEqual(foreign.events, []);
  for (const each of [feed, other, foreign]) each.leave();
});

test("a summary with a task tells the events of that task one by one", async (t) => {
  const server = await setup(t);
  const id = await server.create();
  const feed = await openFeed(server, `?view=summary&task=${id}`);
  await server.create();
  await server.post(`/tasks/${id}/cancel`, {}, "producer-acme");
  const [told] = await feed.untilEvents(1);
  assert.deepEqual([told.event, told.taskId], ["failed", id]);
  await server.clock.advance(1000);
  assert.deepEqual((await feed.untilEvents(2)).at(1).event, "summary");
  feed.leave();
});

test("a feed of one task is of that task alone", async (t) => {
  const server = await setup(t);
  const id = await server.create();
  const feed = await openFeed(server, `?task=${id}`);
  await server.create();
  await server.claim();
  await server.post(`/tasks/${id}/nack`, {}, "worker-acme");
  await feed.untilText("retried");
  assert.ok(feed.events.every(({ taskId }) => taskId === id));
  feed.leave();
});

test("a summary takes no filter, and has room for many readers beside other feeds", async (t) => {
  const server = await setup(t);
  for (const query of ["?view=summary&command=x", "?view=summary&type=created", "?view=all"]) {
    assert.equal((await openFeed(server, query)).status, 400, query);
  }
  const feeds: FeedReader[] = [];
  for (let n = 0; n < limits.feedsPerTenantMax + 4; n += 1) {
    feeds.push(await openFeed(server, "?view=summary"));
  }
  assert.ok(feeds.every(({ status }) => status === 200));
  assert.equal(server.core.feed.size, 0);
  const [plain] = [await openFeed(server)];
  assert.equal(plain.status, 200);
  assert.equal(await server.metric("codeq_feeds_open"), feeds.length + 1);
  await server.create({ command: "mail" });
  await server.clock.advance(1000);
  for (const feed of feeds) await feed.untilEvents(1);
  await server.stop();
  for (const feed of feeds) await feed.untilOver();
  assert.equal(feeds[0]?.events.at(-1).code, "shutting_down");
});

test("a summary has only so many queues; the rest is counted together", async (t) => {
  const server = await setup(t);
  const feed = await openFeed(server, "?view=summary");
  const tasks = Array.from({ length: 103 }, (_, n) => ({ command: `queue-${n}`, payload: 1 }));
  await server.post("/tasks/batch", { tasks }, "producer-acme");
  await server.clock.advance(1000);
  const [told] = await feed.untilEvents(1);
  assert.equal(Object.keys(told.queues).length, 100);
  assert.equal(told.others, 3);
  feed.leave();
});
