/**
 * Brings a closed generation of the overlay into the kv: its net effect, the index keys, what the
 * store derives from it, and the log position reached, as one batch. The kv is therefore always exactly
 * the state after some log record, and never ahead of what the log itself has made durable. The log is
 * trimmed as far as the kv is durable, which may be less than it was given.
 *
 * Values end with a checksum, except those of index keys, which repeat what is in the row.
 *
 * Rows become bytes here. The batch is made in pieces, so that a large generation does not block the event loop.
 */
import { FaultError } from "./fault.ts";
import { checksumBytes, seal, unseal } from "./kv/checked-value.ts";
import type { Kv, KvBatch, KvWrite } from "./kv/kv.ts";
import type { Log } from "./log/log.ts";
import type { Overlay, Unflushed } from "./overlay.ts";
import { type Row, type RowCodec, writeIndexKeys } from "./row-codec.ts";

export const positionKey = "codeq/meta/position";
/** Writes in one turn of the event loop: less than a millisecond of work. */
const pieceWritesMin = 200;
const scratchBytes = 64 * 1024;
/** The kv is made durable when the log, in whole segments, has grown to this size. */
const logBytesMax = 160 * 1024 * 1024;

/** Keys the store keeps in step with the others, such as counters; computed once per flush. */
export type Derive = (
  unflushed: Unflushed,
  get: (key: string) => Buffer | undefined,
) => readonly KvWrite[];

/** The index of the log record up to which the kv holds everything; 0 for an empty one. */
export function readPosition(kv: Kv): number {
  return storedPosition(kv)?.index ?? 0;
}

/** Where in a shared log that record is, as the log wrote it; undefined for an empty kv. */
export function readLogPosition(kv: Kv): string | undefined {
  return storedPosition(kv)?.position;
}

/** Throws when the kv was written from the log of another store. */
export function assertSameStore(kv: Kv, storeId: number | undefined): void {
  const stored = storedPosition(kv);
  if (storeId === undefined || stored === undefined || stored.storeId === storeId) return;
  throw new FaultError(
    "corrupt",
    `the log belongs to store ${storeId} and the key-value store to ${stored.storeId}. ` +
      "Restore the whole data directory (kv and log together) from one backup.",
  );
}

/** The id of the log that a kv was written from; undefined when nothing was written. */
export function readStoreId(kv: Kv): number | undefined {
  return storedPosition(kv)?.storeId;
}

interface StoredPosition {
  readonly index: number;
  readonly storeId: number;
  readonly position: string | undefined;
}

function storedPosition(kv: Kv): StoredPosition | undefined {
  const stored = kv.get(positionKey);
  if (stored === undefined) return undefined;
  const [index, storeId, position] = unseal(positionKey, stored).toString("latin1").split(" ");
  return { index: Number(index), storeId: Number(storeId ?? 0), position };
}

/** What is in the log up to an index and not in the kv yet. */
export interface Generation {
  readonly overlay: Overlay;
  readonly throughIndex: number;
}

/** The methods of the log that a flush uses. */
export type FlushedLog = Pick<Log, "sync" | "trim" | "bytes" | "positionOf">;

export interface FlushParts {
  readonly kv: Kv;
  readonly log: FlushedLog;
  readonly rows: RowCodec;
  readonly derive: Derive;
  /** Runs a function after what arrived in the same turn. */
  readonly defer: (run: () => void) => void;
  readonly flushBytes: number;
  /** The id of the store that log and kv belong to; undefined when they cannot be mixed up. */
  readonly storeId?: number | undefined;
  /** The log has to be kept from this record on, for example for a backup. */
  readonly keepLogFrom?: (() => number) | undefined;
  /** Bytes that were committed since the generation was closed. */
  readonly activeBytes: () => number;
}

export async function flush(generation: Generation, into: FlushParts): Promise<void> {
  const { overlay, throughIndex } = generation;
  const { kv, log } = into;
  await log.sync();
  // A kv may have kept a batch that it reported as failed; derived counts must not be added twice.
  if (readPosition(kv) < throughIndex) {
    const { rows, entries } = overlay;
    const derived = into.derive({ rows: rows.values(), entries }, (key) => {
      const stored = kv.get(key);
      return stored && unseal(key, stored);
    });
    const batch = kv.batch();
    try {
      const sealed = new SealedWrites(batch);
      await addNetEffect(sealed, overlay, into);
      for (const write of derived) sealed.add(write.key, write.value);
      const position = log.positionOf === undefined ? "" : ` ${log.positionOf(throughIndex)}`;
      const value = `${throughIndex} ${into.storeId ?? 0}${position}`;
      sealed.add(positionKey, Buffer.from(value, "latin1"));
    } catch (error) {
      await batch.close();
      throw error;
    }
    // A kv with files of its own is not durable after a synced batch; see `KvFiles`.
    await batch.write({ sync: kv.files === undefined });
  }
  if (kv.files === undefined) {
    await trim(into, throughIndex + 1);
    return;
  }
  await trim(into, (await kv.files.noteWritten(throughIndex)) + 1);
  if (log.bytes > logBytesMax) await trimAll(into);
}

/** Trims all of the log that the kv holds, as far as there is room to make the kv durable. */
export async function trimAll(of: TrimParts & Pick<FlushParts, "kv">): Promise<void> {
  const { files } = of.kv;
  if (files !== undefined) await trim(of, (await files.makeDurable()) + 1);
}

/** Puts values with their checksums into a batch. */
class SealedWrites {
  readonly batch: KvBatch;
  #scratch: Buffer = Buffer.allocUnsafeSlow(scratchBytes);

  constructor(batch: KvBatch) {
    this.batch = batch;
  }

  row(key: string, row: Row, codec: RowCodec): void {
    const scratch = this.#scratchOf(codec.bytesMaxOf(row, undefined));
    const end = codec.write(scratch, 0, row, undefined);
    this.batch.put(key, scratch.subarray(0, seal(key, scratch, end)));
  }

  add(key: string, value: Buffer | undefined): void {
    if (value === undefined) {
      this.batch.del(key);
      return;
    }
    const scratch = this.#scratchOf(value.length);
    value.copy(scratch);
    this.batch.put(key, scratch.subarray(0, seal(key, scratch, value.length)));
  }

  #scratchOf(bytes: number): Buffer {
    const needed = bytes + checksumBytes;
    if (needed > this.#scratch.length) this.#scratch = Buffer.allocUnsafeSlow(needed * 2);
    return this.#scratch;
  }
}

async function addNetEffect(
  writes: SealedWrites,
  overlay: Overlay,
  into: FlushParts,
): Promise<void> {
  const codec = into.rows;
  const { batch } = writes;
  let left = pieceWrites(into);
  for (const entry of overlay.rows.values()) {
    const { row } = entry;
    const key = codec.prefix + codec.idOf((row ?? entry.below) as Row);
    if (row === undefined) batch.del(key);
    else writes.row(key, row, codec);
    left -= 1 + writeIndexKeys(batch, entry, codec);
    if (left <= 0) {
      await nextTurn(into);
      left = pieceWrites(into);
    }
  }
  for (const [key, entry] of overlay.entries) {
    writes.add(key, entry.value);
    left -= 1;
    if (left <= 0) {
      await nextTurn(into);
      left = pieceWrites(into);
    }
  }
}

/** Grows with what was committed meanwhile, so that a busy event loop does not stall the flush. */
function pieceWrites({ activeBytes, flushBytes }: FlushParts): number {
  return pieceWritesMin * (1 + (8 * activeBytes()) / flushBytes);
}

function nextTurn({ defer }: FlushParts): Promise<void> {
  return new Promise(defer);
}

type TrimParts = Pick<FlushParts, "log" | "keepLogFrom">;

async function trim({ log, keepLogFrom }: TrimParts, index: number): Promise<void> {
  try {
    await log.trim(Math.min(index, keepLogFrom?.() ?? index));
  } catch (error) {
    // Nothing depends on the removal; the next flush trims again.
    if ((error as FaultError).code !== "disk_full") throw error;
  }
}
