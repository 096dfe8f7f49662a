/** Values as they lie in the kv. */
import { checksumBytes, seal, unseal } from "../src/kv/checked-value.ts";

export function sealed(key: string, value: Buffer | string): Buffer {
  const bytes = Buffer.from(value as string);
  const buffer = Buffer.alloc(bytes.length + checksumBytes);
  bytes.copy(buffer);
  seal(key, buffer, bytes.length);
  return buffer;
}

/** What a stored value says. */
export function textOf(
  contents: ReadonlyMap<string, Buffer>,
  key: string,
  encoding: BufferEncoding = "utf8",
): string | undefined {
  const stored = contents.get(key);
  return stored && unseal(key, stored).toString(encoding);
}
