/**
 * A front in its own thread. It first reports whether it could listen; then it exchanges messages with the
 * main thread until it is told to close and all its connections are closed.
 */
import assert from "node:assert/strict";
import { parentPort, workerData } from "node:worker_threads";
import { systemClock as clock } from "../clock.ts";
import type { Config } from "../config/settings.ts";
import { createLogger, type Logger } from "../telemetry/logger.ts";
import { Connections } from "../transport/connections.ts";
import { FrontCounts } from "../transport/fronts/front-counts.ts";
import { FrontDoor } from "../transport/fronts/front-door.ts";
import type { DeskWord, FrontWord } from "../transport/fronts/words.ts";
import type { RoutePlace } from "../transport/http/plain-request.ts";
import { loadCertificates } from "../transport/tls/certificates.ts";
import { ServerTls } from "../transport/tls/server-tls.ts";

export interface FrontThreadData {
  readonly config: Config;
  readonly front: number;
  readonly counts: SharedArrayBuffer;
  readonly routes: readonly RoutePlace[];
  readonly at: { readonly host: string; readonly port: number };
}

/** What a thread says besides the words of its front. */
export type FrontThreadNews =
  | { readonly news: "listening" }
  | { readonly news: "failed"; readonly code: string | undefined; readonly message: string };

/** What a thread is told besides the words for its front: an orderly end, the end, another certificate. */
export type FrontThreadOrder = "close" | "cut" | "reload";

assert(parentPort !== null, "runs in a thread");
const port = parentPort;
const { config, front, counts, routes, at } = workerData as FrontThreadData;
const logger = createLogger({
  level: config.logLevel,
  format: config.logFormat,
  write: (line) => void process.stdout.write(line),
  nowMs: () => clock.nowMs(),
}).child({ front });

function say(news: FrontThreadNews): void {
  port.postMessage(news);
}

/** The main thread has the same certificates, and logs what is to be said of them. */
function openTls(): ServerTls | undefined {
  if (config.tlsCertFile === "") return undefined;
  const { certificates, problems } = loadCertificates(config, clock.nowMs());
  if (certificates === undefined) throw new Error(problems.join("; "));
  const quiet: Logger = { ...logger, info: () => {}, warn: () => {}, error: () => {} };
  return new ServerTls({ settings: config, certificates, logger: quiet, clock });
}

try {
  const tls = openTls();
  const connections = new Connections({
    max: config.connectionsMax,
    listener: "http",
    logger,
    crowd: new FrontCounts({ buffer: counts }).crowdOf(front),
  });
  const door = new FrontDoor({
    limits: config,
    bodyBytesMax: config.bodyBytesMax,
    routes,
    connections,
    tls,
    clock,
    send: (words: readonly FrontWord[]) => port.postMessage(words),
    defer: (run) => void setImmediate(run),
  });
  port.on("message", (message: readonly DeskWord[] | FrontThreadOrder) => {
    if (message === "reload") tls?.reload();
    else if (message === "cut") connections.destroyAll();
    else if (message === "close") {
      void door.close().then(() => {
        tls?.[Symbol.dispose]();
        port.close();
      });
    } else door.take(message);
  });
  await door.listen(at);
  say({ news: "listening" });
} catch (error) {
  const { code, message } = error as NodeJS.ErrnoException;
  say({ news: "failed", code, message });
  port.close();
}
