/** Quotas on streams: refusals are acknowledgements, Readys wait, and no stream ends because of one. */
import assert from "node:assert/strict";
import test from "node:test";
import { noQuotas, type TenantQuota } from "../../packages/server/src/config/quotas.ts";
import type { Config } from "../../packages/server/src/config/settings.ts";
import type { Reply } from "./messages.ts";
import { setup } from "./setup.ts";

/** For `acme` only. */
function quota(own: Partial<TenantQuota>): { settings: Partial<Config> } {
  const tenants = new Map([["acme", { ...noQuotas.default, ...own }]]);
  return { settings: { quotas: { ...noQuotas, tenants } } };
}

test("creations over a quota are refused one by one, with what is exceeded", async (t) => {
  const server = await setup(t, quota({ pendingTasks: 2 }));
  const call = await server.producer();
  const tasks = [1, 2, 3].map((seq) => ({ seq, command: "render" }));
  const { createAckBatch } = await call.ask({ createBatch: { tasks } });
  const over = "quota exceeded: pendingTasks is 2, the limit is 2";
  assert.deepEqual(
    createAckBatch.acks.map(({ seq, ok, errorMessage }: Reply) => [seq, ok, errorMessage]),
    [
      ["1", true, ""],
      ["2", true, ""],
      ["3", false, over],
    ],
  );
  const { createAck } = await call.ask({ create: { seq: 4, command: "render" } });
  assert.deepEqual(createAck, { seq: "4", ok: false, taskId: "", errorMessage: over });
  const other = await server.producer("producer-globex");
  assert.equal((await other.ask({ create: { command: "render" } }))["createAck"].ok, true);
});

test("a Ready waits for a lease, and is served in the turn in which one ends", async (t) => {
  const server = await setup(t, quota({ concurrentLeases: 2 }));
  for (let n = 0; n < 4; n += 1) await server.api.create();
  const call = await server.worker();
  const { taskBatch } = await call.ask({ ready: { count: 10 } });
  assert.equal(taskBatch.tasks.length, 2);
  call.send({ ready: {} });
  await call.expectSilence();
  await server.pass(60_000);
  await call.expectSilence();
  const [first] = taskBatch.tasks;
  call.send({ result: { taskId: first.id, status: "COMPLETED" } });
  const replies = await call.take(2);
  assert.deepEqual(replies.flatMap(Object.keys).sort(), ["resultAck", "task"]);
});

test("requests: a batch is one, what is too much is refused in its acknowledgement", async (t) => {
  const server = await setup(t, quota({ requestsPerSecond: 2 }));
  const call = await server.producer();
  const tasks = Array.from({ length: 20 }, (_, seq) => ({ seq, command: "render" }));
  const ask = async (): Promise<boolean[]> =>
    (await call.ask({ createBatch: { tasks } }))["createAckBatch"].acks.map(({ ok }: Reply) => ok);
  assert.deepEqual(new Set([...(await ask()), ...(await ask())]), new Set([true]));
  assert.deepEqual(new Set(await ask()), new Set([false]));
  const { createAck } = await call.ask({ create: { seq: 9, command: "render" } });
  assert.equal(createAck.errorMessage, "quota exceeded: requestsPerSecond is 2, the limit is 2");
  await server.pass(1000);
  assert.deepEqual(new Set(await ask()), new Set([true]));
});

test("requests: a Ready waits its turn; results and heartbeats are told", async (t) => {
  const server = await setup(t, quota({ requestsPerSecond: 3 }));
  const { call, task } = await server.leased();
  const taskId = task["id"];
  call.send({ ready: {} });
  await server.untilWaiting(1);
  call.send({ ready: {} });
  const over = "quota exceeded: requestsPerSecond is 3, the limit is 3";
  const { heartbeatAck } = await call.ask({ heartbeat: { taskId } });
  assert.deepEqual(heartbeatAck, { taskId, ok: false, errorMessage: over });
  const results = [{ taskId, status: "COMPLETED" }];
  const { resultAckBatch } = await call.ask({ resultBatch: { results } });
  assert.deepEqual(resultAckBatch.acks, [{ taskId, ok: false, errorMessage: over }]);
  await server.pass(334);
  await server.untilWaiting(2);
  await server.pass(1000);
  assert.equal((await call.ask({ resultBatch: { results } }))["resultAckBatch"].acks[0].ok, true);
});
