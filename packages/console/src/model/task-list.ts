/**
 * The tasks that match a filter, page by page. Rows never move by themselves: they change in place, and new
 * tasks are only counted until the user loads them.
 */
import { useEffect, useRef, useState } from "preact/hooks";
import { type ApiError, ask } from "../api.ts";
import { changedMs, isLive } from "../feed.ts";
import { isPaused } from "../query.ts";
import type { TaskQuery } from "../task-filter.ts";
import { listCall, type TaskPage, type TaskRow } from "./tasks.ts";

interface Loaded {
  readonly tasks: readonly TaskRow[];
  readonly total: number | undefined;
  readonly scanned: number;
  readonly next: string | undefined;
  /** Tasks created since the list was loaded. */
  readonly news: number;
  readonly isLoading: boolean;
  readonly error: ApiError | undefined;
}

export interface TaskList extends Loaded {
  readonly more: () => void;
  readonly reload: () => void;
}

const pageRows = 100;
export const newsMax: number = pageRows;
const watchMs = 4000;
const tickMs = 1000;
/** While the feed is open: between two requests when something happened, and when nothing did. */
const liveMs = 2000;
const restMs = 20_000;

const nothing: Loaded = {
  tasks: [],
  total: undefined,
  scanned: 0,
  next: undefined,
  news: 0,
  isLoading: true,
  error: undefined,
};

export function useTaskList(query: TaskQuery | undefined, of: string): TaskList {
  const key = query === undefined ? undefined : `${of}?${JSON.stringify(query)}`;
  const [shown, setShown] = useState({ key, loaded: nothing });
  const source = useRef<TaskSource>(undefined);
  useEffect(() => {
    if (query === undefined) return undefined;
    const own = new TaskSource(query, (loaded) => setShown({ key, loaded }));
    source.current = own;
    own.load();
    const timer = setInterval(() => own.watch(), tickMs);
    return () => {
      clearInterval(timer);
      own.close();
    };
  }, [key]);
  return {
    // Rows of another filter are never shown, not even until the first answer.
    ...(shown.key === key ? shown.loaded : nothing),
    more: () => source.current?.more(),
    reload: () => source.current?.load(),
  };
}

/** In ascending priority: a request of the user does not wait for a look. */
const kinds = ["look", "more", "load"] as const;
type Kind = (typeof kinds)[number];

/** Loads the pages of one filter; only the answer to the last request is shown. */
class TaskSource {
  readonly #query: TaskQuery;
  readonly #show: (loaded: Loaded) => void;
  #now = nothing;
  #asking: Kind | undefined;
  #asked = 0;
  #askedMs = 0;
  #isClosed = false;

  constructor(query: TaskQuery, show: (loaded: Loaded) => void) {
    this.#query = query;
    this.#show = show;
  }

  load(): void {
    this.#ask("load", undefined, (page) => this.#append(nothing, page));
  }

  more(): void {
    const { next } = this.#now;
    if (next !== undefined) this.#ask("more", next, (page) => this.#append(this.#now, page));
  }

  watch(): void {
    if (document.hidden || isPaused.get()) return;
    const command = this.#query["command"];
    const follows = command === undefined ? {} : { queue: command };
    const ageMs = Date.now() - this.#askedMs;
    const isChanged = changedMs(follows) >= this.#askedMs && ageMs >= liveMs;
    if (isLive.get() ? isChanged || ageMs >= restMs : ageMs >= watchMs) this.#look();
  }

  /** Updates the shown rows in place, and counts the new tasks above them. */
  #look(): void {
    this.#ask("look", undefined, ({ tasks, total }) => {
      const { tasks: known } = this.#now;
      const fresh = new Map(tasks.map((task) => [task.id, task]));
      this.#update({
        ...this.#now,
        total: total ?? this.#now.total,
        tasks: known.length === 0 ? tasks : known.map((task) => fresh.get(task.id) ?? task),
        news: known.length === 0 ? 0 : newsIn(tasks, known),
        error: undefined,
      });
    });
  }

  close(): void {
    this.#isClosed = true;
  }

  #append(before: Loaded, page: TaskPage): void {
    this.#update({
      tasks: [...before.tasks, ...page.tasks],
      total: page.total ?? before.total,
      scanned: before.scanned + page.scanned,
      next: page.next,
      news: before.news,
      isLoading: false,
      error: undefined,
    });
  }

  #ask(kind: Kind, after: string | undefined, take: (page: TaskPage) => void): void {
    if (this.#asking !== undefined && kinds.indexOf(this.#asking) >= kinds.indexOf(kind)) return;
    this.#asking = kind;
    this.#askedMs = Date.now();
    this.#asked += 1;
    const asked = this.#asked;
    const ifLast = (show: () => void): void => {
      if (asked !== this.#asked || this.#isClosed) return;
      this.#asking = undefined;
      show();
    };
    ask(listCall(this.#query, { after, limit: pageRows })).then(
      (page) => ifLast(() => take(page)),
      (error: ApiError) => ifLast(() => this.#update({ ...this.#now, isLoading: false, error })),
    );
  }

  #update(loaded: Loaded): void {
    this.#now = loaded;
    this.#show(loaded);
  }
}

function newsIn(fresh: readonly TaskRow[], known: readonly TaskRow[]): number {
  const ids = new Set(known.map(({ id }) => id));
  const at = fresh.findIndex(({ id }) => ids.has(id));
  return at < 0 ? fresh.length : at;
}
