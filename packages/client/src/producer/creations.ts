/**
 * Tasks on their way to the server. Those of one turn travel together; each is answered for itself.
 *
 *   waiting   not sent on this session; leaves when the connection has room
 *   sent      leaves by its acknowledgement; goes back to waiting when the session ends
 *   held      the server asked to come again later; goes back to waiting after a pause
 *
 * What was sent and not acknowledged may have been stored. It is sent again with the same idempotency
 * key, so that it is stored once.
 */
import type { producer } from "@codeq/protocol/wire";
import { CodeqError, isRetryable } from "../codeq-error.ts";
import { inWords } from "../duration.ts";
import { Fifo } from "../fifo.ts";
import type { Runtime } from "../runtime.ts";

export type CreateFields = Omit<producer.CreateTask, "seq">;

export interface CreateOptions {
  readonly timeoutMs: number;
  readonly signal: AbortSignal | undefined;
}

type Outcome = { readonly id: string } | { readonly error: unknown };

interface Creation {
  readonly message: producer.CreateTask;
  readonly bytes: number;
  readonly timeoutMs: number;
  readonly deadlineMs: number;
  /** Grows with every creation, so that they can be put back in order. */
  readonly order: number;
  readonly settle: (outcome: Outcome) => void;
  tries: number;
  state: "waiting" | "sent" | "held" | "settled";
}

interface CreationsParts {
  readonly runtime: Runtime;
  /** False when the connection is not open or has no more room. */
  readonly send: (event: producer.ProducerEvent) => boolean;
  readonly isOpen: () => boolean;
  /** There is something to send. */
  readonly onWaiting: () => void;
  /** There is nothing left that waits for an answer. */
  readonly onIdle: () => void;
  /** Why there is no connection, for the message of a timeout. */
  readonly problem: () => CodeqError | undefined;
}

/** Tasks that this process keeps in memory until they are acknowledged. */
const creationsMax = 100_000;
const creationBytesMax = 256 * 1024 * 1024;
/** What the server is given to do at one time. */
const sentMax = 8192;
const sentBytesMax = 8 * 1024 * 1024;
/** An event may have 4 MiB; a character may have three bytes. */
const batchCharsMax = 1024 * 1024;
const batchTasksMax = 1000;
/** The bytes of a creation beside its payload. */
const fieldsBytes = 512;

export class Creations {
  readonly #parts: CreationsParts;
  /** Some in it may be settled: they are passed over when their turn comes. */
  readonly #waiting = new Fifo<Creation>();
  /**
   * By the number that they were sent with, from 1 on. A number is given out again when it was
   * answered, not when the caller has stopped waiting: the answer may still come.
   */
  readonly #sent: (Creation | undefined)[] = [undefined];
  readonly #freeNumbers: number[] = [];
  #held: Creation[] = [];
  #size = 0;
  #bytes = 0;
  #sentSize = 0;
  #sentBytes = 0;
  #lastOrder = 0;
  #isScheduled = false;
  #alarm: { readonly atMs: number; readonly cancel: () => void } | undefined;
  #cancelHold: (() => void) | undefined;

  constructor(parts: CreationsParts) {
    this.#parts = parts;
  }

  get size(): number {
    return this.#size;
  }

  /** Resolves with the id of the task once it is stored. */
  add(fields: CreateFields, { timeoutMs, signal }: CreateOptions): Promise<string> {
    const bytes = fields.payload.length + fieldsBytes;
    if (this.#size >= creationsMax || this.#bytes + bytes > creationBytesMax) {
      const text = `${this.#size} tasks wait to be stored; wait for some before enqueueing more`;
      return Promise.reject(new CodeqError("too_many_pending", text));
    }
    if (signal?.aborted === true) return Promise.reject(signal.reason);
    return new Promise((resolve, reject) => {
      this.#lastOrder += 1;
      const onAbort = (): void => this.#fail(creation, signal?.reason);
      const creation: Creation = {
        message: { seq: 0, ...fields },
        bytes,
        timeoutMs,
        order: this.#lastOrder,
        deadlineMs: this.#parts.runtime.clock.monotonicMs() + timeoutMs,
        tries: 0,
        state: "waiting",
        settle: (outcome) => {
          signal?.removeEventListener("abort", onAbort);
          if ("id" in outcome) resolve(outcome.id);
          else reject(outcome.error);
        },
      };
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#size += 1;
      this.#bytes += bytes;
      this.#waiting.push(creation);
      this.#watch(creation.deadlineMs);
      this.#schedule();
    });
  }

  /** The connection is open, or has room again. */
  flush(): void {
    while (this.#waiting.size > 0 && this.#hasRoom()) {
      const batch = this.#nextBatch();
      const [first] = batch;
      if (first === undefined) return;
      const goesOn = this.#parts.send(
        batch.length === 1
          ? { case: "create", value: first }
          : { case: "createBatch", value: { tasks: batch } },
      );
      if (!goesOn) return;
    }
  }

  acknowledged({ seq, ok, taskId, errorMessage, errorCode }: producer.CreateAck): void {
    const creation = this.#sent[Number(seq)];
    if (creation === undefined) return;
    this.#sent[Number(seq)] = undefined;
    this.#freeNumbers.push(Number(seq));
    this.#sentSize -= 1;
    this.#sentBytes -= creation.bytes;
    if (ok) this.#settle(creation, { id: taskId });
    else if (isRetryable(errorCode)) this.#hold(creation);
    else this.#settle(creation, { error: new CodeqError(errorCode, errorMessage) });
  }

  /** The session ended: what it did not answer is asked again in the next one. */
  lost(): void {
    const sent = this.#sent.filter((creation) => creation?.state === "sent") as Creation[];
    for (const creation of sent) creation.state = "waiting";
    this.#waiting.unshift(sent.sort((a, b) => a.order - b.order));
    this.#sent.length = 1;
    this.#freeNumbers.length = 0;
    this.#sentSize = 0;
    this.#sentBytes = 0;
  }

  failAll(error: CodeqError): void {
    for (const creation of this.#all()) this.#fail(creation, error);
  }

  #all(): Creation[] {
    const sent = this.#sent.filter((creation) => creation !== undefined);
    return [...sent, ...this.#held, ...this.#waiting.values()];
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#parts.runtime.defer(() => {
      this.#isScheduled = false;
      if (this.#size > 0) this.#parts.onWaiting();
    });
  }

  #hasRoom(): boolean {
    const isFull = this.#sentSize >= sentMax || this.#sentBytes >= sentBytesMax;
    return !isFull && this.#parts.isOpen();
  }

  #nextBatch(): producer.CreateTask[] {
    const batch: producer.CreateTask[] = [];
    let chars = 0;
    while (batch.length < batchTasksMax && this.#sentSize < sentMax) {
      const creation = this.#waiting.first();
      if (creation === undefined) break;
      if (creation.state === "waiting") {
        if (batch.length > 0 && chars + creation.bytes > batchCharsMax) break;
        chars += creation.bytes;
        batch.push(this.#sending(creation));
      }
      this.#waiting.shift();
    }
    return batch;
  }

  #sending(creation: Creation): producer.CreateTask {
    const seq = this.#freeNumbers.pop() ?? this.#sent.length;
    this.#sent[seq] = creation;
    this.#sentSize += 1;
    this.#sentBytes += creation.bytes;
    creation.state = "sent";
    creation.tries += 1;
    creation.message.seq = seq;
    return creation.message;
  }

  /** The server may be able to store it later. */
  #hold(creation: Creation): void {
    if (creation.state === "settled") return;
    creation.state = "held";
    this.#held.push(creation);
    const { clock, pauseMs } = this.#parts.runtime;
    this.#cancelHold ??= clock.after(pauseMs(creation.tries), () => {
      this.#cancelHold = undefined;
      const held = this.#held.filter(({ state }) => state === "held");
      this.#held = [];
      for (const each of held) each.state = "waiting";
      this.#waiting.unshift(held);
      if (this.#size > 0) this.#parts.onWaiting();
    });
  }

  #fail(creation: Creation, reason: unknown): void {
    const ambiguous = creation.tries > 0;
    const error =
      reason instanceof CodeqError && ambiguous
        ? new CodeqError(reason.code, reason.message, { cause: reason.cause, ambiguous })
        : reason;
    this.#settle(creation, { error });
  }

  #settle(creation: Creation, outcome: Outcome): void {
    if (creation.state === "settled") return;
    creation.state = "settled";
    this.#size -= 1;
    this.#bytes -= creation.bytes;
    creation.settle(outcome);
    if (this.#size === 0) this.#rest();
  }

  #rest(): void {
    this.#alarm?.cancel();
    this.#alarm = undefined;
    this.#cancelHold?.();
    this.#cancelHold = undefined;
    this.#held = [];
    this.#parts.onIdle();
  }

  /** One timer for all: it is set for the first deadline that is known. */
  #watch(deadlineMs: number): void {
    if (this.#alarm !== undefined && this.#alarm.atMs <= deadlineMs) return;
    this.#alarm?.cancel();
    const { clock } = this.#parts.runtime;
    const cancel = clock.after(deadlineMs - clock.monotonicMs(), () => this.#expire());
    this.#alarm = { atMs: deadlineMs, cancel };
  }

  #expire(): void {
    this.#alarm = undefined;
    const nowMs = this.#parts.runtime.clock.monotonicMs();
    let nextMs = Number.POSITIVE_INFINITY;
    for (const creation of this.#all()) {
      if (creation.state === "settled") continue;
      // Timers are cut to whole milliseconds and may come a little early.
      if (creation.deadlineMs <= nowMs + 1) {
        this.#fail(creation, this.#timeout(creation.timeoutMs));
      } else {
        nextMs = Math.min(nextMs, creation.deadlineMs);
      }
    }
    if (Number.isFinite(nextMs)) this.#watch(nextMs);
  }

  #timeout(timeoutMs: number): CodeqError {
    const cause = this.#parts.problem();
    const why = cause === undefined ? "" : `: ${cause.message}`;
    return new CodeqError("timeout", `no answer within ${inWords(timeoutMs)}${why}`, { cause });
  }
}
