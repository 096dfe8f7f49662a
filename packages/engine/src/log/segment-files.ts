/**
 * Segments as a log that is open knows them, with the handles of their files.
 *
 * Overlapping appends sync through separate handles. The system reports a failed write-back once to each
 * handle, so with a single handle the sync of a later record could get the failure of an earlier one, whose own
 * sync then succeeds.
 */
import type { Disk, DiskFile } from "../disk/disk.ts";
import type { RecoveredSegment } from "./recover-log.ts";

export type Handles = readonly [DiskFile, ...DiskFile[]];

export interface Segment extends RecoveredSegment {
  capacityBytes: number;
  /** Open while it is the last one or holds records that are not synced. */
  files: Handles | undefined;
}

export async function openSegments(
  disk: Disk,
  found: readonly RecoveredSegment[],
  handles: number,
): Promise<Segment[]> {
  const segments: Segment[] = [];
  for (const segment of found) {
    const files = await openFiles(disk, segment.name, segment === found.at(-1) ? handles : 1);
    segments.push({ ...segment, capacityBytes: await files[0].size(), files });
    if (segment !== found.at(-1)) await closeSegment(segments.at(-1));
  }
  return segments;
}

export async function openFiles(disk: Disk, name: string, handles: number): Promise<Handles> {
  const files: [DiskFile, ...DiskFile[]] = [await disk.open(name)];
  try {
    while (files.length < handles) files.push(await disk.open(name));
    return files;
  } catch (error) {
    for (const file of files) await file.close();
    throw error;
  }
}

export async function closeSegment(segment: Segment | undefined): Promise<void> {
  const files = segment?.files;
  if (segment === undefined || files === undefined) return;
  segment.files = undefined;
  for (const file of files) await file.close();
}
