/**
 * The commit log in the files of one directory.
 *
 * Guarantees, by durability mode: `fsync`, an acknowledged record survives a power failure;
 * `interval` and `os`, it survives the end of the process, and a power failure takes at most the
 * records after the last `sync`, from the end. In every mode what is read back is whole, in order
 * and without a gap, or opening fails.
 *
 * Segments are filled by overwriting prepared files (see segment-pool.ts). A record never crosses
 * from one segment to the next; one that is larger than a segment gets a file of its own size.
 *
 * A full disk is temporary: failed records are wiped before anything else is written (see
 * appends.ts). Any other failed write or sync is final, because a later sync that succeeds says
 * nothing about the pages that an earlier one gave up on. For the same reason a full disk is final
 * when it is reported by the sync of records that were acknowledged before. Assumes that no other process
 * writes to the directory.
 */
import type { Disk } from "../disk/disk.ts";
import { FaultError, isDiskFull } from "../fault.ts";
import { Appends } from "./appends.ts";
import { type Appended, appendsInFlightMax, type Frame, type Log, type LogRecord } from "./log.ts";
import { asFault, closed, trimmed } from "./log-fault.ts";
import { type LogCut, type RecoveredSegment, recoverLog } from "./recover-log.ts";
import { inspectSegment } from "./segment.ts";
import { closeSegment, openSegments, type Segment } from "./segment-files.ts";
import { SegmentPool } from "./segment-pool.ts";
import type { Witness } from "./witness.ts";

export type Durability = "fsync" | "interval" | "os";

export interface LocalLogOptions {
  readonly durability: Durability;
  /** The id of the store; records of another store are refused. */
  readonly writer: number;
  /** Stores how far the log is durable; checked when the log is opened. */
  readonly witness?: Witness;
  /** Whether files that wait to become segments are kept. Default: true. */
  readonly keepsSpares?: boolean;
  readonly epoch: number;
  readonly shard: number;
  /** Default: 64 MiB. */
  readonly segmentBytes?: number | undefined;
  readonly onSync?: (seconds: number) => void;
  readonly onAppend?: (seconds: number, bytes: number) => void;
  readonly monotonicMs: () => number;
}

const segmentBytesDefault = 64 * 1024 * 1024;

export class LocalLog implements Log {
  readonly #disk: Disk;
  readonly #options: LocalLogOptions;
  readonly #pool: SegmentPool;
  readonly #segments: Segment[];
  readonly #readers = new Set<{ index: number }>();
  /** The records that opening had to cut off, if any. */
  readonly cut: LogCut | undefined;
  readonly #appends: Appends;
  #closing: Promise<void> | undefined;
  #syncing: Promise<void> = Promise.resolve();
  #trimming: Promise<void> = Promise.resolve();

  private constructor(parts: {
    readonly disk: Disk;
    readonly options: LocalLogOptions;
    readonly pool: SegmentPool;
    readonly segments: Segment[];
    readonly cut: LogCut | undefined;
    readonly lastIndex: number;
    readonly chain: Buffer;
  }) {
    this.#disk = parts.disk;
    this.#options = parts.options;
    this.#pool = parts.pool;
    this.#segments = parts.segments;
    this.cut = parts.cut;
    this.#appends = new Appends(parts);
  }

  /** Reads and verifies everything that is there; see recover-log.ts. */
  static async open(disk: Disk, options: LocalLogOptions): Promise<LocalLog> {
    const segmentBytes = options.segmentBytes ?? segmentBytesDefault;
    try {
      const { witness, writer } = options;
      const { segments: found, ...recovered } = await recoverLog(disk, {
        writer,
        check: (lastIndex) => witness?.check(writer, lastIndex),
      });
      await witness?.begin(writer, recovered.lastIndex);
      const keep = found.length > 0 && options.keepsSpares !== false;
      const pool = await SegmentPool.open(disk, { segmentBytes, keep });
      const handles = options.durability === "fsync" ? appendsInFlightMax : 1;
      const segments = await openSegments(disk, found, handles);
      return new LocalLog({ disk, options, pool, segments, ...recovered });
    } catch (error) {
      throw asFault(error, "Opening the log failed");
    }
  }

  get isClosed(): boolean {
    return this.#closing !== undefined;
  }

  get firstIndex(): number {
    return this.#segments[0]?.firstIndex ?? this.lastIndex + 1;
  }

  get lastIndex(): number {
    return this.#appends.lastIndex;
  }

  /** The prepared size of every segment; files that wait to become segments are not counted. */
  get bytes(): number {
    return this.#segments.reduce((sum, segment) => sum + segment.capacityBytes, 0);
  }

  get canAppend(): boolean {
    return this.#appends.canAppend;
  }

  append(frame: Frame, appended: Appended): void {
    const refusal = this.#refusal();
    if (refusal === undefined) this.#appends.append(frame, appended);
    else queueMicrotask(() => appended(refusal, this.lastIndex + 1));
  }

  async sync(): Promise<void> {
    this.#check();
    await this.#queueSync();
  }

  /** One after the other: a sync closes files that the next one would still want to sync. */
  #queueSync(): Promise<void> {
    const run = this.#syncing.then(() => this.#syncAll());
    this.#syncing = settled(run);
    return run;
  }

  async #syncAll(): Promise<void> {
    const appends = this.#appends;
    if (appends.fault !== undefined) throw appends.fault;
    const { lastIndex } = appends;
    try {
      for (const segment of [...this.#segments]) {
        if (segment.lastIndex <= appends.syncedIndex || segment.firstIndex > lastIndex) continue;
        await this.#syncSegment(segment);
      }
      appends.syncedIndex = Math.max(appends.syncedIndex, lastIndex);
      this.noteProgress();
      for (const segment of this.#segments.slice(0, -1)) {
        if (segment.lastIndex <= appends.syncedIndex) await closeSegment(segment);
      }
    } catch (error) {
      throw appends.fail(error, "Syncing the log failed");
    }
  }

  async #syncSegment({ files }: Segment): Promise<void> {
    const { monotonicMs, onSync } = this.#options;
    const startedMs = monotonicMs();
    await files?.[0].sync();
    onSync?.((monotonicMs() - startedMs) / 1000);
  }

  /** Lets the witness know how far the log is durable. */
  noteProgress(): void {
    this.#options.witness?.note(this.#appends.syncedIndex);
  }

  readFrom(index: number): AsyncIterable<LogRecord> {
    return this.#read(index, this.lastIndex);
  }

  async *#read(from: number, last: number): AsyncGenerator<LogRecord, void, void> {
    this.#check();
    if (from < this.firstIndex) throw trimmed(from, this.firstIndex);
    const reader = { index: from };
    this.#readers.add(reader);
    try {
      for await (const record of readRecords(this.#disk, [...this.#segments], { from, last })) {
        if (this.#closing !== undefined) throw closed();
        reader.index = record.index;
        yield record;
      }
    } finally {
      this.#readers.delete(reader);
    }
  }

  async trim(index: number): Promise<void> {
    this.#check();
    const run = this.#trimming.then(() => this.#trim(index));
    this.#trimming = settled(run);
    await run;
  }

  async #trim(index: number): Promise<void> {
    if (!this.#isTrimmable(Math.min(index, this.lastIndex))) return;
    // Sync first: the records that stay, of which the last continues the chain, must not get lost.
    await this.#queueSync();
    try {
      for (;;) {
        const segment = this.#segments[0];
        // Records that were appended since then are not synced, so none of them can take its place.
        if (segment === undefined || !this.#isTrimmable(Math.min(index, this.#appends.syncedIndex)))
          return;
        await closeSegment(segment);
        await this.#pool.recycle(segment.name, segment.capacityBytes);
        this.#segments.shift();
        // Synced after each removal, because a power failure that keeps an older segment would leave a gap.
        await this.#disk.syncDirectory();
      }
    } catch (error) {
      if (isDiskFull(error)) throw asFault(error, "Trimming the log failed");
      throw this.#appends.fail(error, "Trimming the log failed");
    }
  }

  async release(): Promise<void> {
    this.#check();
    await this.#pool.removeSpares();
  }

  /** The oldest segment is removed when no reader uses it and a later one holds record `index`. */
  #isTrimmable(index: number): boolean {
    const oldest = this.#segments[0];
    if (oldest === undefined) return false;
    const keep = [index, ...Array.from(this.#readers, (reader) => reader.index)];
    return oldest.lastIndex < Math.min(...keep);
  }

  /** Syncs what is not synced yet, unless the log has failed. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await this.#appends.idle();
    await this.#pool.close();
    await this.#trimming;
    await this.#syncing;
    try {
      if (this.#appends.fault === undefined) await this.#queueSync();
      this.noteProgress();
    } finally {
      for (const segment of this.#segments) await closeSegment(segment);
      await this.#options.witness?.close();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #check(): void {
    const refusal = this.#refusal();
    if (refusal !== undefined) throw refusal;
  }

  #refusal(): FaultError | undefined {
    return this.#closing === undefined ? this.#appends.fault : closed();
  }
}

/** Waits for the end of work; a failure is reported to the caller that started the work. */
async function settled(work: Promise<unknown> | undefined): Promise<void> {
  await Promise.allSettled([work]);
}

/** The records from index `from` to `last`, out of segments in order. */
async function* readRecords(
  disk: Disk,
  segments: readonly Readonly<RecoveredSegment>[],
  { from, last }: { readonly from: number; readonly last: number },
): AsyncGenerator<LogRecord, void, void> {
  for (const segment of segments) {
    if (segment.lastIndex < from || segment.firstIndex > last) continue;
    for await (const record of readSegment(disk, segment)) {
      if (record.index > last) return;
      if (record.index >= from) yield record;
    }
  }
}

async function* readSegment(
  disk: Disk,
  segment: Readonly<RecoveredSegment>,
): AsyncGenerator<LogRecord, void, void> {
  let expected = segment.firstIndex;
  try {
    for await (const entry of inspectSegment(disk, segment.name, segment.endBytes)) {
      const place = `${segment.name}, offset ${entry.offset}`;
      if (!entry.ok) throw unreadable(`${place}: no record ${expected} (${entry.reason})`);
      const { header, body } = entry;
      if (header.index !== expected) throw unreadable(`${place}: not record ${expected}`);
      expected += 1;
      const { index, type, shard, epoch, writer, timeMs, opCount } = header;
      yield { index, type, shard, epoch, writer, timeMs, opCount, body };
    }
  } catch (error) {
    throw asFault(error, "Reading the log failed");
  }
}

function unreadable(finding: string): FaultError {
  return new FaultError("corrupt", `The log changed since it was opened: ${finding}.`);
}
