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

/** Stops and starts the nodes one after the other; the others go on meanwhile. */
async function restartInTurn(
  cluster: ThreeNodes,
  env: Readonly<Record<string, string>>,
): Promise<void> {
  for (const id of cluster.ids) {
    const exit = await cluster.servers.get(id)?.stop();
    assert.equal(exit?.code, 0, exit?.stderr);
    await create(cluster, cluster.ids.find((other) => other !== id) as string);
    await cluster.startNode(id, cluster.ids, env);
    await cluster.follows(id);
    await cluster.logsVote();
  }
}

async function create(cluster: ThreeNodes, node: string): Promise<void> {
  await untilFound(cluster.client(node), async () => {
    const { status } = await cluster.client(node).create({ command: "work", payload: {} });
    return status === 202 || undefined;
  });
}

test("a cluster gets another secret one node after the other, and goes on meanwhile", {
  skip,
}, async () => {
  await using cluster = await ThreeNodes.start(path);
  await cluster.leader("a");
  const next = "another secret of the cluster of the tests";
  await restartInTurn(cluster, { CODEQ_CLUSTER_SECRET_OTHER: next });
  cluster.useSecrets(next, cluster.secret);
  await restartInTurn(cluster, {
    CODEQ_CLUSTER_SECRET: next,
    CODEQ_CLUSTER_SECRET_OTHER: cluster.secret,
  });
  await restartInTurn(cluster, { CODEQ_CLUSTER_SECRET: next });
  for (const id of cluster.ids) {
    await untilFound(
      cluster.client(id),
      async () => (await isComplete(cluster, id, 9)) || undefined,
    );
  }
  await cluster.servers.get("c")?.stop();
  const late = cluster.startNode("c", cluster.ids, { CODEQ_CLUSTER_SECRET: cluster.secret });
  await assert.rejects(late, /another clusterSecret/);
});
