/**
 * What is written once at first start and must match at every later one: the version of the format
 * and the number of shards. To change the format: raise the version, keep a reader for the version
 * before under its name, migrate here, and add a directory of the old format to the tests.
 */
import { type Engine, FaultError, put } from "@codeq/engine";
import { formatKey } from "./keys.ts";

const formatVersion = 1;

export async function checkFormat(engine: Engine, shards: number): Promise<void> {
  const stored = engine.get(formatKey);
  if (stored === undefined) {
    await engine.commit([put(formatKey, JSON.stringify({ version: formatVersion, shards }))]).done;
    return;
  }
  const found = JSON.parse(stored.toString("utf8")) as { version: number; shards: number };
  if (found.version > formatVersion) {
    throw new FaultError(
      "format",
      `the data has format version ${found.version}, this server reads up to ${formatVersion}. ` +
        "Start the newer version of codeQ that wrote it.",
    );
  }
  if (found.shards !== shards) {
    throw new FaultError(
      "format",
      `the data was created with shards=${found.shards}, the configuration says shards=${shards}. ` +
        `Set shards to ${found.shards}; to change the number, start an empty data directory and move the tasks there.`,
    );
  }
}
