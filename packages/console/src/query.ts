/**
 * Answers of the server, shared by all components that use the same key. An entry on the page is refreshed, except
 * while the tab is hidden, the page is paused or the user is signed out. An entry that follows tasks is refreshed
 * when the feed reports a change of them; other entries, and all entries while the feed is closed, by the clock.
 */
import { useLayoutEffect, useState } from "preact/hooks";
import { type ApiError, ask, connection, isLost, type Request, tenant, urlOf } from "./api.ts";
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
  /** The data changed after the request was sent. */
  isOutdated: boolean;
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
/** Without events: ages grow, and other users pause queues. */
const restMs = 10_000;
/** Shortest time between two requests for the task on the page. */
const taskGapMs = 250;

interface QueryOptions {
  readonly everyMs?: number;
  /** The tasks whose events refresh the entry; all tasks if empty. */
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
    // The answer may have arrived after the component was drawn.
    if (entry.answer !== shown) run();
    if (Date.now() - entry.askedMs > 1000) refresh(entry);
    return () => void entry.listeners.delete(run);
  }, [entry]);
  return (shown ?? { isLoading: false }) as Answer<T>;
}

/** The answer to a request, for the tenant that the page shows. */
export function useAnswer<T>(name: string, request: Request<T>, options?: QueryOptions): Answer<T> {
  useStore(tenant);
  return useQuery(`${name}:${urlOf(request)}`, () => ask(request), options);
}

/** The last answer, for a page to show until its own answer arrives. */
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
    isOutdated: false,
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
  entry.isOutdated = false;
  entry.askedMs = Date.now();
  const show = (answer: Answer<unknown>): void => {
    entry.isAsking = false;
    if (entry.isOutdated) {
      refresh(entry);
      return;
    }
    entry.answer = answer;
    for (const run of [...entry.listeners]) run();
  };
  entry.ask().then(
    (data) => show({ data, isLoading: false }),
    // The page keeps the last answer and shows the error beside it.
    (error: ApiError) => show({ data: entry.answer.data, error, isLoading: false }),
  );
}

/** Reloads the entries whose key starts with the prefix; those off the page when they are next shown. */
export function invalidate(prefix = ""): void {
  for (const [key, entry] of entries) {
    if (!key.startsWith(prefix)) continue;
    askAgain(entry);
  }
}

/** Drops all answers: they belong to another user or tenant. */
export function forgetAll(): void {
  for (const [key, entry] of entries) {
    entry.answer = { isLoading: true };
    if (entry.listeners.size === 0) entries.delete(key);
    else askAgain(entry);
  }
}

/** The answer to a request from before is not shown. */
function askAgain(entry: Entry): void {
  entry.isOutdated = entry.isAsking;
  if (entry.listeners.size > 0) refresh(entry);
  else entry.askedMs = 0;
}

export function refreshDue(): void {
  const { state } = connection.get();
  if (document.hidden || isPaused.get() || state === "signed-out") return;
  for (const entry of entries.values()) {
    if (entry.listeners.size > 0 && isDue(entry, isLost())) refresh(entry);
  }
}

function isDue({ askedMs, everyMs, follows }: Entry, isServerLost: boolean): boolean {
  if (everyMs === 0) return false;
  const ageMs = Date.now() - askedMs;
  if (isServerLost) return ageMs >= retryMs;
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
