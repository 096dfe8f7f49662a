import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { createLogger } from "../telemetry/logger.ts";
import { addressOf, type Connection, Connections } from "./connections.ts";

interface Client {
  readonly socket: Socket;
  /** As the server sees it. */
  readonly connection: Connection;
  readonly closed: Promise<void>;
}

async function setup(t: TestContext, max: number, pipelinedMax = 1000, anonymousMax = max) {
  const lines: string[] = [];
  const logger = createLogger({
    level: "warn",
    format: "text",
    nowMs: () => 0,
    write: (line) => lines.push(line),
  });
  const connections = new Connections({
    max,
    listener: "http",
    logger,
    pipelinedMax,
    anonymousMax,
  });
  const server = createServer();
  connections.watch(server);
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  t.after(() => {
    connections.destroyAll();
    server.close();
  });
  const open = async (): Promise<Client> => {
    const accepted = once(server, "connection");
    const socket = connect(port, "127.0.0.1");
    socket.on("error", () => {});
    const closed = new Promise<void>((resolve) => void socket.once("close", () => resolve()));
    socket.resume();
    await accepted;
    const { localAddress, localPort } = socket;
    const connection = connections.of({
      remoteAddress: localAddress,
      remotePort: localPort,
      localAddress: "127.0.0.1",
    });
    assert.ok(connection !== undefined);
    return { socket, connection, closed };
  };
  return { connections, open, lines };
}

test("up to the limit everybody stays", async (t) => {
  const { connections, open, lines } = await setup(t, 3);
  const clients = [await open(), await open(), await open()];
  assert.equal(connections.size, 3);
  assert.equal(connections.givenUp, 0);
  assert.deepEqual(lines, []);
  assert.ok(clients.every(({ connection }) => !connection.socket.destroyed));
});

test("connections without an authenticated caller have a limit of their own", async (t) => {
  const { connections, open, lines } = await setup(t, 10, 1000, 2);
  const known = await open();
  known.connection.hold();
  known.connection.release();
  const first = await open();
  await open();
  assert.equal(connections.givenUp, 0);
  await open();
  await first.closed;
  assert.equal(connections.size, 3);
  assert.equal(known.connection.socket.destroyed, false);
  assert.equal(lines.length, 1);
  await open();
  assert.equal(lines.length, 1, "the log has one line for all of them");
});

test("beyond the limit the one without an answer for longest goes, whoever came first", async (t) => {
  const { connections, open, lines } = await setup(t, 3);
  const [first, second, third] = [await open(), await open(), await open()];
  first.connection.begin(1);
  first.connection.end();
  const fourth = await open();
  await second.closed;
  const fifth = await open();
  await third.closed;
  await open();
  await first.closed;
  assert.equal(connections.givenUp, 3);
  assert.ok(![fourth, fifth].some(({ connection }) => connection.socket.destroyed));
  assert.equal(lines.length, 1, "a crowd is told of once");
});

test("a connection that is held is never given up, however old it is", async (t) => {
  const { connections, open } = await setup(t, 2);
  const [first, second] = [await open(), await open()];
  for (const { connection } of [first, second]) connection.hold();
  first.connection.hold();
  first.connection.release();
  await (await open()).closed;
  assert.equal(connections.size, 2);
  first.connection.release();
  const third = await open();
  await first.closed;
  assert.ok(![second, third].some(({ connection }) => connection.socket.destroyed));
});

test("somebody known who waits for nothing stays longer than strangers", async (t) => {
  const { open } = await setup(t, 3);
  const known = await open();
  known.connection.hold();
  known.connection.release();
  const strangers = [await open(), await open()];
  for (let count = 0; count < 10; count += 1) {
    strangers.push(await open());
    await strangers[count]?.closed;
  }
  assert.equal(known.connection.socket.destroyed, false);
});

test("connections that end by themselves make room, and a later crowd is told of again", async (t) => {
  const { connections, open, lines } = await setup(t, 2);
  const first = await open();
  const second = await open();
  const third = await open();
  await first.closed;
  assert.equal(lines.length, 1);
  for (const { socket, connection } of [second, third]) {
    const gone = once(connection.socket, "close");
    socket.destroy();
    await gone;
  }
  assert.equal(connections.size, 0);
  // Whoever is gone stays gone, also when an answer comes too late.
  second.connection.end();
  const clients = [await open(), await open(), await open()];
  await clients[0]?.closed;
  assert.equal(lines.length, 2);
  assert.equal(connections.size, 2);
});

test("an address is shown without port and brackets, and IPv4 as such", () => {
  for (const [peer, address] of [
    ["192.0.2.1", "192.0.2.1"],
    ["192.0.2.1:5000", "192.0.2.1"],
    ["[2001:db8::1]:5000", "2001:db8::1"],
    ["2001:db8::1", "2001:db8::1"],
    ["::1", "::1"],
    ["::ffff:192.0.2.1", "192.0.2.1"],
    ["[::ffff:192.0.2.1]:5000", "192.0.2.1"],
    ["::ffff:c000:201", "::ffff:c000:201"],
    ["unknown", "unknown"],
    ["", ""],
  ] as const) {
    assert.equal(addressOf(peer), address, peer);
  }
});

test("requests that wait for an earlier one of their connection are counted, until it is closed", async (t) => {
  const { connections, open } = await setup(t, 10, 2);
  const [one, other] = [await open(), await open()];
  for (let requests = 0; requests < 3; requests += 1) one.connection.begin(32);
  other.connection.begin(32);
  assert.deepEqual([one.connection.isPipelined, other.connection.isPipelined], [true, false]);
  assert.equal(connections.isCrowdedByPipelines, false);
  other.connection.begin(32);
  assert.equal(connections.isCrowdedByPipelines, true);
  other.connection.end();
  assert.equal(connections.isCrowdedByPipelines, false);
  other.connection.begin(32);
  connections.destroyAll();
  await Promise.all([one.closed, other.closed]);
  assert.equal(connections.isCrowdedByPipelines, false);
});
