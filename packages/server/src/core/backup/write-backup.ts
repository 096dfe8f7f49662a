/**
 * A backup of one store as files of a folder: one with everything, then those with what happened since, each
 * from where the one before it ends. A file has its name when it is complete and durable.
 *
 *   <number>-<first>-<last>.full or .log
 *
 * The number is one higher than that of the file before it, because the records of another log, such as that of
 * a restored store, are counted from one again. First and last are the records that the file holds; of a full
 * one both are where the kv was.
 */
import { createReadStream } from "node:fs";
import { mkdir, open, readdir, rename } from "node:fs/promises";
import { join } from "node:path";
import { type BackupFile, type BackupPosition, readHead } from "@codeq/engine";
import type { Store } from "../store/store.ts";

export interface WantedBackup {
  readonly directory: string;
  /** Names the folder of the store. */
  readonly store: string;
  /** Everything, also when it could be continued. */
  readonly isFull: boolean;
}

export interface WrittenBackup {
  readonly store: string;
  readonly file: string;
  readonly kind: "full" | "log";
  readonly items: number;
  readonly bytes: number;
}

const namePattern = /^(\d{6,})-(\d{16})-(\d{16})\.(full|log)$/;
const numberDigits = 6;
const indexDigits = 16;

export async function writeBackup(store: Store, wanted: WantedBackup): Promise<WrittenBackup> {
  const folder = join(wanted.directory, wanted.store);
  await mkdir(folder, { recursive: true, mode: 0o750 });
  const last = wanted.isFull ? undefined : await lastPosition(folder);
  const continued = last && (await store.backup(wanted.store, last));
  const kind = continued === undefined ? "full" : "log";
  const pieces = continued ?? (await store.backup(wanted.store, undefined));
  const temporary = join(folder, "unfinished");
  const file = await open(temporary, "w", 0o640);
  let bytes = 0;
  let items = 0;
  let index = 0;
  try {
    for (;;) {
      const next = await (pieces as NonNullable<typeof pieces>).next();
      if (next.done === true) {
        ({ items, index } = next.value);
        break;
      }
      bytes += next.value.length;
      await file.write(next.value);
    }
    await file.sync();
  } finally {
    await file.close();
  }
  const from = kind === "full" ? index : (last?.index ?? 0);
  const name = await nextName(folder, { kind, index: from }, { index });
  await rename(temporary, join(folder, name));
  const directory = await open(folder, "r");
  await directory.sync();
  await directory.close();
  return { store: wanted.store, file: name, kind, items, bytes };
}

/** Up to where the backup of a store in this folder reaches; undefined when there is none. */
export async function lastPosition(
  folder: string,
): Promise<(BackupPosition & { readonly identity: number }) | undefined> {
  const last = (await namesIn(folder)).at(-1);
  if (last === undefined) return undefined;
  const { identity } = await readHead(fileIn(folder, last));
  return { identity, index: last.last };
}

/** What a restore of a store reads from its folder: the last full one and those behind it. */
export async function backupFiles(folder: string): Promise<readonly BackupFile[]> {
  const names = await namesIn(folder);
  const start = names.findLastIndex(({ kind }) => kind === "full");
  return start < 0 ? [] : names.slice(start).map((each) => fileIn(folder, each));
}

/** The head of a full one says where the kv is, which is also where it ends. */
export async function nextName(
  folder: string,
  { kind, index: first }: { readonly kind: "full" | "log"; readonly index: number },
  { index: last }: { readonly index: number },
): Promise<string> {
  const { number = 0 } = (await namesIn(folder)).at(-1) ?? {};
  return `${digits(number + 1, numberDigits)}-${digits(first, indexDigits)}-${digits(last, indexDigits)}.${kind}`;
}

interface BackupFileName {
  readonly name: string;
  readonly number: number;
  readonly last: number;
  readonly kind: string;
}

/** In the order in which they were written. */
async function namesIn(folder: string): Promise<readonly BackupFileName[]> {
  const found: BackupFileName[] = [];
  for (const name of await readdir(folder)) {
    const [, number, , last, kind] = namePattern.exec(name) ?? [];
    if (kind !== undefined) found.push({ name, number: Number(number), last: Number(last), kind });
  }
  return found.sort((a, b) => a.number - b.number);
}

function fileIn(folder: string, { name }: BackupFileName): BackupFile {
  const path = join(folder, name);
  return { name: path, read: () => createReadStream(path) as AsyncIterable<Buffer> };
}

/** The stores that a folder has backups of, the store of everything else first. */
export async function storeNames(directory: string): Promise<readonly string[]> {
  const found = await readdir(directory);
  return found.filter((name) => name === "control" || /^shard-\d+$/.test(name)).sort();
}

function digits(number: number, count: number): string {
  return String(number).padStart(count, "0");
}
