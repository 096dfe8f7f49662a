/**
 * How many tasks each queue has in each index. The flush keeps these counters in the kv: the place of a task
 * is in its record, so the net effect of a flush gives the change of the counters, and a restart reads them
 * instead of counting.
 */
import type { KvWrite, OverlayEntry, RowEntry } from "@codeq/engine";
import { laneOf, queueOf, type Task, type TenantId } from "@codeq/queue";
import {
  countsKey,
  type LaneName,
  laneCountsKey,
  parseIndexKey,
  queuesPrefix,
  sequenceKey,
} from "../store/keys.ts";
import { FailureChanges } from "./failure-counts.ts";

const space = 0x20;
const digitZero = 0x30;
/** How many numbers come before those of the priorities. */
const fieldsBeforeReady = 5;

export interface Counts {
  /** One number for each priority. */
  readonly ready: number[];
  delayed: number;
  /** Callbacks of batches that have not ended. */
  held: number;
  leased: number;
  dead: number;
  /** Tasks that failed without becoming dead letters, until their retention ends. */
  failed: number;
}

export function noCounts(): Counts {
  const ready = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
  return { ready, delayed: 0, held: 0, leased: 0, dead: 0, failed: 0 };
}

export function decodeCounts(bytes: Buffer): Counts {
  const numbers = numbersIn(bytes);
  const [delayed = 0, held = 0, leased = 0, dead = 0, failed = 0] = numbers;
  return { ready: numbers.slice(fieldsBeforeReady), delayed, held, leased, dead, failed };
}

/** Whole numbers in decimal, separated by spaces. */
function numbersIn(bytes: Buffer): number[] {
  const numbers: number[] = [];
  let number = 0;
  for (const byte of bytes) {
    if (byte === space) {
      numbers.push(number);
      number = 0;
    } else number = number * 10 + byte - digitZero;
  }
  numbers.push(number);
  return numbers;
}

function encodeCounts(counts: Counts): Buffer {
  const { delayed, held, leased, dead, failed, ready } = counts;
  return Buffer.from([delayed, held, leased, dead, failed, ...ready].join(" "), "latin1");
}

/** Without any task, or a change that leaves all counts as they are. */
export function isEmpty({ delayed, held, leased, dead, failed, ready }: Counts): boolean {
  const others = delayed === 0 && held === 0 && leased === 0 && dead === 0 && failed === 0;
  return others && ready.every((count) => count === 0);
}

export interface CountsOfQueue {
  readonly queue: string;
  readonly tenantId: TenantId;
  readonly counts: Counts;
}

/** Ready tasks of a lane, by priority. */
export interface CountsOfLane extends LaneName {
  readonly ready: readonly number[];
}

export function decodeLaneCounts(bytes: Buffer): number[] {
  return numbersIn(bytes);
}

export function addReadyCounts(to: readonly number[], change: readonly number[]): number[] {
  return to.map((count, priority) => count + (change[priority] ?? 0));
}

/** Changes that were not flushed yet. */
interface Unflushed {
  readonly rows: Iterable<Pick<RowEntry, "row" | "below">>;
  readonly entries: Iterable<readonly [string, OverlayEntry]>;
}

/** The change of the counters for each queue and failure group, and the highest sequence number in the rows. */
export function changeOfCounts({ rows, entries }: Unflushed): {
  readonly queues: ReadonlyMap<string, CountsOfQueue>;
  readonly lanes: ReadonlyMap<string, CountsOfLane>;
  readonly failures: FailureChanges;
  readonly sequence: number;
} {
  const changes = new Changes();
  for (const { row, below } of rows) {
    if (below !== undefined) changes.addTask(below as Task, -1);
    if (row !== undefined) changes.addTask(row as Task, 1);
  }
  for (const [key, entry] of entries) {
    // An index key is removed without its task when the record of the task cannot be read.
    if (key.startsWith(queuesPrefix) && entry.isDeleted) changes.removeKey(key);
    // A store whose tasks were copied from another store continues its sequence.
    if (key === sequenceKey) changes.sequence = Math.max(changes.sequence, Number(entry.text));
  }
  return changes;
}

class Changes {
  readonly queues: Map<string, CountsOfQueue> = new Map();
  readonly lanes: Map<string, CountsOfLane & { readonly ready: number[] }> = new Map();
  readonly failures: FailureChanges = new FailureChanges();
  sequence = 0;
  /** Cached, because neighbours are mostly of the same queue. */
  #last: { readonly command: string; readonly of: CountsOfQueue } | undefined;

  addTask(task: Task, change: number): void {
    const { tenantId, command, priority, place } = task;
    if (place.in === "done" && place.how !== "failed") return;
    if (place.in === "done" || place.in === "dead") this.failures.add(task, change);
    if (this.#last?.command !== command || this.#last.of.tenantId !== tenantId) {
      this.#last = { command, of: this.#of(queueOf(command), tenantId) };
    }
    const { counts } = this.#last.of;
    if (place.in === "ready") {
      addReady(counts, priority, change);
      if (laneOf(task) !== "") {
        this.#addToLane(this.#last.of, laneOf(task), { priority, change });
      }
      if (change === 1) this.sequence = Math.max(this.sequence, place.seq);
    } else {
      counts[place.in === "done" ? "failed" : place.in] += change;
    }
  }

  removeKey(key: string): void {
    const { queue, tenantId, kind, priority, lane } = parseIndexKey(key);
    const of = this.#of(queue, tenantId);
    const { counts } = of;
    if (lane !== "") this.#addToLane(of, lane, { priority, change: -1 });
    if (kind === "pending") addReady(counts, priority, -1);
    else counts[placeOfKind[kind]] -= 1;
  }

  #addToLane(
    { queue: name, tenantId }: CountsOfQueue,
    lane: string,
    { priority, change }: { readonly priority: number; readonly change: number },
  ): void {
    const key = laneCountsKey({ tenantId, name, lane });
    const found = this.lanes.get(key) ?? { tenantId, name, lane, ready: [...noCounts().ready] };
    this.lanes.set(key, found);
    found.ready[priority] = (found.ready[priority] ?? 0) + change;
  }

  #of(queue: string, tenantId: TenantId): CountsOfQueue {
    const key = countsKey(queue, tenantId);
    const found = this.queues.get(key) ?? { queue, tenantId, counts: noCounts() };
    this.queues.set(key, found);
    return found;
  }
}

const placeOfKind = {
  inprog: "leased",
  delayed: "delayed",
  held: "held",
  dlq: "dead",
  failed: "failed",
} as const;

function addReady({ ready }: Counts, priority: number, change: number): void {
  ready[priority] = (ready[priority] ?? 0) + change;
}

export function addCounts(to: Counts, change: Counts): Counts {
  return {
    ready: to.ready.map((count, priority) => count + (change.ready[priority] ?? 0)),
    delayed: to.delayed + change.delayed,
    held: to.held + change.held,
    leased: to.leased + change.leased,
    dead: to.dead + change.dead,
    failed: to.failed + change.failed,
  };
}

/** The writes that a flush adds, so that counts and sequence match its keys. */
export function deriveCounts(
  unflushed: Unflushed,
  get: (key: string) => Buffer | undefined,
): KvWrite[] {
  const writes: KvWrite[] = [];
  const { queues, lanes, failures, sequence } = changeOfCounts(unflushed);
  for (const write of failures.writes(get)) writes.push(write);
  for (const [key, { ready }] of lanes) {
    if (ready.every((count) => count === 0)) continue;
    const stored = get(key);
    const sum = stored === undefined ? ready : addReadyCounts(decodeLaneCounts(stored), ready);
    const isGone = sum.every((count) => count === 0);
    writes.push({ key, value: isGone ? undefined : Buffer.from(sum.join(" "), "latin1") });
  }
  for (const [key, { counts }] of queues) {
    // Most queues of many take a task and give one between two flushes.
    if (!isEmpty(counts)) writes.push(sumWrite(key, counts, get(key)));
  }
  const storedSequence = Number(get(sequenceKey)?.toString("latin1") ?? 0);
  if (sequence > storedSequence) {
    writes.push({ key: sequenceKey, value: Buffer.from(String(sequence), "latin1") });
  }
  return writes;
}

function sumWrite(key: string, change: Counts, stored: Buffer | undefined): KvWrite {
  const sum = addCounts(stored === undefined ? noCounts() : decodeCounts(stored), change);
  return { key, value: isEmpty(sum) ? undefined : encodeCounts(sum) };
}
