/** Something that may be known already; what is known need not wait for a turn. */
export type Soon<T> = T | Promise<T>;

/** Goes on at once with what is there, later with what is not. */
export function whenKnown<T, U>(value: Soon<T>, use: (value: T) => Soon<U>): Soon<U> {
  return value instanceof Promise ? value.then(use) : use(value);
}
