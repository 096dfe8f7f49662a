/**
 * node:test follows every promise back to the test that made it, to name that test when a rejection is not handled.
 * That takes up to a quarter of the CPU time of tests that make many promises. An unhandled rejection still fails the
 * file.
 */
import { createHook } from "node:async_hooks";

type Hook = Record<symbol, boolean>;

/** To be called before the first test of a file is declared. Where Node cannot do without, it follows them. */
export function trackNoPromises(): void {
  const example = createHook({ trackPromises: false });
  const isWithoutPromises = Object.getOwnPropertySymbols(example).find(
    ({ description }) => description === "kNoPromiseHook",
  );
  if (isWithoutPromises === undefined) return;
  const hooks: { enable: (this: Hook) => unknown } = Object.getPrototypeOf(example);
  const { enable } = hooks;
  hooks.enable = function enableWithoutPromises() {
    this[isWithoutPromises] = true;
    return enable.call(this);
  };
}
