/**
 * Finds tasks of one tenant, page by page in the order of their ids, which is that of their creation. A
 * page continues after an id, so tasks that move meanwhile are neither missed nor shown twice.
 *
 * The work for a page is bounded: a page may end before it is full, and says up to which id it has searched.
 * Searches run one at a time, tenants take turns, and searches pause between pieces while tasks are written, so that they slow down workers and
 * producers by a bounded amount.
 */
import type { Task, TaskId } from "@codeq/queue";
import type { FoundTasks, TaskOrder, WantedTasks } from "../broker/broker.ts";
import type { QueueState, Queues } from "../broker/queues/queue-state.ts";
import type { Clock } from "../clock.ts";
import type { QueueName, Store } from "../store/store.ts";
import { idAtMs } from "../task-ids.ts";
import { SearchTurns } from "./search-turns.ts";
import { hasPart, matches, payloadMatches, type TaskFilter } from "./task-filter.ts";
import type { TaskReads } from "./task-reads.ts";

/** How many tasks a page may look at. */
const scannedMax = 5000;
/** The same for ids alone, which cost a fraction of a record. */
const scannedIdsMax = 200_000;
/** Payloads that are looked at, and the errors and logs of the tasks that are found. */
const charsMax = 4 * 1024 * 1024;
const pieceTasks = 250;
const pieceIds = 10_000;
/** The first piece may be a short one. */
const piecesMax = scannedIdsMax / pieceIds + 1;
const perIndexMin = 16;
/** While tasks are written, a search pauses for so many times as long as it has worked. */
const restsPerWork = 4;
/** How far ids may be ahead of the clock, which may have been set back. */
const idsAheadMs = 3_600_000;

/** Candidates, piece by piece. */
interface Source {
  /** The piece after an id, which is the end of the last piece. */
  next(after: string): Promise<Run<TaskId | Task>>;
  close?(): Promise<void>;
}

export class TaskSearch {
  readonly #store: Store;
  readonly #queues: Queues;
  readonly #reads: TaskReads;
  readonly #clock: Clock;
  readonly #turns = new SearchTurns();

  constructor(parts: {
    readonly clock: Clock;
    readonly store: Store;
    readonly queues: Queues;
    readonly reads: TaskReads;
  }) {
    this.#clock = parts.clock;
    this.#store = parts.store;
    this.#queues = parts.queues;
    this.#reads = parts.reads;
  }

  /** Undefined when too many searches of the tenant wait for their turn. */
  async find(wanted: WantedTasks): Promise<FoundTasks | undefined> {
    const turn = this.#turns.take(wanted.tenantId);
    if (turn === undefined) return undefined;
    await turn;
    const work = this.#beginWork();
    try {
      return await this.#page(wanted, work);
    } finally {
      // The next search waits for the pause, this search does not.
      const end = (): void => this.#turns.end();
      this.#rest(work).then(end, end);
    }
  }

  #beginWork(): Work {
    return { sinceMs: this.#clock.monotonicMs(), durableIndex: this.#store.durableIndex };
  }

  async #rest(work: Work): Promise<void> {
    const now = this.#beginWork();
    const restMs = (now.sinceMs - work.sinceMs) * restsPerWork;
    const isAlone = now.durableIndex === work.durableIndex;
    if (!isAlone && restMs > 0) {
      await new Promise<void>((resolve) => this.#clock.after(restMs, resolve));
    }
    Object.assign(work, this.#beginWork());
  }

  async #page(wanted: WantedTasks, work: Work): Promise<FoundTasks> {
    const source = this.#sourceOf(wanted);
    const total = this.#totalOf(wanted);
    const page = new Page(wanted, { store: this.#store, reads: this.#reads });
    try {
      for (let pieces = 0; pieces < piecesMax; pieces++) {
        const { items, reached } = await source.next(page.after);
        const isLookedThrough = await page.look(items);
        if (isLookedThrough && reached === undefined)
          return { ...page.found, next: undefined, total };
        if (isLookedThrough) page.after = reached as string;
        if (page.isOver) break;
        await this.#rest(work);
      }
      return { ...page.found, next: page.after, total };
    } finally {
      await source.close?.();
    }
  }

  /** The cheapest source of all tasks that may match. */
  #sourceOf(wanted: WantedTasks): Source {
    const { tenantId, filter } = wanted;
    const { place, idempotencyKey, idPart, group } = filter;
    if (idempotencyKey !== undefined) {
      const id = this.#store.idempotency(tenantId, idempotencyKey)?.taskId;
      return this.#whole(wanted, Promise.resolve(id === undefined ? [] : [id]));
    }
    if (group !== undefined) return this.#byIndexes(wanted, this.#indexesOfGroup(wanted, group));
    const places = countedPlaces(place);
    if (places !== undefined) {
      const indexes = places.flatMap((each) =>
        this.#queuesOf(wanted)
          .filter((queue) => countOf(queue, each) > 0)
          .map((queue) => ({ queue, place: each })),
      );
      const count = indexes.reduce((sum, each) => sum + countOf(each.queue, each.place), 0);
      const limit = scannedMax * 2;
      if (count <= scannedMax) {
        const read = indexes.map((each) => this.#store.idsIn(each.queue, { ...each, limit }));
        return this.#whole(
          wanted,
          Promise.all(read).then((ids) => ids.flat()),
        );
      }
      if (places.every(isOrderedById)) return this.#byIndexes(wanted, Promise.resolve(indexes));
    }
    return idPart === undefined ? this.#byRecords(wanted) : this.#byIds(wanted, idPart);
  }

  #queuesOf({ tenantId, filter: { queue: name } }: WantedTasks): QueueState[] {
    if (name === undefined) return [...this.#queues.ofTenant(tenantId)];
    const queue = this.#queues.find(tenantId, name);
    return queue === undefined ? [] : [queue];
  }

  /** All positions, read once and sorted. */
  #whole({ order }: WantedTasks, ids: Promise<readonly TaskId[]>): Source {
    const sorted = ids.then((known) =>
      known.toSorted((a, b) => (comesFirst(order, a, b) ? -1 : 1)),
    );
    return {
      next: async (after) => {
        const known = await sorted;
        const items = after === "" ? known : known.filter((id) => comesFirst(order, after, id));
        return { items, reached: undefined };
      },
    };
  }

  /** The queues that have failures of the group. */
  async #indexesOfGroup({ tenantId }: WantedTasks, group: string): Promise<readonly Index[]> {
    const found = await this.#store.failureCells(tenantId, {
      after: "",
      group,
      limit: 1,
      hours: [],
    });
    // While flushes get in between, every queue is asked.
    const names =
      found === undefined
        ? [...this.#queues.ofTenant(tenantId)].map(({ name }) => name)
        : new Set(found.cells.map(({ queue }) => queue));
    return [...names].map((name) => ({ queue: { tenantId, name }, place: { group } }));
  }

  /** Merges indexes that are in the order of ids. */
  #byIndexes({ order }: WantedTasks, found: Promise<readonly Index[]>): Source {
    const how = { idOf: (id: TaskId) => id, comesFirst: orderOf(order) };
    return {
      next: async (after) => {
        const indexes = await found;
        const limit = Math.max(perIndexMin, Math.ceil(pieceTasks / indexes.length));
        const runs = indexes.map(async ({ queue, place }): Promise<Run<TaskId>> => {
          const items = await this.#store.idsIn(queue, { place, limit, after, order });
          return { items, reached: items.length === limit ? items.at(-1) : undefined };
        });
        return mergeRuns(await Promise.all(runs), how);
      },
    };
  }

  #byRecords({ order, filter, after: first, limit }: WantedTasks): Source {
    const tasks = this.#store.openTasks(rangeOf(order, filter, first));
    // Where most tasks match, the first piece fills the page.
    let count = Math.min(pieceTasks, limit + 1);
    return {
      next: async () => {
        const rows = await tasks.next(count);
        const items = rows.flatMap(([, task]) => (task === undefined ? [] : [task]));
        const reached = rows.length === count ? rows.at(-1)?.[0] : undefined;
        count = pieceTasks;
        return { items, reached };
      },
      close: () => tasks.close(),
    };
  }

  #byIds({ order, filter }: WantedTasks, part: string): Source {
    return {
      next: async (after) => {
        const ids = await this.#store.idsBetween(rangeOf(order, filter, after), pieceIds);
        const items = ids.filter((id) => hasPart(id, part));
        return { items, reached: ids.length === pieceIds ? ids.at(-1) : undefined };
      },
    };
  }

  #totalOf(wanted: WantedTasks): number | undefined {
    const { queue: _, place, ...others } = wanted.filter;
    const places = countedPlaces(place);
    if (places === undefined) return undefined;
    if (Object.values(others).some((each) => each !== undefined)) return undefined;
    const sumOf = (queue: QueueState): number =>
      places.reduce((sum, each) => sum + countOf(queue, each), 0);
    return this.#queuesOf(wanted).reduce((sum, queue) => sum + sumOf(queue), 0);
  }
}

/** When a piece of the search began, and which record was durable then. */
interface Work {
  sinceMs: number;
  durableIndex: number;
}

/** The tasks found so far, and how many were looked at. */
class Page {
  /** Everything up to this id was looked at. */
  after: string;
  readonly #wanted: WantedTasks;
  readonly #store: Store;
  readonly #reads: TaskReads;
  readonly #tasks: Task[] = [];
  #scanned = 0;
  #chars = 0;

  constructor(wanted: WantedTasks, parts: { readonly store: Store; readonly reads: TaskReads }) {
    this.after = wanted.after;
    this.#wanted = wanted;
    this.#store = parts.store;
    this.#reads = parts.reads;
  }

  get found(): { readonly tasks: readonly Task[]; readonly scanned: number } {
    return { tasks: this.#tasks, scanned: this.#scanned };
  }

  get isOver(): boolean {
    if (this.#tasks.length >= this.#wanted.limit) return true;
    return this.#scanned >= scannedMax || this.#chars >= charsMax;
  }

  /** Whether all items were looked at before the page was over. */
  async look(items: readonly (TaskId | Task)[]): Promise<boolean> {
    const { tenantId, filter } = this.#wanted;
    for (const item of items) {
      if (this.isOver) return false;
      this.#scanned += 1;
      const task = typeof item === "string" ? this.#store.task(item) : item;
      this.after = typeof item === "string" ? item : item.id;
      if (task?.tenantId !== tenantId || !matches(task, filter)) continue;
      if (!this.#hasPayload(task)) continue;
      const settled = await this.#reads.settled(tenantId, task.id);
      if (settled === undefined || !matches(settled, filter)) continue;
      this.#tasks.push(settled);
      this.#chars += charsOf(settled);
    }
    return true;
  }

  #hasPayload(task: Task): boolean {
    const { payload: condition } = this.#wanted.filter;
    if (condition === undefined) return true;
    const payload = this.#store.wholePayload(task) ?? "";
    this.#chars += payload.length;
    return payloadMatches(payload, condition);
  }
}

/** What callers can make large, beside the payload, which a list does not have. */
function charsOf({ error, trail }: Task): number {
  let chars = error.length;
  for (const attempt of trail?.attempts ?? []) chars += attempt.error.length + attempt.stack.length;
  for (const { text } of trail?.logs ?? []) chars += text.length;
  return chars;
}

/** Whether the first of two ids comes first. */
export function orderOf(order: TaskOrder): (id: string, other: string) => boolean {
  return (id, other) => comesFirst(order, id, other);
}

function comesFirst(order: TaskOrder, id: string, other: string): boolean {
  return order === "newest" ? id > other : id < other;
}

type CountedPlace = "ready" | "delayed" | "held" | "leased" | "dead" | "failed";

/** An index of tasks of one queue. */
interface Index {
  readonly queue: QueueName;
  readonly place: CountedPlace | { readonly group: string };
}

/** The places that have indexes and counters; undefined when all tasks have to be looked at. */
function countedPlaces(place: TaskFilter["place"]): readonly CountedPlace[] | undefined {
  if (place === "failure") return ["dead", "failed"];
  if (place === undefined || place === "done" || place === "cancelled") return undefined;
  return [place];
}

function isOrderedById(place: CountedPlace): boolean {
  return place !== "ready" && place !== "delayed";
}

function countOf(queue: QueueState, place: CountedPlace): number {
  return place === "ready" ? queue.readyTotal : queue.counts[place];
}

export interface IdRange {
  readonly after: string;
  /** Empty for no end. */
  readonly before: string;
  readonly isReverse: boolean;
}

/** The ids that are left to look at. */
function rangeOf(order: TaskOrder, filter: TaskFilter, after: string): IdRange {
  const { createdFromMs, createdToMs } = filter;
  const first = createdFromMs === undefined ? "" : idAtMs(createdFromMs);
  const end = createdToMs === undefined ? "" : idAtMs(createdToMs + idsAheadMs);
  if (order === "oldest")
    return { after: after > first ? after : first, before: end, isReverse: false };
  const isNearer = after !== "" && (end === "" || after < end);
  return { after: first, before: isNearer ? after : end, isReverse: true };
}

/** The known beginning of a sorted list. */
export interface Run<Item> {
  readonly items: readonly Item[];
  /** The id up to which the run is complete; undefined when there is nothing more. */
  readonly reached: string | undefined;
}

/**
 * Merges several runs. Items after the end of the shortest known beginning are left for the next page, because an
 * unknown item may come before them.
 */
export function mergeRuns<Item>(
  runs: readonly Run<Item>[],
  how: {
    readonly idOf: (item: Item) => string;
    readonly comesFirst: (id: string, other: string) => boolean;
  },
): Run<Item> {
  const { idOf, comesFirst } = how;
  let reached: string | undefined;
  for (const run of runs) {
    if (run.reached === undefined) continue;
    if (reached === undefined || comesFirst(run.reached, reached)) reached = run.reached;
  }
  const isKnown = (id: string): boolean => reached === undefined || !comesFirst(reached, id);
  const items = runs.flatMap((run) => run.items.filter((item) => isKnown(idOf(item))));
  return { items: items.sort((a, b) => (comesFirst(idOf(a), idOf(b)) ? -1 : 1)), reached };
}

/** The first items of a run. */
export function firstOf<Item>(
  { items, reached }: Run<Item>,
  limit: number,
  idOf: (item: Item) => string,
): Run<Item> {
  if (items.length <= limit) return { items, reached };
  const first = items.slice(0, limit);
  return { items: first, reached: idOf(first.at(-1) as Item) };
}
