import assert from "node:assert/strict";
import { test } from "node:test";
import { setup } from "./setup.ts";

test("a server alone says that it is no node of a cluster", async (t) => {
  const server = await setup(t);
  const cluster = await server.get("/cluster", "admin-acme");
  assert.equal(cluster.status, 200);
  const { disk, ...rest } = cluster.json;
  assert.deepEqual(rest, { enabled: false, nodes: [], logServers: [], shards: [] });
  assert.ok(disk.freeBytes > disk.minFreeBytes, JSON.stringify(disk));
  const handed = await server.post("/admin/cluster/handoff", {}, "operator");
  assert.deepEqual([handed.status, handed.json], [200, { shards: [] }]);
  const unsure = await server.post("/admin/cluster/end", {}, "operator");
  assert.deepEqual([unsure.status, unsure.json.error], [400, "confirm with 'confirm': true"]);
  const ended = await server.post("/admin/cluster/end", { confirm: true }, "operator");
  assert.deepEqual([ended.status, ended.json], [200, { ended: false }]);
  const raft = await server.get("/raft/status", "worker-acme");
  assert.deepEqual(raft.json, { enabled: false, numGroups: 0 });
});

test("a server alone answers local reads as any other", async (t) => {
  const server = await setup(t);
  const id = await server.create();
  const local = await server.get(`/tasks/${id}?consistency=local`, "producer-acme");
  assert.deepEqual([local.status, local.json.id], [200, id]);
  assert.equal(local.headers["codeq-applied-index"], undefined);
  const other = await server.get(`/tasks/${id}?consistency=strong`, "producer-acme");
  assert.equal(other.status, 400, other.text);
});
