/** A directory that is only read: files are opened for reading, and nothing is created. */
import { type FileHandle, open, readdir } from "node:fs/promises";
import { join } from "node:path";
import type { ReadableDisk, ReadableFile } from "./disk.ts";

export class ReadOnlyDisk implements ReadableDisk {
  readonly directory: string;

  constructor(directory: string) {
    this.directory = directory;
  }

  async open(name: string): Promise<ReadableFile> {
    return fileOf(await open(join(this.directory, name), "r"));
  }

  async list(): Promise<string[]> {
    const entries = await readdir(this.directory, { withFileTypes: true });
    return entries
      .filter((entry) => entry.isFile())
      .map((entry) => entry.name)
      .sort();
  }
}

function fileOf(handle: FileHandle): ReadableFile {
  return {
    read: async (position, length, given) => {
      const into = given?.subarray(0, length) ?? Buffer.allocUnsafe(length);
      let filled = 0;
      while (filled < length) {
        const at = position + filled;
        const { bytesRead } = await handle.read(into, filled, length - filled, at);
        if (bytesRead === 0) break;
        filled += bytesRead;
      }
      return into.subarray(0, filled);
    },
    size: async () => (await handle.stat()).size,
    close: () => handle.close(),
  };
}
