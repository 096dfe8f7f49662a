/** One attempt of a task to this worker, from its arrival until the server knows how it ended. */
import { textOf, type WireUint64, type worker } from "@codeq/protocol/wire";
import type { CodeqError } from "../codeq-error.ts";
import type { Handler } from "../task.ts";
import type { TraceContext } from "../trace-context.ts";
import type { Outcome } from "./outcome.ts";
import type { AttemptEnd } from "./run-attempt.ts";

/** An outcome on its way to the server. */
export interface Report {
  readonly outcome: Outcome;
  /** `behind` waits for the answer to an earlier attempt of the same task. */
  state: "unsent" | "sent" | "held" | "behind";
  tries: number;
}

export class Attempt {
  readonly id: string;
  readonly leaseToken: WireUint64;
  readonly handler: Handler;
  readonly task: Omit<worker.Task, "payload">;
  /** JSON text of the producer; encoded until the attempt begins, if the task has a codec. */
  payload: string;
  readonly leaseMs: number;
  readonly arrivedMs: number;
  /** When the lease was last asked for or extended, and when an extension was last sent. */
  confirmedMs: number;
  beatMs: number;
  state: "waiting" | "running" | "finished" = "waiting";
  isLeaseKept = false;
  /** The outcome to send to the server; undefined until it is known. */
  report: Report | undefined;
  /** What to report to listeners when the server has the outcome. */
  ended: AttemptEnd | undefined;
  /** What the handler said and the server has not heard. */
  progress: worker.Progress | undefined;
  logs: string[] = [];
  /** Units of the rate that the handler says it took. */
  used: number | undefined;
  cancelTimeout: () => void = () => {};
  #controller: AbortController | undefined;
  #abortReason: CodeqError | undefined;

  constructor(task: worker.Task, handler: Handler, nowMs: number) {
    this.id = task.id;
    this.leaseToken = task.leaseToken;
    this.handler = handler;
    this.task = task;
    this.payload = textOf(task.payload);
    this.leaseMs = handler.definition.leaseMs;
    this.arrivedMs = nowMs;
    this.confirmedMs = nowMs;
    this.beatMs = nowMs;
  }

  /** 1 for the first attempt. */
  get number(): number {
    return this.task.attempts + 1;
  }

  get trace(): TraceContext | undefined {
    const { traceParent, traceState } = this.task;
    if (traceParent === "") return undefined;
    return { traceparent: traceParent, ...(traceState === "" ? {} : { tracestate: traceState }) };
  }

  get hasNews(): boolean {
    return this.progress !== undefined || this.logs.length > 0;
  }

  /** Takes what is to be said with the next heartbeat. */
  takeNews(): Pick<worker.Heartbeat, "progress" | "logs"> {
    const { progress, logs } = this;
    this.progress = undefined;
    this.logs = [];
    return { progress, logs };
  }

  /** Created when the handler asks for it: most handlers do not. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#abortReason !== undefined) this.#controller.abort(this.#abortReason);
    }
    return this.#controller.signal;
  }

  get abortReason(): CodeqError | undefined {
    return this.#abortReason;
  }

  /** The first reason counts. */
  abort(reason: CodeqError): void {
    if (this.#abortReason !== undefined) return;
    this.#abortReason = reason;
    this.#controller?.abort(reason);
  }
}
