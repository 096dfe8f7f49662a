/**
 * Keeps the leases of attempts: extends each before a third of it has passed, and says when one is
 * lost, either because the server says so or because no extension was confirmed in time. It also
 * notices when the process is too busy to do that.
 */
import type { worker } from "@codeq/protocol/wire";
import { CodeqError, isRetryable } from "../codeq-error.ts";
import { inWords, toSeconds } from "../duration.ts";
import type { IdTable } from "../id-table.ts";
import type { Runtime } from "../runtime.ts";
import type { Attempt } from "./attempt.ts";
import { isFor } from "./outbox.ts";

interface LeasesParts {
  readonly runtime: Runtime;
  /** Everything that the worker has. */
  readonly attempts: IdTable<Attempt>;
  readonly isOpen: () => boolean;
  readonly send: (event: worker.WorkerEvent) => boolean;
  readonly onLost: (attempt: Attempt, error: CodeqError) => void;
  /** The event loop was blocked for this long. */
  readonly onLag: (lagMs: number) => void;
  readonly lagWarningMs: number;
}

/** What a handler says is sent at most this often. */
const newsMs = 1000;
const tickMsMax = 500;
const ticksPerLease = 12;
/** Blocked for longer than this, the process says so at most this often. */
const lagSilenceMs = 10_000;

export class Leases {
  readonly #parts: LeasesParts;
  #size = 0;
  #cancelTick: (() => void) | undefined;
  #tickMs = tickMsMax;
  #tickDueMs = 0;
  #lagSaidMs = Number.NEGATIVE_INFINITY;

  constructor(parts: LeasesParts) {
    this.#parts = parts;
  }

  /** `claimMs` is the lease that the server has given. */
  keep(attempt: Attempt, claimMs: number): void {
    attempt.isLeaseKept = true;
    this.#size += 1;
    if (attempt.leaseMs > claimMs) this.#beat(attempt);
    const tickMs = Math.min(tickMsMax, claimMs / ticksPerLease);
    if (this.#cancelTick !== undefined && this.#tickMs <= tickMs) return;
    this.#tickMs = tickMs;
    this.#arm();
  }

  /** The handler has ended: its last report is sent before its outcome. */
  reportNews(attempt: Attempt): void {
    if (attempt.isLeaseKept && attempt.hasNews) this.#beat(attempt);
  }

  release(attempt: Attempt): void {
    if (!attempt.isLeaseKept) return;
    attempt.isLeaseKept = false;
    this.#size -= 1;
    if (this.#size > 0) return;
    this.#cancelTick?.();
    this.#cancelTick = undefined;
  }

  /** A new session: the server hears of all of them. */
  beatAll(): void {
    for (const attempt of this.#kept()) this.#beat(attempt);
  }

  acknowledged(ack: worker.HeartbeatAck): void {
    const { taskId, ok, errorCode, errorMessage, cancelled } = ack;
    const isMeant = (each: Attempt): boolean => each.isLeaseKept && isFor(ack, each);
    const attempt = this.#parts.attempts.find(taskId, isMeant);
    if (attempt === undefined) return;
    if (cancelled) {
      const text = `task ${taskId} was cancelled; its handler should stop`;
      attempt.abort(new CodeqError("task_cancelled", text, { taskId }));
    } else if (ok) attempt.confirmedMs = attempt.beatMs;
    else if (!isRetryable(errorCode)) {
      const text = `the lease of task ${taskId} is lost: ${errorMessage}`;
      this.#lost(attempt, new CodeqError("lease_lost", text, { taskId }));
    }
  }

  stop(): void {
    this.#cancelTick?.();
    this.#cancelTick = undefined;
    this.#size = 0;
  }

  #kept(): Attempt[] {
    return this.#parts.attempts.values().filter(({ isLeaseKept }) => isLeaseKept);
  }

  #arm(): void {
    this.#cancelTick?.();
    const { clock } = this.#parts.runtime;
    this.#tickDueMs = clock.monotonicMs() + this.#tickMs;
    this.#cancelTick = clock.after(this.#tickMs, () => this.#tick());
  }

  #tick(): void {
    const nowMs = this.#parts.runtime.clock.monotonicMs();
    this.#checkLag(nowMs);
    for (const attempt of this.#kept()) {
      const { leaseMs, beatMs, confirmedMs } = attempt;
      if (nowMs >= confirmedMs + leaseMs) this.#ranOut(attempt);
      else if (attempt.hasNews && nowMs >= beatMs + newsMs) this.#beat(attempt);
      else if (nowMs + this.#tickMs > beatMs + leaseMs / 3) this.#beat(attempt);
    }
    if (this.#size > 0) this.#arm();
    else this.#cancelTick = undefined;
  }

  #beat(attempt: Attempt): void {
    if (!this.#parts.isOpen()) return;
    const { id: taskId, leaseToken, leaseMs } = attempt;
    attempt.beatMs = this.#parts.runtime.clock.monotonicMs();
    const extendSeconds = toSeconds(leaseMs);
    const value = { taskId, leaseToken, extendSeconds, ...attempt.takeNews() };
    this.#parts.send({ case: "heartbeat", value });
  }

  #ranOut(attempt: Attempt): void {
    const taskId = attempt.id;
    const lease = inWords(attempt.leaseMs);
    const text = `the lease of task ${taskId} was not extended within ${lease}`;
    this.#lost(attempt, new CodeqError("lease_lost", text, { taskId }));
  }

  #lost(attempt: Attempt, error: CodeqError): void {
    this.release(attempt);
    this.#parts.onLost(attempt, error);
  }

  #checkLag(nowMs: number): void {
    const lagMs = nowMs - this.#tickDueMs;
    if (lagMs < this.#parts.lagWarningMs || nowMs < this.#lagSaidMs + lagSilenceMs) return;
    this.#lagSaidMs = nowMs;
    this.#parts.onLag(Math.round(lagMs));
  }
}
