/**
 * One shard's running queue and its only writer. Every verb loads, decides and commits without
 * waiting in between, so decisions never race. What it answers becomes true for the world when the
 * commit that comes with it is done; until then nobody may be told.
 */
import { create, type Op } from "@codeq/engine";
import {
  abandon,
  accept,
  buriedResult,
  checkOwner,
  complete,
  enqueue,
  expireLease,
  extendLease,
  isRepeat,
  matchIdempotency,
  nack,
  type Outcome,
  type Owner,
  promote,
  queueOf,
  type Result,
  type Returned,
  refuse,
  release,
  type Task,
  type TaskId,
  type TenantId,
} from "@codeq/queue";
import { type Counts, noCounts } from "../store/counts.ts";
import { webhookKey } from "../store/keys.ts";
import { addChange, addEnd, addNewTask, addRemoval } from "../store/keys-of.ts";
import { QueueStore } from "../store/queue-store.ts";
import { isShort } from "../store/task-codec.ts";
import type {
  BrokerOptions,
  ComebackTerms,
  Decided,
  EnqueueRequest,
  Submission,
  TaskRefusal,
} from "./broker-requests.ts";
import { type ClaimedTask, type ClaimRequest, Claims } from "./claims.ts";
import { DelayedTasks } from "./delayed-tasks.ts";
import { Leases } from "./leases.ts";
import { MemoryIndex } from "./memory-index.ts";
import { Queues } from "./queue-state.ts";
import { recoverMemory } from "./recover.ts";
import { ResultWaiters } from "./result-waiters.ts";

/** With so many in front of it a new task is claimed too late to be worth its place in memory. */
const keepBehindMax = 4096;
/** How often at most a heartbeat writes the new end of a lease. */
const leaseWriteMs = 5000;
/** Tries that a fresh callback has behind it. */
const firstTry = "0";
const nothingToWaitFor: Promise<void> = Promise.resolve();

export class Broker {
  readonly store: QueueStore;
  readonly queues: Queues = new Queues();
  readonly leases: Leases;
  readonly delayed: DelayedTasks;
  readonly index: MemoryIndex;
  readonly claims: Claims;
  readonly results: ResultWaiters;
  /** Called when a task ended that wants its result sent somewhere. */
  onWebhook: (wallMs: number) => void = () => {};
  readonly #options: BrokerOptions;
  #sequence = 0;

  private constructor(options: BrokerOptions) {
    const { engine, clock } = options;
    this.#options = options;
    this.store = new QueueStore(engine);
    this.leases = new Leases(clock);
    this.delayed = new DelayedTasks(engine, options.delayedInMemoryMax);
    this.index = new MemoryIndex(this);
    this.claims = new Claims({ clock, store: this.store, queues: this.queues, index: this.index });
    this.results = new ResultWaiters(clock);
    engine.onRollback = () => this.#recover();
  }

  static async open(options: BrokerOptions): Promise<Broker> {
    const broker = new Broker(options);
    await broker.#recover();
    return broker;
  }

  enqueue(
    request: EnqueueRequest,
  ): Outcome<Decided<{ task: Task; replayed: boolean }>, "idempotency_key_reused"> {
    const { engine, clock, ids } = this.#options;
    engine.assertWritable();
    const nowMs = clock.nowMs();
    if (request.idempotencyKey !== "") {
      const replay = this.#replayOf(request);
      if (replay !== undefined) return replay;
    }
    const payload = isShort(request.payload) ? request.payload : undefined;
    const input = { ...request, id: ids.next(nowMs), payload };
    const task = enqueue(input, { nowMs, seq: this.#nextSequence() });
    const ops: Op[] = [];
    addNewTask(ops, task, request.payload);
    if (request.idempotencyKey !== "") {
      const { payloadHash } = request;
      const entry = { taskId: task.id, queue: queueOf(task.command), payloadHash };
      this.store.addIdempotency(ops, task, entry);
    }
    const { done } = engine.commit(ops);
    if (this.index.queueOf(task).ready(task.priority) < keepBehindMax) this.store.keep(task);
    this.#enter(task);
    return accept({ value: { task, replayed: false }, done });
  }

  claim(request: ClaimRequest): Promise<readonly ClaimedTask[]> {
    return this.claims.claim(request);
  }

  /** Answers from memory; the record follows now and then, for the case of a restart. */
  heartbeat(
    of: { tenantId: TenantId; id: TaskId; owner: Owner },
    leaseMs: number,
  ): Outcome<{ untilMs: number }, TaskRefusal> {
    const { clock, engine } = this.#options;
    // A full disk passes and the lease with it; a storage that failed acknowledges nothing.
    if (engine.state !== "full") engine.assertWritable();
    const task = this.#find(of);
    if (task === undefined) return refuse("task_unknown");
    const outcome = extendLease(task, of.owner, { nowMs: clock.nowMs(), leaseMs });
    if (!outcome.ok) return outcome;
    const lease = this.leases.get(task.id);
    if (lease === undefined) {
      // While memory is rebuilt after a full disk, a lease that is not there yet is not lost.
      engine.assertWritable();
      return refuse("not_in_progress");
    }
    this.leases.extend(lease, leaseMs);
    if (clock.monotonicMs() - lease.writtenMs >= leaseWriteMs && engine.state === "open") {
      lease.writtenMs = clock.monotonicMs();
      void this.#commitChange(task, outcome.value, []);
      this.store.keep(outcome.value);
    }
    return accept({ untilMs: lease.untilMs });
  }

  nack(
    of: { tenantId: TenantId; id: TaskId; owner: Owner },
    request: { delaySeconds: number; reason: string },
  ): Outcome<Decided<Returned>, TaskRefusal> {
    const task = this.#find(of);
    if (task === undefined) return refuse("task_unknown");
    const outcome = nack(task, of.owner, request, this.#comeback());
    return outcome.ok ? accept(this.#comeBack(task, outcome.value)) : outcome;
  }

  abandon(
    of: { tenantId: TenantId; id: TaskId; owner: Owner },
    request: { interrupted: boolean },
  ): Outcome<Decided<Returned>, TaskRefusal> {
    const task = this.#find(of);
    if (task === undefined) return refuse("task_unknown");
    const outcome = abandon(task, of.owner, request, this.#comeback());
    return outcome.ok ? accept(this.#comeBack(task, outcome.value)) : outcome;
  }

  /** Whether a submission by this owner would be taken, before anything is done for it. */
  mayFinish(
    of: { tenantId: TenantId; id: TaskId; owner: Owner },
    how: Submission["how"],
  ): Outcome<{ isRepeat: boolean }, TaskRefusal> {
    const task = this.#find(of);
    if (task === undefined) return refuse("task_unknown");
    if (isRepeat(task, of.owner, how)) return accept({ isRepeat: true });
    const owned = checkOwner(task, of.owner);
    return owned.ok ? accept({ isRepeat: false }) : owned;
  }

  /** Takes back a claim whose worker was gone before the task could be sent to it. */
  release(of: { tenantId: TenantId; id: TaskId; owner: Owner }): void {
    const { engine, clock } = this.#options;
    if (engine.state !== "open") return;
    const task = this.#find(of);
    if (task === undefined) return;
    const outcome = release(task, of.owner, { nowMs: clock.nowMs(), seq: this.#nextSequence() });
    if (!outcome.ok) return;
    void this.#commitChange(task, outcome.value, []);
    this.store.keep(outcome.value);
    this.index.leave(task);
    this.#enter(outcome.value);
  }

  submit(
    of: { tenantId: TenantId; id: TaskId; owner: Owner },
    submission: Submission,
  ): Outcome<Decided<{ task: Task; result: Result; repeated: boolean }>, TaskRefusal> {
    const { clock, engine, retention } = this.#options;
    engine.assertWritable();
    const before = this.#find(of);
    if (before === undefined) return refuse("task_unknown");
    if (isRepeat(before, of.owner, submission.how)) return this.#repeated(before);
    const nowMs = clock.nowMs();
    const outcome = complete(before, of.owner, submission, { nowMs, retention });
    if (!outcome.ok) return outcome;
    const task = outcome.value;
    const result: Result = {
      taskId: task.id,
      status: submission.how === "completed" ? "COMPLETED" : "FAILED",
      resultJson: submission.resultJson,
      error: submission.error,
      artifacts: submission.artifacts,
      attempts: task.attempts,
      completedMs: nowMs,
    };
    const done = this.#finish(before, task, result);
    return accept({ value: { task, result, repeated: false }, done });
  }

  /** The task as everybody may see it; undefined when it is unknown or somebody else's. */
  async get(tenantId: TenantId, id: TaskId): Promise<ClaimedTask | undefined> {
    return await this.#whenSettled(id, () => {
      const task = this.#find({ tenantId, id });
      if (task === undefined) return undefined;
      return { task: this.#withLiveLease(task), payload: this.store.payload(task) };
    });
  }

  async result(tenantId: TenantId, id: TaskId): Promise<Result | undefined> {
    return await this.#whenSettled(id, () =>
      this.#find({ tenantId, id }) === undefined ? undefined : this.store.result(id),
    );
  }

  counts(tenantId: TenantId, command: string): Counts {
    return this.queues.find(tenantId, queueOf(command))?.counts ?? noCounts();
  }

  /** The lease of this task has ended. */
  expire(id: TaskId): Decided<Returned> | undefined {
    const task = this.store.task(id);
    const outcome = task === undefined ? undefined : expireLease(task, this.#comeback());
    if (task === undefined || !outcome?.ok) {
      this.leases.remove(id);
      return undefined;
    }
    return this.#comeBack(task, outcome.value);
  }

  /** Makes these delayed tasks ready, in one commit. */
  promote(due: readonly { id: TaskId; dueMs: number }[]): Decided<readonly Task[]> {
    const { engine, clock } = this.#options;
    engine.assertWritable();
    const ops: Op[] = [];
    const changes: { before: Task; after: Task }[] = [];
    for (const { id, dueMs } of due) {
      const before = this.store.task(id);
      if (before?.place.in !== "delayed" || before.place.dueMs !== dueMs) continue;
      const outcome = promote(before, { nowMs: clock.nowMs(), seq: this.#nextSequence() });
      if (!outcome.ok) continue;
      addChange(ops, before, outcome.value);
      changes.push({ before, after: outcome.value });
    }
    if (changes.length === 0) return { value: [], done: nothingToWaitFor };
    const { done } = engine.commit(ops);
    for (const { before, after } of changes) {
      this.store.keep(after);
      this.index.leave(before);
      this.index.enter(after);
    }
    // Only now, so that a waiting claim gets the best of them and not the first.
    for (const { after } of changes) this.claims.serve(this.index.queueOf(after));
    return { value: changes.map(({ after }) => after), done };
  }

  /** Removes terminal tasks and all that belongs to them, in one commit. */
  delete(tasks: readonly Task[]): Promise<void> {
    const { engine } = this.#options;
    engine.assertWritable();
    const ops: Op[] = [];
    for (const id of new Set(tasks.map((task) => task.id))) {
      // It may have been deleted since it was read.
      const task = this.store.task(id);
      if (task?.place.in !== "dead" && task?.place.in !== "done") continue;
      addRemoval(ops, task);
      this.store.forget(task.id);
      this.index.leave(task);
    }
    return ops.length === 0 ? nothingToWaitFor : engine.commit(ops).done;
  }

  /** Ends all waits, for a shutdown. */
  stopWaiting(): void {
    this.claims.waiters.finishAll();
    this.results.finishAll();
  }

  async #recover(): Promise<void> {
    this.claims.restart();
    this.store.forgetAll();
    this.#sequence = Math.max(this.#sequence, await recoverMemory(this));
  }

  /**
   * Reads when everything that is known of the task is durable, in the same turn: while a caller
   * waits for this more may be decided, and nobody may see that yet.
   */
  async #whenSettled<T>(id: TaskId, read: () => T): Promise<T> {
    for (let done = this.store.whenDurable(id); done !== undefined; ) {
      await done;
      done = this.store.whenDurable(id);
    }
    return read();
  }

  #nextSequence(): number {
    this.#sequence += 1;
    return this.#sequence;
  }

  #find(of: { tenantId: TenantId; id: TaskId }): Task | undefined {
    const task = this.store.task(of.id);
    return task?.tenantId === of.tenantId ? task : undefined;
  }

  #comeback(): ComebackTerms {
    const { engine, clock, draw, policy, retention } = this.#options;
    engine.assertWritable();
    return { nowMs: clock.nowMs(), seq: this.#nextSequence(), draw: draw(), policy, retention };
  }

  #comeBack(before: Task, returned: Returned): Decided<Returned> {
    if (returned.buried) {
      const done = this.#finish(before, returned.task, buriedResult(returned.task));
      return { value: returned, done };
    }
    const done = this.#commitChange(before, returned.task, []);
    this.store.keep(returned.task);
    this.index.leave(before);
    this.#enter(returned.task);
    return { value: returned, done };
  }

  /** The end of a task: terminal record, result, retention and callback in one batch. */
  #finish(before: Task, after: Task, result: Result): Promise<void> {
    const ops: Op[] = [];
    addEnd(ops, before, { task: after, result });
    if (after.webhook !== "") {
      ops.push(create(webhookKey(result.completedMs, after.id), firstTry));
      this.onWebhook(result.completedMs);
    }
    const { done } = this.#options.engine.commit(ops);
    this.store.forget(after.id);
    this.index.leave(before);
    this.index.enter(after);
    this.results.wakeAfter(done, after.id);
    return done;
  }

  #commitChange(before: Task, after: Task, ops: Op[]): Promise<void> {
    addChange(ops, before, after);
    return this.#options.engine.commit(ops).done;
  }

  #enter(task: Task): void {
    this.index.enter(task);
    if (task.place.in === "ready") this.claims.serve(this.index.queueOf(task));
  }

  #repeated(
    task: Task,
  ): Outcome<Decided<{ task: Task; result: Result; repeated: boolean }>, TaskRefusal> {
    const result = this.store.result(task.id);
    if (result === undefined) return refuse("not_in_progress");
    const done = this.store.whenDurable(task.id) ?? nothingToWaitFor;
    return accept({ value: { task, result, repeated: true }, done });
  }

  #replayOf(
    request: EnqueueRequest,
  ): Outcome<Decided<{ task: Task; replayed: boolean }>, "idempotency_key_reused"> | undefined {
    const entry = this.store.idempotency(request.tenantId, request.idempotencyKey);
    if (entry === undefined) return undefined;
    const { payloadHash } = request;
    const match = matchIdempotency(entry, { queue: queueOf(request.command), payloadHash });
    if (!match.ok) return match;
    const task = this.store.task(match.value);
    if (task === undefined) return undefined;
    const done = this.store.whenDurable(task.id) ?? nothingToWaitFor;
    return accept({ value: { task: this.#withLiveLease(task), replayed: true }, done });
  }

  /** Heartbeats move the end of a lease in memory first. */
  #withLiveLease(task: Task): Task {
    const lease = this.leases.get(task.id);
    if (lease === undefined || task.place.in !== "leased") return task;
    return { ...task, place: { ...task.place, untilMs: lease.untilMs } };
  }
}
