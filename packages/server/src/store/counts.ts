/**
 * How many tasks each queue has in each index. Kept in the kv by the flush itself: index keys are
 * created and deleted exactly once, so the net effect of a flush tells how the numbers changed, and
 * a restart reads them instead of counting.
 */
import type { KvWrite, OverlayEntry } from "@codeq/engine";
import type { TenantId } from "@codeq/queue";
import {
  countsKey,
  delayedPrefix,
  inProgressPrefix,
  numberOf,
  parseIndexKey,
  priorityOf,
  queuePrefix,
  queuesPrefix,
  sequenceKey,
} from "./keys.ts";

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
  // Neighbours are mostly of the same queue, and reading a key in full costs much more.
  let prefix = "";
  let counts = noCounts();
  for (const [key, entry] of entries) {
    if (!key.startsWith(queuesPrefix)) continue;
    if (prefix === "" || !key.startsWith(prefix)) {
      const { queue, tenantId } = parseIndexKey(key);
      prefix = queuePrefix(queue, tenantId);
      counts = countsOf(queues, queue, tenantId);
    }
    const change = entry.isDeleted ? -1 : Number(entry.born);
    const isPending = addToCounts(counts, key.slice(prefix.length), change);
    if (isPending && change === 1) sequence = Math.max(sequence, numberOf(key));
  }
  return { queues, sequence };
}

function countsOf(queues: Map<string, CountsOfQueue>, queue: string, tenantId: TenantId): Counts {
  const key = countsKey(queue, tenantId);
  const found = queues.get(key) ?? { queue, tenantId, counts: noCounts() };
  queues.set(key, found);
  return found.counts;
}

/** Takes what follows the queue's prefix; tells whether it is in the pending index. */
function addToCounts(counts: Counts, rest: string, change: number): boolean {
  const priority = priorityOf(rest);
  if (priority !== undefined) {
    counts.ready[priority] = (counts.ready[priority] ?? 0) + change;
    return true;
  }
  if (rest.startsWith(delayedPrefix(""))) counts.delayed += change;
  else if (rest.startsWith(inProgressPrefix(""))) counts.leased += change;
  else counts.dead += change;
  return false;
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
