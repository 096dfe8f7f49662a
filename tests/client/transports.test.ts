/** How the client finds its way: TLS, servers without streams, and strangers on a port. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import test, { type TestContext } from "node:test";
import { createServer as createTlsServer } from "node:tls";
import { type CodeqError, codeq, task } from "@codeq/client";
import { TlsWorld } from "../../packages/server/test/tls-files.ts";
import { type ServerProcess, startServer } from "../e2e/server-process.ts";
import { setup } from "./setup.ts";

const double = task<number, number>("double");

function streamPort(server: ServerProcess): number {
  const line = server.stdout.split("\n").find((each) => each.includes('"listening"')) ?? "{}";
  return (JSON.parse(line) as { workerStreamPort: number }).workerStreamPort;
}

/** A page of a server that is somewhere else, with a change. */
async function proxyOf(
  t: TestContext,
  target: string,
  change: (path: string, body: string) => string,
): Promise<string> {
  const pass = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { method = "GET", url = "/", headers } = request;
    const reply = await fetch(target + url, {
      method,
      headers: { authorization: String(headers.authorization) },
      ...(chunks.length === 0 ? {} : { body: Buffer.concat(chunks) }),
    });
    const code = reply.headers.get("codeq-error");
    if (code !== null) response.setHeader("codeq-error", code);
    response.writeHead(reply.status).end(change(url, await reply.text()));
  };
  const proxy = createServer((request, response) => {
    // A server that is gone, as at the end of a test, is for the client to notice.
    pass(request, response).catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    proxy.closeAllConnections();
    proxy.close();
  });
  return `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
}

/** A task goes through, and whether streams were used for it. */
async function roundTrip(
  t: TestContext,
  options: Parameters<typeof codeq>[0],
  n = 21,
): Promise<void> {
  const client = codeq(options);
  t.after(() => client.close({ timeout: 0 }).catch(() => {}));
  const worker = client.worker(double.handle((each) => each * 2));
  const run = await client.enqueue(double, n);
  assert.equal(await run.result({ timeout: "20s" }), n * 2);
  await worker.close();
}

async function overTls(
  t: TestContext,
  clients?: "required",
): Promise<{ files: TlsWorld; url: string; streams: string }> {
  const files = new TlsWorld(t);
  files.writeServer(files.issue("first"));
  const server = await startServer({
    dataDir: join(files.directory, "data"),
    env: {
      CODEQ_TLS_CERT_FILE: files.settings.tlsCertFile,
      CODEQ_TLS_KEY_FILE: files.settings.tlsKeyFile,
      WORKER_STREAM_ADDR: "127.0.0.1:0",
      PRODUCER_STREAM_ADDR: "off",
      CODEQ_TLS_CLIENT_CA_FILE: clients === undefined ? "" : files.mutual(clients).tlsClientCaFile,
    },
  });
  t.after(() => server.kill());
  const url = `https://127.0.0.1:${server.port}`;
  return { files, url, streams: `127.0.0.1:${streamPort(server)}` };
}

test("streams and HTTP work over TLS, and only with a certificate that is trusted", async (t) => {
  const { files, url, streams } = await overTls(t);
  const tls = { ca: files.ca.cert };
  await roundTrip(t, { url, streams, transport: "streams", tls });
  await roundTrip(t, { url, transport: "http", tls });
  await roundTrip(t, { url, tls });
  const suspicious = codeq({ url, streams, transport: "streams" });
  await assert.rejects(suspicious.enqueue(double, 1, { timeout: "1s" }), {
    code: "timeout",
    message: /no answer within 1s: cannot connect to https:.*certificate/,
  });
  await suspicious.close({ timeout: 0 });
  const overHttp = codeq({ url, transport: "http" });
  await assert.rejects(overHttp.enqueue(double, 1, { timeout: "1s" }), {
    code: "timeout",
    message: /cannot reach https:.*certificate.*; name the CA of the server: .*tls\.ca/,
  });
  await overHttp.close({ timeout: 0 });
});

test("a server that wants client certificates is shown one, over streams and over HTTP", async (t) => {
  const { files, url } = await overTls(t, "required");
  const { cert, key } = files.issue("client");
  const tls = { ca: files.ca.cert, cert, key };
  await roundTrip(t, { url, tls });
  await roundTrip(t, { url, transport: "http", tls });
  const bare = codeq({ url, transport: "http", tls: { ca: files.ca.cert } });
  await assert.rejects(bare.enqueue(double, 1, { timeout: "1s" }), {
    code: "timeout",
    message: /cannot reach https:.*; the server may want a client certificate/,
  });
  await bare.close({ timeout: 0 });
});

test("a server that hangs up over TLS may want a client certificate", async (t) => {
  const files = new TlsWorld(t);
  const { cert, key } = files.issue("first");
  const server = createTlsServer({ cert, key }, (socket) => socket.destroy());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const client = codeq({ url, transport: "http", tls: { ca: files.ca.cert } });
  await assert.rejects(client.enqueue(double, 1, { timeout: "1s" }), {
    code: "timeout",
    message: /cannot reach https:.*; the server may want a client certificate/,
  });
  await client.close({ timeout: 0 });
});

test("a server without streams is used over HTTP", async (t) => {
  const { server } = await setup(t, { WORKER_STREAM_ADDR: "off", PRODUCER_STREAM_ADDR: "off" });
  await roundTrip(t, { url: server.url });
  const strict = codeq({ url: server.url, transport: "streams" });
  await assert.rejects(strict.enqueue(double, 1, { timeout: "1s" }), {
    message: /the server has no streams that can be reached; give their address/,
  });
  await strict.close({ timeout: 0 });
});

test("streams that cannot be reached are done without", async (t) => {
  const { server } = await setup(t);
  const url = await proxyOf(t, server.url, (path, body) => {
    if (path !== "/healthz") return body;
    // Nothing listens there.
    return JSON.stringify({ ...JSON.parse(body), streams: { worker: 1, producer: 1 } });
  });
  await roundTrip(t, { url });
});

test("a page of health that does not get through is done without", async (t) => {
  const { server } = await setup(t);
  const url = await proxyOf(t, server.url, (path, body) =>
    path === "/healthz" ? "<html>no</html>" : body,
  );
  await roundTrip(t, { url });
});

test("another server on the port of the streams is not talked to", async (t) => {
  const { server } = await setup(t);
  const { server: stranger, client } = await setup(t);
  const port = streamPort(stranger);
  const url = await proxyOf(t, server.url, (path, body) => {
    if (path !== "/healthz") return body;
    return JSON.stringify({ ...JSON.parse(body), streams: { worker: port, producer: port } });
  });
  const mine = codeq({ url });
  t.after(() => mine.close({ timeout: 0 }));
  const run = await mine.enqueue(double, 1);
  const elsewhere = client().run(double, run.id).result({ timeout: "5s" });
  await assert.rejects(elsewhere, { code: "task_not_found" });
  await roundTrip(t, { url: server.url });
  assert.equal(await mine.run(double, run.id).result({ timeout: "20s" }), 2);
});

test("what is not a codeQ server is told apart from one that is down", async (t) => {
  const other = createServer((_request, response) => response.writeHead(404).end("not here"));
  await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
  t.after(() => other.close());
  const port = (other.address() as AddressInfo).port;
  const client = codeq({ url: `http://127.0.0.1:${port}` });
  await assert.rejects(client.enqueue(double, 1), {
    code: "not_codeq",
    retryable: false,
    message: `what answers at http://127.0.0.1:${port}/ is not a codeQ server: status 404`,
  });
  await client.close({ timeout: 0 });
  const down = codeq({ url: "http://127.0.0.1:1" });
  await assert.rejects(down.enqueue(double, 1, { timeout: "500ms" }), {
    code: "timeout",
    ambiguous: false,
    message: /^no answer within 500ms: cannot reach http:\/\/127\.0\.0\.1:1/,
  });
  await down.close({ timeout: 0 });
});

test("whatever listens at the address and never stops talking is not listened to for long", async (t) => {
  let sent = 0;
  const endless = createServer((_request, response) => {
    const talk = (): void => {
      while (!response.destroyed && response.write("x".repeat(64 * 1024))) sent += 64 * 1024;
      if (!response.destroyed) response.once("drain", talk);
    };
    talk();
  });
  await new Promise<void>((resolve) => endless.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    endless.closeAllConnections();
    endless.close();
  });
  const url = `http://127.0.0.1:${(endless.address() as AddressInfo).port}`;
  const client = codeq({ url, transport: "streams" });
  t.after(() => client.close({ timeout: 0 }).catch(() => {}));
  await assert.rejects(client.enqueue(double, 1, { timeout: "2s" }), /no streams/);
  assert.ok(sent < 64 * 1024 * 1024, `${sent} bytes were taken`);
});

test("a token that cannot be sent is refused without being shown", async (t) => {
  const token = "hunter2\nhunter3";
  for (const given of [token, () => token]) {
    const client = codeq({ token: given, transport: "http" });
    t.after(() => client.close({ timeout: 0 }).catch(() => {}));
    await assert.rejects(client.enqueue(double, 1), ({ code, message }: CodeqError) => {
      assert.equal(code, "invalid_option");
      assert.doesNotMatch(message, /hunter/);
      return true;
    });
  }
});

test("addresses that make no sense are refused at once", () => {
  for (const url of ["", "localhost:8080", "ftp://host", "http://"]) {
    assert.throws(() => codeq({ url }), { code: "invalid_option", message: /^invalid url/ });
  }
  for (const url of ["http://me:hunter2@host", "redis://:hunter2@host:1", "me:hunter2@host:a"]) {
    assert.throws(
      () => codeq({ url }),
      ({ code, message }: CodeqError) => {
        assert.equal(code, "invalid_option");
        assert.doesNotMatch(message, /hunter2/);
        return true;
      },
    );
  }
  for (const streams of ["", "host", "host:", ":9091", "host:port", "http://host:1"]) {
    assert.throws(() => codeq({ streams }), {
      code: "invalid_option",
      message: /^invalid streams/,
    });
  }
  assert.throws(() => codeq({ transport: "grpc" as never }), {
    code: "invalid_option",
    message: 'invalid transport "grpc": one of auto, streams, http',
  });
});
