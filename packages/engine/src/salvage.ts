/**
 * Reads what can still be read of the files of a store, whatever else is damaged, and changes nothing.
 * Skipped parts are reported. A server uses none of this: it refuses damaged files.
 *
 * Of a table every block with a right checksum is read, of the log every record with one. Values
 * with a wrong checksum of their own are left out.
 */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { type DecodedOp, decodeBody } from "./batch-codec.ts";
import { ReadOnlyDisk } from "./disk/node-disk.ts";
import type { FaultError } from "./fault.ts";
import { positionKey } from "./flusher.ts";
import { sealedEnd } from "./kv/checked-value.ts";
import { readStoreFiles } from "./kv/manifest.ts";
import { soundEntries } from "./kv/table-file.ts";
import { inspectSegment, segmentFirstIndex } from "./log/segment.ts";

export type OnDamage = (what: string) => void;

export interface SalvagedTables {
  /** The newest sound value of each wanted key, without its checksum. */
  readonly values: ReadonlyMap<string, Buffer>;
  /** Up to which record of the log the tables go; undefined when they do not say. */
  readonly position: number | undefined;
}

interface Newest {
  readonly sequence: bigint;
  /** Undefined when the key was deleted. */
  readonly value: Buffer | undefined;
}

const suffixBytes = 8;
const deletion = 0;

/** All values are held in memory. */
export function salvageTables(
  directory: string,
  isWanted: (key: string) => boolean,
  onDamage: OnDamage,
): SalvagedTables {
  const newest = new Map<string, Newest>();
  for (const entry of entriesIn(directory, onDamage)) {
    const { key } = entry;
    if (key !== positionKey && !isWanted(key)) continue;
    const known = newest.get(key);
    if (known === undefined || known.sequence < entry.sequence) newest.set(key, entry);
  }
  const values = new Map<string, Buffer>();
  for (const [key, { value }] of newest) {
    const end = value === undefined ? 0 : sealedEnd(key, value);
    if (end === undefined) onDamage(`the value of ${key} has a wrong checksum`);
    else if (value !== undefined) values.set(key, value.subarray(0, end));
  }
  const position = values.get(positionKey)?.toString("latin1").split(" ")[0];
  values.delete(positionKey);
  return { values, position: position === undefined ? undefined : Number(position) };
}

/** What stands in the tables, newer and older. */
function* entriesIn(
  directory: string,
  onDamage: OnDamage,
): Generator<Newest & { readonly key: string }, void, void> {
  for (const name of tablesIn(directory, onDamage)) {
    const path = join(directory, name);
    const report = (what: string): void => onDamage(`${path} ${what}`);
    for (const { key: internal, value } of soundEntries(path, report)) {
      const end = internal.length - suffixBytes;
      if (end <= 0) continue;
      const tag = internal.readBigUInt64LE(end);
      const isGone = Number(tag & 0xffn) === deletion;
      yield {
        key: internal.toString("latin1", 0, end),
        sequence: tag >> 8n,
        value: isGone ? undefined : Buffer.from(value),
      };
    }
  }
}

export interface SalvagedRecord {
  readonly index: number;
  /** Valid until the next record. */
  readonly ops: readonly DecodedOp[];
  /** Something before it is missing, so what it changes may not be all that changed. */
  readonly isBehindGap: boolean;
}

/** The records from an index on, in their order. */
export async function* salvageLog(
  directory: string,
  from: number,
  onDamage: OnDamage,
): AsyncGenerator<SalvagedRecord, void, void> {
  if (!existsSync(directory)) {
    onDamage(`${directory} is missing`);
    return;
  }
  const disk = new ReadOnlyDisk(directory);
  const names = (await disk.list()).filter((name) => segmentFirstIndex(name) !== undefined);
  let last = from - 1;
  let isBehindGap = false;
  for (const name of names) {
    for await (const entry of inspectSegment(disk, name)) {
      // Used files hold older records behind their end.
      if (!entry.ok || entry.header.index <= last) continue;
      const { index } = entry.header;
      if (index > last + 1) {
        isBehindGap = true;
        onDamage(`${join(directory, name)}: records ${last + 1} to ${index - 1} are missing`);
      }
      last = index;
      yield { index, ops: [...decodeBody(entry.body)], isBehindGap };
    }
  }
}

/** The tables that the manifest names, or all tables when it cannot be read. */
function tablesIn(directory: string, onDamage: OnDamage): readonly string[] {
  if (!existsSync(directory)) {
    onDamage(`${directory} is missing`);
    return [];
  }
  try {
    return readStoreFiles(directory).tables.map(({ name }) => name);
  } catch (error) {
    onDamage((error as FaultError).message.split(". ")[0] as string);
    return readdirSync(directory).filter((name) => /^\d+\.(ldb|sst)$/.test(name));
  }
}
