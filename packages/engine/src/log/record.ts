/**
 * The bytes of one record: a header of 64 bytes, the body, zeros up to a multiple of 64.
 *
 * Guarantees that a record whose checksum matches is the one that was written, whole: the checksum
 * covers header and body. The header also holds the start of the SHA-256 of the header before it,
 * and through the checksum in that one its body, so two logs that share a record share everything
 * before it. Numbers are little-endian; 64-bit ones hold safe integers.
 *
 * The last field counts the records directly before this one that were not yet known to be durable
 * when it was written. It tells the reader of a damaged log whether a missing record was lost to a
 * power failure, as it may be, or had been promised to stay. Where every append is synced it is less
 * than the number of appends that may overlap: zero, or one for a record that was written while the
 * one before it was being synced. So at the latest the second record after an acknowledged record shows that
 * the acknowledged record was durable.
 */
import { hash } from "node:crypto";
import { crc32 } from "node:zlib";
import { alignBytes, headerBytes } from "./log.ts";

export interface RecordHeader {
  readonly version: number;
  readonly type: number;
  readonly shard: number;
  readonly opCount: number;
  readonly bodyBytes: number;
  readonly epoch: number;
  readonly index: number;
  /** Eight bytes; `chainStart` for the first record. */
  readonly chain: Buffer;
  readonly writer: number;
  readonly timeMs: number;
  readonly unsyncedBefore: number;
}

export const recordVersion = 1;
export const chainStart: Buffer = Buffer.alloc(8);

/** "cqlg" in the file. */
const magic = 0x676c7163;
const two32 = 0x1_0000_0000;
const noChecksum = Buffer.alloc(4);
const noHeader = Buffer.alloc(headerBytes);

const at = {
  version: 4,
  type: 5,
  shard: 6,
  opCount: 8,
  bodyBytes: 12,
  epoch: 16,
  index: 24,
  chain: 32,
  writer: 40,
  timeMs: 48,
  checksum: 56,
  unsyncedBefore: 60,
} as const;

/** Bytes that a record takes in a segment. */
export function frameBytes(bodyBytes: number): number {
  return Math.ceil((headerBytes + bodyBytes) / alignBytes) * alignBytes;
}

/** Fills in the header and the padding around a body that is already in place. */
export function sealRecord(buffer: Buffer, header: Omit<RecordHeader, "version">): void {
  const end = headerBytes + header.bodyBytes;
  buffer.writeUInt32LE(magic, 0);
  buffer.writeUInt8(recordVersion, at.version);
  buffer.writeUInt8(header.type, at.type);
  buffer.writeUInt16LE(header.shard, at.shard);
  buffer.writeUInt32LE(header.opCount, at.opCount);
  buffer.writeUInt32LE(header.bodyBytes, at.bodyBytes);
  writeUInt64(buffer, header.epoch, at.epoch);
  writeUInt64(buffer, header.index, at.index);
  buffer.set(header.chain, at.chain);
  writeUInt64(buffer, header.writer, at.writer);
  writeUInt64(buffer, header.timeMs, at.timeMs);
  buffer.writeUInt32LE(0, at.checksum);
  buffer.writeUInt32LE(header.unsyncedBefore, at.unsyncedBefore);
  buffer.writeUInt32LE(crc32(buffer.subarray(0, end)), at.checksum);
  buffer.fill(0, end, frameBytes(header.bodyBytes));
}

/** The link that the record after the one with this header carries. */
export function chainAfter(header: Uint8Array): Buffer {
  return hash("sha256", header, "buffer").subarray(0, chainStart.length);
}

export function hasMagic(buffer: Buffer, start: number): boolean {
  return buffer.readUInt32LE(start) === magic;
}

export function isEmptyHeader(buffer: Buffer, start: number): boolean {
  return noHeader.compare(buffer, start, start + headerBytes) === 0;
}

/** Unchecked: needs the magic before it and the checksum after it to mean anything. */
export function readBodyBytes(buffer: Buffer, start: number): number {
  return buffer.readUInt32LE(start + at.bodyBytes);
}

export function checksumMatches(buffer: Buffer, start: number): boolean {
  const end = start + headerBytes + readBodyBytes(buffer, start);
  const front = crc32(buffer.subarray(start, start + at.checksum));
  const rest = buffer.subarray(start + at.unsyncedBefore, end);
  return crc32(rest, crc32(noChecksum, front)) === buffer.readUInt32LE(start + at.checksum);
}

/** The fields of a header whose checksum matched; `chain` is a view of `buffer`. */
export function decodeHeader(buffer: Buffer, start: number): RecordHeader {
  return {
    version: buffer.readUInt8(start + at.version),
    type: buffer.readUInt8(start + at.type),
    shard: buffer.readUInt16LE(start + at.shard),
    opCount: buffer.readUInt32LE(start + at.opCount),
    bodyBytes: readBodyBytes(buffer, start),
    epoch: readUInt64(buffer, start + at.epoch),
    index: readUInt64(buffer, start + at.index),
    chain: buffer.subarray(start + at.chain, start + at.chain + chainStart.length),
    writer: readUInt64(buffer, start + at.writer),
    timeMs: readUInt64(buffer, start + at.timeMs),
    unsyncedBefore: buffer.readUInt32LE(start + at.unsyncedBefore),
  };
}

function writeUInt64(buffer: Buffer, value: number, offset: number): void {
  buffer.writeUInt32LE(value % two32, offset);
  buffer.writeUInt32LE(Math.floor(value / two32), offset + 4);
}

function readUInt64(buffer: Buffer, offset: number): number {
  return buffer.readUInt32LE(offset + 4) * two32 + buffer.readUInt32LE(offset);
}
