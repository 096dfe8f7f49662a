import assert from "node:assert/strict";
import { once } from "node:events";
import { connect as connectHttp2, createServer } from "node:http2";
import { type AddressInfo, connect, type Socket } from "node:net";
import { text } from "node:stream/consumers";
import { type TestContext, test } from "node:test";
import { SimClock } from "@codeq/simulated";
import { createLogger } from "../../telemetry/logger.ts";
import { HttpPages } from "./http-pages.ts";

const openMax = 128;

async function setup(t: TestContext) {
  const logger = createLogger({ level: "error", format: "text", nowMs: () => 0, write: () => {} });
  const shown: string[] = [];
  const show = () => {
    shown.push("page");
    return { status: 200, type: "text/plain", body: "page" };
  };
  const parts = { pages: [{ path: "/page", show }], endpoints: { port: 1 }, logger };
  const server = createServer();
  const clock = new SimClock();
  const pages = new HttpPages(parts, clock);
  pages.watch(server, false);
  server.on("stream", (stream, headers) => pages.answerStream(stream, headers));
  await once(server.listen(0, "127.0.0.1"), "listening");
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  return { clock, port, shown };
}

test("of many requests in a packet the first is answered, and the others are not parsed", async (t) => {
  const { port, shown } = await setup(t);
  const socket = connect(port, "127.0.0.1");
  socket.write("GET /page HTTP/1.1\r\nHost: a\r\n\r\n".repeat(1000));
  assert.match(await text(socket), /^HTTP\/1\.1 200 OK.*page$/s);
  assert.equal(shown.length, 1);
});

test("of too many connections with HTTP/1 the oldest is closed", async (t) => {
  const { port } = await setup(t);
  const open = async (): Promise<Socket> => {
    const socket = connect(port, "127.0.0.1");
    t.after(() => socket.destroy());
    await once(socket, "connect");
    socket.resume().write("GET /page HTTP/1.1\r\nHost: a\r\nX-Never: ");
    return socket;
  };
  const first = await open();
  const isClosed = once(first, "close");
  const others: Socket[] = [];
  while (others.length < openMax - 1) others.push(await open());
  const reader = connect(port, "127.0.0.1");
  reader.write("GET /page HTTP/1.1\r\nHost: a\r\n\r\n");
  assert.match(await text(reader), /page$/);
  await isClosed;
  assert.ok(others.every((socket) => !socket.closed));
});

test("requests of HTTP/2 whose answers are not read end in time, and the oldest when there are too many", async (t) => {
  const { port, clock } = await setup(t);
  const session = connectHttp2(`http://127.0.0.1:${port}`, { settings: { initialWindowSize: 0 } });
  t.after(() => session.destroy());
  const closed: number[] = [];
  const ends = Array.from({ length: openMax + 1 }, (_, at) => {
    const stream = session.request({ ":path": "/page" });
    stream.on("error", () => {});
    return new Promise<void>((resolve) => {
      stream.once("close", () => {
        closed.push(at);
        resolve();
      });
    });
  });
  await ends[0];
  assert.deepEqual(closed, [0]);
  await clock.advance(10_000);
  await Promise.all(ends);
});

test("a body in chunks is not parsed", async (t) => {
  const { port } = await setup(t);
  const socket = connect(port, "127.0.0.1");
  t.after(() => socket.destroy());
  // What is no chunk would be refused with 400.
  socket.write("POST /page HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nno chunk");
  assert.match(await text(socket), /^HTTP\/1\.1 421 /);
});
