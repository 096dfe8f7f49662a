/** A server whose connections are in threads of their own, as clients and operators see it. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { ApiClient, type TaskJson } from "./api-client.ts";
import {
  endOfServer,
  type ServerProcess,
  startServer,
  temporaryDirectory,
} from "./server-process.ts";

const preload = import.meta.resolve("./failing-thread.ts");

interface World {
  readonly dataDir: string;
  readonly server: ServerProcess;
  readonly api: ApiClient;
  dial(): Promise<Client>;
}

async function setup(
  t: TestContext,
  env: Record<string, string> = {},
  nodeArgs: readonly string[] = [],
): Promise<World> {
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  const dataDir = directory.path;
  const server = await startServer({ dataDir, env: { CODEQ_FRONTS: "2", ...env }, nodeArgs });
  const api = new ApiClient(server.port);
  t.after(async () => {
    api.close();
    await server.kill();
  });
  const dial = async (): Promise<Client> => {
    const socket = connect(server.port, "127.0.0.1");
    t.after(() => socket.destroy());
    await once(socket, "connect");
    return new Client(socket);
  };
  return { dataDir, server, api, dial };
}

/** A connection, and what was received on it. */
class Client {
  readonly socket: Socket;
  readonly closed: Promise<unknown>;
  received = "";

  constructor(socket: Socket) {
    this.socket = socket;
    socket.on("error", () => {});
    this.closed = once(socket, "close");
    socket.setEncoding("latin1").on("data", (text: string) => {
      this.received += text;
    });
  }

  claim(body: object, token = "dev-token"): void {
    const text = JSON.stringify(body);
    this.socket.write(
      `POST /v1/codeq/tasks/claim HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${token}\r\n` +
        `Content-Length: ${text.length}\r\n\r\n${text}`,
    );
  }
}

/** Resolves when so many claims wait. */
async function untilWaiting(api: ApiClient, count: number): Promise<void> {
  const line = `codeq_waiters{kind="claim"} ${count}`;
  while (!(await api.page("/metrics")).text.split("\n").includes(line));
}

async function created(api: ApiClient, command: string): Promise<string> {
  const reply = await api.create({ command, payload: 1 });
  assert.equal(reply.status, 202, reply.text);
  return (JSON.parse(reply.text) as TaskJson).id;
}

test("tasks go through fronts, with one shard and with several", async (t) => {
  for (const shards of ["1", "2"]) {
    const { server, api } = await setup(t, { CODEQ_SHARDS: shards });
    const ids = await Promise.all(Array.from({ length: 50 }, () => created(api, "c")));
    for (let left = ids.length; left > 0; left--) {
      const claimed = JSON.parse((await api.post("/tasks/claim", {})).text) as TaskJson;
      const result = { status: "COMPLETED", result: { ok: true } };
      assert.equal((await api.post(`/tasks/${claimed.id}/result`, result)).status, 200);
    }
    for (const id of ids) assert.equal((await api.task(id))?.status, "COMPLETED");
    const exit = await server.stop();
    assert.equal(exit.code, 0, exit.stderr);
  }
});

test("a front that ends takes its own connections along, and listens again", async (t) => {
  const env = { CODEQ_TEST_FRONT: "0", CODEQ_TEST_FAULT: "throw" };
  const { server, api, dial } = await setup(t, env, [`--import=${preload}`]);
  const clients = await Promise.all(Array.from({ length: 32 }, dial));
  for (const client of clients) client.claim({ commands: ["late"], waitSeconds: 30 });
  await untilWaiting(api, clients.length);
  const again = server.line((line) => line.includes("the HTTP front thread listens again"));
  server.signal("SIGUSR2");
  await again;
  const left = clients.filter(({ socket }) => !socket.destroyed);
  assert.ok(left.length > 0 && left.length < clients.length, `${left.length} of 32 are left`);
  // Claims of those that are gone wait no more, so every task finds somebody.
  await untilWaiting(new ApiClient(server.port), left.length);
  const fresh = new ApiClient(server.port);
  t.after(() => fresh.close());
  await Promise.all(left.map(() => created(fresh, "late")));
  await Promise.all(left.map(({ socket, received }) => received !== "" || once(socket, "data")));
  for (const { received } of left) assert.match(received, /^HTTP\/1.1 200 /);
});

test("a shutdown answers what waits at fronts, says that it is the end, and ends", async (t) => {
  const { server, api, dial } = await setup(t);
  const clients = await Promise.all(Array.from({ length: 8 }, dial));
  for (const client of clients) client.claim({ commands: ["late"], waitSeconds: 30 });
  await untilWaiting(api, clients.length);
  const exit = await server.stop();
  assert.equal(exit.code, 0, exit.stderr);
  await Promise.all(clients.map(({ closed }) => closed));
  for (const { received } of clients)
    assert.match(received, /^HTTP\/1.1 204 [\s\S]*\r\nConnection: close\r\n/);
});

test("a server with fronts does not share its port with another server", async (t) => {
  const { server } = await setup(t);
  for (const fronts of ["0", "2"]) {
    const directory = temporaryDirectory();
    t.after(() => directory.dispose());
    const env = { CODEQ_FRONTS: fronts, PORT: String(server.port) };
    const exit = await endOfServer({ dataDir: directory.path, env });
    assert.equal(exit.code, 5, exit.stderr);
    assert.match(exit.stderr, /the port is in use by another process/);
  }
});
