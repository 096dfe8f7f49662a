/** Contract part 7 on streams, and S14: a stream is no way around a limit, and no limit ends one. */
import assert from "node:assert/strict";
import test from "node:test";
import type {
  RateLimitSetting,
  RateScope,
} from "../../packages/server/src/config/rate-limit-settings.ts";
import { until } from "../contract/setup.ts";
import type { Reply } from "./messages.ts";
import { setup } from "./setup.ts";

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

const refusal = "rate limit exceeded; try again in 1000 ms";

function batchOf(count: number): { createBatch: { tasks: object[] } } {
  const tasks = Array.from({ length: count }, (_, n) => ({ seq: n + 1, command: "render" }));
  return { createBatch: { tasks } };
}

function acksOf({ createAckBatch }: Reply): [string, boolean, string][] {
  return createAckBatch.acks.map(({ seq, ok, errorMessage }: Reply) => [seq, ok, errorMessage]);
}

test("S14: creations on a stream count, are refused in their acknowledgement, and the stream goes on", async (t) => {
  const server = await setup(t, { settings: perToken("producer", 2) });
  const call = await server.producer();
  const create = async (seq: number): Promise<Reply> =>
    (await call.ask({ create: { seq, command: "render" } }))["createAck"];
  assert.equal((await create(1))["ok"], true);
  assert.equal((await create(2))["ok"], true);
  assert.deepEqual(await create(3), { seq: "3", ok: false, taskId: "", errorMessage: refusal });
  assert.equal((await server.api.stats()).ready, 2);
  await server.pass(1000);
  assert.equal((await create(4))["ok"], true);
});

test("S14: a batch on a stream counts as its tasks, and each of its tasks is answered", async (t) => {
  const server = await setup(t, { settings: perToken("producer", 5) });
  const call = await server.producer();
  assert.deepEqual(acksOf(await call.ask(batchOf(4))), [
    ["1", true, ""],
    ["2", true, ""],
    ["3", true, ""],
    ["4", true, ""],
  ]);
  assert.deepEqual(acksOf(await call.ask(batchOf(2))), [
    ["1", false, refusal],
    ["2", false, refusal],
  ]);
  assert.equal((await server.api.stats()).ready, 4);
  const [first] = acksOf(await call.ask(batchOf(6)));
  assert.match(first?.[2] ?? "", /a batch of 6 is larger than the burst size of the rate limit/);
  await server.pass(1000);
  assert.deepEqual(
    acksOf(await call.ask(batchOf(2))).map(([, ok]) => ok),
    [true, true],
  );
});

test("S14: streams and requests of a tenant share its limit, and other tenants have their own", async (t) => {
  const server = await setup(t, { settings: perTenant("producer", 3) });
  const one = await server.producer();
  const two = await server.producer("admin-acme");
  assert.equal((await one.ask(batchOf(1)))["createAckBatch"].acks[0].ok, true);
  assert.equal((await two.ask(batchOf(1)))["createAckBatch"].acks[0].ok, true);
  await server.api.create();
  const http = await server.api.post("/tasks", { command: "render", payload: 1 }, "producer-acme");
  assert.equal(http.status, 429);
  for (const call of [one, two])
    assert.deepEqual(acksOf(await call.ask(batchOf(1)))[0]?.[1], false);
  const other = await server.producer("producer-globex");
  assert.equal((await other.ask(batchOf(3)))["createAckBatch"].acks[2].ok, true);
});

test("a Ready over the limit is held and served in its turn, never refused", async (t) => {
  const server = await setup(t, { settings: perToken("worker", 2) });
  const ids: string[] = [];
  for (let n = 0; n < 5; n += 1) ids.push(await server.api.create());
  const call = await server.worker();
  call.send(...ids.map(() => ({ ready: {} })));
  const served = async (count: number): Promise<string[]> =>
    (await call.take(count)).map(({ task }) => task.task.id);
  assert.deepEqual(await served(2), ids.slice(0, 2));
  await call.expectSilence();
  await server.pass(999);
  await call.expectSilence();
  await server.pass(1);
  assert.deepEqual(await served(1), ids.slice(2, 3));
  await call.expectSilence();
  await server.pass(2000);
  assert.deepEqual(await served(2), ids.slice(3));
  await call.expectSilence();
});

test("a Ready for several gets what the limit leaves, and what it did not get is not counted", async (t) => {
  const server = await setup(t, { settings: perToken("worker", 4) });
  for (let n = 0; n < 6; n += 1) await server.api.create();
  const call = await server.worker();
  const { taskBatch } = await call.ask({ ready: { count: 10 } });
  assert.equal(taskBatch.tasks.length, 4);
  call.send({ ready: { count: 10 } });
  await server.pass(1000);
  assert.equal((await call.next())["taskBatch"].tasks.length, 1);
  await server.pass(4000);
  assert.equal((await call.ask({ ready: { count: 10 } }))["taskBatch"].tasks.length, 1);
  // One was used of four, so three are left at once.
  for (let n = 0; n < 4; n += 1) await server.api.create();
  assert.equal((await call.ask({ ready: { count: 10 } }))["taskBatch"].tasks.length, 3);
});

test("Readys that wait for work and Readys that wait for the limit do not hold up each other", async (t) => {
  const server = await setup(t, { settings: perToken("worker", 1) });
  const call = await server.worker();
  call.send({ ready: { commands: ["rare"] } }, { ready: { commands: ["render"] } });
  await server.untilWaiting(1);
  const render = await server.api.create();
  await call.expectSilence();
  await server.pass(1000);
  assert.equal((await call.next())["task"].task.id, render);
  const rare = await server.api.create({ command: "rare" });
  assert.equal((await call.next())["task"].task.id, rare);
});

test("a stream that ends while its Readys are held by the limit leaves no timer behind", async (t) => {
  const server = await setup(t, { settings: perToken("worker", 1) });
  const call = await server.worker();
  await server.pass(1000);
  const before = server.api.clock.timers;
  call.send({ ready: {} }, { ready: {} });
  await call.expectSilence();
  assert.equal(server.api.clock.timers, before + 1);
  call.halfClose();
  assert.equal((await call.ended).code, "OK");
  await until(() => server.api.clock.timers <= before);
  assert.equal(server.api.core.shard.claims.waiting.size, 0);
});

test("results and heartbeats on a stream are not limited", async (t) => {
  const server = await setup(t, { settings: perToken("worker", 1) });
  const { call, task } = await server.leased();
  for (let n = 0; n < 5; n += 1) {
    assert.equal((await call.ask({ heartbeat: { taskId: task["id"] } }))["heartbeatAck"].ok, true);
  }
  const result = { taskId: task["id"], status: "COMPLETED" };
  const { resultAckBatch } = await call.ask({ resultBatch: { results: [result, result] } });
  assert.deepEqual(
    resultAckBatch.acks.map(({ ok }: Reply) => ok),
    [true, true],
  );
});
