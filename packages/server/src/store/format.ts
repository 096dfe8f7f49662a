/**
 * What is written once at first start and must match at every later one: the version of the format
 * and the number of shards. To change the format, raise the version.
 */
import { type Engine, FaultError, put } from "@codeq/engine";
import { formatKey } from "./keys.ts";

const formatVersion = 4;

/** Notes the format of a store that has none yet. */
export async function writeFormat(engine: Engine, shards: number): Promise<void> {
  if (engine.get(formatKey) !== undefined) return;
  const format = put(formatKey, JSON.stringify({ version: formatVersion, shards }));
  await engine.commit([], [format]).done;
}

/** Throws when this version cannot work with what is there. Called before anything is written. */
export function checkFormat(get: (key: string) => Buffer | undefined, shards: number): void {
  const stored = get(formatKey);
  if (stored === undefined) return;
  const found = parseFormat(stored);
  if (found.version !== formatVersion) {
    throw new FaultError(
      "format",
      `the data has format version ${found.version}, this server reads ${formatVersion}. ` +
        "Start the version of codeQ that wrote it, or choose an empty data directory.",
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

interface Format {
  readonly version: number;
  readonly shards: number;
}

function parseFormat(stored: Buffer): Format {
  const text = stored.toString("utf8");
  try {
    const found = JSON.parse(text) as Partial<Format> | null;
    if (typeof found?.version === "number") return found as Format;
  } catch {
    // Reported below, like a text that is JSON of something else.
  }
  throw new FaultError("corrupt", `the format of the data cannot be read: ${text.slice(0, 100)}`);
}
