/**
 * How many failures each failure group has by queue: in all, and by the hour of their end. Like the counts of queues,
 * these counters are derived from the tasks by every flush, so they agree with the tasks after any crash. The totals have
 * counters of their own, so that a list of groups reads no more of them after a week of failures than after an hour.
 */
import type { KvWrite } from "@codeq/engine";
import { queueOf, type Task, type TenantId } from "@codeq/queue";
import { failureCountsKey, parseFailureCountsKey } from "../store/keys.ts";
import { groupOfTask } from "./failure-fingerprint.ts";

/** The hour of a counter for all hours. */
export const allHours = 0;

export interface FailureCell {
  readonly tenantId: TenantId;
  readonly group: string;
  readonly queue: string;
  /** Hours since 1970, or `allHours`. */
  readonly hour: number;
  dead: number;
  failed: number;
}

export interface WantedCells {
  /** The group after which totals begin; empty for the first. */
  readonly after: string;
  /** Only this one. */
  readonly group?: string | undefined;
  readonly limit: number;
  /** Hours whose counters are wanted besides. */
  readonly hours: readonly number[];
}

export interface FoundCells {
  readonly cells: readonly FailureCell[];
  readonly next: string | undefined;
}

const hourMs = 60 * 60 * 1000;

export function hourOf(ms: number): number {
  return Math.floor(ms / hourMs);
}

/** Changes of counters by their keys. */
export class FailureChanges {
  readonly cells: Map<string, FailureCell> = new Map();

  add(task: Task, change: number): void {
    const { tenantId, command, place } = task;
    if (place.in !== "dead" && place.in !== "done") return;
    const of = { tenantId, group: groupOfTask(task), queue: queueOf(command) };
    for (const hour of [allHours, hourOf(place.atMs)]) {
      const key = failureCountsKey({ ...of, hour });
      let cell = this.cells.get(key);
      if (cell === undefined) {
        cell = { ...of, hour, dead: 0, failed: 0 };
        this.cells.set(key, cell);
      }
      cell[place.in === "dead" ? "dead" : "failed"] += change;
    }
  }

  /** The writes that a flush adds. */
  *writes(get: (key: string) => Buffer | undefined): Generator<KvWrite> {
    for (const [key, change] of this.cells) {
      const stored = get(key);
      const sum = stored === undefined ? change : addCell(decodeCell(key, stored), change);
      yield { key, value: isEmptyCell(sum) ? undefined : encodeCell(sum) };
    }
  }
}

export function isEmptyCell({ dead, failed }: FailureCell): boolean {
  return dead + failed === 0;
}

export function addCell(to: FailureCell, change: FailureCell): FailureCell {
  return { ...to, dead: to.dead + change.dead, failed: to.failed + change.failed };
}

function encodeCell({ dead, failed }: FailureCell): Buffer {
  return Buffer.from(`${dead} ${failed}`, "latin1");
}

export function decodeCell(key: string, bytes: Buffer): FailureCell {
  const numbers = bytes.toString("latin1").split(" ").map(Number);
  const [dead = 0, failed = 0] = numbers;
  return { ...parseFailureCountsKey(key), dead, failed };
}
