/** Clients that do not read, and handlers that do not: neither makes memory grow. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { type ClientHttp2Stream, connect } from "node:http2";
import { test } from "node:test";
import { SimClock } from "@codeq/simulated";
import { anyInput } from "../../../test/any-input.ts";
import { createLogger } from "../../telemetry/logger.ts";
import { createGrpcServer, type GrpcHandler, type GrpcLimits, grpcLimits } from "./grpc-server.ts";
import type { CloseReason, GrpcStream } from "./grpc-stream.ts";

async function setup(handler: GrpcHandler, changed: Partial<GrpcLimits> = {}) {
  const clock = new SimClock();
  const held: GrpcHandler = (stream) => {
    stream.holdConnection(anyInput());
    handler(stream);
  };
  const server = createGrpcServer({
    methods: new Map([["/test.Slow/Call", held]]),
    limits: { ...grpcLimits, ...changed },
    keepalive: { intervalMs: 0, timeoutMs: 1000 },
    logger: createLogger({ level: "error", format: "text", write: () => {}, nowMs: () => 0 }),
    clock,
  });
  const { port } = await server.listen({ host: "127.0.0.1", port: 0 });
  const session = connect(`http://127.0.0.1:${port}`);
  session.on("error", () => {});
  const open = (): ClientHttp2Stream => {
    const stream = session.request({
      ":method": "POST",
      ":path": "/test.Slow/Call",
      "content-type": "application/grpc",
    });
    stream.on("error", () => {});
    return stream;
  };
  const dispose = async () => {
    session.destroy();
    const closed = server.close(0);
    await clock.advance(1000);
    await closed;
  };
  return { server, clock, open, [Symbol.asyncDispose]: dispose };
}

function frame(size: number): Buffer {
  const bytes = Buffer.alloc(5 + size);
  bytes.writeUInt32BE(size, 1);
  return bytes;
}

/** Turns of the event loop in which the two ends exchange all that they can. */
async function settle(turns: number): Promise<void> {
  for (let turn = 0; turn < turns; turn += 1) {
    await new Promise<void>((resolve) => setImmediate(resolve));
  }
}

test("sending 200 MB to a client that reads late holds about the limit at any time", async () => {
  const messageBytes = 10_000;
  const total = 20_000;
  let most = 0;
  let sent = 0;
  let waits = 0;
  const full = Promise.withResolvers<void>();
  await using world = await setup((stream) => {
    const pump = () => {
      while (sent < total) {
        sent += 1;
        const goOn = stream.send(Buffer.alloc(messageBytes));
        most = Math.max(most, stream.pendingBytes);
        if (!goOn) {
          waits += 1;
          full.resolve();
          return;
        }
      }
      stream.end("OK");
    };
    stream.onDrain(pump);
    stream.onMessage(pump);
  });
  const request = world.open();
  request.end(frame(0));
  await once(request, "response");
  await full.promise;
  await settle(500);
  const held = sent;
  assert.ok(held * messageBytes < 3 * grpcLimits.sendBytesHigh, `${held} messages were sent`);
  let received = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) received += chunk.length;
  assert.equal(received, total * (messageBytes + 5));
  assert.ok(most <= grpcLimits.sendBytesHigh + messageBytes + 5, `${most} bytes were pending`);
  assert.ok(waits > 100, `waited ${waits} times`);
});

test("a handler that does not stop sending is cut off", async () => {
  const closed = Promise.withResolvers<CloseReason>();
  let most = 0;
  let refused = 0;
  await using world = await setup((stream) => {
    stream.onClosed(closed.resolve);
    stream.onMessage(() => {
      for (let count = 0; count < 50_000; count += 1) {
        if (!stream.send(Buffer.alloc(1000))) refused += 1;
        most = Math.max(most, stream.pendingBytes);
      }
    });
  });
  const request = world.open();
  request.write(frame(0));
  assert.equal(await closed.promise, "slow_reader");
  assert.ok(most <= grpcLimits.sendBytesMax, `${most} bytes were pending`);
  assert.ok(refused > 30_000);
  assert.equal(world.server.streams, 0);
});

test("a call whose answers are not read is not read from", async () => {
  let received = 0;
  await using world = await setup((stream) => {
    stream.onMessage((bytes) => {
      received += bytes.length;
      stream.send(bytes);
    });
    stream.onHalfClose(() => stream.end("OK"));
  });
  const request = world.open();
  const message = frame(100_000);
  const total = 100;
  for (let count = 0; count < total; count += 1) request.write(message);
  request.end();
  await once(request, "response");
  await settle(500);
  // The limit of what is sent, and the turn in which it was passed.
  assert.ok(received < 3 * grpcLimits.sendBytesHigh, `${received} bytes were read`);
  let answered = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) answered += chunk.length;
  assert.equal(answered, total * message.length);
});

test("a handler that pauses stops its client and loses nothing", async () => {
  const opened = Promise.withResolvers<GrpcStream>();
  const got: number[] = [];
  let halfClosed = 0;
  await using world = await setup((stream) => {
    stream.onMessage((bytes) => {
      got.push(bytes.length);
      stream.pause();
      if (got.length === 1) opened.resolve(stream);
    });
    stream.onHalfClose(() => {
      halfClosed += 1;
      stream.end("OK");
    });
  });
  const request = world.open();
  const sizes = Array.from({ length: 400 }, (_, index) => 10_000 + index);
  let left = 0;
  for (const size of sizes) {
    request.write(frame(size), () => {
      left += 1;
    });
  }
  request.end();
  const stream = await opened.promise;
  await settle(300);
  assert.deepEqual(got, [10_000]);
  assert.ok(left < 150, `${left} messages have left a client with a window of 1 MiB`);
  const ended = once(request.resume(), "end");
  while (halfClosed === 0) {
    stream.resume();
    stream.resume();
    await settle(1);
  }
  await ended;
  assert.deepEqual(got, sizes);
  assert.equal(halfClosed, 1);
});

test("pausing and resuming inside a message keeps the order", async () => {
  const got: string[] = [];
  await using world = await setup((stream) => {
    stream.onMessage((bytes) => {
      stream.pause();
      got.push(`in ${bytes.length}`);
      stream.resume();
      got.push(`out ${bytes.length}`);
    });
    stream.onHalfClose(() => stream.end("OK"));
  });
  const request = world.open();
  request.end(Buffer.concat([frame(1), frame(2), frame(3)]));
  await once(request.resume(), "end");
  assert.deepEqual(got, ["in 1", "out 1", "in 2", "out 2", "in 3", "out 3"]);
});

/** Sends until the client does not keep up, whenever it is asked to. */
function fill(stream: GrpcStream): void {
  const message = Buffer.alloc(10_000);
  const pump = () => {
    while (stream.send(message));
  };
  stream.onMessage(pump);
  stream.onDrain(pump);
}

test("a client that takes nothing is cut off after a time, and one that takes a little is not", async () => {
  const closed: CloseReason[] = [];
  await using world = await setup((stream) => {
    fill(stream);
    stream.onClosed((reason) => closed.push(reason));
  });
  const [still, busy] = [world.open(), world.open()];
  const isCut = new Promise<void>((resolve) => still.once("close", resolve));
  for (const request of [still, busy]) {
    request.write(frame(0));
    await once(request, "response");
  }
  let taken = 0;
  busy.on("data", (chunk: Buffer) => {
    taken += chunk.length;
  });
  for (const waitMs of [grpcLimits.stallMs - 1, 1]) {
    busy.pause();
    await settle(100);
    assert.equal(world.server.streams, 2);
    await world.clock.advance(waitMs);
    // So much that a write is done with.
    const enough = taken + 300_000;
    busy.resume();
    while (taken < enough) await settle(1);
  }
  assert.deepEqual(closed, ["slow_reader"]);
  assert.equal(world.server.streams, 1);
  await isCut;
  assert.equal(busy.destroyed, false);
});

test("when all calls together have much unread, each may have less", async () => {
  const streams: GrpcStream[] = [];
  await using world = await setup(
    (stream) => {
      streams.push(stream);
      fill(stream);
    },
    { sendBytesTotal: 1_500_000, sendBytesHighCrowded: 50_000 },
  );
  const pending: number[] = [];
  for (let index = 0; index < 4; index += 1) {
    const request = world.open();
    request.write(frame(0));
    await once(request, "response");
    await settle(100);
    pending.push(streams[index]?.pendingBytes ?? 0);
  }
  const [first = 0, second = 0, ...later] = pending;
  assert.ok(first > 900_000 && second > 400_000, String(pending));
  for (const bytes of later) assert.ok(bytes <= 50_000 + 10_005, String(pending));
});
