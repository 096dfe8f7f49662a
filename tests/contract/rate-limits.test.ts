/** Contract part 7, and S14: how fast a token and its tenant may go, over HTTP and for webhooks. */
import assert from "node:assert/strict";
import test from "node:test";
import type {
  RateLimitSetting,
  RateScope,
} from "../../packages/server/src/config/rate-limit-settings.ts";
import type { Config } from "../../packages/server/src/config/settings.ts";
import { type Reply, type RunningServer, setup, until } from "./setup.ts";
import type { Caller } from "./tokens.ts";

type Settings = Partial<Record<RateLimitSetting, number>>;

/** One a second, and so many at once. */
function perToken(scope: RateScope, burst: number): Settings {
  return { [`rateLimit.${scope}.requestsPerMinute`]: 60, [`rateLimit.${scope}.burstSize`]: burst };
}

function perTenant(scope: RateScope, burst: number): Settings {
  return {
    [`rateLimit.${scope}.tenantRequestsPerMinute`]: 60,
    [`rateLimit.${scope}.tenantBurstSize`]: burst,
  };
}

function limited(...settings: readonly Settings[]): { settings: Partial<Config> } {
  return { settings: Object.assign({}, ...settings) as Partial<Config> };
}

const task = { command: "render", payload: {} };

function create(server: RunningServer, caller: Caller = "producer-acme"): Promise<Reply> {
  return server.post("/tasks", task, caller);
}

async function statuses(count: number, ask: () => Promise<Reply>): Promise<number[]> {
  const found: number[] = [];
  for (let n = 0; n < count; n += 1) found.push((await ask()).status);
  return found;
}

function assertRefused(reply: Reply, scope: string, operation: string, seconds: number): void {
  assert.equal(reply.status, 429);
  assert.equal(
    reply.text,
    `{"error":"rate limit exceeded","operation":"${operation}",` +
      `"retryAfterSeconds":${seconds},"scope":"${scope}"}`,
  );
  assert.equal(reply.headers["retry-after"], String(seconds));
}

test("no limit is set unless the operator sets one, and then no field speaks of it", async (t) => {
  const server = await setup(t);
  for (let n = 0; n < 50; n += 1) {
    const reply = await create(server);
    assert.equal(reply.status, 202);
    assert.equal(reply.headers["ratelimit"], undefined);
    assert.equal(reply.headers["ratelimit-policy"], undefined);
  }
});

test("creations: the burst at once, then one by one as the bucket refills", async (t) => {
  const server = await setup(t, limited(perToken("producer", 3)));
  assert.deepEqual(await statuses(3, () => create(server)), [202, 202, 202]);
  assertRefused(await create(server), "producer", "create_task", 1);
  await server.clock.advance(999);
  assertRefused(await create(server), "producer", "create_task", 1);
  await server.clock.advance(1);
  assert.deepEqual(await statuses(2, () => create(server)), [202, 429]);
  await server.clock.advance(3_600_000);
  assert.deepEqual(await statuses(4, () => create(server)), [202, 202, 202, 429]);
  assert.equal((await server.stats()).ready, 7);
});

test("answers of limited routes tell the policy and what is left, refused or not", async (t) => {
  const server = await setup(t, limited(perToken("producer", 3), perTenant("producer", 30)));
  const fields = async (): Promise<(string | undefined)[]> => {
    const { headers } = await create(server);
    return [headers["ratelimit-policy"], headers["ratelimit"], headers["retry-after"]];
  };
  const policy = '"token";q=3;w=3, "tenant";q=30;w=30';
  assert.deepEqual(await fields(), [policy, '"token";r=2;t=1, "tenant";r=29;t=1', undefined]);
  assert.deepEqual(await fields(), [policy, '"token";r=1;t=1, "tenant";r=28;t=1', undefined]);
  assert.deepEqual(await fields(), [policy, '"token";r=0;t=1, "tenant";r=27;t=1', undefined]);
  assert.deepEqual(await fields(), [policy, '"token";r=0;t=1, "tenant";r=27;t=1', "1"]);
  const bad = await server.post("/tasks", { command: "render" }, "producer-globex");
  assert.equal(bad.status, 400);
  assert.equal(bad.headers["ratelimit"], '"token";r=2;t=1, "tenant";r=29;t=1');
  assert.equal((await server.get("/admin/queues", "admin-acme")).headers["ratelimit"], undefined);
});

test("S14: a batch counts as its tasks, and is refused as a whole", async (t) => {
  const server = await setup(t, limited(perToken("producer", 5)));
  const batch = (count: number) =>
    server.post("/tasks/batch", { tasks: Array(count).fill(task) }, "producer-acme");
  assert.equal((await batch(3)).status, 200);
  const refused = await batch(3);
  assertRefused(refused, "producer", "create_task", 1);
  assert.equal(refused.headers["ratelimit"], '"token";r=2;t=1');
  assert.equal((await batch(2)).status, 200);
  // How large it is is not known before there is room for one.
  assertRefused(await batch(4), "producer", "create_task", 1);
  await server.clock.advance(1000);
  assertRefused(await batch(4), "producer", "create_task", 3);
  await server.clock.advance(3000);
  assert.equal((await batch(4)).status, 200);
  assert.equal((await server.stats()).ready, 9);
});

test("a batch that no bucket could ever hold is told how many it may have", async (t) => {
  const server = await setup(t, limited(perToken("producer", 5), perTenant("producer", 4)));
  const tasks = Array(5).fill(task);
  const reply = await server.post("/tasks/batch", { tasks }, "producer-acme");
  assert.equal(reply.status, 400);
  assert.match(
    reply.json.error,
    /batch of 5 is larger than the burst size of the rate limit.* at most 4/,
  );
  assert.equal(reply.headers["ratelimit"], '"token";r=5, "tenant";r=4');
  const tooMany = { tasks: Array(1001).fill(task) };
  const over = await server.post("/tasks/batch", tooMany, "producer-acme");
  assert.equal(over.json.error, "batch size exceeds maximum of 1000");
});

test("a body that is refused counts as one, and one that was refused for its rate is not read", async (t) => {
  const server = await setup(t, limited(perToken("producer", 2)));
  const bad = () => server.post("/tasks", "not json", "producer-acme");
  assert.deepEqual(await statuses(3, bad), [400, 400, 429]);
  const large = "x".repeat(5 * 1024 * 1024);
  assert.equal((await server.post("/tasks", large, "producer-acme")).status, 429);
  assert.equal((await server.post("/tasks", large, "producer-globex")).status, 413);
});

test("a token that is refused counts for nobody", async (t) => {
  const server = await setup(t, limited(perToken("producer", 1), perTenant("producer", 1)));
  for (const caller of ["worker-acme", "producer-upper-tenant"] as const) {
    assert.ok((await create(server, caller)).status < 429);
  }
  assert.equal((await create(server)).status, 202);
});

test("claims count as one, also when they find nothing, and a long poll counts once", async (t) => {
  const server = await setup(t, limited(perToken("worker", 3)));
  const claim = (body: object = {}) => server.post("/tasks/claim", body, "worker-acme");
  const waiting = claim({ waitSeconds: 30 });
  await server.untilWaiting(1);
  assert.deepEqual(await statuses(2, claim), [204, 204]);
  const refused = await claim();
  assertRefused(refused, "worker", "claim", 1);
  await server.create();
  assert.equal((await waiting).status, 200);
  await server.clock.advance(1000);
  assert.deepEqual(await statuses(2, claim), [204, 429]);
});

test("a batch claim counts as what it gets, and gets no more than the limit leaves", async (t) => {
  const server = await setup(t, limited(perToken("worker", 5)));
  const claim = async (count: number): Promise<[number, number, string | undefined]> => {
    const reply = await server.post("/tasks/claim/batch", { count }, "worker-acme");
    const tasks = reply.status === 200 ? reply.json.tasks.length : 0;
    return [reply.status, tasks, reply.headers["ratelimit"]];
  };
  assert.deepEqual(await claim(5), [204, 0, '"token";r=4;t=1']);
  for (let n = 0; n < 10; n += 1) await server.create();
  assert.deepEqual(await claim(2), [200, 2, '"token";r=2;t=1']);
  assert.deepEqual(await claim(10), [200, 2, '"token";r=0;t=1']);
  assert.equal((await claim(10))[0], 429);
  await server.clock.advance(60_000);
  assert.deepEqual(await claim(10), [200, 5, '"token";r=0;t=1']);
  const tooMany = await server.post("/tasks/claim/batch", { count: 257 }, "worker-globex");
  assert.equal(tooMany.json.error, "count exceeds maximum of 256");
});

test("what a worker has to say about its tasks is not limited", async (t) => {
  const server = await setup(t, limited(perToken("worker", 1)));
  const id = await server.leased();
  for (let n = 0; n < 10; n += 1) {
    const reply = await server.post(`/tasks/${id}/heartbeat`, {}, "worker-acme");
    assert.equal(reply.status, 200);
    assert.equal(reply.headers["ratelimit"], undefined);
  }
  assert.equal((await server.complete(id)).status, 200);
});

test("clean-ups are limited on their own", async (t) => {
  const server = await setup(t, limited(perToken("admin", 1)));
  const cleanUp = () => server.post("/admin/tasks/cleanup", {}, "admin-acme");
  assert.equal((await cleanUp()).status, 200);
  assertRefused(await cleanUp(), "admin", "cleanup", 1);
  assert.equal((await create(server, "admin-acme")).status, 202);
  assert.equal((await server.get("/admin/queues", "admin-acme")).status, 200);
});

test("S14: another token of the same subject is no way around the limit", async (t) => {
  const server = await setup(t, limited(perToken("producer", 2)));
  assert.equal((await create(server, "admin-acme")).status, 202);
  assert.equal((await create(server, "admin-render")).status, 202);
  for (const caller of ["admin-acme", "admin-render"] as const) {
    assertRefused(await create(server, caller), "producer", "create_task", 1);
  }
  assert.equal((await create(server, "producer-acme")).status, 202);
});

test("S14: other subjects share the limit of their tenant, and other tenants do not", async (t) => {
  const server = await setup(t, limited(perTenant("producer", 3)));
  assert.equal((await create(server, "producer-acme")).status, 202);
  assert.equal((await create(server, "admin-acme")).status, 202);
  assert.equal((await create(server, "admin-render")).status, 202);
  for (const caller of ["producer-acme", "admin-acme", "admin-render"] as const) {
    assertRefused(await create(server, caller), "producer", "create_task", 1);
  }
  assert.deepEqual(await statuses(3, () => create(server, "producer-globex")), [202, 202, 202]);
});

test("refusals are counted by scope and operation, and by nothing that a caller chooses", async (t) => {
  const settings = [perToken("producer", 1), perToken("worker", 1), perToken("admin", 1)];
  const server = await setup(t, limited(...settings));
  for (let n = 0; n < 3; n += 1) {
    await create(server);
    await server.post("/tasks/claim", {}, "worker-acme");
    await server.post("/admin/tasks/cleanup", {}, "admin-acme");
  }
  const hits = (scope: string, operation: string) =>
    server.metric(`codeq_rate_limit_hits_total{scope="${scope}",operation="${operation}"}`);
  assert.equal(await hits("producer", "create_task"), 2);
  assert.equal(await hits("worker", "claim"), 2);
  assert.equal(await hits("admin", "cleanup"), 2);
  assert.equal(await server.metric('codeq_rate_limit_buckets{scope="producer"}'), 1);
  const { text } = await server.ask("/metrics", {});
  const lines = text.split("\n").filter((line) => /rate_limit|quota/.test(line));
  assert.equal(
    lines.some((line) => /acme|shop|worker-1|boss/.test(line)),
    false,
  );
});

/** Completes so many tasks whose results go to the URL. */
async function finish(server: RunningServer, webhook: string, count: number): Promise<void> {
  for (let n = 0; n < count; n += 1) await server.complete(await server.leased({ webhook }));
}

test("webhooks to one URL are spread out, without a try being used up", async (t) => {
  const sent: [string, number][] = [];
  const server = await setup(t, {
    settings: { ...limited(perToken("webhook", 2)).settings, resultWebhookMaxAttempts: 1 },
    post: async ({ webhook }) => {
      sent.push([webhook, server.clock.monotonicMs()]);
      return 204;
    },
  });
  const startedMs = server.clock.monotonicMs();
  await finish(server, "https://slow.example/", 6);
  await finish(server, "https://other.example/", 2);
  const timesTo = (url: string): number[] =>
    sent.filter(([to]) => to === url).map(([, atMs]) => atMs - startedMs);
  await server.clock.advance(1);
  await until(() => sent.length === 4);
  assert.deepEqual(timesTo("https://other.example/").length, 2);
  await server.clock.advance(999);
  await until(() => timesTo("https://slow.example/").length === 3);
  await server.clock.advance(3000);
  await until(() => timesTo("https://slow.example/").length === 6);
  for (const [index, atMs] of timesTo("https://slow.example/").entries()) {
    assert.ok(atMs >= (index - 1) * 1000, `webhook ${index} was sent after ${atMs} ms`);
  }
  const outcome = (name: string) =>
    server.metric(
      `codeq_webhook_deliveries_total{kind="task_result",command="render",outcome="${name}"}`,
    );
  await until(async () => (await outcome("success")) === 8);
  assert.equal(await outcome("failure"), 0);
  const hits = 'codeq_rate_limit_hits_total{scope="webhook",operation="task_result"}';
  assert.equal(await server.metric(hits), 4);
});

test("webhooks of one tenant are limited over all URLs, and survive a restart", async (t) => {
  const sent: string[] = [];
  const options = {
    ...limited(perTenant("webhook", 1)),
    post: async ({ id }: { readonly id: string }) => {
      sent.push(id);
      return 204;
    },
  };
  const server = await setup(t, options);
  for (let n = 0; n < 4; n += 1) await finish(server, `https://a.example/${n}`, 1);
  await server.clock.advance(1);
  await until(() => sent.length === 1);
  const again = await server.restart();
  t.after(() => again.stop());
  await again.clock.advance(1000);
  await until(() => sent.length === 2);
  await again.clock.advance(10_000);
  await until(() => sent.length === 4);
  assert.equal(new Set(sent).size, 4);
});
