/**
 * The meaning of a record in a slot: the rule by which every replica reads the shared log, the leader
 * included. It is a function of the position before the slot and the bytes in it, so that all replicas come
 * to the same state.
 *
 * Compare-and-append alone does not fence a leader: a record that it sent before it was deposed can land
 * behind the takeover of the next leader. Such a record is dead on every replica: it was never acknowledged.
 */
import { headerBytes, recordTypes } from "../log.ts";
import {
  chainAfter,
  chainStart,
  checksumMatches,
  decodeHeader,
  frameBytes,
  hasMagic,
  type RecordHeader,
  readBodyBytes,
  sealRecord,
} from "../record.ts";
import { sharedRecordTypes } from "./shared-log.ts";

/** The position of a replica in the log: after a slot. */
export interface LogPosition {
  readonly slot: number;
  readonly epoch: number;
  /** Who leads the epoch; 0 before the first takeover. */
  readonly writer: number;
  /** The chain value of the record in the slot, which the next record has to carry. */
  readonly chain: Buffer;
  /** How many live records of batches there are up to here: the engine's index. */
  readonly index: number;
}

export type Meaning =
  /** A record of the current leader, which has to be applied. */
  | { readonly kind: "live"; readonly header: RecordHeader; readonly body: Buffer }
  /** A record of a deposed leader, which is skipped. */
  | { readonly kind: "dead" }
  /** The log is not the one that was read so far, or lost some of it. */
  | { readonly kind: "diverged"; readonly why: string };

export interface SlotReading {
  readonly meaning: Meaning;
  /** The position after the slot; unchanged for a diverged log. */
  readonly position: LogPosition;
}

export const firstPosition: LogPosition = {
  slot: 0,
  epoch: 0,
  writer: 0,
  chain: chainStart,
  index: 0,
};

export function readSlot(before: LogPosition, bytes: Uint8Array): SlotReading {
  const record = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const slot = before.slot + 1;
  if (!isWhole(record)) return diverged(before, `slot ${slot} does not hold a whole record`);
  const header = decodeHeader(record, 0);
  const meaning = meaningOf(before, header, record);
  if (meaning.kind === "diverged") return { meaning, position: before };
  // The chain also continues after a dead record, because the log contains it.
  const position = { ...before, slot, chain: chainAfter(record.subarray(0, headerBytes)) };
  if (meaning.kind === "dead") return { meaning, position };
  const { epoch, writer } = header;
  const index = before.index + (header.type === recordTypes.batches ? 1 : 0);
  return { meaning, position: { ...position, epoch, writer, index } };
}

function meaningOf(before: LogPosition, header: RecordHeader, record: Buffer): Meaning {
  const slot = before.slot + 1;
  const isTakeover = header.type === sharedRecordTypes.takeover;
  const isNext = header.index === slot && header.chain.equals(before.chain);
  if (!isNext && isTakeover) {
    return { kind: "diverged", why: `the takeover in slot ${slot} follows another log` };
  }
  const epochMax = before.epoch + (isTakeover ? 1 : 0);
  if (header.epoch > epochMax) {
    const why = `slot ${slot} is of epoch ${header.epoch}, and the log is in ${before.epoch}`;
    return { kind: "diverged", why };
  }
  const isOfLeader = isTakeover || header.writer === before.writer;
  if (!isNext || header.epoch < epochMax || !isOfLeader) return { kind: "dead" };
  return { kind: "live", header, body: record.subarray(headerBytes) };
}

function isWhole(record: Buffer): boolean {
  return (
    record.length >= headerBytes &&
    hasMagic(record, 0) &&
    record.length === headerBytes + readBodyBytes(record, 0) &&
    checksumMatches(record, 0)
  );
}

function diverged(position: LogPosition, why: string): SlotReading {
  return { meaning: { kind: "diverged", why }, position };
}

/** How many records between two positions have changed nothing: takeovers, heartbeats and dead records. */
export function quietSlots(from: LogPosition, to: LogPosition): number {
  return to.slot - from.slot - (to.index - from.index);
}

/** A position as text, to be kept with the position of the store; the index is kept beside it. */
export function positionText({ slot, epoch, writer, chain }: LogPosition): string {
  return `${slot}.${epoch}.${writer}.${chain.toString("hex")}`;
}

/** Undefined when the text is not a position. */
export function parsePosition(text: string, index: number): LogPosition | undefined {
  const found = /^(\d+)\.(\d+)\.(\d+)\.([0-9a-f]{16})$/.exec(text);
  if (found === null) return undefined;
  const [, slot, epoch, writer, chain] = found;
  return {
    slot: Number(slot),
    epoch: Number(epoch),
    writer: Number(writer),
    chain: Buffer.from(chain as string, "hex"),
    index,
  };
}

export interface StampedRecord {
  readonly type: number;
  readonly shard: number;
  readonly epoch: number;
  readonly writer: number;
  readonly timeMs: number;
  readonly opCount: number;
  readonly body: Uint8Array;
}

/** The bytes of a record for the slot behind this position. */
export function stamp(record: StampedRecord, behind: LogPosition): Buffer {
  const { body } = record;
  const buffer = Buffer.allocUnsafe(frameBytes(body.length));
  buffer.set(body, headerBytes);
  sealRecord(buffer, {
    ...record,
    bodyBytes: body.length,
    index: behind.slot + 1,
    chain: behind.chain,
    unsyncedBefore: 0,
  });
  return buffer.subarray(0, headerBytes + body.length);
}
