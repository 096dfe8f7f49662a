/**
 * Outcomes that the server has not acknowledged. Each is sent, and sent again in every session
 * and after every refusal that may pass, until there is an answer that counts. Sending one twice is
 * harmless: a result that is there is acknowledged again, and everything else is fenced by the token
 * of the lease.
 */
import type { WireUint64, worker } from "@codeq/protocol/wire";
import { CodeqError, isRetryable } from "../codeq-error.ts";
import type { IdTable } from "../id-table.ts";
import type { Runtime } from "../runtime.ts";
import type { Attempt, Report } from "./attempt.ts";
import { eventOf, type Outcome, resultOf } from "./outcome.ts";

type AckedOutcome = "completed or failed" | "retry" | "hand_back";

export interface Ack {
  readonly kind: AckedOutcome;
  readonly taskId: string;
  readonly ok: boolean;
  readonly errorMessage: string;
  readonly errorCode: string;
  /** Zero when the server does not say which lease it answers for. */
  readonly leaseToken: WireUint64;
  /** The task was to be retried and had no attempt left. */
  readonly dlq?: boolean;
}

/** The final answer of the server. */
export interface Settlement {
  readonly outcome: Outcome;
  /** Set when the server did not accept the message. */
  readonly refused: CodeqError | undefined;
  /** It was the last attempt: the task is a dead letter. */
  readonly isDead: boolean;
}

interface OutboxParts {
  readonly runtime: Runtime;
  /** Everything that the worker has. */
  readonly attempts: IdTable<Attempt>;
  readonly isOpen: () => boolean;
  readonly send: (event: worker.WorkerEvent) => boolean;
  /** Called when there is something to send. */
  readonly onWaiting: () => void;
  /** The server has what it needs to know. */
  readonly onSettled: (attempt: Attempt, settlement: Settlement) => void;
}

const batchMax = 1000;
/** An event may have 4 MiB; a character may have three bytes. */
const batchCharsMax = 1024 * 1024;
const fieldsChars = 512;
/** The lease is over or belongs to another worker: the answers to a repeat of an outcome that was accepted. */
const overtaken: ReadonlySet<string> = new Set(["not_owner", "not_in_progress", "task_unknown"]);

export class Outbox {
  readonly #parts: OutboxParts;
  #unsent: Attempt[] = [];
  #size = 0;
  #cancelHold: (() => void) | undefined;

  constructor(parts: OutboxParts) {
    this.#parts = parts;
  }

  /** Outcomes that the server may not know. */
  get size(): number {
    return this.#size;
  }

  add(attempt: Attempt, outcome: Outcome): void {
    const isBehind = this.#reported(attempt.id) !== undefined;
    attempt.report = { outcome, state: isBehind ? "behind" : "unsent", tries: 0 };
    this.#size += 1;
    if (!isBehind) this.#unsent.push(attempt);
  }

  /** The connection is open, or has room again. */
  flush(): void {
    if (!this.#parts.isOpen()) return;
    const unsent = this.#unsent;
    this.#unsent = [];
    let results: worker.Result[] = [];
    let chars = 0;
    for (const attempt of unsent) {
      const { id, leaseToken, report } = attempt;
      if (report?.state !== "unsent") continue;
      report.state = "sent";
      report.tries += 1;
      const { outcome } = report;
      if (outcome.kind !== "completed" && outcome.kind !== "failed") {
        this.#parts.send(eventOf(id, leaseToken, outcome));
        continue;
      }
      const size = charsOf(outcome);
      if (results.length >= batchMax || chars + size > batchCharsMax) {
        this.#sendResults(results);
        results = [];
        chars = 0;
      }
      results.push(resultOf(id, leaseToken, outcome));
      chars += size;
    }
    this.#sendResults(results);
  }

  acknowledged(ack: Ack): void {
    const { kind, taskId, ok, errorMessage, errorCode, dlq = false } = ack;
    const attempt = this.#reported(taskId);
    const report = attempt?.report;
    if (attempt === undefined || !isFor(ack, attempt)) return;
    // An answer to an earlier attempt, from another session.
    if (report?.state !== "sent" || kindOf(report.outcome) !== kind) return;
    if (!ok && isRetryable(errorCode)) {
      this.#hold(report);
      return;
    }
    const isRepeat = report.tries > 1 && overtaken.has(errorCode);
    const worked = ok || (isRepeat && kind !== "completed or failed");
    const refused = worked ? undefined : new CodeqError(errorCode, errorMessage, { taskId });
    this.#settle(attempt, { outcome: report.outcome, refused, isDead: dlq });
  }

  /** The session ended: what it did not answer is sent again in the next one. */
  lost(): void {
    this.#requeue(({ state }) => state === "sent" || state === "unsent");
  }

  /** Nothing more will be sent. */
  stop(): void {
    this.#cancelHold?.();
    this.#cancelHold = undefined;
  }

  /** The attempt of this task whose answer comes next. */
  #reported(taskId: string): Attempt | undefined {
    const isNext = ({ report }: Attempt): boolean =>
      report !== undefined && report.state !== "behind";
    return this.#parts.attempts.find(taskId, isNext);
  }

  #sendResults(results: worker.Result[]): void {
    const [first] = results;
    if (first === undefined) return;
    this.#parts.send(
      results.length === 1
        ? { case: "result", value: first }
        : { case: "resultBatch", value: { results } },
    );
  }

  #requeue(isMeant: (report: Report) => boolean): void {
    this.#unsent = this.#parts.attempts
      .values()
      .filter(({ report }) => report !== undefined && isMeant(report));
    for (const { report } of this.#unsent) if (report !== undefined) report.state = "unsent";
  }

  #hold(report: Report): void {
    report.state = "held";
    const { clock, pauseMs } = this.#parts.runtime;
    this.#cancelHold ??= clock.after(pauseMs(report.tries), () => {
      this.#cancelHold = undefined;
      this.#requeue(({ state }) => state === "held" || state === "unsent");
      this.#parts.onWaiting();
    });
  }

  #settle(attempt: Attempt, settlement: Settlement): void {
    attempt.report = undefined;
    this.#size -= 1;
    const behind = this.#parts.attempts.find(
      attempt.id,
      ({ report }) => report?.state === "behind",
    );
    if (behind?.report !== undefined) {
      behind.report.state = "unsent";
      this.#unsent.push(behind);
      this.#parts.onWaiting();
    }
    this.#parts.onSettled(attempt, settlement);
  }
}

/** Whether it is about the lease of this attempt and not about another one of the same task. */
export function isFor(ack: Pick<Ack, "leaseToken">, attempt: Attempt): boolean {
  return ack.leaseToken === 0 || ack.leaseToken === attempt.leaseToken;
}

function kindOf({ kind }: Outcome): AckedOutcome {
  return kind === "completed" || kind === "failed" ? "completed or failed" : kind;
}

function charsOf(outcome: Extract<Outcome, { readonly kind: "completed" | "failed" }>): number {
  return fieldsChars + (outcome.kind === "completed" ? outcome.json.length : outcome.error.length);
}
