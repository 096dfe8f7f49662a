/**
 * What the server said, shared by all components that ask the same. An entry is asked for again after its
 * time while somebody looks at it: not while the tab is hidden, the page is paused or the server is away.
 */
import { useLayoutEffect, useState } from "preact/hooks";
import { type ApiError, connection } from "./api.ts";
import { createStore } from "./store.ts";

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
  ask: () => Promise<unknown>;
  readonly listeners: Set<() => void>;
}

export const isPaused = createStore(false);

const entries = new Map<string, Entry>();
const unusedMax = 100;
const retryMs = 2000;
const tickMs = 500;

export function useQuery<T>(
  key: string | undefined,
  load: () => Promise<T>,
  { everyMs = 5000 }: { readonly everyMs?: number } = {},
): Answer<T> {
  const [, redraw] = useState(0);
  const entry = key === undefined ? undefined : entryOf(key, load, everyMs);
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

function entryOf(key: string, ask: () => Promise<unknown>, everyMs: number): Entry {
  const known = entries.get(key);
  if (known !== undefined) {
    known.ask = ask;
    known.everyMs = everyMs;
    return known;
  }
  const entry: Entry = {
    answer: { isLoading: true },
    askedMs: 0,
    isAsking: false,
    everyMs,
    ask,
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
  const tell = (answer: Answer<unknown>): void => {
    entry.isAsking = false;
    entry.answer = answer;
    for (const run of [...entry.listeners]) run();
  };
  entry.ask().then(
    (data) => tell({ data, isLoading: false }),
    // What was known stays on the page; the error stands beside it.
    (error: ApiError) => tell({ data: entry.answer.data, error, isLoading: false }),
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

export function startRefreshing(): void {
  setInterval(() => {
    const { state } = connection.get();
    if (document.hidden || isPaused.get() || state === "signed-out") return;
    const nowMs = Date.now();
    for (const entry of entries.values()) {
      if (entry.listeners.size === 0) continue;
      const everyMs = state === "offline" ? retryMs : entry.everyMs;
      if (everyMs > 0 && nowMs - entry.askedMs >= everyMs) refresh(entry);
    }
  }, tickMs);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && !isPaused.get()) invalidate();
  });
  isPaused.subscribe(() => {
    if (!isPaused.get()) invalidate();
  });
}
