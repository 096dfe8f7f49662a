/** TLS on every listener, with the clients that people use. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect as connectHttp2 } from "node:http2";
import { Agent, request } from "node:https";
import { connect as connectPlain, type Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { type ConnectionOptions, connect, type TLSSocket } from "node:tls";
import type { TestCertificate } from "@codeq/simulated";
import { credentials } from "@grpc/grpc-js";
import { TlsWorld } from "../../packages/server/test/tls-files.ts";
import { until } from "../contract/setup.ts";
import { Call } from "../grpc/call.ts";
import { producerStream, workerStream } from "../grpc/messages.ts";
import { type Server, setup as start } from "./setup.ts";

type Shown = Pick<TestCertificate, "cert" | "key">;

class World {
  readonly files: TlsWorld;
  readonly server: Server;
  readonly #t: TestContext;

  constructor(t: TestContext, files: TlsWorld, server: Server) {
    this.#t = t;
    this.files = files;
    this.server = server;
  }

  /** Resolves with the status, the connection and the server's name on it; rejects without answer. */
  ask(agent: Agent, body: object): Promise<{ status: number; socket: TLSSocket }> {
    return new Promise((resolve, reject) => {
      const sent = request(
        {
          agent,
          host: "127.0.0.1",
          port: this.server.ports.port,
          method: "POST",
          path: "/v1/codeq/tasks",
          headers: { authorization: "Bearer producer-acme" },
        },
        (reply) => {
          const { socket } = reply;
          reply.resume();
          reply.once("end", () => {
            resolve({ status: reply.statusCode ?? 0, socket: socket as TLSSocket });
          });
        },
      );
      sent.once("error", reject);
      sent.end(JSON.stringify({ command: "render", payload: 1, ...body }));
    });
  }

  agent(client?: Shown): Agent {
    const ca = this.files.ca.cert;
    const agent = new Agent({
      keepAlive: true,
      maxSockets: 1,
      ca,
      servername: "localhost",
      ...client,
    });
    this.#t.after(() => agent.destroy());
    return agent;
  }

  call(kind: "worker" | "producer", client?: Shown): Call {
    const { ports } = this.server;
    const port = kind === "worker" ? ports.workerStreamPort : ports.producerStreamPort;
    const codec = kind === "worker" ? workerStream : producerStream;
    const pem = (text: string | undefined): Buffer | null => (text ? Buffer.from(text) : null);
    const security = credentials.createSsl(
      Buffer.from(this.files.ca.cert),
      pem(client?.key),
      pem(client?.cert),
    );
    const call = new Call(codec, `localhost:${port}`, security);
    this.#t.after(() => call.close());
    return call;
  }

  /** How a bare handshake ends: the protocols that were agreed on, or the code of the failure. */
  handshake(port: number, options: ConnectionOptions): Promise<string> {
    const ca = this.files.ca.cert;
    const socket = connect({ host: "127.0.0.1", port, ca, servername: "localhost", ...options });
    this.#t.after(() => socket.destroy());
    return new Promise((resolve) => {
      socket.once("secureConnect", () => {
        resolve(`${socket.getProtocol()} ${socket.alpnProtocol || "none"}`);
      });
      socket.once("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? ""));
      socket.once("close", () => resolve("closed"));
    });
  }

  async connections(): Promise<number> {
    return this.server.grpc.reduce((sum, { connections }) => sum + connections, 0);
  }
}

async function setup(t: TestContext, auth?: "required" | "optional"): Promise<World> {
  const files = new TlsWorld(t);
  files.writeServer(files.issue("first"));
  const tls = auth === undefined ? files.settings : files.mutual(auth);
  return new World(t, files, await start(t, { tls }));
}

function nameOf(socket: TLSSocket): string {
  return socket.getPeerX509Certificate()?.subject.replace("CN=", "") ?? "";
}

function closed(socket: Socket): Promise<void> {
  socket.on("error", () => {});
  return new Promise((resolve) => void socket.once("close", () => resolve()));
}

test("a task goes through HTTP and both streams under TLS", async (t) => {
  const world = await setup(t);
  const { status, socket } = await world.ask(world.agent(), {});
  assert.equal(status, 202);
  assert.equal(socket.getProtocol(), "TLSv1.3");
  const producer = world.call("producer");
  await producer.ask({ hello: { token: "producer-acme" } });
  const worker = world.call("worker");
  await worker.ask({ hello: { token: "worker-acme" } });
  const { task } = await worker.ask({ ready: {} });
  assert.equal(task.task.command, "render");
});

test("each port speaks its own protocol and no old version of TLS", async (t) => {
  const world = await setup(t);
  const { port, workerStreamPort, producerStreamPort } = world.server.ports;
  const both = { ALPNProtocols: ["h2", "http/1.1"] };
  assert.equal(await world.handshake(port, both), "TLSv1.3 http/1.1");
  assert.equal(await world.handshake(workerStreamPort, both), "TLSv1.3 h2");
  assert.equal(await world.handshake(producerStreamPort, both), "TLSv1.3 h2");
  const only12 = { ...both, maxVersion: "TLSv1.2" } as const;
  assert.equal(await world.handshake(workerStreamPort, only12), "TLSv1.2 h2");
  const noCommon = "ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL";
  assert.equal(await world.handshake(port, { ALPNProtocols: ["h2"] }), noCommon);
  assert.equal(await world.handshake(workerStreamPort, { ALPNProtocols: ["http/1.1"] }), noCommon);
  for (const each of [port, workerStreamPort, producerStreamPort]) {
    for (const version of ["TLSv1", "TLSv1.1"] as const) {
      const old = { minVersion: version, maxVersion: version, ciphers: "DEFAULT@SECLEVEL=0" };
      assert.match(await world.handshake(each, old), /ALERT_PROTOCOL_VERSION/);
    }
  }
});

test("clients without TLS get no answer on a port with TLS, and no other notices", async (t) => {
  const world = await setup(t);
  const { port, workerStreamPort } = world.server.ports;
  for (const each of [port, workerStreamPort]) {
    const socket = connectPlain(each, "127.0.0.1");
    let text = "";
    socket.on("data", (chunk) => {
      text += chunk.toString("latin1");
    });
    socket.write("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
    await closed(socket);
    assert.doesNotMatch(text, /200 OK/);
  }
  const h2c = connectHttp2(`http://127.0.0.1:${workerStreamPort}`);
  h2c.on("error", () => {});
  await once(h2c, "close");
  assert.equal((await world.ask(world.agent(), {})).status, 202);
});

test("a renewed certificate drops neither a connection nor a stream", async (t) => {
  const world = await setup(t);
  const { files, server } = world;
  const agent = world.agent();
  const before = await world.ask(agent, { delaySeconds: 3600 });
  assert.equal(nameOf(before.socket), "first");
  const worker = world.call("worker");
  await worker.ask({ hello: { token: "worker-acme" } });
  worker.send({ ready: {} });
  await server.api.untilWaiting(1);
  const { localPort } = before.socket;
  files.writeServer(files.issue("second"));
  assert.match(await server.line("TLS certificate replaced"), /CN=second/);
  const after = await world.ask(agent, {});
  assert.equal(after.status, 202);
  assert.equal(after.socket.localPort, localPort, "the connection is another one");
  const { task } = await worker.next();
  assert.equal(task.task.command, "render");
  assert.equal(nameOf((await world.ask(world.agent(), {})).socket), "second");
  for (const port of [server.ports.workerStreamPort, server.ports.producerStreamPort]) {
    const ca = files.ca.cert;
    const socket = connect({ host: "127.0.0.1", port, ca, ALPNProtocols: ["h2"] });
    await once(socket, "secureConnect");
    assert.equal(nameOf(socket), "second");
    socket.destroy();
  }
});

for (const auth of ["required", "optional"] as const) {
  test(`client certificates that are ${auth} are checked on every port`, async (t) => {
    const world = await setup(t, auth);
    const { files } = world;
    const shown = ({ cert, key }: TestCertificate): Shown => ({ cert, key });
    const good = shown(files.issue("good"));
    const foreign = shown(files.issue("foreign", { issuer: files.authority("foreign-ca") }));
    const hello = { hello: { token: "producer-acme" } };
    assert.equal((await world.ask(world.agent(good), {})).status, 202);
    for (const kind of ["producer", "worker"] as const) {
      const token = `${kind}-acme`;
      assert.ok("helloAck" in (await world.call(kind, good).ask({ hello: { token } })));
    }
    const wrong = auth === "required" ? [foreign, undefined] : [foreign];
    for (const client of wrong) {
      await assert.rejects(world.ask(world.agent(client), {}));
      for (const kind of ["producer", "worker"] as const) {
        const call = world.call(kind, client);
        call.send(hello);
        assert.equal((await call.ended).code, "UNAVAILABLE");
        call.close();
      }
    }
    if (auth === "optional") {
      assert.equal((await world.ask(world.agent(), {})).status, 202);
      assert.ok("helloAck" in (await world.call("producer").ask(hello)));
    }
    const held = auth === "optional" ? 3 : 2;
    await until(async () => (await world.connections()) === held);
  });
}

test("a certificate alone opens nothing: the token is still asked for", async (t) => {
  const world = await setup(t, "required");
  const { cert, key } = world.files.issue("good");
  const call = world.call("producer", { cert, key });
  call.send({ hello: { token: "nobody" } });
  assert.equal((await call.ended).code, "UNAUTHENTICATED");
});

test("a handshake that is not finished in time is given up", async (t) => {
  const files = new TlsWorld(t);
  files.writeServer(files.issue("server"));
  const tls = { ...files.settings, headersTimeoutSeconds: 1 };
  const server = await start(t, { tls });
  const { ports, grpc } = server;
  const sockets = Object.values(ports).map((port) => connectPlain(port, "127.0.0.1"));
  // The first bytes of a handshake, and then nothing.
  for (const socket of sockets) socket.write(Buffer.from([0x16, 0x03, 0x01, 0x02]));
  await Promise.all(sockets.map(closed));
  await until(() => server.connections + grpc[0]!.connections + grpc[1]!.connections === 0);
});

test("pages that are not read take memory with TLS, and connections are closed beyond its limit", async (t) => {
  const files = new TlsWorld(t);
  files.writeServer(files.issue("first"));
  const settings = { memoryBytes: 64 * 1024 * 1024 };
  const server = await start(t, { tls: files.settings, settings });
  const asked = "GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n".repeat(30);
  for (let count = 0; count < 2; count += 1) {
    const { port } = server.ports;
    const socket = connect({ host: "127.0.0.1", port, ca: files.ca.cert });
    t.after(() => socket.destroy());
    socket.once("secureConnect", () => {
      socket.pause();
      socket.write(asked);
    });
    await until(() => server.connections === count + 1);
  }
  await until(() => server.connections === 1);
});
