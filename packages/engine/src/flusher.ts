/**
 * Brings a closed generation of the overlay into the kv: its net effect, the index keys, what the
 * store derives from it, and the log position reached, as one durable batch. The kv is therefore
 * always exactly the state after some log record, and never ahead of what the log itself has made
 * durable.
 *
 * Rows become bytes here. The batch is made in pieces, so that a large generation does not hold up
 * what else is to be done.
 */
import type { FaultError } from "./fault.ts";
import { writeIndexKeys } from "./index-keys.ts";
import type { Kv, KvBatch, KvWrite } from "./kv/kv.ts";
import type { Log } from "./log/log.ts";
import type { Overlay, Unflushed } from "./overlay.ts";
import type { Row, RowCodec } from "./row-codec.ts";

const positionKey = "codeq/meta/position";
/** Writes that are made in one turn: less than a millisecond of work. */
const pieceWritesMin = 200;
const scratchBytes = 64 * 1024;

/** Keys the store keeps in step with the others, such as counters; computed once per flush. */
export type Derive = (
  unflushed: Unflushed,
  get: (key: string) => Buffer | undefined,
) => readonly KvWrite[];

export function readPosition(kv: Kv): number {
  const stored = kv.get(positionKey);
  return stored === undefined ? 0 : Number(stored.toString("latin1"));
}

/** What is in the log up to an index and not in the kv yet. */
export interface Generation {
  readonly overlay: Overlay;
  readonly throughIndex: number;
}

export interface FlushParts {
  readonly kv: Kv;
  readonly log: Log;
  readonly rows: RowCodec;
  readonly derive: Derive;
  /** Runs a function after what arrived in the same turn. */
  readonly defer: (run: () => void) => void;
  readonly flushBytes: number;
  /** How much has come since the generation was closed. */
  readonly activeBytes: () => number;
}

export async function flush(generation: Generation, into: FlushParts): Promise<void> {
  const { overlay, throughIndex } = generation;
  await into.log.sync();
  // A kv may have kept a batch that it reported as failed; what is derived must not be added twice.
  if (readPosition(into.kv) < throughIndex) {
    const { rows, entries } = overlay;
    const derived = into.derive({ rows: rows.values(), entries }, (key) => into.kv.get(key));
    const batch = into.kv.batch();
    try {
      await addNetEffect(batch, overlay, into);
      for (const write of derived) add(batch, write.key, write.value);
      batch.put(positionKey, Buffer.from(String(throughIndex), "latin1"));
    } catch (error) {
      await batch.close();
      throw error;
    }
    await batch.write({ sync: true });
  }
  await trim(into.log, throughIndex + 1);
}

async function addNetEffect(batch: KvBatch, overlay: Overlay, into: FlushParts): Promise<void> {
  const codec = into.rows;
  let scratch = Buffer.allocUnsafeSlow(scratchBytes);
  let left = pieceWrites(into);
  for (const entry of overlay.rows.values()) {
    const { row } = entry;
    const key = codec.prefix + codec.idOf((row ?? entry.below) as Row);
    if (row === undefined) {
      batch.del(key);
    } else {
      const room = codec.roomOf(row, undefined);
      if (room > scratch.length) scratch = Buffer.allocUnsafeSlow(room * 2);
      batch.put(key, scratch.subarray(0, codec.write(scratch, 0, row, undefined)));
    }
    left -= 1 + writeIndexKeys(batch, entry, codec);
    if (left <= 0) {
      await nextTurn(into);
      left = pieceWrites(into);
    }
  }
  for (const [key, entry] of overlay.entries) {
    add(batch, key, entry.value);
    left -= 1;
    if (left <= 0) {
      await nextTurn(into);
      left = pieceWrites(into);
    }
  }
}

/** More, the more has come meanwhile, so that turns full of other work do not hold up the flush. */
function pieceWrites({ activeBytes, flushBytes }: FlushParts): number {
  return pieceWritesMin * (1 + (8 * activeBytes()) / flushBytes);
}

function add(batch: KvBatch, key: string, value: Buffer | undefined): void {
  if (value === undefined) batch.del(key);
  else batch.put(key, value);
}

function nextTurn({ defer }: FlushParts): Promise<void> {
  return new Promise(defer);
}

async function trim(log: Log, index: number): Promise<void> {
  try {
    await log.trim(index);
  } catch (error) {
    // Nothing depends on what is not needed any more being gone; the next flush removes it, too.
    if ((error as FaultError).code !== "disk_full") throw error;
  }
}
