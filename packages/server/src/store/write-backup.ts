/**
 * A backup of one store as files of a folder: one with everything, then those with what happened since, each
 * from where the one before it ends. A file has its name when it is complete and durable.
 *
 *   <first>-<last>.full or .log    the records that it holds; of a full one both are where the kv was
 */
import { mkdir, open, readdir, rename } from "node:fs/promises";
import { join } from "node:path";
import type { Store } from "./store.ts";

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

const namePattern = /^(\d{16})-(\d{16})\.(full|log)$/;
const numberDigits = 16;

export async function writeBackup(store: Store, wanted: WantedBackup): Promise<WrittenBackup> {
  const folder = join(wanted.directory, wanted.store);
  await mkdir(folder, { recursive: true, mode: 0o750 });
  const last = wanted.isFull ? undefined : (await backupFiles(folder)).at(-1);
  const continued = last && (await store.backup(wanted.store, { index: last.last }));
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
  const from = kind === "full" ? index : (last?.last ?? 0);
  const name = backupName({ kind, index: from }, { index });
  await rename(temporary, join(folder, name));
  const directory = await open(folder, "r");
  await directory.sync();
  await directory.close();
  return { store: wanted.store, file: name, kind, items, bytes };
}

export interface BackupFileName {
  readonly name: string;
  readonly first: number;
  readonly last: number;
  readonly kind: "full" | "log";
}

/** In their order, from the last full one on. */
export async function backupFiles(folder: string): Promise<readonly BackupFileName[]> {
  const found: BackupFileName[] = [];
  for (const name of (await readdir(folder)).sort()) {
    const [, first, last, kind] = namePattern.exec(name) ?? [];
    if (kind !== "full" && kind !== "log") continue;
    found.push({ name, first: Number(first), last: Number(last), kind });
  }
  // A log without records stands behind the full one that it continues.
  found.sort((a, b) => a.last - b.last || a.first - b.first || (a.kind === "full" ? -1 : 1));
  const start = found.findLastIndex(({ kind }) => kind === "full");
  return start < 0 ? [] : found.slice(start);
}

/** The head of a full one says where the kv is, which is also where it ends. */
export function backupName(
  { kind, index: first }: { readonly kind: "full" | "log"; readonly index: number },
  { index: last }: { readonly index: number },
): string {
  return `${numbered(first)}-${numbered(last)}.${kind}`;
}

/** The stores that a folder has backups of, the store of everything else first. */
export async function storeNames(directory: string): Promise<readonly string[]> {
  const found = await readdir(directory);
  return found.filter((name) => name === "control" || /^shard-\d+$/.test(name)).sort();
}

function numbered(index: number): string {
  return String(index).padStart(numberDigits, "0");
}
