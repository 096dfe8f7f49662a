/**
 * Plain requests are answered without Node's parser. A caller must not be able to tell: each request
 * is sent twice, once as it is and once with a header that makes it go the long way.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { until } from "../contract/setup.ts";
import { type Options, setup as start } from "./setup.ts";

class Client {
  readonly socket: Socket;
  #received = "";

  constructor(socket: Socket) {
    this.socket = socket;
    socket.setEncoding("latin1").on("data", (text: string) => {
      this.#received += text;
    });
    socket.on("error", () => {});
  }

  /** The next whole reply. */
  async reply(): Promise<string> {
    await until(() => this.#end() > 0 || this.socket.destroyed);
    const reply = this.#received.slice(0, this.#end());
    this.#received = this.#received.slice(reply.length);
    return reply;
  }

  get received(): string {
    return this.#received;
  }

  #end(): number {
    const headEnd = this.#received.indexOf("\r\n\r\n");
    if (headEnd < 0) return 0;
    const length = /content-length: (\d+)/i.exec(this.#received.slice(0, headEnd))?.[1] ?? "0";
    const end = headEnd + 4 + Number(length);
    return this.#received.length >= end ? end : 0;
  }
}

async function setup(t: TestContext, options: Options = {}) {
  const server = await start(t, options);
  const dial = async (): Promise<Client> => {
    const socket = connect(server.ports.port, "127.0.0.1");
    t.after(() => socket.destroy());
    await once(socket, "connect");
    return new Client(socket);
  };
  return { server, dial };
}

interface Sent {
  readonly path?: string;
  readonly token?: string;
  readonly body?: string;
  readonly headers?: string;
}

function textOf({
  path = "/tasks",
  token = "producer-acme",
  body = "",
  headers = "",
}: Sent): string {
  const length = Buffer.byteLength(body);
  const authorization = token === "" ? "" : `Authorization: Bearer ${token}\r\n`;
  return (
    `POST /v1/codeq${path} HTTP/1.1\r\nHost: a\r\n${authorization}${headers}` +
    `X-Request-Id: asked\r\nContent-Length: ${length}\r\n\r\n${body}`
  );
}

/** Replies without what differs between any two. */
function sameIn(reply: string): string {
  return reply
    .replace(/Date: [^\r]+/, "Date: now")
    .replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, "id")
    .replace(/\d{4}-\d\d-\d\dT[0-9:.]+(Z|[+-]\d\d:\d\d)/g, "time");
}

/** In the order of the wire or not: headers have none. */
function linesOf(reply: string): string[] {
  const [head = "", body = ""] = sameIn(reply).split("\r\n\r\n");
  return [...head.split("\r\n").sort(), body];
}

const create = '{"command":"render","payload":{"n":12345678901234567890}}';

test("replies are the same, letter by letter, on both ways", async (t) => {
  const { server, dial } = await setup(t, {
    settings: {
      "rateLimit.producer.requestsPerMinute": 600,
      "rateLimit.producer.burstSize": 100,
    },
  });
  const id = await server.api.leased();
  const requests: Sent[] = [
    { body: create },
    { body: '{"command":"render","payload":"é€😀"}' },
    { body: '{"command":"render","payload":1,"idempotencyKey":"k"}' },
    { body: "{" },
    { body: "" },
    { body: create, token: "" },
    { body: create, token: "nobody" },
    { body: create, token: "worker-acme" },
    { body: '{"command":"","payload":1}' },
    { body: '{"command":"no spaces","payload":1}' },
    { body: create, headers: "X-Role: admin\r\nUser-Agent: test\r\nContent-Type: text/plain\r\n" },
    { path: "/tasks/batch", body: `{"tasks":[${create},{"command":"?","payload":1}]}` },
    { path: "/tasks/claim", token: "worker-acme", body: '{"commands":["nothing"]}' },
    {
      path: "/tasks/claim",
      token: "worker-acme",
      body: '{"commands":["render"],"leaseSeconds":-9}',
    },
    { path: `/tasks/${id}/heartbeat`, token: "worker-acme", body: "{}" },
    { path: `/tasks/${id}/result`, token: "worker-acme", body: '{"status":"COMPLETED"}' },
    { path: "/tasks/unknown/nack", token: "worker-acme", body: "{}" },
    { path: "/tasks/unknown/abandon", token: "worker-acme", body: "" },
    { path: "/admin/tasks/cleanup", body: "{}" },
    { path: "/nowhere", body: "{}" },
  ];
  for (const request of requests) {
    const [short, long] = [await dial(), await dial()];
    short.socket.write(textOf(request));
    const answer = await short.reply();
    long.socket.write(textOf({ ...request, headers: `${request.headers ?? ""}TE: trailers\r\n` }));
    const other = await long.reply();
    const hidden = /"idempotencyKey"/.test(request.body ?? "")
      ? /Idempotent-Replayed: true/i
      : /^$/;
    const differs = (line: string): boolean =>
      hidden.test(line) || /^ratelimit: /.test(line) || /^content-length/.test(line);
    const kept = (reply: string): string[] => linesOf(reply).filter((line) => !differs(line));
    assert.deepEqual(kept(answer), kept(other), JSON.stringify(request));
    assert.match(answer, /\r\nx-request-id: asked\r\n/);
  }
});

test("a request may come in pieces, cut anywhere", async (t) => {
  const { dial } = await setup(t);
  const text = textOf({ body: create });
  for (const at of [1, 20, text.indexOf("\r\n\r\n") + 2, text.indexOf("{"), text.length - 1]) {
    const client = await dial();
    client.socket.setNoDelay(true).write(text.slice(0, at));
    await new Promise(setImmediate);
    client.socket.write(text.slice(at));
    assert.match(await client.reply(), /^HTTP\/1.1 202 /);
    client.socket.write(text);
    assert.match(await client.reply(), /^HTTP\/1.1 202 /, "the connection goes on");
  }
});

test("plain requests, others and several at once follow each other on one connection", async (t) => {
  const { dial } = await setup(t);
  const client = await dial();
  for (let n = 0; n < 3; n += 1) {
    client.socket.write(textOf({ body: create }));
    assert.match(await client.reply(), /^HTTP\/1.1 202 /);
  }
  client.socket.write(textOf({ body: create }).repeat(3));
  for (let n = 0; n < 3; n += 1) assert.match(await client.reply(), /^HTTP\/1.1 202 /);
  client.socket.write("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
  assert.match(await client.reply(), /^HTTP\/1.1 200 /);
  client.socket.write(textOf({ body: create }));
  assert.match(await client.reply(), /^HTTP\/1.1 202 /);
});

test("what is sent while a claim waits is answered after it, in order", async (t) => {
  const { server, dial } = await setup(t);
  const client = await dial();
  const body = '{"commands":["late"],"waitSeconds":30}';
  client.socket.write(textOf({ path: "/tasks/claim", token: "worker-acme", body }));
  await until(() => server.api.core.shard.claims.waiting.size === 1);
  client.socket.write(textOf({ body: '{"command":"second","payload":2}' }));
  await server.api.post("/tasks", { command: "late", payload: 1 }, "producer-acme");
  assert.match(await client.reply(), /"command":"late"/);
  assert.match(await client.reply(), /"command":"second"/);
});

test("a caller that leaves while its claim waits leaves no waiter and takes no task", async (t) => {
  const { server, dial } = await setup(t);
  const { waiting } = server.api.core.shard.claims;
  const body = '{"commands":["late"],"waitSeconds":30}';
  for (const leave of [(s: Socket) => s.destroy(), (s: Socket) => s.end()]) {
    const client = await dial();
    client.socket.write(textOf({ path: "/tasks/claim", token: "worker-acme", body }));
    await until(() => waiting.size === 1);
    leave(client.socket);
    await until(() => waiting.size === 0);
  }
  const other = await dial();
  await server.api.post("/tasks", { command: "late", payload: 1 }, "producer-acme");
  other.socket.write(textOf({ path: "/tasks/claim", token: "worker-acme", body }));
  assert.match(await other.reply(), /"command":"late"/);
});

test("a connection is kept for its time and then closed, and one without requests before", async (t) => {
  const { dial } = await setup(t, {
    settings: { keepAliveSeconds: 1, headersTimeoutSeconds: 1 } as Options["settings"] & object,
  });
  const [used, unused] = [await dial(), await dial()];
  used.socket.write(textOf({ body: create }));
  assert.match(await used.reply(), /\r\nKeep-Alive: timeout=1\r\n/);
  await Promise.all([once(used.socket, "close"), once(unused.socket, "close")]);
  assert.equal(used.received, "");
  assert.match(unused.received, /^HTTP\/1.1 408 /);
});

test("a shutdown closes idle connections, answers what waits and says that it is the end", async (t) => {
  const { server, dial } = await setup(t);
  const [idle, waiting] = [await dial(), await dial()];
  idle.socket.write(textOf({ body: create }));
  await idle.reply();
  const body = '{"commands":["late"],"waitSeconds":30}';
  waiting.socket.write(textOf({ path: "/tasks/claim", token: "worker-acme", body }));
  await until(() => server.api.core.shard.claims.waiting.size === 1);
  const closed = [once(idle.socket, "close"), once(waiting.socket, "close")];
  await server.close();
  await Promise.all(closed);
  assert.match(waiting.received, /^HTTP\/1.1 204 [\s\S]*\r\nConnection: close\r\n/);
});

/** A connection whose caller has asked for more than it reads, and the server's end of it. */
async function stalled(t: TestContext) {
  const { server, dial } = await setup(t);
  const accepted: Socket[] = [];
  server.onSocket((socket) => accepted.push(socket));
  for (let n = 0; n < 24; n += 1) {
    const task = { command: "big", payload: "x".repeat(900_000) };
    await server.api.post("/tasks", task, "producer-acme");
  }
  const client = await dial();
  client.socket.pause();
  await until(() => accepted.length === 1);
  const own = accepted[0] as Socket;
  const body = '{"commands":["big"],"count":4}';
  // One after the other, until no more fits into the buffers between.
  for (let written = 0; !own.writableNeedDrain; ) {
    client.socket.write(textOf({ path: "/tasks/claim/batch", token: "worker-acme", body }));
    await until(() => own.bytesWritten > written);
    written = own.bytesWritten;
  }
  return { server, client, own };
}

test("who does not read its answer is cut off after a time, and kept when it goes on", async (t) => {
  const { client, own } = await stalled(t);
  assert.equal(own.timeout, 120_000, "longer than a connection without requests is kept");
  client.socket.resume();
  assert.match(await client.reply(), /^HTTP\/1.1 200 /);
  await until(() => own.timeout === 73_000);
  const other = await stalled(t);
  other.own.emit("timeout");
  assert.ok(other.own.destroyed, "what is left to write does not keep it open");
});

test("a shutdown lets a slow reader have the whole answer", async (t) => {
  const { server, client } = await stalled(t);
  const closed = server.close();
  client.socket.resume();
  await once(client.socket, "close");
  for (let n = 0; client.received !== ""; n += 1) {
    const before = client.received.length;
    assert.match(await client.reply(), /^HTTP\/1.1 200 /);
    assert.ok(client.received.length < before, `answer ${n} is whole`);
  }
  await closed;
});
