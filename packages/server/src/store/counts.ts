/**
 * How many tasks each queue has in each index. Kept in the kv by the flush itself: a task is in the
 * index that its record says, so the net effect of a flush tells how the numbers changed, and a
 * restart reads them instead of counting.
 */
import type { KvWrite, OverlayEntry } from "@codeq/engine";
import { queueOf, type TenantId } from "@codeq/queue";
import { countsKey, numberOf, parseIndexKey, queuesPrefix, sequenceKey } from "./keys.ts";
import type { IndexedTask } from "./task-codec.ts";

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
  const changes = new Changes();
  for (const [key, entry] of entries) {
    if (entry.below !== undefined) changes.addTask(entry.below as IndexedTask, -1);
    if (entry.row !== undefined) changes.addTask(entry.row as IndexedTask, 1);
    // From a log that has index keys in it, or one that is set aside.
    else if (key.startsWith(queuesPrefix)) {
      changes.addKey(key, entry.isDeleted ? -1 : Number(entry.born));
    }
  }
  return changes;
}

class Changes {
  readonly queues: Map<string, CountsOfQueue> = new Map();
  sequence = 0;
  /** Neighbours are mostly of the same queue. */
  #last: { readonly command: string; readonly of: CountsOfQueue } | undefined;

  addTask({ tenantId, command, priority, place }: IndexedTask, change: number): void {
    if (place.in === "done") return;
    if (this.#last?.command !== command || this.#last.of.tenantId !== tenantId) {
      this.#last = { command, of: this.#of(queueOf(command), tenantId) };
    }
    const { counts } = this.#last.of;
    if (place.in === "ready") {
      addReady(counts, priority, change);
      if (change === 1) this.sequence = Math.max(this.sequence, place.seq);
    } else {
      counts[place.in] += change;
    }
  }

  addKey(key: string, change: number): void {
    const { queue, tenantId, kind, priority } = parseIndexKey(key);
    const { counts } = this.#of(queue, tenantId);
    if (kind === "pending") {
      addReady(counts, priority, change);
      if (change === 1) this.sequence = Math.max(this.sequence, numberOf(key));
    } else {
      counts[({ inprog: "leased", delayed: "delayed", dlq: "dead" } as const)[kind]] += change;
    }
  }

  #of(queue: string, tenantId: TenantId): CountsOfQueue {
    const key = countsKey(queue, tenantId);
    const found = this.queues.get(key) ?? { queue, tenantId, counts: noCounts() };
    this.queues.set(key, found);
    return found;
  }
}

function addReady({ ready }: Counts, priority: number, change: number): void {
  ready[priority] = (ready[priority] ?? 0) + change;
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
