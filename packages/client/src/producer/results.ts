/**
 * Results that are waited for. A task is asked for once, however many wait for it, and again in every
 * session until it has ended.
 */
import type { producer } from "@codeq/protocol/wire";
import { CodeqError, isRetryable } from "../codeq-error.ts";
import { inWords } from "../duration.ts";
import { Fifo } from "../fifo.ts";
import { IdTable } from "../id-table.ts";
import type { Runtime } from "../runtime.ts";

export interface WaitOptions {
  /** Undefined waits for as long as it takes. */
  readonly timeoutMs: number | undefined;
  readonly signal: AbortSignal | undefined;
}

interface ResultsParts {
  readonly runtime: Runtime;
  readonly send: (event: producer.ProducerEvent) => boolean;
  readonly isOpen: () => boolean;
  readonly onWaiting: () => void;
  readonly onIdle: () => void;
  readonly problem: () => CodeqError | undefined;
}

interface Waiter {
  readonly settle: (outcome: { readonly value: producer.TaskResult } | { error: unknown }) => void;
}

interface Awaited {
  /** The id of the task. */
  readonly id: string;
  readonly waiters: Waiter[];
  isAsked: boolean;
  refusals: number;
}

/** Tasks whose results may be waited for at one time. */
const awaitedMax = 100_000;
/** A little less than the server takes on one stream. */
const askedMax = 16_000;
/** The server has a limit of its own; then it is asked again. */
const waitSeconds = 60;

export class Results {
  readonly #parts: ResultsParts;
  readonly #awaited = new IdTable<Awaited>();
  /** Results that have to be asked for on this session, and some whose callers have stopped waiting. */
  #unasked = new Fifo<Awaited>();
  #asked = 0;
  #isScheduled = false;

  constructor(parts: ResultsParts) {
    this.#parts = parts;
  }

  get size(): number {
    return this.#awaited.size;
  }

  wait(taskId: string, { timeoutMs, signal }: WaitOptions): Promise<producer.TaskResult> {
    if (signal?.aborted === true) return Promise.reject(signal.reason);
    const awaited = this.#awaited.get(taskId) ?? this.#begin(taskId);
    if (awaited === undefined) {
      const text = `${awaitedMax} results are waited for; wait for some before asking for more`;
      return Promise.reject(new CodeqError("too_many_pending", text));
    }
    return new Promise((resolve, reject) => {
      const onAbort = (): void => waiter.settle({ error: signal?.reason });
      const cancelTimeout = this.#after(timeoutMs, () =>
        waiter.settle({ error: this.#timeout(taskId, timeoutMs ?? 0) }),
      );
      const waiter: Waiter = {
        settle: (outcome) => {
          cancelTimeout();
          signal?.removeEventListener("abort", onAbort);
          if ("value" in outcome) resolve(outcome.value);
          else reject(outcome.error);
          this.#left(awaited, waiter);
        },
      };
      signal?.addEventListener("abort", onAbort, { once: true });
      awaited.waiters.push(waiter);
    });
  }

  /** The connection is open, or has room again. */
  flush(): void {
    while (this.#asked < askedMax && this.#parts.isOpen()) {
      const awaited = this.#unasked.shift();
      if (awaited === undefined) return;
      if (awaited.waiters.length === 0) continue;
      awaited.isAsked = true;
      this.#asked += 1;
      if (!this.#ask(awaited)) return;
    }
  }

  answered(result: producer.TaskResult): void {
    const { taskId, ok, errorCode, errorMessage } = result;
    const awaited = this.#awaited.get(taskId);
    // No caller waits any more, or the answer is to an earlier question that was given up.
    if (awaited === undefined || !awaited.isAsked) return;
    if (ok) this.#settle(awaited, { value: result });
    else if (errorCode === "result_not_found") this.#ask(awaited);
    else if (isRetryable(errorCode)) this.#askLater(awaited);
    else this.#settle(awaited, { error: new CodeqError(errorCode, errorMessage, { taskId }) });
  }

  lost(): void {
    this.#asked = 0;
    this.#unasked = new Fifo();
    for (const awaited of this.#awaited.values()) {
      awaited.isAsked = false;
      this.#unasked.push(awaited);
    }
  }

  failAll(error: CodeqError): void {
    for (const awaited of this.#awaited.values()) this.#settle(awaited, { error });
  }

  #begin(taskId: string): Awaited | undefined {
    if (this.#awaited.size >= awaitedMax) return undefined;
    const awaited: Awaited = { id: taskId, waiters: [], isAsked: false, refusals: 0 };
    this.#awaited.add(awaited);
    this.#unasked.push(awaited);
    this.#schedule();
    return awaited;
  }

  /** What is asked for in one turn travels together. */
  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#parts.runtime.defer(() => {
      this.#isScheduled = false;
      if (this.#awaited.size > 0) this.#parts.onWaiting();
    });
  }

  #ask({ id: taskId }: Awaited): boolean {
    return this.#parts.send({ case: "awaitResult", value: { taskId, waitSeconds } });
  }

  #askLater(awaited: Awaited): void {
    awaited.refusals += 1;
    const { clock, pauseMs } = this.#parts.runtime;
    const askAgain = (): void => {
      if (awaited.isAsked && awaited.waiters.length > 0) this.#ask(awaited);
    };
    // The connection keeps the process alive while a caller waits.
    clock.after(pauseMs(awaited.refusals), askAgain, { background: true });
  }

  #settle(awaited: Awaited, outcome: Parameters<Waiter["settle"]>[0]): void {
    for (const waiter of [...awaited.waiters]) waiter.settle(outcome);
  }

  #left(awaited: Awaited, waiter: Waiter): void {
    const at = awaited.waiters.indexOf(waiter);
    if (at < 0) return;
    awaited.waiters.splice(at, 1);
    if (awaited.waiters.length > 0) return;
    this.#awaited.remove(awaited);
    if (awaited.isAsked) this.#asked -= 1;
    if (this.#awaited.size === 0) this.#parts.onIdle();
    else if (this.#unasked.size > 0) this.flush();
  }

  #after(timeoutMs: number | undefined, run: () => void): () => void {
    return timeoutMs === undefined ? () => {} : this.#parts.runtime.clock.after(timeoutMs, run);
  }

  #timeout(taskId: string, timeoutMs: number): CodeqError {
    const cause = this.#parts.problem();
    const why = cause === undefined ? "" : `: ${cause.message}`;
    const text = `task ${taskId} has no result after ${inWords(timeoutMs)}${why}`;
    return new CodeqError("timeout", text, { cause, taskId });
  }
}
