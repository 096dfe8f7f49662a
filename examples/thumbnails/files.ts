/** Where images and thumbnails are. In production this would be an object store. */
import { mkdir, rename, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";

export const defaultDirectory: string = resolve(process.env["THUMBNAILS_DIR"] ?? "files");

export function imagePath(directory: string, image: string): string {
  return join(directory, `${image}.png`);
}

/**
 * The file appears whole or not at all, however often and from wherever it is written. `writer` is
 * something that no other writer has, so that two never share an unfinished file.
 */
export async function writeWhole(path: string, bytes: Uint8Array, writer: string): Promise<void> {
  const unfinished = `${path}.${writer}.part`;
  await mkdir(dirname(path), { recursive: true });
  await writeFile(unfinished, bytes, { flush: true });
  await rename(unfinished, path);
}
