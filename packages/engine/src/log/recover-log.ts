/**
 * Finds the end of a log that some process left behind.
 *
 * First every segment is read, in order, and nothing is changed: each record must be whole, have
 * the next index, and be chained to the one before. Where that stops, everything behind is searched
 * for records that belong further on.
 *
 * - None: the end of the log, or a last record that was never finished. It is cut.
 * - Some, and each was written while the missing record was not yet durable: a power failure took
 *   it. The log is cut there. Where every append is synced that is one record, which overlapped with
 *   the missing one and was not acknowledged before it.
 * - Some, and one was written after the missing record had become durable: the disk broke a
 *   promise. The log is left as it is and opening fails.
 *
 * Only then is the cut made, so that no byte behind the end can be taken for a record later, and
 * whatever the next process relies on is written again and synced: a record that was read here must
 * not vanish in a power failure after the state built from it has been kept. To sync alone is not
 * enough. When the process before this one ended because a sync had failed, the system may hold the
 * record in memory, call it clean, and never write it.
 */
import type { Disk, DiskFile, ReadableDisk } from "../disk/disk.ts";
import { FaultError } from "../fault.ts";
import { headerBytes } from "./log.ts";
import { chainAfter, chainStart, frameBytes, type RecordHeader } from "./record.ts";
import { inspectSegment, type SegmentEntry, segmentFirstIndex } from "./segment.ts";
import { writeZeros } from "./segment-pool.ts";

const pieceBytes = 1024 * 1024;

export interface RecoveredSegment {
  readonly name: string;
  readonly firstIndex: number;
  /** One less than `firstIndex` when it holds no record. */
  lastIndex: number;
  /** Where the next record goes. */
  endBytes: number;
}

/**
 * What opening removed; worth a line in the server's own log. A torn record whose header did not
 * reach the disk looks like old bytes and is removed without being reported.
 */
export interface LogCut {
  readonly segment: string;
  readonly offset: number;
  /** Index of the record that was not whole. */
  readonly index: number;
  /** Whole records behind it that had to go too; one at most when each append was synced. */
  readonly recordsDropped: number;
}

export interface RecoveredLog {
  readonly segments: RecoveredSegment[];
  readonly lastIndex: number;
  readonly chain: Buffer;
  readonly cut: LogCut | undefined;
}

/** Conditions that the log has to meet before anything is changed. */
export interface Expected {
  /** The writer of every record. */
  readonly writer?: number;
  /** Throws when the log must not end with this record. */
  readonly check?: (lastIndex: number) => void;
}

export async function recoverLog(disk: Disk, expected: Expected = {}): Promise<RecoveredLog> {
  const survey = await surveyLog(disk, expected.writer);
  const { segments, progress, tail } = survey;
  expected.check?.(progress.expected - 1);
  await repair(disk, survey);
  return {
    segments: segments.slice(0, tail === undefined ? 0 : tail.position + 1).filter(hasRecords),
    lastIndex: progress.expected - 1,
    chain: progress.chain ?? chainStart,
    cut: tail?.cut,
  };
}

/** How far the records were read and are in order. */
interface Progress {
  expected: number;
  /** What the next record must carry; undefined while its predecessor is not in the log. */
  chain: Buffer | undefined;
  /** Below this index everything was durable before the crash. */
  durableBelow: number;
  /** Records that may not be on the disk, oldest first. */
  unsure: { readonly index: number; readonly segment: RecoveredSegment; readonly offset: number }[];
}

interface Tail {
  /** The segment in which the log ends. */
  readonly position: number;
  /** The bytes of that segment, from its end on, that could be mistaken for a record. */
  readonly zeroTo: number;
  readonly cut: LogCut | undefined;
}

export interface Survey {
  /** All segments in order, also those behind the end of the log. */
  readonly segments: RecoveredSegment[];
  readonly progress: Progress;
  readonly tail: Tail | undefined;
}

/** Reads everything and changes nothing. Throws what opening the log would throw. */
export async function surveyLog(disk: ReadableDisk, writer?: number): Promise<Survey> {
  const segments = await listSegments(disk);
  const first = segments[0]?.firstIndex ?? 1;
  const chain = first === 1 ? chainStart : undefined;
  const progress: Progress = { expected: first, chain, durableBelow: first, unsure: [] };
  for (const [position, segment] of segments.entries()) {
    const entries = ofStore(inspectSegment(disk, segment.name), segment, writer);
    try {
      const next = segments[position + 1];
      const stop = await acceptRecords(entries, { segment, next }, progress);
      if (next?.firstIndex === progress.expected) continue;
      const later = segments.slice(position + 1);
      const search = new Search(segment, progress, writer);
      if (stop !== undefined) search.consider(stop, segment);
      for await (const entry of entries) search.consider(entry, segment);
      for (const other of later) await search.segment(disk, other);
      return { segments, progress, tail: search.tail(position, stop) };
    } finally {
      await entries.return();
    }
  }
  return { segments, progress, tail: undefined };
}

/**
 * A segment that begins with a record of another store does not belong here. Further behind, such a record is
 * what the file held before it became a segment, and is ignored.
 */
async function* ofStore(
  entries: AsyncGenerator<SegmentEntry, void, void>,
  { name }: RecoveredSegment,
  writer: number | undefined,
): AsyncGenerator<SegmentEntry, void, void> {
  for await (const entry of entries) {
    const found = entry.header?.writer;
    if (writer === undefined || found === undefined || found === writer) {
      yield entry;
    } else if (entry.offset === 0) {
      throw new FaultError(
        "corrupt",
        `the log segment ${name} belongs to store ${found}, this is store ${writer}. Nothing was ` +
          "changed. Restore the whole data directory (kv and log together) from one backup.",
      );
    }
  }
}

async function listSegments(disk: ReadableDisk): Promise<RecoveredSegment[]> {
  const segments: RecoveredSegment[] = [];
  for (const name of await disk.list()) {
    const firstIndex = segmentFirstIndex(name);
    if (firstIndex === undefined) continue;
    segments.push({ name, firstIndex, lastIndex: firstIndex - 1, endBytes: 0 });
  }
  return segments;
}

/**
 * Takes records as long as they are the next; returns the entry that was not. A segment ends where the
 * next one begins: what lies behind that was cut before the next one was made.
 */
async function acceptRecords(
  entries: AsyncGenerator<SegmentEntry, void, void>,
  { segment, next }: { segment: RecoveredSegment; next: RecoveredSegment | undefined },
  progress: Progress,
): Promise<SegmentEntry | undefined> {
  // A `for await` would close the generator, and the rest of the segment is still to be read.
  for (;;) {
    if (progress.expected === next?.firstIndex) return undefined;
    const { value: entry } = await entries.next();
    if (!entry) return undefined;
    if (!entry.ok || !isNext(entry.header, progress)) return entry;
    progress.durableBelow = Math.max(progress.durableBelow, durableBelow(entry.header));
    progress.unsure.push({ index: progress.expected, segment, offset: entry.offset });
    dropDurable(progress);
    progress.expected += 1;
    progress.chain = chainAfter(entry.headerImage);
    segment.lastIndex = entry.header.index;
    segment.endBytes = entry.offset + frameBytes(entry.header.bodyBytes);
  }
}

function dropDurable({ unsure, durableBelow }: Progress): void {
  const kept = unsure.findIndex(({ index }) => index >= durableBelow);
  if (kept !== 0) unsure.splice(0, kept < 0 ? unsure.length : kept);
}

function isNext(header: RecordHeader, { expected, chain }: Progress): boolean {
  return header.index === expected && (chain === undefined || chain.equals(header.chain));
}

/** Every record below this index was durable when the one with this header was written. */
function durableBelow(header: RecordHeader): number {
  return header.index - header.unsyncedBefore;
}

/** Inspects the bytes behind the end of the log. */
class Search {
  readonly #end: RecoveredSegment;
  readonly #progress: Progress;
  readonly #writer: number | undefined;
  #recordsDropped = 0;
  #zeroTo: number;

  constructor(end: RecoveredSegment, progress: Progress, writer: number | undefined) {
    this.#writer = writer;
    this.#end = end;
    this.#progress = progress;
    this.#zeroTo = end.endBytes;
  }

  async segment(disk: ReadableDisk, segment: RecoveredSegment): Promise<void> {
    if (segment.firstIndex < this.#progress.expected) {
      throw this.#corrupt(`the segment ${segment.name} claims records that are already here`);
    }
    const entries = ofStore(inspectSegment(disk, segment.name), segment, this.#writer);
    for await (const entry of entries) this.consider(entry, segment);
  }

  consider(entry: SegmentEntry, segment: RecoveredSegment): void {
    const { header, offset } = entry;
    // Lower indexes are records from an earlier use of the file.
    if (header === undefined || header.index < this.#progress.expected) return;
    if (!entry.ok) throw newerVersion(header, segment, offset);
    const place = `record ${header.index} at offset ${offset} of ${segment.name}`;
    if (header.index === this.#progress.expected) {
      throw this.#corrupt(`${place} does not continue the record before it`);
    }
    if (durableBelow(header) > this.#progress.expected) {
      throw this.#corrupt(`${place} was written after the missing record had been made durable`);
    }
    this.#recordsDropped += 1;
    if (segment === this.#end) this.#zeroTo = offset + headerBytes;
  }

  tail(position: number, stop: SegmentEntry | undefined): Tail {
    if (this.#progress.chain === undefined) {
      throw this.#corrupt("the segment holds no record and the ones before it are gone");
    }
    const flaw = stop === undefined || stop.ok || stop.reason === "empty" ? undefined : stop;
    const zeroTo = flaw === undefined ? this.#zeroTo : flaw.offset + headerBytes;
    // Anything else is the rest of an earlier, longer record.
    const torn = flaw?.claimedIndex === this.#progress.expected;
    const cut: LogCut = {
      segment: this.#end.name,
      offset: this.#end.endBytes,
      index: this.#progress.expected,
      recordsDropped: this.#recordsDropped,
    };
    return {
      position,
      zeroTo: Math.max(zeroTo, this.#zeroTo),
      cut: torn || this.#recordsDropped > 0 ? cut : undefined,
    };
  }

  #corrupt(finding: string): FaultError {
    const { name, endBytes } = this.#end;
    return new FaultError(
      "corrupt",
      `The log is damaged: ${name}, offset ${endBytes}: expected record ` +
        `${this.#progress.expected}, but ${finding}. Nothing was changed; copy the directory ` +
        "and inspect the log in the copy.",
    );
  }
}

function newerVersion(header: RecordHeader, segment: RecoveredSegment, offset: number): FaultError {
  return new FaultError(
    "format",
    `${segment.name}, offset ${offset}: record ${header.index} has format version ` +
      `${header.version}, which this version cannot read. Nothing was changed; start the newer ` +
      "version that wrote it.",
  );
}

async function repair(disk: Disk, { segments, progress, tail }: Survey): Promise<void> {
  if (tail === undefined) return;
  // From the back, and each removal is synced, so that a crash in between leaves a log that is cut at the
  // same place. A segment without records is removed, too: wiped bytes could come back, see `Appends`.
  for (const segment of segments.slice(tail.position).reverse()) {
    const isCutOff = segment !== segments[tail.position];
    if (!isCutOff && hasRecords(segment)) continue;
    await disk.remove(segment.name);
    await disk.syncDirectory();
  }
  for (const segment of segments.slice(0, tail.position + 1).filter(hasRecords)) {
    const isLast = segment === segments[tail.position];
    if (!isLast && segment.lastIndex < progress.durableBelow) continue;
    const file = await disk.open(segment.name);
    try {
      const first = progress.unsure.find((record) => record.segment === segment);
      if (first !== undefined) await writeAgain(file, first.offset, segment.endBytes);
      if (isLast) await writeZeros(file, segment.endBytes, tail.zeroTo);
      await file.sync();
    } finally {
      await file.close();
    }
  }
  await disk.syncDirectory();
}

function hasRecords({ endBytes }: RecoveredSegment): boolean {
  return endBytes > 0;
}

async function writeAgain(file: DiskFile, from: number, to: number): Promise<void> {
  for (let offset = from; offset < to; offset += pieceBytes) {
    await file.write(await file.read(offset, Math.min(pieceBytes, to - offset)), offset);
  }
}
