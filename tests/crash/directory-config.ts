/** The configuration of a server on a data directory, and the size of the log of one with few tasks. */
import assert from "node:assert/strict";
import { loadConfig } from "../../packages/server/src/config/load.ts";
import type { Config } from "../../packages/server/src/config/settings.ts";

/** To write 64 MiB for each of many stores takes longer than all the rest. */
export const fewTasksSegmentBytes: number = 8 * 1024 * 1024;

export function configOf(dataDir: string, shards = 1): Config {
  const env = { CODEQ_DATA_DIR: dataDir, CODEQ_SHARDS: String(shards) };
  const loaded = loadConfig({ argv: [], env, readFile: () => "" });
  assert.ok(loaded.ok);
  return loaded.config;
}
