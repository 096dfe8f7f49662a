/** Hostile clients of a gRPC port hurt themselves; `npm run hostile` measures the same at length. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { SimClock, settle } from "@codeq/simulated";
import { Client, credentials, status } from "@grpc/grpc-js";
import { until } from "../../contract/setup.ts";
import { RawConnection } from "../../grpc/raw-connection.ts";
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

for (const name of ["grpc-endless-headers", "grpc-rapid-reset", "grpc-pings"]) {
  test(`${name}: the connections are closed at once`, async (t) => {
    const world = await setup(t);
    const crowd = await world.attack(name, 4);
    await crowd.untilClosed(4);
    await world.healthy();
    await until(() => openCalls(world) === 0 && openConnections(world) === 0);
  });
}

test("grpc-header-bomb: headers that are too long when unpacked are refused", async (t) => {
  const world = await setup(t);
  const crowd = await world.attack("grpc-header-bomb", 4);
  await world.healthy();
  assert.equal(crowd.report.closed, 0, "each is told, and may do better");
  // No handler has seen such a call.
  await until(() => openCalls(world) === 0);
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
