/** What became of webhooks: the log of each, redeliveries, endpoints that are disabled, and secrets. */
import assert from "node:assert/strict";
import test, { type TestContext } from "node:test";
import { type Options, type Reply, type RunningServer, setup, until } from "./setup.ts";

const minute = 60_000;

interface Posted {
  readonly url: string;
  readonly taskId: string;
  readonly secrets: readonly string[];
}

/** A server whose webhooks are answered by a function of their URL. */
async function answering(
  t: TestContext,
  answer: (url: string) => number | undefined,
  options: Options = {},
): Promise<{ server: RunningServer; posted: Posted[] }> {
  const posted: Posted[] = [];
  const server = await setup(t, {
    ...options,
    post: async (task, _result, _attempt, secrets = []) => {
      posted.push({ url: task.webhook, taskId: task.id, secrets });
      return answer(task.webhook);
    },
  });
  return { server, posted };
}

const admin = "admin-acme";
const log = async (server: RunningServer, id: string): Promise<Reply["json"]> =>
  (await server.get(`/admin/tasks/${id}/deliveries`, admin)).json;
const endpoints = async (server: RunningServer): Promise<Reply["json"]> =>
  (await server.get("/admin/webhooks/endpoints", admin)).json.endpoints;
const failed = async (server: RunningServer, query = ""): Promise<Reply["json"]> =>
  (await server.get(`/admin/webhooks/failed${query}`, admin)).json;

/** A task that ended, with this webhook. */
async function ended(server: RunningServer, webhook: string): Promise<string> {
  const id = await server.leased({ webhook });
  assert.equal((await server.complete(id)).status, 200);
  return id;
}

/** Ends a task, and lets time pass until its webhook was delivered or given up. */
async function over(server: RunningServer, webhook: string): Promise<string> {
  const id = await ended(server, webhook);
  await untilState(server, id, /^(delivered|failed)$/);
  return id;
}

async function untilState(server: RunningServer, id: string, state: RegExp): Promise<void> {
  await until(async () => {
    await server.clock.advance(1000);
    return state.test((await log(server, id)).state);
  });
}

test("a log has every try with its answer, its duration and the next one", async (t) => {
  const answers: (number | undefined)[] = [500, undefined, 204];
  const { server } = await answering(t, () => answers.shift());
  const bare = await server.create();
  assert.deepEqual(await log(server, bare), { taskId: bare, state: "none", total: 0, tries: [] });
  await server.claim();
  const id = await server.leased({ webhook: "http://a.example/hook?x=1" });
  const url = "http://a.example/hook?x=1";
  const none = { taskId: id, url, total: 0, tries: [] };
  assert.deepEqual(await log(server, id), { ...none, state: "pending" });
  await server.complete(id);
  await server.clock.advance(1);
  await until(async () => (await log(server, id)).total === 1);
  const first = { at: "2026-01-02T03:04:05.12Z", durationMs: 0 };
  const waiting = await log(server, id);
  assert.deepEqual(waiting, {
    ...none,
    state: "waiting",
    nextTryAt: waiting.nextTryAt,
    total: 1,
    tries: [{ ...waiting.tries[0], ...first, status: 500, error: "the answer was 500" }],
  });
  await untilState(server, id, /delivered/);
  const { state, total, tries, nextTryAt, error } = await log(server, id.slice(-8));
  assert.deepEqual([state, total, nextTryAt, error], ["delivered", 3, undefined, undefined]);
  assert.deepEqual(
    tries.map((each: { status?: number; error?: string }) => [each.status, each.error]),
    [
      [500, "the answer was 500"],
      [undefined, "there was no answer"],
      [204, undefined],
    ],
  );
  assert.deepEqual((await failed(server)).failed, []);
});

test("a webhook that was given up says why, and is listed until it is delivered", async (t) => {
  let status = 400;
  const { server, posted } = await answering(t, () => status);
  const id = await over(server, "http://a.example/hook");
  const given = await log(server, id);
  assert.deepEqual([given.state, given.error], ["failed", "the answer was 400"]);
  const [listed] = (await failed(server)).failed;
  assert.deepEqual(
    [listed.taskId, listed.command, listed.url, listed.error, listed.total, listed.lastTry.status],
    [id, "render", "http://a.example/hook", "the answer was 400", 1, 400],
  );
  status = 200;
  const again = await server.post(`/admin/tasks/${id}/redeliver`, undefined, admin);
  assert.deepEqual([again.status, again.json.state], [200, "waiting"]);
  await untilState(server, id, /delivered/);
  assert.equal(posted.length, 2);
  assert.deepEqual(await failed(server), { failed: [] });
  assert.equal((await log(server, id)).total, 2);
});

test("one that waits for its next try is sent at once instead, and once", async (t) => {
  const answers = [500];
  const { server, posted } = await answering(t, () => answers.shift() ?? 200);
  const id = await ended(server, "http://a.example/hook");
  await server.clock.advance(1);
  await until(async () => (await log(server, id)).total === 1);
  await server.post(`/admin/tasks/${id}/redeliver`, undefined, admin);
  await server.clock.advance(1);
  await until(async () => (await log(server, id)).state === "delivered");
  await server.clock.advance(10 * 60_000);
  assert.equal(posted.length, 2);
});

test("what was given up since a moment is sent again, page by page", async (t) => {
  let status = 404;
  const { server, posted } = await answering(t, () => status);
  const before = await over(server, "http://a.example/hook");
  await server.clock.advance(minute);
  const since = new Date(server.clock.nowMs()).toISOString();
  const ids = [];
  for (const path of ["x", "y", "y", "y"]) ids.push(await over(server, `http://a.example/${path}`));
  const redeliver = (body: object): Promise<Reply> =>
    server.post("/admin/webhooks/redeliver", { since, ...body }, admin);
  const first = await failed(server, `?since=${since}&limit=3`);
  assert.deepEqual(
    first.failed.map((each: { taskId: string }) => each.taskId),
    ids.slice(0, 3),
  );
  const second = await failed(server, `?since=${since}&limit=3&after=${first.next}`);
  assert.deepEqual([second.failed[0].taskId, second.next], [ids[3], undefined]);
  status = 200;
  assert.deepEqual((await redeliver({ dryRun: true })).json, {
    matched: 4,
    redelivered: 0,
    failed: [],
    hasMore: false,
  });
  const some = (await redeliver({ url: "http://a.example/y", limit: 2 })).json;
  assert.deepEqual([some.redelivered, some.hasMore], [2, true]);
  assert.deepEqual((await redeliver({})).json.redelivered, 2);
  await until(async () => {
    await server.clock.advance(1000);
    return (await failed(server)).failed.length === 1 && posted.length === 9;
  });
  assert.equal((await failed(server)).failed[0].taskId, before);
});

test("what cannot be sent again is refused with the reason", async (t) => {
  const { server } = await answering(t, () => 410);
  const redeliver = (id: string): Promise<Reply> =>
    server.post(`/admin/tasks/${id}/redeliver`, undefined, admin);
  const code = (reply: Reply): unknown => [reply.status, reply.headers["codeq-error"]];
  const bare = await server.leased();
  await server.complete(bare);
  assert.deepEqual(code(await redeliver(bare)), [409, "no_webhook"]);
  const leased = await server.leased({ webhook: "http://b.example/" });
  assert.deepEqual(code(await redeliver(leased)), [409, "not_ended"]);
  const gone = await over(server, "http://a.example/hook");
  assert.deepEqual(code(await redeliver(gone)), [409, "endpoint_disabled"]);
  const unknown = "00000000-0000-4000-8000-000000000000";
  assert.deepEqual(code(await redeliver(unknown)), [404, "not_found"]);
  for (const body of [{}, { since: "x" }, { since: "2026-01-01T00:00:00Z", limit: 10_001 }]) {
    const reply = await server.post("/admin/webhooks/redeliver", body, admin);
    assert.equal(reply.status, 400, JSON.stringify(body));
  }
  for (const query of ["?since=x", "?after=x", "?limit=0", "?other=1"]) {
    assert.equal((await server.get(`/admin/webhooks/failed${query}`, admin)).status, 400, query);
  }
  for (const url of ["x", "", "http://a.example/other"]) {
    const reply = await server.post("/admin/webhooks/endpoints/enable", { url }, admin);
    assert.ok(reply.status === 400 || reply.status === 404, reply.text);
  }
});

test("an endpoint that says 410 is disabled at once, until somebody enables it", async (t) => {
  let status = 410;
  const { server, posted } = await answering(t, () => status);
  await over(server, "http://a.example/hook?task=1");
  const [disabled] = await endpoints(server);
  assert.deepEqual(
    [disabled.url, disabled.disabled, disabled.error],
    ["http://a.example/hook", true, "the answer was 410"],
  );
  const { records } = (await server.get("/admin/audit", admin)).json;
  const record = records.find(({ action }: { action: string }) => action.startsWith("disable"));
  assert.deepEqual(
    [record.action, record.target, record.detail, record.tenantId],
    ["disable_webhook_endpoint", "http://a.example/hook", "the answer was 410", "acme"],
  );
  const skipped = await over(server, "http://a.example/hook?task=2");
  assert.match((await log(server, skipped)).error, /disabled/);
  await over(server, "http://a.example/other");
  assert.equal(posted.length, 2);
  status = 200;
  const url = "http://a.example/hook";
  const reply = await server.post("/admin/webhooks/endpoints/enable", { url }, admin);
  assert.deepEqual(reply.json, { url, disabled: false });
  const id = await over(server, "http://a.example/hook");
  assert.equal((await log(server, id)).state, "delivered");
  assert.deepEqual(
    (await endpoints(server)).map((each: { url: string }) => each.url),
    ["http://a.example/other"],
  );
});

test("an endpoint that fails for long is disabled, and one delivery starts the time anew", async (t) => {
  let status: number | undefined;
  const settings = { webhookDisableAfterSeconds: 10 * 60 };
  const { server, posted } = await answering(t, () => status, { settings });
  const url = "http://a.example/hook";
  await over(server, url);
  await server.clock.advance(9 * minute);
  assert.equal((await endpoints(server))[0].disabled, false);
  status = 200;
  await over(server, url);
  await until(async () => (await endpoints(server)).length === 0);
  status = 404;
  await over(server, url);
  await server.clock.advance(5 * minute);
  await over(server, url);
  assert.equal((await endpoints(server))[0].disabled, false);
  await server.clock.advance(5 * minute);
  await over(server, url);
  assert.equal((await endpoints(server))[0].disabled, true);
  const posts = posted.length;
  await over(server, url);
  assert.equal(posted.length, posts);
});

test("logs, endpoints and secrets survive a power failure, and logs go with their tasks", async (t) => {
  const { server } = await answering(t, () => 410, { storage: "sim-disk" });
  const id = await over(server, "http://a.example/hook");
  const { json } = await server.post("/admin/webhooks/secrets", undefined, admin);
  server.world.crash("power");
  const next = await server.world.start();
  t.after(() => next.stop());
  assert.equal((await log(next, id)).state, "failed");
  assert.equal((await endpoints(next))[0].disabled, true);
  const { secrets } = (await next.get("/admin/webhooks/secrets", admin)).json;
  assert.deepEqual([secrets.length, secrets[0].id, secrets[1].id], [2, json.id, "configuration"]);
  await next.ask(`/v1/codeq/admin/tasks/${id}`, { method: "DELETE", caller: admin });
  assert.deepEqual(await failed(next), { failed: [] });
  const left = [...(await next.dump()).keys()].filter((key) => key.includes(id));
  assert.deepEqual(left, []);
});

test("a redelivery that was answered goes on after a power failure", async (t) => {
  let status: number | undefined = 400;
  const { server, posted } = await answering(t, () => status, { storage: "sim-disk" });
  const id = await over(server, "http://a.example/hook");
  status = undefined;
  assert.equal((await server.post(`/admin/tasks/${id}/redeliver`, undefined, admin)).status, 200);
  server.world.crash("power");
  const tried = posted.length;
  status = 200;
  const next = await server.world.start();
  t.after(() => next.stop());
  await untilState(next, id, /delivered/);
  assert.equal(posted.length, tried + 1);
  await next.clock.advance(10 * minute);
  assert.equal(posted.length, tried + 1);
});

test("a secret is created, shown once, and signs beside the one before for a while", async (t) => {
  const { server, posted } = await answering(t, () => 200);
  const rotate = (body?: object): Promise<Reply> =>
    server.post("/admin/webhooks/secrets", body, admin);
  const listed = async (): Promise<string[]> => {
    const { json } = await server.get("/admin/webhooks/secrets", admin);
    assert.doesNotMatch(JSON.stringify(json), /whsec_/);
    return json.secrets.map(({ id }: { id: string }) => id);
  };
  const signedWith = async (): Promise<readonly string[]> => {
    await over(server, "http://a.example/hook");
    return posted.at(-1)?.secrets ?? [];
  };
  assert.deepEqual(await signedWith(), []);
  const one = (await rotate()).json;
  assert.match(one.secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
  assert.equal(one.createdBy, "boss");
  assert.deepEqual(await listed(), [one.id, "configuration"]);
  assert.deepEqual(await signedWith(), [one.secret, ""]);
  const two = (await rotate({ overlapSeconds: 60 })).json;
  assert.deepEqual(await signedWith(), [two.secret, one.secret]);
  await server.clock.advance(minute);
  assert.deepEqual(await signedWith(), [two.secret]);
  assert.deepEqual(await listed(), [two.id]);
  const three = (await rotate({ overlapSeconds: 60 })).json;
  const revoke = (id: string): Promise<Reply> =>
    server.ask(`/v1/codeq/admin/webhooks/secrets/${id}`, { method: "DELETE", caller: admin });
  assert.equal((await revoke(three.id)).status, 204);
  await server.clock.advance(2 * minute);
  assert.deepEqual(await signedWith(), [two.secret]);
  assert.equal((await revoke(three.id)).status, 404);
  assert.equal((await revoke(two.id)).status, 204);
  assert.deepEqual(await signedWith(), []);
  for (const body of [{ overlapSeconds: -1 }, { overlapSeconds: 1e9 }, { overlap: 1 }]) {
    assert.equal((await rotate(body)).status, 400, JSON.stringify(body));
  }
});

test("of rotations at the same time each new secret signs", async (t) => {
  const server = await setup(t);
  const rotate = (): Promise<Reply> =>
    server.post("/admin/webhooks/secrets", { overlapSeconds: 3600 }, admin);
  const made = await Promise.all([rotate(), rotate()]);
  const { secrets } = (await server.get("/admin/webhooks/secrets", admin)).json;
  const ids = (of: readonly { id: string }[]): string[] => of.map(({ id }) => id).sort();
  assert.deepEqual(ids(secrets), ids(made.map(({ json }) => json)));
});
