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
import type { MaybePromise } from "../maybe-promise.ts";
import { type Counts, noCounts } from "../store/counts.ts";
import { webhookKey } from "../store/keys.ts";
import { addChange, addEnd, addNewTask, addRemoval } from "../store/keys-of.ts";
import { QueueStore } from "../store/queue-store.ts";
import { encodeResult, isShort } from "../store/task-codec.ts";
import type {
  BrokerOptions,
  ComebackTerms,
  Decided,
  Enqueued,
  EnqueueRequest,
  NackRequest,
  OwnedTask,
  Submission,
  Submitted,
  TaskRefusal,
} from "./broker-requests.ts";
import { type ClaimedTask, type ClaimRequest, Claims } from "./claims.ts";
import { DelayedTasks } from "./delayed-tasks.ts";
import { Leases } from "./leases.ts";
import { MemoryIndex } from "./memory-index.ts";
import { Queues } from "./queue-state.ts";
import { recoverMemory } from "./recover.ts";
import { ResultWaiters } from "./result-waiters.ts";
import { StoredBytes } from "./stored-bytes.ts";
import { TaskReads } from "./task-reads.ts";
import { TenantRoom } from "./tenant-room.ts";
import { ToldChanges, type WayBack } from "./told-changes.ts";

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
  readonly storedBytes: StoredBytes;
  /** What the quotas leave. */
  readonly room: TenantRoom;
  readonly reads: TaskReads;
  /** Called when a task ended that wants its result sent somewhere. */
  onWebhook: (wallMs: number) => void = () => {};
  readonly #options: BrokerOptions;
  readonly #told: ToldChanges;
  #sequence = 0;

  private constructor(options: BrokerOptions) {
    const { engine, clock } = options;
    this.#options = options;
    this.store = new QueueStore(engine);
    this.leases = new Leases(clock);
    this.delayed = new DelayedTasks(engine, options.delayedInMemoryMax);
    this.index = new MemoryIndex(this);
    this.storedBytes = new StoredBytes(engine);
    const { store, queues, index, storedBytes } = this;
    this.room = new TenantRoom({ quotas: options.quotas, queues, storedBytes });
    this.#told = new ToldChanges(options.feed);
    this.claims = new Claims({ clock, store, queues, index, room: this.room, told: this.#told });
    this.results = new ResultWaiters(clock);
    this.reads = new TaskReads(this);
    engine.onClosing = () => this.storedBytes.takeChanges();
    engine.onRollback = () => this.#recover();
  }

  static async open(options: BrokerOptions): Promise<Broker> {
    const broker = new Broker(options);
    await broker.#recover();
    return broker;
  }

  enqueue(request: EnqueueRequest): Enqueued {
    const { engine, clock, ids } = this.#options;
    engine.assertWritable();
    const nowMs = clock.nowMs();
    if (request.idempotencyKey !== "") {
      const replay = this.#replayOf(request);
      if (replay !== undefined) return replay;
    }
    const storedBytes = Buffer.byteLength(request.payload);
    const exceeded = this.room.exceededByTask(request.tenantId, storedBytes);
    if (exceeded !== undefined) return { ok: false, code: "quota_exceeded", exceeded };
    const payload = isShort(request.payload) ? request.payload : undefined;
    const input = { ...request, id: ids.next(nowMs), payload, storedBytes };
    const task = enqueue(input, { nowMs, seq: this.#nextSequence() });
    const ops: Op[] = [];
    addNewTask(ops, task, request.payload);
    if (request.idempotencyKey !== "") {
      const { payloadHash } = request;
      const entry = { taskId: task.id, queue: queueOf(task.command), payloadHash };
      this.store.addIdempotency(ops, task, entry);
    }
    const { done } = engine.commit(ops);
    this.#told.created(task, done);
    this.storedBytes.add(task.tenantId, storedBytes);
    if (this.index.queueOf(task).ready(task.priority) < keepBehindMax) this.store.keep(task);
    this.#enter(task);
    return accept({ value: { task, replayed: false }, done });
  }

  claim(request: ClaimRequest): MaybePromise<readonly ClaimedTask[]> {
    return this.claims.claim(request);
  }

  /** Answers from memory; the record follows now and then, for the case of a restart. */
  heartbeat(of: OwnedTask, leaseMs: number): Outcome<{ untilMs: number }, TaskRefusal> {
    const { clock, engine } = this.#options;
    // A full disk passes and the lease with it; a storage that failed acknowledges nothing.
    if (engine.state !== "full") engine.assertWritable();
    const task = this.reads.find(of);
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

  nack(of: OwnedTask, request: NackRequest): Outcome<Decided<Returned>, TaskRefusal> {
    const task = this.reads.find(of);
    if (task === undefined) return refuse("task_unknown");
    const outcome = nack(task, of.owner, request, this.#comeback());
    const way = { by: "nack", reason: request.reason } as const;
    return outcome.ok ? accept(this.#comeBack(task, outcome.value, way)) : outcome;
  }

  abandon(
    of: OwnedTask,
    request: { interrupted: boolean },
  ): Outcome<Decided<Returned>, TaskRefusal> {
    const task = this.reads.find(of);
    if (task === undefined) return refuse("task_unknown");
    const outcome = abandon(task, of.owner, request, this.#comeback());
    return outcome.ok ? accept(this.#comeBack(task, outcome.value, { by: "abandon" })) : outcome;
  }

  /** Whether a submission by this owner would be taken, before anything is done for it. */
  mayFinish(of: OwnedTask, how: Submission["how"]): Outcome<{ isRepeat: boolean }, TaskRefusal> {
    const task = this.reads.find(of);
    if (task === undefined) return refuse("task_unknown");
    if (isRepeat(task, of.owner, how)) return accept({ isRepeat: true });
    const owned = checkOwner(task, of.owner);
    return owned.ok ? accept({ isRepeat: false }) : owned;
  }

  /** Takes back a claim whose worker was gone before the task could be sent to it. */
  release(of: OwnedTask): void {
    const { engine, clock } = this.#options;
    if (engine.state !== "open") return;
    const task = this.reads.find(of);
    if (task === undefined) return;
    const outcome = release(task, of.owner, { nowMs: clock.nowMs(), seq: this.#nextSequence() });
    if (!outcome.ok) return;
    void this.#goBack(task, outcome.value, { by: "release" });
  }

  submit(of: OwnedTask, submission: Submission): Submitted {
    const { clock, engine, retention } = this.#options;
    engine.assertWritable();
    const before = this.reads.find(of);
    if (before === undefined) return refuse("task_unknown");
    if (isRepeat(before, of.owner, submission.how)) return this.#repeated(before);
    const nowMs = clock.nowMs();
    const outcome = complete(before, of.owner, submission, { nowMs, retention });
    if (!outcome.ok) return outcome;
    const result: Result = {
      taskId: of.id,
      status: submission.how === "completed" ? "COMPLETED" : "FAILED",
      resultJson: submission.resultJson,
      error: submission.error,
      artifacts: submission.artifacts,
      attempts: outcome.value.attempts,
      completedMs: nowMs,
    };
    const { value: task, done } = this.#finish({ before, after: outcome.value }, result);
    return accept({ value: { task, result, repeated: false }, done });
  }

  /** The task as everybody may see it; undefined when it is unknown or somebody else's. */
  get(tenantId: TenantId, id: TaskId): Promise<ClaimedTask | undefined> {
    return this.reads.task(tenantId, id);
  }

  result(tenantId: TenantId, id: TaskId): Promise<Result | undefined> {
    return this.reads.result(tenantId, id);
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
    return this.#comeBack(task, outcome.value, { by: "expiry" });
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
    const promoted = changes.map(({ after }) => after);
    this.#told.promoted(promoted, done);
    for (const { before, after } of changes) {
      this.store.keep(after);
      this.index.leave(before);
      this.index.enter(after);
    }
    // Only now, so that a waiting claim gets the best of them and not the first.
    for (const task of promoted) this.claims.serve(this.index.queueOf(task));
    return { value: promoted, done };
  }

  /** Removes terminal tasks and all that belongs to them, in one commit. */
  delete(tasks: readonly Task[]): Promise<void> {
    const { engine } = this.#options;
    engine.assertWritable();
    const ops: Op[] = [];
    const deleted: Task[] = [];
    for (const id of new Set(tasks.map((task) => task.id))) {
      // It may have been deleted since it was read.
      const task = this.store.task(id);
      if (task?.place.in !== "dead" && task?.place.in !== "done") continue;
      addRemoval(ops, task);
      deleted.push(task);
    }
    if (deleted.length === 0) return nothingToWaitFor;
    const { done } = engine.commit(ops);
    for (const task of deleted) {
      this.storedBytes.add(task.tenantId, -task.storedBytes);
      this.store.forget(task.id);
      this.index.leave(task);
    }
    return done;
  }

  /** Ends all waits, for a shutdown. */
  stopWaiting(): void {
    this.claims.waiters.finishAll();
    this.results.finishAll();
  }

  async #recover(): Promise<void> {
    this.claims.restart();
    this.store.forgetAll();
    this.storedBytes.forgetAll();
    this.#sequence = Math.max(this.#sequence, await recoverMemory(this));
  }

  #nextSequence(): number {
    this.#sequence += 1;
    return this.#sequence;
  }

  #comeback(): ComebackTerms {
    const { engine, clock, draw, policy, retention } = this.#options;
    engine.assertWritable();
    return { nowMs: clock.nowMs(), seq: this.#nextSequence(), draw: draw(), policy, retention };
  }

  #comeBack(before: Task, returned: Returned, way: WayBack): Decided<Returned> {
    const { task: after } = returned;
    if (!returned.buried) return { value: returned, done: this.#goBack(before, after, way) };
    const { value: task, done } = this.#finish({ before, after, way }, buriedResult(after));
    return { value: { ...returned, task }, done };
  }

  /** Back from a worker, to be claimed now or later. */
  #goBack(before: Task, after: Task, way: WayBack): Promise<void> {
    const done = this.#commitChange(before, after, []);
    this.#told.cameBack({ before, after, way }, done);
    this.store.keep(after);
    this.index.leave(before);
    this.#enter(after);
    if (this.room.isLimited) this.claims.serveHeldBack(this.index.queueOf(after));
    return done;
  }

  /** The end of a task: terminal record, result, retention and callback in one batch. */
  #finish(change: { before: Task; after: Task; way?: WayBack }, result: Result): Decided<Task> {
    const { before, way } = change;
    const record = encodeResult(result);
    const more = Buffer.byteLength(record);
    const after = { ...change.after, storedBytes: change.after.storedBytes + more };
    const ops: Op[] = [];
    addEnd(ops, before, { task: after, result: record });
    if (after.webhook !== "") {
      ops.push(create(webhookKey(result.completedMs, after.id), firstTry));
      this.onWebhook(result.completedMs);
    }
    const { done } = this.#options.engine.commit(ops);
    this.#told.ended({ before, after, way }, done);
    this.storedBytes.add(after.tenantId, more);
    this.store.forget(after.id);
    this.index.leave(before);
    this.index.enter(after);
    if (this.room.isLimited) this.claims.serveHeldBack(this.index.queueOf(after));
    this.results.wakeAfter(done, after.id);
    return { value: after, done };
  }

  #commitChange(before: Task, after: Task, ops: Op[]): Promise<void> {
    addChange(ops, before, after);
    const { done } = this.#options.engine.commit(ops);
    const more = after.storedBytes - before.storedBytes;
    if (more !== 0) this.storedBytes.add(after.tenantId, more);
    return done;
  }

  #enter(task: Task): void {
    this.index.enter(task);
    if (task.place.in === "ready") this.claims.serve(this.index.queueOf(task));
  }

  #repeated(task: Task): Submitted {
    const result = this.store.result(task.id);
    if (result === undefined) return refuse("not_in_progress");
    const done = this.store.whenDurable(task.id) ?? nothingToWaitFor;
    return accept({ value: { task, result, repeated: true }, done });
  }

  #replayOf(request: EnqueueRequest): Enqueued | undefined {
    const entry = this.store.idempotency(request.tenantId, request.idempotencyKey);
    if (entry === undefined) return undefined;
    const { payloadHash } = request;
    const match = matchIdempotency(entry, { queue: queueOf(request.command), payloadHash });
    if (!match.ok) return match;
    const task = this.store.task(match.value);
    if (task === undefined) return undefined;
    const done = this.store.whenDurable(task.id) ?? nothingToWaitFor;
    return accept({ value: { task: this.reads.withLiveLease(task), replayed: true }, done });
  }
}
