/**
 * Reads records that are known to exist. All records were verified when the log was opened, or written
 * since, so a record that does not fit now was damaged in between.
 */
import type { Disk } from "../disk/disk.ts";
import { FaultError } from "../fault.ts";
import type { LogRecord } from "./log.ts";
import { asFault } from "./log-fault.ts";
import type { RecoveredSegment } from "./recover-log.ts";
import { inspectSegment } from "./segment.ts";

/** The records from index `from` to `last`, out of segments in order. */
export async function* readRecords(
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
