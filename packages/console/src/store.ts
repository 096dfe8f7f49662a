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
    // The value may have changed after the component was drawn.
    if (!Object.is(store.get(), shown)) run();
    return store.subscribe(run);
  }, [store]);
  return shown;
}

/** Stored in this browser. */
export function keptStore<T>(name: string, initial: T): Store<T> {
  const store = createStore(readKept(name, initial));
  store.subscribe(() => keep(name, store.get()));
  return store;
}

export function readKept<T>(name: string, initial: T): T {
  try {
    const text = localStorage.getItem(`codeq-${name}`);
    return text === null ? initial : JSON.parse(text);
  } catch {
    // A private window may refuse, and another version may have written the text; the value is a convenience.
    return initial;
  }
}

export function keep(name: string, value: unknown): void {
  try {
    localStorage.setItem(`codeq-${name}`, JSON.stringify(value));
  } catch {
    // A private window may refuse; the value is a convenience.
  }
}
