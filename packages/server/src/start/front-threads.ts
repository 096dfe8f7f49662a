/**
 * Starts and watches the threads of the fronts. A front that ends unexpectedly loses only its own
 * connections; it is restarted, unless that happens too often.
 */
import { once } from "node:events";
import type { Server } from "node:http";
import { type AddressInfo, createServer } from "node:net";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import type { Clock } from "../clock.ts";
import type { Config } from "../config/settings.ts";
import type { Logger } from "../telemetry/logger.ts";
import { FrontCounts } from "../transport/fronts/front-counts.ts";
import { FrontDesk } from "../transport/fronts/front-desk.ts";
import type { FrontWord } from "../transport/fronts/words.ts";
import type { LocalAnswers } from "../transport/http/plain-answers.ts";
import { PlainRoutes } from "../transport/http/plain-request.ts";
import type { AnyRoute } from "../transport/http/route.ts";
import { cloneable } from "./cloneable-config.ts";
import type { FrontThreadData, FrontThreadNews, FrontThreadOrder } from "./front-thread.ts";
import type { Fronts } from "./listen.ts";
import { Restarts } from "./restarts.ts";

const youngMiB = 24;
const entry: string = fileURLToPath(import.meta.url).replace(
  /front-threads\.(ts|js)$/,
  "front-thread.$1",
);

export interface FrontThreadParts {
  readonly config: Config;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly server: Server;
  readonly answers: LocalAnswers;
  readonly routes: readonly AnyRoute[];
  /** No front is left, and none will be started again. */
  readonly onLost: () => void;
}

interface At {
  readonly host: string;
  readonly port: number;
}

export class FrontThreads implements Fronts {
  readonly counts: FrontCounts;
  readonly #parts: FrontThreadParts;
  #threads: readonly FrontThread[] = [];

  constructor(parts: FrontThreadParts) {
    this.#parts = parts;
    this.counts = new FrontCounts({ fronts: parts.config.fronts });
  }

  /** When one cannot listen, the others are stopped again. */
  async listen(at: At): Promise<number> {
    const port = await freePort(at);
    const { fronts } = this.#parts.config;
    const routes = new PlainRoutes(this.#parts.routes);
    this.#threads = Array.from({ length: fronts }, (_, number) => {
      const parts = { ...this.#parts, at: { ...at, port }, counts: this.counts, find: routes };
      return new FrontThread({ ...parts, number, onStaysDown: () => this.#staysDown() });
    });
    const opened = await Promise.allSettled(this.#threads.map((thread) => thread.open()));
    const failed = opened.find((each) => each.status === "rejected");
    if (failed === undefined) return port;
    await this.close();
    throw failed.reason;
  }

  async close(): Promise<void> {
    await Promise.all(this.#threads.map((thread) => thread.close()));
  }

  /** Ends all connections, whatever they are doing. */
  cut(): void {
    for (const thread of this.#threads) thread.order("cut");
  }

  reloadTls(): void {
    for (const thread of this.#threads) thread.order("reload");
  }

  #staysDown(): void {
    if (this.#threads.every(({ isDown }) => isDown)) this.#parts.onLost();
  }
}

/**
 * Fronts would share their port with any process of the same user that offers to share, so that two servers
 * would take turns. Nobody else has a port that can be opened without sharing.
 */
async function freePort(at: At): Promise<number> {
  const server = createServer();
  server.listen({ ...at, exclusive: true });
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

interface ThreadParts extends FrontThreadParts {
  readonly number: number;
  readonly at: At;
  readonly counts: FrontCounts;
  readonly find: PlainRoutes;
  readonly onStaysDown: () => void;
}

class FrontThread {
  isDown = false;
  readonly #parts: ThreadParts;
  readonly #restarts: Restarts;
  #worker: Worker | undefined;
  #isClosing = false;
  #closed: PromiseWithResolvers<void> | undefined;

  constructor(parts: ThreadParts) {
    this.#parts = parts;
    this.#restarts = new Restarts(parts.clock);
  }

  /** Resolves when it listens. */
  open(): Promise<void> {
    const { config, number, at, counts, routes } = this.#parts;
    this.#restarts.started();
    const workerData: FrontThreadData = {
      config: cloneable(config),
      front: number,
      counts: counts.buffer,
      routes: routes.map(({ method, path }) => ({ method, path })),
      at,
    };
    const worker = new Worker(entry, {
      workerData,
      name: `front-${number}`,
      resourceLimits: { maxYoungGenerationSizeMb: youngMiB },
    });
    this.#worker = worker;
    const desk = this.#deskOf(worker);
    const opened = Promise.withResolvers<void>();
    let isOpen = false;
    let cause: unknown;
    worker.on("message", (message: readonly FrontWord[] | FrontThreadNews) => {
      if (!("news" in message)) {
        desk.take(message);
      } else if (message.news === "listening") {
        isOpen = true;
        opened.resolve();
      } else {
        const { code, message: text } = message;
        opened.reject(Object.assign(new Error(text), { code }));
      }
    });
    worker.on("error", (error) => {
      cause = error;
    });
    worker.on("exit", () => {
      this.#worker = undefined;
      this.#closed?.resolve();
      counts.forget(number);
      desk.gone();
      opened.reject(cause ?? new Error(`front ${number} has ended`));
      if (isOpen && !this.#isClosing) this.#ended(cause);
    });
    return opened.promise;
  }

  order(order: FrontThreadOrder): void {
    this.#worker?.postMessage(order);
  }

  /** Resolves when all its connections are closed. */
  async close(): Promise<void> {
    this.#isClosing = true;
    if (this.#worker === undefined) return;
    this.#closed = Promise.withResolvers();
    this.order("close");
    await this.#closed.promise;
  }

  #deskOf(worker: Worker): FrontDesk {
    const { server, answers, find } = this.#parts;
    return new FrontDesk({
      server,
      answers,
      routes: find,
      send: (words) => worker.postMessage(words),
      defer: (run) => void setImmediate(run),
    });
  }

  #ended(cause: unknown): void {
    const { logger, number } = this.#parts;
    const error = cause instanceof Error ? (cause.stack ?? cause.message) : undefined;
    logger.error("an HTTP front thread ended and closed its connections", { front: number, error });
    this.#startAgain();
  }

  #startAgain(): void {
    const { logger, number, onStaysDown } = this.#parts;
    const isStarting = this.#restarts.startAgain(() => {
      if (this.#isClosing) return;
      this.open().then(
        () => logger.info("the HTTP front thread listens again", { front: number }),
        (error: Error) => {
          logger.error("the HTTP front thread could not be restarted", {
            front: number,
            error: error.message,
          });
          this.#startAgain();
        },
      );
    });
    if (isStarting) return;
    this.isDown = true;
    logger.error(
      "an HTTP front thread keeps failing; it stays down until the server is restarted",
      {
        front: number,
      },
    );
    onStaysDown();
  }
}
