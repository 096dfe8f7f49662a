/** TLS as an operator meets it: at the start, in the banner, by signals. Contract 13, S2 and S9. */
import assert from "node:assert/strict";
import { request } from "node:https";
import { connect } from "node:net";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import type { TLSSocket } from "node:tls";
import { TlsWorld } from "../../packages/server/test/tls-files.ts";
import {
  endOfServer,
  type ServerOptions,
  type ServerProcess,
  startServer,
} from "../e2e/server-process.ts";

interface World {
  readonly files: TlsWorld;
  readonly options: ServerOptions;
}

function setup(t: TestContext): World {
  const files = new TlsWorld(t);
  files.writeServer(files.issue("first"));
  const options = {
    dataDir: join(files.directory, "data"),
    env: files.env,
  };
  return { files, options };
}

async function start(t: TestContext, options: ServerOptions): Promise<ServerProcess> {
  const server = await startServer(options);
  t.after(() => server.kill());
  return server;
}

/** The page and the name on the certificate. */
function page(
  { files }: World,
  server: ServerProcess,
  path: string,
): Promise<{ text: string; name: string }> {
  return new Promise((resolve, reject) => {
    const sent = request(
      { host: "127.0.0.1", port: server.port, path, ca: files.ca.cert, agent: false },
      (reply) => {
        const subject = (reply.socket as TLSSocket).getPeerX509Certificate()?.subject ?? "";
        let text = "";
        reply.setEncoding("utf8").on("data", (chunk) => {
          text += chunk;
        });
        reply.once("end", () => resolve({ text, name: subject.replace("CN=", "") }));
      },
    );
    sent.once("error", reject);
    sent.end();
  });
}

test("S9: a server with a certificate says https and reads a new one on SIGHUP", async (t) => {
  const world = setup(t);
  const { files, options } = world;
  const server = await start(t, options);
  await server.anyLine((line) => line.includes(`codeQ is ready       https://127.0.0.1:`));
  assert.equal((await page(world, server, "/healthz")).name, "first");
  const { validToMs } = files.days(-1, 365);
  const { text } = await page(world, server, "/metrics");
  const expiry = Number(/^codeq_tls_certificate_expiry_seconds (\d+)$/m.exec(text)?.[1]);
  assert.equal(expiry, Math.floor(validToMs / 1000));
  // The connection of the page before may be about to close.
  const own = /^codeq_connections\{listener="http"\} 1$/m;
  while (!own.test((await page(world, server, "/metrics")).text));
  files.writeServer(files.issue("second"));
  server.signal("SIGHUP");
  await server.anyLine((line) => line.includes('"TLS certificate replaced"'));
  assert.equal((await page(world, server, "/healthz")).name, "second");
  assert.equal((await server.stop()).code, 0);
});

test("TLS files that cannot be used are refused at the start, with every other problem", async (t) => {
  const { files, options } = setup(t);
  files.write("tls.crt", files.issue("old", files.days(-30, -1)).cert);
  const env = {
    ...options.env,
    CODEQ_TLS_CLIENT_CA_FILE: files.path("gone.crt"),
    PORT: "eighty",
  };
  const { code, stderr } = await endOfServer({ ...options, env });
  assert.equal(code, 2, stderr);
  assert.match(stderr, /the configuration has 4 problem\(s\)/);
  assert.match(stderr, /PORT.*eighty/);
  assert.match(stderr, /tlsClientCaFile: .*gone\.crt does not exist/);
  assert.match(stderr, /tlsCertFile: .*tls\.crt expired on/);
  assert.match(stderr, /tlsKeyFile: .*tls\.key is not the key/);
  assert.doesNotMatch(stderr, /^\s+at /m);
});

test("a server that others can reach without TLS warns twice, unless that is meant", async (t) => {
  const { options } = setup(t);
  const open = { ...options, env: { HOST: "0.0.0.0" } };
  const server = await start(t, open);
  await server.anyLine((line) => line.includes("*** NO TLS ***"));
  const { stderr } = await server.stop();
  assert.match(stderr, /warning: NO TLS on 0\.0\.0\.0:0, .*tlsCertFile/);
  const meant = await start(t, { ...open, env: { ...open.env, CODEQ_INSECURE: "true" } });
  await meant.anyLine((line) => line.includes("data, durability"));
  const quiet = await meant.stop();
  assert.doesNotMatch(quiet.stdout + quiet.stderr, /NO TLS/);
});

test("S2: with env=prod neither the development token nor an empty webhook secret passes", async (t) => {
  const { options } = setup(t);
  const env = {
    ENV: "prod",
    PRODUCER_AUTH_CONFIG: '{"token":"dev-token"}',
    WORKER_AUTH_CONFIG: '{"token":"long and random"}',
  };
  const { code, stderr } = await endOfServer({ ...options, env });
  assert.equal(code, 2, stderr);
  assert.match(stderr, /2 problem/);
  assert.match(stderr, /producerAuthConfig: contains the development token and env is prod/);
  assert.match(stderr, /webhookHmacSecret: required because env is prod/);
});

test("a connection that never finishes its handshake does not hold up the end", async (t) => {
  const { files, options } = setup(t);
  const env = { ...options.env, CODEQ_SHUTDOWN_GRACE_SECONDS: "1" };
  const server = await start(t, { ...options, env });
  const silent = connect(server.port, "127.0.0.1");
  silent.on("error", () => {});
  const world = { files, options };
  // A request behind it has been answered, so the silent one was accepted.
  assert.equal((await page(world, server, "/healthz")).name, "first");
  const { code, stdout } = await server.stop();
  assert.equal(code, 0);
  assert.match(stdout, /grace period is over/);
});
