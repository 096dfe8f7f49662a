/** Hostile clients of a gRPC port hurt themselves; `npm run hostile` measures the same at length. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { test } from "node:test";
import { SimClock, settle } from "@codeq/simulated";
import { Client, credentials, status } from "@grpc/grpc-js";
import { until } from "../../contract/setup.ts";
import { RawConnection } from "../../grpc/raw-connection.ts";
import { greet, headerBomb } from "./grpc-attacks.ts";
import { frameTypes } from "./http2-frames.ts";
import { setup, type World } from "./setup.ts";

const size = 20;
const workerPath = "/workerpb.WorkerStream/Stream";

function openConnections({ server }: World): number {
  return server.grpc.reduce((sum, { connections }) => sum + connections, 0);
}

function openCalls({ server }: World): number {
  return server.grpc.reduce((sum, { streams }) => sum + streams, 0);
}

/** Slowly enough for both ends to notice. */
async function pass(clock: SimClock, seconds: number): Promise<void> {
  for (let second = 0; second < seconds; second += 1) {
    await clock.advance(1000);
    await settle(5);
  }
}

for (const [name, seconds] of [
  // Nothing at all: the greeting is overdue.
  ["grpc-silent", 20],
  // A ping is not answered in the middle of other frames: an interval and a timeout.
  ["grpc-slow-headers", 50],
] as const) {
  test(`${name}: the connections are closed in time`, async (t) => {
    const clock = new SimClock();
    const world = await setup(t, {}, clock);
    const crowd = await world.attack(name, size);
    await until(() => openConnections(world) === size);
    await world.healthy();
    await pass(clock, seconds + 1);
    await crowd.untilClosed(size);
    await world.healthy();
  });
}

test("grpc-slow-hello: a call without a Hello ends after ten seconds", async (t) => {
  const clock = new SimClock();
  const world = await setup(t, {}, clock);
  await world.attack("grpc-slow-hello", size);
  await until(() => openCalls(world) === size);
  await world.healthy();
  await pass(clock, 11);
  await until(() => openCalls(world) === 0);
  await world.healthy();
});

for (const name of [
  "grpc-endless-headers",
  "grpc-rapid-reset",
  "grpc-server-resets",
  "grpc-pings",
]) {
  test(`${name}: the connections are closed at once`, async (t) => {
    const world = await setup(t);
    const crowd = await world.attack(name, 4);
    await crowd.untilClosed(4);
    await world.healthy();
    await until(() => openCalls(world) === 0 && openConnections(world) === 0);
  });
}

test("grpc-header-bomb: a client that keeps sending headers too long when unpacked is disconnected", async (t) => {
  const world = await setup(t);
  const crowd = await world.attack("grpc-header-bomb", 4);
  await world.healthy();
  await crowd.untilClosed(4);
  // No handler has seen such a call.
  await until(() => openCalls(world) === 0 && openConnections(world) === 0);
});

test("a call whose headers are too long when unpacked is refused, and the connection stays", async (t) => {
  const world = await setup(t);
  const socket = connect(world.server.ports.workerStreamPort, "127.0.0.1");
  t.after(() => socket.destroy());
  const answered = new Promise<number>((resolve) => {
    greet(socket, (type, stream) => {
      if (type === frameTypes.reset || type === frameTypes.headers) resolve(stream);
    });
  });
  socket.write(headerBomb(1));
  assert.equal(await answered, 1);
  assert.equal(openConnections(world), 1);
  assert.equal(openCalls(world), 0);
});

test("grpc-compressed: messages are not unpacked, and the answer says what is accepted", async (t) => {
  const world = await setup(t);
  await world.attack("grpc-compressed", 2);
  await world.healthy();
  const raw = new RawConnection(world.server.ports.workerStreamPort);
  t.after(() => raw.close());
  const call = raw.call(workerPath, { "grpc-encoding": "gzip" });
  const answered = once(call.stream, "response");
  call.stream.write(Buffer.from([1, 0, 0, 0, 1, 0]));
  const [headers] = (await answered) as [Record<string, string>];
  assert.equal(headers["grpc-accept-encoding"], "identity");
  call.stream.resume();
  assert.match(await call.ended, /^12 .*gzip/);
});

test("a client that compresses by itself is refused as it expects", async (t) => {
  const world = await setup(t);
  const address = `127.0.0.1:${world.server.ports.workerStreamPort}`;
  const gzip = 2;
  const client = new Client(address, credentials.createInsecure(), {
    "grpc.default_compression_algorithm": gzip,
  });
  t.after(() => client.close());
  const same = (bytes: Buffer): Buffer => bytes;
  const call = client.makeBidiStreamRequest(workerPath, same, same);
  const ended = new Promise<number>((resolve) => {
    call.on("status", ({ code }) => resolve(code));
    call.on("error", () => {
      // The status says it too.
    });
  });
  call.resume();
  call.write(Buffer.alloc(5000));
  assert.equal(await ended, status.UNIMPLEMENTED);
});

test("grpc-idle: beyond the limit of connections strangers make room", async (t) => {
  const world = await setup(t, { connectionsMax: 50 });
  const crowd = await world.attack("grpc-idle", 200);
  await world.healthy(20);
  await crowd.untilClosed(150);
  await until(() => openConnections(world) <= 50);
});

for (const name of ["grpc-wrong-hellos", "grpc-unknown-methods", "grpc-reflection"]) {
  test(`${name}: connections with many calls without a valid token are closed`, async (t) => {
    const world = await setup(t);
    const crowd = await world.attack(name, 4);
    await world.healthy();
    await crowd.untilClosed(4);
    await world.healthy();
  });
}

test("grpc-wrong-hellos: the log does not grow with each connection that is closed", async (t) => {
  const clock = new SimClock();
  const world = await setup(t, {}, clock);
  const crowd = await world.attack("grpc-wrong-hellos", 4);
  await crowd.untilClosed(4);
  const warnings = world.server.lines.filter((line) => line.includes('"level":"warn"'));
  assert.equal(warnings.length, 1, warnings.join("\n"));
});

for (const [name, expected] of [
  ["grpc-over-http1", "HTTP/1.1 200"],
  ["grpc-strange-expectations", "HTTP/1.1 200"],
  ["grpc-chunks-over-http1", "HTTP/1.1 421"],
] as const) {
  test(`${name}: one request is answered, and the connections are closed`, async (t) => {
    // Its time stands still, so nothing is closed because it takes too long.
    const world = await setup(t, {}, new SimClock());
    const crowd = await world.attack(name, 4);
    await crowd.untilClosed(4);
    for (const [answer] of crowd.report.answers) assert.equal(answer, expected);
  });
}

for (const name of [
  "grpc-settings",
  "grpc-windows",
  "grpc-priorities",
  "grpc-empty-data",
  "grpc-padding",
  "grpc-unknown-frames",
]) {
  test(`${name}: connections that send nothing but control frames are closed`, async (t) => {
    const world = await setup(t);
    const crowd = await world.attack(name, 2);
    await crowd.untilClosed(2);
    await world.healthy();
  });
}
