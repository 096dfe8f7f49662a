/** A value that components follow. */
import { useLayoutEffect, useState } from "preact/hooks";

export interface Store<T> {
  get(): T;
  set(value: T): void;
  subscribe(run: () => void): () => void;
}

export function createStore<T>(initial: T): Store<T> {
  let value = initial;
  const listeners = new Set<() => void>();
  return {
    get: () => value,
    set: (next) => {
      if (Object.is(next, value)) return;
      value = next;
      for (const run of [...listeners]) run();
    },
    subscribe: (run) => {
      listeners.add(run);
      return () => listeners.delete(run);
    },
  };
}

export function useStore<T>(store: Store<T>): T {
  const [, redraw] = useState(0);
  const shown = store.get();
  useLayoutEffect(() => {
    const run = (): void => redraw((n) => n + 1);
    // It may have changed since it was drawn.
    if (!Object.is(store.get(), shown)) run();
    return store.subscribe(run);
  }, [store]);
  return shown;
}

/** Kept in this browser; a browser that forbids it starts from the initial value again. */
export function keptStore<T extends string>(name: string, initial: T): Store<T> {
  const store = createStore<T>((readKept(name) as T | undefined) ?? initial);
  store.subscribe(() => keep(name, store.get()));
  return store;
}

export function readKept(name: string): string | undefined {
  try {
    return localStorage.getItem(`codeq-${name}`) ?? undefined;
  } catch {
    // Private windows may refuse; the value is a convenience.
    return undefined;
  }
}

export function keep(name: string, value: string): void {
  try {
    localStorage.setItem(`codeq-${name}`, value);
  } catch {
    // Private windows may refuse; the value is a convenience.
  }
}
