/**
 * Runs handlers for the tasks that the server gives it.
 *
 *   running    asks for tasks while it has free slots
 *   draining   asks for no more; leaves when its tasks are finished or handed back
 *   closed     permanently
 *
 * An attempt occupies a slot until its handler has ended, and its lease is kept until the server has
 * acknowledged how it ended, through any number of connections.
 */
import { worker } from "@codeq/protocol/wire";
import type { Artifact } from "../api-types.ts";
import type { Clock } from "../clock.ts";
import { CodeqError } from "../codeq-error.ts";
import { Connection, type Next, type TokenSource } from "../connection/connection.ts";
import type { OpenSession } from "../connection/session.ts";
import { inWords, toMs, toSeconds } from "../duration.ts";
import type { StreamMethod } from "../grpc/grpc-session.ts";
import { IdTable } from "../id-table.ts";
import type { UploadedFile } from "../payload/artifact.ts";
import type { Runtime } from "../runtime.ts";
import type { Handler } from "../task.ts";
import type { Tracing } from "../trace-context.ts";
import { Attempt } from "./attempt.ts";
import { Gathering } from "./gathering.ts";
import { Leases } from "./leases.ts";
import { type Ack, Outbox, type Settlement } from "./outbox.ts";
import { handBack, type Outcome, outcomeOf } from "./outcome.ts";
import type { Reports } from "./reports.ts";
import { type AttemptEnd, type BatchById, runAttempt, type Upload } from "./run-attempt.ts";
import type { Middleware } from "./task-context.ts";
import type { CloseOptions, Worker } from "./worker-options.ts";

export type OpenWorkerSession = OpenSession<worker.WorkerEvent, worker.ServerEvent>;

export const workerMethod: StreamMethod<worker.WorkerEvent, worker.ServerEvent> = {
  path: "/workerpb.WorkerStream/Stream",
  write: worker.writeWorkerEvent,
  read: worker.readServerEvent,
};

interface WorkerParts {
  readonly runtime: Runtime;
  readonly openSession: OpenWorkerSession;
  readonly token: TokenSource;
  readonly tracing: Tracing;
  readonly handlers: ReadonlyMap<string, Handler>;
  readonly middleware: readonly Middleware[];
  readonly concurrency: number;
  /** How many handlers to run before it closes. */
  readonly tasksMax: number;
  readonly name: string;
  readonly lagWarningMs: number;
  readonly graceMs: number;
  readonly stacks: boolean;
  readonly reports: Reports;
  readonly upload: (file: UploadedFile) => Promise<Artifact>;
  readonly batchById: BatchById;
}

interface Limit {
  readonly afterMs: number;
  readonly error: CodeqError;
}

/** How long a handler that was aborted may go on before it is given up. */
const stopMsMax = 5_000;
/** How long a closing worker waits for the acknowledgements of its outcomes. */
const endMsMax = 10_000;
/** Refusals of a Ready that another one would meet as well. */
const hopeless: ReadonlySet<string> = new Set([
  "missing_scope",
  "event_type_not_allowed",
  "invalid_command",
  "invalid_argument",
]);

export class TaskWorker implements Worker {
  readonly #parts: WorkerParts;
  readonly #connection: Connection<worker.WorkerEvent, worker.ServerEvent>;
  readonly #leases: Leases;
  readonly #outbox: Outbox;
  readonly #readys: Readys;
  readonly #claimMs: number;
  readonly #attempts = new IdTable<Attempt>();
  /** By the name of the queue. */
  readonly #handlers = new Map<string, Handler>();
  readonly #gatherings: Gathering[] = [];
  /** Received and not started: there were more than asked for. */
  #waiting: Attempt[] = [];
  #running = 0;
  #begun = 0;
  #turnover = 0;
  #isScheduled = false;
  #state: "running" | "draining" | "closed" = "running";
  #wasOpen = false;
  #closing: Promise<void> | undefined;
  #onIdle: () => void = () => {};
  readonly #end: PromiseWithResolvers<void> = Promise.withResolvers();

  constructor(parts: WorkerParts) {
    this.#parts = parts;
    const { runtime, openSession, token, handlers, name, lagWarningMs, reports } = parts;
    for (const [queue, handler] of handlers) {
      this.#handlers.set(queue, this.#gathered(handler, runtime.clock));
    }
    const commands = [...handlers.values()].map(({ definition }) => definition.name);
    this.#claimMs = Math.min(...[...handlers.values()].map((each) => each.definition.leaseMs));
    this.#connection = new Connection({
      runtime,
      openSession,
      token,
      hello: (text) => ({ case: "hello", value: { token: text, workerId: name } }),
      isHelloAck: (reply) => reply.case === "helloAck",
      stay: () => this.#attempts.size > 0,
      listener: {
        opened: () => this.#opened(),
        reply: (reply) => this.#take(reply),
        drained: () => this.#schedule(),
        lost: (error) => this.#lost(error),
        refused: (error) => this.#refused(error),
      },
    });
    const shared = {
      runtime,
      attempts: this.#attempts,
      isOpen: () => this.#connection.isOpen,
      send: (event: worker.WorkerEvent) => this.#connection.send(event),
    };
    const leaseSeconds = toSeconds(this.#claimMs);
    this.#readys = new Readys({ commands, leaseSeconds, send: shared.send });
    this.#leases = new Leases({
      ...shared,
      lagWarningMs,
      onLost: (attempt, error) => attempt.abort(error),
      onLag: (lagMs) => reports.lag(lagMs),
    });
    this.#outbox = new Outbox({
      ...shared,
      onWaiting: () => this.#schedule(),
      onSettled: (attempt, settlement) => this.#settled(attempt, settlement),
    });
    // A caller that does not await the end gets a warning.
    this.#end.promise.catch(() => {});
    this.#connection.connect();
  }

  get name(): string {
    return this.#parts.name;
  }

  get busy(): number {
    return this.#attempts.size;
  }

  get done(): Promise<void> {
    return this.#end.promise;
  }

  close({ grace = this.#parts.graceMs }: CloseOptions = {}): Promise<void> {
    this.#closing ??= this.#close(toMs(grace, "grace"));
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Grows whenever a handler begins or ends. */
  get turnover(): number {
    return this.#turnover;
  }

  /** Behaves as if the process ended: nothing more is sent to the server, and handlers are aborted. */
  crash(): void {
    this.#abortAll(new CodeqError("lease_lost", "the worker crashed"));
    this.#stop();
    this.#end.resolve();
  }

  async #close(graceMs: number): Promise<void> {
    if (this.#state === "closed") return;
    this.#state = "draining";
    for (const attempt of this.#waiting.splice(0)) this.#finished(attempt, handBack);
    // Without time to finish, the tasks that wait for others go back as well.
    if (graceMs > 0) for (const gathering of this.#gatherings) gathering.close();
    // A Ready cannot be taken back, but the server forgets those of a session that ends.
    this.#connection.renew();
    if (!(await this.#idle(graceMs, () => this.#running === 0))) {
      this.#abortAll(new CodeqError("worker_closing", "the worker is shutting down"));
      if (!(await this.#idle(stopMsMax, () => this.#running === 0))) this.#giveUpAll();
    }
    const isSettled = await this.#idle(endMsMax, () => this.#outbox.size === 0);
    const left = this.#outbox.size;
    const problem = this.#connection.lastError;
    if (isSettled) await this.#connection.close();
    this.#stop();
    this.#end.resolve();
    if (isSettled) return;
    const why = problem === undefined ? "" : `: ${problem.message}`;
    const text = `the server has not acknowledged the results of ${left} tasks${why}`;
    throw new CodeqError("unavailable", text, { cause: problem, ambiguous: true });
  }

  #gathered(handler: Handler, clock: Clock): Handler {
    if (handler.many === undefined) return handler;
    const gathering = new Gathering(handler, handler.many, clock);
    this.#gatherings.push(gathering);
    return gathering.handler;
  }

  /** Waits until the condition holds; false when it does not in this time. */
  #idle(waitMs: number, holds: () => boolean): Promise<boolean> {
    if (holds()) return Promise.resolve(true);
    return new Promise((resolve) => {
      const cancel = this.#parts.runtime.clock.after(waitMs, () => resolve(false));
      this.#onIdle = () => {
        if (!holds()) return;
        cancel();
        resolve(true);
      };
    });
  }

  #stop(): void {
    this.#state = "closed";
    this.#connection.cut();
    this.#leases.stop();
    this.#outbox.stop();
    for (const attempt of this.#attempts.values()) {
      attempt.cancelTimeout();
      attempt.state = "finished";
    }
    this.#attempts.clear();
  }

  #abortAll(reason: CodeqError): void {
    for (const attempt of this.#attempts.values()) attempt.abort(reason);
  }

  #giveUpAll(): void {
    for (const attempt of this.#attempts.values()) {
      if (attempt.state === "running") this.#giveUp(attempt, handBack);
    }
  }

  #opened(): void {
    this.#wasOpen = true;
    this.#parts.reports.connection(undefined);
    this.#leases.beatAll();
    this.#flush();
  }

  #lost(error: CodeqError): Next {
    this.#outbox.lost();
    this.#readys.lost();
    if (this.#state === "running") this.#parts.reports.connection(error);
    return this.#state === "running" || this.#attempts.size > 0 ? "again" : "rest";
  }

  /** A token that was good may be good again; one that never was is a mistake. */
  #refused(error: CodeqError): Next {
    this.#parts.reports.connection(error);
    if (this.#wasOpen) return "again";
    this.#fail(error);
    return "rest";
  }

  #fail(error: CodeqError): void {
    if (this.#state === "closed") return;
    this.#abortAll(error);
    this.#stop();
    this.#parts.reports.fatal(error);
    this.#end.reject(error);
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#parts.runtime.defer(() => {
      this.#isScheduled = false;
      this.#flush();
    });
  }

  #flush(): void {
    if (!this.#connection.isOpen) {
      // A closing worker still has an outcome to send.
      if (this.#outbox.size > 0) this.#connection.connect();
      return;
    }
    this.#outbox.flush();
    const { concurrency, tasksMax } = this.#parts;
    const free =
      Math.min(concurrency - this.#running, tasksMax - this.#begun) - this.#waiting.length;
    if (this.#state === "running") this.#readys.ask(free);
    this.#connection.flush();
  }

  #take(reply: worker.ServerEvent): void {
    switch (reply.case) {
      case "task":
        if (reply.value.task !== undefined) this.#received([reply.value.task]);
        return;
      case "taskBatch":
        this.#received(reply.value.tasks);
        return;
      case "resultAck":
        this.#acknowledged({ ...reply.value, kind: "completed or failed" });
        return;
      case "resultAckBatch":
        for (const ack of reply.value.acks) {
          this.#acknowledged({ ...ack, kind: "completed or failed" });
        }
        return;
      case "nackAck":
        this.#acknowledged({ ...reply.value, kind: "retry" });
        return;
      case "abandonAck":
        this.#acknowledged({ ...reply.value, kind: "hand_back" });
        return;
      case "heartbeatAck":
        this.#leases.acknowledged(reply.value);
        return;
      case "error":
        this.#complained(reply.value);
        return;
      case "helloAck":
      case undefined:
        return;
    }
  }

  #complained({ errorCode, message }: worker.ServerError): void {
    const error = new CodeqError(errorCode, message);
    if (hopeless.has(errorCode)) this.#fail(error);
    else this.#parts.reports.serverError(error);
  }

  #received(tasks: readonly worker.Task[]): void {
    this.#readys.answered();
    const nowMs = this.#parts.runtime.clock.monotonicMs();
    for (const task of tasks) {
      const handler = this.#handlers.get(task.command.toLowerCase());
      if (handler === undefined) continue;
      const attempt = new Attempt(task, handler, nowMs);
      this.#attempts.add(attempt);
      this.#leases.keep(attempt, this.#claimMs);
      if (!this.#isWanting) this.#finished(attempt, handBack);
      else if (this.#running < this.#parts.concurrency) this.#start(attempt);
      else this.#waiting.push(attempt);
    }
    this.#schedule();
  }

  /** Whether another task would be run some time. */
  get #isWanting(): boolean {
    return this.#state === "running" && this.#begun + this.#waiting.length < this.#parts.tasksMax;
  }

  #start(attempt: Attempt): void {
    this.#running += 1;
    this.#begun += 1;
    this.#turnover += 1;
    attempt.state = "running";
    const limit = this.#limitOf(attempt);
    if (limit !== undefined) this.#limit(attempt, limit);
    const { middleware, tracing, reports, name: worker, stacks, batchById } = this.#parts;
    const onProgress = reports.progress;
    const upload: Upload = (file) => this.#parts.upload({ ...file, worker });
    const parts = { middleware, tracing, onProgress, upload, batchById, stacks };
    void runAttempt(attempt, parts).then((ended) => this.#ended(attempt, ended));
  }

  /** What ends first: the time that the handler gives itself, or what the producer leaves the attempt. */
  #limitOf({ handler, task, arrivedMs, id: taskId }: Attempt): Limit | undefined {
    const { timeoutMs: ownMs } = handler.definition;
    const taskMs = task.timeoutSeconds * 1000;
    const passedMs = this.#parts.runtime.clock.monotonicMs() - arrivedMs;
    if (taskMs !== 0 && (ownMs === undefined || taskMs - passedMs <= ownMs)) {
      const text = `the task may take no longer than ${inWords(taskMs)}, as its producer said`;
      const error = new CodeqError("task_timeout", text, { taskId });
      return { afterMs: Math.max(0, taskMs - passedMs), error };
    }
    if (ownMs === undefined) return undefined;
    const text = `the handler took longer than ${inWords(ownMs)}`;
    return { afterMs: ownMs, error: new CodeqError("handler_timeout", text, { taskId }) };
  }

  /** The handler is aborted when its time is over, and given up when it does not end. */
  #limit(attempt: Attempt, { afterMs, error }: Limit): void {
    const { clock } = this.#parts.runtime;
    attempt.cancelTimeout = clock.after(afterMs, () => {
      attempt.abort(error);
      attempt.cancelTimeout = clock.after(stopMsMax, () => {
        const { definition } = attempt.handler;
        this.#giveUp(
          attempt,
          outcomeOf(error, definition, { number: attempt.number, stacks: false }),
        );
      });
    });
  }

  /** The handler goes on, but the worker does not wait for it. */
  #giveUp(attempt: Attempt, outcome: Outcome): void {
    if (attempt.state !== "running") return;
    this.#parts.reports.stuck(attempt, stopMsMax);
    this.#running -= 1;
    this.#finished(attempt, outcome);
  }

  #ended(attempt: Attempt, ended: AttemptEnd): void {
    if (attempt.state !== "running") return;
    this.#running -= 1;
    this.#parts.reports.ended(attempt, ended);
    this.#finished(attempt, ended.outcome);
  }

  #finished(attempt: Attempt, outcome: Outcome): void {
    this.#turnover += 1;
    attempt.state = "finished";
    attempt.cancelTimeout();
    this.#leases.reportNews(attempt);
    this.#outbox.add(attempt, outcome);
    const next = this.#state === "running" ? this.#waiting.shift() : undefined;
    if (next !== undefined) this.#start(next);
    this.#onIdle();
    this.#schedule();
  }

  #acknowledged(ack: Ack): void {
    this.#outbox.acknowledged(ack);
  }

  #settled(attempt: Attempt, settlement: Settlement): void {
    this.#leases.release(attempt);
    this.#attempts.remove(attempt);
    this.#parts.reports.settled(attempt, settlement);
    this.#onIdle();
    const isEnough = this.#begun >= this.#parts.tasksMax && this.#attempts.size === 0;
    // Later calls of close() get the same rejection.
    if (isEnough) this.close().catch(() => {});
  }
}

interface ReadysParts {
  readonly commands: string[];
  readonly leaseSeconds: number;
  readonly send: (event: worker.WorkerEvent) => boolean;
}

const tasksPerReadyMax = 256;
/** There is more than one, so that the next tasks are on their way while these are worked on. */
const readysMax = 8;

/**
 * The requests for tasks that the server holds. Together they ask for as many tasks as there are free
 * slots; the answer to one may have fewer, and then the rest is asked for again.
 */
class Readys {
  readonly #parts: ReadysParts;
  /** How many tasks each asked for, oldest first. */
  #held: number[] = [];
  #asked = 0;

  constructor(parts: ReadysParts) {
    this.#parts = parts;
  }

  ask(freeSlots: number): void {
    while (this.#asked < freeSlots && this.#held.length < readysMax) {
      const count = Math.min(freeSlots - this.#asked, tasksPerReadyMax);
      this.#held.push(count);
      this.#asked += count;
      const { commands, leaseSeconds, send } = this.#parts;
      send({ case: "ready", value: { commands, leaseSeconds, count } });
    }
  }

  /** Readys are served in the order in which they were sent. */
  answered(): void {
    this.#asked -= this.#held.shift() ?? 0;
  }

  /** The session ended, and they with it. */
  lost(): void {
    this.#held = [];
    this.#asked = 0;
  }
}
