/** Certificates and the secret of a cluster are replaced, as the guide says. */
import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { test } from "node:test";
import { connect } from "node:tls";
import { untilFound } from "./api-calls.ts";
import { etcdBinary } from "./etcd-binary.ts";
import { ThreeNodes } from "./three-nodes.ts";

const binary = etcdBinary();
const skip = "missing" in binary ? binary.missing : false;
const path = "path" in binary ? binary.path : "";

/** The certificate that a port shows. */
async function shownBy(port: number): Promise<string> {
  const socket = connect({ port, host: "127.0.0.1", rejectUnauthorized: false });
  socket.on("error", () => {
    // The port refuses this client after it has shown its certificate.
  });
  await once(socket, "secureConnect");
  const { raw } = socket.getPeerCertificate();
  socket.destroy();
  return new X509Certificate(raw).fingerprint256;
}

async function isComplete(cluster: ThreeNodes, node: string, ready: number): Promise<boolean> {
  const { status, text } = await cluster.client(node).get("/admin/queues/work");
  return status === 200 && (JSON.parse(text) as { ready: number }).ready === ready;
}

test("nodes and log servers show a new certificate without a restart, and accept it", {
  skip,
}, async () => {
  await using cluster = await ThreeNodes.start(path, { tls: true });
  const renewed = cluster.ids.map((id) =>
    cluster.servers.get(id)?.anyLine((line) => line.includes("certificate for other nodes was")),
  );
  const { fingerprint256 } = new X509Certificate(await cluster.renewCertificate());
  await Promise.all(renewed);
  for (const id of cluster.ids) {
    for (const port of cluster.portsOf(id)) assert.equal(await shownBy(port), fingerprint256);
  }
  // Connections that are made now.
  await cluster.servers.get("c")?.kill();
  await cluster.startNode("c");
  await cluster.follows("c");
});

test("a cluster goes on with another secret after all nodes were stopped", { skip }, async () => {
  await using cluster = await ThreeNodes.start(path);
  await cluster.leader("a");
  for (let number = 0; number < 5; number += 1) {
    await untilFound(cluster.client("a"), async () => {
      const { status } = await cluster.client("a").create({ command: "work", payload: { number } });
      return status === 202 || undefined;
    });
  }
  await Promise.all(cluster.ids.map((id) => cluster.servers.get(id)?.stop()));
  const secret = { CODEQ_CLUSTER_SECRET: "another secret of the cluster of the tests" };
  await Promise.all(cluster.ids.map((id) => cluster.startNode(id, cluster.ids, secret)));
  for (const id of cluster.ids) {
    await untilFound(
      cluster.client(id),
      async () => (await isComplete(cluster, id, 5)) || undefined,
    );
  }
});
