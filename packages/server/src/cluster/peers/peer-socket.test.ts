import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { test } from "node:test";
import type { Clock } from "../../core/clock.ts";
import { PeerSocket } from "./peer-socket.ts";

/** Timers run when a test lets them. */
class HandClock implements Clock {
  readonly #timers: Set<() => void> = new Set();

  nowMs(): number {
    return 0;
  }

  monotonicMs(): number {
    return 0;
  }

  after(_delayMs: number, run: () => void): () => void {
    this.#timers.add(run);
    return () => void this.#timers.delete(run);
  }

  fire(): void {
    const due = [...this.#timers];
    this.#timers.clear();
    for (const run of due) run();
  }
}

class End {
  readonly clock: HandClock = new HandClock();
  readonly socket: Socket;
  readonly peer: PeerSocket;
  readonly opened: Promise<void>;
  readonly closed: Promise<void>;
  readonly kinds: number[] = [];

  constructor(socket: Socket, isCaller: boolean) {
    const opened = Promise.withResolvers<void>();
    const closed = Promise.withResolvers<void>();
    this.opened = opened.promise;
    this.closed = closed.promise;
    this.socket = socket;
    this.peer = new PeerSocket({
      socket,
      isCaller,
      secrets: ["s".repeat(32)],
      clock: this.clock,
      onOpen: () => opened.resolve(),
      onFrame: (kind) => this.kinds.push(kind),
      onClose: () => closed.resolve(),
    });
  }
}

/** Both ends of a connection that is open. */
async function setup(): Promise<{ readonly near: End; readonly far: End }> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const accepted = once(server, "connection");
  const near = new End(connect((server.address() as { port: number }).port, "127.0.0.1"), true);
  const far = new End((await accepted)[0] as Socket, false);
  await Promise.all([near.opened, far.opened]);
  server.close();
  return { near, far };
}

test("ends that have nothing to say stay connected", async () => {
  const { near, far } = await setup();
  for (let beat = 0; beat < 20; beat += 1) {
    const heard = once(near.socket, "data");
    far.clock.fire();
    await heard;
    near.clock.fire();
  }
  assert.ok(near.peer.isOpen);
  assert.deepEqual(near.kinds, [], "nobody else hears of it");
  near.peer.close();
  await far.closed;
});

test("an end whose other end stands still closes the connection", async () => {
  const { near, far } = await setup();
  for (let beat = 0; beat < 3; beat += 1) near.clock.fire();
  assert.ok(near.peer.isOpen);
  near.clock.fire();
  await near.closed;
  await far.closed;
});

test("an end whose words are not taken closes the connection", async () => {
  const { near, far } = await setup();
  far.socket.pause();
  const words = new Uint8Array(8 * 1024 * 1024);
  for (let bytes = 0; bytes < 96 * 1024 * 1024; bytes += words.length) near.peer.send(1, 1, words);
  near.clock.fire();
  assert.ok(near.peer.isOpen, "it may be much at once");
  near.clock.fire();
  await near.closed;
  far.peer.close();
});
