/** The metrics of the streams: each moves when what it counts happens, and gauges come back. */
import assert from "node:assert/strict";
import test from "node:test";
import { until } from "../contract/setup.ts";
import { producerStream, workerStream } from "./messages.ts";
import { type Server, setup } from "./setup.ts";

const kibibyte = 1024;

function open(server: Server, kind: string): Promise<number> {
  return server.api.metric(`codeq_streams_open{kind="${kind}"}`);
}

function closed(server: Server, kind: string, reason: string): Promise<number> {
  return server.api.metric(`codeq_streams_closed_total{kind="${kind}",reason="${reason}"}`);
}

function refused(server: Server, kind: string, reason: string): Promise<number> {
  return server.api.metric(`codeq_streams_refused_total{kind="${kind}",reason="${reason}"}`);
}

function messages(server: Server, kind: string, direction: string): Promise<number> {
  return server.api.metric(`codeq_stream_messages_total{kind="${kind}",direction="${direction}"}`);
}

function pauses(server: Server, kind: string, cause: string): Promise<number> {
  return server.api.metric(`codeq_stream_pauses_total{kind="${kind}",cause="${cause}"}`);
}

const held = (server: Server): Promise<number> => server.api.metric("codeq_held_readys");

test("streams and connections are counted while they are open, and how they ended after", async (t) => {
  const server = await setup(t);
  const connections = () => server.api.metric('codeq_connections{listener="grpc"}');
  const worker = await server.worker();
  const other = await server.worker();
  const producer = await server.producer();
  assert.deepEqual([await open(server, "worker"), await open(server, "producer")], [2, 1]);
  assert.equal(await connections(), 3);
  worker.halfClose();
  await worker.ended;
  other.cancel();
  producer.send(Buffer.from("ff", "hex"));
  await producer.ended;
  await until(async () => (await open(server, "worker")) + (await open(server, "producer")) === 0);
  assert.equal(await closed(server, "worker", "ended"), 1);
  assert.equal(await closed(server, "worker", "cancelled"), 1);
  assert.equal(await closed(server, "producer", "bad_input"), 1);
  for (const each of [worker, other, producer]) each.close();
  await until(async () => (await connections()) === 0);
});

test("messages are counted in both directions, a batch as one", async (t) => {
  const server = await setup(t);
  const producer = await server.producer();
  await producer.ask({ create: { seq: 1, command: "render" } });
  const tasks = [{ command: "render" }, { command: "render" }];
  await producer.ask({ createBatch: { tasks } });
  assert.equal(await messages(server, "producer", "in"), 3);
  assert.equal(await messages(server, "producer", "out"), 3);
  const worker = await server.worker();
  await worker.ask({ ready: { count: 3 } });
  assert.equal(await messages(server, "worker", "in"), 2);
  assert.equal(await messages(server, "worker", "out"), 2);
});

test("a Ready is held until it is served, refused or its stream is over", async (t) => {
  const server = await setup(t);
  const call = await server.worker();
  call.send({ ready: {} }, { ready: { count: 2 } }, { ready: { commands: ["other"] } });
  await server.untilWaiting(3);
  assert.equal(await held(server), 3);
  await server.api.create();
  await call.next();
  assert.equal(await held(server), 2);
  await call.ask({ ready: { commands: [" "] } });
  assert.equal(await held(server), 2);
  call.cancel();
  await until(async () => (await held(server)) === 0);
});

test("a Ready that a full disk puts off is held, too, and is gone with its stream", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  const call = await server.worker();
  const disk = await server.fillDisk();
  call.send({ ready: {} }, { ready: {} });
  await call.expectSilence();
  assert.equal(await held(server), 2);
  await server.pass(5000);
  assert.equal(await held(server), 2);
  call.halfClose();
  await call.ended;
  await until(async () => (await held(server)) === 0);
  await disk.free();
});

test("streams that are turned away are counted with the reason", async (t) => {
  const server = await setup(t);
  const early = server.open("worker");
  early.send({ ready: {} });
  await early.ended;
  const late = server.open("worker");
  await until(async () => (await open(server, "worker")) === 1);
  await server.pass(10_000);
  await late.ended;
  assert.equal(await refused(server, "worker", "no_hello"), 2);
  for (const token of ["", "nonsense"]) {
    const call = server.open("producer");
    call.send({ hello: { token } });
    await call.ended;
  }
  assert.equal(await refused(server, "producer", "bad_token"), 2);
  const named = server.open("worker");
  named.send({ hello: { token: "worker-acme", workerId: "x".repeat(1000) } });
  await named.ended;
  assert.equal(await refused(server, "worker", "bad_worker_id"), 1);
});

test("a client that does not read is counted once for every time", async (t) => {
  const server = await setup(t);
  const { encode, path } = workerStream;
  const slow = server.raw("worker").call(path);
  slow.send(encode({ hello: { token: "worker-acme" } }));
  for (let made = 0; made < 6; made += 1) {
    await server.api.create({ payload: "x".repeat(512 * kibibyte) });
  }
  for (let sent = 0; sent < 6; sent += 1) slow.send(encode({ ready: {} }));
  await until(async () => (await pauses(server, "worker", "slow_reader")) > 0);
  assert.equal(await pauses(server, "worker", "slow_reader"), 1);
  assert.equal(await pauses(server, "worker", "unanswered"), 0);
});

test("a client with too many unanswered events is counted", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  const { encode, path } = producerStream;
  const call = server.raw("producer").call(path);
  call.stream.resume();
  call.send(encode({ hello: { token: "producer-acme" } }));
  const release = server.holdWrites();
  const create = encode({ create: { seq: 1, command: "render" } });
  call.send(...Array.from({ length: 4096 }, () => create));
  await until(async () => (await pauses(server, "producer", "unanswered")) === 1);
  release();
  await until(async () => (await messages(server, "producer", "out")) === 4097);
  assert.equal(await pauses(server, "producer", "unanswered"), 1);
});
