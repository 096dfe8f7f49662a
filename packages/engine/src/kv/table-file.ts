/**
 * Checks one table of LevelDB, because LevelDB does not: every block has the checksum it
 * was written with, blocks and footer cover the file without a gap, and the table is the one that the
 * manifest names, by size and by its first and last key.
 *
 *   table  = data blocks, filter block if any, metaindex block, index block, footer
 *   block  = contents, kind u8, checksum u32
 *   footer = handles of metaindex and index, zeros, magic
 */
import { readFileSync } from "node:fs";
import { maskedCrc32c } from "./crc32c.ts";
import { EditReader, type LiveTable } from "./manifest.ts";
import { uncompress } from "./snappy.ts";

const footerBytes = 48;
const magicBytes = 8;
const magic = Buffer.from("57fb808b247547db", "hex");
const trailerBytes = 5;
const compressions = { none: 0, snappy: 1 } as const;

interface Handle {
  readonly offset: number;
  readonly bytes: number;
}

/** Undefined when the table is whole; else what is wrong with it and where. */
export function checkTable(path: string, table: Omit<LiveTable, "name">): string | undefined {
  const file = readFileSync(path);
  if (file.length !== table.bytes) {
    return `has ${file.length} bytes instead of ${table.bytes}`;
  }
  try {
    checkBlocks(file, table);
    return undefined;
  } catch (error) {
    if (error instanceof Finding) return error.message;
    if (error instanceof RangeError) return "has an index that cannot be read";
    throw error;
  }
}

/**
 * The entries of all undamaged blocks, in order; `onDamage` is called for skipped parts. Keys are internal keys.
 * An entry is valid until the next one is read.
 */
export function* soundEntries(
  path: string,
  onDamage: (what: string) => void,
): Generator<{ readonly key: Buffer; readonly value: Buffer }, void, void> {
  const file = readFileSync(path);
  for (const handle of orReport(() => dataHandles(file), onDamage) ?? []) {
    yield* orReport(() => [...entriesOf(contentsOf(file, handle))], onDamage) ?? [];
  }
}

/** Undefined when the bytes are damaged. */
function orReport<Value>(read: () => Value, onDamage: (what: string) => void): Value | undefined {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof Finding || error instanceof RangeError)) throw error;
    onDamage(error instanceof Finding ? error.message : "has a block that cannot be read");
    return undefined;
  }
}

class Finding extends Error {}

function dataHandles(file: Buffer): Handle[] {
  const footerAt = file.length - footerBytes;
  if (footerAt < 0 || !file.subarray(-magicBytes).equals(magic)) {
    throw new Finding("has no footer");
  }
  const footer = new EditReader(file.subarray(footerAt, file.length - magicBytes));
  handleIn(footer);
  const index = handleIn(footer);
  return [...entriesOf(contentsOf(file, index))].map(({ value }) =>
    handleIn(new EditReader(value)),
  );
}

function checkBlocks(file: Buffer, table: Omit<LiveTable, "name">): void {
  const footerAt = file.length - footerBytes;
  if (footerAt < 0 || !file.subarray(-magicBytes).equals(magic)) {
    throw new Finding(`has no footer at offset ${footerAt}`);
  }
  const footer = new EditReader(file.subarray(footerAt, file.length - magicBytes));
  const [metaindex, index] = [handleIn(footer), handleIn(footer)];
  if (!footer.restIsZero) throw new Finding(`has a damaged footer at offset ${footerAt}`);
  const data: Handle[] = [];
  for (const { value } of entriesOf(contentsOf(file, index))) {
    data.push(handleIn(new EditReader(value)));
  }
  const meta: Handle[] = [];
  for (const { value } of entriesOf(contentsOf(file, metaindex))) {
    meta.push(handleIn(new EditReader(value)));
  }
  let end = 0;
  for (const handle of [...data, ...meta, metaindex, index]) {
    if (handle.offset !== end) throw new Finding(`has a gap at offset ${end}`);
    checkBlock(file, handle);
    end = handle.offset + handle.bytes + trailerBytes;
  }
  if (end !== footerAt) throw new Finding(`has a gap at offset ${end}`);
  checkEnds(file, data, table);
}

function checkEnds(file: Buffer, data: readonly Handle[], table: Omit<LiveTable, "name">): void {
  const [first, last] = [data[0], data.at(-1)];
  if (first === undefined || last === undefined) throw new Finding("has no data");
  const [smallest] = entriesOf(contentsOf(file, first));
  let largest: Buffer = Buffer.alloc(0);
  for (const { key } of entriesOf(contentsOf(file, last))) largest = key;
  if (!smallest?.key.equals(table.smallest) || !largest.equals(table.largest)) {
    throw new Finding("is another table than the one that was written under this name");
  }
}

function handleIn(reader: EditReader): Handle {
  return { offset: reader.number(), bytes: reader.number() };
}

function checkBlock(file: Buffer, { offset, bytes }: Handle): void {
  const end = offset + bytes + 1;
  if (end + 4 > file.length) throw new Finding(`has a block that is cut off at offset ${offset}`);
  if (maskedCrc32c(file, offset, end) !== file.readUInt32LE(end)) {
    throw new Finding(`has a block with a wrong checksum at offset ${offset}`);
  }
}

function contentsOf(file: Buffer, handle: Handle): Buffer {
  checkBlock(file, handle);
  const end = handle.offset + handle.bytes;
  const bytes = file.subarray(handle.offset, end);
  if (file[end] === compressions.none) return bytes;
  const contents = file[end] === compressions.snappy ? uncompress(bytes) : undefined;
  if (contents !== undefined) return contents;
  throw new Finding(`has a block that cannot be uncompressed at offset ${handle.offset}`);
}

/** A key shares a prefix with the key before; the restart points follow after the entries. */
function* entriesOf(block: Buffer): Generator<{ key: Buffer; value: Buffer }, void, void> {
  const restarts = block.readUInt32LE(block.length - 4);
  const end = block.length - 4 * (restarts + 1);
  if (end < 0) throw new RangeError("restarts");
  const reader = new EditReader(block.subarray(0, end));
  let key = Buffer.alloc(0);
  while (!reader.isAtEnd) {
    const [shared, rest, length] = [reader.number(), reader.number(), reader.number()];
    if (shared > key.length) throw new RangeError("shared");
    key = Buffer.concat([key.subarray(0, shared), reader.take(rest)]);
    yield { key, value: reader.take(length) };
  }
}
