/**
 * Warnings that can come in any number. The same message is written only at intervals, with the number of
 * messages left out since the last one.
 */
import type { Clock } from "../core/clock.ts";
import type { LogFields, Logger } from "./logger.ts";

const everyMs = 10_000;

export class SpacedWarnings {
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #written: Map<string, { atMs: number; leftOut: number }> = new Map();

  constructor(logger: Logger, clock: Clock) {
    this.#logger = logger;
    this.#clock = clock;
  }

  /** The message is one of a few; what differs between warnings belongs into the fields. */
  warn(message: string, fields: LogFields): void {
    const nowMs = this.#clock.monotonicMs();
    const last = this.#written.get(message);
    if (last !== undefined && nowMs - last.atMs < everyMs) {
      last.leftOut += 1;
      return;
    }
    const leftOut = last?.leftOut ?? 0;
    this.#logger.warn(message, leftOut === 0 ? fields : { ...fields, leftOut });
    this.#written.set(message, { atMs: nowMs, leftOut: 0 });
  }
}
