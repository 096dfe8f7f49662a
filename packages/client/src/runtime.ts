/** What this package takes from the process around it. Tests give it something else. */
import { randomBytes, randomInt } from "node:crypto";
import { type Clock, systemClock } from "./clock.ts";
import { pauseMs } from "./pause.ts";

export interface Runtime {
  readonly clock: Clock;
  /** A text that nobody else has. */
  readonly uniqueId: () => string;
  /** Runs a function after what happens in this turn. */
  readonly defer: (run: () => void) => void;
  /** How long to wait before another try; `tries` is 1 after the first. */
  readonly pauseMs: (tries: number) => number;
  /** Instead of Node's own. */
  readonly fetch?: typeof fetch;
  /** Tells something that nobody listens for. */
  readonly warn: (code: string, message: string) => void;
}

const steps = 2 ** 32;
const random = (): number => randomInt(steps) / steps;

export const systemRuntime: Runtime = {
  clock: systemClock,
  uniqueId: () => randomBytes(16).toString("base64url"),
  defer: (run) => void setImmediate(run),
  pauseMs: (tries) => pauseMs(tries, random),
  warn: (code, message) => process.emitWarning(message, { type: "CodeqWarning", code }),
};
