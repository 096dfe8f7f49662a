/**
 * Starts and watches the threads of the shards. A shard that ends unexpectedly is restarted, because its
 * data is as after a crash, unless that happens too often; the other shards go on. A shard whose storage has
 * failed does not end: it refuses all calls.
 */
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { FaultError } from "@codeq/engine";
import type { Config } from "../../config/settings.ts";
import type { Clock } from "../../core/clock.ts";
import type { ShardLink } from "../../core/shards/link.ts";
import type { Logger } from "../../telemetry/logger.ts";
import type { ShardThreadData, ShardThreadWord } from "./shard-thread.ts";

const youngMiB = 24;
const entry: string = fileURLToPath(import.meta.url).replace(
  /shard-threads\.(ts|js)$/,
  "shard-thread.$1",
);

export interface ShardThreadParts {
  readonly config: Config;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The id of the store that knows of the shards. */
  readonly storeId: number | undefined;
}

/** Resolves when all shards are open; when one cannot be opened, the others are stopped again. */
export async function openShardThreads(parts: ShardThreadParts): Promise<readonly ShardLink[]> {
  const threads = Array.from(
    { length: parts.config.shards },
    (_, number) => new ShardThread(parts, number),
  );
  const opened = await Promise.allSettled(threads.map((thread) => thread.open()));
  const failed = opened.find((each) => each.status === "rejected");
  if (failed === undefined) return threads;
  await Promise.all(threads.map((thread) => thread.stop()));
  throw failed.reason;
}

class ShardThread implements ShardLink {
  onDown: (fault: FaultError) => void = () => {};
  readonly #parts: ShardThreadParts;
  readonly #number: number;
  /** Messages that arrived before there was a listener. */
  readonly #early: Uint8Array[] = [];
  #listener: ((message: Uint8Array) => void) | undefined;
  readonly #restarts: Restarts;
  #worker: Worker | undefined;
  #isStopping = false;
  #stopped: PromiseWithResolvers<void> | undefined;

  constructor(parts: ShardThreadParts, number: number) {
    this.#parts = parts;
    this.#number = number;
    this.#restarts = new Restarts(parts.clock);
  }

  open(): Promise<void> {
    const { config, storeId } = this.#parts;
    this.#restarts.started();
    const workerData: ShardThreadData = {
      config: cloneable(config),
      shard: { number: this.#number, of: storeId },
    };
    const worker = new Worker(entry, {
      workerData,
      name: `shard-${this.#number}`,
      resourceLimits: { maxYoungGenerationSizeMb: youngMiB },
    });
    this.#worker = worker;
    const opened = Promise.withResolvers<void>();
    let isOpen = false;
    let cause: unknown;
    worker.on("message", (message: Uint8Array | ShardThreadWord) => {
      if (message instanceof Uint8Array) {
        this.#hear(message);
      } else if (message.word === "opened") {
        isOpen = true;
        opened.resolve();
      } else if (message.word === "failed") {
        opened.reject(new FaultError(message.code, `shard ${this.#number}: ${message.message}`));
      }
    });
    worker.on("error", (error) => {
      cause = error;
    });
    worker.on("exit", () => {
      this.#worker = undefined;
      this.#stopped?.resolve();
      const fault = this.#fault(cause);
      opened.reject(fault);
      if (isOpen && !this.#isStopping) this.#ended(fault);
    });
    return opened.promise;
  }

  send(message: Uint8Array<ArrayBuffer>): void {
    this.#worker?.postMessage(message, [message.buffer]);
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    if (this.#worker === undefined) return;
    this.#stopped = Promise.withResolvers();
    this.#worker.postMessage("stop");
    await this.#stopped.promise;
  }

  set onMessage(listener: (message: Uint8Array) => void) {
    this.#listener = listener;
    for (const each of this.#early.splice(0)) listener(each);
  }

  #hear(message: Uint8Array): void {
    if (this.#listener === undefined) this.#early.push(message);
    else this.#listener(message);
  }

  #fault(cause: unknown): FaultError {
    const why = cause instanceof Error ? `: ${cause.message}` : "";
    return new FaultError("storage_failed", `shard ${this.#number} has ended${why}`, cause);
  }

  #ended(fault: FaultError): void {
    this.#parts.logger.error("a shard failed", {
      shard: this.#number,
      error: (fault.cause as Error | undefined)?.stack ?? fault.message,
    });
    this.onDown(fault);
    this.#startAgain();
  }

  /** Unless it was started too often lately. */
  #startAgain(): void {
    const { logger } = this.#parts;
    const shard = this.#number;
    const isStarting = this.#restarts.startAgain(() => {
      if (this.#isStopping) return;
      this.open().then(
        () => logger.info("the shard is open again", { shard }),
        (error: FaultError) => {
          logger.error("the shard could not be opened again", { shard, error: error.message });
          this.#startAgain();
        },
      );
    });
    if (isStarting) return;
    logger.error("a shard keeps failing; it stays down until the server is restarted", {
      shard,
    });
  }
}

/** The configuration without values that cannot be sent to a thread. */
function cloneable(config: Config): Config {
  return structuredClone(
    Object.fromEntries(Object.entries(config).filter(([, value]) => typeof value !== "function")),
  ) as unknown as Config;
}

const startsMax = 5;
const startsWithinMs = 60_000;
const startAfterMs = 250;

/** Restarts a thread that has ended unexpectedly: after a delay, and only a limited number of times. */
export class Restarts {
  readonly #clock: Clock;
  readonly #startedMs: number[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  started(): void {
    this.#startedMs.push(this.#clock.monotonicMs());
  }

  /** False when it was started too often lately, and will not be started again. */
  startAgain(start: () => void): boolean {
    const nowMs = this.#clock.monotonicMs();
    const recent = this.#startedMs.filter((atMs) => nowMs - atMs < startsWithinMs).length;
    if (recent >= startsMax) return false;
    this.#clock.after(startAfterMs, start);
    return true;
  }
}
