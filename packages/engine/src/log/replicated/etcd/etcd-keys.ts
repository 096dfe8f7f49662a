/**
 * The keys of a log in etcd, in their order:
 * - `h`: the last slot that is taken. One compare with it says that a slot is the next one.
 * - `m`: the id of the log. It is written once, so the revision of that write names this log and no later one.
 * - `n`: the last slot of which the other nodes were notified.
 * - `p/<node>`: the last note of a node.
 * - `r/<slot>`: a record.
 */
import type { WireBytes } from "@codeq/protocol/wire";

export interface LogKeys {
  readonly head: string;
  readonly meta: string;
  readonly news: string;
  /** The first key behind the notes. */
  readonly notesEnd: string;
  noteOf(node: string): string;
  isNews(key: WireBytes): boolean;
  isNote(key: WireBytes): boolean;
  recordOf(slot: number): Buffer;
  slotOf(key: WireBytes): number;
  readonly records: string;
  /** The first key behind the records. */
  readonly recordsEnd: string;
}

const slotBytes = 8;

export function keysOf(prefix: string, name: string): LogKeys {
  const base = `${prefix}l/${name}/`;
  const records = `${base}r/`;
  const head = `${base}h`;
  const news = `${base}n`;
  const newsBytes = Buffer.from(news);
  const noteBase = Buffer.from(`${base}p/`);
  const recordBase = Buffer.from(records);
  return {
    head,
    meta: `${base}m`,
    news,
    notesEnd: `${base}q`,
    noteOf: (node) => `${base}p/${node}`,
    isNews: (key) => newsBytes.equals(bytesOf(key)),
    isNote: (key) => noteBase.equals(bytesOf(key).subarray(0, noteBase.length)),
    recordOf: (slot) => Buffer.concat([recordBase, slotValue(slot)]),
    slotOf: (key) => slotIn(bytesOf(key).subarray(recordBase.length)),
    records,
    recordsEnd: `${base}r0`,
  };
}

export function slotValue(slot: number): Buffer {
  const bytes = Buffer.allocUnsafe(slotBytes);
  bytes.writeBigUInt64BE(BigInt(slot));
  return bytes;
}

export function slotIn(value: WireBytes): number {
  return Number(bytesOf(value).readBigUInt64BE());
}

export function bytesOf(value: WireBytes): Buffer {
  if (typeof value === "string") return Buffer.from(value);
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
}
