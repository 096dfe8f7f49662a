import assert from "node:assert/strict";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import { createServer } from "node:tls";
import { systemClock } from "../../core/clock.ts";
import { clusterCertificate } from "./cluster-certificates.ts";
import type { ClusterSecrets } from "./peer-socket.ts";
import type { PeerTls } from "./peers.ts";
import { assertSameSecret } from "./secret-check.ts";

function tlsOf(id: string, ...secrets: ClusterSecrets): PeerTls {
  const { ca, cert, key } = clusterCertificate(secrets, id, ["127.0.0.1"]);
  return { ca: Buffer.from(ca), cert: Buffer.from(cert), key: Buffer.from(key) };
}

/** A node with this secret; its address. */
async function setup(t: TestContext, secret: string): Promise<string> {
  const wanted = { requestCert: true, rejectUnauthorized: false };
  const server = createServer({ ...tlsOf("b", secret), ...wanted }, (socket) => socket.destroy());
  server.listen(0, "127.0.0.1");
  t.after(() => server.close());
  await once(server, "listening");
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test("a node whose secret is another one is told so", async (t) => {
  const own = tlsOf("a", "the secret of this node");
  const other = { id: "b", address: await setup(t, "another secret") };
  const same = { id: "c", address: await setup(t, "the secret of this node") };
  const away = { id: "d", address: "127.0.0.1:1" };
  await assert.rejects(assertSameSecret([other, away], own, systemClock), {
    code: "format",
    message: /another clusterSecret.*than b\. Set the same clusterSecret on all nodes/,
  });
  await assertSameSecret([other, same], own, systemClock);
  await assertSameSecret([away], own, systemClock);
  const changing = tlsOf("a", "the secret of this node", "another secret");
  await assertSameSecret([other], changing, systemClock);
  await assertSameSecret([same], changing, systemClock);
});
