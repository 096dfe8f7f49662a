import assert from "node:assert/strict";
import { once } from "node:events";
import type { Socket } from "node:net";
import { PassThrough } from "node:stream";
import { test } from "node:test";
import { createServer } from "node:tls";
import { SimClock } from "@codeq/simulated";
import { HandshakeTurns } from "./handshake-turns.ts";

interface Setup {
  readonly clock: SimClock;
  readonly begun: Socket[];
  readonly connect: () => PassThrough;
  /** Node says that the handshake is finished. */
  readonly finish: (socket: PassThrough) => void;
}

function setup(unfinishedMax = 12): Setup {
  const begun: Socket[] = [];
  const server = createServer();
  server.removeAllListeners("connection");
  server.on("connection", (socket) => void begun.push(socket));
  const clock = new SimClock();
  new HandshakeTurns(clock, { silentMsMax: 10_000, unfinishedMax }).watch(server);
  let remotePort = 0;
  const connect = (): PassThrough => {
    remotePort += 1;
    const socket = Object.assign(new PassThrough(), { remotePort });
    server.emit("connection", socket);
    return socket;
  };
  const finish = (socket: PassThrough): void => void server.emit("secureConnection", socket);
  return { clock, begun, connect, finish };
}

/** The beginning of a TLS connection, with a first message of this size. */
function hello(number = 0, bytes = 300): Buffer {
  return Buffer.from([0x16, 3, 1, 0, 200, 1, 0, bytes >> 8, bytes & 0xff, number]);
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}

test("four handshakes begin in a turn, with the bytes that have arrived", async () => {
  const { begun, connect } = setup();
  const sockets = Array.from({ length: 10 }, connect);
  await nextTurn();
  assert.equal(begun.length, 0, "none before its first byte");
  for (const [at, socket] of sockets.entries()) socket.write(hello(at));
  await once(sockets[9] as PassThrough, "readable");
  for (const count of [4, 8, 10]) {
    await nextTurn();
    assert.equal(begun.length, count);
  }
  assert.deepEqual(
    begun.map((socket) => socket.read()),
    sockets.map((_, at) => hello(at)),
  );
});

test("a connection that says nothing is closed in time, and one that ended has no handshake", async () => {
  const { clock, begun, connect } = setup();
  const silent = connect();
  const ended = connect();
  const broken = connect();
  ended.end();
  broken.destroy(new Error("reset"));
  await nextTurn();
  await nextTurn();
  assert.ok(ended.destroyed);
  await clock.advance(9999);
  assert.equal(silent.destroyed, false);
  await clock.advance(1);
  assert.ok(silent.destroyed);
  assert.equal(begun.length, 0);
});

test("a handshake that has begun has the time of Node, not this one", async () => {
  const { clock, begun, connect } = setup();
  const socket = connect();
  socket.write(hello());
  await once(socket, "readable");
  await nextTurn();
  await clock.advance(20_000);
  assert.equal(begun.length, 1);
  assert.equal(socket.destroyed, false);
});

test("of too many unfinished handshakes the oldest is cut off, and no finished one", async () => {
  const { begun, connect, finish } = setup(3);
  const begin = async (): Promise<PassThrough> => {
    const socket = connect();
    socket.write(hello());
    await once(socket, "readable");
    await nextTurn();
    return socket;
  };
  const finished = await begin();
  finish(finished);
  const unfinished = [await begin(), await begin(), await begin()];
  assert.ok(unfinished.every(({ destroyed }) => !destroyed));
  const left = unfinished.pop() as PassThrough;
  left.destroy();
  await nextTurn();
  unfinished.push(await begin());
  assert.ok(
    unfinished.every(({ destroyed }) => !destroyed),
    "one that was closed does not count",
  );
  await begin();
  assert.deepEqual(
    unfinished.map(({ destroyed }) => destroyed),
    [true, false, false],
  );
  assert.equal(finished.destroyed, false);
  assert.equal(begun.length, 6);
});

test("the length of a first message is waited for, and one that is too long is refused", async () => {
  const { begun, connect } = setup();
  const whole = connect();
  const ended = connect();
  const long = connect();
  for (const socket of [whole, ended]) {
    socket.write(hello().subarray(0, 5));
    await once(socket, "readable");
  }
  await nextTurn();
  assert.equal(begun.length, 0);
  whole.write(hello().subarray(5));
  ended.end();
  long.write(hello(0, 16 * 1024 + 1));
  await once(long, "close");
  assert.deepEqual(begun, [whole]);
  assert.deepEqual(whole.read(), hello());
  assert.ok(ended.destroyed);
});
