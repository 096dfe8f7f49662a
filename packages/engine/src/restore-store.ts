/**
 * Makes the files of a store from a backup: the entries go into a new kv and the records into a new log, so
 * that the next opening does what it does after a crash. Up to a moment in time when one is given.
 */
import { type BackupHead, readBackup } from "./backup-format.ts";
import { FaultError } from "./fault.ts";
import { positionKey } from "./flusher.ts";
import type { Kv, KvBatch } from "./kv/kv.ts";
import { alignBytes, headerBytes, type Log } from "./log/log.ts";
import { frameBytes } from "./log/record.ts";

export interface BackupFile {
  readonly name: string;
  readonly read: () => AsyncIterable<Buffer>;
}

export interface RestoredStore {
  readonly head: BackupHead;
  readonly entries: number;
  readonly records: number;
  /** Of the last change that is in it. */
  readonly lastMs: number;
}

const batchEntries = 1000;

/** A file says what it is by its head; the first one has to be full, and each begins where one ended. */
export async function readHead({ name, read }: BackupFile): Promise<BackupHead> {
  for await (const item of readBackup(read(), name)) {
    if (item.is === "head" && item.head.version === 1) return item.head;
    break;
  }
  throw new FaultError("format", `${name} is not a backup that this version can read`);
}

/** The value of a key, with its checksum; undefined when a full backup does not have it. */
export async function readEntry(
  { name, read }: BackupFile,
  key: string,
): Promise<Buffer | undefined> {
  for await (const item of readBackup(read(), name)) {
    if (item.is === "entry" && item.key === key) return item.value;
  }
  return undefined;
}

/** Reads all files as a restore would; without files to write to it only checks them. */
export async function restoreStore(
  files: readonly BackupFile[],
  into: { readonly kv: Kv; readonly log: Log } | undefined,
  atMs: number,
): Promise<RestoredStore> {
  const [first] = files;
  if (first === undefined) throw new FaultError("format", "there is no full backup");
  const head = await readHead(first);
  if (head.kind !== "full") {
    throw new FaultError("format", `${first.name} continues a backup that is not there`);
  }
  if (atMs < head.timeMs) {
    const since = new Date(head.timeMs).toISOString();
    throw new FaultError("format", `the backup begins at ${since}; choose a later moment`);
  }
  const target = new Target(into, atMs);
  let index = head.index;
  for (const file of files) {
    const own = await readHead(file);
    const isNext =
      own.index === index && own.identity === head.identity && own.store === head.store;
    if (!isNext)
      throw new FaultError("format", `${file.name} does not continue the file before it`);
    index = await target.take(file);
  }
  await target.end();
  const { entries, records, lastMs } = target;
  return { head, entries, records, lastMs: lastMs || head.timeMs };
}

class Target {
  entries = 0;
  records = 0;
  lastMs = 0;
  readonly #into: { readonly kv: Kv; readonly log: Log } | undefined;
  readonly #atMs: number;
  #isOver = false;
  #batch: KvBatch | undefined;
  #batched = 0;

  constructor(into: { readonly kv: Kv; readonly log: Log } | undefined, atMs: number) {
    this.#into = into;
    this.#atMs = atMs;
  }

  /** Answers where the file ends. */
  async take({ name, read }: BackupFile): Promise<number> {
    let index = 0;
    for await (const item of readBackup(read(), name)) {
      if (item.is === "entry") await this.#entry(item.key, item.value);
      if (item.is === "record") await this.#record(item.record);
      if (item.is === "end") ({ index } = item.end);
    }
    return index;
  }

  async #entry(key: string, value: Buffer): Promise<void> {
    this.entries += 1;
    // The new log begins with its first record.
    if (this.#into === undefined || key === positionKey) return;
    this.#batch ??= this.#into.kv.batch();
    this.#batch.put(key, value);
    this.#batched += 1;
    if (this.#batched >= batchEntries) await this.#write();
  }

  async #record(record: {
    readonly timeMs: number;
    readonly opCount: number;
    readonly type: number;
    readonly body: Buffer;
  }): Promise<void> {
    // Clocks may step back; what follows what is left out is left out, too.
    this.#isOver ||= record.timeMs > this.#atMs;
    if (this.#isOver) return;
    await this.#write();
    this.records += 1;
    this.lastMs = record.timeMs;
    if (this.#into === undefined) return;
    const { log } = this.#into;
    const { body, opCount, type, timeMs } = record;
    const buffer = Buffer.alloc(Math.max(frameBytes(body.length), alignBytes));
    body.copy(buffer, headerBytes);
    await new Promise<void>((resolve, reject) => {
      log.append({ buffer, bodyBytes: body.length, opCount, type, timeMs }, (fault) =>
        fault === undefined ? resolve() : reject(fault),
      );
    });
  }

  async end(): Promise<void> {
    await this.#write();
    if (this.#into === undefined) return;
    const { kv, log } = this.#into;
    // Into tables: a kv forgets what it holds in memory only.
    await kv.files?.noteWritten(0);
    await kv.files?.makeDurable();
    await log.sync();
  }

  async #write(): Promise<void> {
    const batch = this.#batch;
    this.#batch = undefined;
    this.#batched = 0;
    await batch?.write({ sync: true });
  }
}
