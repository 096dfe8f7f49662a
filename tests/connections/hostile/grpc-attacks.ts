/** What hostile clients do to a gRPC port. */
import type { Socket } from "node:net";
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
  keptHeader,
} from "./http2-frames.ts";

const dribbleMs = 500;
const workerPath = "/workerpb.WorkerStream/Stream";
const frameBytesMax = 16_384;
const streamIdMax = 2 ** 31 - 1;

/** Greets and answers pings; gives the other frames to the caller. */
function greet(socket: Socket, onFrame: (type: number, stream: number) => void = () => {}): void {
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
    play: () =>
      callAgain((stream) =>
        frame("headers", {
          flags: endHeaders,
          stream,
          body: Buffer.concat([
            callHeaders(workerPath),
            header("x-bomb", "x".repeat(3900), true),
            Buffer.alloc(12_000, keptHeader),
          ]),
        }),
      ),
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
];
