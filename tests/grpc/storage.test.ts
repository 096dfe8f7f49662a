/** What the streams say and do while the disk is full, and after it (contract D5 of the decisions). */
import assert from "node:assert/strict";
import test from "node:test";
import { until } from "../contract/setup.ts";
import { setup } from "./setup.ts";

const full = "the server's disk is full; nothing was written";

test("a full disk refuses tasks in their acknowledgements, and the stream goes on", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  const call = await server.producer();
  const disk = await server.fillDisk();
  const refused = { seq: "1", ok: false, taskId: "", errorMessage: full };
  assert.deepEqual(await call.ask({ create: { seq: 1, command: "render" } }), {
    createAck: refused,
  });
  const tasks = [{ seq: 1, command: "render" }, { seq: 2 }, { seq: 1, command: "render" }];
  const { createAckBatch } = await call.ask({ createBatch: { tasks } });
  const faulty = { seq: "2", ok: false, taskId: "", errorMessage: "command is required" };
  assert.deepEqual(createAckBatch.acks, [refused, faulty, refused]);
  await disk.free();
  const { createAck } = await call.ask({ create: { seq: 3, command: "render" } });
  assert.equal(createAck.ok, true);
  assert.equal((await server.api.stats()).ready, 1);
});

test("a write that fails is refused in the acknowledgements of all that shared it", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  const call = await server.producer();
  server.api.world.disk.failNext("write", "ENOSPC");
  const tasks = Array.from({ length: 10 }, (_, seq) => ({ seq, command: "render" }));
  const { createAckBatch } = await call.ask({ createBatch: { tasks } });
  for (const ack of createAckBatch.acks) {
    assert.deepEqual([ack.ok, ack.taskId, ack.errorMessage], [false, "", full]);
  }
  await server.pass(2000);
  assert.equal((await server.api.stats()).ready, 0);
  const again = await call.ask({ createBatch: { tasks } });
  assert.ok(again["createAckBatch"].acks.every((ack: { ok: boolean }) => ack.ok));
});

test("a full disk refuses what brings a task back, and takes results, which make room later", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  const { call, task } = await server.leased();
  const taskId = task["id"];
  const disk = await server.fillDisk();
  const refused = { taskId, ok: false, errorMessage: full };
  assert.deepEqual(await call.ask({ nack: { taskId } }), {
    nackAck: { ...refused, appliedDelaySeconds: 0, dlq: false },
  });
  assert.deepEqual(await call.ask({ abandon: { taskId } }), { abandonAck: refused });
  assert.equal((await server.api.task(taskId)).status, "IN_PROGRESS");
  const result = { taskId, status: "COMPLETED" };
  assert.equal((await call.ask({ result }))["resultAck"].ok, true);
  assert.equal((await server.api.task(taskId)).status, "COMPLETED");
  await disk.free();
  const repeated = await call.ask({ resultBatch: { results: [result, result] } });
  assert.ok(repeated["resultAckBatch"].acks.every((ack: { ok: boolean }) => ack.ok));
});

test("a Ready that comes while the disk is full is held, and served when it is not", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  const id = await server.api.create();
  const call = await server.worker();
  const disk = await server.fillDisk();
  call.send({ ready: {} }, { ready: { count: 2 } });
  await call.expectSilence();
  await server.pass(60_000);
  await call.expectSilence();
  await disk.free();
  assert.equal((await call.next())["task"].task.id, id);
  const next = await server.api.create();
  assert.equal((await call.next())["taskBatch"].tasks[0].id, next);
});

test("a Ready that is refused for what it asks is refused on a full disk too", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  const call = await server.worker();
  await server.fillDisk();
  call.send({ ready: {} });
  const commands = Array.from({ length: 300 }, () => "render");
  assert.deepEqual(await call.ask({ ready: { commands } }), {
    error: { message: "invalid 'commands' (at most 256)", code: "InvalidArgument" },
  });
  const { error } = await call.ask({ ready: { commands: ["x".repeat(3_000_000)] } });
  assert.equal(error.message, "invalid command");
});

test("a Ready that waits lives through a full disk and a rollback", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  const call = await server.worker();
  call.send({ ready: {} });
  await server.untilWaiting(1);
  const other = await server.worker("worker-acme-2");
  other.send({ ready: { count: 2 } });
  await server.untilWaiting(2);
  const disk = await server.fillDisk();
  await server.pass(10_000);
  await disk.free();
  await server.untilWaiting(2);
  await call.expectSilence();
  await other.expectSilence();
  const ids = [await server.api.create(), await server.api.create()];
  const single = (await call.next())["task"].task.id;
  const batch = (await other.next())["taskBatch"].tasks[0].id;
  assert.deepEqual([single, batch].sort(), ids.sort());
});

test("a claim whose write fails is tried again, without an attempt being counted", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  const id = await server.api.create();
  const call = await server.worker();
  server.api.world.disk.failNext("write", "ENOSPC");
  call.send({ ready: {} });
  await until(() => server.api.core.store.state === "full");
  await call.expectSilence();
  await server.pass(3000);
  const { task } = await call.next();
  assert.deepEqual([task.task.id, task.task.attempts], [id, 0]);
});

test("a stream that ends while its Ready is put off leaves no timer behind", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  const call = await server.worker();
  const disk = await server.fillDisk();
  call.send({ ready: {} });
  await call.expectSilence();
  call.halfClose();
  assert.equal((await call.ended).code, "OK");
  await disk.free();
  const id = await server.api.create();
  await server.pass(5000);
  assert.equal((await server.api.task(id)).status, "PENDING");
});
