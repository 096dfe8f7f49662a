/**
 * Inspects a log without changing it, also while a server writes it: then the end may move, or show
 * a half-written record, and the findings are true only for the moment of reading.
 */
import { decodeBody, type OpKind, opKinds } from "../batch-codec.ts";
import type { ReadableDisk } from "../disk/disk.ts";
import { FaultError } from "../fault.ts";
import { type LogCut, type RecoveredSegment, type Survey, surveyLog } from "./recover-log.ts";
import { inspectSegment, segmentFirstIndex } from "./segment.ts";

/**
 * What opening the log would do: take it as it is, cut off a tail that was never acknowledged as
 * durable, or refuse it because something durable is missing.
 */
export type LogVerdict =
  | { readonly state: "sound" }
  | { readonly state: "cut"; readonly cut: LogCut }
  | { readonly state: "damaged"; readonly problem: string };

export interface InspectedSegment {
  readonly name: string;
  readonly firstIndex: number;
  /** One less than `firstIndex` when it holds no record. */
  readonly lastIndex: number;
  readonly usedBytes: number;
  readonly fileBytes: number;
}

export interface InspectedLog {
  readonly segments: readonly InspectedSegment[];
  readonly verdict: LogVerdict;
}

export async function inspectLog(disk: ReadableDisk): Promise<InspectedLog> {
  const { segments, verdict } = await judge(disk);
  const inspected: InspectedSegment[] = [];
  for (const { name, firstIndex, lastIndex, endBytes } of segments) {
    const usedBytes = endBytes;
    inspected.push({ name, firstIndex, lastIndex, usedBytes, fileBytes: await sizeOf(disk, name) });
  }
  return { segments: inspected, verdict };
}

async function judge(
  disk: ReadableDisk,
): Promise<{ segments: readonly RecoveredSegment[]; verdict: LogVerdict }> {
  let survey: Survey;
  try {
    survey = await surveyLog(disk);
  } catch (error) {
    if (!(error instanceof FaultError)) throw error;
    const segments = await countRecords(disk);
    return { segments, verdict: { state: "damaged", problem: error.message } };
  }
  const { segments, tail } = survey;
  if (tail?.cut === undefined) return { segments, verdict: { state: "sound" } };
  return { segments, verdict: { state: "cut", cut: tail.cut } };
}

/** Counts the undamaged records of each segment, whether or not they belong to the log. */
async function countRecords(disk: ReadableDisk): Promise<RecoveredSegment[]> {
  const segments: RecoveredSegment[] = [];
  for (const name of await disk.list()) {
    const firstIndex = segmentFirstIndex(name);
    if (firstIndex === undefined) continue;
    const segment = { name, firstIndex, lastIndex: firstIndex - 1, endBytes: 0 };
    for await (const record of recordsOf(disk, name)) {
      segment.lastIndex = record.index;
      segment.endBytes = record.offset + record.bytes;
    }
    segments.push(segment);
  }
  return segments;
}

async function sizeOf(disk: ReadableDisk, name: string): Promise<number> {
  const file = await disk.open(name);
  try {
    return await file.size();
  } finally {
    await file.close();
  }
}

export interface InspectedRecord {
  readonly segment: string;
  readonly offset: number;
  /** The size of header and body. */
  readonly bytes: number;
  readonly index: number;
  readonly timeMs: number;
  readonly opCount: number;
  /** Records directly before it that were not yet known to be durable when it was written. */
  readonly unsyncedBefore: number;
  /** The ops in the order in which they are applied; undefined when the body cannot be read. */
  readonly ops: readonly InspectedOp[] | undefined;
}

/** A change of a key or row, without the value, which may contain user data. */
export interface InspectedOp {
  readonly kind: keyof typeof opKinds;
  /** The id of a row. */
  readonly key: string;
  readonly valueBytes: number;
}

/** The records from an index on that belong to the log, oldest first. */
export async function* readLog(
  disk: ReadableDisk,
  segments: readonly InspectedSegment[],
  from: number,
): AsyncGenerator<InspectedRecord, void, void> {
  for (const { name, firstIndex, lastIndex, usedBytes } of segments) {
    if (lastIndex < from || lastIndex < firstIndex) continue;
    for await (const record of recordsOf(disk, name, usedBytes)) {
      if (record.index >= from) yield record;
    }
  }
}

/** Whole records in the order of the file, as long as their indexes grow. */
async function* recordsOf(
  disk: ReadableDisk,
  segment: string,
  end?: number,
): AsyncGenerator<InspectedRecord, void, void> {
  // Lower indexes are records from an earlier use of the file.
  let last = (segmentFirstIndex(segment) ?? 1) - 1;
  for await (const entry of inspectSegment(disk, segment, end)) {
    if (!entry.ok || entry.header.index <= last) continue;
    const { index, timeMs, opCount, unsyncedBefore } = entry.header;
    last = index;
    const bytes = entry.headerImage.length + entry.body.length;
    const place = { segment, offset: entry.offset, bytes };
    yield { ...place, index, timeMs, opCount, unsyncedBefore, ops: opsOf(entry.body) };
  }
}

const kindNames: Readonly<Record<OpKind, InspectedOp["kind"]>> = {
  [opKinds.put]: "put",
  [opKinds.create]: "create",
  [opKinds.delete]: "delete",
  [opKinds.rowCreated]: "rowCreated",
  [opKinds.rowChanged]: "rowChanged",
  [opKinds.rowDeleted]: "rowDeleted",
};

function opsOf(body: Buffer): readonly InspectedOp[] | undefined {
  try {
    return Array.from(decodeBody(body), ({ kind, key, value }) => {
      return { kind: kindNames[kind], key, valueBytes: value.end - value.start };
    });
  } catch (error) {
    if (error instanceof FaultError) return undefined;
    throw error;
  }
}
