/**
 * Outcomes that the server has not acknowledged. Each is sent, and sent again in every conversation
 * and after every refusal that may pass, until there is an answer that counts. Sending one twice is
 * harmless: a result that is there is acknowledged again, and everything else is fenced by the token
 * of the lease.
 */
import type { worker } from "@codeq/protocol/wire";
import { CodeqError, isRetryable } from "../codeq-error.ts";
import type { Runtime } from "../runtime.ts";
import type { Delivery } from "./delivery.ts";
import { eventOf, type Outcome, resultOf } from "./outcome.ts";

export type AckedOutcome = "completed or failed" | "retry" | "hand_back";

export interface Ack {
  readonly kind: AckedOutcome;
  readonly taskId: string;
  readonly ok: boolean;
  readonly errorMessage: string;
  readonly errorCode: string;
}

interface Entry {
  readonly delivery: Delivery;
  readonly outcome: Outcome;
  tries: number;
  isSent: boolean;
  /** A later delivery of the same task; its turn comes when this one is answered. */
  behind: Entry | undefined;
}

export interface OutboxParts {
  readonly runtime: Runtime;
  readonly isOpen: () => boolean;
  readonly send: (event: worker.WorkerEvent) => boolean;
  /** Something can be sent. */
  readonly onWaiting: () => void;
  /** The server has what it needs to know; an error when it did not accept it. */
  readonly onSettled: (
    delivery: Delivery,
    outcome: Outcome,
    refused: CodeqError | undefined,
  ) => void;
}

const batchMax = 1000;
/** An event may have 4 MiB; a character may have three bytes. */
const batchCharsMax = 1024 * 1024;
const fieldsChars = 512;
/** The lease is somebody else's, or nobody's: what a repeat of an outcome that worked is told. */
const overtaken: ReadonlySet<string> = new Set(["not_owner", "not_in_progress", "task_unknown"]);

export class Outbox {
  readonly #parts: OutboxParts;
  readonly #entries = new Map<string, Entry>();
  /** Those that have to be sent on this conversation. */
  readonly #unsent = new Set<Entry>();
  readonly #held = new Set<Entry>();
  #cancelHold: (() => void) | undefined;

  constructor(parts: OutboxParts) {
    this.#parts = parts;
  }

  get size(): number {
    return this.#entries.size;
  }

  add(delivery: Delivery, outcome: Outcome): void {
    const entry: Entry = { delivery, outcome, tries: 0, isSent: false, behind: undefined };
    const before = this.#entries.get(delivery.id);
    if (before === undefined) {
      this.#entries.set(delivery.id, entry);
      this.#unsent.add(entry);
    } else {
      lastOf(before).behind = entry;
    }
  }

  /** The line is open, or has room again. */
  flush(): void {
    let results: worker.Result[] = [];
    let chars = 0;
    const sendResults = (): void => {
      const [first] = results;
      if (first === undefined) return;
      this.#parts.send(
        results.length === 1
          ? { case: "result", value: first }
          : { case: "resultBatch", value: { results } },
      );
      results = [];
      chars = 0;
    };
    for (const entry of this.#unsent) {
      if (!this.#parts.isOpen()) return;
      const { delivery, outcome } = entry;
      const { id, leaseToken } = delivery;
      this.#sending(entry);
      if (outcome.kind !== "completed" && outcome.kind !== "failed") {
        this.#parts.send(eventOf(id, leaseToken, outcome));
        continue;
      }
      const size = charsOf(outcome);
      if (results.length >= batchMax || chars + size > batchCharsMax) sendResults();
      results.push(resultOf(id, leaseToken, outcome));
      chars += size;
    }
    sendResults();
  }

  acknowledged({ kind, taskId, ok, errorMessage, errorCode }: Ack): void {
    const entry = this.#entries.get(taskId);
    // Of an earlier delivery that was answered in another conversation.
    if (entry === undefined || !entry.isSent || kindOf(entry.outcome) !== kind) return;
    if (!ok && isRetryable(errorCode)) {
      this.#hold(entry);
      return;
    }
    const isRepeat = entry.tries > 1 && overtaken.has(errorCode);
    const worked = ok || (isRepeat && kind !== "completed or failed");
    this.#settle(entry, worked ? undefined : new CodeqError(errorCode, errorMessage, { taskId }));
  }

  /** The conversation ended: what it did not answer is sent again in the next one. */
  lost(): void {
    for (const entry of this.#entries.values()) {
      entry.isSent = false;
      if (!this.#held.has(entry)) this.#unsent.add(entry);
    }
  }

  /** Nothing more will be sent. */
  stop(): void {
    this.#cancelHold?.();
    this.#cancelHold = undefined;
  }

  /** Deliveries whose outcome the server may not know. */
  *unsettled(): Generator<Delivery> {
    for (const { delivery } of this.#entries.values()) yield delivery;
  }

  #sending(entry: Entry): void {
    this.#unsent.delete(entry);
    entry.isSent = true;
    entry.tries += 1;
  }

  #hold(entry: Entry): void {
    entry.isSent = false;
    this.#held.add(entry);
    const { clock, pauseMs } = this.#parts.runtime;
    this.#cancelHold ??= clock.after(pauseMs(entry.tries), () => {
      this.#cancelHold = undefined;
      for (const held of this.#held) this.#unsent.add(held);
      this.#held.clear();
      this.#parts.onWaiting();
    });
  }

  #settle(entry: Entry, refused: CodeqError | undefined): void {
    const { delivery, outcome, behind } = entry;
    if (behind === undefined) {
      this.#entries.delete(delivery.id);
    } else {
      this.#entries.set(delivery.id, behind);
      this.#unsent.add(behind);
      this.#parts.onWaiting();
    }
    this.#parts.onSettled(delivery, outcome, refused);
  }
}

function kindOf({ kind }: Outcome): AckedOutcome {
  return kind === "completed" || kind === "failed" ? "completed or failed" : kind;
}

function charsOf(outcome: Extract<Outcome, { readonly kind: "completed" | "failed" }>): number {
  return fieldsChars + (outcome.kind === "completed" ? outcome.json.length : outcome.error.length);
}

function lastOf(entry: Entry): Entry {
  let last = entry;
  while (last.behind !== undefined) last = last.behind;
  return last;
}
