/** Clients that send too much, or do not read: the server holds a bounded amount for each. */
import assert from "node:assert/strict";
import test from "node:test";
import { settle } from "@codeq/simulated";
import { until } from "../contract/setup.ts";
import { producerStream, type Reply, workerStream } from "./messages.ts";
import { type Server, setup } from "./setup.ts";

const kibibyte = 1024;

/** Turns in which everything that can be read is read. */
const quietTurns = 300;

test("a stream is not read from while 4096 of its events are unanswered", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  const call = await server.producer();
  const release = server.holdWrites();
  const total = 4500;
  for (let seq = 0; seq < total; seq += 1) call.send({ create: { seq, command: "render" } });
  await until(() => server.readyNow() >= 4096);
  await settle(quietTurns);
  assert.equal(server.readyNow(), 4096);
  const other = await server.worker();
  await other.expectSilence();
  release();
  const acks = await call.take(total);
  assert.deepEqual(
    acks.map(({ createAck }) => createAck.seq),
    acks.map((_, seq) => String(seq)),
  );
});

test("a stream is not read from while 8 MiB of its events are unanswered", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  const call = await server.producer();
  const release = server.holdWrites();
  const payload = `"${"x".repeat(256 * kibibyte)}"`;
  const total = 60;
  for (let seq = 0; seq < total; seq += 1)
    call.send({ create: { seq, command: "render", payload } });
  await until(() => server.readyNow() >= 32);
  await settle(quietTurns);
  assert.equal(server.readyNow(), 32);
  release();
  for (const { createAck } of await call.take(total)) assert.equal(createAck.ok, true);
});

test("1024 Readys may wait on a stream; one more is refused, and those are served", async (t) => {
  const server = await setup(t);
  const call = await server.worker();
  call.send(...Array.from({ length: 1025 }, () => ({ ready: {} })));
  assert.deepEqual(await call.next(), {
    error: { message: "too many outstanding Readys", code: "ResourceExhausted" },
  });
  await server.untilWaiting(1024);
  const producer = await server.producer();
  const tasks = Array.from({ length: 1024 }, (_, seq) => ({ seq, command: "render" }));
  await producer.ask({ createBatch: { tasks } });
  const ids = new Set((await call.take(1024)).map(({ task }) => task.task.id));
  assert.equal(ids.size, 1024);
  const id = await server.api.create();
  assert.equal((await call.ask({ ready: {} }))["task"].task.id, id);
});

test("a worker that does not read holds a bounded number of tasks; the others get the rest", async (t) => {
  const server = await setup(t);
  const total = 40;
  const payload = "x".repeat(512 * kibibyte);
  for (let made = 0; made < total; made += 1) await server.api.create({ payload });
  const { encode, path } = workerStream;
  const slow = server.raw("worker").call(path);
  slow.send(encode({ hello: { token: "worker-acme" } }));
  for (let sent = 0; sent < total; sent += 1) slow.send(encode({ ready: {} }));
  await until(async () => (await server.api.stats()).inProgress > 0);
  await settle(quietTurns);
  await server.pass(5000);
  const { inProgress, ready } = await server.api.stats();
  // At most 4 MiB unread, and what one claim adds to it.
  assert.ok(inProgress <= 10, `${inProgress} are with the slow worker`);
  assert.equal(inProgress + ready, total);

  const other = await server.worker("worker-acme-2");
  for (let left = ready; left > 0; ) {
    const { taskBatch } = await other.ask({ ready: { count: 5 } });
    for (const task of taskBatch.tasks) assert.equal(task.attempts, 0);
    const results = taskBatch.tasks.map(({ id }: Reply) => ({ taskId: id, status: "COMPLETED" }));
    const { resultAckBatch } = await other.ask({ resultBatch: { results } });
    assert.ok(resultAckBatch.acks.every((ack: Reply) => ack["ok"]));
    left -= results.length;
  }
  // When it reads at last, it gets what it has, and its other Readys are served.
  const mark = "the-last-one";
  const reading = slow.readUntil((bytes) => bytes.includes(mark));
  let isRead = false;
  void reading.then(() => {
    isRead = true;
  });
  await server.untilWaiting(total - inProgress);
  await server.api.create({ payload: mark });
  await until(() => isRead);
});

test("a worker that does not read and sends results is not read from, and loses nothing", async (t) => {
  const server = await setup(t);
  const { encode, path } = workerStream;
  const slow = server.raw("worker").call(path);
  slow.send(encode({ hello: { token: "worker-acme" } }));
  // Its acknowledgements are far longer than the results are.
  const results = Array.from({ length: 8192 }, () => ({ status: "\0".repeat(20) }));
  const batch = encode({ resultBatch: { results } });
  const total = 20;
  for (let sent = 0; sent < total; sent += 1) slow.send(batch);
  await settle(quietTurns);
  const taken = await server.api.metric(
    'codeq_stream_messages_total{kind="worker",direction="in"}',
  );
  // The Hello, and the batch that filled what may be unread.
  assert.ok(taken <= 3, `${taken} messages were taken`);
  const error = 'invalid status (must be COMPLETED or FAILED): ""'.length + 100;
  await slow.readUntil((_, bytes) => bytes > total * results.length * error);
});

test("a producer that does not read its acknowledgements is not read from, and others are", async (t) => {
  const server = await setup(t);
  const { encode, path } = producerStream;
  const slow = server.raw("producer").call(path);
  slow.send(encode({ hello: { token: "producer-acme" } }));
  // One task of each batch is good; the refusals of the others are more than what may be unread.
  const bad = Array.from({ length: 12_000 }, () => ({
    command: "render",
    delaySeconds: 2 ** 31 - 1,
  }));
  const batch = encode({ createBatch: { tasks: [{ command: "render" }, ...bad] } });
  const total = 5;
  for (let sent = 0; sent < total; sent += 1) slow.send(batch);
  await until(() => server.readyNow() > 0);
  await settle(quietTurns);
  assert.ok(server.readyNow() <= 3, `${server.readyNow()} batches were taken`);
  const other = await server.producer();
  const { createAck } = await other.ask({ create: { seq: 1, command: "other" } });
  assert.equal(createAck.ok, true);
  slow.stream.resume();
  await until(() => server.readyNow() === total);
});

test("P5: a task id that fills a message is repeated in part, so that its answer fits into one", async (t) => {
  const server = await setup(t);
  const call = await server.worker();
  const taskId = "x".repeat(4 * 1024 * kibibyte - 100);
  const refused = { taskId: "x".repeat(256), ok: false };
  const unknown = { ...refused, errorMessage: "not-found" };
  assert.deepEqual(await call.ask({ heartbeat: { taskId } }), { heartbeatAck: unknown });
  assert.deepEqual(await call.ask({ abandon: { taskId } }), { abandonAck: unknown });
  assert.deepEqual(await call.ask({ nack: { taskId } }), {
    nackAck: { ...unknown, appliedDelaySeconds: 0, dlq: false },
  });
  const result = { taskId, status: "COMPLETED" };
  const notFound = { ...refused, errorMessage: "task not found" };
  assert.deepEqual(await call.ask({ result }), { resultAck: notFound });
  assert.deepEqual(await call.ask({ resultBatch: { results: [result] } }), {
    resultAckBatch: { acks: [notFound] },
  });
});

test("P5: acknowledgements that are large together come in several messages, in order, none over 4 MiB", async (t) => {
  const server = await setup(t);
  const worker = await server.worker();
  const statusAt = (index: number) => String(index).padEnd(50, "\0");
  const results = Array.from({ length: 60_000 }, (_, index) => ({ status: statusAt(index) }));
  worker.send({ resultBatch: { results } });
  const acks: Reply[] = [];
  let messages = 0;
  // The client refuses a message over 4 MiB, as all do.
  for (; acks.length < results.length; messages += 1) {
    acks.push(...(await worker.next())["resultAckBatch"].acks);
  }
  assert.ok(messages > 1 && messages < 10, `${messages} messages`);
  for (const [index, ack] of acks.entries()) {
    assert.ok(ack["errorMessage"].includes(`: "${index}\\u0000`), ack["errorMessage"]);
  }
  await worker.expectSilence();

  const producer = await server.producer();
  const tasks = results.map((_, seq) => ({ seq, command: "render", delaySeconds: 2 ** 31 - 1 }));
  producer.send({ createBatch: { tasks } });
  const seqs: string[] = [];
  for (messages = 0; seqs.length < tasks.length; messages += 1) {
    const { createAckBatch } = await producer.next();
    seqs.push(...createAckBatch.acks.map(({ seq }: Reply) => seq));
  }
  assert.ok(messages > 1, `${messages} messages`);
  assert.deepEqual(
    seqs,
    tasks.map(({ seq }) => String(seq)),
  );
  await producer.expectSilence();
});

/** Counts the results that are read. */
function countReads(server: Server): { count: number } {
  const { broker } = server.api.core;
  const reads = { count: 0 };
  const outcome = broker.outcome.bind(broker);
  broker.outcome = (...of) => {
    reads.count += 1;
    return outcome(...of);
  };
  return reads;
}

const largeResult = { text: "x".repeat(900 * kibibyte) };

async function completeLarge(server: Server, id: string): Promise<void> {
  const body = { status: "COMPLETED", result: largeResult };
  assert.equal((await server.api.post(`/tasks/${id}/result`, body, "worker-acme")).status, 200);
}

/** A producer that reads nothing, and waits for the results of these tasks. */
function deafProducer(server: Server, taskIds: readonly string[]): void {
  const { encode, path } = producerStream;
  const call = server.raw("producer").call(path);
  call.send(encode({ hello: { token: "producer-acme" } }));
  for (const taskId of taskIds) call.send(encode({ awaitResult: { taskId, waitSeconds: 60 } }));
}

const cutOff = 'codeq_streams_closed_total{kind="producer",reason="slow_reader"}';

test("results are read when their producer takes them, and one that reads gets them all", async (t) => {
  const server = await setup(t);
  const ids: string[] = [];
  // Together they are more than a stream may have unsent.
  while (ids.length < 20) {
    const id = await server.api.leased({ command: "render" });
    await completeLarge(server, id);
    ids.push(id);
  }
  const reads = countReads(server);
  deafProducer(server, ids);
  await until(() => reads.count > 0);
  await settle(quietTurns);
  assert.ok(reads.count <= 6, `${reads.count} were read for a producer that takes none`);
  const call = await server.producer();
  call.send(...ids.map((taskId) => ({ awaitResult: { taskId, waitSeconds: 5 } })));
  const replies = await call.take(ids.length);
  assert.deepEqual(new Set(replies.map(({ taskResult }) => taskResult.taskId)), new Set(ids));
  for (const { taskResult } of replies) {
    assert.equal(taskResult.ok, true);
    assert.equal(taskResult.resultJson.length, JSON.stringify(largeResult).length);
  }
  assert.equal(await server.api.metric(cutOff), 0);
});

test("awaits of one task share one read, whether their producer takes the result or not", async (t) => {
  const server = await setup(t);
  const id = await server.api.leased({ command: "render" });
  const awaits = Array.from({ length: 30 }, () => id);
  const call = await server.producer();
  call.send(...awaits.map((taskId) => ({ awaitResult: { taskId, waitSeconds: 60 } })));
  deafProducer(server, awaits);
  await server.api.untilWaiting(2 * awaits.length, "results");
  const reads = countReads(server);
  await completeLarge(server, id);
  for (const { taskResult } of await call.take(awaits.length)) assert.equal(taskResult.ok, true);
  await settle(quietTurns);
  assert.equal(reads.count, 2, "one for each stream");
  assert.equal(await server.api.metric(cutOff), 0);
});
