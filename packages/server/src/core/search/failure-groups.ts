/**
 * The failures of a tenant, grouped by fingerprint. Dead letters are read from their index and failed tasks
 * from their records, a bounded number at a time; the next request continues after them.
 */
import type { Task, TaskId, TenantId } from "@codeq/queue";
import { queueOf } from "@codeq/queue";
import type { FoundTasks, WantedTasks } from "../broker/queue.ts";
import { failureText, fingerprintOf } from "./failure-fingerprint.ts";
import { placeOf, type TaskFilter } from "./task-filter.ts";

export interface FailureGroup {
  readonly fingerprint: string;
  /** The text that the errors have in common. */
  readonly text: string;
  readonly dead: number;
  readonly failed: number;
  readonly firstMs: number;
  readonly lastMs: number;
  /** How many failures each queue has; only the first queues that were found. */
  readonly queues: Readonly<Record<string, number>>;
  /** How many failures there were in each hour; the last hour is the one of `trendEndMs`. */
  readonly trend: readonly number[];
  /** The last failure. */
  readonly example: { readonly id: TaskId; readonly error: string };
}

export interface WantedGroups {
  readonly tenantId: TenantId;
  /** `place` is dead, failed, or both when it is not given. */
  readonly filter: TaskFilter;
  /** `next` of the previous answer; empty for the first. */
  readonly after: string;
  /** Until when failures are counted by the hour. */
  readonly trendEndMs: number;
}

export interface FailureGroups {
  readonly groups: readonly FailureGroup[];
  readonly scanned: number;
  /** Where the next request continues; undefined at the end. */
  readonly next: string | undefined;
}

type FailurePlace = "dead" | "failed";

const pagesMax = 4;
const groupsMax = 1000;
const queuesMax = 20;
/** More than a page can have: a page ends by the number of tasks that it looked at. */
const pageTasks = 100_000;
const errorCharsMax = 1000;

/** Undefined when too many searches wait for their turn. */
export async function findFailureGroups(
  find: (wanted: WantedTasks) => Promise<FoundTasks | undefined>,
  { tenantId, filter, after, trendEndMs }: WantedGroups,
): Promise<FailureGroups | undefined> {
  const groups = new Map<string, FailureGroup>();
  const trends = new Trends(trendEndMs);
  let scanned = 0;
  let at = startOf(filter, after);
  for (let page = 0; page < pagesMax && at !== undefined && groups.size < groupsMax; page++) {
    const found = await find({
      tenantId,
      filter: { ...filter, place: at.place },
      order: "newest",
      after: at.after,
      limit: pageTasks,
    });
    if (found === undefined) return undefined;
    scanned += found.scanned;
    for (const task of found.tasks) {
      const fingerprint = addTask(groups, task);
      if (fingerprint !== undefined) trends.add(fingerprint, task);
    }
    at = nextOf(filter, at.place, found.next);
  }
  const next = at === undefined ? undefined : `${at.place}:${at.after}`;
  return { groups: [...groups.values()].map((group) => trends.on(group)), scanned, next };
}

const hourMs = 60 * 60 * 1000;
const trendHours = 24;

/** How many failures of each group there were in each of the last hours. */
class Trends {
  readonly #lastHour: number;
  readonly #counts: Map<string, number[]> = new Map();

  constructor(endMs: number) {
    this.#lastHour = Math.floor(endMs / hourMs);
  }

  add(fingerprint: string, { place }: Task): void {
    if (place.in !== "dead" && place.in !== "done") return;
    const at = trendHours - 1 - (this.#lastHour - Math.floor(place.atMs / hourMs));
    const counts = this.#counts.get(fingerprint) ?? new Array<number>(trendHours).fill(0);
    this.#counts.set(fingerprint, counts);
    if (at >= 0 && at < trendHours) counts[at] = (counts[at] ?? 0) + 1;
  }

  on(group: FailureGroup): FailureGroup {
    return { ...group, trend: this.#counts.get(group.fingerprint) ?? [] };
  }
}

/** Merges the groups of several shards; each shard continues by its own cursor. */
export function mergeFailureGroups(answers: readonly FailureGroups[]): FailureGroups {
  const groups = new Map<string, FailureGroup>();
  for (const group of answers.flatMap((answer) => answer.groups)) {
    const before = groups.get(group.fingerprint);
    groups.set(group.fingerprint, before === undefined ? group : merged(before, group));
  }
  const isOver = answers.every(({ next }) => next === undefined);
  const next = answers.map((answer) => answer.next ?? over).join(",");
  return {
    groups: [...groups.values()],
    scanned: answers.reduce((sum, answer) => sum + answer.scanned, 0),
    next: isOver ? undefined : next,
  };
}

const over = "over";
const cursorPattern = /^(?:(?:dead|failed):[0-9a-f-]{0,36}|over)$/;

/** Whether the text can be `next` of an answer. */
export function isCursor(text: string): boolean {
  return text.split(",").every((part) => cursorPattern.test(part));
}

/** Where one of several shards continues. */
export function afterOfShard(after: string, shard: number): string {
  return after.split(",")[shard] ?? "";
}

function merged(one: FailureGroup, other: FailureGroup): FailureGroup {
  const [first, last] = one.lastMs <= other.lastMs ? [one, other] : [other, one];
  const queues: Record<string, number> = { ...one.queues };
  for (const [queue, count] of Object.entries(other.queues)) {
    if (queue in queues || Object.keys(queues).length < queuesMax) {
      queues[queue] = (queues[queue] ?? 0) + count;
    }
  }
  return {
    fingerprint: one.fingerprint,
    text: one.text,
    dead: one.dead + other.dead,
    failed: one.failed + other.failed,
    firstMs: Math.min(first.firstMs, last.firstMs),
    lastMs: last.lastMs,
    queues,
    trend: one.trend.map((count, hour) => count + (other.trend[hour] ?? 0)),
    example: last.example,
  };
}

/** Returns the fingerprint of the group. */
function addTask(groups: Map<string, FailureGroup>, task: Task): string | undefined {
  const { place, error, id } = task;
  if (place.in !== "dead" && place.in !== "done") return undefined;
  const isDead = placeOf(task) === "dead";
  const fingerprint = fingerprintOf(error);
  const group: FailureGroup = {
    fingerprint,
    text: failureText(error),
    dead: isDead ? 1 : 0,
    failed: isDead ? 0 : 1,
    firstMs: place.atMs,
    lastMs: place.atMs,
    queues: { [queueOf(task.command)]: 1 },
    trend: [],
    example: { id, error: error.slice(0, errorCharsMax) },
  };
  const before = groups.get(fingerprint);
  groups.set(fingerprint, before === undefined ? group : merged(before, group));
  return fingerprint;
}

interface Position {
  readonly place: FailurePlace;
  readonly after: string;
}

function startOf({ place }: TaskFilter, after: string): Position | undefined {
  if (after === over) return undefined;
  const [at, id = ""] = after.split(":");
  if (at === "dead" || at === "failed") return { place: at, after: id };
  return { place: place === "failed" ? "failed" : "dead", after: "" };
}

/** Dead letters come first, then failed tasks. */
function nextOf(
  { place }: TaskFilter,
  at: FailurePlace,
  next: string | undefined,
): Position | undefined {
  if (next !== undefined) return { place: at, after: next };
  return at === "dead" && place === undefined ? { place: "failed", after: "" } : undefined;
}
