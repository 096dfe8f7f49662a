/** The configuration of a server on a data directory. */
import assert from "node:assert/strict";
import { loadConfig } from "../../packages/server/src/config/load.ts";
import type { Config } from "../../packages/server/src/config/settings.ts";

export function configOf(dataDir: string, shards = 1): Config {
  const env = { CODEQ_DATA_DIR: dataDir, CODEQ_SHARDS: String(shards) };
  const loaded = loadConfig({ argv: [], env, readFile: () => "" });
  assert.ok(loaded.ok);
  return loaded.config;
}
