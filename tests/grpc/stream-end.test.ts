/** How streams end: half-close, shutdown, and clients that are gone (P3). */
import assert from "node:assert/strict";
import test from "node:test";
import { settle } from "@codeq/simulated";
import { until } from "../contract/setup.ts";
import { workerStream } from "./messages.ts";
import { type Server, setup } from "./setup.ts";

const ok = { code: "OK", details: "" };

/** The task is where any worker gets it at once, as if nobody had claimed it. */
async function assertUntouched(server: Server, id: string): Promise<void> {
  const { task } = await (await server.worker("worker-acme-2")).ask({ ready: {} });
  assert.deepEqual([task.task.id, task.task.attempts], [id, 0]);
}

/** What an event feed would tell from now on. */
function toldBy(server: Server): string[] {
  const told: string[] = [];
  server.api.core.feed.listen({
    tenantId: undefined,
    hear: (each) => told.push("how" in each ? `${each.event} ${each.how}` : each.event),
    end: () => {},
  });
  return told;
}

test("a half-close of a producer: everything is acknowledged, then OK", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  const call = await server.producer();
  const release = server.holdWrites();
  for (let seq = 0; seq < 200; seq += 1) call.send({ create: { seq, command: "render" } });
  call.send({ createBatch: { tasks: [{ seq: 200, command: "render" }] } });
  call.halfClose();
  await until(() => server.readyNow() === 201);
  assert.equal(call.unread.length, 0);
  release();
  assert.deepEqual(await call.ended, ok);
  const acks = call.unread.flatMap((each) => each["createAckBatch"]?.acks ?? [each["createAck"]]);
  assert.deepEqual(
    acks.map(({ seq, ok: isOk }) => [seq, isOk]),
    Array.from({ length: 201 }, (_, seq) => [String(seq), true]),
  );
});

test("a half-close of a worker: everything is acknowledged, and no Ready is served any more", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  const { call, task } = await server.leased();
  const taskId = task["id"];
  call.send({ ready: {} }, { ready: { count: 3 } });
  await server.untilWaiting(2);
  const release = server.holdWrites();
  call.send({ heartbeat: { taskId } }, { result: { taskId, status: "COMPLETED" } }, { nack: {} });
  call.halfClose();
  await server.untilWaiting(0);
  const next = server.api.create();
  release();
  assert.deepEqual(await call.ended, ok);
  assert.deepEqual(call.unread.map((reply) => Object.keys(reply)[0]).sort(), [
    ...["heartbeatAck", "nackAck", "resultAck"],
  ]);
  await assertUntouched(server, await next);
});

test("a half-close while a claim is being written gives the task back", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  const id = await server.api.create();
  const call = await server.worker();
  const release = server.holdWrites();
  call.send({ ready: {} });
  await until(() => server.api.core.shard.leases.get(id as never) !== undefined);
  call.halfClose();
  assert.deepEqual(await call.ended, ok);
  assert.equal(call.unread.length, 0);
  release();
  await assertUntouched(server, id);
});

for (const [how, leave] of [
  ["is cancelled", "cancel"],
  ["loses its connection", "break"],
] as const) {
  test(`P3: a stream that ${how} while its tasks are being claimed gives them back, uncounted`, async (t) => {
    const server = await setup(t, { storage: "sim-disk" });
    const ids = [await server.api.create(), await server.api.create()];
    const told = toldBy(server);
    const connection = server.raw("worker");
    const { encode, path } = workerStream;
    const call = connection.call(path);
    call.send(encode({ hello: { token: "worker-acme" } }));
    await until(() => server.grpc.worker.streams === 1);
    const release = server.holdWrites();
    call.send(encode({ ready: {} }), encode({ ready: { count: 5 } }));
    const { leases } = server.api.core.shard;
    await until(() => ids.every((id) => leases.get(id as never) !== undefined));
    if (leave === "cancel") call.stream.close();
    else connection.close();
    await until(() => server.grpc.worker.streams === 0);
    release();
    await until(async () => (await server.api.stats()).ready === 2);
    await until(() => told.length === 4);
    assert.deepEqual(told.toSorted().slice(2), Array(2).fill("released unsent"));
    const next = await server.worker("worker-acme-2");
    const { taskBatch } = await next.ask({ ready: { count: 5 } });
    assert.equal(taskBatch.tasks.length, 2);
    for (const task of taskBatch.tasks) assert.equal(task.attempts, 0);
  });

  test(`P3: a stream that ${how} while it waits gets nothing any more`, async (t) => {
    const server = await setup(t);
    const connection = server.raw("worker");
    const { encode, path } = workerStream;
    const call = connection.call(path);
    call.send(encode({ hello: { token: "worker-acme" } }), encode({ ready: {} }));
    await server.untilWaiting(1);
    if (leave === "cancel") call.stream.close();
    else connection.close();
    await server.untilWaiting(0);
    await assertUntouched(server, await server.api.create());
  });
}

test("a worker counts as connected from its Hello to the end of its stream", async (t) => {
  const server = await setup(t);
  const connected = () => [...server.api.core.workers.of("acme" as never)].map(([id]) => id);
  server.open("worker");
  await server.producer();
  const unnamed = await server.worker();
  const named = await server.worker("worker-acme", "blue");
  assert.deepEqual(connected(), ["worker-1", "~blue@worker-1"]);
  unnamed.halfClose();
  await unnamed.ended;
  named.close();
  await until(() => connected().length === 0);
});

test("P3: a task that was sent stays with its worker when the stream ends", async (t) => {
  const server = await setup(t);
  const { call, task } = await server.leased({}, "worker-acme");
  call.close();
  await until(() => server.grpc.worker.streams === 0);
  assert.equal((await server.api.task(task["id"])).status, "IN_PROGRESS");
  const again = await server.worker();
  const { resultAck } = await again.ask({ result: { taskId: task["id"], status: "COMPLETED" } });
  assert.equal(resultAck.ok, true);
});

for (const [how, leave] of [
  ["is cancelled", "cancel"],
  ["loses its connection", "break"],
  ["has reached its deadline", "expire"],
] as const) {
  test(`P3: when a stream that does not read ${how}, what never left goes back, uncounted`, async (t) => {
    const server = await setup(t, { settings: { defaultLeaseSeconds: 600 } });
    const payload = "x".repeat(400_000);
    const total = 12;
    for (let made = 0; made < total; made += 1) await server.api.create({ payload });
    const told = toldBy(server);
    const connection = server.raw("worker");
    const { encode, path } = workerStream;
    // It has room for a part of the first task.
    const call = connection.call(path, { "grpc-timeout": "30S" });
    call.send(encode({ hello: { token: "worker-acme" } }));
    for (let sent = 0; sent < total; sent += 1) call.send(encode({ ready: {} }));
    await until(async () => (await server.api.stats()).inProgress > 5);
    await settle(100);
    if (leave === "cancel") call.stream.close();
    else if (leave === "break") connection.close();
    else await server.pass(40_000);
    await until(() => server.grpc.worker.streams === 0);
    // One write was under way, and nobody can say how much of it has left.
    await until(async () => (await server.api.stats()).inProgress === 1);
    assert.equal((await server.api.stats()).ready, total - 1);
    const claimed = told.filter((each) => each === "claimed").length;
    await until(() => told.length === claimed + claimed - 1);
    assert.deepEqual(new Set(told), new Set(["claimed", "released unsent"]));
    const next = await server.worker("worker-acme-2");
    for (let left = total - 1; left > 0; left -= 1) {
      const { task } = await next.ask({ ready: {} });
      assert.equal(task.task.attempts, 0);
    }
  });
}

test("P3: what has left a stream stays with its worker, also when more waits behind it", async (t) => {
  const server = await setup(t);
  const payload = "x".repeat(400_000);
  for (let made = 0; made < 6; made += 1) await server.api.create({ payload });
  const { encode, path } = workerStream;
  const call = server.raw("worker").call(path);
  call.send(encode({ hello: { token: "worker-acme" } }));
  for (let sent = 0; sent < 6; sent += 1) call.send(encode({ ready: {} }));
  let bytes = 0;
  call.stream.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > 2 * payload.length) call.stream.pause();
  });
  await until(() => bytes > 2 * payload.length);
  await settle(100);
  call.stream.close();
  await until(() => server.grpc.worker.streams === 0);
  const { inProgress, ready } = await server.api.stats();
  assert.equal(inProgress + ready, 6);
  // Two have arrived.
  assert.ok(inProgress >= 2 && ready >= 1, `${inProgress} and ${ready}`);
});

test("P3: a task goes back also when giving it back meets a full disk", async (t) => {
  const server = await setup(t, { storage: "sim-disk", settings: { defaultLeaseSeconds: 60 } });
  const id = await server.api.create();
  const call = await server.worker();
  const release = server.holdWrites();
  call.send({ ready: {} });
  await until(() => server.api.core.shard.leases.get(id as never) !== undefined);
  call.close();
  await until(() => server.grpc.worker.streams === 0);
  server.api.world.disk.failNext("write", "ENOSPC");
  server.api.world.disk.failNext("write", "ENOSPC");
  release();
  await server.pass(2000);
  await server.pass(600_000);
  const { task } = await (await server.worker("worker-acme-2")).ask({ ready: {} });
  assert.equal(task.task.id, id);
});

test("what a stream sent before it broke is done all the same", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  const call = await server.producer();
  const release = server.holdWrites();
  for (let seq = 0; seq < 20; seq += 1) call.send({ create: { seq, command: "render" } });
  await until(() => server.readyNow() === 20);
  call.close();
  await until(() => server.grpc.producer.streams === 0);
  release();
  assert.equal((await server.api.stats()).ready, 20);
});

test("a shutdown ends streams with OK at once, also with Readys that wait", async (t) => {
  const server = await setup(t);
  const worker = await server.worker();
  worker.send({ ready: {} }, { ready: { count: 4 } });
  await server.untilWaiting(2);
  const producer = await server.producer();
  const silent = server.open("worker");
  await until(() => server.grpc.worker.streams === 2);
  const closed = Promise.all([server.grpc.worker.close(5000), server.grpc.producer.close(5000)]);
  assert.deepEqual(await worker.ended, ok);
  assert.deepEqual(await producer.ended, ok);
  assert.deepEqual(await silent.ended, ok);
  assert.equal(server.api.core.shard.claims.waiting.size, 0);
  for (const each of [worker, producer, silent]) each.close();
  await closed;
});

test("a shutdown waits for what was taken, and acknowledges it", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  const producer = await server.producer();
  const release = server.holdWrites();
  producer.send({ create: { seq: 1, command: "render" } });
  await until(() => server.readyNow() === 1);
  const closed = server.grpc.producer.close(5000);
  await server.pass(4000);
  assert.equal(producer.unread.length, 0);
  release();
  assert.deepEqual(await producer.ended, ok);
  assert.equal(producer.unread[0]?.["createAck"].ok, true);
  producer.close();
  await closed;
});

test("a shutdown does not wait longer than its grace", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  const producer = await server.producer();
  const release = server.holdWrites();
  producer.send({ create: { seq: 1, command: "render" } });
  await until(() => server.readyNow() === 1);
  const closed = server.grpc.producer.close(5000);
  await server.pass(5000);
  const details = "the server is shutting down";
  assert.deepEqual(await producer.ended, { code: "UNAVAILABLE", details });
  await server.pass(1000);
  await closed;
  release();
});

test("a call of the library that has a deadline ends with it", async (t) => {
  const server = await setup(t);
  const { encode, path } = workerStream;
  const call = server.raw("worker").call(path, { "grpc-timeout": "7S" });
  call.stream.resume();
  call.send(encode({ hello: { token: "worker-acme" } }), encode({ ready: {} }));
  await server.untilWaiting(1);
  await server.pass(7000);
  assert.equal(await call.ended, "4 context deadline exceeded");
  await server.untilWaiting(0);
  await assertUntouched(server, await server.api.create());
});
