/**
 * The failures of a tenant, grouped by fingerprint. Counters of every group, queue and hour answer at once, with
 * complete groups. With a condition that the counters do not know, failures are read from their indexes, a bounded
 * number at a time; the next request continues after them.
 */
import type { Task, TaskId, TenantId } from "@codeq/queue";
import { queueOf } from "@codeq/queue";
import type { FoundTasks, WantedTasks } from "../broker/broker.ts";
import { allHours, type FailureCell, hourOf } from "../records/failure-counts.ts";
import { failureText, groupOfTask } from "../records/failure-fingerprint.ts";
import type { Store } from "../store/store.ts";
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
  /** `place` is dead, failed, or both when it is not given or `failure`. */
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
const totalsMax = 2000;
const conditionsOfCounters = ["queue", "place", "group"];

/** Undefined when too many searches wait for their turn. */
export function findFailureGroups(
  parts: {
    readonly store: Store;
    readonly find: (wanted: WantedTasks) => Promise<FoundTasks | undefined>;
  },
  wanted: WantedGroups,
): Promise<FailureGroups | undefined> {
  const given = Object.entries(wanted.filter).filter(([, value]) => value !== undefined);
  const isCounted = given.every(([name]) => conditionsOfCounters.includes(name));
  return isCounted ? countedGroups(parts.store, wanted) : searchedGroups(parts.find, wanted);
}

async function countedGroups(
  store: Store,
  { tenantId, filter, after, trendEndMs }: WantedGroups,
): Promise<FailureGroups | undefined> {
  const { queue, place, group } = filter;
  if (after === over) return { groups: [], scanned: 0, next: undefined };
  const start = after.startsWith(groupCursor) ? after.slice(groupCursor.length) : "";
  const hours = Array.from({ length: trendHours }, (_, back) => hourOf(trendEndMs) - back);
  const wanted = { after: start, group, limit: totalsMax, hours };
  const found = await store.failureCells(tenantId, wanted);
  if (found === undefined) return undefined;
  const cells = found.cells
    .map((cell) => ({
      ...cell,
      dead: place === "failed" ? 0 : cell.dead,
      failed: place === "dead" ? 0 : cell.failed,
    }))
    .filter((cell) => cell.dead + cell.failed > 0 && (queue === undefined || cell.queue === queue));
  const groups: FailureGroup[] = [];
  for (const [, ofGroup] of Map.groupBy(cells, (cell) => cell.group)) {
    const made = await groupOf(store, ofGroup, { trendEndMs, isOneQueue: queue !== undefined });
    if (made !== undefined) groups.push(made);
  }
  const next = found.next === undefined ? undefined : groupCursor + found.next;
  return {
    groups,
    scanned: groups.reduce((sum, { dead, failed }) => sum + dead + failed, 0),
    next,
  };
}

/** Undefined when all of its tasks have left meanwhile. */
async function groupOf(
  store: Store,
  cells: readonly FailureCell[],
  { trendEndMs, isOneQueue }: { readonly trendEndMs: number; readonly isOneQueue: boolean },
): Promise<FailureGroup | undefined> {
  const counts = new Map<string, number>();
  const trend = new Array<number>(trendHours).fill(0);
  let [dead, failed] = [0, 0];
  for (const cell of cells) {
    if (cell.hour !== allHours) {
      const at = trendHours - 1 - (hourOf(trendEndMs) - cell.hour);
      trend[at] = (trend[at] ?? 0) + cell.dead + cell.failed;
      continue;
    }
    dead += cell.dead;
    failed += cell.failed;
    counts.set(cell.queue, cell.dead + cell.failed);
  }
  const cell = cells[0] as FailureCell;
  const [first, last] = await Promise.all([
    endOfFailures(store, cell, { order: "oldest", isOneQueue }),
    endOfFailures(store, cell, { order: "newest", isOneQueue }),
  ]);
  if (first === undefined || last === undefined) return undefined;
  const queues = [...counts].sort(([, one], [, other]) => other - one).slice(0, queuesMax);
  return {
    fingerprint: cell.group,
    text: failureText(last.error),
    dead,
    failed,
    firstMs: endedMsOf(first),
    lastMs: endedMsOf(last),
    queues: Object.fromEntries(queues),
    trend,
    example: { id: last.id, error: last.error.slice(0, errorCharsMax) },
  };
}

/**
 * The first or the last failure by the time of its end. In one queue only, the oldest or the newest task, because the index
 * by time is for the group as a whole.
 */
async function endOfFailures(
  store: Store,
  { tenantId, group, queue: name }: FailureCell,
  { order, isOneQueue }: { readonly order: "newest" | "oldest"; readonly isOneQueue: boolean },
): Promise<Task | undefined> {
  const id = isOneQueue
    ? (await store.idsIn({ tenantId, name }, { place: { group }, limit: 1, order }))[0]
    : await store.endOfFailures({ tenantId, group }, order);
  return id === undefined ? undefined : store.task(id);
}

async function searchedGroups(
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
      trends.add(addTask(groups, task), task);
    }
    at = nextOf(filter, at.place, found.next);
  }
  const next = at === undefined ? undefined : `${at.place}:${at.after}`;
  return { groups: [...groups.values()].map((group) => trends.on(group)), scanned, next };
}

const trendHours = 24;

/** How many failures of each group there were in each of the last hours. */
class Trends {
  readonly #lastHour: number;
  readonly #counts: Map<string, number[]> = new Map();

  constructor(endMs: number) {
    this.#lastHour = hourOf(endMs);
  }

  add(fingerprint: string, task: Task): void {
    const at = trendHours - 1 - (this.#lastHour - hourOf(endedMsOf(task)));
    const counts = this.#counts.get(fingerprint) ?? new Array<number>(trendHours).fill(0);
    this.#counts.set(fingerprint, counts);
    if (at >= 0 && at < trendHours) counts[at] = (counts[at] ?? 0) + 1;
  }

  on(group: FailureGroup): FailureGroup {
    return { ...group, trend: this.#counts.get(group.fingerprint) ?? [] };
  }
}

/**
 * Merges the groups of several shards. Counted groups are merged up to the last group that all shards have answered
 * for; searches continue by a cursor of each shard.
 */
export function mergeFailureGroups(answers: readonly FailureGroups[]): FailureGroups {
  const reached = answers
    .flatMap(({ next }) => (next?.startsWith(groupCursor) === true ? [next] : []))
    .sort()[0];
  const isReached = ({ fingerprint }: FailureGroup): boolean =>
    reached === undefined || groupCursor + fingerprint <= reached;
  const groups = new Map<string, FailureGroup>();
  for (const group of answers.flatMap((answer) => answer.groups.filter(isReached))) {
    const before = groups.get(group.fingerprint);
    groups.set(group.fingerprint, before === undefined ? group : merged(before, group));
  }
  const isOver = answers.every(({ next }) => next === undefined);
  const next = answers.map((answer) => reached ?? answer.next ?? over).join(",");
  return {
    groups: [...groups.values()],
    scanned: answers.reduce((sum, answer) => sum + answer.scanned, 0),
    next: isOver ? undefined : next,
  };
}

const over = "over";
const groupCursor = "group:";
const cursorPattern = /^(?:(?:dead|failed):[0-9a-f-]{0,36}|group:[0-9a-f]{12}|over)$/;

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
function addTask(groups: Map<string, FailureGroup>, task: Task): string {
  const { error, id } = task;
  const atMs = endedMsOf(task);
  const isDead = placeOf(task) === "dead";
  const fingerprint = groupOfTask(task);
  const group: FailureGroup = {
    fingerprint,
    text: failureText(error),
    dead: isDead ? 1 : 0,
    failed: isDead ? 0 : 1,
    firstMs: atMs,
    lastMs: atMs,
    queues: { [queueOf(task.command)]: 1 },
    trend: [],
    example: { id, error: error.slice(0, errorCharsMax) },
  };
  const before = groups.get(fingerprint);
  groups.set(fingerprint, before === undefined ? group : merged(before, group));
  return fingerprint;
}

function endedMsOf({ place }: Task): number {
  return place.in === "dead" || place.in === "done" ? place.atMs : 0;
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
  return at === "dead" && place !== "dead" ? { place: "failed", after: "" } : undefined;
}
