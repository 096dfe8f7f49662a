/**
 * A backup in one file: backups of all stores one after the other, and behind them what was added later. Each
 * says itself which store it is of, and where it begins and ends.
 */
import { createReadStream } from "node:fs";
import { type BackupFile, type BackupSection, FaultError, readSections } from "@codeq/engine";

export interface ReadContainer {
  readonly sections: readonly BackupSection[];
  /** Bytes up to the end of the last complete one, and those behind it. */
  readonly bytes: number;
  readonly unfinishedBytes: number;
}

/** Throws when something in it is damaged. */
export async function readContainer(path: string): Promise<ReadContainer> {
  const sections: BackupSection[] = [];
  const reading = readSections(createReadStream(path) as AsyncIterable<Buffer>, path);
  for (;;) {
    const next = await reading.next();
    if (next.done === true) {
      const last = sections.at(-1);
      const bytes = last === undefined ? 0 : last.start + last.bytes;
      return { sections, bytes, unfinishedBytes: next.value };
    }
    sections.push(next.value);
  }
}

/** What a restore of each store reads, the store of everything else first. */
export async function storesInFile(path: string): Promise<Map<string, readonly BackupFile[]>> {
  const { sections, bytes, unfinishedBytes } = await readContainer(path);
  if (unfinishedBytes > 0) {
    throw new FaultError(
      "corrupt",
      `${path} is not complete: its last ${unfinishedBytes} bytes are an unfinished backup. ` +
        `Write the backup again, or cut the file to ${bytes} bytes to use what is before`,
    );
  }
  const stores = new Map<string, readonly BackupFile[]>();
  const names = [...new Set(sections.map(({ head }) => head.store))].sort();
  for (const name of names) {
    const own = sections.filter(({ head }) => head.store === name);
    const full = own.findLastIndex(({ head }) => head.kind === "full");
    stores.set(
      name,
      own.slice(Math.max(full, 0)).map((section) => fileOf(path, section)),
    );
  }
  return stores;
}

function fileOf(path: string, { start, bytes, head }: BackupSection): BackupFile {
  const end = start + bytes - 1;
  return {
    name: `${path} (${head.store} from byte ${start} on)`,
    read: () => createReadStream(path, { start, end }) as AsyncIterable<Buffer>,
  };
}
