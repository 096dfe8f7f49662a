/** Makes the bytes of a record for a slot of a shared log. */
import { headerBytes } from "../log.ts";
import { frameBytes, sealRecord } from "../record.ts";
import type { LogPlace } from "./slot-rules.ts";

export interface StampedRecord {
  readonly type: number;
  readonly shard: number;
  readonly epoch: number;
  readonly writer: number;
  readonly timeMs: number;
  readonly opCount: number;
  readonly body: Uint8Array;
}

/** The record for the slot behind this place. */
export function stamp(record: StampedRecord, behind: LogPlace): Buffer {
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
