/**
 * How many tasks each queue has in each index. Kept in the kv by the flush itself: index keys are
 * created and deleted exactly once, so the net effect of a flush tells how the numbers changed, and
 * a restart reads them instead of counting.
 */
import type { KvWrite, OverlayEntry } from "@codeq/engine";
import type { TenantId } from "@codeq/queue";
import { countsKey, numberOf, parseIndexKey, queuesPrefix, sequenceKey } from "./keys.ts";

export interface Counts {
  /** By priority. */
  readonly ready: number[];
  delayed: number;
  leased: number;
  dead: number;
}

export function noCounts(): Counts {
  return { ready: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0], delayed: 0, leased: 0, dead: 0 };
}

export function decodeCounts(bytes: Buffer): Counts {
  const [delayed, leased, dead, ...ready] = bytes.toString("latin1").split(" ").map(Number) as [
    number,
    number,
    number,
    ...number[],
  ];
  return { ready, delayed, leased, dead };
}

function encodeCounts(counts: Counts): Buffer {
  const { delayed, leased, dead, ready } = counts;
  return Buffer.from([delayed, leased, dead, ...ready].join(" "), "latin1");
}

export function isEmpty(counts: Counts): boolean {
  const { delayed, leased, dead, ready } = counts;
  return delayed === 0 && leased === 0 && dead === 0 && ready.every((count) => count === 0);
}

export interface CountsOfQueue {
  readonly queue: string;
  readonly tenantId: TenantId;
  readonly counts: Counts;
}

/** What the entries change, per queue, and the highest sequence number among them. */
export function changeOfCounts(entries: Iterable<readonly [string, OverlayEntry]>): {
  readonly queues: ReadonlyMap<string, CountsOfQueue>;
  readonly sequence: number;
} {
  const queues = new Map<string, CountsOfQueue>();
  let sequence = 0;
  for (const [key, entry] of entries) {
    if (!key.startsWith(queuesPrefix)) continue;
    const change = entry.isDeleted ? -1 : Number(entry.born);
    const { queue, tenantId, kind, priority } = parseIndexKey(key);
    const of = countsKey(queue, tenantId);
    let found = queues.get(of);
    if (found === undefined) {
      found = { queue, tenantId, counts: noCounts() };
      queues.set(of, found);
    }
    addToCounts(found.counts, { kind, priority }, change);
    if (kind === "pending" && change === 1) sequence = Math.max(sequence, numberOf(key));
  }
  return { queues, sequence };
}

function addToCounts(
  counts: Counts,
  at: { readonly kind: string; readonly priority: number },
  change: number,
): void {
  if (at.kind === "pending") counts.ready[at.priority] = (counts.ready[at.priority] ?? 0) + change;
  else if (at.kind === "delayed") counts.delayed += change;
  else if (at.kind === "inprog") counts.leased += change;
  else counts.dead += change;
}

export function addCounts(to: Counts, change: Counts): Counts {
  return {
    ready: to.ready.map((count, priority) => count + (change.ready[priority] ?? 0)),
    delayed: to.delayed + change.delayed,
    leased: to.leased + change.leased,
    dead: to.dead + change.dead,
  };
}

/** The writes a flush adds so that counts and sequence match the keys it writes. */
export function deriveCounts(
  entries: Iterable<readonly [string, OverlayEntry]>,
  get: (key: string) => Buffer | undefined,
): KvWrite[] {
  const writes: KvWrite[] = [];
  const { queues, sequence } = changeOfCounts(entries);
  for (const [key, { counts }] of queues) {
    const stored = get(key);
    const sum = addCounts(stored === undefined ? noCounts() : decodeCounts(stored), counts);
    writes.push({ key, value: isEmpty(sum) ? undefined : encodeCounts(sum) });
  }
  const storedSequence = Number(get(sequenceKey)?.toString("latin1") ?? 0);
  if (sequence > storedSequence) {
    writes.push({ key: sequenceKey, value: Buffer.from(String(sequence), "latin1") });
  }
  return writes;
}
