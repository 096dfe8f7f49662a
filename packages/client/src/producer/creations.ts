/**
 * Tasks on their way to the server. Those of one turn travel together; each is answered for itself.
 *
 *   waiting   not sent on this conversation; leaves when the line has room
 *   sent      leaves by its acknowledgement; goes back to waiting when the conversation ends
 *   held      the server asked to come again later; goes back to waiting after a pause
 *
 * What was sent and not acknowledged may have been stored. It is sent again with the same idempotency
 * key, so that it is stored once.
 */
import type { producer } from "@codeq/protocol/wire";
import { CodeqError, isRetryable } from "../codeq-error.ts";
import { inWords } from "../duration.ts";
import type { Runtime } from "../runtime.ts";

export type CreateFields = Omit<producer.CreateTask, "seq">;

export interface CreateOptions {
  readonly timeoutMs: number;
  readonly signal: AbortSignal | undefined;
}

interface Creation {
  readonly message: producer.CreateTask;
  readonly bytes: number;
  readonly timeoutMs: number;
  readonly deadlineMs: number;
  readonly settle: (outcome: { readonly id: string } | { readonly error: unknown }) => void;
  tries: number;
}

export interface CreationsParts {
  readonly runtime: Runtime;
  /** False when the line is not open or has no more room. */
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
/** Beside the payload. */
const fieldsBytes = 512;

export class Creations {
  readonly #parts: CreationsParts;
  #waiting = new Map<number, Creation>();
  readonly #sent = new Map<number, Creation>();
  readonly #held = new Map<number, Creation>();
  #bytes = 0;
  #sentBytes = 0;
  #lastSeq = 0;
  #isScheduled = false;
  #alarm: { readonly atMs: number; readonly cancel: () => void } | undefined;
  #cancelHold: (() => void) | undefined;

  constructor(parts: CreationsParts) {
    this.#parts = parts;
  }

  get size(): number {
    return this.#waiting.size + this.#sent.size + this.#held.size;
  }

  /** Resolves with the id of the task once it is stored. */
  add(fields: CreateFields, { timeoutMs, signal }: CreateOptions): Promise<string> {
    const bytes = fields.payload.length + fieldsBytes;
    if (this.size >= creationsMax || this.#bytes + bytes > creationBytesMax) {
      const text = `${this.size} tasks wait to be stored; wait for some before enqueueing more`;
      return Promise.reject(new CodeqError("too_many_pending", text));
    }
    if (signal?.aborted === true) return Promise.reject(signal.reason);
    return new Promise((resolve, reject) => {
      this.#lastSeq += 1;
      const seq = this.#lastSeq;
      const onAbort = (): void => this.#fail(seq, signal?.reason);
      const creation: Creation = {
        message: { seq, ...fields },
        bytes,
        timeoutMs,
        deadlineMs: this.#parts.runtime.clock.monotonicMs() + timeoutMs,
        tries: 0,
        settle: (outcome) => {
          signal?.removeEventListener("abort", onAbort);
          if ("id" in outcome) resolve(outcome.id);
          else reject(outcome.error);
        },
      };
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#bytes += bytes;
      this.#waiting.set(seq, creation);
      this.#watch(creation.deadlineMs);
      this.#schedule();
    });
  }

  /** The line is open, or has room again. */
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
    const creation = this.#sent.get(Number(seq));
    if (creation === undefined) return;
    if (ok) this.#settle(Number(seq), { id: taskId });
    else if (isRetryable(errorCode)) this.#hold(Number(seq), creation);
    else this.#settle(Number(seq), { error: new CodeqError(errorCode, errorMessage) });
  }

  /** The conversation ended: what it did not answer is asked again in the next one. */
  lost(): void {
    this.#waiting = new Map([...this.#sent, ...this.#waiting]);
    this.#sent.clear();
    this.#sentBytes = 0;
  }

  failAll(error: CodeqError): void {
    for (const seq of [...this.#sent.keys(), ...this.#held.keys(), ...this.#waiting.keys()]) {
      this.#fail(seq, error);
    }
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#parts.runtime.defer(() => {
      this.#isScheduled = false;
      if (this.#waiting.size > 0) this.#parts.onWaiting();
    });
  }

  #hasRoom(): boolean {
    const isFull = this.#sent.size >= sentMax || this.#sentBytes >= sentBytesMax;
    return !isFull && this.#parts.isOpen();
  }

  #nextBatch(): producer.CreateTask[] {
    const batch: producer.CreateTask[] = [];
    let chars = 0;
    for (const [seq, creation] of this.#waiting) {
      if (batch.length > 0 && chars + creation.bytes > batchCharsMax) break;
      chars += creation.bytes;
      creation.tries += 1;
      this.#waiting.delete(seq);
      this.#sent.set(seq, creation);
      this.#sentBytes += creation.bytes;
      batch.push(creation.message);
      if (batch.length >= batchTasksMax || this.#sent.size >= sentMax) break;
    }
    return batch;
  }

  /** The server may be able to store it later. */
  #hold(seq: number, creation: Creation): void {
    this.#sent.delete(seq);
    this.#sentBytes -= creation.bytes;
    this.#held.set(seq, creation);
    const { clock, pauseMs } = this.#parts.runtime;
    this.#cancelHold ??= clock.after(pauseMs(creation.tries), () => {
      this.#cancelHold = undefined;
      this.#waiting = new Map([...this.#held, ...this.#waiting]);
      this.#held.clear();
      if (this.#waiting.size > 0) this.#parts.onWaiting();
    });
  }

  #fail(seq: number, reason: unknown): void {
    const creation = this.#sent.get(seq) ?? this.#held.get(seq) ?? this.#waiting.get(seq);
    if (creation === undefined) return;
    const ambiguous = creation.tries > 0;
    const error =
      reason instanceof CodeqError && ambiguous
        ? new CodeqError(reason.code, reason.message, { cause: reason.cause, ambiguous })
        : reason;
    this.#settle(seq, { error });
  }

  #settle(seq: number, outcome: { readonly id: string } | { readonly error: unknown }): void {
    const sent = this.#sent.get(seq);
    const creation = sent ?? this.#held.get(seq) ?? this.#waiting.get(seq);
    if (creation === undefined) return;
    if (sent !== undefined) this.#sentBytes -= sent.bytes;
    this.#sent.delete(seq) || this.#held.delete(seq) || this.#waiting.delete(seq);
    this.#bytes -= creation.bytes;
    creation.settle(outcome);
    if (this.size === 0) this.#rest();
  }

  #rest(): void {
    this.#alarm?.cancel();
    this.#alarm = undefined;
    this.#cancelHold?.();
    this.#cancelHold = undefined;
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
    for (const creations of [this.#sent, this.#held, this.#waiting]) {
      for (const [seq, { deadlineMs, timeoutMs }] of creations) {
        // Timers are cut to whole milliseconds and may come a little early.
        if (deadlineMs <= nowMs + 1) this.#fail(seq, this.#timeout(timeoutMs));
        else nextMs = Math.min(nextMs, deadlineMs);
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
