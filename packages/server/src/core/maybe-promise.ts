/** A value or a promise of one; a value that is available needs no turn of the event loop. */
export type MaybePromise<T> = T | Promise<T>;

/** Calls `use` at once with a value, and later with a promised one. */
export function whenKnown<T, U>(
  value: MaybePromise<T>,
  use: (value: T) => MaybePromise<U>,
): MaybePromise<U> {
  return value instanceof Promise ? value.then(use) : use(value);
}
