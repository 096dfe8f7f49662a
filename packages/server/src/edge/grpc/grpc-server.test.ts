/** Against a real gRPC client. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeMessage, producer } from "@codeq/protocol/wire";
import * as grpc from "@grpc/grpc-js";
import { anyInput } from "../../../test/any-input.ts";
import { systemClock } from "../../core/clock.ts";
import { createLogger } from "../../telemetry/logger.ts";
import { createGrpcServer, type GrpcHandler, grpcLimits } from "./grpc-server.ts";
import type { CloseReason } from "./grpc-stream.ts";

type Call = grpc.ClientDuplexStream<Buffer, Buffer>;
interface Outcome {
  readonly messages: Buffer[];
  readonly code: number;
  readonly details: string;
}

const echo: GrpcHandler = (stream) => {
  stream.onMessage((bytes) => stream.send(bytes));
  stream.onHalfClose(() => stream.end("OK"));
};

async function setup(
  methods: Readonly<Record<string, GrpcHandler>>,
  channel: grpc.ClientOptions = {},
) {
  const lines: string[] = [];
  const server = createGrpcServer({
    methods: new Map(Object.entries({ "/test.Echo/Echo": echo, ...methods })),
    // The echo of these tests has no authenticated callers.
    limits: { ...grpcLimits, anonymousCallsBurst: Number.POSITIVE_INFINITY },
    keepalive: { intervalMs: 0, timeoutMs: 10_000 },
    logger: createLogger({
      level: "warn",
      format: "text",
      write: (line) => lines.push(line),
      nowMs: () => 0,
    }),
    clock: systemClock,
  });
  const { port } = await server.listen({ host: "127.0.0.1", port: 0 });
  const client = new grpc.Client(`127.0.0.1:${port}`, grpc.credentials.createInsecure(), channel);
  const same = (bytes: Buffer) => bytes;
  const open = (path: string, metadata = new grpc.Metadata()) =>
    client.makeBidiStreamRequest(path, same, same, metadata);
  const dispose = async () => {
    client.close();
    await server.close(0);
  };
  return { server, client, open, lines, [Symbol.asyncDispose]: dispose };
}

function outcomeOf(call: Call): Promise<Outcome> {
  const messages: Buffer[] = [];
  return new Promise((resolve) => {
    call.on("data", (bytes: Buffer) => messages.push(bytes));
    // The same as the status, which follows.
    call.on("error", () => {});
    call.on("status", ({ code, details }) => resolve({ messages, code, details }));
  });
}

const onceClosed = () => Promise.withResolvers<CloseReason>();

test("messages are answered in order, and the end of the input ends the call", async () => {
  await using world = await setup({});
  const call = world.open("/test.Echo/Echo");
  const outcome = outcomeOf(call);
  const sent = Array.from({ length: 200 }, (_, index) => Buffer.from(`message ${index}`));
  for (const message of sent) call.write(message);
  call.end();
  const { messages, code } = await outcome;
  assert.equal(code, grpc.status.OK);
  assert.deepEqual(messages, sent);
});

test("messages from nothing to 4 MiB pass, and larger ones do not", async () => {
  await using world = await setup({
    "/test.Echo/Echo": (stream) => {
      stream.holdConnection(anyInput());
      echo(stream);
    },
  });
  for (const size of [0, 1, 65_535, 1_000_000, 4 * 1024 * 1024]) {
    const call = world.open("/test.Echo/Echo");
    const outcome = outcomeOf(call);
    call.write(Buffer.alloc(size, 3));
    call.end();
    const { messages, code } = await outcome;
    assert.equal(code, grpc.status.OK);
    assert.deepEqual(messages, [Buffer.alloc(size, 3)]);
  }
  const call = world.open("/test.Echo/Echo");
  const outcome = outcomeOf(call);
  call.write(Buffer.alloc(4 * 1024 * 1024 + 1));
  const { code, details } = await outcome;
  assert.equal(code, grpc.status.RESOURCE_EXHAUSTED);
  assert.equal(details, "grpc: received message larger than max (4194305 vs. 4194304)");
});

test("an answer over the limit ends the call", async () => {
  const closed = onceClosed();
  await using world = await setup({
    "/test.Echo/Large": (stream) => {
      stream.onClosed(closed.resolve);
      stream.onMessage(() => {
        assert.equal(stream.send(Buffer.alloc(4 * 1024 * 1024 + 1)), false);
        assert.equal(stream.send(Buffer.alloc(1)), false);
      });
    },
  });
  const call = world.open("/test.Echo/Large");
  const outcome = outcomeOf(call);
  call.write(Buffer.alloc(1));
  assert.equal((await outcome).code, grpc.status.RESOURCE_EXHAUSTED);
  assert.equal(await closed.promise, "failed");
});

for (const [what, answers] of [
  ["alone", 0],
  ["after messages", 3],
] as const) {
  test(`a status with any text reaches a client that is still sending, ${what}`, async () => {
    const closed = onceClosed();
    const text = "première étape: 100% 日本\n😀";
    await using world = await setup({
      "/test.Echo/End": (stream) => {
        stream.onClosed(closed.resolve);
        stream.onMessage((bytes) => {
          for (let count = 0; count < answers; count += 1) stream.send(bytes);
          stream.end("FAILED_PRECONDITION", text);
          stream.end("OK");
          assert.equal(stream.send(bytes), false);
        });
      },
    });
    const call = world.open("/test.Echo/End");
    const outcome = outcomeOf(call);
    call.write(Buffer.from("hello"));
    const { messages, code, details } = await outcome;
    assert.equal(messages.length, answers);
    assert.equal(code, grpc.status.FAILED_PRECONDITION);
    assert.equal(details, text);
    assert.equal(await closed.promise, "ended");
  });
}

test("a call can be refused before anything is read", async () => {
  await using world = await setup({
    "/test.Echo/No": (stream) => stream.end("UNAUTHENTICATED", "missing token"),
  });
  for (let round = 0; round < 5; round += 1) {
    const call = world.open("/test.Echo/No");
    const outcome = outcomeOf(call);
    call.write(Buffer.alloc(100_000));
    assert.deepEqual(await outcome, {
      messages: [],
      code: grpc.status.UNAUTHENTICATED,
      details: "missing token",
    });
  }
});

test("methods and services that do not exist are told apart", async () => {
  await using world = await setup({});
  for (const [path, details] of [
    ["/test.Echo/Other", "unknown method Other for service test.Echo"],
    ["/test.Other/Echo", "unknown service test.Other"],
  ] as const) {
    const outcome = await outcomeOf(world.open(path));
    assert.deepEqual(outcome, { messages: [], code: grpc.status.UNIMPLEMENTED, details });
  }
});

test("a client that cancels is noticed", async () => {
  const closed = onceClosed();
  const arrived = Promise.withResolvers<void>();
  await using world = await setup({
    "/test.Echo/Hold": (stream) => {
      stream.onMessage(() => arrived.resolve());
      stream.onClosed(closed.resolve);
    },
  });
  const call = world.open("/test.Echo/Hold");
  const outcome = outcomeOf(call);
  call.write(Buffer.from("x"));
  await arrived.promise;
  assert.equal(world.server.streams, 1);
  call.cancel();
  assert.equal((await outcome).code, grpc.status.CANCELLED);
  assert.equal(await closed.promise, "cancelled");
  assert.equal(world.server.streams, 0);
});

test("a connection that breaks is noticed by every call on it", async () => {
  const closed = [onceClosed(), onceClosed()];
  const arrived = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let opened = 0;
  await using world = await setup({
    "/test.Echo/Hold": (stream) => {
      const index = opened++;
      stream.onMessage(() => arrived[index]!.resolve());
      stream.onClosed(closed[index]!.resolve);
    },
  });
  for (let index = 0; index < 2; index += 1) {
    const call = world.open("/test.Echo/Hold");
    call.on("error", () => {});
    call.write(Buffer.from("x"));
  }
  await Promise.all(arrived.map(({ promise }) => promise));
  // The channel closes its connection when the last reference and call are gone.
  world.client.getChannel().close();
  await world.server.close(0);
  for (const { promise } of closed) assert.match(await promise, /disconnected|cancelled|shutdown/);
});

test("compressed requests are refused with the name of the compression", async () => {
  await using world = await setup({}, { "grpc.default_compression_algorithm": 2 });
  const call = world.open("/test.Echo/Echo");
  const outcome = outcomeOf(call);
  call.write(Buffer.alloc(1000));
  const { code, details } = await outcome;
  assert.equal(code, grpc.status.UNIMPLEMENTED);
  assert.equal(details, 'grpc: Decompressor is not installed for grpc-encoding "gzip"');
});

test("a handler sees path, metadata and peer", async () => {
  const seen = Promise.withResolvers<readonly unknown[]>();
  await using world = await setup({
    "/test.Echo/See": (stream) => {
      const { path, metadata, peer, deadlineMs } = stream;
      seen.resolve([path, metadata.requestId, /^127\.0\.0\.1:\d+$/.test(peer), deadlineMs]);
      stream.end("OK");
    },
  });
  const metadata = new grpc.Metadata();
  metadata.set("x-request-id", "abc");
  assert.equal((await outcomeOf(world.open("/test.Echo/See", metadata))).code, grpc.status.OK);
  assert.deepEqual(await seen.promise, ["/test.Echo/See", "abc", true, undefined]);
});

test("many calls share a connection", async () => {
  await using world = await setup({});
  const outcomes = Array.from({ length: 100 }, (_, index) => {
    const call = world.open("/test.Echo/Echo");
    const outcome = outcomeOf(call);
    for (let count = 0; count < 5; count += 1) call.write(Buffer.from(`${index} ${count}`));
    call.end();
    return outcome;
  });
  for (const [index, { messages }] of (await Promise.all(outcomes)).entries()) {
    assert.deepEqual(
      messages.map(String),
      [0, 1, 2, 3, 4].map((count) => `${index} ${count}`),
    );
  }
  assert.equal(world.server.connections, 1);
});

test("a handler that fails ends its own call and is logged", async () => {
  const closed = onceClosed();
  await using world = await setup({
    "/test.Echo/Throw": (stream) => {
      stream.onClosed(closed.resolve);
      stream.onMessage(() => {
        throw new Error("the reason");
      });
    },
    "/test.Echo/ThrowAtOnce": () => {
      throw new Error("at once");
    },
  });
  for (const path of ["/test.Echo/Throw", "/test.Echo/ThrowAtOnce"]) {
    const call = world.open(path);
    const outcome = outcomeOf(call);
    call.write(Buffer.from("x"));
    const { code, details } = await outcome;
    assert.equal(code, grpc.status.INTERNAL);
    assert.equal(details, "internal error");
  }
  assert.equal(await closed.promise, "failed");
  assert.match(world.lines.join(""), /the reason[\s\S]*at once/);
});

test("a message that cannot be decoded is the client's fault and is not logged", async () => {
  const closed = onceClosed();
  await using world = await setup({
    "/test.Echo/Decode": (stream) => {
      stream.onClosed(closed.resolve);
      stream.onMessage((bytes) => decodeMessage(producer.readProducerEvent, bytes));
    },
  });
  const call = world.open("/test.Echo/Decode");
  const outcome = outcomeOf(call);
  call.write(Buffer.from([0xff]));
  const { code, details } = await outcome;
  assert.equal(code, grpc.status.INTERNAL);
  assert.match(details, /failed to unmarshal the received message: the message is cut off/);
  assert.equal(await closed.promise, "bad_input");
  assert.deepEqual(world.lines, []);
});

test("a server that closes tells its calls and waits for them", async () => {
  const arrived = Promise.withResolvers<void>();
  await using world = await setup({
    "/test.Echo/Polite": (stream) => {
      stream.onMessage(() => arrived.resolve());
      stream.onGoingAway(() => {
        stream.send(Buffer.from("last words"));
        stream.end("OK");
      });
    },
  });
  const call = world.open("/test.Echo/Polite");
  const outcome = outcomeOf(call);
  call.write(Buffer.from("x"));
  await arrived.promise;
  await world.server.close(60_000);
  const { messages, code } = await outcome;
  assert.equal(code, grpc.status.OK);
  assert.deepEqual(messages.map(String), ["last words"]);
  assert.equal(world.server.connections, 0);
});

test("calls that do not end in time are ended for them", async () => {
  const arrived = Promise.withResolvers<void>();
  const closed = onceClosed();
  await using world = await setup({
    "/test.Echo/Hold": (stream) => {
      stream.onMessage(() => arrived.resolve());
      stream.onClosed(closed.resolve);
    },
  });
  const call = world.open("/test.Echo/Hold");
  const outcome = outcomeOf(call);
  call.write(Buffer.from("x"));
  await arrived.promise;
  await world.server.close(1);
  assert.equal((await outcome).code, grpc.status.UNAVAILABLE);
  assert.equal((await outcome).details, "the server is shutting down");
  assert.equal(await closed.promise, "shutdown");
});
