/**
 * Peers that mean harm: what they do costs them their stream or their connection, and others do not
 * notice. Frames are written by hand, since no library would send them.
 */
import assert from "node:assert/strict";
import test from "node:test";
import { settle } from "@codeq/simulated";
import { until } from "../contract/setup.ts";
import { producerStream, workerStream } from "./messages.ts";
import { frame } from "./raw-connection.ts";
import {
  callBlock,
  callFrame,
  field,
  flags,
  frameBytes,
  frameTypes,
  RawFrames,
} from "./raw-frames.ts";
import { type Server, setup } from "./setup.ts";

const { encode, path } = workerStream;
const hello = frame(encode({ hello: { token: "worker-acme" } }));
const checkMs = 250;
const bytesPerCheck = 1.5 * 1024 * 1024;
/** Far more than any of these floods needs to be noticed. */
const wavesMax = 2000;

async function open(server: Server): Promise<RawFrames> {
  return server.track(await RawFrames.open(server.ports.worker));
}

const data = (stream: number, body: Buffer): Buffer =>
  frameBytes({ type: frameTypes.data, stream, body });
const reset = (stream: number): Buffer =>
  frameBytes({ type: frameTypes.reset, stream, body: Buffer.from([0, 0, 0, 8]) });
const windowUpdate = (stream: number, by: number): Buffer =>
  frameBytes({ type: frameTypes.windowUpdate, stream, body: Buffer.from([0, 0, 0, by]) });
const times = (count: number, bytes: Buffer): Buffer =>
  Buffer.concat(Array.from({ length: count }, () => bytes));

/** Sends wave after wave, while time passes, until the server has had enough. */
async function flood(
  server: Server,
  connection: RawFrames,
  wave: (number: number) => Buffer,
): Promise<void> {
  let bytes = 0;
  for (let number = 0; number < wavesMax && !connection.isClosed; number += 1) {
    const sent = wave(number);
    await connection.send(sent);
    await settle(2);
    bytes += sent.length;
    if (bytes < bytesPerCheck) continue;
    bytes = 0;
    await server.api.clock.advance(checkMs);
  }
  await settle(20);
  assert.ok(connection.isClosed, "the connection is still open");
}

const ping = frameBytes({ type: frameTypes.ping, body: Buffer.alloc(8) });
const settings = frameBytes({ type: frameTypes.settings });
const endless = frameBytes({ type: frameTypes.headers, stream: 1, body: callBlock(path) });
/** Remembered by the receiver, so that one byte stands for all of it from then on. */
const large = Buffer.concat([Buffer.from([0x40]), field("x-large", "z".repeat(3900)).subarray(1)]);
const largeAgain = Buffer.alloc(12_000, 0x80 | 62);

interface Flood {
  readonly before?: readonly Buffer[];
  readonly wave: (number: number) => Buffer;
  /** A client that does not read what it is answered. */
  readonly isDeaf?: boolean;
}

const floods: Readonly<Record<string, Flood>> = {
  "of pings": { wave: () => times(2000, ping) },
  "of pings whose answers it does not read": { wave: () => times(2000, ping), isDeaf: true },
  "of settings": { wave: () => times(2000, settings) },
  "of settings whose answers it does not read": {
    wave: () => times(2000, settings),
    isDeaf: true,
  },
  "of frames that continue headers, with nothing in them": {
    before: [endless],
    wave: () => times(1000, frameBytes({ type: frameTypes.continuation, stream: 1 })),
  },
  "of headers that never end": {
    before: [endless],
    wave: () =>
      frameBytes({
        type: frameTypes.continuation,
        stream: 1,
        body: field("x", "y".repeat(10_000)),
      }),
  },
  "of headers that are small and become large": {
    wave: (number) =>
      frameBytes({
        type: frameTypes.headers,
        flags: flags.endHeaders,
        stream: 1 + 2 * number,
        body: Buffer.concat([callBlock(path), number === 0 ? large : Buffer.alloc(0), largeAgain]),
      }),
  },
  "of calls that are taken back at once": {
    wave: (number) =>
      Buffer.concat(
        Array.from({ length: 100 }, (_, index) => {
          const stream = 1 + 2 * (number * 100 + index);
          return Buffer.concat([callFrame(stream, path), data(stream, hello), reset(stream)]);
        }),
      ),
  },
  "of window updates": {
    before: [callFrame(1, path), data(1, hello)],
    wave: () => times(3000, windowUpdate(1, 1)),
  },
  "of window updates by nothing": { wave: () => times(3000, windowUpdate(0, 0)) },
  "of priorities": {
    wave: () =>
      times(
        3000,
        frameBytes({ type: frameTypes.priority, stream: 1, body: Buffer.from([0, 0, 0, 3, 1]) }),
      ),
  },
  "of frames of an unknown kind": { wave: () => times(3000, frameBytes({ type: 0x55 })) },
  "of data with nothing in it": {
    before: [callFrame(1, path), data(1, hello)],
    wave: () => times(3000, data(1, Buffer.alloc(0))),
  },
  "of data in pieces of one byte": {
    before: [callFrame(1, path), data(1, hello), data(1, Buffer.from([0, 0, 0x40, 0, 0]))],
    wave: () => times(3000, data(1, Buffer.from([0]))),
  },
};

for (const [name, { before = [], wave, isDeaf = false }] of Object.entries(floods)) {
  test(`a flood ${name} costs its connection and nothing else`, async (t) => {
    const server = await setup(t);
    const bystander = await server.worker();
    bystander.send({ ready: {} });
    await server.untilWaiting(1);
    const connection = await open(server);
    if (!isDeaf) connection.read();
    await connection.send(...before);
    await flood(server, connection, wave);
    await until(() => server.grpc.worker.connections === 1);
    assert.equal(server.grpc.worker.streams, 1);
    const id = await server.api.create();
    assert.equal((await bystander.next())["task"].task.id, id);
  });
}

test("a flood of pieces that are not read is noticed, too", async (t) => {
  const server = await setup(t);
  const connection = await open(server);
  connection.read();
  // The client's window is never raised, so the answers to so many refusals fill the call.
  await connection.send(callFrame(1, path), data(1, hello));
  const refused = encode({ resultBatch: { results: Array.from({ length: 5000 }, () => ({})) } });
  for (let sent = 0; sent < 5; sent += 1) await connection.send(data(1, frame(refused)));
  await until(
    async () =>
      (await server.api.metric('codeq_stream_pauses_total{kind="worker",cause="slow_reader"}')) ===
      1,
  );
  await flood(server, connection, () => times(3000, data(1, Buffer.from([0]))));
  assert.equal(await server.api.metric("codeq_stream_connections_cut_total"), 1);
});

test("a message in pieces is taken, one in thousands of them is not, and the connection stays", async (t) => {
  const server = await setup(t);
  const connection = await open(server);
  connection.read();
  await connection.send(callFrame(1, path), data(1, hello));
  const ready = frame(encode({ ready: { commands: ["a".repeat(100)] } }));
  for (const byte of ready) await connection.send(data(1, Buffer.from([byte])));
  await server.untilWaiting(1);
  await connection.send(callFrame(3, path), data(3, hello));
  await until(() => server.grpc.worker.streams === 2);
  await connection.send(data(3, Buffer.from([0, 0, 0x40, 0, 0])));
  await connection.send(times(2000, data(3, Buffer.from([0]))));
  await until(() => server.grpc.worker.streams === 1);
  const reason = 'codeq_streams_closed_total{kind="worker",reason="bad_input"}';
  assert.equal(await server.api.metric(reason), 1);
  assert.equal(connection.isClosed, false);
  assert.equal(server.api.core.shard.claims.waiting.size, 1);
});

test("a connection that breaks behind any byte of a conversation leaves nothing behind", async (t) => {
  const server = await setup(t);
  const id = await server.api.create({}, "producer-acme");
  const conversation = Buffer.concat([
    callFrame(1, path),
    data(1, hello),
    data(1, frame(encode({ ready: { commands: ["nothing"] } }))),
    data(1, frame(encode({ heartbeat: { taskId: id } }))),
    callFrame(3, producerStream.path),
    data(3, frame(producerStream.encode({ hello: { token: "producer-acme" } }))),
    reset(1),
  ]);
  for (let bytes = 0; bytes <= conversation.length; bytes += 1) {
    const connection = await open(server);
    await connection.send(conversation.subarray(0, bytes));
    await settle(2);
    connection.close();
  }
  await until(() => server.grpc.worker.connections === 0);
  assert.equal(server.grpc.worker.streams, 0);
  await server.untilWaiting(0);
  assert.equal(await server.api.metric("codeq_held_readys"), 0);
  assert.deepEqual(await server.api.stats(), {
    command: "render",
    ready: 1,
    delayed: 0,
    inProgress: 0,
    dlq: 0,
    failed: 0,
  });
});

test("S8: a connection has at most 16 streams before a Hello and 256 after it; one that takes more is closed", async (t) => {
  const server = await setup(t);
  const bystander = await server.worker();
  const calls = Array.from({ length: 256 }, (_, index) => callFrame(1 + 2 * index, path));
  const unknown = await open(server);
  unknown.read();
  await unknown.send(...calls.slice(0, 16));
  await until(() => server.grpc.worker.streams === 17);
  await unknown.send(...calls.slice(16, 17));
  await until(() => unknown.isClosed && server.grpc.worker.streams === 1);
  const connection = await open(server);
  connection.read();
  await connection.send(callFrame(1, path), data(1, hello));
  await until(() => connection.settingsRead === 1);
  await connection.send(...calls.slice(1));
  await until(() => server.grpc.worker.streams === 257);
  // A place that is free may be taken.
  await connection.send(reset(1));
  await until(() => server.grpc.worker.streams === 256);
  await connection.send(callFrame(1001, path));
  await until(() => server.grpc.worker.streams === 257);
  assert.equal(connection.isClosed, false);
  await connection.send(callFrame(1003, path));
  await until(() => connection.isClosed && server.grpc.worker.streams === 1);
  await bystander.expectSilence();
});

test("S8: one tenant has at most half of the streams, and all have no more than there are", async (t) => {
  const server = await setup(t, { settings: { streamsMax: 4 } });
  const acme = [await server.worker(), await server.producer()];
  const third = server.open("worker");
  third.send({ hello: { token: "worker-acme" } });
  const details = "too many streams of this tenant are open";
  assert.deepEqual(await third.ended, { code: "RESOURCE_EXHAUSTED", details });
  const globex = await server.worker("worker-globex");
  await server.producer("producer-globex");
  const fifth = server.open("worker");
  const full = { code: "RESOURCE_EXHAUSTED", details: "too many streams are open" };
  assert.deepEqual(await fifth.ended, full);
  assert.equal(
    await server.api.metric('codeq_streams_refused_total{kind="worker",reason="too_many"}'),
    2,
  );
  // Places are free again when their streams are over.
  acme[0]?.close();
  await until(() => server.grpc.worker.streams === 1);
  await server.worker();
  await globex.expectSilence();
});

test("S8: what the Readys of a stream ask for has a limit", async (t) => {
  const server = await setup(t);
  const call = await server.worker();
  const commands = Array.from({ length: 256 }, (_, index) => String(index).padStart(128, "c"));
  for (let sent = 0; sent < 32; sent += 1) call.send({ ready: { commands } });
  await call.expectSilence();
  const { error } = await call.ask({ ready: { commands: ["c"] } });
  assert.deepEqual(error, { message: "too many outstanding Readys", code: "ResourceExhausted" });
  assert.equal(server.api.core.shard.claims.waiting.size, 32);
});

test("S8: one tenant fills at most half of the lines, and the others still wait in theirs", async (t) => {
  const server = await setup(t);
  const call = await server.worker();
  const commands = Array.from({ length: 256 }, (_, index) => `c-${index}`);
  const half = Math.ceil(100_000 / commands.length);
  for (let sent = 0; sent < half + 5; sent += 1) call.send({ ready: { commands } });
  await call.expectSilence();
  await server.untilWaiting(half);
  const claim = { commands: ["render"], waitSeconds: 30 };
  assert.equal((await server.api.post("/tasks/claim", claim, "worker-acme")).status, 503);
  const other = server.api.post("/tasks/claim", claim, "worker-globex");
  await server.untilWaiting(half + 1);
  const id = await server.api.create({}, "producer-globex");
  assert.equal((await other).json.id, id);
  // The Readys that found no room get it when there is some.
  const tasks = commands.slice(0, 20).map((command) => ({ command }));
  await server.api.post("/tasks/batch", { tasks }, "producer-acme");
  await call.take(20);
  await server.pass(5000);
  await server.untilWaiting(half + 5 - 20);
});

test("a batch of thousands does not hold up the others, and keeps its place in its own stream", async (t) => {
  const server = await setup(t);
  const [large, small] = [await server.producer(), await server.producer()];
  const tasks = Array.from({ length: 20_000 }, (_, seq) => ({ seq, command: "render" }));
  large.send({ createBatch: { tasks } }, { create: { seq: 1, command: "last" } });
  const results: string[] = [];
  const told = Promise.all([
    large.next().then(() => results.push("large")),
    small.ask({ create: { seq: 1, command: "other" } }).then(() => results.push("small")),
  ]);
  await until(() => server.readyNow() > 0);
  assert.ok(server.readyNow() < 5000, `${server.readyNow()} in the first turn`);
  assert.equal((await server.api.stats("last")).ready, 0);
  await told;
  assert.deepEqual(results, ["small", "large"]);
  assert.equal((await large.next())["createAck"].ok, true);
  assert.equal(server.readyNow(), 20_000);
});

test("a stream with thousands of messages in a packet takes turns with the others", async (t) => {
  const server = await setup(t);
  const connection = await open(server);
  connection.read();
  const heartbeat = frame(encode({ heartbeat: { taskId: "none" } }));
  await connection.send(
    callFrame(1, path),
    data(1, hello),
    windowUpdate(0, 127),
    ...Array.from({ length: 10 }, () => data(1, times(700, heartbeat))),
  );
  const seen: number[] = [];
  const taken = () =>
    server.api.metric('codeq_stream_messages_total{kind="worker",direction="in"}');
  await until(async () => {
    seen.push(await taken());
    return seen.at(-1) === 7001;
  });
  const steps = seen.map((count, index) => count - (seen[index - 1] ?? 0));
  assert.ok(Math.max(...steps) <= 2 * 512, String(steps));
});

test("a question without an end is not waited for, and so many watch the health at once", async (t) => {
  const server = await setup(t);
  const check = server.raw("worker").call("/grpc.health.v1.Health/Check");
  check.stream.resume();
  check.send(Buffer.alloc(0));
  await until(() => server.grpc.worker.streams === 1);
  await server.pass(10_000);
  assert.equal(await check.ended, "4 no request in time");
  const watch = "/grpc.health.v1.Health/Watch";
  const max = 4096;
  for (let opened = 0; opened < max; ) {
    const connection = await open(server);
    connection.read();
    const calls = Array.from({ length: Math.min(16, max - opened) }, (_, index) => {
      const stream = 1 + 2 * index;
      const body = frame(Buffer.alloc(0));
      const last = { type: frameTypes.data, flags: flags.endStream, stream, body };
      return Buffer.concat([callFrame(stream, watch), frameBytes(last)]);
    });
    await connection.send(...calls);
    opened += calls.length;
  }
  await until(() => server.grpc.worker.streams === max);
  await settle(50);
  const late = server.raw("worker").call(watch);
  late.stream.resume();
  late.stream.end(frame(Buffer.alloc(0)));
  assert.equal(await late.ended, "8 too many are watching");
});

test("who never reads and answers pings is sent away after a minute, and its tasks go back", async (t) => {
  const server = await setup(t);
  const payload = "x".repeat(400_000);
  for (let made = 0; made < 8; made += 1) await server.api.create({ payload });
  const slow = server.raw("worker").call(path);
  slow.send(encode({ hello: { token: "worker-acme" } }));
  for (let sent = 0; sent < 8; sent += 1) {
    slow.send(encode({ ready: { leaseSeconds: 3600 } }));
  }
  await until(async () => (await server.api.stats()).inProgress > 2);
  await settle(100);
  await server.pass(50_000);
  assert.equal(server.grpc.worker.streams, 1);
  await server.pass(20_000);
  await until(() => server.grpc.worker.streams === 0);
  assert.equal(await slow.ended, "reset 11");
  await until(async () => (await server.api.stats()).inProgress === 1);
  const reason = 'codeq_streams_closed_total{kind="worker",reason="slow_reader"}';
  assert.equal(await server.api.metric(reason), 1);
});
