/**
 * What the log holds from a record on, as an overlay. A change of a row is applied to the row that
 * the overlay has, or else the kv; a record that does not fit what is there is damage, and never a guess.
 */
import { type DecodedOp, decodeBody, opKinds } from "./batch-codec.ts";
import { FaultError } from "./fault.ts";
import type { Generation } from "./flusher.ts";
import { sealedEnd } from "./kv/checked-value.ts";
import type { Kv } from "./kv/kv.ts";
import type { Log, LogRecord } from "./log/log.ts";
import { Overlay, type RowEntry } from "./overlay.ts";
import type { Row, RowChange, RowCodec } from "./row-codec.ts";

interface ReplayParts extends ApplyParts {
  readonly log: Log;
}

export interface ApplyParts {
  /** The kv as it was before the record. */
  readonly kv: Kv;
  readonly rows: RowCodec;
}

/** Takes what was read so far, so that a long log need not be held in memory. */
export interface ReplayPieces {
  readonly bytesMax: number;
  /** Brings the piece into the kv; false when that is not possible, and memory has to hold it. */
  flush(piece: Generation): Promise<boolean>;
}

export async function replay(
  parts: ReplayParts,
  fromIndex: number,
  pieces?: ReplayPieces,
): Promise<Overlay> {
  const { firstIndex, lastIndex } = parts.log;
  if (lastIndex < fromIndex - 1 || firstIndex > fromIndex) {
    throw corrupt(
      `the log holds records ${firstIndex} to ${lastIndex} but the store was written up ` +
        `to ${fromIndex - 1}; log and store do not belong together. Restore both from one backup.`,
    );
  }
  let overlay = new Overlay();
  let bytesMax = pieces?.bytesMax ?? Number.POSITIVE_INFINITY;
  for await (const record of parts.log.readFrom(fromIndex)) {
    applyRecord(record, overlay, parts);
    if (overlay.bytes < bytesMax) continue;
    const isFlushed = await pieces?.flush({ overlay, throughIndex: record.index });
    if (isFlushed === true) overlay = new Overlay();
    else bytesMax = Number.POSITIVE_INFINITY;
  }
  return overlay;
}

type AppliedRecord = Pick<LogRecord, "index" | "body" | "opCount">;

/** Throws `corrupt`, with the index of the record, when it does not fit what is there. */
export function applyRecord(record: AppliedRecord, overlay: Overlay, parts: ApplyParts): void {
  try {
    apply(record, overlay, parts);
  } catch (error) {
    if (!(error instanceof FaultError)) throw error;
    throw new FaultError(error.code, `log record ${record.index}: ${error.message}`, error);
  }
}

function apply(record: AppliedRecord, overlay: Overlay, parts: ApplyParts): void {
  const { index, body, opCount } = record;
  let count = 0;
  // The body is only valid until the next record; the overlay refers to it.
  for (const op of decodeBody(Buffer.from(body))) {
    const { kind, key, value } = op;
    count += 1;
    if (kind === opKinds.put || kind === opKinds.create || kind === opKinds.delete) {
      if (key.startsWith(parts.rows.prefix)) throw corrupt(`${key} is not written as a row`);
      overlay.apply({ kind, key }, value, index);
    } else {
      overlay.change(key, changeOf(op, overlay, parts), index);
      overlay.logged(value.end - value.start);
    }
  }
  if (count !== opCount) throw corrupt(`it has ${count} ops instead of ${opCount}`);
}

/** The change of a row that the op describes. */
function changeOf(op: DecodedOp, overlay: Overlay, parts: ApplyParts): RowChange {
  const { kind, key: id, value } = op;
  const entry = overlay.rows.get(id);
  if (kind === opKinds.rowCreated && entry?.row !== undefined) {
    throw corrupt(`row ${id} is created though it is there`);
  }
  const before = kind === opKinds.rowCreated ? undefined : (entry?.row ?? stored(id, entry, parts));
  if (kind === opKinds.rowDeleted) return { before, after: undefined };
  const after = parts.rows.read(value.buffer, value.start, value.end, id, before);
  if (after === undefined) throw corrupt(`row ${id} cannot be read`);
  return { before, after };
}

/** The row in the kv, unless the overlay has deleted it. */
function stored(id: string, entry: RowEntry | undefined, { kv, rows }: ApplyParts): Row {
  const key = rows.prefix + id;
  const bytes = entry === undefined ? kv.get(key) : undefined;
  if (bytes === undefined) throw corrupt(`row ${id} is changed though it is not there`);
  const end = sealedEnd(key, bytes);
  const row = end === undefined ? undefined : rows.read(bytes, 0, end, id, undefined);
  if (row === undefined) throw corrupt(`row ${id} is changed and cannot be read in the store`);
  return row;
}

function corrupt(text: string): FaultError {
  return new FaultError("corrupt", text);
}
