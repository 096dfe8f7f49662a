/**
 * A value in the kv ends with a checksum of itself and its key, so that bytes that changed on the disk,
 * or belong to another key, are never taken for what was written.
 */
import { FaultError } from "../fault.ts";
import { crc32c } from "./crc32c.ts";

export const checksumBytes = 4;

/** Writes the checksum behind a value that lies at the start of the buffer; returns where that ends. */
export function seal(key: string, buffer: Buffer, end: number): number {
  const checksum = crc32c(buffer, 0, end, seedOf(key));
  buffer[end] = checksum;
  buffer[end + 1] = checksum >>> 8;
  buffer[end + 2] = checksum >>> 16;
  buffer[end + 3] = checksum >>> 24;
  return end + checksumBytes;
}

/** Where the value ends in the stored bytes; undefined when the checksum does not match key and value. */
export function sealedEnd(key: string, stored: Buffer): number | undefined {
  const end = stored.length - checksumBytes;
  if (end < 0) return undefined;
  const checksum = crc32c(stored, 0, end, seedOf(key));
  const isWhole =
    stored[end] === (checksum & 0xff) &&
    stored[end + 1] === ((checksum >>> 8) & 0xff) &&
    stored[end + 2] === ((checksum >>> 16) & 0xff) &&
    stored[end + 3] === checksum >>> 24;
  return isWhole ? end : undefined;
}

/** The value without its checksum. */
export function unseal(key: string, stored: Buffer): Buffer {
  const end = sealedEnd(key, stored);
  if (end === undefined) throw damagedValue(key);
  return stored.subarray(0, end);
}

function damagedValue(key: string): FaultError {
  return new FaultError("corrupt", `the value of ${key} is damaged on the disk`);
}

/** A cheap hash: it only has to differ for different keys, the checksum does the rest. */
function seedOf(key: string): number {
  let hash = -1;
  for (let at = 0; at < key.length; at++) hash = Math.imul(hash ^ key.charCodeAt(at), 0x01000193);
  return hash;
}
