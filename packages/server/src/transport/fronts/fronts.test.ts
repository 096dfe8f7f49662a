/** Connections that the main thread serves while their sockets are elsewhere. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { connect, type Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { systemClock } from "../../clock.ts";
import { connectionSettings } from "../../config/connection-settings.ts";
import { createLogger } from "../../telemetry/logger.ts";
import { Connections } from "../connections.ts";
import type { LocalAnswers } from "../http/plain-answers.ts";
import { PlainRoutes } from "../http/plain-request.ts";
import { FrontDesk } from "./front-desk.ts";
import { FrontDoor } from "./front-door.ts";

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

async function setup(t: TestContext, handler: Handler) {
  const server = createServer(handler);
  const logger = createLogger({ level: "error", format: "json", write: () => {}, nowMs: () => 0 });
  const defer = (run: () => void): void => void setImmediate(run);
  const limits = Object.fromEntries(
    Object.entries(connectionSettings).map(([name, { initial }]) => [name, initial]),
  ) as unknown as ConstructorParameters<typeof FrontDoor>[0]["limits"];
  const connections = new Connections({ max: 100, listener: "http", logger });
  const door: FrontDoor = new FrontDoor({
    limits,
    bodyBytesMax: 1000,
    routes: [],
    connections,
    tls: undefined,
    clock: systemClock,
    send: (words) => defer(() => desk.take(structuredClone(words))),
    defer,
  });
  const desk = new FrontDesk({
    server,
    answers: undefined as unknown as LocalAnswers,
    routes: new PlainRoutes([]),
    send: (words) => defer(() => door.take(structuredClone(words))),
    defer,
  });
  const accepted = once(door.server, "connection") as Promise<[Socket]>;
  const client = connect(await door.listen({ host: "127.0.0.1", port: 0 }), "127.0.0.1");
  client.on("error", () => {});
  const [socket] = await accepted;
  t.after(async () => {
    client.destroy();
    connections.destroyAll();
    await door.close();
  });
  return { client, socket, desk, connections };
}

const head = (length: number): string =>
  `PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: ${length}\r\n\r\n`;
const large = Buffer.alloc(32 * 1024 * 1024, "x");

test("a client is not read from while nobody reads its request, and goes on afterwards", async (t) => {
  const asked = Promise.withResolvers<IncomingMessage>();
  const { client, socket } = await setup(t, (request, response) => {
    asked.resolve(request);
    request.once("end", () => response.end("all of it"));
  });
  client.write(head(large.length));
  client.write(large);
  const request = await asked.promise;
  while (!socket.isPaused()) await new Promise(setImmediate);
  assert.ok(socket.bytesRead < large.length, `${socket.bytesRead} bytes were read`);
  let received = 0;
  request.on("data", (part: Buffer) => {
    received += part.length;
  });
  const [reply] = await once(client.setEncoding("latin1"), "data");
  assert.match(reply, /^HTTP\/1.1 200 [\s\S]*all of it$/);
  assert.equal(received, large.length);
});

test("an answer counts as sent when the system took it, so a slow reader is noticed", async (t) => {
  const answered = Promise.withResolvers<ServerResponse>();
  const { client } = await setup(t, (_request, response) => {
    response.end(large);
    answered.resolve(response);
  });
  client.pause();
  client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  const response = await answered.promise;
  for (let turn = 0; turn < 100; turn += 1) await new Promise(setImmediate);
  assert.equal(response.writableFinished, false);
  let received = 0;
  client.on("data", (part: Buffer) => {
    received += part.length;
  });
  client.resume();
  await once(response, "finish");
  while (received < large.length) await once(client, "data");
});

test("a silent connection is closed after the time that the main thread has set", async (t) => {
  const { client, connections } = await setup(t, (request) => request.socket.setTimeout(1));
  client.resume();
  client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  await once(client, "close");
  assert.equal(connections.size, 0);
});

test("when a front is gone, its connections are closed for the main thread", async (t) => {
  const asked = Promise.withResolvers<ServerResponse>();
  const { client, desk } = await setup(t, (_request, response) => asked.resolve(response));
  client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  const response = await asked.promise;
  const closed = once(response, "close");
  desk.gone();
  await closed;
  assert.equal(response.writableFinished, false);
});
