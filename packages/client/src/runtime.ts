/** What this package takes from the process around it. Tests give it something else. */
import { randomBytes, randomInt } from "node:crypto";
import { createServer } from "node:http";
import { type Clock, systemClock } from "./clock.ts";
import { CodeqError } from "./codeq-error.ts";
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
  /** A text that no other process has. */
  readonly uniqueId: () => string;
  /** Runs a function after what happens in this turn. */
  readonly defer: (run: () => void) => void;
  /** How long to wait before another try; `tries` is 1 after the first. */
  readonly pauseMs: (tries: number) => number;
  /** Instead of Node's own. */
  readonly fetch?: typeof fetch;
  readonly listen: Listen;
  /** Calls `close` when the process gets a signal to end; returns how to forget it. */
  readonly onSignal: (close: () => Promise<void>) => () => void;
  /** Reports an event that has no listener. */
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
  onSignal,
  warn: (code, message) => process.emitWarning(message, { type: "CodeqWarning", code }),
};

const firstMs = 100;
const longestMs = 5_000;

/** How long to wait before another try: longer with every one, and different for every client; `tries` begins at 1. */
function pauseMs(tries: number, random: () => number): number {
  const most = Math.min(longestMs, firstMs * 2 ** Math.min(Math.max(tries - 1, 0), 16));
  return most / 2 + (most / 2) * random();
}

const bodyBytesMax = 64 * 1024;

/** Listens for requests of the server, with a limit on what it reads. */
function listenForHttp(...[{ port, host }, receive]: Parameters<Listen>): Promise<Receiver> {
  return new Promise((resolve, reject) => {
    const server = createServer((request, response) => {
      const pieces: Buffer[] = [];
      let bytes = 0;
      request.on("data", (piece: Buffer) => {
        bytes += piece.length;
        if (bytes <= bodyBytesMax) pieces.push(piece);
        else request.destroy();
      });
      request.on("end", () => {
        const isPost = request.method === "POST";
        const body = Buffer.concat(pieces);
        response.writeHead(isPost ? receive({ body, headers: request.headers }) : 405).end();
      });
      // The sender went away, and sends it again.
      request.on("error", () => {});
    });
    server.once("error", (cause) => {
      const text = `cannot listen on port ${port}: ${cause.message}; give another port`;
      reject(new CodeqError("invalid_option", text, { cause }));
    });
    server.listen({ port, host }, () => {
      resolve({
        close: () =>
          new Promise((closed) => {
            server.close(() => closed());
            server.closeAllConnections();
          }),
      });
    });
  });
}

const signals = ["SIGINT", "SIGTERM"] as const;
/** For what else the application does at its end. */
const endMsMax = 5_000;

const closers = new Set<() => Promise<void>>();

/**
 * Closes workers when the process gets a signal to end. Node ends a process without a listener at once, and leaves one
 * with a listener alone; this does what lies between: workers close, then the process ends.
 * A second signal ends the process at once: the listeners are gone by then.
 */
function onSignal(close: () => Promise<void>): () => void {
  if (closers.size === 0) for (const signal of signals) process.on(signal, onEach);
  closers.add(close);
  return () => {
    closers.delete(close);
    if (closers.size === 0) stopListening();
  };
}

function stopListening(): void {
  for (const signal of signals) process.removeListener(signal, onEach);
}

function onEach(signal: NodeJS.Signals): void {
  stopListening();
  const closing = [...closers].map((close) => close());
  closers.clear();
  void Promise.allSettled(closing).then((closed) => {
    for (const each of closed) {
      if (each.status === "fulfilled") continue;
      process.exitCode = 1;
      process.emitWarning(each.reason as Error);
    }
    const end = (): void => {
      // Without another listener, the signal has its usual effect.
      if (process.listenerCount(signal) === 0) process.kill(process.pid, signal);
    };
    systemClock.after(endMsMax, end, { background: true });
  });
}
