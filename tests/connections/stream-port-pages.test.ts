/** What stream ports answer to requests that are not gRPC. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { connect as connectHttp2 } from "node:http2";
import { request as httpsRequest } from "node:https";
import { connect } from "node:net";
import { type TestContext, test } from "node:test";
import { SimClock } from "@codeq/simulated";
import { TlsWorld } from "../../packages/server/test/tls-files.ts";
import { setup } from "./setup.ts";

interface Reply {
  readonly status: number | undefined;
  readonly text: string;
}

/** A request as curl sends it, to a port of this machine. */
async function ask(
  port: number,
  path: string,
  options: { method?: string; ca?: string; headers?: Record<string, string> } = {},
): Promise<Reply> {
  const { ca, ...more } = options;
  const at = { host: "127.0.0.1", port, path, agent: false as const, ...more };
  const sent = ca === undefined ? httpRequest(at) : httpsRequest({ ...at, ca });
  sent.end();
  const [reply] = await once(sent, "response");
  let text = "";
  for await (const chunk of reply.setEncoding("utf8")) text += chunk;
  return { status: reply.statusCode, text };
}

const viaProxy = { "x-forwarded-for": "203.0.113.7" };

test("curl reads metrics and health from both stream ports", async (t) => {
  const { ports } = await setup(t);
  for (const port of [ports.workerStreamPort, ports.producerStreamPort]) {
    const metrics = await ask(port, "/metrics");
    assert.equal(metrics.status, 200);
    assert.match(metrics.text, /^codeq_waiters/m);
    const health = await ask(port, "/healthz?from=probe");
    assert.equal(health.status, 200);
    assert.match(health.text, /"status":"ok"/);
    assert.equal((await ask(port, "/readyz", { method: "HEAD" })).status, 200);
  }
});

test("any other HTTP request is told the port of the HTTP API", async (t) => {
  const { ports } = await setup(t);
  for (const [path, method] of [
    ["/v1/codeq/tasks", "POST"],
    ["/metrics", "POST"],
    ["/v1/codeq/admin/queues", "GET"],
    ["/", "PUT"],
  ] as const) {
    const { status, text } = await ask(ports.workerStreamPort, path, { method });
    assert.equal(status, 421);
    const port = `on port ${ports.port}`;
    assert.equal(
      text,
      `this port is for gRPC streams; send HTTP requests to the HTTP API ${port}\n`,
    );
  }
});

test("metrics have the access rule of the HTTP port", async (t) => {
  const settings = { metricsPublic: false, metricsToken: "scraper" };
  const { ports } = await setup(t, { settings });
  for (const port of [ports.port, ports.workerStreamPort]) {
    const stranger = await ask(port, "/metrics", { headers: viaProxy });
    assert.equal(stranger.status, 401, String(port));
    const headers = { ...viaProxy, authorization: "Bearer scraper" };
    assert.equal((await ask(port, "/metrics", { headers })).status, 200);
    const wrong = { ...viaProxy, authorization: "Bearer other" };
    assert.equal((await ask(port, "/metrics", { headers: wrong })).status, 401);
  }
});

test("names of commands are hidden from callers elsewhere", async (t) => {
  const { ports, api } = await setup(t);
  await api.create({ command: "SECRET_NAME" });
  const near = await ask(ports.workerStreamPort, "/metrics");
  assert.match(near.text, /SECRET_NAME/);
  const far = await ask(ports.workerStreamPort, "/metrics", { headers: viaProxy });
  assert.equal(far.status, 200);
  assert.doesNotMatch(far.text, /SECRET_NAME/);
});

test("HTTP/2 without gRPC gets the pages too", async (t) => {
  const { ports } = await setup(t);
  const session = connectHttp2(`http://127.0.0.1:${ports.workerStreamPort}`);
  t.after(() => session.destroy());
  const stream = session.request({ ":path": "/healthz" });
  const [headers] = await once(stream, "response");
  assert.equal(headers[":status"], 200);
  let text = "";
  for await (const chunk of stream.setEncoding("utf8")) text += chunk;
  assert.match(text, /"status":"ok"/);
  const other = session.request({ ":path": "/v1/codeq/tasks" });
  assert.equal((await once(other, "response"))[0][":status"], 405);
});

test("with TLS, a client without HTTP/2 gets the pages", async (t) => {
  const files = tlsWorld(t);
  const { ports } = await setup(t, { tls: files.settings });
  const { status, text } = await ask(ports.workerStreamPort, "/healthz", { ca: files.ca.cert });
  assert.equal(status, 200);
  assert.match(text, /"status":"ok"/);
});

function tlsWorld(t: TestContext): TlsWorld {
  const files = new TlsWorld(t);
  files.writeServer(files.issue("first"));
  return files;
}

test("a connection ends after one answer", async (t) => {
  const { ports } = await setup(t);
  const socket = connect(ports.workerStreamPort, "127.0.0.1");
  socket.write("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\nGET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
  let text = "";
  for await (const chunk of socket.setEncoding("utf8")) text += chunk;
  assert.equal(text.split("HTTP/1.1 200 OK").length, 2);
  assert.match(text, /connection: close/i);
});

test("a connection that sends nothing, or half a request, is closed", async (t) => {
  const clock = new SimClock();
  const { grpc, ports } = await setup(t, { clock });
  for (const bytes of ["", "GET /metr"]) {
    const socket = connect(ports.workerStreamPort, "127.0.0.1");
    let isClosed = false;
    socket.once("close", () => {
      isClosed = true;
    });
    await once(socket, "connect");
    socket.write(bytes);
    // The clock of the server begins to count when the server has seen the connection.
    while (!isClosed) await clock.advance(1000);
  }
  assert.equal(grpc[0]?.connections, 0);
});
