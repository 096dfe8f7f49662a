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
 * A full disk is a state that passes: the failed record is wiped before anything else is written.
 * Any other failed write or sync is final, because a later sync that succeeds says nothing about
 * the pages that an earlier one gave up on. For the same reason a full disk is final when it is
 * reported by the sync of records that were acknowledged before. Assumes to be alone in the
 * directory.
 */
import assert from "node:assert/strict";
import type { Disk, DiskFile } from "../disk/disk.ts";
import { type FaultError, isDiskFull } from "../fault.ts";
import { type Frame, headerBytes, type Log, type LogRecord } from "./log.ts";
import { asFault, closed, storageFailed, trimmed } from "./log-fault.ts";
import { readRecords } from "./read-records.ts";
import { chainAfter, frameBytes, sealRecord } from "./record.ts";
import { type LogCut, type RecoveredSegment, recoverLog } from "./recover-log.ts";
import { segmentName } from "./segment.ts";
import { SegmentPool, writeZeros } from "./segment-pool.ts";

export type Durability = "fsync" | "interval" | "os";

export interface LocalLogOptions {
  readonly durability: Durability;
  readonly writer: number;
  readonly epoch: number;
  readonly shard: number;
  /** 64 MiB unless told. */
  readonly segmentBytes?: number;
  readonly onSync?: (seconds: number) => void;
  readonly onAppend?: (seconds: number, bytes: number) => void;
  readonly monotonicMs: () => number;
}

const segmentBytesDefault = 64 * 1024 * 1024;

interface Segment extends RecoveredSegment {
  capacityBytes: number;
  /** Open while it is the last one or holds records that are not synced. */
  file: DiskFile | undefined;
}

export class LocalLog implements Log {
  readonly #disk: Disk;
  readonly #options: LocalLogOptions;
  readonly #pool: SegmentPool;
  readonly #segments: Segment[];
  readonly #readers = new Set<{ index: number }>();
  /** What opening had to cut off, if anything. */
  readonly cut: LogCut | undefined;
  #lastIndex: number;
  #syncedIndex: number;
  #chain: Buffer;
  /** Bytes of a failed record may lie where the next one goes. */
  #unclean = false;
  #directoryUnsynced = false;
  #fault: FaultError | undefined;
  #closing: Promise<void> | undefined;
  #appending: Promise<number> | undefined;
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
    this.#lastIndex = parts.lastIndex;
    this.#syncedIndex = parts.lastIndex;
    this.#chain = parts.chain;
  }

  /** Reads and verifies everything that is there; see recover-log.ts. */
  static async open(disk: Disk, options: LocalLogOptions): Promise<LocalLog> {
    const segmentBytes = options.segmentBytes ?? segmentBytesDefault;
    try {
      const { segments: found, ...recovered } = await recoverLog(disk);
      const keep = found.length > 0;
      const pool = await SegmentPool.open(disk, { segmentBytes, keep });
      const segments = await openSegments(disk, found);
      return new LocalLog({ disk, options, pool, segments, ...recovered });
    } catch (error) {
      throw asFault(error, "Opening the log failed");
    }
  }

  get firstIndex(): number {
    return this.#segments[0]?.firstIndex ?? this.#lastIndex + 1;
  }

  get lastIndex(): number {
    return this.#lastIndex;
  }

  /** The prepared size of every segment; files that wait to become segments are not counted. */
  get bytes(): number {
    return this.#segments.reduce((sum, segment) => sum + segment.capacityBytes, 0);
  }

  async append(frame: Frame): Promise<number> {
    this.#check();
    assert(this.#appending === undefined, "append is called once at a time");
    this.#appending = this.#append(frame);
    try {
      return await this.#appending;
    } finally {
      this.#appending = undefined;
    }
  }

  async #append(frame: Frame): Promise<number> {
    const started = this.#options.monotonicMs();
    const bytes = frameBytes(frame.bodyBytes);
    assert(frame.buffer.length >= bytes, "a frame has room for the header and the padding");
    const index = this.#lastIndex + 1;
    this.#seal(frame, index);
    const segment = await this.#write(frame.buffer.subarray(0, bytes));
    segment.endBytes += bytes;
    segment.lastIndex = index;
    this.#unclean = false;
    this.#lastIndex = index;
    this.#chain = chainAfter(frame.buffer.subarray(0, headerBytes));
    if (this.#options.durability === "fsync") this.#syncedIndex = index;
    if (segment.endBytes * 2 >= segment.capacityBytes) this.#pool.prepareAhead();
    this.#options.onAppend?.(secondsSince(started, this.#options), bytes);
    return index;
  }

  #seal(frame: Frame, index: number): void {
    const { shard, epoch, writer } = this.#options;
    const { type, opCount, bodyBytes, timeMs } = frame;
    const unsyncedBefore = this.#lastIndex - this.#syncedIndex;
    sealRecord(frame.buffer, {
      ...{ type, shard, opCount, bodyBytes, epoch, index, writer, timeMs, unsyncedBefore },
      chain: this.#chain,
    });
  }

  async #write(bytes: Buffer): Promise<Segment & { file: DiskFile }> {
    try {
      await this.#wipe();
      const segment = await this.#roomFor(bytes.length);
      this.#unclean = true;
      await segment.file.write(bytes, segment.endBytes);
      if (this.#options.durability === "fsync") await this.#syncFile(segment.file);
      return segment;
    } catch (error) {
      if (!isDiskFull(error)) throw this.#fail(error, "Writing to the log failed");
      await this.#wipeNow();
      throw asFault(error, "Writing to the log failed");
    }
  }

  /** Makes the place after the last record empty again after a write that failed. */
  async #wipe(): Promise<void> {
    const segment = this.#segments.at(-1);
    if (!this.#unclean || segment?.file === undefined) return;
    await writeZeros(segment.file, segment.endBytes, segment.endBytes + headerBytes);
    // A write that lacks nothing but padding left a whole record, which must not come back.
    await this.#syncWiped(segment.file);
    this.#unclean = false;
  }

  async #syncWiped(file: DiskFile): Promise<void> {
    try {
      await file.sync();
    } catch (error) {
      if (this.#syncedIndex === this.#lastIndex) throw error;
      throw this.#fail(error, "Syncing the log failed");
    }
  }

  async #wipeNow(): Promise<void> {
    try {
      await this.#wipe();
    } catch (error) {
      // A disk so full that it cannot take an overwrite: the next append wipes before it writes.
      if (!isDiskFull(error)) throw this.#fail(error, "Writing to the log failed");
    }
  }

  /** The last segment, after making sure that `bytes` fit behind its end. */
  async #roomFor(bytes: number): Promise<Segment & { file: DiskFile }> {
    let segment = this.#segments.at(-1);
    // A new segment whose opening failed is there all the same, and its name is taken.
    if (segment !== undefined) segment.file ??= await this.#disk.open(segment.name);
    if (segment === undefined || segment.endBytes + bytes > segment.capacityBytes) {
      if (segment !== undefined && segment.endBytes === 0) await this.#extend(segment, bytes);
      else segment = await this.#rotate(segment, bytes);
    }
    if (this.#directoryUnsynced) await this.#disk.syncDirectory();
    this.#directoryUnsynced = false;
    return opened(segment);
  }

  /** A segment without records is there already and carries the name of a new one. */
  async #extend(segment: Segment, bytes: number): Promise<void> {
    const { file } = opened(segment);
    await writeZeros(file, segment.capacityBytes, bytes);
    await file.sync();
    segment.capacityBytes = bytes;
  }

  async #rotate(full: Segment | undefined, bytes: number): Promise<Segment> {
    const firstIndex = this.#lastIndex + 1;
    const name = segmentName(firstIndex);
    const capacityBytes = await this.#pool.provide(name, bytes);
    this.#directoryUnsynced = true;
    const lastIndex = this.#lastIndex;
    const place = { name, firstIndex, lastIndex, endBytes: 0, capacityBytes };
    const segment: Segment = { ...place, file: undefined };
    this.#segments.push(segment);
    segment.file = await this.#disk.open(name);
    if (full !== undefined && full.lastIndex <= this.#syncedIndex) await closeSegment(full);
    return segment;
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
    if (this.#fault !== undefined) throw this.#fault;
    const lastIndex = this.#lastIndex;
    try {
      for (const segment of [...this.#segments]) {
        if (segment.lastIndex <= this.#syncedIndex || segment.firstIndex > lastIndex) continue;
        await this.#syncFile(opened(segment).file);
      }
      this.#syncedIndex = Math.max(this.#syncedIndex, lastIndex);
      for (const segment of this.#segments.slice(0, -1)) {
        if (segment.lastIndex <= this.#syncedIndex) await closeSegment(segment);
      }
    } catch (error) {
      throw this.#fail(error, "Syncing the log failed");
    }
  }

  async #syncFile(file: DiskFile): Promise<void> {
    const started = this.#options.monotonicMs();
    await file.sync();
    this.#options.onSync?.(secondsSince(started, this.#options));
  }

  readFrom(index: number): AsyncIterable<LogRecord> {
    return this.#read(index, this.#lastIndex);
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
    if (!this.#isTrimmable(Math.min(index, this.#lastIndex))) return;
    // What stays must not depend on what goes: the last record is needed to continue the chain.
    await this.#queueSync();
    try {
      for (;;) {
        const segment = this.#segments[0];
        // Records that were appended since then are not synced, so none of them can take its place.
        if (segment === undefined || !this.#isTrimmable(Math.min(index, this.#syncedIndex))) return;
        await closeSegment(segment);
        await this.#pool.recycle(segment.name, segment.capacityBytes);
        this.#segments.shift();
        // Once for each, since a power failure that keeps an older one would leave a gap.
        await this.#disk.syncDirectory();
      }
    } catch (error) {
      if (isDiskFull(error)) throw asFault(error, "Trimming the log failed");
      throw this.#fail(error, "Trimming the log failed");
    }
  }

  /** The oldest segment goes when nobody reads it and a later one holds record `index`. */
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
    await settled(this.#appending);
    await this.#pool.close();
    await this.#trimming;
    await this.#syncing;
    try {
      if (this.#fault === undefined) await this.#queueSync();
    } finally {
      for (const segment of this.#segments) await closeSegment(segment);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #check(): void {
    if (this.#closing !== undefined) throw closed();
    if (this.#fault !== undefined) throw this.#fault;
  }

  /** Remembers the first final fault; every later call is refused with it. */
  #fail(error: unknown, what: string): FaultError {
    this.#fault ??= storageFailed(error, what);
    return this.#fault;
  }
}

async function openSegments(disk: Disk, found: RecoveredSegment[]): Promise<Segment[]> {
  const segments: Segment[] = [];
  for (const segment of found) {
    const file = await disk.open(segment.name);
    segments.push({ ...segment, capacityBytes: await file.size(), file });
    if (segment !== found.at(-1)) await closeSegment(segments.at(-1));
  }
  return segments;
}

function opened(segment: Segment): Segment & { file: DiskFile } {
  const { file } = segment;
  assert(file !== undefined, "the last segment and unsynced ones are open");
  return Object.assign(segment, { file });
}

async function closeSegment(segment: Segment | undefined): Promise<void> {
  const file = segment?.file;
  if (segment === undefined || file === undefined) return;
  segment.file = undefined;
  await file.close();
}

/** Waits for the end of work whose failure is reported to the one who asked for it. */
async function settled(work: Promise<unknown> | undefined): Promise<void> {
  await Promise.allSettled([work]);
}

function secondsSince(startedMs: number, options: LocalLogOptions): number {
  return (options.monotonicMs() - startedMs) / 1000;
}
