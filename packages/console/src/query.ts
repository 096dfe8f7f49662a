/**
 * What the server said, shared by all components that ask the same. An entry is asked for again while
 * somebody looks at it: not while the tab is hidden, the page is paused or the server is away. One that follows
 * tasks is asked for when the feed said that something happened to them; all others, and those while there is no
 * feed, after their time.
 */
import { useLayoutEffect, useState } from "preact/hooks";
import { type ApiError, ask, connection, type Request, tenant, urlOf } from "./api.ts";
import { changedMs, type Follows, isLive, missedEvents } from "./feed.ts";
import { createStore, useStore } from "./store.ts";

export interface Answer<T> {
  readonly data?: T | undefined;
  readonly error?: ApiError | undefined;
  readonly isLoading: boolean;
}

interface Entry {
  answer: Answer<unknown>;
  askedMs: number;
  isAsking: boolean;
  everyMs: number;
  follows: Follows | undefined;
  ask: () => Promise<unknown>;
  readonly listeners: Set<() => void>;
}

export const isPaused = createStore(false);

const entries = new Map<string, Entry>();
const unusedMax = 100;
const retryMs = 2000;
const tickMs = 500;
/** Of an entry to which nothing happens: ages grow, and other people pause queues. */
const restMs = 10_000;
/** Between two looks at the task on the page. */
const taskGapMs = 250;

interface QueryOptions {
  readonly everyMs?: number;
  /** Of what happens to these tasks; an empty one is all of them. */
  readonly follows?: Follows;
}

export function useQuery<T>(
  key: string | undefined,
  load: () => Promise<T>,
  { everyMs = 5000, follows }: QueryOptions = {},
): Answer<T> {
  const [, redraw] = useState(0);
  const entry = key === undefined ? undefined : entryOf(key, { ask: load, everyMs, follows });
  const shown = entry?.answer;
  useLayoutEffect(() => {
    if (entry === undefined) return undefined;
    const run = (): void => redraw((n) => n + 1);
    entry.listeners.add(run);
    // The answer may have come since it was drawn.
    if (entry.answer !== shown) run();
    if (Date.now() - entry.askedMs > 1000) refresh(entry);
    return () => void entry.listeners.delete(run);
  }, [entry]);
  return (shown ?? { isLoading: false }) as Answer<T>;
}

/** What the server answers to a request, for the tenant that the page shows. */
export function useAnswer<T>(name: string, request: Request<T>, options?: QueryOptions): Answer<T> {
  useStore(tenant);
  return useQuery(`${name}:${urlOf(request)}`, () => ask(request), options);
}

/** What was last answered, for a page to begin with until its own answer is there. */
export function lastAnswer<T>(key: string): T | undefined {
  return entries.get(key)?.answer.data as T | undefined;
}

function entryOf(key: string, given: Pick<Entry, "ask" | "everyMs" | "follows">): Entry {
  const known = entries.get(key);
  if (known !== undefined) return Object.assign(known, given);
  const entry: Entry = {
    ...given,
    answer: { isLoading: true },
    askedMs: 0,
    isAsking: false,
    listeners: new Set(),
  };
  entries.set(key, entry);
  forgetUnused();
  return entry;
}

function forgetUnused(): void {
  if (entries.size <= unusedMax) return;
  for (const [key, entry] of entries) {
    if (entry.listeners.size === 0 && !entry.isAsking) entries.delete(key);
    if (entries.size <= unusedMax / 2) return;
  }
}

function refresh(entry: Entry): void {
  if (entry.isAsking) return;
  entry.isAsking = true;
  entry.askedMs = Date.now();
  const show = (answer: Answer<unknown>): void => {
    entry.isAsking = false;
    entry.answer = answer;
    for (const run of [...entry.listeners]) run();
  };
  entry.ask().then(
    (data) => show({ data, isLoading: false }),
    // What was known stays on the page; the error stands beside it.
    (error: ApiError) => show({ data: entry.answer.data, error, isLoading: false }),
  );
}

/** Asks again for everything whose key begins so, when it is on the page. */
export function invalidate(prefix = ""): void {
  for (const [key, entry] of entries) {
    if (!key.startsWith(prefix)) continue;
    if (entry.listeners.size > 0) refresh(entry);
    else entry.askedMs = 0;
  }
}

/** Forgets everything, as for another person. */
export function forgetAll(): void {
  for (const [key, entry] of entries) {
    entry.answer = { isLoading: true };
    entry.askedMs = 0;
    if (entry.listeners.size === 0) entries.delete(key);
    else refresh(entry);
  }
}

/** Asks again for what is due. */
export function refreshDue(): void {
  const { state } = connection.get();
  if (document.hidden || isPaused.get() || state === "signed-out") return;
  for (const entry of entries.values()) {
    if (entry.listeners.size > 0 && isDue(entry, state === "offline")) refresh(entry);
  }
}

function isDue({ askedMs, everyMs, follows }: Entry, isOffline: boolean): boolean {
  if (everyMs === 0) return false;
  const ageMs = Date.now() - askedMs;
  if (isOffline) return ageMs >= retryMs;
  if (follows === undefined || !isLive.get()) return ageMs >= everyMs;
  const gapMs = follows.task === undefined ? everyMs : taskGapMs;
  return ageMs >= Math.max(restMs, everyMs) || (changedMs(follows) >= askedMs && ageMs >= gapMs);
}

export function startRefreshing(): void {
  setInterval(refreshDue, tickMs);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && !isPaused.get()) invalidate();
  });
  isPaused.subscribe(() => {
    missedEvents.set(0);
    if (!isPaused.get()) invalidate();
  });
}
