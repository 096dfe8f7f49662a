/**
 * The broker of one shard and the only writer of its store. Every verb loads a task, lets the rules decide and
 * applies the change, without waiting in between, so decisions never race. Callers and observers hear of a
 * change when it is durable.
 */

import type { EngineState } from "@codeq/engine";
import { FaultError } from "@codeq/engine";
import { limits } from "@codeq/protocol";
import {
  type Artifact,
  abandon,
  attach,
  attachedTo,
  bytesOfResult,
  type Cause,
  type Change,
  cancel,
  changeOf,
  checkOwner,
  complete,
  decideUnique,
  edit,
  enqueue,
  expireLease,
  extendLease,
  holdsKey,
  type IdempotencyEntry,
  isHold,
  isRepeat,
  keyUntilMs,
  laneOf,
  lapse,
  matchIdempotency,
  type NackRequest,
  type NewTask,
  nack,
  noRepairs,
  type Outcome,
  promote,
  queueOf,
  type Result,
  type Retention,
  type RetryPolicy,
  type Returned,
  release,
  replaceUnique,
  replayAs,
  resultOf,
  type Submission,
  type Task,
  type TaskId,
  type TaskSchedule,
  type TenantId,
  timedOut,
  type UniqueDecision,
  type UniqueRequest,
  type uniqueOutcomes,
  withAttached,
  withoutItsRecord,
} from "@codeq/queue";
import type { Exceeded, Quotas } from "../../config/quotas.ts";
import {
  type BackupReading,
  readBackup,
  type WantedBackup,
  type WrittenBackup,
  writeBackup,
} from "../backup/backups.ts";
import type { Clock } from "../clock.ts";
import type { MaybePromise } from "../maybe-promise.ts";
import { type BatchOf, type BatchOptions, batchOfAfter } from "../records/batch-record.ts";
import { type Counts, isEmpty, noCounts } from "../records/counts.ts";
import { areEmpty, type LaneLimits, type LaneName, writeOfLimits } from "../records/lane-policy.ts";
import { type PausedQueue, type QueuePause, writeOfPause } from "../records/pause-record.ts";
import type { ScheduleOf, ScheduleOptions } from "../records/schedule-record.ts";
import type { SeriesName, SeriesPoint } from "../records/series-record.ts";
import {
  nextTopic,
  removalOfTopic,
  type Topic,
  type TopicPolicy,
  writeOfTopic,
} from "../records/topic-record.ts";
import { removalOfTriage, type Triage, writeOfTriage } from "../records/triage-record.ts";
import { keyInLane, readUnique, type UniqueName, uniqueNameOf } from "../records/unique-record.ts";
import { explain, lookAt } from "../search/explain.ts";
import type { Explained, QueueLook, WaitingWorker } from "../search/explained.ts";
import {
  type FailureGroups,
  findFailureGroups,
  type WantedGroups,
} from "../search/failure-groups.ts";
import {
  type Acted,
  decide,
  exceededBy,
  type ReplayChanges,
  type TaskAction,
  type TaskOf,
} from "../search/task-actions.ts";
import { placeOf } from "../search/task-filter.ts";
import { TaskReads } from "../search/task-reads.ts";
import { TaskSearch } from "../search/task-search.ts";
import { countsOfQueues, QueueSeries, withOldest } from "../series/queue-series.ts";
import { isShort, isShortResult } from "../store/short-texts.ts";
import type { Position, QueueName, RecordWrite, Store } from "../store/store.ts";
import type { DrawId } from "../task-ids.ts";
import { Zones } from "../zones.ts";
import { Batches } from "./batches.ts";
import type {
  AbandonRequest,
  Attached,
  Broker,
  CleanUp,
  Extended,
  FoundLanes,
  FoundPlace,
  FoundTasks,
  Heartbeat,
  MayFinish,
  PutTopic,
  QueueCounts,
  QueueWork,
  ResultWait,
  ShardState,
  TenantLeases,
  WantedLanes,
  WantedTasks,
} from "./broker.ts";
import type { Claim } from "./claims/claim.ts";
import { Claims } from "./claims/claims.ts";
import { Leases } from "./claims/leases.ts";
import { GroupAnswers, type Observe, type ObserveGroup } from "./group-answers.ts";
import { DelayedTasks } from "./queues/delayed-tasks.ts";
import { MemoryIndex } from "./queues/memory-index.ts";
import { type QueueState, Queues } from "./queues/queue-state.ts";
import { nearMax } from "./queues/ready-window.ts";
import { allowedPriority, nearestPriority, withAllowedPriority } from "./queues/topic-rules.ts";
import { ResultWaiters } from "./result-waiters.ts";
import { type CreatedScheduled, Schedules } from "./schedules.ts";
import { type QuotaOf, TenantQuotas, type Usage } from "./tenant-quotas.ts";
import { followUnique, isOfUnique } from "./unique-keys.ts";
import type {
  ClaimedTask,
  Enqueued,
  OwnedTask,
  References,
  Refused,
  Submitted,
  TaskAndResult,
  TaskRefusal,
  Waiter,
} from "./verbs.ts";
import { Webhooks } from "./webhooks.ts";

const noWrites: readonly RecordWrite[] = [];
/** How long a delayed task waits when its tenant has no room for its lane. */
const crowdedLanesMs = 60_000;
const crowdedLanes = "as many lanes of the tenant have tasks as its quota allows";
/** Entries that a clean-up reads at once. */
const cleanUpEntries = 500;

export interface BrokerOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly ids: DrawId;
  /** Uniform in [0, 1). */
  readonly draw: () => number;
  readonly policy: RetryPolicy;
  readonly retention: Retention;
  /** How long an idempotency key is kept, from the creation of its task; at least as long as the task. */
  readonly keyLifeMs?: number | undefined;
  /** The attempts of a task when neither the task nor the topic of its queue says how many. */
  readonly maxAttemptsDefault?: number | undefined;
  readonly delayedInMemoryMax: number;
  readonly quotas: Quotas;
  /** The quotas of tasks that the shard creates by itself, which no router counts before. */
  readonly ownQuotas?: Quotas | undefined;
  /** How long an endpoint of webhooks may fail before it is disabled; 0 for any time. */
  readonly disableEndpointAfterMs: number;
  /** Prepares the removal of the files of tasks that are about to be deleted. */
  readonly prepareRemoval: (ids: readonly TaskId[]) => () => Promise<void>;
  /** Called with every durable change. */
  readonly observe: Observe;
  readonly observeGroup?: ObserveGroup | undefined;
}

export class ShardBroker implements Broker {
  readonly shards: readonly ShardState[] = [];
  readonly store: Store;
  readonly queues: Queues;
  readonly leases: Leases;
  readonly delayed: DelayedTasks;
  readonly claims: Claims;
  readonly results: ResultWaiters;
  readonly quotas: TenantQuotas;
  readonly reads: TaskReads;
  /** How many requests with a unique key there were since the start, by their outcome. */
  readonly uniqueRequests: Record<(typeof uniqueOutcomes)[number], number> = {
    created: 0,
    queued: 0,
    replaced: 0,
    returned: 0,
    refused: 0,
  };
  readonly webhooks: Webhooks;
  readonly schedules: Schedules;
  readonly batches: Batches;
  readonly #search: TaskSearch;
  /** The history of every queue by the minute and by the hour. */
  readonly series: QueueSeries;
  /** Called when memory was rebuilt after a full disk undid changes that were not durable. */
  readonly onRecovered: Set<() => void> = new Set();
  readonly #options: BrokerOptions;
  readonly #index: MemoryIndex;
  #sequence = 0;
  /** The commit group that takes changes now, and what happens when it is durable. */
  #group: unknown;
  #outcome: GroupAnswers;
  readonly #observers: ConstructorParameters<typeof GroupAnswers>[0];

  private constructor(options: BrokerOptions) {
    const { store, clock } = options;
    this.#options = options;
    this.store = store;
    this.queues = new Queues(clock);
    this.queues.lanes.forget = (removals) => {
      if (store.state === "open") store.commitRecords(removals);
    };
    this.leases = new Leases(clock);
    this.delayed = new DelayedTasks(store, options.delayedInMemoryMax);
    this.#index = new MemoryIndex(this);
    const { queues } = this;
    const usageOf = (tenantId: TenantId): Usage => {
      const { pending = 0, leased = 0 } = queues.findTenant(tenantId) ?? {};
      return { pending, leased, storedBytes: store.storedBytes(tenantId) };
    };
    this.quotas = new TenantQuotas(options.quotas, usageOf);
    const own = new TenantQuotas(options.ownQuotas ?? options.quotas, usageOf);
    this.claims = new Claims({
      clock,
      store,
      queues,
      quotas: this.quotas,
      give: (changes, claim, tasks) => this.#apply(changes, claim, tasks),
      lapse: (id) => this.lapse([id]),
    });
    this.results = new ResultWaiters(clock);
    this.reads = new TaskReads(this);
    this.webhooks = new Webhooks({ store, clock, disableAfterMs: options.disableEndpointAfterMs });
    this.schedules = new Schedules({
      store,
      clock,
      zones: new Zones(),
      create: (tenantId, options, schedule) => this.#createScheduled(tenantId, options, schedule),
      cancel: (id, graceMs) => this.#cancelTask(id, graceMs),
      exceededBy: (task) => this.#overQuota(task, own),
      roomFor: (task) =>
        this.#overQuota(task, own) === undefined
          ? own.roomFor(task.tenantId, task.payloadBytes)
          : 0,
      apply: (changes) => this.#applied(changes, {}),
      fire: (changes, moved, report) =>
        this.#applyTouched(
          changes,
          { schedules: [moved] },
          {
            waiter: waiterOf(report),
            answer: undefined,
            item: 0,
          },
        ),
    });
    this.batches = new Batches({
      store,
      clock,
      nextSequence: () => this.#nextSequence(),
      retentionOf: (task) => this.#retentionOf(task),
      create: ({ tenantId, id }, options) => this.#createFrom(tenantId, options, { batch: id }),
      cancel: (id, graceMs) => this.#cancelTask(id, graceMs),
      remove: (tasks) => this.delete(tasks),
      exceededBy: (task) => this.#overQuota(task, own),
      apply: (changes, batches, writes) => this.#applied(changes, { batches, writes }),
    });
    this.#search = new TaskSearch({ clock, store, queues, reads: this.reads });
    this.series = new QueueSeries({ store, queues, clock });
    const { observeGroup } = options;
    this.#observers = { observe: this.#observe, observeGroup, clock };
    this.#outcome = new GroupAnswers(this.#observers);
    store.onRollback = () => this.#recover();
    const { keyLifeMs: lifeMs = 0 } = options;
    store.keyUntilMs = (task) =>
      task.idempotencyKey.startsWith(limits.callKeyPrefix)
        ? undefined
        : keyUntilMs(task, { nowMs: clock.nowMs(), lifeMs });
  }

  /** Called with the queue of every task that has moved, in the event loop turn of the decision. */
  set onMoved(run: (queue: QueueState) => void) {
    this.#index.onMoved = run;
  }

  static async open(options: BrokerOptions): Promise<ShardBroker> {
    const broker = new ShardBroker(options);
    await broker.#recover();
    return broker;
  }

  enqueue(input: NewTask, waiter: Waiter<Enqueued>, item = 0): void {
    answerRefused(this.#create(input, waiter, item), waiter, item);
  }

  #create(input: NewTask, waiter: Waiter<Enqueued>, item: number): Refused | undefined {
    const fault = this.#fault();
    if (fault !== undefined) return fault;
    if (input.idempotencyKey !== "" && this.#replay(input, waiter, item)) return undefined;
    const unique = input.unique && this.#decideUnique(input, input.unique);
    if (unique !== undefined && !isNew(unique))
      return this.#settleUnique(input, unique, { waiter, item });
    const refused = this.#refusalOf(input);
    if (refused !== undefined) return refused;
    const topic = this.#topicOf(input);
    const priority = topic && allowedPriority(topic, input.priority);
    if (typeof priority === "object") return priority;
    const tooExpensive = this.#refusalOfCost(input);
    if (tooExpensive !== undefined) return tooExpensive;
    const { clock, ids } = this.#options;
    const nowMs = clock.nowMs();
    const keepsPayload = isShort(input.payload);
    const id = ids.next(nowMs);
    const { after } = input;
    const task = enqueue(notBefore(input, unique?.notBeforeMs), {
      id,
      nowMs,
      seq: this.#nextSequence(),
      keepsPayload,
      maxAttemptsDefault: topic?.policy.maxAttempts ?? this.#options.maxAttemptsDefault,
      priority,
      isHeld: unique?.isHeld,
      callbackOf: after && batchOfAfter(id),
    });
    const change: Change = {
      before: undefined,
      after: task,
      because: "created",
      reason: "",
      payload: keepsPayload ? undefined : input.payload,
      result: undefined,
      payloadHash: input.payloadHash,
      // A task behind so many others is claimed too late to be worth keeping in memory.
      keep: this.#index.queueOf(task).ready(task.priority) < nearMax,
    };
    const answer = { task, replayed: false, deduplicated: false };
    if (after !== undefined) this.#applyWaiting(change, after, { waiter, answer, item });
    else this.#apply(this.#createdWith(unique, change), waiter, answer, item);
    return undefined;
  }

  /** Creates a task that waits for others. */
  #applyWaiting(
    change: Change,
    after: readonly TaskId[],
    pending: {
      readonly waiter: Waiter<Enqueued>;
      readonly answer: Enqueued;
      readonly item: number;
    },
  ): void {
    const { of, writes } = this.batches.waitFor(change.after as Task, after);
    this.#applyTouched([{ ...change, keep: false }], { batches: [of], writes }, pending);
  }

  #refusalOf(input: NewTask): Refused | undefined {
    const refused = this.#refusalOfBatch(input) ?? this.#refusalOfAfter(input);
    if (refused !== undefined) return refused;
    const exceeded = this.#overQuota(input);
    return exceeded && { code: "quota_exceeded", exceeded };
  }

  #refusalOfCost(input: NewTask): Refused | undefined {
    const burst = this.#burstOf(input);
    const { cost = 1 } = input;
    return cost > burst ? { code: "cost_above_burst", cost, burst } : undefined;
  }

  #refusalOfBatch({ tenantId, batchId: id }: NewTask): Refused | undefined {
    if (id === undefined) return undefined;
    const code = unlessDamaged(() => this.batches.refusalOf({ tenantId, id }));
    return code === undefined || code instanceof FaultError ? code : { code };
  }

  #refusalOfAfter({ tenantId, after }: NewTask): Refused | undefined {
    const code = after && unlessDamaged(() => this.batches.refusalOfAfter(tenantId, after));
    return code === undefined || code instanceof FaultError ? code : { code };
  }

  #overQuota(
    { tenantId, payloadBytes, command, lane }: QuotaOf,
    quotas: TenantQuotas = this.quotas,
  ): Exceeded | undefined {
    return (
      quotas.exceededByTask(tenantId, payloadBytes) ??
      this.#exceededByQueue(tenantId, command) ??
      this.#exceededByLane(tenantId, command, lane)
    );
  }

  #createdWith(
    unique: Extract<UniqueDecision, { readonly do: "create" }> | undefined,
    change: Change,
  ): Change[] {
    if (unique === undefined) return [change];
    const { isHeld, cancels } = unique;
    this.uniqueRequests[isHeld ? "queued" : "created"] += 1;
    return [...this.#cancelled(cancels), change];
  }

  /** How many units may be spent at once on a task. */
  #burstOf({ tenantId, command, lane = "" }: NewTask): number {
    if (this.queues.lanes.isUnused) return Number.POSITIVE_INFINITY;
    const { lanes } = this.queues.find(tenantId, queueOf(command)) ?? {};
    return lanes === undefined ? Number.POSITIVE_INFINITY : lanes.burstOf(lane);
  }

  /** What a request with a unique key meets. */
  #decideUnique(
    input: Pick<NewTask, "tenantId" | "command" | "lane">,
    unique: UniqueRequest,
  ): UniqueDecision | FaultError {
    const { tenantId, command, lane } = input;
    const name = { tenantId, queue: queueOf(command), key: keyInLane(unique.key, lane ?? "") };
    const entry = unlessDamaged(() => this.store.unique(name));
    if (entry instanceof FaultError) return entry;
    const isOver = entry?.hasEnded === true && entry.untilMs <= this.#options.clock.nowMs();
    const id = entry === undefined || isOver ? undefined : entry.holder;
    // A task that exists but cannot be read must not be followed by another.
    const damage = id && unlessDamaged(() => this.store.assertReadable(id));
    if (damage instanceof FaultError) return damage;
    const waiting = entry?.waiting ? this.store.task(entry.waiting) : undefined;
    const holder = id && this.store.task(id);
    return decideUnique(unique, {
      holder: holder || undefined,
      waiting,
      freeMs: entry?.untilMs ?? 0,
    });
  }

  /** Answers a request that creates no task. */
  #settleUnique(
    input: NewTask,
    decision: Exclude<UniqueDecision, { readonly do: "create" }> | FaultError,
    { waiter, item }: { readonly waiter: Waiter<Enqueued>; readonly item: number },
  ): Refused | undefined {
    if (decision instanceof FaultError) return decision;
    const { task } = decision;
    if (decision.do === "refuse") {
      this.uniqueRequests.refused += 1;
      return { code: "unique_key_held", key: input.unique?.key ?? "", taskId: task.id };
    }
    if (decision.do === "replace") {
      return this.#replaceUnique(input, decision, { waiter, item });
    }
    this.uniqueRequests.returned += 1;
    const answer = { task: this.reads.withLiveLease(task), replayed: false, deduplicated: true };
    this.#answerWhenDurable(task, waiter, answer, item);
    return undefined;
  }

  /** The waiting task gets the payload, the priority and the time of the last request. */
  #replaceUnique(
    input: NewTask,
    decision: Extract<UniqueDecision, { readonly do: "replace" }>,
    { waiter, item }: { readonly waiter: Waiter<Enqueued>; readonly item: number },
  ): Refused | undefined {
    const exceeded = this.quotas.exceededByBytes(input.tenantId, input.payloadBytes);
    if (exceeded !== undefined) return { code: "quota_exceeded", exceeded };
    const topic = this.#topicOf(input);
    const priority = topic === undefined ? input.priority : allowedPriority(topic, input.priority);
    if (typeof priority === "object") return priority;
    const changes = this.#replacedWith({ ...input, priority }, decision);
    const task = changes.at(-1)?.after;
    if (task === undefined) return { code: "not_in_progress" };
    this.#apply(changes, waiter, { task, replayed: false, deduplicated: true }, item);
    return undefined;
  }

  /** The changes that give the waiting task what a later request asks for; empty when it cannot be changed. */
  #replacedWith(
    input: NewTask,
    { task, cancels }: Extract<UniqueDecision, { readonly do: "replace" }>,
  ): Change[] {
    const isKept = isShort(input.payload);
    const at = { nowMs: this.#options.clock.nowMs(), seq: this.#nextSequence() };
    const payload = { text: input.payload, bytes: input.payloadBytes, isKept };
    const after = replaceUnique(task, { ...input, payload }, at);
    if (!after.ok) return [];
    this.uniqueRequests.replaced += 1;
    const reason = "replaced by a request with the same unique key";
    const change = changeOf(task, after.value, "edited", reason);
    return [
      ...this.#cancelled(cancels),
      { ...change, payload: isKept ? undefined : input.payload },
    ];
  }

  /** The change that cancels the holder of a unique key, for a later request. */
  #cancelled(holder: Task | undefined): Change[] {
    if (holder === undefined) return [];
    const nowMs = this.#options.clock.nowMs();
    const graceMs = limits.cancelGraceSecondsDefault * 1000;
    const at = { nowMs, graceMs, retention: this.#retentionOf(holder) };
    const outcome = cancel(this.reads.withLiveLease(holder), at);
    if (!outcome.ok) return [];
    const reason = "cancelled by a request with the same unique key";
    const change = changeOf(holder, outcome.value, "cancelled", reason);
    return [{ ...change, keep: outcome.value.place.in !== "done" }];
  }

  /** Refuses an action that needs the unique key of another task. */
  #refusalOfKey(task: Task, action: TaskAction): Acted | undefined {
    const { unique } = task;
    if (unique === undefined || !needsKey(task, action)) return undefined;
    const entry = this.store.unique(uniqueNameOf(task) as UniqueName);
    if (entry === undefined || entry.hasEnded || entry.holder === task.id) return undefined;
    return { ok: false, code: "unique_key_held", key: unique.key, taskId: entry.holder };
  }

  /** What a task with this command would exceed if its queue has no tasks yet. */
  #exceededByQueue(tenantId: TenantId, command: string | undefined): Exceeded | undefined {
    const current = this.queues.findTenant(tenantId)?.queuesWithTasks ?? 0;
    const exceeded = this.quotas.exceededByQueue(tenantId, current);
    if (exceeded === undefined || command === undefined) return undefined;
    return this.queues.find(tenantId, queueOf(command))?.hasTasks ? undefined : exceeded;
  }

  /** What a task of this lane would exceed if the lane is not in memory yet. */
  #exceededByLane(tenantId: TenantId, command: string, lane = ""): Exceeded | undefined {
    const tenant = lane === "" ? undefined : this.queues.findTenant(tenantId);
    if (tenant === undefined) return undefined;
    const exceeded = (): Exceeded | undefined => this.quotas.exceededByLane(tenantId, tenant.lanes);
    if (exceeded() === undefined) return undefined;
    if (this.queues.find(tenantId, queueOf(command))?.lanes?.find(lane) !== undefined)
      return undefined;
    this.queues.lanes.makeRoom();
    return exceeded();
  }

  claim(claim: Claim): void {
    const fault = this.#fault();
    if (fault === undefined) this.claims.claim(claim);
    else claim.refused(fault);
  }

  cancelClaim(claim: Claim): void {
    this.claims.cancel(claim);
  }

  heartbeat(of: OwnedTask, beat: Heartbeat, waiter: Waiter<Extended>, item = 0): void {
    answerRefused(this.#extend(of, beat, waiter, item), waiter, item);
  }

  #extend(
    of: OwnedTask,
    { leaseMs, report }: Heartbeat,
    waiter: Waiter<Extended>,
    item: number,
  ): Refused | undefined {
    const { clock, store } = this.#options;
    // A heartbeat during a full disk counts in memory; a storage that has failed acknowledges nothing.
    const fault = store.state === "full" ? undefined : this.#fault();
    if (fault !== undefined) return fault;
    const task = this.reads.find(of);
    if (task === undefined) return { code: "task_unknown" };
    const { ranMs, leftMs } = this.leases.timesOf(task.id);
    const at = { nowMs: clock.nowMs(), leaseMs, ranMs, leftMs, report };
    const outcome = extendLease(task, of.owner, at);
    if (!outcome.ok) return outcome;
    if (this.leases.get(task.id) === undefined) {
      // While memory is rebuilt after a full disk, the lease may only be missing for the moment.
      return this.#fault() ?? { code: "not_in_progress" };
    }
    const change = changeOf(task, outcome.value, "extended");
    const answer = { untilMs: outcome.value.place.untilMs, isCancelled: task.cancelMs !== 0 };
    if (store.state === "open") {
      this.#apply([change], waiter, answer, item);
    } else {
      this.#index.apply(change);
      waiter.durable(answer, item);
    }
    return undefined;
  }

  nack(of: OwnedTask, request: NackRequest, waiter: Waiter<Returned>, item = 0): void {
    const held = this.reads.find(of);
    const because = held !== undefined && isHold(held, request) ? "held" : "nacked";
    const before = (task: Task): void => {
      this.#settle(task, request.used);
      const { holdMs = 0 } = request;
      const lane = laneOf(task);
      if (because !== "held" || lane === "") return;
      this.queues.lanesOf(this.#index.queueOf(task)).hold(lane, holdMs);
    };
    const how = { because, reason: request.reason, waiter, item, before } as const;
    const refused = this.#return(of, how, (task) =>
      nack(task, of.owner, request, this.#ruleInput(task)),
    );
    answerRefused(refused, waiter, item);
  }

  /** The worker says how many units of its rates a task took. */
  #settle(task: Task, used: number | undefined): void {
    if (used !== undefined) this.#index.queueOf(task).lanes?.settle(task, used);
  }

  abandon(of: OwnedTask, request: AbandonRequest, waiter: Waiter<Returned>, item = 0): void {
    const how = { because: "abandoned", reason: "", waiter, item } as const;
    const refused = this.#return(of, how, (task) =>
      abandon(task, of.owner, request, this.#ruleInput(task)),
    );
    answerRefused(refused, waiter, item);
  }

  /** Whether a submission by this owner would be accepted. */
  mayFinish(of: OwnedTask, how: Submission["how"]): MayFinish {
    const task = this.reads.find(of);
    if (task === undefined) return "task_unknown";
    if (isRepeat(task, of.owner, how)) return { isRepeat: true };
    const owned = checkOwner(task, of.owner);
    return owned.ok ? { isRepeat: false } : owned.code;
  }

  release(of: OwnedTask): void {
    if (this.store.state !== "open") return;
    const task = this.reads.find(of);
    if (task === undefined) return;
    const { clock } = this.#options;
    const retention = this.#retentionOf(task);
    const at = { nowMs: clock.nowMs(), seq: this.#nextSequence(), retention };
    const outcome = release(task, of.owner, at);
    if (!outcome.ok) return;
    this.#settle(task, 0);
    this.#apply([changeOf(task, outcome.value, "released")]);
  }

  submit(of: OwnedTask, submission: Submission, waiter: Waiter<Submitted>, item = 0): void {
    answerRefused(this.#finish(of, submission, waiter, item), waiter, item);
  }

  #finish(
    of: OwnedTask,
    given: Submission,
    waiter: Waiter<Submitted>,
    item: number,
  ): Refused | undefined {
    const fault = this.#fault(true);
    if (fault !== undefined) return fault;
    const before = this.reads.find(of);
    if (before === undefined) return { code: "task_unknown" };
    if (isRepeat(before, of.owner, given.how)) return this.#repeat(before, waiter, item);
    const submission = before.result === undefined ? given : withAttached(before, given);
    const { clock } = this.#options;
    const retention = this.#retentionOf(before);
    const keepsResult = isShortResult(submission.result);
    const outcome = complete(before, of.owner, submission, {
      nowMs: clock.nowMs(),
      retention,
      keepsResult,
    });
    if (!outcome.ok) return outcome;
    const task = outcome.value;
    const change: Change = {
      before,
      after: task,
      because: "finished",
      reason: "",
      payload: undefined,
      result: keepsResult ? undefined : submission.result,
      payloadHash: "",
      keep: false,
    };
    const result = resultOf(task, submission.result) as Result;
    this.#settle(before, submission.used);
    this.#apply([change], waiter, { task, result, repeated: false }, item);
    return undefined;
  }

  /** What an idempotency key stands for now. Throws `corrupt` when its entry is damaged. */
  entryOf(tenantId: TenantId, key: string): IdempotencyEntry | undefined {
    const entry = this.store.idempotency(tenantId, key);
    const untilMs = entry?.gone?.untilMs;
    return untilMs !== undefined && untilMs <= this.#options.clock.nowMs() ? undefined : entry;
  }

  get(tenantId: TenantId, id: TaskId): Promise<ClaimedTask | undefined> {
    return this.reads.task(tenantId, id);
  }

  /** Where tasks are, without reading their payloads; "gone" also for tasks that cannot be read. */
  async placesOf(tenantId: TenantId, ids: readonly TaskId[]): Promise<readonly FoundPlace[]> {
    const tasks = await Promise.all(ids.map((id) => this.reads.settled(tenantId, id)));
    return tasks.map((task) => (task === undefined ? "gone" : placeOf(task)));
  }

  outcome(tenantId: TenantId, id: TaskId): Promise<TaskAndResult | undefined> {
    return this.reads.outcome(tenantId, id);
  }

  async result(tenantId: TenantId, id: TaskId): Promise<Result | undefined> {
    return (await this.outcome(tenantId, id))?.result;
  }

  /** Looks and waits in the same turn: a task that ended before wakes no waiter. */
  async awaitResult(
    tenantId: TenantId,
    id: TaskId,
    wait: ResultWait,
  ): Promise<"waited" | "crowded"> {
    const place = this.reads.find({ tenantId, id })?.place.in;
    if (place === undefined || place === "done" || place === "dead") return "waited";
    if (this.results.areCrowded(tenantId)) return "crowded";
    await this.results.wait({ tenantId, id }, wait);
    return "waited";
  }

  /** Adds a file that a worker has stored for its task. */
  async attach(of: OwnedTask, artifact: Artifact): Promise<Attached> {
    this.store.assertWritable();
    const task = this.reads.find(of);
    if (task === undefined) return { ok: false, code: "task_unknown" };
    const exceeded = this.quotas.exceededByBytes(of.tenantId, artifact.bytes ?? 0);
    if (exceeded !== undefined) return { ok: false, code: "quota_exceeded", exceeded };
    const outcome = attach(task, of.owner, artifact, limits.artifactsMax);
    if (!outcome.ok) return outcome;
    await this.#applied([changeOf(task, outcome.value, "attached")]);
    const replaced = attachedTo(task).find(({ name }) => name === artifact.name) ?? null;
    if (replaced !== null) await this.store.sync();
    return { ok: true, replaced };
  }

  exceededByBytes(tenantId: TenantId, bytes: number): Exceeded | undefined {
    return this.quotas.exceededByBytes(tenantId, bytes);
  }

  /** Which files a task names. */
  artifactsOf(id: TaskId): References {
    const { store } = this;
    if (!store.holds(id)) return "task is gone";
    const task = store.task(id);
    if (task === undefined) return "cannot be read";
    const hasEnded = task.place.in === "done" || task.place.in === "dead";
    if (!hasEnded) return attachedTo(task).map(({ url }) => url);
    const result = store.wholeResult(task);
    return result === undefined ? "cannot be read" : result.artifacts.map(({ url }) => url);
  }

  counts(tenantId: TenantId, command: string): Counts {
    return this.queues.find(tenantId, queueOf(command))?.counts ?? noCounts();
  }

  /** The queues that are known. Ages cost reads for queues without a claim since the start. */
  queuesOf(tenantId: TenantId, withAges: boolean): MaybePromise<readonly QueueCounts[]> {
    const counts = countsOfQueues(this.queues, tenantId, this.#options.clock.nowMs());
    return withAges ? withOldest(this, tenantId, counts) : counts;
  }

  /** By the minute for a day, or by the hour for a week, without the current minute or hour. */
  seriesOf(of: SeriesName): Promise<readonly SeriesPoint[]> {
    return this.series.points(of);
  }

  /** All tenants that have tasks which are not completed. */
  tenants(): readonly TenantId[] {
    const names = new Set<TenantId>();
    for (const { tenantId, counts } of this.queues.all()) {
      if (!isEmpty(counts)) names.add(tenantId);
    }
    return [...names];
  }

  leasesOf(tenantId: TenantId): TenantLeases {
    return this.leases.workersOf(tenantId);
  }

  /** Deletes finished tasks of a tenant before their retention ends, the oldest first; answers how many. */
  async cleanUp({ tenantId, beforeMs, limit }: CleanUp): Promise<number> {
    const { store } = this;
    let after: Position | undefined;
    let deleted = 0;
    while (deleted < limit) {
      const expired = await store.expiredWithOwners({
        after,
        untilMs: beforeMs,
        limit: cleanUpEntries,
      });
      const tasks = expired
        .filter((each) => each.tenantId === tenantId)
        .map(({ id }) => store.task(id))
        .filter((task) => task?.tenantId === tenantId)
        .slice(0, limit - deleted) as Task[];
      if (tasks.length > 0) await this.delete(tasks);
      deleted += tasks.length;
      after = expired.at(-1);
      if (after === undefined || expired.length < cleanUpEntries) break;
    }
    return deleted;
  }

  /** A page of tasks; undefined when too many searches wait for their turn. */
  find(wanted: WantedTasks): Promise<FoundTasks | undefined> {
    return this.#search.find(wanted);
  }

  /** Failures by what they have in common; undefined when too many searches wait for their turn. */
  failureGroups(wanted: WantedGroups): Promise<FailureGroups | undefined> {
    const { store } = this;
    return findFailureGroups({ store, find: (each) => this.#search.find(each) }, wanted);
  }

  /** Why a task is where it is; undefined when it is unknown or belongs to another tenant. */
  explain(of: TaskOf): Promise<Explained | undefined> {
    return explain(this, this.#options.clock, of);
  }

  /** The counts of a queue, and how fast its tasks end. */
  lookAt(of: QueueName): QueueLook {
    return lookAt(this.queues, of, this.#options.clock);
  }

  waitingWorkers(tenantId: TenantId): readonly WaitingWorker[] {
    return this.claims.waiting.workersOf(tenantId);
  }

  /** Carries out an action of an administrator on a task. */
  async act(of: TaskOf, wanted: TaskAction): Promise<Acted> {
    const task = this.reads.find(of);
    if (task === undefined) {
      this.store.assertReadable(of.id);
      return { ok: false, code: "task_unknown" };
    }
    const action = withAllowedPriority((queue) => this.#topicOf(queue), task, wanted);
    if ("code" in action) return { ok: false, ...action };
    if (action.kind === "delete") return this.#deleteOne(task);
    this.store.assertWritable();
    if (action.kind === "replayAs") return this.#replayAs(task, action.changes);
    const refused = this.#refusalOfKey(task, action);
    if (refused !== undefined) return refused;
    const movedTo = action.kind === "edit" ? action.edit.command : undefined;
    const exceeded =
      exceededBy(this.quotas, of, action) ??
      this.#exceededByQueue(of.tenantId, movedTo) ??
      this.#exceededByLane(of.tenantId, movedTo ?? task.command, laneOf(task));
    if (exceeded !== undefined) return { ok: false, code: "quota_exceeded", exceeded };
    const { clock } = this.#options;
    const retention = this.#retentionOf(task);
    const resultBytes = action.kind === "replay" ? this.#resultBytes(task) : 0;
    const input = { nowMs: clock.nowMs(), seq: this.#nextSequence(), retention, resultBytes };
    // Only memory knows the end of a lease that a restart, a stall or a full disk has prolonged.
    const seen = action.kind === "cancel" ? this.reads.withLiveLease(task) : task;
    const decided = decide(seen, action, input);
    if (decided.ok && decided.value.after !== seen) {
      await this.#applied([{ ...decided.value, before: task }]);
      return { ok: true, task: decided.value.after as Task };
    }
    // The change of which the answer speaks may not be durable yet.
    await this.store.whenDurable(of.id);
    return decided.ok ? { ok: true, task: seen } : decided;
  }

  /** The bytes that a task loses with its result. */
  #resultBytes(task: Task): number {
    const result = this.store.wholeResult(task);
    return result === undefined ? 0 : bytesOfResult(result.resultJson, result.artifacts);
  }

  /** Writes both tasks in one commit, so that neither exists without the other. */
  async #replayAs(task: Task, { payload, ...rest }: ReplayChanges): Promise<Acted> {
    const text = payload ?? this.store.payload(task);
    const payloadBytes = Buffer.byteLength(text);
    const exceeded =
      this.quotas.exceededByTask(task.tenantId, payloadBytes) ??
      this.#exceededByQueue(task.tenantId, rest.command ?? task.command);
    if (exceeded !== undefined) return { ok: false, code: "quota_exceeded", exceeded };
    const { clock, ids } = this.#options;
    const nowMs = clock.nowMs();
    const changes = { ...rest, payload: text, payloadBytes };
    const decided = replayAs(task, changes, {
      id: ids.next(nowMs),
      nowMs,
      seq: this.#nextSequence(),
      keepsPayload: isShort(text),
      takesPlace: this.batches.givesPlace(task),
    });
    if (!decided.ok) return decided;
    await this.#applied(decided.value.changes);
    return { ok: true, task: decided.value.task };
  }

  async #deleteOne(task: Task): Promise<Acted> {
    const { place } = task;
    if (place.in !== "dead" && place.in !== "done") return { ok: false, code: "not_ended" };
    if (this.batches.keeps(task)) return { ok: false, code: "batch_unfinished" };
    await this.delete([task]);
    return { ok: true, task };
  }

  /** Claims pass the queue over until it is resumed; undefined resumes it. */
  async pause(of: QueueName, pause: QueuePause | undefined): Promise<void> {
    this.store.assertWritable();
    const queue = this.queues.queue(of.tenantId, of.name);
    const { done } = this.store.commitRecords([writeOfPause(of, pause)]);
    // Takes effect now, like every decision; when a full disk undoes it, memory is rebuilt.
    queue.pause = pause;
    this.#index.onMoved?.(queue);
    if (pause === undefined) this.claims.serve(queue);
    await done;
  }

  pausesOf(tenantId: TenantId): readonly PausedQueue[] {
    const found: PausedQueue[] = [];
    for (const { name: queue, pause } of this.queues.ofTenant(tenantId)) {
      if (pause !== undefined) found.push({ queue, ...pause });
    }
    return found;
  }

  /** Gives a queue a policy, or changes the policy of the queue. */
  async putTopic(of: QueueName, policy: TopicPolicy): Promise<PutTopic> {
    const before = this.queues.find(of.tenantId, of.name)?.topic;
    const topic = nextTopic(of, before, { policy, nowMs: this.#options.clock.nowMs() });
    await this.adoptTopic(topic);
    return { topic, isNew: before === undefined };
  }

  /** Stores a topic that another shard decided, unless the topic here is newer. */
  async adoptTopic(topic: Topic): Promise<void> {
    this.store.assertWritable();
    const queue = this.queues.queue(topic.tenantId, topic.name);
    if ((queue.topic?.version ?? 0) > topic.version) return;
    const { done } = this.store.commitRecords([writeOfTopic(topic)]);
    // Takes effect now, like every decision; when a full disk undoes it, memory is rebuilt.
    this.#setTopic(queue, topic);
    await done;
  }

  async deleteTopic(of: QueueName): Promise<void> {
    this.store.assertWritable();
    const queue = this.queues.find(of.tenantId, of.name);
    const { done } = this.store.commitRecords([removalOfTopic(of)]);
    if (queue !== undefined) this.#setTopic(queue, undefined);
    await done;
  }

  #setTopic(queue: QueueState, topic: Topic | undefined): void {
    this.queues.setTopic(queue, topic);
    this.#index.onMoved?.(queue);
    // The topic may allow more leases now.
    this.claims.serve(queue);
  }

  /** Gives limits to one lane, or pauses it; undefined gives it what the topic says. */
  async setLane(of: LaneName, limits: LaneLimits | undefined): Promise<void> {
    this.store.assertWritable();
    const queue = this.queues.queue(of.tenantId, of.name);
    const kept = limits === undefined || areEmpty(limits) ? undefined : limits;
    // Takes effect now, like every decision; when a full disk undoes it, memory is rebuilt.
    this.queues.lanesOf(queue).setLimits(of.lane, kept);
    const counted = this.queues.lanes.takeWrites();
    const { done } = this.store.commitRecords([writeOfLimits(of, kept), ...counted]);
    this.#index.onMoved?.(queue);
    this.claims.serve(queue);
    await done;
  }

  /** What an administrator gave to one lane, and how many lanes of the tenant have limits. */
  laneLimits({ tenantId, name, lane }: LaneName): {
    readonly limits: LaneLimits | undefined;
    readonly count: number;
  } {
    let count = 0;
    for (const { lanes } of this.queues.ofTenant(tenantId)) count += lanes?.limits.size ?? 0;
    return { limits: this.queues.find(tenantId, name)?.lanes?.limits.get(lane), count };
  }

  /** Lanes of a queue, those with the most ready tasks first, or one lane. */
  lanesOf(of: QueueName, { lane, limit }: WantedLanes): FoundLanes {
    const { lanes } = this.queues.find(of.tenantId, of.name) ?? {};
    if (lanes === undefined) return { lanes: [], total: 0, recentUnits: 0 };
    const found = lane === undefined ? lanes.looks(limit) : [lanes.look(lane)];
    return { lanes: found, ...lanes.totals };
  }

  topicsOf(tenantId: TenantId): readonly Topic[] {
    return [...this.queues.ofTenant(tenantId)].flatMap(({ topic }) => topic ?? []);
  }

  /** What administrators decided about failure groups. */
  triageOf(tenantId: TenantId): Promise<readonly Triage[]> {
    return this.store.triageOf(tenantId);
  }

  /** Undefined opens the group again. */
  async setTriage(tenantId: TenantId, group: string, triage: Triage | undefined): Promise<void> {
    this.store.assertWritable();
    const write =
      triage === undefined ? removalOfTriage(tenantId, group) : writeOfTriage(tenantId, triage);
    await this.store.commitRecords([write]).done;
  }

  allTopics(): readonly Topic[] {
    return [...this.queues.all()].flatMap(({ topic }) => topic ?? []);
  }

  watchWork(hear: ((queue: QueueWork) => void) | undefined): void {
    this.#index.onMoved = hear;
  }

  work({ tenantId, name }: QueueName): QueueWork | undefined {
    return this.queues.find(tenantId, name);
  }

  worksOf(tenantId: TenantId): Iterable<QueueWork> {
    return this.queues.ofTenant(tenantId);
  }

  /** Writes a backup into a directory of the server. */
  async backup(wanted: WantedBackup): Promise<readonly WrittenBackup[]> {
    return [await writeBackup(this.store, wanted)];
  }

  /** Without several shards, one store holds tasks and control records. */
  readBackup({ since }: BackupReading): AsyncGenerator<Buffer> {
    return readBackup(this.store, { store: "control", since: since["control"] });
  }

  isCrowded(tenantId: TenantId): boolean {
    return this.claims.waiting.areCrowded(tenantId);
  }

  exceededByLease(tenantId: TenantId): Exceeded | undefined {
    return this.quotas.exceededByLease(tenantId);
  }

  get state(): EngineState {
    return this.store.state;
  }

  get isPartial(): boolean {
    return false;
  }

  get isOverloaded(): boolean {
    return this.store.isOverloaded;
  }

  /** Takes the task back from its worker, because its lease has ended. */
  expire(id: TaskId): void {
    this.store.assertWritable();
    const task = this.store.task(id);
    const { ranMs } = this.leases.timesOf(id);
    const outcome = task && expireLease(task, { ...this.#ruleInput(task), ranMs });
    if (task === undefined || !outcome?.ok) {
      this.leases.remove(id);
      return;
    }
    const isTimeout = outcome.value.task.trail?.attempts.at(-1)?.outcome === "timed_out";
    this.#apply(this.#comeBack(task, outcome.value, "expired", isTimeout ? timedOut : ""));
  }

  /** Ends tasks that no worker began in time; skips tasks that do not wait any more. */
  lapse(ids: readonly TaskId[]): Promise<void> {
    this.store.assertDeletable();
    const nowMs = this.#options.clock.nowMs();
    const changes: Change[] = [];
    for (const id of ids) {
      const before = this.store.task(id);
      const outcome = before && lapse(before, { nowMs, retention: this.#retentionOf(before) });
      if (!outcome?.ok) continue;
      changes.push({ ...changeOf(before, outcome.value, "lapsed"), keep: false });
    }
    return this.#applied(changes);
  }

  /** Offers lanes to claims whose time has come. */
  wakeLanes(max: number): void {
    for (const queue of this.queues.lanes.wakeDue(max)) {
      this.#index.onMoved?.(queue);
      this.claims.serve(queue);
    }
  }

  /** Makes these delayed tasks ready in one commit; skips tasks that have another position now. */
  promote(due: readonly Position[]): Promise<void> {
    const { clock, store } = this.#options;
    store.assertWritable();
    const changes: Change[] = [];
    for (const { id, number: dueMs } of due) {
      const before = store.task(id);
      if (before?.place.in !== "delayed" || before.place.dueMs !== dueMs) continue;
      const at = { nowMs: clock.nowMs(), seq: this.#nextSequence() };
      const { tenantId, command } = before;
      if (this.#exceededByLane(tenantId, command, laneOf(before)) !== undefined) {
        const later = edit(before, { dueMs: at.nowMs + crowdedLanesMs }, at);
        if (later.ok) changes.push(changeOf(before, later.value, "edited", crowdedLanes));
        continue;
      }
      const outcome = promote(before, at);
      if (outcome.ok) changes.push(changeOf(before, outcome.value, "promoted"));
    }
    return this.#applied(changes);
  }

  /** Removes tasks that have ended, with everything that belongs to them, in one commit. */
  async delete(tasks: readonly Task[]): Promise<void> {
    this.store.assertDeletable();
    // The files are listed before the tasks that name them are gone, and removed after that is durable.
    const removeFiles = this.#options.prepareRemoval(tasks.map(({ id }) => id));
    const changes: Change[] = [];
    for (const id of new Set(tasks.map((task) => task.id))) {
      // The task may have been deleted since it was read.
      const task = this.store.task(id);
      if (task?.place.in !== "dead" && task?.place.in !== "done") continue;
      changes.push(changeOf(task, undefined, "deleted"));
    }
    await this.#applied(changes);
    await this.store.sync();
    await removeFiles();
  }

  /** Ends all waits, for a shutdown. */
  stopWaiting(): void {
    this.claims.waiting.finishAll();
    this.results.finishAll();
  }

  async #recover(): Promise<void> {
    this.claims.restart();
    await this.batches.recover();
    this.#sequence = Math.max(this.#sequence, await this.#index.recover(this.store));
    await this.webhooks.recover();
    await this.schedules.recover();
    if (this.#index.onMoved !== undefined) {
      for (const queue of this.queues.all()) this.#index.onMoved(queue);
    }
    for (const listener of this.onRecovered) listener();
  }

  /** Why the store accepts no writes now; with `isAnEnd`, why it does not accept the end of a task either. */
  #fault(isAnEnd = false): FaultError | undefined {
    if (this.store.state === "open") return undefined;
    try {
      if (isAnEnd) this.store.assertDeletable();
      else this.store.assertWritable();
      return undefined;
    } catch (error) {
      if (error instanceof FaultError) return error;
      throw error;
    }
  }

  #nextSequence(): number {
    this.#sequence += 1;
    return this.#sequence;
  }

  /** Undefined for most queues. */
  #topicOf({ tenantId, command }: Pick<Task, "tenantId" | "command">): Topic | undefined {
    if (this.queues.topics === 0) return undefined;
    return this.queues.find(tenantId, queueOf(command))?.topic;
  }

  #retentionOf(task: Task): Retention {
    const { retention } = this.#options;
    const seconds = this.#topicOf(task)?.policy.retentionSeconds ?? 0;
    return seconds === 0 ? retention : { ...retention, doneMs: seconds * 1000 };
  }

  #ruleInput(task: Task): {
    nowMs: number;
    seq: number;
    draw: number;
    policy: RetryPolicy;
    retention: Retention;
  } {
    const { clock, draw, policy } = this.#options;
    const retention = this.#retentionOf(task);
    return { nowMs: clock.nowMs(), seq: this.#nextSequence(), draw: draw(), policy, retention };
  }

  /** A worker gives a task back. */
  #return(
    of: OwnedTask,
    how: {
      readonly because: Cause;
      readonly reason: string;
      readonly waiter: Waiter<Returned>;
      readonly item: number;
      /** Called when the task is given back, before that is written. */
      readonly before?: (task: Task) => void;
    },
    decide: (task: Task) => Outcome<Returned, TaskRefusal>,
  ): Refused | undefined {
    const { because, reason, waiter, item, before } = how;
    const fault = this.#fault();
    if (fault !== undefined) return fault;
    const task = this.reads.find(of);
    if (task === undefined) return { code: "task_unknown" };
    const outcome = decide(task);
    if (!outcome.ok) return outcome;
    const changes = this.#comeBack(task, outcome.value, because, reason);
    before?.(task);
    this.#apply(changes, waiter, outcome.value, item);
    return undefined;
  }

  #comeBack(before: Task, { task, buried }: Returned, because: Cause, reason = ""): Change[] {
    const change = changeOf(before, task, because, reason);
    if (!buried) return [change];
    const copy = this.#copyOf(task);
    return [{ ...change, keep: false }, ...(copy === undefined ? [] : [copy])];
  }

  /** A copy of a dead letter for the queue that the topic names. A copy is not copied again. */
  #copyOf(dead: Task): Change | undefined {
    const command = this.#topicOf(dead)?.policy.deadLetterTopicRef ?? "";
    if (command === "" || dead.repairs?.isCopy || dead.place.in !== "dead") return undefined;
    const payload = this.store.wholePayload(dead);
    if (payload === undefined) return undefined;
    const { tenantId, traceParent, traceState, priority } = dead;
    const topic = this.#topicOf({ tenantId, command });
    const { clock, ids, maxAttemptsDefault } = this.#options;
    const nowMs = clock.nowMs();
    const keepsPayload = isShort(payload);
    const given = { tenantId, command, priority, traceParent, traceState, payload };
    const noKey = { idempotencyKey: "", payloadHash: "", keepsFirst: false };
    const none = { webhook: "", visibleMs: undefined, ...noKey };
    const task = enqueue(
      {
        ...given,
        ...none,
        payloadBytes: Buffer.byteLength(payload),
        maxAttempts: topic?.policy.maxAttempts ?? maxAttemptsDefault ?? dead.maxAttempts,
        extras: undefined,
      },
      {
        id: ids.next(nowMs),
        nowMs,
        seq: this.#nextSequence(),
        keepsPayload,
        priority: topic && nearestPriority(topic, priority),
      },
    );
    const linked = { ...task, repairs: { ...noRepairs, replayOf: dead.id, isCopy: true } };
    const change = changeOf(undefined, linked, "created");
    return keepsPayload ? change : { ...change, payload };
  }

  /** The task of a schedule, or the task that has the unique key of the schedule. */
  #createScheduled(
    tenantId: TenantId,
    options: ScheduleOptions,
    schedule: TaskSchedule,
  ): CreatedScheduled {
    const { unique: wanted } = options;
    const read = wanted && schedule.kind !== "backfill" ? readUnique(wanted) : undefined;
    const unique = read?.ok === true ? read.value : undefined;
    const decision = unique && this.#decideUnique({ ...options, tenantId }, unique);
    if (unique === undefined || decision === undefined) {
      return { changes: [this.#createFrom(tenantId, options, { schedule })], heldBy: undefined };
    }
    // Without knowing what has the key, a task could be the second one.
    if (decision instanceof FaultError) return { changes: [], heldBy: undefined };
    if (decision.do === "create") {
      const { isHeld, notBeforeMs } = decision;
      const change = this.#createFrom(tenantId, options, { schedule, unique, isHeld, notBeforeMs });
      return { changes: this.#createdWith(decision, change), heldBy: undefined };
    }
    const heldBy = decision.task.id;
    if (decision.do === "replace") {
      return { changes: this.#replacedWith(inputFrom(tenantId, options), decision), heldBy };
    }
    this.uniqueRequests[decision.do === "refuse" ? "refused" : "returned"] += 1;
    return { changes: [], heldBy };
  }

  /** A task of a schedule or a batch. The topic may have changed since it was put: the nearest priority is used. */
  #createFrom(
    tenantId: TenantId,
    options: Template,
    of: {
      readonly schedule?: TaskSchedule;
      readonly batch?: string;
      readonly unique?: UniqueRequest;
      readonly isHeld?: boolean;
      readonly notBeforeMs?: number;
    },
  ): Change {
    const { schedule, batch: callbackOf, unique, isHeld, notBeforeMs = 0 } = of;
    const { command, payload, priority } = options;
    const topic = this.#topicOf({ tenantId, command });
    const { clock, ids, maxAttemptsDefault } = this.#options;
    const nowMs = clock.nowMs();
    const keepsPayload = isShort(payload);
    const input = inputFrom(tenantId, options, unique);
    const task = enqueue(notBefore(input, notBeforeMs), {
      id: ids.next(nowMs),
      nowMs,
      seq: this.#nextSequence(),
      keepsPayload,
      maxAttemptsDefault: topic?.policy.maxAttempts ?? maxAttemptsDefault,
      priority: topic && nearestPriority(topic, priority),
      schedule,
      callbackOf,
      isHeld,
    });
    const kept = keepsPayload ? undefined : payload;
    // The callback of a batch is read again when the members have ended.
    return {
      ...changeOf(undefined, task, "created"),
      payload: kept,
      keep: callbackOf === undefined,
    };
  }

  #cancelTask(id: TaskId, graceMs: number): Change | undefined {
    const task = this.store.task(id);
    if (task === undefined) return undefined;
    const { clock } = this.#options;
    const retention = this.#retentionOf(task);
    const input = { nowMs: clock.nowMs(), seq: this.#nextSequence(), retention, resultBytes: 0 };
    const seen = this.reads.withLiveLease(task);
    const decided = decide(seen, { kind: "cancel", graceMs }, input);
    const isChange = decided.ok && decided.value.after !== seen;
    return isChange ? { ...decided.value, before: task } : undefined;
  }

  /**
   * The only way to change tasks: writes to the store, updates memory and serves waiting claims. Observers and
   * the waiter are notified when the changes are durable.
   */
  #apply<Answer>(
    changes: readonly Change[],
    waiter?: Waiter<Answer>,
    answer?: Answer,
    item = 0,
  ): void {
    if (!changes.some(isFollowed) && !this.batches.awaits(changes)) {
      const group = this.store.commit(changes, this.queues.lanes.takeWrites());
      this.#commit(group, changes, { waiter, answer, item });
      return;
    }
    this.#applyTouched(changes, {}, { waiter, answer, item });
  }

  /** Changes that follow for the unique keys, the schedules and the batches of the tasks are in the same log record. */
  #applyTouched<Answer>(
    changes: readonly Change[],
    touched: Touched,
    pending: Pending<Answer>,
  ): void {
    const { schedules = [], batches = [], writes = [] } = touched;
    const unique = changes.some(isOfUnique)
      ? this.#followUnique(changes)
      : { changes, writes: noWrites };
    const scheduled = this.schedules.follow(unique.changes, schedules);
    const batched = this.batches.follow(scheduled.changes, batches);
    // What lanes have spent and until when they are held is in the log record of the changes that say so.
    const laned = this.queues.lanes.takeWrites();
    const all = [...unique.writes, ...scheduled.writes, ...batched.writes, ...laned, ...writes];
    let group: ReturnType<Store["commit"]>;
    try {
      group = this.store.commit(batched.changes, all);
    } catch (error) {
      // What was not written did not happen.
      this.batches.forget();
      throw error;
    }
    this.batches.written(batched);
    this.#commit(group, batched.changes, pending);
    for (const report of scheduled.reports) {
      this.#outcome.answer(waiterOf(report), undefined, 0);
    }
  }

  #followUnique(changes: readonly Change[]): ReturnType<typeof followUnique> {
    const nowMs = this.#options.clock.nowMs();
    const nextSequence = (): number => this.#nextSequence();
    return followUnique(changes, { store: this.store, nowMs, nextSequence });
  }

  #commit<Answer>(
    group: ReturnType<Store["commit"]>,
    changes: readonly Change[],
    { waiter, answer, item }: Pending<Answer>,
  ): void {
    if (group !== this.#group) {
      this.#group = group;
      this.#outcome = new GroupAnswers(this.#observers);
      group.wait(this.#outcome);
    }
    const outcome = this.#outcome;
    // Added before serving claims adds changes that follow from these.
    for (let at = 0; at < changes.length; at++) outcome.add(changes[at] as Change);
    if (waiter !== undefined) outcome.answer(waiter, answer as Answer, item);
    if (changes.length === 1) {
      const change = changes[0] as Change;
      this.#serve(change, this.#index.apply(change));
      return;
    }
    const queues = changes.map((change) => this.#index.apply(change));
    // Served after all changes are in memory, so that a waiting claim gets the best task and not the first.
    for (const [at, change] of changes.entries()) {
      this.#serve(change, queues[at] as ReturnType<MemoryIndex["apply"]>);
    }
  }

  #serve({ before, after, because }: Change, queue: ReturnType<MemoryIndex["apply"]>): void {
    if (before?.place.in === "ready" && because !== "claimed") this.#serveNext(before);
    if (after?.place.in === "ready") this.claims.serve(queue);
    else if (before?.place.in === "leased" && (queue.isLimited || queue.lanes !== undefined))
      this.claims.serve(queue);
    if (this.quotas.isLimited && before?.place.in === "leased") this.claims.serveHeldBack(queue);
  }

  /** A ready task has left its place: the next task of its lane, or of its queue, may cost less. */
  #serveNext(task: Task): void {
    const from = this.#index.queueOf(task);
    if (from.lanes !== undefined) this.claims.serve(from);
  }

  /** Resolves when the changes are durable. */
  #applied(changes: readonly Change[], touched?: Touched): Promise<void> {
    if (changes.length === 0 && touched === undefined) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const waiter: Waiter<undefined> = { durable: () => resolve(), refused: reject };
      if (touched === undefined) this.#apply(changes, waiter, undefined);
      else this.#applyTouched(changes, touched, { waiter, answer: undefined, item: 0 });
    });
  }

  readonly #observe: Observe = (change) => {
    const place = change.after?.place.in;
    if (place === "done" || place === "dead") this.results.wake((change.after as Task).id);
    this.#options.observe(change);
  };

  #repeat(task: Task, waiter: Waiter<Submitted>, item: number): Refused | undefined {
    const result = unlessDamaged(() => this.store.result(task));
    if (result === undefined) return { code: "not_in_progress" };
    if (result instanceof FaultError) return result;
    this.#answerWhenDurable(task, waiter, { task, result, repeated: true }, item);
    return undefined;
  }

  /** Answers with the task that has the idempotency key; false when there is none. */
  #replay(input: NewTask, waiter: Waiter<Enqueued>, item: number): boolean {
    const { tenantId, idempotencyKey } = input;
    const entry = unlessDamaged(() => this.entryOf(tenantId, idempotencyKey));
    if (entry === undefined) return false;
    if (entry instanceof FaultError) {
      waiter.refused(entry, item);
      return true;
    }
    const { payloadHash, keepsFirst } = input;
    const queue = queueOf(input.command);
    const match = matchIdempotency(entry, { queue, payloadHash, keepsFirst });
    const isOutside = match.ok && unlessDamaged(() => this.#isOutside(input, entry));
    if (isOutside instanceof FaultError) {
      waiter.refused(isOutside, item);
      return true;
    }
    if (!match.ok || isOutside) {
      const code = "idempotency_key_reused";
      waiter.refused({ code, key: idempotencyKey, taskId: entry.taskId }, item);
      return true;
    }
    const { gone } = entry;
    if (gone !== undefined) {
      const ended = withoutItsRecord(entry, gone, input);
      const answer = { task: ended, replayed: true, deduplicated: false };
      this.#answerWhenDurable(ended, waiter, answer, item);
      return true;
    }
    const task = this.store.task(match.value);
    if (task === undefined) {
      // A task that exists but cannot be read must not be replaced by another.
      const damage = unlessDamaged(() => this.store.assertReadable(match.value));
      if (damage instanceof FaultError) waiter.refused(damage, item);
      return damage instanceof FaultError;
    }
    const found = this.reads.withLiveLease(task);
    const answer = { task: found, replayed: true, deduplicated: false };
    this.#answerWhenDurable(task, waiter, answer, item);
    return true;
  }

  /** Whether the batch of the request would not wait for the task of the request's key. */
  #isOutside({ tenantId, batchId: id, payloadHash }: NewTask, entry: IdempotencyEntry): boolean {
    if (id === undefined) return false;
    // A batch that takes members has lost none: the task was deleted with an earlier batch of this id.
    const takesMembers = (): boolean => this.batches.refusalOf({ tenantId, id }) === undefined;
    if (entry.gone !== undefined) return entry.payloadHash !== payloadHash || takesMembers();
    const task = this.store.task(entry.taskId);
    return task !== undefined && task.batch?.id !== id;
  }

  #answerWhenDurable<Answer>(
    { id }: Task,
    waiter: Waiter<Answer>,
    answer: Answer,
    item: number,
  ): void {
    const done = this.store.whenDurable(id);
    if (done === undefined) {
      waiter.durable(answer, item);
      return;
    }
    done.then(
      () => waiter.durable(answer, item),
      (why: Refused) => waiter.refused(why, item),
    );
  }
}

/** A replayed task takes its unique key again, and a task that waits for the key has no time of its own. */
function needsKey(task: Task, action: TaskAction): boolean {
  if (action.kind === "edit")
    return task.unique?.isHeld === true && action.edit.dueMs !== undefined;
  return action.kind === "replay" && holdsKey({ ...task, place: { in: "ready", seq: 0 } });
}

/** What a schedule and a batch say about their tasks. */
type Template = Omit<BatchOptions, "on" | "failFast" | "openSeconds"> & {
  readonly lane?: string;
  readonly cost?: number;
};

function inputFrom(tenantId: TenantId, options: Template, unique?: UniqueRequest): NewTask {
  const { command, payload, priority, webhook, maxAttempts, tags, lane, cost } = options;
  const timeoutMs = options.timeoutSeconds * 1000;
  const ttlMs = options.ttlSeconds * 1000;
  const hasExtras = tags.length > 0 || timeoutMs > 0 || ttlMs > 0;
  return {
    tenantId,
    command,
    priority,
    webhook,
    payload,
    maxAttempts,
    lane,
    cost,
    traceParent: "",
    traceState: "",
    idempotencyKey: "",
    payloadHash: "",
    keepsFirst: false,
    payloadBytes: Buffer.byteLength(payload),
    visibleMs: undefined,
    extras: hasExtras ? { tags, timeoutMs, ttlMs, startByMs: 0 } : undefined,
    unique,
  };
}

/** What is written with changes, beside what follows from their tasks. */
interface Touched {
  readonly schedules?: readonly ScheduleOf[];
  readonly batches?: readonly BatchOf[];
  readonly writes?: readonly RecordWrite[];
}

/** The answer that is given when changes are durable. */
interface Pending<Answer> {
  readonly waiter: Waiter<Answer> | undefined;
  readonly answer: Answer | undefined;
  readonly item: number;
}

/** Whether more may follow for the unique key, the schedule or the batch of the task. */
function isFollowed({ before, after }: Change): boolean {
  const { unique, schedule, batch } = (before ?? after) as Task;
  return unique !== undefined || schedule !== undefined || batch !== undefined;
}

/** Calls a function when changes are durable. */
function waiterOf(durable: () => void): Waiter<undefined> {
  return { durable, refused: () => {} };
}

function isNew(
  decision: UniqueDecision | FaultError,
): decision is Extract<UniqueDecision, { readonly do: "create" }> {
  return !(decision instanceof FaultError) && decision.do === "create";
}

/** The request with a time that is not before another one. */
function notBefore(input: NewTask, ms = 0): NewTask {
  return ms === 0 ? input : { ...input, visibleMs: Math.max(input.visibleMs ?? 0, ms) };
}

/** Returns the fault when the read finds damage. */
function unlessDamaged<Value>(read: () => Value): Value | FaultError {
  try {
    return read();
  } catch (error) {
    if (error instanceof FaultError && error.code === "corrupt") return error;
    throw error;
  }
}

function answerRefused(refused: Refused | undefined, waiter: Waiter<never>, item: number): void {
  if (refused !== undefined) waiter.refused(refused, item);
}
