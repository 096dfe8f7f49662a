import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";
import { describe, test } from "node:test";
import { FaultError } from "@codeq/engine";
import { makeCertificate, type TestCertificate } from "@codeq/simulated";
import { systemClock as clock } from "../../core/clock.ts";
import { createLogger } from "../../telemetry/logger.ts";
import type { Caller } from "../replicated-shard.ts";
import { type ClusterSecrets, PeerSocket } from "./peer-socket.ts";
import { Peers, type PeerTls } from "./peers.ts";

const secret = "what only the nodes of this cluster know";
const leader = (port: number) => ({ id: "b", address: `127.0.0.1:${port}` });

interface Opened extends AsyncDisposable {
  readonly port: number;
  readonly peers: Peers;
  /** Messages that arrived, of all callers. */
  readonly heard: string[];
  readonly warnings: string[];
  readonly warned: Promise<void>;
  readonly ended: Promise<void>;
  /** A copy was given up, or fetched. */
  readonly closed: Promise<void>;
}

/** A node that answers every message with itself, for shard 1 only. */
async function setup(knows: string | ClusterSecrets = secret, tls?: PeerTls): Promise<Opened> {
  const closed = Promise.withResolvers<void>();
  const port = await freePort();
  const heard: string[] = [];
  const warnings: string[] = [];
  const warned = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<void>();
  const logger = createLogger({
    level: "info",
    format: "json",
    nowMs: () => 0,
    write: (line) => {
      warnings.push(line);
      warned.resolve();
    },
  });
  const peers = new Peers({
    secrets: typeof knows === "string" ? [knows] : knows,
    tls,
    clock,
    logger,
    onCall: (shard, caller) => {
      if (shard !== 1) return undefined;
      caller.hear(bytes("hello"));
      return {
        take: (message) => {
          heard.push(Buffer.from(message).toString());
          caller.hear(bytes(`echo ${Buffer.from(message).toString()}`));
        },
        close: () => ended.resolve(),
      };
    },
    onAsk: (question) => Promise.resolve({ asked: question }),
    onSnapshot: (shard) => {
      if (shard !== 1) throw new FaultError("behind", "not here");
      return someCopy(closed.resolve);
    },
  });
  await peers.listen(`127.0.0.1:${port}`);
  const dispose = (): Promise<void> => Promise.resolve(peers[Symbol.asyncDispose]());
  const facts = { port, peers, heard, warnings };
  return {
    ...facts,
    warned: warned.promise,
    ended: ended.promise,
    closed: closed.promise,
    [Symbol.asyncDispose]: dispose,
  };
}

/** A copy of three pieces. */
async function* someCopy(onClosed: () => void): AsyncGenerator<Buffer, void, void> {
  try {
    for (const text of ["one", "two", "three"]) yield Buffer.from(text.repeat(1000));
  } finally {
    onClosed();
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, "close");
  return port;
}

function bytes(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(Buffer.from(text));
}

/** A caller whose messages can be waited for. */
class Heard implements Caller {
  readonly messages: string[] = [];
  readonly ended: Promise<void>;
  end: () => void;
  #wanted = 0;
  #reached: () => void = () => {};

  constructor() {
    const ended = Promise.withResolvers<void>();
    this.ended = ended.promise;
    this.end = () => ended.resolve();
  }

  hear(message: Uint8Array): void {
    this.messages.push(Buffer.from(message).toString());
    if (this.messages.length >= this.#wanted) this.#reached();
  }

  count(wanted: number): Promise<void> {
    this.#wanted = wanted;
    return new Promise((resolve) => {
      this.#reached = resolve;
      if (this.messages.length >= wanted) resolve();
    });
  }
}

describe("nodes of a cluster", () => {
  test("talk about many shards over one connection, in order", async () => {
    await using called = await setup();
    await using calling = await setup();
    const caller = new Heard();
    const hosting = calling.peers.dial(leader(called.port), 1, caller);
    await caller.count(1);
    for (let at = 0; at < 50; at += 1) hosting.take(bytes(`${at} ${"x".repeat(at * 1000)}`));
    await caller.count(51);
    assert.equal(caller.messages[0], "hello");
    assert.deepEqual(
      caller.messages.slice(1).map((text) => text.split(" ")[1]),
      Array.from({ length: 50 }, (_, at) => `${at}`),
    );
    hosting.close();
    await called.ended;
  });

  test("say that they do not lead a shard", async () => {
    await using called = await setup();
    await using calling = await setup();
    const caller = new Heard();
    calling.peers.dial(leader(called.port), 2, caller);
    await caller.ended;
  });

  test("tell the caller when nobody listens, and when the other node is gone", async () => {
    await using calling = await setup();
    const nobody = new Heard();
    calling.peers.dial(leader(await freePort()), 1, nobody);
    await nobody.ended;
    const called = await setup();
    const caller = new Heard();
    calling.peers.dial(leader(called.port), 1, caller);
    await caller.count(1);
    await called[Symbol.asyncDispose]();
    await caller.ended;
  });

  test("refuse a node with another secret, and are refused by it", async () => {
    await using called = await setup();
    await using calling = await setup("what the nodes of another cluster know");
    const caller = new Heard();
    calling.peers.dial(leader(called.port), 1, caller);
    await caller.ended;
    await Promise.any([called.warned, calling.warned]);
    assert.deepEqual(caller.messages, []);
    assert.deepEqual(called.heard, []);
  });

  test("talk to a node that shows a secret which they accept, in both directions", async () => {
    const next = "the secret that follows in this cluster";
    await using changed = await setup([next, secret]);
    await using changing = await setup([secret, next]);
    for (const [from, to] of [
      [changed, changing],
      [changing, changed],
    ] as const) {
      const caller = new Heard();
      from.peers.dial(leader(to.port), 1, caller).take(bytes("word"));
      await caller.count(1);
    }
    await using late = await setup();
    const refused = new Heard();
    late.peers.dial(leader(changed.port), 1, refused);
    await refused.ended;
    assert.deepEqual(refused.messages, [], "it does not know the secret that the other shows");
  });

  test("close the connection to a node that answers what cannot be read", async () => {
    const server = createServer((socket) => {
      const peer: PeerSocket = new PeerSocket({
        ...{ socket, secrets: [secret], clock, isCaller: false },
        onOpen: () => {},
        onFrame: (kind, channel) => peer.send(kind, channel, bytes("{")),
        onClose: () => {},
      });
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as { port: number };
    await using calling = await setup();
    const asked = calling.peers.ask(leader(port), { kind: "report" });
    await assert.rejects(asked, { code: "not_leader" });
    assert.match(calling.warnings[0] ?? "", /cannot be read/);
    server.close();
  });

  test("refuse a stranger that speaks another protocol", async () => {
    await using called = await setup();
    const socket = connect(called.port, "127.0.0.1");
    socket.write("GET /v1/codeq/tasks HTTP/1.1\r\nx-tenant-id: acme\r\nHost: somewhere\r\n\r\n");
    await once(socket.resume(), "close");
    await called.warned;
    assert.match(called.warnings[0] ?? "", /unauthenticated connection/);
  });
});

const days = { validFromMs: Date.UTC(2020), validToMs: Date.UTC(2120) };
const ca = makeCertificate({ name: "CA of the cluster", isCa: true, ...days });
const otherCa = makeCertificate({ name: "another CA", isCa: true, ...days });

function tlsOf(issuer: TestCertificate, address = "127.0.0.1"): PeerTls {
  const own = makeCertificate({ name: "a node", issuer, addresses: [address], ...days });
  return { cert: Buffer.from(own.cert), key: Buffer.from(own.key), ca: Buffer.from(ca.cert) };
}

/** Resolves when the shard answers; a slow machine may be too late for a connection, which is then made again. */
async function reach(peers: Peers, port: number): Promise<void> {
  for (;;) {
    const caller = new Heard();
    peers.dial(leader(port), 1, caller);
    await Promise.race([caller.count(1), caller.ended]);
    if (caller.messages.length > 0) return;
  }
}

describe("nodes with certificates", () => {
  test("talk to each other, and nobody can read it on the way", async () => {
    await using called = await setup(secret, tlsOf(ca));
    await using calling = await setup(secret, tlsOf(ca));
    const way = await between(called.port, (piece) => piece);
    const caller = new Heard();
    const hosting = calling.peers.dial(leader(way.port), 1, caller);
    await caller.count(1);
    hosting.take(bytes("a payload of a tenant"));
    await caller.count(2);
    assert.deepEqual(called.heard, ["a payload of a tenant"]);
    assert.equal(Buffer.concat(way.sent).includes("a payload of a tenant"), false);
    hosting.close();
    way.server.close();
  });

  for (const [what, tls] of [
    ["no certificate", undefined],
    ["a certificate of another CA", tlsOf(otherCa)],
  ] as const) {
    test(`refuse a node with ${what}, though it knows the secret`, async () => {
      await using called = await setup(secret, tlsOf(ca));
      await using calling = await setup(secret, tls);
      const caller = new Heard();
      calling.peers.dial(leader(called.port), 1, caller);
      await caller.ended;
      await called.warned;
      assert.match(called.warnings[0] ?? "", /unauthenticated connection/);
      assert.deepEqual(caller.messages, []);
    });
  }

  test("use a new certificate for new connections, and old connections stay", async () => {
    await using called = await setup(secret, tlsOf(otherCa));
    await using calling = await setup(secret, tlsOf(ca));
    const refused = new Heard();
    calling.peers.dial(leader(called.port), 1, refused);
    await refused.ended;
    called.peers.useTls(tlsOf(ca));
    const first = new Heard();
    calling.peers.dial(leader(called.port), 1, first);
    await first.count(1);
    calling.peers.useTls(tlsOf(otherCa));
    const second = new Heard();
    calling.peers.dial(leader(called.port), 1, second);
    await second.count(1);
    assert.deepEqual(second.messages, ["hello"]);
  });

  test("get in however many connections unauthenticated clients hold open", async () => {
    await using called = await setup(secret, tlsOf(ca));
    await using before = await setup(secret, tlsOf(ca));
    await reach(before.peers, called.port);
    const clients = Array.from({ length: 300 }, () => connect(called.port, "127.0.0.1"));
    const closed = Promise.all(clients.slice(0, 100).map((socket) => once(socket, "close")));
    for (const socket of clients) socket.on("error", () => {});
    await Promise.all(clients.map((socket) => once(socket, "connect")));
    await closed;
    await using late = await setup(secret, tlsOf(ca));
    await reach(late.peers, called.port);
    await reach(before.peers, called.port);
    for (const socket of clients) socket.destroy();
  });

  test("refuse a node with a certificate and another secret", async () => {
    await using called = await setup(secret, tlsOf(ca));
    await using calling = await setup("what another cluster of the same company knows", tlsOf(ca));
    const caller = new Heard();
    calling.peers.dial(leader(called.port), 1, caller);
    await caller.ended;
    await Promise.any([called.warned, calling.warned]);
    assert.deepEqual(called.heard, []);
  });

  test("do not talk to a machine whose certificate names another one", async () => {
    await using called = await setup(secret, tlsOf(ca, "10.0.0.1"));
    await using calling = await setup(secret, tlsOf(ca));
    const caller = new Heard();
    calling.peers.dial(leader(called.port), 1, caller);
    await caller.ended;
    await calling.warned;
    assert.match(calling.warnings[0] ?? "", /no valid certificate.*127\.0\.0\.1/);
    assert.deepEqual(called.heard, []);
  });
});

describe("a copy of a shard", () => {
  test("comes piece by piece, each when the one before was taken", async () => {
    await using called = await setup();
    await using calling = await setup();
    const taken: number[] = [];
    let isTaking = false;
    await calling.peers.copy(leader(called.port), 1, async (piece) => {
      assert.equal(isTaking, false);
      isTaking = true;
      await new Promise((resolve) => void setImmediate(resolve));
      isTaking = false;
      taken.push(piece.length);
    });
    assert.deepEqual(taken, [3000, 3000, 5000]);
  });

  test("is refused by a node that has none, and fails with the connection", async () => {
    await using calling = await setup();
    const called = await setup();
    const take = (): Promise<void> => Promise.resolve();
    const copied = calling.peers.copy(leader(called.port), 2, take);
    await assert.rejects(copied, { code: "storage_failed" });
    const cut = calling.peers.copy(leader(called.port), 1, () => {
      void called[Symbol.asyncDispose]();
      return Promise.resolve();
    });
    await assert.rejects(cut, { code: "storage_failed" });
  });

  test("is given up, on both nodes, when its taker ends", async () => {
    await using called = await setup();
    await using calling = await setup();
    const copied = calling.peers.copy(leader(called.port), 1, () => {
      calling.peers.giveUpCopies();
      return Promise.resolve();
    });
    await assert.rejects(copied, { code: "storage_failed" });
    await called.closed;
  });

  test("that cannot be written is given up, on both nodes", async () => {
    await using called = await setup();
    await using calling = await setup();
    const full = new FaultError("disk_full", "no room");
    const copied = calling.peers.copy(leader(called.port), 1, () => Promise.reject(full));
    await assert.rejects(copied, { code: "disk_full" });
    await called.closed;
  });
});

/** Stands between two nodes, and can repeat or change what passes. */
async function between(
  port: number,
  change: (piece: Buffer, number: number) => Buffer,
): Promise<{ readonly port: number; readonly sent: Buffer[]; readonly server: Server }> {
  const sent: Buffer[] = [];
  const sockets: Socket[] = [];
  const server = createServer((near) => {
    const far = connect(port, "127.0.0.1");
    sockets.push(near, far);
    near.on("data", (piece) => {
      sent.push(piece);
      far.write(change(piece, sent.length));
    });
    far.on("data", (piece) => near.write(piece));
    near.on("close", () => far.destroy());
    far.on("close", () => near.destroy());
    near.on("error", () => {});
    far.on("error", () => {});
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  return { port: (server.address() as { port: number }).port, sent, server };
}

describe("frames", () => {
  test("that were recorded mean nothing on another connection", async () => {
    await using called = await setup();
    await using calling = await setup();
    const way = await between(called.port, (piece) => piece);
    const caller = new Heard();
    const hosting = calling.peers.dial(leader(way.port), 1, caller);
    await caller.count(1);
    hosting.take(bytes("delete everything"));
    await caller.count(2);
    assert.deepEqual(called.heard, ["delete everything"]);
    const thief = connect(called.port, "127.0.0.1");
    thief.write(Buffer.concat(way.sent));
    await once(thief.resume(), "close");
    assert.deepEqual(called.heard, ["delete everything"]);
    hosting.close();
    way.server.close();
  });

  test("that were repeated or changed on their way end the connection", async () => {
    for (const how of ["repeat", "change"] as const) {
      await using called = await setup();
      await using calling = await setup();
      let isHostile = false;
      const way = await between(called.port, (piece) => {
        if (!isHostile) return piece;
        if (how === "repeat") return Buffer.concat([piece, piece]);
        const changed = Buffer.from(piece);
        changed[changed.length - 1] = (changed.at(-1) as number) ^ 1;
        return changed;
      });
      const caller = new Heard();
      const hosting = calling.peers.dial(leader(way.port), 1, caller);
      await caller.count(1);
      isHostile = true;
      hosting.take(bytes("once"));
      await caller.ended;
      assert.deepEqual(called.heard, how === "repeat" ? ["once"] : []);
      way.server.close();
    }
  });
});
