import assert from "node:assert/strict";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { endedKey, LevelKv, put } from "@codeq/engine";
import { loadConfig } from "../../config/load.ts";
import type { Config } from "../../config/settings.ts";
import { systemClock as clock } from "../../core/clock.ts";
import { apiKeysPrefix, pausedPrefix } from "../../core/store/keys.ts";
import type { Store } from "../../core/store/store.ts";
import { createLogger } from "../../telemetry/logger.ts";
import { createMetrics } from "../../telemetry/metrics.ts";
import { openDataDir } from "../open-data-dir.ts";
import { openStore, type ShardName } from "../shards/open-shard.ts";
import { initCluster, leaveCluster } from "./cluster-data.ts";

const control = { key: `${apiKeysPrefix}acme/one`, text: "a key" };
const ofShard = (number: number) => ({ key: `${pausedPrefix}q${number}/acme`, text: `${number}` });

function setup(context: TestContext, shards: number): Config {
  const dataDir = mkdtempSync(join(tmpdir(), "codeq-data-"));
  context.after(() => rmSync(dataDir, { recursive: true, force: true }));
  const env = { CODEQ_ENV: "dev", CODEQ_DATA_DIR: dataDir, CODEQ_SHARDS: String(shards) };
  const loaded = loadConfig({ argv: [], env, readFile: () => "" });
  assert.ok(loaded.ok);
  return loaded.config;
}

async function withStore(
  config: Config,
  shard: ShardName | undefined,
  use: (store: Store) => Promise<void>,
): Promise<number | undefined> {
  const write = (): void => {};
  const logger = createLogger({ level: "error", format: "json", nowMs: () => 0, write });
  const metrics = createMetrics({ commandsMax: 1 });
  const folder = shard === undefined ? "" : `shard-${shard.number}`;
  const files = { ...config, dataDir: join(config.dataDir, folder) };
  const storage = await openDataDir(files, { clock, metrics, logger });
  const defer = (run: () => void): void => void setImmediate(run);
  const onState = (): void => {};
  const parts = { config, clock, logger, metrics, storage, defer, onState, shard };
  const store = await openStore(parts);
  await use(store);
  await store[Symbol.asyncDispose]();
  return storage.storeId;
}

/** Ends the logs of the replicas, as a node does that reads their last records. */
async function endLogs(config: Config, names: readonly string[]): Promise<void> {
  for (const name of names) {
    const kv = await LevelKv.open(join(config.dataDir, "replicas", name, "kv"));
    const batch = kv.batch();
    batch.put(endedKey, Buffer.from("5"));
    await batch.write({ sync: true });
    await kv.files.noteWritten(0);
    await kv.files.makeDurable();
    await kv.close();
  }
}

for (const shards of [1, 2]) {
  test(`the records of ${shards} shards become those of a node, and come back`, async (context) => {
    const config = setup(context, shards);
    const numbers = Array.from({ length: shards }, (_, number) => number);
    const names = ["control", ...numbers.map((number) => `shard-${number}`)];
    const storeId = await withStore(config, undefined, async (store) => {
      await store.commitRecords([put(control.key, control.text)]).done;
      if (shards === 1) await store.commitRecords([put(ofShard(0).key, ofShard(0).text)]).done;
    });
    const shardsApart = shards === 1 ? [] : numbers;
    for (const number of shardsApart) {
      await withStore(config, { number, of: storeId }, async (store) => {
        await store.commitRecords([put(ofShard(number).key, ofShard(number).text)]).done;
      });
    }
    await assert.rejects(leaveCluster({ config, clock }), /does not belong to a cluster node/);
    await initCluster({ config, clock });
    assert.ok(existsSync(join(config.dataDir, "before-cluster", "kv")));
    await assert.rejects(initCluster({ config, clock }), /belongs to a cluster node already/);
    await assert.rejects(leaveCluster({ config, clock }), /has not ended/);
    await endLogs(config, names);
    const { entries } = await leaveCluster({ config, clock });
    assert.ok(entries >= 1 + shards);
    assert.ok(existsSync(join(config.dataDir, "before-alone", "replicas", "control")));
    const again = await withStore(config, undefined, async (store) => {
      assert.ok(store.isUnchanged([control]));
      if (shards === 1) assert.ok(store.isUnchanged([ofShard(0)]));
    });
    for (const number of shardsApart) {
      await withStore(config, { number, of: again }, async (store) => {
        assert.ok(store.isUnchanged([ofShard(number)]));
      });
    }
    // And once more: what was kept of the first time is not in the way.
    await initCluster({ config, clock });
    assert.ok(existsSync(join(config.dataDir, "before-cluster-2")));
  });
}
