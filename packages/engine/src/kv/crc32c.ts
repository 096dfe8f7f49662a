/** CRC-32C (Castagnoli), the checksum in the files of LevelDB; zlib has only the other polynomial. */
const polynomial = 0x82f63b78;
const slices = 8;

/** Eight tables one after the other, so that eight bytes take one step. */
const tables: Int32Array = makeTables();

function makeTables(): Int32Array {
  const all = new Int32Array(256 * slices);
  for (let byte = 0; byte < 256; byte++) {
    let crc = byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ polynomial : crc >>> 1;
    all[byte] = crc;
  }
  for (let at = 256; at < all.length; at++) {
    const before = all[at - 256] as number;
    all[at] = (before >>> 8) ^ (all[before & 0xff] as number);
  }
  return all;
}

/** The checksum of the bytes from `start` to `end`, unsigned; another seed gives another checksum. */
export function crc32c(bytes: Uint8Array, start: number, end: number, seed = -1): number {
  const t = tables;
  let crc = seed;
  let at = start;
  for (const last = end - slices; at <= last; at += slices) {
    const low =
      crc ^
      ((bytes[at] as number) |
        ((bytes[at + 1] as number) << 8) |
        ((bytes[at + 2] as number) << 16) |
        ((bytes[at + 3] as number) << 24));
    crc =
      (t[1792 + (low & 0xff)] as number) ^
      (t[1536 + ((low >>> 8) & 0xff)] as number) ^
      (t[1280 + ((low >>> 16) & 0xff)] as number) ^
      (t[1024 + (low >>> 24)] as number) ^
      (t[768 + (bytes[at + 4] as number)] as number) ^
      (t[512 + (bytes[at + 5] as number)] as number) ^
      (t[256 + (bytes[at + 6] as number)] as number) ^
      (t[bytes[at + 7] as number] as number);
  }
  for (; at < end; at++) {
    crc = (crc >>> 8) ^ (t[(crc ^ (bytes[at] as number)) & 0xff] as number);
  }
  return ~crc >>> 0;
}

/** The form that LevelDB stores: masked, because checksums of bytes that contain checksums are weak. */
export function maskedCrc32c(bytes: Uint8Array, start: number, end: number): number {
  const crc = crc32c(bytes, start, end);
  return (((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0;
}
