/**
 * Runs jobs that depend on time. Each job says when it is due next and does its due work; the ticker sleeps
 * until the earliest of these times. A job that fails because the disk is full, or because no node leads, is
 * retried a little later; a failed storage ends the ticker.
 */
import { FaultError } from "@codeq/engine";
import type { Logger } from "../../telemetry/logger.ts";
import { type Clock, untilSharedMs } from "../clock.ts";

export interface Job {
  readonly name: string;
  /** On the monotonic clock; undefined when nothing is planned. */
  nextMs(): number | undefined;
  /** Does a bounded piece of what is due. */
  runOnce(): Promise<void>;
}

const retryMs = 500;
/** Faults that end when the disk has room again, or another node leads. */
const passing: ReadonlySet<FaultError["code"]> = new Set(["disk_full", "not_leader", "unknown"]);
/** The wall clock may be set forward: what waits for it is looked at about so often. */
const lookAgainMsDefault = 1000;

export class Ticker implements AsyncDisposable {
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #jobs: readonly Job[];
  readonly #lookAgainMs: number;
  #cancel: (() => void) | undefined;
  #timerMs = Number.POSITIVE_INFINITY;
  #running: Promise<void> | undefined;
  #notBeforeMs = 0;
  #isStopped = false;

  constructor(parts: {
    clock: Clock;
    logger: Logger;
    jobs: readonly Job[];
    lookAgainMs?: number | undefined;
  }) {
    this.#clock = parts.clock;
    this.#logger = parts.logger;
    this.#jobs = parts.jobs;
    this.#lookAgainMs = parts.lookAgainMs ?? lookAgainMsDefault;
  }

  /** To be called when a job is due earlier than the ticker knows. */
  wake(): void {
    if (this.#isStopped || this.#running !== undefined) return;
    const nowMs = this.#clock.monotonicMs();
    const nextMs = Math.max(this.#earliestMs(), this.#notBeforeMs);
    if (nextMs === Number.POSITIVE_INFINITY) return;
    const atMs = Math.min(nextMs, nowMs + untilSharedMs(this.#clock, this.#lookAgainMs));
    if (this.#cancel !== undefined && this.#timerMs <= atMs) return;
    this.#cancel?.();
    this.#timerMs = atMs;
    this.#cancel = this.#clock.after(Math.max(atMs - nowMs, 0), () => {
      this.#cancel = undefined;
      this.#running = this.#run().finally(() => {
        this.#running = undefined;
        this.wake();
      });
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isStopped = true;
    this.#cancel?.();
    await this.#running;
  }

  #earliestMs(): number {
    return this.#jobs.reduce(
      (earliest, job) => Math.min(earliest, job.nextMs() ?? Number.POSITIVE_INFINITY),
      Number.POSITIVE_INFINITY,
    );
  }

  async #run(): Promise<void> {
    for (const job of this.#jobs) {
      const nextMs = job.nextMs();
      if (this.#isStopped || nextMs === undefined || nextMs > this.#clock.monotonicMs()) continue;
      try {
        await job.runOnce();
      } catch (error) {
        this.#onError(job, error);
        return;
      }
    }
  }

  #onError(job: Job, error: unknown): void {
    if (!(error instanceof FaultError)) throw error;
    if (passing.has(error.code)) this.#notBeforeMs = this.#clock.monotonicMs() + retryMs;
    else this.#isStopped = true;
    this.#logger.warn("maintenance could not write", { job: job.name, fault: error.code });
  }
}

/** Waits, but no longer than the given time. */
export async function within(clock: Clock, ms: number, settled: Promise<void>): Promise<void> {
  let cancel = (): void => {};
  const timeout = new Promise<void>((resolve) => {
    cancel = clock.after(ms, resolve);
  });
  await Promise.race([settled, timeout]);
  cancel();
}
