/**
 * Stores a backup that a server sends: in one file, or in a folder with a file for each store. What is there
 * already is continued. Nothing that is there is touched before everything has arrived and was found sound.
 */
import { createReadStream, existsSync, statSync } from "node:fs";
import { mkdir, open, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type BackupPosition, type BackupSection, FaultError } from "@codeq/engine";
import { readContainer } from "./backup-container.ts";
import { lastPosition, nextName, storeNames } from "./write-backup.ts";

export type BackupPositions = Readonly<Record<string, BackupPosition & { identity: number }>>;

export interface ReceivedBackup {
  readonly files: readonly {
    readonly store: string;
    readonly kind: "full" | "log";
    readonly items: number;
    readonly bytes: number;
  }[];
}

/** A path that is not there yet means a file, unless it ends with a slash. */
function isFolder(to: string): boolean {
  return existsSync(to) ? statSync(to).isDirectory() : /[/\\]$/.test(to);
}

/** Up to where each store of the backup reaches; none when there is no backup yet. */
export async function positionsIn(to: string): Promise<BackupPositions> {
  const positions: Record<string, BackupPosition & { identity: number }> = {};
  if (!existsSync(to)) return positions;
  if (isFolder(to)) {
    for (const store of await storeNames(to)) {
      const last = await lastPosition(join(to, store));
      if (last !== undefined) positions[store] = last;
    }
    return positions;
  }
  const { sections } = await readContainer(to);
  for (const { head, end } of sections) {
    positions[head.store] = { identity: head.identity, index: end.index };
  }
  return positions;
}

export async function receiveBackup(parts: {
  readonly to: string;
  readonly pieces: AsyncIterable<Buffer>;
  /** Instead of what is there. */
  readonly isFull: boolean;
  /** Called with how many bytes have arrived. */
  readonly onBytes: (bytes: number) => void;
}): Promise<ReceivedBackup> {
  const { to, isFull } = parts;
  const isInFolder = isFolder(to);
  await mkdir(isInFolder ? to : dirname(to), { recursive: true, mode: 0o750 });
  const temporary = isInFolder ? join(to, "unfinished") : `${to}.unfinished`;
  try {
    await write(temporary, parts);
    const { sections, unfinishedBytes } = await readContainer(temporary);
    if (unfinishedBytes > 0 || sections.length === 0) {
      throw new FaultError("corrupt", "the backup did not arrive whole; try again");
    }
    if (isInFolder) await split(temporary, to, sections);
    else if (isFull || !existsSync(to)) await rename(temporary, to);
    else await append(temporary, to);
    await syncFolder(isInFolder ? to : dirname(to));
    return {
      files: sections.map(({ head, end, bytes }) => {
        return { store: head.store, kind: head.kind, items: end.items, bytes };
      }),
    };
  } finally {
    await rm(temporary, { force: true });
  }
}

async function write(
  path: string,
  {
    pieces,
    onBytes,
  }: { readonly pieces: AsyncIterable<Buffer>; readonly onBytes: (bytes: number) => void },
): Promise<void> {
  const file = await open(path, "w", 0o640);
  let bytes = 0;
  try {
    for await (const piece of pieces) {
      await file.writeFile(piece);
      bytes += piece.length;
      onBytes(bytes);
    }
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Behind the last complete backup; one that was cut off makes room. */
async function append(from: string, to: string): Promise<void> {
  const { bytes } = await readContainer(to);
  const file = await open(to, "r+");
  try {
    await file.truncate(bytes);
    let at = bytes;
    for await (const piece of createReadStream(from) as AsyncIterable<Buffer>) {
      await file.write(piece, 0, piece.length, at);
      at += piece.length;
    }
    await file.sync();
  } finally {
    await file.close();
  }
}

async function split(from: string, to: string, sections: readonly BackupSection[]): Promise<void> {
  for (const { head, end, start, bytes } of sections) {
    const folder = join(to, head.store);
    await mkdir(folder, { recursive: true, mode: 0o750 });
    const temporary = join(folder, "unfinished");
    const last = start + bytes - 1;
    const pieces = createReadStream(from, { start, end: last }) as AsyncIterable<Buffer>;
    await write(temporary, { pieces, onBytes: () => {} });
    await rename(temporary, join(folder, await nextName(folder, head, end)));
    await syncFolder(folder);
  }
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, "r");
  await folder.sync();
  await folder.close();
}
