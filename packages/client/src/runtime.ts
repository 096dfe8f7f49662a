/** What this package takes from the process around it. Tests give it something else. */
import { randomBytes, randomInt } from "node:crypto";
import { type Clock, systemClock } from "./clock.ts";
import { pauseMs } from "./pause.ts";
import { listenForHttp } from "./subscriptions/http-receiver.ts";
import type { WebhookRequest } from "./verify-webhook.ts";

/** A port that is open. */
export interface Receiver {
  close(): Promise<void>;
}

/** Opens a port; `receive` gives the status of the answer. */
export type Listen = (
  at: { readonly port: number; readonly host?: string | undefined },
  receive: (request: WebhookRequest) => number,
) => Promise<Receiver>;

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
  readonly listen: Listen;
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
  listen: listenForHttp,
  warn: (code, message) => process.emitWarning(message, { type: "CodeqWarning", code }),
};
