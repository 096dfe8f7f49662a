/**
 * Written at the first start and checked at every later one: the format version, the number of shards, and
 * the number of this shard. To change the format, raise the version.
 */
import { type Engine, FaultError, put } from "@codeq/engine";
import { formatKey } from "./keys.ts";

const formatVersion = 11;

/** The kind of a store, as the configuration defines it. */
export interface StoreKind {
  readonly shards: number;
  /** The number of this shard, when the data is split into shards. */
  readonly shard?: number | undefined;
  /** The id of the store in whose directory this shard is. */
  readonly of?: number | undefined;
}

/** Writes the format of a new store. */
export async function writeFormat(engine: Engine, kind: StoreKind): Promise<void> {
  if (engine.get(formatKey) !== undefined) return;
  await engine.commit([], [put(...formatEntry(kind))]).done;
}

/** The entry with the kind of a store, without its checksum. */
export function formatEntry({ shards, shard, of }: StoreKind): readonly [string, Buffer] {
  const text = JSON.stringify({ version: formatVersion, shards, shard, of });
  return [formatKey, Buffer.from(text)];
}

/** The kind of a store; undefined for an empty one. Throws for another format version. */
export function readKind(get: (key: string) => Buffer | undefined): StoreKind | undefined {
  const stored = get(formatKey);
  if (stored === undefined) return undefined;
  const found = parseFormat(stored);
  if (found.version === formatVersion) return found;
  throw new FaultError(
    "format",
    `the data has format version ${found.version}, this server reads ${formatVersion}. ` +
      "Start the version of codeQ that wrote the data, or choose an empty data directory.",
  );
}

/** Throws when this version cannot use the store. Called before anything is written. */
export function checkFormat(get: (key: string) => Buffer | undefined, kind: StoreKind): void {
  const found = readKind(get);
  if (found !== undefined) checkKind(found, kind);
}

export function checkKind(found: StoreKind, kind: StoreKind): void {
  if (found.shards !== kind.shards) {
    throw new FaultError(
      "format",
      `the data was created with shards=${found.shards}, the configuration has shards=${kind.shards}. ` +
        `Set shards to ${found.shards}, or stop the server and run ` +
        `\`codeq shards migrate --to ${kind.shards}\`.`,
    );
  }
  if (found.shard !== kind.shard) {
    throw new FaultError(
      "format",
      `the directory of shard ${kind.shard ?? "none"} holds shard ${found.shard ?? "none"}. ` +
        "Restore the original names of the shard directories.",
    );
  }
  if (kind.of !== undefined && found.of !== kind.of) {
    throw new FaultError(
      "format",
      `shard ${kind.shard} belongs to another data directory. ` +
        "Restore the whole data directory from one backup.",
    );
  }
}

interface Format extends StoreKind {
  readonly version: number;
}

function parseFormat(stored: Buffer): Format {
  const text = stored.toString("utf8");
  try {
    const found = JSON.parse(text) as Partial<Format> | null;
    if (typeof found?.version === "number") return found as Format;
  } catch {
    // Reported below, like valid JSON of another shape.
  }
  throw new FaultError("corrupt", `the format of the data cannot be read: ${text.slice(0, 100)}`);
}
