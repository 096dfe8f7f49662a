/**
 * The end of the log, where records are added.
 *
 * Appends overlap: a record is written while the one before it is being synced, and both syncs are
 * under way at the same time. They are written in order and acknowledged in order, so a record is
 * acknowledged only when it and everything before it is as durable as the mode promises. An append that
 * needs more than a plain write behind the last record does not overlap: a new segment, a large frame,
 * a place that has to be wiped first.
 *
 * A failure refuses every record that is not acknowledged yet, in order, as soon as none of them is being
 * written or synced. A full disk is temporary: the bytes of refused records are wiped. Any other failure is
 * final.
 */
import assert from "node:assert/strict";
import type { Disk, DiskDone, DiskFile } from "../disk/disk.ts";
import { type FaultError, isDiskFull } from "../fault.ts";
import type { LocalLogOptions } from "./local-log.ts";
import { type Appended, appendsInFlightMax, type Frame, headerBytes, recordTypes } from "./log.ts";
import { asFault, storageFailed } from "./log-fault.ts";
import { chainAfter, chainStart, frameBytes, sealRecord } from "./record.ts";
import { segmentName } from "./segment.ts";
import { closeSegment, type Handles, openFiles, type Segment } from "./segment-files.ts";
import { type SegmentPool, writeZeros } from "./segment-pool.ts";

/** A larger frame does not overlap: writing it takes so long that overlapping gains little. */
const overlapBytesMax = 256 * 1024;

export interface AppendsParts {
  readonly disk: Disk;
  readonly options: LocalLogOptions;
  readonly pool: SegmentPool;
  readonly segments: Segment[];
  readonly lastIndex: number;
  readonly chain: Buffer;
}

export class Appends {
  readonly #parts: AppendsParts;
  readonly #syncs: boolean;
  readonly #slots: readonly Flight[];
  /** Oldest first. */
  readonly #flights: Flight[] = [];
  /** `failed`: one append has failed and the others have not ended yet. */
  #state: "overlapping" | "alone" | "failed" | "refusing" = "overlapping";
  /** The index of the newest acknowledged record. */
  lastIndex: number;
  /** Everything up to this index is on the disk. */
  syncedIndex: number;
  /** A final failure, which answers every later call. */
  fault: FaultError | undefined;
  #chain: Buffer;
  /** Bytes of refused records may lie behind the last record, up to this offset; 0 when there are none. */
  #uncleanTo = 0;
  #directoryUnsynced = false;
  /**
   * The last segment was written by an earlier process. Nothing is added to it: bytes that a start wiped may come
   * back, when the sync of the wiping failed and the next process saw the wiped pages in memory.
   */
  #mustRotate: boolean;
  #idle: PromiseWithResolvers<void> | undefined;

  constructor(parts: AppendsParts) {
    this.#parts = parts;
    this.#syncs = parts.options.durability === "fsync";
    const events = { written: this.#written.bind(this), synced: this.#synced.bind(this) };
    this.#slots = Array.from({ length: appendsInFlightMax }, (_, at) => new Flight(at, events));
    this.lastIndex = parts.lastIndex;
    this.syncedIndex = parts.lastIndex;
    this.#chain = parts.chain;
    this.#mustRotate = (parts.segments.at(-1)?.endBytes ?? 0) > 0;
  }

  get canAppend(): boolean {
    return this.#state === "overlapping" && this.#flights.length < appendsInFlightMax;
  }

  append(frame: Frame, appended: Appended): void {
    const flight = this.canAppend ? this.#slots.find(isFree) : undefined;
    assert(flight !== undefined, "append is called only when it can be");
    assert(
      frame.buffer.length >= frameBytes(frame.bodyBytes),
      "a frame has room for the header and the padding",
    );
    flight.take(frame, appended);
    flight.startedMs = this.#parts.options.monotonicMs();
    flight.index = this.lastIndex + this.#pending() + 1;
    this.#flights.push(flight);
    this.#advance();
  }

  /** Waits for the end of the appends that are under way. */
  async idle(): Promise<void> {
    if (this.#flights.length === 0) return;
    this.#idle ??= Promise.withResolvers();
    await this.#idle.promise;
  }

  /** Remembers the first final fault. */
  fail(error: unknown, what: string): FaultError {
    this.fault ??= storageFailed(error, what);
    return this.fault;
  }

  /** How many flights are not part of the log yet. */
  #pending(): number {
    let counted = 0;
    for (const { state } of this.#flights) if (state === "counted") counted += 1;
    return this.#flights.length - counted;
  }

  /** Starts waiting flights, as far as they may start. */
  #advance(): void {
    let before: Flight | undefined;
    for (const flight of this.#flights) {
      if (flight.state === "waiting") this.#start(flight, before);
      // Records are written in order, so the next one waits until this one is written.
      if (flight.state === "waiting" || flight.state === "writing") return;
      before = flight;
    }
  }

  /** `before` is written and not released yet, if there is one. */
  #start(flight: Flight, before: Flight | undefined): void {
    if (this.#state !== "overlapping") return;
    const segment = this.#parts.segments.at(-1);
    const offset = before === undefined ? (segment?.endBytes ?? 0) : endOf(before);
    if (segment !== undefined && this.#mayOverlap(segment, offset + flight.bytes, flight)) {
      this.#place(flight, segment, offset);
      this.#seal(flight, before?.chain ?? this.#chain);
      fileOf(flight).writeThen(imageOf(flight), offset, flight.written);
    } else if (before === undefined) void this.#appendAlone(flight);
  }

  /** Whether nothing but a write is needed before the sync. */
  #mayOverlap(segment: Segment, end: number, { bytes }: Flight): boolean {
    return (
      segment.files !== undefined &&
      end <= segment.capacityBytes &&
      bytes <= overlapBytesMax &&
      this.#uncleanTo === 0 &&
      !this.#mustRotate &&
      !this.#directoryUnsynced
    );
  }

  #place(flight: Flight, segment: Segment, offset: number): void {
    flight.state = "writing";
    flight.segment = segment;
    flight.offset = offset;
  }

  #seal(flight: Flight, chain: Buffer): void {
    const { shard, epoch, writer } = this.#parts.options;
    const { frame, index } = flight;
    const { type, opCount, bodyBytes, timeMs, buffer } = frame;
    const unsyncedBefore = index - 1 - this.syncedIndex;
    sealRecord(buffer, {
      type,
      shard,
      opCount,
      bodyBytes,
      epoch,
      index,
      writer,
      timeMs,
      unsyncedBefore,
      chain,
    });
    flight.chain = chainAfter(buffer.subarray(0, headerBytes));
  }

  #written(flight: Flight, error: Error | null): void {
    if (error !== null) {
      this.#failed(flight, error);
      return;
    }
    if (this.#syncs) {
      flight.state = "syncing";
      flight.syncStartedMs = this.#parts.options.monotonicMs();
      fileOf(flight).syncThen(flight.synced);
    } else {
      flight.state = "kept";
      queueMicrotask(this.#settle);
    }
    if (this.#flights.at(-1) !== flight) this.#advance();
  }

  #synced(flight: Flight, error: Error | null): void {
    if (error !== null) {
      this.#failed(flight, error);
      return;
    }
    const { onSync, monotonicMs } = this.#parts.options;
    onSync?.((monotonicMs() - flight.syncStartedMs) / 1000);
    flight.state = "kept";
    this.#settle();
  }

  #failed(flight: Flight, error: unknown): void {
    flight.state = "failed";
    flight.error = error;
    this.#state = "failed";
    // `append` returns before its callback is called.
    queueMicrotask(this.#settle);
  }

  /** Acknowledges kept flights from the front, then refuses or starts the others. */
  readonly #settle = (): void => {
    const flights = this.#flights;
    for (const flight of flights) {
      if (flight.state !== "kept") break;
      this.#count(flight);
    }
    // Each makes room for another append, which its caller may start before the next flight is acknowledged.
    while (flights[0]?.state === "counted") {
      const { appended, index } = flights[0];
      flights.shift()?.release();
      appended(undefined, index);
    }
    if (this.#state === "failed") {
      if (!flights.some(isUnderWay)) void this.#refuse();
    } else this.#advance();
    this.#notifyIdle();
  };

  /** Makes a record part of the log. */
  #count(flight: Flight): void {
    const { index, bytes, segment } = flight;
    assert(segment !== undefined, "what was kept has a place");
    flight.state = "counted";
    segment.endBytes = endOf(flight);
    segment.lastIndex = index;
    this.lastIndex = index;
    this.#chain = flight.chain;
    if (this.#syncs) this.syncedIndex = index;
    const { options, pool } = this.#parts;
    if (segment.endBytes * 2 >= segment.capacityBytes) pool.prepareAhead();
    options.onAppend?.((options.monotonicMs() - flight.startedMs) / 1000, bytes);
  }

  #notifyIdle(): void {
    if (this.#flights.length > 0) return;
    this.#idle?.resolve();
    this.#idle = undefined;
  }

  async #appendAlone(flight: Flight): Promise<void> {
    this.#state = "alone";
    try {
      await this.#wipe();
      const segment = await this.#segmentFor(flight.bytes);
      this.#place(flight, segment, segment.endBytes);
      this.#seal(flight, this.#chain);
      await fileOf(flight).write(imageOf(flight), flight.offset);
      if (this.#syncs) await this.#syncFile(fileOf(flight));
      flight.state = "kept";
      this.#state = "overlapping";
    } catch (error) {
      flight.state = "failed";
      flight.error = error;
      this.#state = "failed";
    }
    this.#settle();
  }

  async #syncFile(file: DiskFile): Promise<void> {
    const { onSync, monotonicMs } = this.#parts.options;
    const startedMs = monotonicMs();
    await file.sync();
    onSync?.((monotonicMs() - startedMs) / 1000);
  }

  /** None of the flights is under way. */
  async #refuse(): Promise<void> {
    this.#state = "refusing";
    const fault = await this.#faultOf(this.#flights);
    const refused = this.#flights.splice(0).map((flight) => {
      const { appended, index } = flight;
      flight.release();
      return { appended, index };
    });
    this.#state = "overlapping";
    for (const { appended, index } of refused) appended(fault, index);
    this.#notifyIdle();
  }

  /** Wipes what a full disk left of the flights; any other failure is final. */
  async #faultOf(flights: readonly Flight[]): Promise<FaultError> {
    const errors = flights.filter(({ state }) => state === "failed").map(({ error }) => error);
    const final = errors.find((error) => !isDiskFull(error));
    if (final !== undefined) return this.fail(final, "Writing to the log failed");
    for (const { segment, offset } of flights) {
      if (segment !== undefined) this.#uncleanTo = Math.max(this.#uncleanTo, offset + headerBytes);
    }
    try {
      await this.#wipe();
    } catch (error) {
      // A disk so full that it cannot take an overwrite: the next append wipes before it writes.
      if (!isDiskFull(error)) return this.fail(error, "Writing to the log failed");
    }
    return asFault(errors[0], "Writing to the log failed");
  }

  /** Makes the place after the last record empty again after appends that failed. */
  async #wipe(): Promise<void> {
    const segment = this.#parts.segments.at(-1);
    if (this.#uncleanTo === 0 || segment?.files === undefined) return;
    if (this.#syncs) await forgetFailures(segment.files);
    const [file] = segment.files;
    await writeZeros(file, segment.endBytes, this.#uncleanTo);
    // A write that lacks only padding left a whole record, which must not come back.
    await this.#syncWiped(file);
    this.#uncleanTo = 0;
  }

  async #syncWiped(file: DiskFile): Promise<void> {
    try {
      await file.sync();
    } catch (error) {
      if (this.syncedIndex === this.lastIndex) throw error;
      throw this.fail(error, "Syncing the log failed");
    }
  }

  /** The last segment, after making sure that `bytes` fit behind its end. */
  async #segmentFor(bytes: number): Promise<Segment> {
    const { segments, disk } = this.#parts;
    let segment = segments.at(-1);
    // A new segment whose opening failed still exists, and its name is taken.
    if (segment !== undefined) segment.files ??= await this.#open(segment.name);
    const isFull = segment !== undefined && segment.endBytes + bytes > segment.capacityBytes;
    if (segment === undefined || isFull || this.#mustRotate) {
      if (segment !== undefined && segment.endBytes === 0) await extend(segment, bytes);
      else segment = await this.#rotate(segment, bytes);
    }
    if (this.#directoryUnsynced) await disk.syncDirectory();
    this.#directoryUnsynced = false;
    return segment;
  }

  async #rotate(full: Segment | undefined, bytes: number): Promise<Segment> {
    const { pool, segments } = this.#parts;
    const { lastIndex } = this;
    const firstIndex = lastIndex + 1;
    const name = segmentName(firstIndex);
    const capacityBytes = await pool.provide(name, bytes);
    this.#directoryUnsynced = true;
    const place = { name, firstIndex, lastIndex, endBytes: 0, capacityBytes };
    const segment: Segment = { ...place, files: undefined };
    segments.push(segment);
    this.#mustRotate = false;
    segment.files = await this.#open(name);
    if (full !== undefined && full.lastIndex <= this.syncedIndex) await closeSegment(full);
    return segment;
  }

  #open(name: string): Promise<Handles> {
    return openFiles(this.#parts.disk, name, this.#syncs ? appendsInFlightMax : 1);
  }
}

/** For a segment without records that already has the name of the new one. */
async function extend(segment: Segment, bytes: number): Promise<void> {
  assert(segment.files !== undefined, "the last segment is open");
  const [file] = segment.files;
  await writeZeros(file, segment.capacityBytes, bytes);
  await file.sync();
  segment.capacityBytes = bytes;
}

/**
 * Makes each handle report pending failures. They concern refused records only, because every other record
 * was synced successfully.
 */
async function forgetFailures(files: readonly DiskFile[]): Promise<void> {
  for (const file of files) {
    await file.sync().catch((error: unknown) => {
      if (!isDiskFull(error)) throw error;
    });
  }
}

/** Without syncs, all flights use one handle. */
function fileOf({ segment, slot }: Flight): DiskFile {
  const file = segment?.files?.[slot] ?? segment?.files?.[0];
  assert(file !== undefined, "what is written has an open segment");
  return file;
}

function imageOf({ frame: { buffer }, bytes }: Flight): Buffer {
  return buffer.length === bytes ? buffer : buffer.subarray(0, bytes);
}

function endOf({ offset, bytes }: Flight): number {
  return offset + bytes;
}

function isFree({ state }: Flight): boolean {
  return state === "free";
}

function isUnderWay({ state }: Flight): boolean {
  return state === "writing" || state === "syncing";
}

type FlightState = "free" | "waiting" | "writing" | "syncing" | "kept" | "counted" | "failed";

interface FlightEvents {
  written(flight: Flight, error: Error | null): void;
  synced(flight: Flight, error: Error | null): void;
}

const noFrame: Frame = {
  buffer: Buffer.alloc(0),
  bodyBytes: 0,
  opCount: 0,
  timeMs: 0,
  type: recordTypes.batches,
};
const noCaller: Appended = () => {};

/**
 * One record on its way to the disk. A log has as many of these as appends may overlap and reuses them; each
 * has a file handle of its own by its `slot`.
 *
 * States: free; waiting (for earlier records to be written); writing; syncing; kept (as durable as the mode
 * promises); counted (part of the log, and its caller is about to be notified); failed.
 */
class Flight {
  readonly slot: number;
  /** Created once, because every append needs them. */
  readonly written: DiskDone;
  readonly synced: DiskDone;
  state: FlightState = "free";
  frame: Frame = noFrame;
  appended: Appended = noCaller;
  index = 0;
  bytes = 0;
  /** The segment that the record is written to; undefined before that. */
  segment: Segment | undefined;
  offset = 0;
  /** The link that the record after this one carries. */
  chain: Buffer = chainStart;
  startedMs = 0;
  syncStartedMs = 0;
  error: unknown;

  constructor(slot: number, events: FlightEvents) {
    this.slot = slot;
    this.written = (error) => events.written(this, error);
    this.synced = (error) => events.synced(this, error);
  }

  take(frame: Frame, appended: Appended): void {
    this.state = "waiting";
    this.frame = frame;
    this.appended = appended;
    this.bytes = frameBytes(frame.bodyBytes);
  }

  /** Drops all references to the record. */
  release(): void {
    this.state = "free";
    this.frame = noFrame;
    this.appended = noCaller;
    this.segment = undefined;
    this.error = undefined;
  }
}
