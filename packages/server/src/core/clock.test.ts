import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer } from "node:net";
import { test } from "node:test";
import { systemClock } from "./clock.ts";

test("time stands still within a callback and goes on after it", async () => {
  const first = systemClock.monotonicMs();
  const wall = systemClock.nowMs();
  for (let step = 0; step < 200_000; step++) assert.equal(systemClock.monotonicMs(), first);
  assert.equal(systemClock.nowMs(), wall);
  await new Promise((resolve) => setImmediate(resolve));
  assert.ok(systemClock.monotonicMs() > first);
  assert.ok(systemClock.nowMs() >= wall);
});

test("every callback of a socket reads the time anew", async (t) => {
  const server = createServer((socket) => socket.end("x")).listen(0, "127.0.0.1");
  t.after(() => server.close());
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  const before = systemClock.monotonicMs();
  const socket = connect(port, "127.0.0.1");
  await once(socket, "data");
  assert.ok(systemClock.monotonicMs() > before);
  socket.destroy();
});
