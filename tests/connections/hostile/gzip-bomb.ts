import { gzipSync } from "node:zlib";

const partBytes = 64 * 1024 * 1024;
const parts = 16;

/** About one MiB that would be one GiB: files of this format may be put one behind the other. */
export function gzipBomb(): Buffer {
  const part = gzipSync(Buffer.alloc(partBytes));
  return Buffer.concat(Array.from({ length: parts }, () => part));
}
