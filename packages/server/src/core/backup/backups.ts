/**
 * Backups as files. A backup in a folder has a folder for each store, whose first file has everything and whose next
 * files have what happened since, each from where the file before it ends. A backup in one file has the same images one
 * after the other. A file gets its name when it is complete and durable.
 *
 *   <store>/<number>-<first>-<last>.full or .log
 *
 * The number is one higher than that of the file before it, because the records of another log, such as that of a
 * restored store, are counted from one again. First and last are the records in the file; in the name of a full one
 * both are the record that the kv was at.
 */
import { createReadStream, existsSync, statSync } from "node:fs";
import { mkdir, open, readdir, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import {
  type BackupPosition,
  FaultError,
  type ImageBytes,
  type ImageFile,
  type ImageSection,
  readHead,
  readSections,
} from "@codeq/engine";
import type { Store } from "../store/store.ts";

export interface WantedBackup {
  readonly directory: string;
  /** Names the folder of the store. */
  readonly store: string;
  /** Everything, even if the backup could be continued. */
  readonly isFull: boolean;
}

export interface WrittenBackup {
  readonly store: string;
  readonly file: string;
  readonly kind: "full" | "log";
  readonly items: number;
  readonly bytes: number;
}

export interface ReceivedBackup {
  readonly files: readonly Omit<WrittenBackup, "file">[];
}

/** A store, by its name in the backup, and where an earlier backup of it ends. */
export interface ReadBackup {
  readonly store: string;
  readonly since: BackupPosition | undefined;
}

export interface BackupReading {
  /** Identifies the reader. */
  readonly reader: string;
  /** Up to where each store of an earlier backup reaches, by its name. */
  readonly since: Readonly<Record<string, BackupPosition>>;
}

type KnownPosition = BackupPosition & { readonly identity: number };

const namePattern = /^(\d{6,})-(\d{16})-(\d{16})\.(full|log)$/;
const unfinished = "unfinished";

/** Writes a backup of a store to the disk of the server. */
export async function writeBackup(store: Store, wanted: WantedBackup): Promise<WrittenBackup> {
  const folder = join(wanted.directory, wanted.store);
  await mkdir(folder, { recursive: true, mode: 0o750 });
  const last = wanted.isFull ? undefined : await lastPosition(folder);
  const continued = last && (await store.backup(wanted.store, last));
  const pieces = continued ?? (await everythingOf(store, wanted.store));
  const { bytes, end } = await write(join(folder, unfinished), pieces);
  const kind = continued === undefined ? "full" : "log";
  const first = (continued && last?.index) ?? end.index;
  const file = await giveName(folder, { kind, index: first }, end);
  return { store: wanted.store, file, kind, items: end.items, bytes };
}

/** What happened to a store since an earlier backup or, when its log does not reach back so far, everything. */
export async function* readBackup(
  store: Store,
  { store: name, since }: ReadBackup,
): AsyncGenerator<Buffer, void, void> {
  const continued = since && (await store.backup(name, since));
  yield* continued ?? (await everythingOf(store, name));
}

async function everythingOf(store: Store, name: string): Promise<ImageBytes> {
  const image = await store.backup(name, undefined);
  if (image === undefined) throw new Error("a full backup needs no log");
  return image;
}

/** The backups that a shard sends piece by piece. A reader may have gone, so only the last one stays open. */
export class OpenBackups {
  readonly #store: Store;
  #open: { readonly reader: string; readonly pieces: ReturnType<typeof readBackup> } | undefined;

  constructor(store: Store) {
    this.#store = store;
  }

  /** The piece behind so many others, as base64; undefined at the end. */
  async next(reader: string, wanted: ReadBackup, pieces: number): Promise<string | undefined> {
    if (this.#open?.reader !== reader) {
      if (pieces > 0) throw new FaultError("storage_failed", "the backup was cut off; begin again");
      await this.close();
      this.#open = { reader, pieces: readBackup(this.#store, wanted) };
    }
    const next = await this.#open.pieces.next();
    if (next.done !== true) return next.value.toString("base64");
    this.#open = undefined;
    return undefined;
  }

  async close(): Promise<void> {
    const open = this.#open;
    this.#open = undefined;
    await open?.pieces.return(undefined);
  }
}

/** Up to where each store of a backup reaches; empty when there is no backup yet. */
export async function positionsIn(to: string): Promise<Readonly<Record<string, KnownPosition>>> {
  const positions: Record<string, KnownPosition> = {};
  if (!existsSync(to)) return positions;
  if (isFolder(to)) {
    for (const store of await storeNames(to)) {
      const last = await lastPosition(join(to, store));
      if (last !== undefined) positions[store] = last;
    }
    return positions;
  }
  const { sections } = await readSections(fileAt(to));
  for (const { head, end } of sections) {
    positions[head.store] = { identity: head.identity, index: end.index };
  }
  return positions;
}

/**
 * Stores a backup that a server sends, in one file or in a folder, and continues a backup that is there. What is there
 * is not changed before everything has arrived and was read without a fault.
 */
export async function receiveBackup(parts: {
  readonly to: string;
  readonly pieces: AsyncIterable<Buffer>;
  /** Replace the backup that is there. */
  readonly isFull: boolean;
  /** Called with how many bytes have arrived. */
  readonly onBytes: (bytes: number) => void;
}): Promise<ReceivedBackup> {
  const { to, pieces, isFull, onBytes } = parts;
  const isInFolder = isFolder(to);
  const folder = isInFolder ? to : dirname(to);
  await mkdir(folder, { recursive: true, mode: 0o750 });
  const temporary = isInFolder ? join(to, unfinished) : `${to}.${unfinished}`;
  try {
    await write(temporary, pieces, onBytes);
    const { sections, unfinishedBytes } = await readSections(fileAt(temporary));
    const hasStores = sections.length > 0 && sections.every(({ head }) => head.store !== "");
    if (unfinishedBytes > 0 || !hasStores) {
      throw new FaultError("corrupt", "the backup did not arrive whole; try again");
    }
    if (isInFolder) await split(temporary, to, sections);
    else if (isFull || !existsSync(to)) await rename(temporary, to);
    else await append(temporary, to);
    await syncFolder(folder);
    return {
      files: sections.map(({ head, end, bytes }) => {
        return { store: head.store, kind: head.kind, items: end.items, bytes };
      }),
    };
  } finally {
    await rm(temporary, { force: true });
  }
}

/** What a restore of each store reads: the last full image of it, and those that continue it. */
export async function storesIn(path: string): Promise<ReadonlyMap<string, readonly ImageFile[]>> {
  const stores = new Map<string, readonly ImageFile[]>();
  if (existsSync(path) && !isFolder(path)) {
    const images = (await wholeSections(path)).map((section) => imageIn(path, section));
    const byStore = Map.groupBy(images, ({ store }) => store);
    for (const [store, own] of byStore) stores.set(store, sinceFull(own));
  } else {
    for (const store of existsSync(path) ? await storeNames(path) : []) {
      stores.set(store, sinceFull(await namesIn(join(path, store))));
    }
  }
  if (stores.has("control")) return stores;
  throw new FaultError("format", `there is no backup in ${path}`);
}

interface StoredImage extends ImageFile {
  readonly kind: string;
}

function sinceFull(images: readonly StoredImage[]): readonly ImageFile[] {
  const start = images.findLastIndex(({ kind }) => kind === "full");
  return images.slice(Math.max(start, 0));
}

async function wholeSections(path: string): Promise<readonly ImageSection[]> {
  const { sections, unfinishedBytes } = await readSections(fileAt(path));
  if (unfinishedBytes === 0) return sections;
  throw new FaultError(
    "corrupt",
    `${path} is not complete: its last ${unfinishedBytes} bytes are an unfinished backup. ` +
      `Write the backup again, or cut the file to ${endOf(sections)} bytes to use what is before`,
  );
}

function endOf(sections: readonly ImageSection[]): number {
  const last = sections.at(-1);
  return last === undefined ? 0 : last.start + last.bytes;
}

function imageIn(
  path: string,
  { start, bytes, head }: ImageSection,
): StoredImage & { readonly store: string } {
  const { store, kind } = head;
  const read = (): AsyncIterable<Buffer> => piecesOf(path, { start, bytes });
  return { store, kind, name: `${path} (${store} from byte ${start} on)`, read };
}

function fileAt(path: string): ImageFile {
  return { name: path, read: () => piecesOf(path) };
}

function piecesOf(
  path: string,
  part?: { readonly start: number; readonly bytes: number },
): AsyncIterable<Buffer> {
  const range = part && { start: part.start, end: part.start + part.bytes - 1 };
  return createReadStream(path, range) as AsyncIterable<Buffer>;
}

/** A path that is not there yet means a file, unless it ends with a slash. */
function isFolder(to: string): boolean {
  return existsSync(to) ? statSync(to).isDirectory() : /[/\\]$/.test(to);
}

/** The stores that a folder has backups of, the control store first. */
async function storeNames(directory: string): Promise<readonly string[]> {
  const found = await readdir(directory);
  return found.filter((name) => name === "control" || /^shard-\d+$/.test(name)).sort();
}

/** Up to where the backup of a store in this folder reaches; undefined when there is none. */
async function lastPosition(folder: string): Promise<KnownPosition | undefined> {
  const last = (await namesIn(folder)).at(-1);
  return last && { identity: (await readHead(last)).identity, index: last.last };
}

interface NamedImage extends StoredImage {
  readonly number: number;
  readonly last: number;
}

/** In the order in which they were written. */
async function namesIn(folder: string): Promise<readonly NamedImage[]> {
  const found: NamedImage[] = [];
  for (const name of await readdir(folder)) {
    const [, number, , last, kind] = namePattern.exec(name) ?? [];
    if (kind === undefined) continue;
    found.push({ ...fileAt(join(folder, name)), number: Number(number), last: Number(last), kind });
  }
  return found.sort((a, b) => a.number - b.number);
}

/** Renames what was written into the folder, durably; returns the name. */
async function giveName(
  folder: string,
  first: { readonly kind: "full" | "log"; readonly index: number },
  last: { readonly index: number },
): Promise<string> {
  const { number = 0 } = (await namesIn(folder)).at(-1) ?? {};
  const digits = (index: number): string => String(index).padStart(16, "0");
  const front = String(number + 1).padStart(6, "0");
  const name = `${front}-${digits(first.index)}-${digits(last.index)}.${first.kind}`;
  await rename(join(folder, unfinished), join(folder, name));
  await syncFolder(folder);
  return name;
}

/** Makes a durable file of the pieces. */
async function write<End>(
  path: string,
  pieces: AsyncIterable<Buffer, End>,
  onBytes: (bytes: number) => void = () => {},
): Promise<{ readonly bytes: number; readonly end: End }> {
  const file = await open(path, "w", 0o640);
  const reading = pieces[Symbol.asyncIterator]();
  let bytes = 0;
  try {
    for (;;) {
      const next = await reading.next();
      if (next.done === true) {
        await file.sync();
        return { bytes, end: next.value };
      }
      await file.writeFile(next.value);
      bytes += next.value.length;
      onBytes(bytes);
    }
  } finally {
    await reading.return?.();
    await file.close();
  }
}

/** Writes after the last complete image; an image that was cut off is overwritten. */
async function append(from: string, to: string): Promise<void> {
  let at = endOf((await readSections(fileAt(to))).sections);
  const file = await open(to, "r+");
  try {
    await file.truncate(at);
    for await (const piece of piecesOf(from)) {
      await file.write(piece, 0, piece.length, at);
      at += piece.length;
    }
    await file.sync();
  } finally {
    await file.close();
  }
}

async function split(from: string, to: string, sections: readonly ImageSection[]): Promise<void> {
  for (const section of sections) {
    const folder = join(to, section.head.store);
    await mkdir(folder, { recursive: true, mode: 0o750 });
    await write(join(folder, unfinished), piecesOf(from, section));
    await giveName(folder, section.head, section.end);
  }
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, "r");
  await folder.sync();
  await folder.close();
}
