/** Commands at a server with TLS that asks for client certificates. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { exitCodes } from "../../packages/cli/src/exit-codes.ts";
import { TlsWorld } from "../../packages/server/test/tls-files.ts";
import { setup } from "./setup.ts";

test("a command shows its certificate, and says what is missing without one", async (t) => {
  const files = new TlsWorld(t);
  files.writeServer(files.issue("first"));
  const { server, world: worldOf } = await setup(t, {
    dataDir: join(files.directory, "data"),
    env: {
      CODEQ_TLS_CERT_FILE: files.settings.tlsCertFile,
      CODEQ_TLS_KEY_FILE: files.settings.tlsKeyFile,
      CODEQ_TLS_CLIENT_CA_FILE: files.mutual("required").tlsClientCaFile,
    },
  });
  const world = worldOf({ env: { CODEQ_BASE_URL: `https://127.0.0.1:${server.port}` } });
  const client = files.issue("client");
  const ca = ["--ca-file", files.write("ca.crt", files.ca.cert)];
  const own = [
    ...["--cert-file", files.write("client.crt", client.cert)],
    ...["--key-file", files.write("client.key", client.key)],
  ];

  const created = await world.run("enqueue", "render", "{}", ...ca, ...own);
  assert.equal(created.code, 0, created.errors);
  const worked = await world.run("work", "render", "--max", "1", ...ca, ...own, "--", "true");
  assert.equal(worked.code, 0, worked.errors);

  const stranger = await world.run("queues", "--json");
  assert.equal(stranger.code, exitCodes.unreachable.code);
  assert.match(stranger.errors, /name the CA of the server: --ca-file/);
  const bare = await world.run("queues", ...ca);
  assert.equal(bare.code, exitCodes.unreachable.code);
  assert.match(bare.errors, /the server may want a client certificate: --cert-file/);
  const half = await world.run("queues", ...ca, ...own.slice(0, 2));
  assert.equal(half.code, exitCodes.usage.code);
  assert.match(half.errors, /needs both --cert-file and --key-file/);
  const missing = await world.run("queues", "--ca-file", files.path("no-such-file"));
  assert.equal(missing.code, exitCodes.usage.code);
  assert.match(missing.errors, /cannot read the certificate or key .*no-such-file \(ENOENT\)/);
});
