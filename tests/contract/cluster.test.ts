import assert from "node:assert/strict";
import { test } from "node:test";
import { setup } from "./setup.ts";

test("a server alone says that it is no node of a cluster", async (t) => {
  const server = await setup(t);
  const cluster = await server.get("/cluster", "admin-acme");
  assert.equal(cluster.status, 200);
  assert.deepEqual(cluster.json, { enabled: false, nodes: [], shards: [] });
  const raft = await server.get("/raft/status", "worker-acme");
  assert.deepEqual(raft.json, { enabled: false, numGroups: 0 });
});
