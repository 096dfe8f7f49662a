import { AssertionError } from "node:assert";

/** An assertion for what is done for every task: unlike Node's it makes nothing while it holds. */
export function check(holds: boolean, rule: string): asserts holds {
  if (!holds) throw new AssertionError({ message: rule, actual: holds, expected: true });
}
