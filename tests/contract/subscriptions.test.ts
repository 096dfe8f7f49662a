/** Subscriptions to availability notifications: contract 2.15, 6.3 and 13 S5, S11, W2 to W5. */
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import test, { type TestContext } from "node:test";
import { verifyNotification } from "@codeq/client";
import type { AvailableWork } from "../../packages/server/src/features/subscriptions/notify-subscribers.ts";
import { type Options, type Reply, type RunningServer, setup, startMs, until } from "./setup.ts";
import type { Caller } from "./tokens.ts";

const path = "/workers/subscriptions";
const callbackUrl = "https://a.example/ready";

interface Told extends AvailableWork {
  readonly atMs: number;
}

type Answer = number | undefined | Promise<undefined>;

/** A server whose subscribers answer as the script says, 204 where it says nothing. */
async function told(
  t: TestContext,
  answer: (work: AvailableWork) => Answer = () => 204,
  options: Options = {},
): Promise<{ server: RunningServer; told: Told[] }> {
  const told: Told[] = [];
  const server = await setup(t, {
    ...options,
    notify: async (work) => {
      told.push({ ...work, atMs: server.clock.nowMs() - startMs });
      return answer(work);
    },
  });
  return { server, told };
}

async function subscribe(
  server: RunningServer,
  fields: object = {},
  caller: Caller = "worker-acme",
): Promise<string> {
  const reply = await server.post(path, { callbackUrl, eventTypes: ["render"], ...fields }, caller);
  assert.equal(reply.status, 200, reply.text);
  return reply.json.subscriptionId;
}

const seconds = ({ atMs }: Told): number => atMs / 1000;
const hostOf = ({ url }: AvailableWork): string => new URL(url).hostname;
const member = (name: string): { callbackUrl: string } => ({ callbackUrl: `https://${name}/` });

function remove(server: RunningServer, id: string, caller: Caller = "worker-acme"): Promise<Reply> {
  return server.ask(`/v1/codeq${path}/${id}`, { method: "DELETE", caller });
}

/** Lets what is due happen. */
const soon = (server: RunningServer): Promise<void> => server.clock.advance(1);

test("a subscription is made, looked at, renewed, listed and deleted", async (t) => {
  const { server } = await told(t);
  const reply = await server.post(path, { callbackUrl, eventTypes: ["Render"] }, "worker-acme");
  const { subscriptionId: id } = reply.json;
  assert.deepEqual(reply.json, { expiresAt: "2026-01-02T03:09:05.12Z", subscriptionId: id });
  const group = { deliveryMode: "group", groupId: "g", minIntervalSeconds: 9, ttlSeconds: 60 };
  const other = await subscribe(server, group);
  const shown = (await server.get(`${path}/${id}`, "worker-acme")).json;
  assert.deepEqual(shown, {
    subscriptionId: id,
    callbackUrl,
    eventTypes: ["Render"],
    deliveryMode: "fanout",
    minIntervalSeconds: 0,
    createdAt: "2026-01-02T03:04:05.12Z",
    createdBy: "worker-1",
    expiresAt: "2026-01-02T03:09:05.12Z",
  });
  await server.clock.advance(10_000);
  const renewed = await server.post(`${path}/${id}/heartbeat`, { ttlSeconds: 30 }, "worker-acme");
  assert.equal(renewed.json.expiresAt, "2026-01-02T03:04:45.12Z");
  const again = await server.post(`${path}/${id}/heartbeat`, undefined, "worker-acme");
  assert.equal(again.json.expiresAt, "2026-01-02T03:09:15.12Z");
  const list = (await server.get(path, "worker-acme")).json.subscriptions;
  assert.deepEqual(
    list.map((each: { subscriptionId: string }) => each.subscriptionId),
    [id, other],
  );
  const page = (await server.get(`${path}?limit=1`, "worker-acme")).json;
  assert.equal(page.next, id);
  const rest = (await server.get(`${path}?after=${id}`, "worker-acme")).json;
  assert.deepEqual([rest.subscriptions[0].groupId, rest.next], ["g", undefined]);
  assert.equal((await remove(server, id)).status, 204);
  assert.equal((await remove(server, id)).status, 404);
  assert.equal((await server.get(`${path}/${id}`, "worker-acme")).status, 404);
});

test("without event types it is for all that the token may work on", async (t) => {
  const { server } = await told(t);
  const every = await server.post(path, { callbackUrl }, "worker-acme");
  const some = await server.post(path, { callbackUrl }, "worker-render");
  const typesOf = async ({ json }: Reply): Promise<unknown> =>
    (await server.get(`${path}/${json.subscriptionId}`, "worker-acme")).json.eventTypes;
  assert.deepEqual(await typesOf(every), ["*"]);
  assert.deepEqual(await typesOf(some), ["render"]);
  // A worker of one command sees only the subscriptions to it.
  const seen = (await server.get(path, "worker-render")).json.subscriptions;
  assert.equal(seen.length, 1);
});

test("a queue that begins to have work is told, with its depth, once", async (t) => {
  const { server, told: work } = await told(t);
  const id = await subscribe(server, { eventTypes: ["Render"] });
  for (let n = 0; n < 5; n += 1) await server.create();
  await server.create({ command: "other" });
  assert.equal(work.length, 0, "not in the request");
  await soon(server);
  assert.equal(work.length, 1);
  const [first] = work;
  assert.deepEqual(
    [first?.eventType, first?.queueDepth, first?.subscriptionId, first?.tenantId],
    ["Render", 5, id, "acme"],
  );
  assert.match(first?.notificationId ?? "", /^ntf_/);
});

test("every way to become ready is told: delay, retry, abandon, expiry, replay, resume", async (t) => {
  const { server, told: work } = await told(t);
  await subscribe(server, { minIntervalSeconds: 1, ttlSeconds: 86_400 });
  const expectTold = async (how: string): Promise<void> => {
    await soon(server);
    assert.equal(work.length, 1, how);
  };
  /** Takes the work away, and lets the interval pass. */
  const claim = async (): Promise<void> => {
    assert.notEqual(await server.claim({ leaseSeconds: 100 }), undefined);
    await server.clock.advance(10_000);
    work.length = 0;
  };
  const id = await server.create({ delaySeconds: 3600, maxAttempts: 4 });
  await server.clock.advance(3_599_000);
  assert.deepEqual(work, []);
  await server.clock.advance(1000);
  await expectTold("delay");
  await claim();
  await server.post(`/tasks/${id}/nack`, { delaySeconds: 60 }, "worker-acme");
  await server.clock.advance(59_000);
  assert.deepEqual(work, []);
  await server.clock.advance(1000);
  await expectTold("retry");
  await claim();
  await server.post(`/tasks/${id}/abandon`, undefined, "worker-acme");
  await expectTold("abandon");
  await claim();
  while ((await server.stats()).ready === 0) await server.clock.advance(1000);
  await expectTold("expiry");
  await claim();
  await server.post(`/tasks/${id}/nack`, {}, "worker-acme");
  await server.post(`/admin/tasks/${id}/replay`, undefined, "admin-acme");
  await expectTold("replay");
  await server.post("/admin/queues/render/pause", undefined, "admin-acme");
  await server.clock.advance(10_000);
  work.length = 0;
  await server.clock.advance(60_000);
  assert.deepEqual(work, [], "paused");
  await server.post("/admin/queues/render/resume", undefined, "admin-acme");
  await expectTold("resume");
});

test("while there is work it is told again after the interval, each time with another id", async (t) => {
  const { server, told: work } = await told(t);
  await subscribe(server, { minIntervalSeconds: 20 });
  await subscribe(server, { minIntervalSeconds: 1 });
  await server.create();
  await server.clock.advance(41_000);
  const [slow = [], quick = []] = Object.values(
    Object.groupBy(work, ({ subscriptionId }) => subscriptionId),
  );
  assert.deepEqual(slow.map(seconds), [0, 20, 40]);
  assert.deepEqual(
    quick.map(seconds),
    [0, 5, 10, 15, 20, 25, 30, 35, 40],
    "the floor of the server",
  );
  assert.equal(new Set(work.map(({ notificationId }) => notificationId)).size, work.length);
  await server.claim();
  work.length = 0;
  await server.clock.advance(60_000);
  assert.deepEqual(work, [], "there is no work");
});

test("work that begins within the interval is told when the interval is over", async (t) => {
  const { server, told: work } = await told(t);
  await subscribe(server, { minIntervalSeconds: 30 });
  await server.leased();
  await soon(server);
  assert.deepEqual(work.map(seconds), []);
  await server.create();
  await server.clock.advance(1000);
  await server.claim();
  await server.clock.advance(1000);
  await server.create();
  await server.clock.advance(60_000);
  assert.deepEqual(work.map(seconds), [0.001, 30.001, 60.001]);
});

test("who subscribes to a queue that has work is told at once", async (t) => {
  const { server, told: work } = await told(t);
  await server.create();
  await server.create({ command: "print" });
  await subscribe(server);
  await soon(server);
  assert.deepEqual(
    work.map(({ eventType }) => eventType),
    ["render"],
  );
  work.length = 0;
  await subscribe(server, { eventTypes: ["*"], minIntervalSeconds: 60 });
  await soon(server);
  await soon(server);
  assert.deepEqual(work.map(({ eventType }) => eventType).sort(), ["print", "render"]);
  await server.create({ command: "later" });
  await soon(server);
  assert.equal(work.at(-1)?.eventType, "later");
});

test("fanout tells all, a group one member by turns, whoever else there is", async (t) => {
  const { server, told: work } = await told(t);
  await subscribe(server, member("f1"));
  await subscribe(server, member("f2"));
  for (const name of ["g1", "g2", "g3"]) {
    await subscribe(server, { ...member(name), deliveryMode: "group", groupId: "g" });
  }
  await subscribe(server, { ...member("h1"), deliveryMode: "group", groupId: "h" });
  await server.create();
  await soon(server);
  assert.deepEqual(work.map(hostOf).sort(), ["f1", "f2", "g1", "h1"]);
  const turns: string[] = [];
  for (let n = 0; n < 4; n += 1) {
    work.length = 0;
    await server.clock.advance(5000);
    turns.push(...work.map(hostOf).filter((host) => host.startsWith("g")));
  }
  assert.deepEqual(turns, ["g2", "g3", "g1", "g2"]);
});

test("W3: work that begins again goes to the next member, and a throttled one is passed over", async (t) => {
  const { server, told: work } = await told(t);
  const group = { deliveryMode: "group", groupId: "g", minIntervalSeconds: 60 };
  for (const name of ["g1", "g2"]) await subscribe(server, { ...member(name), ...group });
  for (let n = 0; n < 3; n += 1) {
    await server.create();
    await server.clock.advance(1000);
    await server.claim();
    await server.clock.advance(1000);
  }
  assert.deepEqual(work.map(hostOf), ["g1", "g2"], "both were told within their interval");
  await server.create();
  await server.clock.advance(60_000);
  assert.deepEqual(work.map(hostOf), ["g1", "g2", "g1"]);
});

test("the minute decides who of a hash is told, and the next one when that one is silent", async (t) => {
  const silent = new Set<string>();
  const { server, told: work } = await told(t, (each) => (silent.has(hostOf(each)) ? 500 : 204));
  const hash = { deliveryMode: "hash", minIntervalSeconds: 1, ttlSeconds: 3600 };
  for (const name of ["h0", "h1", "h2"]) await subscribe(server, { ...member(name), ...hash });
  const expected = (atMs: number): string => `h${Math.floor((startMs + atMs) / 60_000) % 3}`;
  await server.create();
  await server.clock.advance(180_000);
  for (const each of work) assert.equal(hostOf(each), expected(each.atMs));
  assert.deepEqual(new Set(work.map(hostOf)).size, 3);
  work.length = 0;
  silent.add("h0");
  await server.clock.advance(180_000);
  const answered = work.filter((each) => hostOf(each) !== "h0");
  assert.ok(answered.length >= 36, `${answered.length} were told`);
});

test("the turns of a group and intervals survive kill -9", async (t) => {
  const { server, told: work } = await told(t, undefined, { storage: "sim-disk" });
  const group = { deliveryMode: "group", groupId: "g", minIntervalSeconds: 30 };
  for (const name of ["g1", "g2", "g3"]) await subscribe(server, { ...member(name), ...group });
  await subscribe(server, { ...member("f"), minIntervalSeconds: 30 });
  await server.create();
  await server.clock.advance(30_000);
  assert.deepEqual(work.map(hostOf), ["g1", "f", "g2", "f"]);
  await server.clock.advance(1000);
  server.world.crash("power");
  work.length = 0;
  const next = await server.world.start();
  t.after(() => next.stop());
  await next.clock.advance(1);
  assert.deepEqual(work.map(hostOf), ["g3"], "the one who was told is left alone");
  await next.clock.advance(29_000);
  assert.deepEqual(work.map(hostOf), ["g3", "f"]);
  const list = (await next.get(path, "worker-acme")).json.subscriptions;
  assert.equal(list.length, 4);
});

test("W4: after a restart commands in capitals are told of and counted as before", async (t) => {
  const { server, told: work } = await told(t);
  const active = (of: RunningServer): Promise<number> =>
    of.metric('codeq_subscriptions_active{command="render"}');
  const id = await subscribe(server, { eventTypes: ["RENDER"], ttlSeconds: 3600 });
  assert.equal(await active(server), 1);
  await server.stop();
  const next = await server.world.start();
  t.after(() => next.stop());
  assert.equal(await active(next), 1);
  await next.create({ command: "RENDER" });
  await soon(next);
  assert.deepEqual(
    work.map(({ subscriptionId, eventType }) => [subscriptionId, eventType]),
    [[id, "RENDER"]],
  );
  assert.equal((await remove(next, id)).status, 204);
  assert.equal(await active(next), 0);
});

test("a wall clock that is set back between two starts puts nothing off", async (t) => {
  const { server, told: work } = await told(t);
  await subscribe(server, { ttlSeconds: 86_400 });
  await server.create();
  await soon(server);
  assert.equal(work.length, 1);
  await server.stop();
  server.clock.stepWall(-3_600_000);
  const next = await server.world.start();
  t.after(() => next.stop());
  await next.clock.advance(5001);
  assert.equal(work.length, 2);
});

test("who does not answer is tried again briefly, counted once, and told again later", async (t) => {
  let isBroken = true;
  const { server, told: work } = await told(t, () => (isBroken ? undefined : 204));
  await subscribe(server, { minIntervalSeconds: 10 });
  await server.create();
  await server.clock.advance(5000);
  assert.deepEqual(work.map(seconds), [0, 1, 4]);
  assert.equal(new Set(work.map(({ notificationId }) => notificationId)).size, 1);
  const series = (outcome: string): string =>
    `codeq_webhook_deliveries_total{kind="queue_ready",command="render",outcome="${outcome}"}`;
  assert.equal(await server.metric(series("failure")), 1);
  isBroken = false;
  await server.clock.advance(60_000);
  assert.deepEqual(work.map(seconds).slice(0, 5), [0, 1, 4, 9, 19]);
  assert.notEqual(work[3]?.notificationId, work[0]?.notificationId);
  assert.ok((await server.metric(series("success"))) > 0);
  assert.ok(server.lines.some((line) => line.includes("notification given up")));
});

test("a member of a group that does not answer is passed over at once", async (t) => {
  const { server, told: work } = await told(t, (each) => (hostOf(each) === "g1" ? 503 : 204));
  const group = { deliveryMode: "group", groupId: "g" };
  for (const name of ["g1", "g2"]) await subscribe(server, { ...member(name), ...group });
  await server.create();
  await soon(server);
  await soon(server);
  assert.deepEqual(work.map(hostOf), ["g1", "g2"]);
  assert.equal(work[0]?.notificationId, work[1]?.notificationId);
});

test("W2: a subscriber that hangs holds up neither producers nor others", async (t) => {
  const never = new Promise<undefined>(() => {});
  const { server, told: work } = await told(t, (each) => (hostOf(each) === "hangs" ? never : 204));
  for (let n = 0; n < 70; n += 1) await subscribe(server, member("hangs"));
  await subscribe(server, member("other"), "worker-globex");
  await server.create();
  await server.create({}, "producer-globex");
  await soon(server);
  assert.ok(work.some((each) => hostOf(each) === "other"));
  assert.equal(work.filter((each) => hostOf(each) === "hangs").length, 64, "of one tenant at once");
  const stopped = server.stop();
  await server.clock.advance(1000);
  await stopped;
});

test("what has run out is told nothing, cannot be renewed, and is removed", async (t) => {
  const { server, told: work } = await told(t);
  const id = await subscribe(server, { ttlSeconds: 30 });
  const kept = await subscribe(server, { ttlSeconds: 600, ...member("kept") });
  const active = (): Promise<number> =>
    server.metric('codeq_subscriptions_active{command="render"}');
  assert.equal(await active(), 2);
  await server.clock.advance(30_000);
  await server.create();
  await soon(server);
  assert.deepEqual(work.map(hostOf), ["kept"]);
  assert.equal(await active(), 1);
  const late = await server.post(`${path}/${id}/heartbeat`, {}, "worker-acme");
  assert.deepEqual([late.status, late.text], [404, '{"error":"not-found"}']);
  const keys = async (): Promise<string[]> =>
    [...(await server.dump()).keys()].filter((key) => key.startsWith("codeq/subs/"));
  assert.equal((await keys()).length, 2);
  await server.clock.advance(60_000);
  assert.deepEqual(await keys(), [`codeq/subs/acme/${kept}`]);
  await remove(server, kept);
  const all = [...(await server.dump()).keys()];
  assert.deepEqual(
    all.filter((key) => key.startsWith("codeq/sub")),
    [],
  );
});

test("S11: a tenant hears of its own queues only, and a worker of its own commands", async (t) => {
  const { server, told: work } = await told(t);
  await subscribe(server, { eventTypes: ["*"] }, "worker-globex");
  await server.create();
  await server.clock.advance(60_000);
  assert.deepEqual(work, []);
  const wanted = { callbackUrl, eventTypes: ["render", "print"] };
  const refused = await server.post(path, wanted, "worker-render");
  assert.deepEqual([refused.status, refused.json.error], [403, "event type not allowed"]);
  const every = await server.post(path, { callbackUrl, eventTypes: ["*"] }, "worker-render");
  assert.equal(every.status, 403);
});

test("S5: a URL into a private network is refused, and nothing is written", async (t) => {
  const { server } = await told(t);
  const before = await server.fingerprint();
  for (const host of ["127.0.0.1:80", "[::1]", "10.1.2.3", "169.254.169.254", "localhost:8080"]) {
    const reply = await server.post(path, { callbackUrl: `http://${host}/` }, "worker-acme");
    assert.equal(reply.status, 400, host);
    assert.match(reply.json.error, /^invalid callback url: .* loopback or private address/);
  }
  for (const bad of [
    "",
    "x",
    "ftp://a.example/",
    "http://",
    "https://:0/",
    "javascript:alert(1)",
  ]) {
    const reply = await server.post(path, { callbackUrl: bad }, "worker-acme");
    assert.equal(reply.status, 400, bad);
  }
  assert.equal(await server.fingerprint(), before);
});

test("S5: redirects are not followed, and a name is judged by what it resolves to when it is used", async (t) => {
  const requests: string[] = [];
  const inside = createServer((request, response) => {
    requests.push(request.url ?? "");
    response.writeHead(302, { location: "/secret" }).end();
  });
  await new Promise<void>((resolve) => inside.listen(0, "127.0.0.1", resolve));
  t.after(() => inside.close());
  const { port } = inside.address() as AddressInfo;
  const open = await setup(t, { settings: { webhookAllowPrivateNetworks: true } });
  await subscribe(open, { callbackUrl: `http://127.0.0.1:${port}/ready` });
  await open.create();
  await soon(open);
  await until(() => requests.length === 1);
  const redirected =
    'codeq_webhook_deliveries_total{kind="queue_ready",command="render",outcome="failure"}';
  await until(async () => {
    await open.clock.advance(1000);
    return (await open.metric(redirected)) === 1;
  });
  assert.deepEqual(new Set(requests), new Set(["/ready"]));
  // The name leads inside only when somebody looks it up.
  const strict = await setup(t);
  const id = await subscribe(strict, { callbackUrl: `http://ip6-localhost:${port}/rebound` });
  await strict.create();
  await until(async () => {
    await strict.clock.advance(1000);
    return strict.lines.some((line) => line.includes("notification given up") && line.includes(id));
  });
  assert.equal(requests.includes("/rebound"), false);
});

test("a notification has every key of the contract, and its signature", async (t) => {
  const posts: { headers: IncomingHttpHeaders; body: string }[] = [];
  const receiver = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8").on("data", (text: string) => {
      body += text;
    });
    request.on("end", () => {
      posts.push({ headers: request.headers, body });
      response.writeHead(204).end();
    });
  });
  await new Promise<void>((resolve) => receiver.listen(0, resolve));
  t.after(() => receiver.close());
  const { port } = receiver.address() as AddressInfo;
  const settings = { webhookAllowPrivateNetworks: true, webhookHmacSecret: "s3cret" };
  const server = await setup(t, { settings });
  const id = await subscribe(server, { callbackUrl: `http://127.0.0.1:${port}/` });
  await server.create();
  await server.create();
  await soon(server);
  await until(() => posts.length === 1);
  const { headers, body } = posts[0] ?? assert.fail();
  const { notificationId, ...fields } = JSON.parse(body);
  assert.deepEqual(fields, {
    eventType: "render",
    available: true,
    queueDepth: 2,
    claimUrl: "/v1/codeq/tasks/claim",
    sentAt: "2026-01-02T03:04:05Z",
    subscriptionId: id,
  });
  assert.equal(headers["webhook-id"], notificationId);
  const timestamp = headers["x-codeq-timestamp"];
  const signature = createHmac("sha256", "s3cret").update(`${timestamp}.${body}`).digest("hex");
  assert.equal(headers["x-codeq-signature"], signature);
  // A secret of the tenant's own takes the place of the configured one.
  const rotated = await server.post("/admin/webhooks/secrets", undefined, "admin-acme");
  await server.clock.advance(5000);
  await until(() => posts.length === 2);
  const [, again = assert.fail()] = posts;
  const nowMs = server.clock.nowMs();
  const told = verifyNotification(again, { secret: rotated.json.secret, nowMs });
  assert.deepEqual([told.task, told.queueDepth, told.subscriptionId], ["render", 2, id]);
});

test("what makes no sense is refused and named", async (t) => {
  const { server } = await told(t);
  const before = await server.fingerprint();
  const cases: readonly (readonly [object, RegExp])[] = [
    [{ callbackUrl: undefined }, /invalid body/],
    [{ deliveryMode: "all" }, /^invalid deliveryMode/],
    [{ deliveryMode: "group" }, /^groupId is required$/],
    [{ deliveryMode: "group", groupId: " " }, /^groupId is required$/],
    [{ deliveryMode: "group", groupId: "x".repeat(129) }, /^invalid 'groupId'/],
    [{ eventTypes: ["a/b"] }, /command/],
    [{ eventTypes: [7] }, /invalid body/],
    [{ ttlSeconds: 604_801 }, /^invalid 'ttlSeconds'/],
    [{ minIntervalSeconds: -1 }, /^invalid 'minIntervalSeconds'/],
    [
      { minIntervalSecond: 1 },
      /unknown field "minIntervalSecond"; did you mean "minIntervalSeconds"/,
    ],
  ];
  for (const [fields, error] of cases) {
    const reply = await server.post(path, { callbackUrl, ...fields }, "worker-acme");
    assert.equal(reply.status, 400, JSON.stringify(fields));
    assert.match(reply.json.error, error);
  }
  assert.equal(await server.fingerprint(), before);
});

test("a webhook rate limit holds notifications back and loses none", async (t) => {
  const settings = {
    "rateLimit.webhook.requestsPerMinute": 6,
    "rateLimit.webhook.burstSize": 1,
  };
  const { server, told: work } = await told(t, undefined, { settings });
  for (let n = 0; n < 3; n += 1) await subscribe(server, { minIntervalSeconds: 600 });
  await server.create();
  await server.clock.advance(25_000);
  assert.equal(work.length, 3);
  const series = 'codeq_rate_limit_hits_total{scope="webhook",operation="queue_ready"}';
  assert.ok((await server.metric(series)) >= 2);
});

test("administrators see, make, renew and delete the subscriptions of all workers", async (t) => {
  const server = await setup(t);
  const id = await subscribe(server);
  const admin = "/admin/subscriptions";
  const made = await server.post(admin, { callbackUrl: "https://b.example/" }, "admin-acme");
  assert.equal(made.status, 200, made.text);
  const listed = (await server.get(admin, "viewer-acme")).json.subscriptions;
  assert.deepEqual(
    listed.map((each: { eventTypes: string[]; createdBy: string }) => [
      each.eventTypes,
      each.createdBy,
    ]),
    [
      [["render"], "worker-1"],
      [["*"], "boss"],
    ],
  );
  assert.deepEqual((await server.get(admin, "admin-globex")).json.subscriptions, []);
  const renewed = await server.post(`${admin}/${id}/heartbeat`, { ttlSeconds: 3600 }, "admin-acme");
  assert.equal(renewed.json.expiresAt, "2026-01-02T04:04:05.12Z");
  const remove = { method: "DELETE", caller: "admin-acme" } as const;
  assert.equal((await server.ask(`/v1/codeq${admin}/${id}`, remove)).status, 204);
  assert.equal((await server.ask(`/v1/codeq${admin}/${id}`, remove)).status, 404);
  assert.equal((await server.get(admin, "admin-acme")).json.subscriptions.length, 1);
});
