/** Settings of the storage reach the store of every shard, and its metrics tell of each. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ApiClient } from "./api-client.ts";
import { startServer, temporaryDirectory } from "./server-process.ts";

const env = { CODEQ_LSM_CACHE_BYTES: "9000000", CODEQ_LSM_WRITE_BUFFER_BYTES: "8000000" };

test("the write amplification counts LevelDB's own log", async (t) => {
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  const server = await startServer({
    dataDir: directory.path,
    env: { CODEQ_FLUSH_BYTES: "65536" },
  });
  const api = new ApiClient(server.port, 1);
  t.after(async () => {
    api.close();
    await server.kill();
  });
  const value = async (name: string): Promise<number> =>
    Number(new RegExp(`^${name} (.*)$`, "m").exec((await api.page("/metrics")).text)?.[1]);
  // Tasks are created until a flush wrote them to LevelDB, whose tables are not written yet.
  while ((await value("codeq_flush_seconds_count")) === 0) {
    await api.create({ command: "MAIL", payload: "x".repeat(10_000) });
  }
  assert.ok((await value("codeq_lsm_own_log_bytes_total")) > 30_000);
  assert.ok((await value("codeq_write_amplification")) > 1.5);
});

for (const { shards, labels } of [
  { shards: "1", labels: [""] },
  { shards: "3", labels: ['{shard="control"}', '{shard="0"}', '{shard="1"}', '{shard="2"}'] },
]) {
  test(`with ${shards} shards each store has the cache that was asked for`, async (t) => {
    const directory = temporaryDirectory();
    t.after(() => directory.dispose());
    const server = await startServer({
      dataDir: directory.path,
      env: { ...env, CODEQ_SHARDS: shards },
    });
    const api = new ApiClient(server.port, 1);
    t.after(async () => {
      api.close();
      await server.kill();
    });
    const { text } = await api.page("/metrics");
    const samples = (name: string): string[] =>
      text.split("\n").filter((line) => new RegExp(`^${name}[ {]`).test(line));
    assert.deepEqual(
      samples("codeq_lsm_cache_max_bytes"),
      labels.map((label) => `codeq_lsm_cache_max_bytes${label} 9000000`),
    );
    for (const name of [
      "codeq_lsm_read_amplification",
      "codeq_lsm_compaction_backlog_bytes",
      "codeq_write_stalls_total",
      "codeq_write_stall_seconds_total",
    ]) {
      assert.equal(samples(name).length, labels.length, name);
    }
  });
}
