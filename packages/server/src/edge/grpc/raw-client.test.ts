/** What a well-behaved client library never does, by hand. */
import assert from "node:assert/strict";
import { once } from "node:events";
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect as connectHttp2,
  constants,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
} from "node:http2";
import { connect as connectTcp, type Socket } from "node:net";
import { test } from "node:test";
import { SimClock } from "@codeq/simulated";
import { anyInput } from "../../../test/any-input.ts";
import { createLogger } from "../../telemetry/logger.ts";
import { createGrpcServer, type GrpcHandler, type GrpcLimits, grpcLimits } from "./grpc-server.ts";
import type { CloseReason, GrpcStream } from "./grpc-stream.ts";

interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  readonly rstCode: number;
}

async function setup(handler: GrpcHandler, changed: Partial<GrpcLimits> = {}) {
  const clock = new SimClock();
  const sockets: Socket[] = [];
  const sessions: ClientHttp2Session[] = [];
  const server = createGrpcServer({
    methods: new Map([["/test.Raw/Call", handler]]),
    limits: { ...grpcLimits, ...changed },
    keepalive: { intervalMs: 1000, timeoutMs: 300 },
    logger: createLogger({ level: "error", format: "text", write: () => {}, nowMs: () => 0 }),
    clock,
  });
  const { port } = await server.listen({ host: "127.0.0.1", port: 0 });
  const tcp = async () => {
    const socket = connectTcp(port, "127.0.0.1");
    sockets.push(socket);
    socket.on("error", () => {});
    await once(socket, "connect");
    return socket;
  };
  const http2 = (windowBytes = 65_535) => {
    const session = connectHttp2(`http://127.0.0.1:${port}`, {
      settings: { initialWindowSize: windowBytes },
    });
    session.on("error", () => {});
    sessions.push(session);
    return session;
  };
  const dispose = async () => {
    for (const session of sessions) session.destroy();
    for (const socket of sockets) socket.destroy();
    const closed = server.close(0);
    await clock.advance(1000);
    await closed;
  };
  return { server, clock, tcp, http2, [Symbol.asyncDispose]: dispose };
}

const call: OutgoingHttpHeaders = {
  ":method": "POST",
  ":path": "/test.Raw/Call",
  "content-type": "application/grpc",
  te: "trailers",
};

/** Everything that comes back; trailers are put with the headers. */
function answerOf(stream: ClientHttp2Stream): Promise<Answer> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let headers: IncomingHttpHeaders = {};
    const add = (more: IncomingHttpHeaders) => {
      headers = { ...headers, ...more };
    };
    stream.on("response", add);
    stream.on("trailers", add);
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    stream.on("error", () => {});
    stream.on("close", () => {
      const status = Number(headers[":status"] ?? 0);
      resolve({ status, headers, body: Buffer.concat(chunks), rstCode: stream.rstCode ?? 0 });
    });
  });
}

function frame(message: Uint8Array | string, flag = 0): Buffer {
  const bytes = Buffer.from(message as string);
  const prefix = Buffer.alloc(5);
  prefix[0] = flag;
  prefix.writeUInt32BE(bytes.length, 1);
  return Buffer.concat([prefix, bytes]);
}

const echo: GrpcHandler = (stream) => {
  stream.onMessage((bytes) => stream.send(bytes));
  stream.onHalfClose(() => stream.end("OK"));
};

test("what is not gRPC gets a status of HTTP", async () => {
  await using world = await setup(echo);
  const session = world.http2();
  const get = await answerOf(session.request({ ...call, ":method": "GET" }));
  assert.equal(get.status, 405);
  const json = session.request({ ...call, "content-type": "application/json" });
  json.write("{}");
  assert.equal((await answerOf(json)).status, 415);
});

test("a timeout that cannot be read is refused", async () => {
  await using world = await setup(echo);
  const { headers } = await answerOf(world.http2().request({ ...call, "grpc-timeout": "1d" }));
  assert.equal(headers["grpc-status"], "13");
  assert.equal(headers["grpc-message"], "malformed grpc-timeout");
});

test("a call ends at its deadline, and not before", async () => {
  const opened = Promise.withResolvers<GrpcStream>();
  const closed = Promise.withResolvers<CloseReason>();
  await using world = await setup((stream) => {
    stream.onMessage(() => stream.send(Buffer.from("got it")));
    stream.onClosed(closed.resolve);
    opened.resolve(stream);
  });
  const request = world.http2().request({ ...call, "grpc-timeout": "250m" });
  const answer = answerOf(request);
  request.write(frame("x"));
  await once(request, "data");
  const stream = await opened.promise;
  assert.equal(stream.deadlineMs, world.clock.monotonicMs() + 250);
  await world.clock.advance(249);
  assert.equal(world.server.streams, 1);
  await world.clock.advance(1);
  assert.equal(await closed.promise, "deadline");
  const { headers, body } = await answer;
  assert.equal(headers["grpc-status"], "4");
  assert.deepEqual(body, frame("got it"));
});

test("a message that arrives byte by byte is put together", async () => {
  await using world = await setup(echo);
  const request = world.http2().request(call);
  const answer = answerOf(request);
  for (const byte of Buffer.concat([frame("one"), frame(""), frame("three")])) {
    request.write(Buffer.from([byte]));
  }
  request.end();
  const { headers, body } = await answer;
  assert.equal(headers["grpc-status"], "0");
  assert.deepEqual(body, Buffer.concat([frame("one"), frame(""), frame("three")]));
});

for (const [what, bytes, status, text] of [
  ["a call that ends inside a message", frame("abc").subarray(0, 7), "13", /inside a message/],
  ["a flag that does not exist", frame("abc", 9), "13", /unexpected payload format 9/],
  ["compression that was not announced", frame("abc", 1), "13", /identity or empty encoding/],
  ["a message over the limit", frame(Buffer.alloc(1001)), "8", /1001 vs. 1000/],
] as const) {
  test(`${what} is refused`, async () => {
    const closed = Promise.withResolvers<CloseReason>();
    await using world = await setup(
      (stream) => {
        stream.onMessage(() => {});
        stream.onHalfClose(() => stream.end("OK"));
        stream.onClosed(closed.resolve);
      },
      { unauthenticatedMessageBytesMax: 1000 },
    );
    const request = world.http2().request(call);
    const answer = answerOf(request);
    request.end(bytes);
    const { headers } = await answer;
    assert.equal(headers["grpc-status"], status);
    assert.match(String(headers["grpc-message"]), text);
    assert.equal(await closed.promise, "bad_input");
  });
}

test("garbage closes its own connection and no other", async () => {
  await using world = await setup(echo);
  const session = world.http2();
  const request = session.request(call);
  const answer = answerOf(request);
  request.write(frame("before"));
  await once(request, "data");
  const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  for (const garbage of [
    Buffer.from("GET / HTTP/1.1\r\nhost: x\r\n\r\n"),
    Buffer.alloc(5000, 0xff),
    Buffer.from(`${preface}${"\xff".repeat(100)}`, "latin1"),
    // Settings, then a frame of data on a call that was never opened.
    Buffer.from(`${preface}\0\0\0\x04\0\0\0\0\0\0\0\x01\0\0\0\0\0\x07x`, "latin1"),
  ]) {
    const socket = await world.tcp();
    socket.resume();
    socket.write(garbage);
    await once(socket, "close");
  }
  request.write(frame("after"));
  request.end();
  const { headers, body } = await answer;
  assert.equal(headers["grpc-status"], "0");
  assert.deepEqual(body, Buffer.concat([frame("before"), frame("after")]));
});

test("headers over the limit are refused", async () => {
  await using world = await setup(echo, { headerBytesMax: 4096 });
  const session = world.http2();
  await once(session, "remoteSettings");
  // The limit holds from the moment the client has confirmed it; an answer comes after that.
  const small = session.request(call);
  small.end(frame("x"));
  assert.equal((await answerOf(small)).headers["grpc-status"], "0");
  const large = session.request({ ...call, "x-large": "y".repeat(5000) });
  large.end();
  const { headers, rstCode } = await answerOf(large);
  assert.equal(headers["grpc-status"], undefined);
  assert.equal(rstCode, constants.NGHTTP2_ENHANCE_YOUR_CALM);
});

test("calls beyond the limit of a connection are refused", async () => {
  await using world = await setup(echo, { streamsPerConnectionMax: 3 });
  const session = world.http2();
  await once(session, "remoteSettings");
  const first = Array.from({ length: 3 }, () => session.request(call));
  for (const request of first) {
    request.write(frame("x"));
    await once(request, "data");
  }
  assert.equal(world.server.streams, 3);
  // The client library itself waits for a place, so the fourth opens when one is free.
  const fourth = session.request(call);
  const answer = answerOf(fourth);
  fourth.end(frame("y"));
  first[0]!.end();
  assert.equal((await answer).headers["grpc-status"], "0");
  assert.equal(world.server.streams, 2);
});

test("beyond the limit of connections an idle one gives way", async () => {
  await using world = await setup(echo, { connectionsMax: 1 });
  const first = world.http2();
  const closed = once(first, "close");
  await once(first, "remoteSettings");
  const second = world.http2();
  await closed;
  const request = second.request(call);
  request.end(frame("x"));
  assert.equal((await answerOf(request)).headers["grpc-status"], "0");
  assert.equal(world.server.connections, 1);
  assert.equal(world.server.connectionsGivenUp, 1);
});

test("a connection with the call of a known caller does not give way", async () => {
  await using world = await setup(
    (stream) => {
      stream.onMessage((bytes) => {
        stream.holdConnection(anyInput());
        stream.holdConnection(anyInput());
        stream.send(bytes);
      });
      stream.onHalfClose(() => stream.end("OK"));
    },
    { connectionsMax: 1 },
  );
  const known = world.http2().request(call);
  known.write(frame("x"));
  await once(known, "data");
  const stranger = await world.tcp();
  stranger.resume();
  await once(stranger, "close");
  assert.equal(world.server.connections, 1);
  known.end();
  assert.equal((await answerOf(known)).headers["grpc-status"], "0");
  // The call is over, and with it the privilege.
  const next = world.http2().request(call);
  next.end(frame("y"));
  assert.equal((await answerOf(next)).headers["grpc-status"], "0");
  assert.equal(world.server.connectionsGivenUp, 2);
});

test("beyond the limit of calls of strangers the oldest is ended, with its connection", async () => {
  await using world = await setup((stream) => stream.onMessage((bytes) => stream.send(bytes)), {
    unauthenticatedCallsMax: 4,
  });
  const crowded = world.http2();
  const closed = once(crowded, "close");
  const calls = Array.from({ length: 4 }, () => crowded.request(call));
  for (const each of calls) each.on("error", () => {});
  calls[3]?.write(frame("x"));
  await once(calls[3] as ClientHttp2Stream, "data");
  assert.equal(world.server.streams, 4);
  const fifth = world.http2().request(call);
  fifth.write(frame("y"));
  await once(fifth, "data");
  await closed;
  assert.equal(world.server.streams, 1);
});

test("the calls of strangers beside one of somebody known are ended one by one", async () => {
  await using world = await setup(
    (stream) => {
      stream.onMessage((bytes) => {
        if (bytes.toString() === "known") stream.holdConnection(anyInput());
        stream.send(bytes);
      });
    },
    { unauthenticatedCallsMax: 1 },
  );
  const session = world.http2();
  const known = session.request(call);
  known.write(frame("known"));
  await once(known, "data");
  const first = session.request(call);
  const ended = answerOf(first);
  first.write(frame("x"));
  await once(first, "data");
  const second = session.request(call);
  second.write(frame("y"));
  await once(second, "data");
  const { headers } = await ended;
  assert.equal(headers["grpc-status"], "14");
  assert.match(String(headers["grpc-message"]), /too many calls without a token/);
  known.write(frame("known"));
  await once(known, "data");
});

test("a caller may send large messages once it is authenticated", async () => {
  await using world = await setup((stream) => {
    stream.onMessage((bytes) => {
      stream.holdConnection(anyInput());
      stream.send(Buffer.from(`${bytes.length}`));
    });
    stream.onHalfClose(() => stream.end("OK"));
  });
  const request = world.http2().request(call);
  const answer = answerOf(request);
  request.end(Buffer.concat([frame("hello"), frame(Buffer.alloc(3_000_000))]));
  const { headers, body } = await answer;
  assert.equal(headers["grpc-status"], "0");
  assert.deepEqual(body, Buffer.concat([frame("5"), frame("3000000")]));
  const unknown = world.http2().request(call);
  const refused = answerOf(unknown);
  unknown.write(frame(Buffer.alloc(32 * 1024 + 1)));
  assert.match(String((await refused).headers["grpc-message"]), /32769 vs. 32768/);
});

test("beyond the memory of unauthenticated calls the oldest that holds some is ended", async () => {
  await using world = await setup(echo, { unauthenticatedBytesMax: 100_000 });
  // Older, and holds nothing.
  const watcher = world.http2().request(call);
  watcher.write(frame("x"));
  await once(watcher, "data");
  const half = frame(Buffer.alloc(20_000)).subarray(0, 19_000);
  const sessions = Array.from({ length: 6 }, () => world.http2());
  for (const session of sessions) {
    const request = session.request(call);
    request.on("error", () => {});
    request.write(half);
    if (session !== sessions[5]) await once(session, "localSettings");
  }
  await once(sessions[0] as ClientHttp2Session, "close");
  watcher.write(frame("y"));
  await once(watcher, "data");
  assert.equal(world.server.streams, 6);
});

test("a call whose token is being checked is read up to a limit", async () => {
  const opened = Promise.withResolvers<GrpcStream>();
  const got: number[] = [];
  await using world = await setup((stream) => {
    stream.onMessage((bytes) => {
      got.push(bytes.length);
      if (got.length > 1) return;
      stream.pause();
      opened.resolve(stream);
    });
    stream.onHalfClose(() => stream.end("OK"));
  });
  const request = world.http2().request(call);
  const answer = answerOf(request);
  request.write(frame("hello"));
  const later = frame(Buffer.alloc(10_000));
  let left = 0;
  const sent = (): void => {
    left += 1;
  };
  for (let count = 0; count < 100; count += 1) request.write(later, sent);
  request.end();
  const stream = await opened.promise;
  for (let turn = 0; turn < 200; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  assert.ok(left < 20, `${left} messages have left`);
  assert.deepEqual(got, [5]);
  stream.holdConnection(anyInput());
  stream.resume();
  assert.equal((await answer).headers["grpc-status"], "0");
  assert.equal(got.length, 101);
});

test("a connection that says nothing is given up", async () => {
  await using world = await setup(echo);
  const socket = await world.tcp();
  socket.resume();
  // The server greets first, so it has seen the connection.
  await once(socket, "data");
  const closed = once(socket, "close");
  await world.clock.advance(300);
  await closed;
  assert.equal(world.server.connections, 0);
});

test("a connection that stops answering is given up with its calls", async () => {
  const closed = Promise.withResolvers<CloseReason>();
  const opened = Promise.withResolvers<void>();
  await using world = await setup((stream) => {
    stream.onMessage(() => {});
    stream.onClosed(closed.resolve);
    opened.resolve();
  });
  const socket = await world.tcp();
  // Preface, settings, and headers of a call in literal form; after that silence, also to pings.
  const field = (name: string, value: string) =>
    Buffer.concat([
      Buffer.from([0, name.length]),
      Buffer.from(name),
      Buffer.from([value.length]),
      Buffer.from(value),
    ]);
  const block = Buffer.concat([
    field(":method", "POST"),
    field(":scheme", "http"),
    field(":authority", "x"),
    field(":path", "/test.Raw/Call"),
    field("content-type", "application/grpc"),
  ]);
  socket.write(Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", "latin1"));
  socket.write(Buffer.concat([Buffer.from([0, 0, block.length, 1, 4, 0, 0, 0, 1]), block]));
  await opened.promise;
  await world.clock.advance(1000);
  assert.equal(world.server.connections, 1);
  await world.clock.advance(300);
  assert.equal(await closed.promise, "disconnected");
  assert.equal(world.server.connections, 0);
});

test("a connection that answers pings is kept", async () => {
  await using world = await setup(echo);
  const session = world.http2();
  await once(session, "remoteSettings");
  for (let count = 0; count < 3; count += 1) {
    const pinged = once(session, "ping");
    await world.clock.advance(1000);
    await pinged;
    const request = session.request(call);
    request.end(frame("x"));
    assert.equal((await answerOf(request)).headers["grpc-status"], "0");
  }
  assert.equal(world.server.connections, 1);
});

test("messages of one turn arrive in few frames", async () => {
  await using world = await setup((stream) => {
    stream.onMessage(() => {
      for (let count = 0; count < 300; count += 1) stream.send(Buffer.alloc(100, count));
      stream.end("OK");
    });
  });
  const request = world.http2(1 << 20).request(call);
  let chunks = 0;
  request.on("data", () => {
    chunks += 1;
  });
  request.end(frame("go"));
  const { body } = await answerOf(request);
  assert.equal(body.length, 300 * 105);
  assert.ok(chunks < 10, `${chunks} chunks`);
});

test("a call is reset when its client takes neither the answers nor the status", async () => {
  const closed = Promise.withResolvers<CloseReason>();
  await using world = await setup((stream) => {
    stream.onMessage(() => {
      stream.send(Buffer.alloc(500_000));
      stream.end("OK");
    });
    stream.onClosed(closed.resolve);
  });
  const request = world.http2(1000).request(call);
  request.on("error", () => {});
  request.write(frame("go"));
  await once(request, "response");
  const reset = new Promise((resolve) => request.once("close", resolve));
  await world.clock.advance(grpcLimits.lingerMs);
  assert.equal(await closed.promise, "slow_reader");
  await reset;
  assert.equal(request.rstCode, constants.NGHTTP2_ENHANCE_YOUR_CALM);
});
