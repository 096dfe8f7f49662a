/**
 * Images of stores. An image has the entries of a kv as they were after one log record, or the log records behind one.
 * Whatever copies a store reads with `entriesOf` and writes with a `KvFiller`: backups and restores, copies for other
 * nodes, conversions between kinds of servers, changes of the number of shards. Values keep their checksums.
 *
 * As bytes, an image is a head, its entries or records, and an end with their number. The reader refuses a frame with a
 * wrong checksum and an image without its end.
 *
 *   frame = length u32, kind u8, payload, CRC-32 of kind and payload u32
 */
import { crc32 } from "node:zlib";
import { FaultError } from "./fault.ts";
import {
  assertSameStore,
  positionKey,
  readLogPosition,
  readPosition,
  readStoreId,
} from "./flusher.ts";
import { assertSameLog, endedKey, logPositionOf } from "./follower.ts";
import { checksumBytes, seal } from "./kv/checked-value.ts";
import type { Kv, KvBatch, KvCursor, KvEntry, KvRange } from "./kv/kv.ts";
import { alignBytes, headerBytes, type Log, type LogRecord } from "./log/log.ts";
import { frameBytes } from "./log/record.ts";
import type { SharedLog } from "./log/replicated/shared-log.ts";
import { firstPosition, type LogPosition, positionText } from "./log/replicated/slot-rules.ts";

export interface ImageHead {
  readonly version: 1;
  /** `full` has the kv as it was after a record; `log` has the records behind one. */
  readonly kind: "full" | "log";
  /** The id of the store. */
  readonly identity: number;
  /** Which store of the data directory: `control` or `shard-<n>`. */
  readonly store: string;
  /** The record that the kv is at, or that the log records follow. */
  readonly index: number;
  readonly timeMs: number;
}

type ImageRecord = Pick<LogRecord, "index" | "timeMs" | "opCount" | "type" | "body">;

export interface ImageEnd {
  readonly items: number;
  /** The last record of the image, or the one that the kv is at. */
  readonly index: number;
}

/** One of several images that follow each other. */
export interface ImageSection {
  readonly head: ImageHead;
  readonly end: ImageEnd;
  /** Its first byte, and its length. */
  readonly start: number;
  readonly bytes: number;
}

/** Up to where a backup of a store reaches. */
export interface BackupPosition {
  /** The identity of the store; undefined for an unknown store. */
  readonly identity?: number | undefined;
  readonly index: number;
}

type ImageItem =
  | { readonly is: "head"; readonly head: ImageHead }
  | { readonly is: "entry"; readonly key: string; readonly value: Buffer }
  | { readonly is: "record"; readonly record: ImageRecord }
  | { readonly is: "end"; readonly section: ImageSection };

export interface ImageFile {
  readonly name: string;
  readonly read: () => AsyncIterable<Buffer>;
}

const kinds = { head: 1, entry: 2, record: 3, end: 4 } as const;
const frameExtraBytes = 9;
const lengthMax = 256 * 1024 * 1024;
const recordHeadBytes = 21;
const pieceEntries = 1000;
const everything: KvRange = { after: "", before: "\x7f" };
/** The disk is asked for its free space after so many bytes. */
const checkedBytes = 8 * 1024 * 1024;
const installingKey = "codeq/meta/installing";
/** They say where a kv is in its own log. */
const ownKeys: ReadonlySet<string> = new Set([positionKey, endedKey]);

/** The entries of a kv, or of a range of it, as they are at this moment. */
export async function* entriesOf(
  kv: Kv,
  range: KvRange = everything,
): AsyncGenerator<readonly KvEntry[], void, void> {
  const cursor = kv.cursor(range);
  try {
    yield* piecesOf(cursor);
  } finally {
    await cursor.close();
  }
}

async function* piecesOf(cursor: KvCursor): AsyncGenerator<readonly KvEntry[], void, void> {
  for (;;) {
    const entries = await cursor.next(pieceEntries);
    if (entries.length === 0) return;
    yield entries;
  }
}

/** The bytes of an image of everything that the kv holds now. */
export function fullImage(kv: Kv, head: Omit<ImageHead, "index">): ImageBytes {
  // Position and view are of the same turn, and so the state after the same record.
  return fullBytes(kv.cursor(everything), { ...head, index: readPosition(kv) });
}

export type ImageBytes = AsyncGenerator<Buffer, ImageEnd, void>;

async function* fullBytes(cursor: KvCursor, head: ImageHead): ImageBytes {
  let items = 0;
  try {
    yield headFrame(head);
    for await (const entries of piecesOf(cursor)) {
      items += entries.length;
      yield Buffer.concat(entries.map(([key, value]) => entryFrame(key, value)));
    }
  } finally {
    await cursor.close();
  }
  const end = { items, index: head.index };
  yield frame(kinds.end, Buffer.from(JSON.stringify(end)));
  return end;
}

/** The bytes of an image of log records, which follow the one that the head names. */
export async function* logImage(records: AsyncIterable<LogRecord>, head: ImageHead): ImageBytes {
  let items = 0;
  let { index } = head;
  yield headFrame(head);
  for await (const record of records) {
    items += 1;
    index = record.index;
    yield recordFrame(record);
  }
  const end = { items, index };
  yield frame(kinds.end, Buffer.from(JSON.stringify(end)));
  return end;
}

function headFrame(head: ImageHead): Buffer {
  return frame(kinds.head, Buffer.from(JSON.stringify(head)));
}

function entryFrame(key: string, value: Buffer): Buffer {
  const payload = Buffer.allocUnsafe(2 + key.length + value.length);
  payload.writeUInt16LE(key.length, 0);
  payload.write(key, 2, "latin1");
  value.copy(payload, 2 + key.length);
  return frame(kinds.entry, payload);
}

function recordFrame({ index, timeMs, opCount, type, body }: ImageRecord): Buffer {
  const payload = Buffer.allocUnsafe(recordHeadBytes + body.length);
  payload.writeDoubleLE(index, 0);
  payload.writeDoubleLE(timeMs, 8);
  payload.writeUInt32LE(opCount, 16);
  payload.writeUInt8(type, 20);
  body.copy(payload, recordHeadBytes);
  return frame(kinds.record, payload);
}

function frame(kind: number, payload: Buffer): Buffer {
  const bytes = Buffer.allocUnsafe(payload.length + frameExtraBytes);
  bytes.writeUInt32LE(payload.length, 0);
  bytes.writeUInt8(kind, 4);
  payload.copy(bytes, 5);
  bytes.writeUInt32LE(crc32(bytes.subarray(4, 5 + payload.length)), 5 + payload.length);
  return bytes;
}

/** Reads images that follow each other. Throws at the first byte that was not written like this. */
class ImageReader {
  readonly #damaged: () => FaultError;
  #rest: Buffer = Buffer.alloc(0);
  #at = 0;
  #start = 0;
  #head: ImageHead | undefined;
  #items = 0;

  constructor(damaged: () => FaultError) {
    this.#damaged = damaged;
  }

  /** Bytes behind the last complete image. */
  get unfinishedBytes(): number {
    return this.#at - this.#start + this.#rest.length;
  }

  *take(piece: Buffer): Generator<ImageItem> {
    this.#rest = this.#rest.length === 0 ? piece : Buffer.concat([this.#rest, piece]);
    for (let bytes = this.#nextBytes(); bytes > 0; bytes = this.#nextBytes()) {
      const frame = this.#rest.subarray(4, bytes);
      this.#rest = this.#rest.subarray(bytes);
      this.#at += bytes;
      yield this.#item(frame);
    }
  }

  /** The length of the next frame; 0 when a part of it is missing. */
  #nextBytes(): number {
    if (this.#rest.length < 4) return 0;
    const length = this.#rest.readUInt32LE(0);
    if (length > lengthMax) throw this.#damaged();
    const bytes = length + frameExtraBytes;
    return this.#rest.length < bytes ? 0 : bytes;
  }

  /** `bytes` is kind, payload and checksum. */
  #item(bytes: Buffer): ImageItem {
    const end = bytes.length - 4;
    const [kind] = bytes;
    const isSound = crc32(bytes.subarray(0, end)) === bytes.readUInt32LE(end);
    if (!isSound || (kind === kinds.head) !== (this.#head === undefined)) throw this.#damaged();
    const payload = Buffer.from(bytes.subarray(1, end));
    if (kind === kinds.head) {
      const head = fieldsIn(payload);
      if (!isHead(head)) throw this.#damaged();
      this.#head = head;
      return { is: "head", head };
    }
    if (kind === kinds.end) {
      const end = fieldsIn(payload);
      if (!isEnd(end)) throw this.#damaged();
      return this.#end(end);
    }
    this.#items += 1;
    if (kind === kinds.record) return { is: "record", record: recordIn(payload) };
    if (kind !== kinds.entry) throw this.#damaged();
    const keyEnd = 2 + payload.readUInt16LE(0);
    const key = payload.toString("latin1", 2, keyEnd);
    return { is: "entry", key, value: payload.subarray(keyEnd) };
  }

  #end(end: ImageEnd): ImageItem {
    if (end.items !== this.#items) throw this.#damaged();
    const [head, start] = [this.#head as ImageHead, this.#start];
    this.#head = undefined;
    this.#items = 0;
    this.#start = this.#at;
    return { is: "end", section: { head, end, start, bytes: this.#at - start } };
  }
}

/** The fields of a head or an end; undefined when they are no JSON. */
function fieldsIn(payload: Buffer): Partial<Record<string, unknown>> | undefined {
  try {
    return JSON.parse(payload.toString()) as Partial<Record<string, unknown>>;
  } catch {
    // A checksum does not keep a server from sending what it wants.
    return undefined;
  }
}

/** Copies between nodes name no store. */
const storePattern = /^(?:control|shard-\d{1,6})?$/;

/** The fields become names of files and folders, so nothing else is accepted. An unknown version is reported later. */
function isHead(fields: unknown): fields is ImageHead {
  const { version, kind, identity, store, index, timeMs } = Object(fields) as Partial<ImageHead>;
  if (typeof version !== "number") return false;
  if (typeof store !== "string" || !storePattern.test(store)) return false;
  return (
    (kind === "full" || kind === "log") &&
    isIndex(index) &&
    [identity, timeMs].every(Number.isFinite)
  );
}

function isEnd(fields: unknown): fields is ImageEnd {
  const { index, items } = Object(fields) as Partial<ImageEnd>;
  return isIndex(index) && isIndex(items);
}

function isIndex(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function recordIn(payload: Buffer): ImageRecord {
  return {
    index: payload.readDoubleLE(0),
    timeMs: payload.readDoubleLE(8),
    opCount: payload.readUInt32LE(16),
    type: payload.readUInt8(20),
    body: payload.subarray(recordHeadBytes),
  };
}

/** All images of a file; returns how many bytes of an incomplete one there are behind them. */
async function* readImages({ name, read }: ImageFile): AsyncGenerator<ImageItem, number> {
  const reader = new ImageReader(() => damaged(name));
  for await (const piece of read()) yield* reader.take(piece);
  return reader.unfinishedBytes;
}

async function* readWhole(file: ImageFile): AsyncGenerator<ImageItem, void> {
  if ((yield* readImages(file)) > 0) throw damaged(file.name);
}

/** The images of a file, and how many bytes of an incomplete one there are behind them. */
export async function readSections(
  file: ImageFile,
): Promise<{ readonly sections: readonly ImageSection[]; readonly unfinishedBytes: number }> {
  const sections: ImageSection[] = [];
  const items = readImages(file);
  for (;;) {
    const next = await items.next();
    if (next.done === true) return { sections, unfinishedBytes: next.value };
    if (next.value.is === "end") sections.push(next.value.section);
  }
}

export async function readHead(file: ImageFile): Promise<ImageHead> {
  for await (const item of readWhole(file)) {
    if (item.is === "head" && item.head.version === 1) return item.head;
    break;
  }
  throw unknownVersion(file.name);
}

/** The value of a key, with its checksum; undefined when a full image does not have the key. */
export async function readEntry(file: ImageFile, key: string): Promise<Buffer | undefined> {
  for await (const item of readWhole(file)) {
    if (item.is === "entry" && item.key === key) return item.value;
  }
  return undefined;
}

function unknownVersion(name: string): FaultError {
  return new FaultError("format", `${name} is not a backup that this version can read`);
}

function damaged(name: string): FaultError {
  return new FaultError("corrupt", `${name} is damaged or not complete; use another backup`);
}

/** The value as a kv stores it, with a checksum. */
export function sealed(key: string, value: Buffer): Buffer {
  const stored = Buffer.alloc(value.length + checksumBytes);
  value.copy(stored);
  return stored.subarray(0, seal(key, stored, value.length));
}

export interface Space {
  readonly freeBytes: () => Promise<number>;
  readonly minFreeBytes: number;
}

const endless: Space = { freeBytes: () => Promise.resolve(0), minFreeBytes: 0 };

/** Fills a kv that has no other user. Its entries do not count before `end`. */
export class KvFiller {
  /** How many entries were put. */
  entries = 0;
  readonly #kv: Kv;
  readonly #space: Space;
  #batch: KvBatch | undefined;
  #batched = 0;
  #bytes = checkedBytes;

  /** Throws `disk_full` later when less than the minimum is free. */
  constructor(kv: Kv, space: Space = endless) {
    this.#kv = kv;
    this.#space = space;
  }

  /** Takes a value with its checksum. */
  async put(key: string, stored: Buffer): Promise<void> {
    this.#batch ??= this.#kv.batch();
    this.#batch.put(key, stored);
    this.entries += 1;
    this.#batched += 1;
    this.#bytes += key.length + stored.length;
    if (this.#batched >= pieceEntries || this.#bytes >= checkedBytes) await this.write();
  }

  /** Puts all wanted entries, except those that say where the other kv is in its own log. */
  async copy(from: Kv, wants: (key: string) => boolean = () => true): Promise<void> {
    for await (const entries of entriesOf(from)) {
      for (const [key, value] of entries) {
        if (!ownKeys.has(key) && wants(key)) await this.put(key, value);
      }
    }
  }

  /** Writes what was put to the kv. */
  async write(): Promise<void> {
    const batch = this.#batch;
    this.#batch = undefined;
    this.#batched = 0;
    await batch?.write({ sync: this.#kv.files === undefined });
    if (this.#bytes < checkedBytes) return;
    this.#bytes = 0;
    const free = await this.#space.freeBytes();
    if (free >= this.#space.minFreeBytes) return;
    throw new FaultError("disk_full", `${free} bytes are left on the disk of the data directory`);
  }

  /** Everything that was put is durable afterwards. */
  async end(): Promise<void> {
    await this.write();
    await makeDurable(this.#kv);
  }
}

/** A kv on files forgets what it has in memory only, and reports only like this that it could not write it. */
async function makeDurable(kv: Kv): Promise<void> {
  const { files } = kv;
  if (files === undefined) return;
  const index = Math.max(1, readPosition(kv));
  await files.noteWritten(index);
  if ((await files.makeDurable()) >= index) return;
  throw new FaultError("disk_full", "no space left for the key-value store");
}

/** The kv continues with a shared log whose first record follows the slot. */
export async function continueWithLog(
  to: KvFiller,
  log: { readonly logId: number; readonly slot: number },
): Promise<void> {
  await to.put(...positionEntry(log.logId, { ...firstPosition, slot: log.slot }));
}

/** The kv continues with another shared log, whose first record follows the position of the kv. */
export async function moveToLog(kv: Kv, logId: number): Promise<void> {
  const filler = new KvFiller(kv);
  await filler.put(...positionEntry(logId, logPositionOf(kv)));
  await filler.end();
}

function positionEntry(
  logId: number,
  position: LogPosition,
): readonly [key: string, stored: Buffer] {
  const value = Buffer.from(`${position.index} ${logId} ${positionText(position)}`, "latin1");
  return [positionKey, sealed(positionKey, value)];
}

export interface RestoredStore {
  readonly head: ImageHead;
  readonly entries: number;
  readonly records: number;
  /** The time of the last change in the image. */
  readonly lastMs: number;
}

interface RestoreTarget {
  readonly filler: KvFiller;
  readonly log: Log;
}

/**
 * Puts entries into a new kv and appends records to a new log, so that the next opening does what it does after a
 * crash; the caller makes both durable. Records after the moment `atMs` are left out. The first file has to be full, and each one begins where the
 * one before it ends. Without a target it only reads and checks.
 */
export async function restoreStore(
  files: readonly ImageFile[],
  into: RestoreTarget | undefined,
  atMs: number,
): Promise<RestoredStore> {
  const restoring = new Restoring(into, atMs);
  for (const file of files) {
    for await (const item of readWhole(file)) {
      if (item.is === "head") restoring.begin(item.head, file.name);
      else if (item.is === "entry") await restoring.entry(item.key, item.value);
      else if (item.is === "record") await restoring.record(item.record);
      else restoring.index = item.section.end.index;
    }
  }
  return restoring.end();
}

class Restoring {
  /** Where the image that was read last ends. */
  index = 0;
  readonly #log: Log | undefined;
  readonly #filler: KvFiller | undefined;
  readonly #atMs: number;
  #head: ImageHead | undefined;
  #entries = 0;
  #records = 0;
  #lastMs = 0;
  #isOver = false;

  constructor(into: RestoreTarget | undefined, atMs: number) {
    this.#filler = into?.filler;
    this.#log = into?.log;
    this.#atMs = atMs;
  }

  begin(head: ImageHead, name: string): void {
    const { version, kind, index, identity, store, timeMs } = head;
    if (version !== 1) throw unknownVersion(name);
    if (this.#head !== undefined) {
      const isNext = index === this.index && kind === "log";
      if (isNext && identity === this.#head.identity && store === this.#head.store) return;
      throw new FaultError("format", `${name} does not continue the file before it`);
    }
    if (kind !== "full") {
      throw new FaultError("format", `${name} continues a backup that is not there`);
    }
    if (this.#atMs < timeMs) {
      const since = new Date(timeMs).toISOString();
      throw new FaultError("format", `the backup begins at ${since}; choose a later moment`);
    }
    this.#head = head;
  }

  async entry(key: string, value: Buffer): Promise<void> {
    this.#entries += 1;
    // The new log begins with its first record.
    if (key !== positionKey) await this.#filler?.put(key, value);
  }

  async record({ body, opCount, type, timeMs }: ImageRecord): Promise<void> {
    // Clocks may step back; whatever follows a record that is left out is left out, too.
    this.#isOver ||= timeMs > this.#atMs;
    if (this.#isOver) return;
    this.#records += 1;
    this.#lastMs = timeMs;
    const log = this.#log;
    if (log === undefined) return;
    const buffer = Buffer.alloc(Math.max(frameBytes(body.length), alignBytes));
    body.copy(buffer, headerBytes);
    await new Promise<void>((resolve, reject) => {
      log.append({ buffer, bodyBytes: body.length, opCount, type, timeMs }, (fault) =>
        fault === undefined ? resolve() : reject(fault),
      );
    });
  }

  end(): RestoredStore {
    const head = this.#head;
    if (head === undefined) throw new FaultError("format", "there is no full backup");
    const lastMs = this.#lastMs || head.timeMs;
    return { head, entries: this.#entries, records: this.#records, lastMs };
  }
}

/** The image of a kv for another node. Throws `behind` when the kv is empty, or itself half of an installation. */
export function snapshotOf(kv: Kv): ImageBytes {
  if (readLogPosition(kv) === undefined || isInstalling(kv)) {
    throw new FaultError("behind", "this node has no copy of the shard itself");
  }
  const identity = readStoreId(kv) as number;
  return fullImage(kv, { version: 1, kind: "full", identity, store: "", timeMs: 0 });
}

interface Installing {
  readonly kv: Kv;
  readonly shared: Pick<SharedLog, "logId" | "bounds">;
  /** Copies the image of a node that has one. */
  readonly copy: (take: (piece: Buffer) => Promise<void>) => Promise<void>;
}

/**
 * Puts the image of another node in the place of everything in a kv that is too far behind to follow the log, and does
 * nothing when it is not. An installation that was interrupted is known by a mark, and begins again from nothing.
 *
 * Throws `corrupt` when the kv comes from another log, since its data may be the only copy, or when the image does.
 */
export async function install({ kv, shared, copy }: Installing): Promise<void> {
  assertSameLog(kv, shared.logId);
  const { first } = await shared.bounds();
  if (!isInstalling(kv) && first <= logPositionOf(kv).slot + 1) return;
  await write(kv, (batch) => batch.put(installingKey, Buffer.from("1")));
  for await (const entries of entriesOf(kv)) {
    await write(kv, (batch) => {
      for (const [key] of entries) if (key !== installingKey) batch.del(key);
    });
  }
  const reader = new ImageReader(notWhole);
  const filler = new KvFiller(kv);
  let position: Buffer | undefined;
  await copy(async (piece) => {
    for (const item of reader.take(piece)) {
      if (item.is !== "entry") continue;
      if (item.key === positionKey) position = item.value;
      else await filler.put(item.key, item.value);
    }
  });
  if (reader.unfinishedBytes > 0 || position === undefined) throw notWhole();
  await filler.put(positionKey, position);
  await filler.write();
  assertSameStore(kv, shared.logId);
  await write(kv, (batch) => batch.del(installingKey));
  // A copy that a restart takes back must not count for a trim.
  await makeDurable(kv);
}

/** Whether a copy was begun and not finished; what is there means nothing. */
function isInstalling(kv: Kv): boolean {
  return kv.get(installingKey) !== undefined;
}

async function write(kv: Kv, fill: (batch: KvBatch) => void): Promise<void> {
  const batch = kv.batch();
  fill(batch);
  await batch.write({ sync: kv.files === undefined });
}

function notWhole(): FaultError {
  return new FaultError("storage_failed", "the copy of a shard did not arrive whole");
}
