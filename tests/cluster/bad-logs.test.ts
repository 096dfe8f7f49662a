/** What a node says about log servers that somebody else runs: each problem is named, with what to do. */
import { test } from "node:test";
import { ApiClient } from "../e2e/api-client.ts";
import { type ServerProcess, startServer, temporaryDirectory } from "../e2e/server-process.ts";
import { untilFound } from "./api-calls.ts";
import { etcdBinary } from "./etcd-binary.ts";
import { EtcdOfTest, removeLog } from "./etcd-servers.ts";
import { freePortRows } from "./free-ports.ts";
import { type ClusterJson, operator } from "./three-nodes.ts";

const binary = etcdBinary();
const skip = "missing" in binary && binary.missing;
const path = "path" in binary ? binary.path : "";

/** A cluster of one node. */
async function startNode(
  dataDir: string,
  servers: EtcdOfTest,
  env: Readonly<Record<string, string>> = {},
): Promise<ServerProcess> {
  const [port] = await freePortRows(1, 1);
  return await startServer({
    dataDir,
    env: {
      CODEQ_ENV: "dev",
      ...operator,
      CODEQ_CLUSTER_MEMBERS: `a=127.0.0.1:${port}`,
      CODEQ_NODE_ID: "a",
      CODEQ_CLUSTER_SECRET: "the secret of a cluster of one node",
      CODEQ_CLUSTER_LOG_BYTES: String(1024 ** 3),
      CODEQ_ETCD_URLS: servers.urls.join(","),
      ...servers.settings,
      ...env,
    },
  });
}

/** Resolves when the shard has this problem, as an operator sees it. */
async function untilProblem(server: ServerProcess, problem: RegExp): Promise<void> {
  const client = new ApiClient(server.port);
  await untilFound(client, async () => {
    const { shards } = JSON.parse((await client.get("/cluster")).text) as ClusterJson;
    return problem.test(shards[0]?.problem ?? "") || undefined;
  });
  client.close();
}

test("a node names what is wrong with its log servers", { skip }, async (t) => {
  await using servers = await EtcdOfTest.start(path, 1);
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  const early = await startNode(directory.path, servers);
  t.after(() => early.kill());
  await untilProblem(early, /its log does not exist yet; set clusterBootstrap/);
  await early.stop();
  const bootstrap = { CODEQ_CLUSTER_BOOTSTRAP: "a" };
  const server = await startNode(directory.path, servers, bootstrap);
  t.after(() => server.kill());
  const client = new ApiClient(server.port);
  t.after(() => client.close());
  await untilFound(client, async () => {
    const { status } = await client.create({ command: "work", payload: {} });
    return status === 202 || undefined;
  });
  await removeLog(servers.options(), "shard-0");
  await untilProblem(server, /log shard-0 is gone.*keeps its data.*Restore etcd/);
  await server.kill();
  // A log that is created anew would not fit the data of the node.
  const again = await startNode(directory.path, servers, bootstrap);
  t.after(() => again.kill());
  await untilProblem(again, /log shard-0 is gone.*not created again.*Restore etcd/);
});
