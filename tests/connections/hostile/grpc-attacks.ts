/** What hostile clients do to a gRPC port. */
import { connect } from "node:http2";
import type { Socket } from "node:net";
import { workerStream } from "../../grpc/messages.ts";
import type { Attack } from "./attack.ts";
import type { Play } from "./crowd.ts";
import { gzipBomb } from "./gzip-bomb.ts";
import {
  callHeaders,
  endHeaders,
  endStream,
  FrameSplitter,
  frame,
  frameTypes,
  greeting,
  header,
  headersOf,
  keptHeader,
  padded,
} from "./http2-frames.ts";

const dribbleMs = 500;
const workerPath = "/workerpb.WorkerStream/Stream";
const frameBytesMax = 16_384;
const streamIdMax = 2 ** 31 - 1;

/** Greets and answers pings; gives the other frames to the caller. */
export function greet(
  socket: Socket,
  onFrame: (type: number, stream: number) => void = () => {},
): void {
  const splitter = new FrameSplitter((bytes) => void socket.write(bytes));
  socket.on("data", (chunk) => {
    for (const { type, stream } of splitter.push(chunk)) onFrame(type, stream);
  });
  socket.write(greeting);
}

function open(stream: number, path: string, more: Readonly<Record<string, string>> = {}): Buffer {
  return frame("headers", { flags: endHeaders, stream, body: callHeaders(path, more) });
}

function message(bytes: Buffer, flag = 0): Buffer {
  const prefix = Buffer.alloc(5);
  prefix.writeUInt8(flag, 0);
  prefix.writeUInt32BE(bytes.length, 1);
  return Buffer.concat([prefix, bytes]);
}

/** Writes a piece after the other, as fast as they are taken. */
function flood(socket: Socket, piece: () => Buffer): void {
  const more = (): void => void socket.write(piece(), () => socket.writable && more());
  more();
}

/** One call after the other on the same connection, each when the one before has ended. */
function callAgain(first: (stream: number) => Buffer): Play {
  return (socket) => {
    let stream = 1;
    greet(socket, (type, about) => {
      if (about !== stream || (type !== frameTypes.headers && type !== frameTypes.reset)) return;
      stream += 2;
      socket.write(first(stream));
    });
    socket.write(first(stream));
  };
}

export function headerBomb(stream: number): Buffer {
  const bomb = header("x-bomb", "x".repeat(3900), true);
  const body = Buffer.concat([callHeaders(workerPath), bomb, Buffer.alloc(12_000, keptHeader)]);
  return frame("headers", { flags: endHeaders, stream, body });
}

/** SETTINGS_INITIAL_WINDOW_SIZE: 0. */
const noWindow = Buffer.from([0, 4, 0, 0, 0, 0]);
const hundredHeaders = Object.fromEntries(
  Array.from({ length: 100 }, (_, n) => [`x-${n}`, "x".repeat(100)]),
);

const callFields = { ":method": "POST", "content-type": "application/grpc", te: "trailers" };

/** As many calls as a connection may have, each with nearly all of a message of this size; flow control is kept. */
function unfinished(path: string, messageBytes: number): Play {
  const sent = message(Buffer.alloc(messageBytes)).subarray(0, -100);
  return (socket) => {
    const session = connect("http://localhost", { createConnection: () => socket });
    session.on("error", () => socket.destroy());
    session.once("remoteSettings", () => {
      for (let calls = 0; calls < 250; calls += 1) {
        const call = session.request({ ...callFields, ":path": path });
        // The server may refuse it.
        call.on("error", () => {});
        call.resume();
        call.write(sent);
      }
    });
  };
}

/** As many calls at a time as are free, each followed by the next. */
function callsInLanes(path: string, sent: Buffer): Play {
  return (socket) => {
    const session = connect("http://localhost", { createConnection: () => socket });
    session.on("error", () => socket.destroy());
    const call = (): void => {
      if (session.destroyed) return;
      const stream = session.request({ ...callFields, ":path": path });
      // The server may refuse it.
      stream.on("error", () => {});
      stream.once("close", call);
      stream.resume();
      stream.end(sent);
    };
    session.once("remoteSettings", () => {
      for (let lane = 0; lane < 16; lane += 1) call();
    });
  };
}

export const grpcAttacks: readonly Attack[] = [
  {
    name: "grpc-silent",
    about: "connections that say nothing",
    port: "grpc",
    connections: 10_000,
    play: () => () => {},
  },
  {
    name: "grpc-idle",
    about: "connections that are greeted and call nothing",
    port: "grpc",
    connections: 10_000,
    play: () => (socket) => greet(socket),
  },
  {
    name: "grpc-slow-headers",
    about: "headers of a call, one byte at a time",
    port: "grpc",
    connections: 1000,
    play: () => (socket, every) => {
      greet(socket);
      const bytes = open(1, workerPath);
      // Up to the middle of the frame, where nothing else may be said.
      let sent = 20;
      socket.write(bytes.subarray(0, sent));
      every(dribbleMs, () => {
        socket.write(bytes.subarray(sent, sent + 1));
        sent += 1;
      });
    },
  },
  {
    name: "grpc-slow-hello",
    about: "a Hello, one byte at a time",
    port: "grpc",
    connections: 1000,
    play: () => (socket, every) => {
      greet(socket);
      socket.write(open(1, workerPath));
      const prefix = message(Buffer.alloc(1000)).subarray(0, 5);
      socket.write(frame("data", { stream: 1, body: prefix }));
      every(dribbleMs, () => {
        socket.write(frame("data", { stream: 1, body: Buffer.from([0x0a]) }));
      });
    },
  },
  {
    name: "grpc-endless-headers",
    about: "headers of a call without an end, as fast as they are taken",
    port: "grpc",
    connections: 50,
    play: () => (socket) => {
      greet(socket);
      socket.write(frame("headers", { stream: 1, body: callHeaders(workerPath) }));
      const more = frame("continuation", { stream: 1, body: header("x-flood", "x".repeat(8000)) });
      flood(socket, () => more);
    },
  },
  {
    name: "grpc-header-bomb",
    about: "headers of 16 KiB that would be 64 MiB",
    port: "grpc",
    connections: 8,
    play: () => callAgain(headerBomb),
  },
  {
    name: "grpc-compressed",
    about: "a compressed message of 1 MiB that would be 1 GiB",
    port: "grpc",
    connections: 8,
    play: () => {
      // Only as much as a client may send before it is told to go on.
      const bomb = message(gzipBomb(), 1).subarray(0, 60_000);
      return callAgain((stream) => {
        const frames = [open(stream, workerPath, { "grpc-encoding": "gzip" })];
        for (let at = 0; at < bomb.length; at += frameBytesMax) {
          frames.push(frame("data", { stream, body: bomb.subarray(at, at + frameBytesMax) }));
        }
        return Buffer.concat(frames);
      });
    },
  },
  ...[
    ["grpc-large-hellos", workerPath],
    ["grpc-large-checks", "/grpc.health.v1.Health/Check"],
    ["grpc-large-questions", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"],
  ].map(
    ([name = "", path = ""]): Attack => ({
      name,
      about: "250 first messages of 4 MiB that are never finished",
      port: "grpc",
      connections: 2,
      play: () => unfinished(path, 4 * 1024 * 1024),
    }),
  ),
  {
    name: "grpc-held-hellos",
    about: "first messages of the largest size that are never finished, on 200 connections",
    port: "grpc",
    connections: 200,
    play: () => unfinished(workerPath, 32 * 1024),
  },
  {
    name: "grpc-large-messages",
    about: "32 calls with nearly all of a message of 4 MiB, with a good token",
    port: "grpc",
    connections: 8,
    play: (token) => {
      const hello = message(workerStream.encode({ hello: { token } }));
      const sent = message(Buffer.alloc(4 * 1024 * 1024 - 1000)).subarray(0, -100);
      return (socket) => {
        const session = connect("http://localhost", { createConnection: () => socket });
        session.on("error", () => socket.destroy());
        session.once("remoteSettings", () => {
          for (let calls = 0; calls < 32; calls += 1) {
            const call = session.request({ ...callFields, ":path": workerPath });
            // The server may refuse it.
            call.on("error", () => {});
            call.write(hello);
            call.once("data", () => void call.write(sent));
            call.resume();
          }
        });
      };
    },
  },
  {
    name: "grpc-wrong-hellos",
    about: "calls with a wrong token, one after the other on 16 lanes of each connection",
    port: "grpc",
    connections: 4,
    play: () =>
      callsInLanes(workerPath, message(workerStream.encode({ hello: { token: "wrong" } }))),
  },
  {
    name: "grpc-unknown-methods",
    about: "calls of methods that do not exist, in the same way",
    port: "grpc",
    connections: 4,
    play: () => callsInLanes("/workerpb.WorkerStream/Nothing", message(Buffer.alloc(0))),
  },
  {
    name: "grpc-reflection",
    about: "questions about the services, in the same way",
    port: "grpc",
    connections: 4,
    play: () =>
      callsInLanes(
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        // list_services
        Buffer.concat(Array.from({ length: 100 }, () => message(Buffer.from([0x3a, 0x01, 0x2a])))),
      ),
  },
  {
    name: "grpc-rapid-reset",
    about: "calls that are taken back at once, as fast as they are taken",
    port: "grpc",
    connections: 16,
    play: () => (socket) => {
      greet(socket);
      let stream = 1;
      flood(socket, () => {
        const pieces: Buffer[] = [];
        for (let count = 0; count < 200 && stream < streamIdMax; count += 1) {
          pieces.push(open(stream, workerPath));
          pieces.push(frame("reset", { stream, body: Buffer.from([0, 0, 0, 8]) }));
          stream += 2;
        }
        return Buffer.concat(pieces);
      });
    },
  },
  {
    name: "grpc-pings",
    about: "pings without reading the answers, as fast as they are taken",
    port: "grpc",
    connections: 16,
    play: () => (socket) => {
      socket.write(greeting);
      socket.pause();
      const pings = Buffer.concat(
        Array.from({ length: 1000 }, () => frame("ping", { body: Buffer.alloc(8) })),
      );
      flood(socket, () => pings);
      setImmediate(() => socket.pause());
    },
  },
  {
    name: "grpc-many-calls",
    about: "as many calls without Hello as a connection may have, on 100 connections",
    port: "grpc",
    connections: 100,
    play: () => (socket) => {
      let stream = 1;
      greet(socket, (type, about) => {
        if (about === 0 || type !== frameTypes.headers) return;
        socket.write(open(stream, workerPath));
        stream += 2;
      });
      for (; stream < 512; stream += 2) socket.write(open(stream, workerPath));
    },
  },
  {
    name: "grpc-many-watches",
    about: "as many watches of the health as a connection may have, on 100 connections",
    port: "grpc",
    connections: 100,
    play: () => (socket) => {
      greet(socket);
      for (let stream = 1; stream < 512; stream += 2) {
        socket.write(open(stream, "/grpc.health.v1.Health/Watch"));
        socket.write(frame("data", { flags: endStream, stream, body: message(Buffer.alloc(0)) }));
      }
    },
  },
  ...(
    [
      ["grpc-settings", "empty SETTINGS", frame("settings")],
      [
        "grpc-windows",
        "window updates of one byte",
        frame("windowUpdate", { body: Buffer.from([0, 0, 0, 1]) }),
      ],
      ["grpc-priorities", "priorities", frame("priority", { stream: 3, body: Buffer.alloc(5) })],
      ["grpc-empty-data", "empty DATA on a call without a Hello", frame("data", { stream: 1 })],
      [
        "grpc-padding",
        "DATA of nothing but padding on a call without a Hello",
        frame("data", { flags: padded, stream: 1, body: Buffer.alloc(256, 255).fill(0, 1) }),
      ],
      [
        "grpc-unknown-frames",
        "frames of an unknown type",
        frame("unknown", { body: Buffer.alloc(100) }),
      ],
    ] as const
  ).map(
    ([name, what, each]): Attack => ({
      name,
      about: `${what}, as fast as they are taken`,
      port: "grpc",
      connections: 4,
      play: () => (socket) => {
        greet(socket);
        socket.write(open(1, workerPath));
        const many = Buffer.concat(Array.from({ length: 5000 }, () => each));
        flood(socket, () => many);
      },
    }),
  ),
  {
    name: "grpc-server-resets",
    about:
      "calls that the server has to reset, because their window grows by nothing, as fast as they are taken",
    port: "grpc",
    connections: 16,
    play: () => (socket) => {
      greet(socket);
      let stream = 1;
      flood(socket, () => {
        const pieces: Buffer[] = [];
        for (let count = 0; count < 200 && stream < streamIdMax; count += 1) {
          pieces.push(open(stream, workerPath));
          pieces.push(frame("windowUpdate", { stream, body: Buffer.alloc(4) }));
          stream += 2;
        }
        return Buffer.concat(pieces);
      });
    },
  },
  {
    name: "grpc-unread-pages",
    about:
      "16 requests for the metrics without gRPC, with 100 headers each and without a window for the answers",
    port: "grpc",
    connections: 1000,
    play: () => (socket) => {
      greet(socket);
      socket.write(frame("settings", { body: noWindow }));
      for (let stream = 1; stream < 32; stream += 2) {
        const body = headersOf({ ":method": "GET", ":path": "/metrics", ...hundredHeaders });
        socket.write(frame("headers", { flags: endHeaders | endStream, stream, body }));
      }
    },
  },
  {
    name: "grpc-unfinished-frames",
    about: "16 KiB of a frame without its last byte",
    port: "grpc",
    connections: 1000,
    play: () => (socket) => {
      greet(socket);
      const bytes = frame("headers", { stream: 1, body: header("x-long", "x".repeat(16_000)) });
      socket.write(bytes.subarray(0, -1));
    },
  },
  {
    name: "grpc-full-headers",
    about: "16 calls with 100 headers each and without a Hello",
    port: "grpc",
    connections: 1000,
    play: () => (socket) => {
      greet(socket);
      for (let stream = 1; stream < 32; stream += 2) {
        socket.write(open(stream, workerPath, hundredHeaders));
      }
    },
  },
  {
    name: "grpc-over-http1",
    about: "HTTP/1 requests to the stream port, as fast as they are taken",
    port: "grpc",
    connections: 4,
    play: () => (socket) => {
      const requests = Buffer.from("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n".repeat(1000));
      flood(socket, () => requests);
    },
  },
  {
    name: "grpc-unread-over-http1",
    about: "an HTTP/1 request for the metrics to the stream port, without reading the answer",
    port: "grpc",
    connections: 1000,
    play: () => (socket) => {
      setImmediate(() => socket.pause());
      socket.write("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    },
  },
  {
    name: "grpc-half-headers-over-http1",
    about: "HTTP/1 headers of 15 KiB without an end to the stream port",
    port: "grpc",
    connections: 1000,
    play: () => (socket) =>
      void socket.write(`GET /metrics HTTP/1.1\r\nHost: a\r\nX-Long: ${"x".repeat(15_000)}`),
  },
  {
    name: "grpc-chunks-over-http1",
    about: "an HTTP/1 body in chunks of one byte to the stream port, as fast as they are taken",
    port: "grpc",
    connections: 8,
    play: () => (socket) => {
      socket.write("POST /metrics HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
      const chunks = Buffer.from("1\r\n \r\n".repeat(10_000));
      flood(socket, () => chunks);
    },
  },
  {
    name: "grpc-strange-expectations",
    about: "HTTP/1 requests to the stream port that expect something unknown",
    port: "grpc",
    connections: 4,
    play: () => (socket) => {
      const request = "GET /metrics HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n";
      flood(socket, () => Buffer.from(request.repeat(1000)));
    },
  },
];
