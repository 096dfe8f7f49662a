/**
 * The verbs of a broker that travel to shards as JSON: which shards a router asks for each verb, and how it
 * merges their answers. To add a verb, write the method of the broker and add a row. Arguments and answers
 * may be undefined, but not null. A verb without a row has a method of its own in the router.
 */
import type { Task, TaskId, TenantId } from "@codeq/queue";
import type { BatchOf } from "../records/batch-record.ts";
import { addCounts, noCounts } from "../records/counts.ts";
import type { ScheduleOf } from "../records/schedule-record.ts";
import { afterOfShard, mergeFailureGroups } from "../search/failure-groups.ts";
import { firstOf, mergeRuns, orderOf, type Run } from "../search/task-search.ts";
import { addQueueCounts } from "../series/flow.ts";
import { addPoints } from "../series/queue-series.ts";
import type { Batches } from "./batches.ts";
import type { FoundLanes, FoundTasks, WantedTasks, WorkerLeases } from "./broker.ts";
import { newestRuns, type Schedules } from "./schedules.ts";
import type { ShardBroker } from "./shard-broker.ts";
import type { FailedDelivery, FailedPage, WantedFailures, Webhooks } from "./webhooks.ts";

/** Where a verb goes that takes these arguments and gives this answer. */
type Row<Given, Answer> =
  /** The first shard, which decides for all of them. */
  | { readonly to: "first" }
  | {
      /** Every shard, or every shard that is available; a call fails when no shard is available. */
      readonly to: "all" | "available";
      readonly merge: (answers: readonly Answer[], given: Given, isPartial: boolean) => Answer;
      /** The arguments for one of the shards, where they differ. */
      readonly given?: (shard: number, given: Given) => Given;
    }
  /** The shard of the task that the first argument names. */
  | (Given extends [TaskId | { readonly id: TaskId }, ...unknown[]]
      ? { readonly to: "task" }
      : never)
  /** The shard of the schedule that the first argument names. */
  | (Given extends [ScheduleOf, ...unknown[]] ? { readonly to: "schedule" } : never)
  /** The shard of the batch that the first argument names. */
  | (Given extends [BatchOf, ...unknown[]] ? { readonly to: "batch" } : never)
  /** The shards of some tasks; the answer has an item for each id, in their order. */
  | ([Given, Answer] extends [[TenantId, readonly TaskId[]], readonly unknown[]]
      ? { readonly to: "tasks" }
      : never);

/** A row of any verb; functions are methods here, so that all rows fit. */
export type AnyRow =
  | { readonly to: "first" | "task" | "tasks" | "schedule" | "batch" }
  | {
      readonly to: "all" | "available";
      merge(answers: readonly unknown[], given: readonly unknown[], isPartial: boolean): unknown;
      given?(shard: number, given: readonly unknown[]): readonly unknown[];
    };

type Routing<Target> = {
  [Name in keyof Target]?: Row<Given<Target[Name]>, Answer<Target[Name]>>;
};

export type Given<Verb> = Verb extends (...given: infer All) => unknown ? All : never;
export type Answer<Verb> = Verb extends (...given: never) => infer One ? Awaited<One> : never;

/** The answers of a broker in this thread may be there at once; those of shards are not. */
export type Offered<Verbs> = {
  [Name in keyof Verbs]: Verbs[Name] extends (...given: infer All) => infer One
    ? (...given: All) => One | Promise<Awaited<One>>
    : never;
};

export const brokerRouting = {
  mayFinish: { to: "task" },
  artifactsOf: { to: "task" },
  placesOf: { to: "tasks" },
  counts: { to: "available", merge: (all) => all.reduce(addCounts, noCounts()) },
  queuesOf: {
    to: "available",
    merge: (all) => mergeBy(all.flat(), "queue", addQueueCounts),
  },
  seriesOf: {
    to: "all",
    merge: (all) => {
      const points = mergeBy(all.flat(), "number", addPoints);
      return points.sort((one, other) => one.number - other.number);
    },
  },
  tenants: { to: "available", merge: (all) => [...new Set(all.flat())] },
  leasesOf: {
    to: "available",
    merge: (all, _, isPartial) => ({
      workers: mergeBy(
        all.flatMap(({ workers }) => workers),
        "workerId",
        addLeases,
      ),
      isPartial: isPartial || all.some((each) => each.isPartial),
    }),
  },
  find: { to: "all", merge: mergePages },
  failureGroups: {
    to: "all",
    given: (shard, [wanted]) => [{ ...wanted, after: afterOfShard(wanted.after, shard) }],
    merge: (all) => (isComplete(all) ? mergeFailureGroups(all) : undefined),
  },
  pause: { to: "all", merge: () => {} },
  pausesOf: { to: "available", merge: (all) => mergeBy(all.flat(), "queue", (_, last) => last) },
  setLane: { to: "all", merge: () => {} },
  laneLimits: { to: "first" },
  lanesOf: {
    to: "available",
    merge: (all, [, { limit }]) => mergeLanes(all, limit),
  },
  topicsOf: { to: "first" },
  triageOf: { to: "first" },
  setTriage: { to: "first" },
  backup: {
    to: "all",
    given: (shard, [wanted]) => [{ ...wanted, store: `shard-${shard}` }],
    merge: (all) => all.flat(),
  },
} satisfies Routing<ShardBroker>;

/** The same for the webhooks of a broker. Every shard has all secrets and endpoints. */
export const webhookRouting = {
  deliveries: { to: "task" },
  failed: { to: "all", merge: mergeFailedPages },
  redeliver: { to: "tasks" },
  endpoints: {
    to: "all",
    // The worst state that a shard reports wins.
    merge: (all) =>
      mergeBy(all.flat(), "url", (one, other) => {
        const worse = one.disabledMs === undefined ? other : one;
        return { ...worse, sinceMs: Math.min(one.sinceMs, other.sinceMs) };
      }),
  },
  enable: { to: "all", merge: (all) => all.includes(true) },
  secrets: { to: "first" },
} satisfies Routing<Webhooks>;

/** The same for schedules. A schedule and all its tasks are in one shard. */
export const scheduleRouting = {
  put: { to: "schedule" },
  get: { to: "schedule" },
  delete: { to: "schedule" },
  pause: { to: "schedule" },
  resume: { to: "schedule" },
  run: { to: "schedule" },
  backfill: { to: "schedule" },
  missing: { to: "schedule" },
  look: { to: "schedule" },
  // Tasks from before a change of the number of shards are in other shards.
  runs: { to: "all", merge: (all, [, limit]) => newestRuns(all.flat(), limit) },
  list: { to: "all", merge: (all, [{ limit }]) => mergeById(all, limit) },
  count: { to: "all", merge: sum },
  hasQueue: { to: "all", merge: (all) => all.includes(true) },
} satisfies Routing<Schedules>;

/** The same for batches. A batch and all its tasks are in one shard. */
export const batchRouting = {
  put: { to: "batch" },
  get: { to: "batch" },
  seal: { to: "batch" },
  cancel: { to: "batch" },
  members: { to: "batch" },
  list: { to: "all", merge: (all, [{ limit }]) => mergeById(all, limit) },
} satisfies Routing<Batches>;

/** A lane is in one shard; others may have tasks of it from before a change of their number. */
function mergeLanes(all: readonly FoundLanes[], limit: number): FoundLanes {
  const lanes = mergeBy(
    all.flatMap((each) => each.lanes),
    "lane",
    (one, other) => {
      const [busy, rest] =
        one.ready + one.leased < other.ready + other.leased ? [other, one] : [one, other];
      return {
        ...busy,
        ready: busy.ready + rest.ready,
        leased: busy.leased + rest.leased,
        recentUnits: busy.recentUnits + rest.recentUnits,
      };
    },
  );
  lanes.sort((a, b) => b.ready - a.ready || (a.lane < b.lane ? -1 : 1));
  const total = Math.max(lanes.length, ...all.map((each) => each.total));
  return {
    lanes: lanes.slice(0, limit),
    total,
    recentUnits: sum(all.map(({ recentUnits }) => recentUnits)),
  };
}

/** Adds up the items whose field of this name is the same. */
function mergeBy<Item, Name extends keyof Item>(
  items: readonly Item[],
  name: Name,
  add: (one: Item, other: Item) => Item,
): Item[] {
  const found = new Map<Item[Name], Item>();
  for (const item of items) {
    const before = found.get(item[name]);
    found.set(item[name], before === undefined ? item : add(before, item));
  }
  return [...found.values()];
}

function addLeases(one: WorkerLeases, other: WorkerLeases): WorkerLeases {
  return {
    workerId: one.workerId,
    leases: one.leases + other.leases,
    oldestMs: Math.min(one.oldestMs, other.oldestMs),
    seenMs: Math.max(one.seenMs, other.seenMs),
  };
}

/** Whether every shard had time to search. */
function isComplete<Answer>(answers: readonly (Answer | undefined)[]): answers is Answer[] {
  return !answers.includes(undefined);
}

/** A page of each shard, merged as far as all of them have searched. */
function mergePages(
  pages: readonly (FoundTasks | undefined)[],
  [wanted]: [WantedTasks],
): FoundTasks | undefined {
  if (!isComplete(pages)) return undefined;
  const runs = pages.map(({ tasks, next }) => ({ items: tasks, reached: next }));
  const idOf = ({ id }: Task): string => id;
  const merged = mergeRuns(runs, { idOf, comesFirst: orderOf(wanted.order) });
  const { items, reached } = firstOf(merged, wanted.limit, idOf);
  const totals = pages.flatMap(({ total }) => total ?? []);
  return {
    tasks: items,
    scanned: sum(pages.map(({ scanned }) => scanned)),
    next: reached,
    total: totals.length === 0 ? undefined : sum(totals),
  };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}

function mergeFailedPages(pages: readonly FailedPage[], [{ limit }]: [WantedFailures]): FailedPage {
  const runs = pages.map(({ failed, next }) => ({ items: failed, reached: next }));
  const idOf = ({ position }: FailedDelivery): string => position;
  const { items, reached } = firstOf(mergeRuns(runs, { idOf, comesFirst }), limit, idOf);
  return { failed: items, next: reached };
}

function mergeById<Item extends { readonly id: string }>(
  runs: readonly Run<Item>[],
  limit: number,
): Run<Item> {
  const idOf = ({ id }: Item): string => id;
  return firstOf(mergeRuns(runs, { idOf, comesFirst: orderOf("oldest") }), limit, idOf);
}

/** Positions begin with a time, and end with an id. */
function comesFirst(position: string, other: string): boolean {
  const [at, id] = position.split(".") as [string, string];
  const [otherAt, otherId] = other.split(".") as [string, string];
  return at === otherAt ? id < otherId : Number(at) < Number(otherAt);
}
