/**
 * Presents several shards as one broker. A call about a task goes to the shard of the task. A new task goes
 * to the shard of its idempotency key or, without a key, to the shards in turn. A call about all tasks goes
 * to all shards, and the answers are merged.
 */
import { type EngineState, FaultError } from "@codeq/engine";
import { limits } from "@codeq/protocol";
import {
  type Artifact,
  type IdempotencyEntry,
  type NackRequest,
  type NewTask,
  queueOf,
  type Result,
  type Returned,
  type Submission,
  type TaskId,
  type TenantId,
} from "@codeq/queue";
import type { Exceeded, Quotas } from "../../config/quotas.ts";
import type { Feed } from "../../telemetry/feed.ts";
import { AbortGroups, endOfWait } from "../abort-groups.ts";
import type { BackupReading } from "../backup/backups.ts";
import type {
  AbandonRequest,
  Attached,
  Broker,
  CleanUp,
  Extended,
  Heartbeat,
  PutTopic,
  QueueWork,
  ResultWait,
  ShardState,
} from "../broker/broker.ts";
import type { Claim } from "../broker/claims/claim.ts";
import { batchRouting, brokerRouting, scheduleRouting, webhookRouting } from "../broker/routing.ts";
import type { Usage } from "../broker/tenant-quotas.ts";
import type {
  ClaimedTask,
  Enqueued,
  OwnedTask,
  Refused,
  Submitted,
  TaskAndResult,
  Waiter,
} from "../broker/verbs.ts";
import type { EndpointChange } from "../broker/webhooks.ts";
import type { Clock } from "../clock.ts";
import type { SecretsChange } from "../records/signing-record.ts";
import type { TopicPolicy } from "../records/topic-record.ts";
import { withOthers } from "../search/explain.ts";
import type { Explained, Obstacle, WaitingWorker } from "../search/explained.ts";
import {
  type Acted,
  exceededBy,
  type TaskAction,
  type TaskOf,
  takenBy,
} from "../search/task-actions.ts";
import type { QueueName } from "../store/store.ts";
import { TenantShares } from "../tenant-shares.ts";
import type { ShardLink } from "./link.ts";
import { type EnqueueWaiter, RemoteShard, type ShardNotes } from "./remote-shard.ts";
import { RoutedClaims } from "./routed-claims.ts";
import { ShardGroup } from "./shard-group.ts";
import { homeOf, shardOf, shardOfBatch, shardOfKey } from "./shard-of.ts";
import { SharedUsage } from "./shared-usage.ts";
import { calls, type EnqueueMode } from "./wire.ts";

/** The number of new tasks without a key that go to one shard before the next shard's turn. */
const turnTasksMax = 64;

export interface RouterParts {
  readonly links: readonly ShardLink[];
  readonly clock: Clock;
  readonly quotas: Quotas;
  readonly feed: Feed;
  /** Runs a function after everything that arrived in the same event loop turn. */
  readonly defer: (run: () => void) => void;
  /** Called with the state of all shards together when one of them begins or ceases to accept writes. */
  readonly onState: (state: EngineState, fault: FaultError | undefined) => void;
  /** Called with the number of events that the readers of feeds miss. */
  readonly onMissed: (events: number) => void;
  /** Called when a webhook endpoint begins to fail, is disabled, or works again. */
  readonly onEndpoint: (change: EndpointChange) => void;
}

type RoutedVerbs = Pick<Broker, keyof typeof brokerRouting>;
type RoutedWebhooks = Pick<Broker["webhooks"], keyof typeof webhookRouting>;

/** A class with the verbs of the routing table; the constructor of the router adds them. */
const WithRoutedVerbs = class {} as new () => RoutedVerbs;

export class Router extends WithRoutedVerbs implements Broker, AsyncDisposable {
  readonly webhooks: Broker["webhooks"];
  readonly schedules: Broker["schedules"];
  readonly batches: Broker["batches"];
  readonly #group: ShardGroup;
  readonly #usage: SharedUsage;
  readonly #claims: RoutedClaims;
  readonly #defer: RouterParts["defer"];
  readonly #waits: Set<AbortController> = new Set();
  readonly #waitShares: TenantShares = new TenantShares(limits.waitersMax);
  readonly #aborts: AbortGroups = new AbortGroups();
  readonly #opened: PromiseWithResolvers<void>[];
  #turn = 0;
  #turnTasks = 0;

  constructor(parts: RouterParts) {
    const { links, clock, quotas, feed, defer } = parts;
    super();
    this.#defer = defer;
    this.#usage = new SharedUsage(quotas, links.length);
    this.#opened = links.map(() => Promise.withResolvers());
    // A shard that ends early fails the start only when the start awaits `opened`.
    for (const { promise } of this.#opened) promise.catch(() => {});
    const shards = links.map((link, number) => {
      return new RemoteShard({ number, link, defer, notes: this.#notesOf(number, parts) });
    });
    const group = new ShardGroup(shards);
    this.#group = group;
    Object.assign(this, group.verbsOf<RoutedVerbs>(brokerRouting));
    this.webhooks = {
      ...group.verbsOf<RoutedWebhooks>(webhookRouting, "webhooks."),
      changeSecrets: (...of) => this.#changeSecrets(...of),
    };
    this.schedules = group.verbsOf<Broker["schedules"]>(scheduleRouting, "schedules.");
    this.batches = group.verbsOf<Broker["batches"]>(batchRouting, "batches.");
    this.#claims = new RoutedClaims({
      shards,
      usage: this.#usage,
      clock,
      isOpen: (shard) => group.isOpen(shard),
    });
    for (const shard of shards) shard.hear();
    feed.onHeard = (isHeard) => {
      for (const shard of shards) shard.listen(isHeard);
    };
  }

  /** Resolves when every shard has reported its state. */
  async opened(): Promise<void> {
    await Promise.all(this.#opened.map(({ promise }) => promise));
    await this.#alignTopics();
  }

  #notesOf(shard: number, { feed, onState, onMissed, onEndpoint }: RouterParts): ShardNotes {
    return {
      hint: (hint) => this.#claims.hint(shard, hint),
      leased: (leases) => this.#claims.leased(shard, leases),
      usage: ({ tenantId, ...usage }) => {
        this.#usage.report(shard, tenantId, usage);
        this.#claims.freed(tenantId);
      },
      event: (event) => feed.publish(event),
      missed: onMissed,
      endpoint: (change) => {
        // A shard that does not hear of the change now finds out by itself.
        for (const other of this.#group.othersThan(shard)) {
          other.ask("webhooks.learn", [change]).catch(() => {});
        }
        onEndpoint(change);
      },
      state: ({ state, error }) => {
        this.#group.states[shard] = { shard, state, error };
        this.#opened[shard]?.resolve();
        this.#claims.opened(shard);
        onState(
          this.state,
          error === undefined ? undefined : new FaultError("storage_failed", error),
        );
      },
      down: (fault) => {
        // Another node may lead the shard soon, so this is not a failure.
        const state = fault.code === "not_leader" ? "closed" : "failed";
        this.#group.states[shard] = { shard, state, error: fault.message };
        this.#opened[shard]?.reject(fault);
        this.#claims.down(shard);
        onState(this.state, fault);
      },
      up: () => this.#usage.forgetSent(shard),
      reset: () => {
        this.#claims.forget(shard);
        this.#usage.forget(shard);
      },
      carriedOut: (number, undecided) => {
        this.#usage.carriedOut(shard, number, undecided);
        this.#claims.carriedOut(shard, number, undecided);
        // Waiting claims come before callers that claim again when they get their answers.
        this.#claims.serveReported();
      },
      heard: () => this.#claims.serveReported(),
    };
  }

  get state(): EngineState {
    return this.#group.state;
  }

  get shards(): readonly ShardState[] {
    return this.#group.states;
  }

  get isPartial(): boolean {
    return this.#group.isPartial;
  }

  get isOverloaded(): boolean {
    return this.#group.all.some((shard) => shard.isOverloaded);
  }

  /** The measurements of every shard that answers. */
  async scrape(): Promise<readonly { readonly shard: number; readonly text: string }[]> {
    const asked = this.#group.all.map(async (shard) => {
      const text = await shard.ask("scrape", []).catch(() => undefined);
      return text === undefined ? [] : [{ shard: shard.number, text }];
    });
    return (await Promise.all(asked)).flat();
  }

  enqueue(input: NewTask, waiter: Waiter<Enqueued>, item = 0): void {
    const { tenantId, idempotencyKey } = input;
    const exceeded = this.exceededByTask(input);
    const isPlaced = this.#claims.queues.isPlaced(tenantId, input.command);
    const shard = this.#shardFor(input, isPlaced);
    if (shard === undefined) {
      waiter.refused({ code: "placement_conflict" }, item);
      return;
    }
    if (idempotencyKey === "" && input.unique === undefined) {
      if (exceeded !== undefined) waiter.refused({ code: "quota_exceeded", exceeded }, item);
      // Only tasks with a key are looked for in other shards.
      else this.enqueueAt(shard, input, waiter as EnqueueWaiter, item);
      return;
    }
    const keyed = new KeyedEnqueue(this, { input, shard, waiter });
    this.enqueueAt(shard, input, keyed, item, exceeded && { kind: "exceeded", exceeded });
  }

  /** Undefined when what has to be in one shard with the task is in several. */
  #shardFor(input: NewTask, isPlaced: boolean): number | undefined {
    const { tenantId, batchId, lane = "", after = [] } = input;
    const count = this.#group.all.length;
    if (batchId !== undefined) {
      return isPlaced || lane !== "" ? undefined : shardOfBatch({ tenantId, id: batchId }, count);
    }
    const home = homeOf(input, isPlaced);
    const [first, ...others] = new Set(after.map((id) => shardOf(id, count)));
    if (first === undefined) {
      return home === "" ? this.#nextShard() : shardOfKey(tenantId, home, count);
    }
    const isBound = isPlaced || lane !== "";
    const isApart = others.length > 0 || (isBound && shardOfKey(tenantId, home, count) !== first);
    return isApart ? undefined : first;
  }

  exceededByTask({ tenantId, payloadBytes }: NewTask): Exceeded | undefined {
    return this.#usage.quotas.exceededByTask(tenantId, payloadBytes);
  }

  enqueueAt(
    shard: number,
    input: NewTask,
    waiter: EnqueueWaiter,
    item: number,
    mode?: EnqueueMode,
  ): void {
    const number = this.#group.all[shard]?.enqueue(input, waiter, item, mode) ?? 0;
    if (number === 0 || (mode !== undefined && mode.kind !== "forget")) return;
    const { tenantId, payloadBytes: storedBytes } = input;
    this.#usage.send(shard, number, tenantId, { pending: 1, storedBytes });
  }

  shardOf(id: TaskId): number {
    return this.#group.of(id).number;
  }

  /** Tasks of one event loop turn go to one shard, so that they share a commit; skips shards that are not open. */
  #nextShard(): number {
    const count = this.#group.all.length;
    if (this.#turnTasks === 0) {
      this.#defer(() => {
        this.#turnTasks = 0;
        this.#turn = (this.#turn + 1) % count;
      });
    }
    this.#turnTasks += 1;
    if (this.#turnTasks % turnTasksMax === 0) this.#turn = (this.#turn + 1) % count;
    for (let step = 0; step < count; step++) {
      const shard = (this.#turn + step) % count;
      if (this.#group.isOpen(shard)) return shard;
    }
    return this.#turn;
  }

  claim(claim: Claim): void {
    // While a shard has no leader, claims wait for one.
    if (this.state === "open" || this.state === "closed") this.#claims.claim(claim);
    else claim.refused(this.#group.fault);
  }

  cancelClaim(claim: Claim): void {
    this.#claims.cancel(claim);
  }

  heartbeat(of: OwnedTask, beat: Heartbeat, waiter: Waiter<Extended>, item = 0): void {
    this.#group.of(of.id).send(calls.heartbeat, { of, request: beat }, waiter, item);
  }

  nack(of: OwnedTask, request: NackRequest, waiter: Waiter<Returned>, item = 0): void {
    this.#group.of(of.id).send(calls.nack, { of, request: request }, waiter, item);
  }

  abandon(of: OwnedTask, request: AbandonRequest, waiter: Waiter<Returned>, item = 0): void {
    this.#group.of(of.id).send(calls.abandon, { of, request: request }, waiter, item);
  }

  submit(of: OwnedTask, submission: Submission, waiter: Waiter<Submitted>, item = 0): void {
    this.#group.of(of.id).send(calls.submit, { of, request: submission }, waiter, item);
  }

  release(of: OwnedTask): void {
    this.#group.of(of.id).send(calls.release, of, undefined);
  }

  get(tenantId: TenantId, id: TaskId): Promise<ClaimedTask | undefined> {
    return this.#group.of(id).get({ tenantId, id });
  }

  /** The shard of a unique key has the idempotency key of its task, so that all are asked. */
  async entryOf(tenantId: TenantId, key: string): Promise<IdempotencyEntry | undefined> {
    const asked = this.#group.all.map((shard) => shard.ask("entryOf", [tenantId, key]));
    const entries = (await Promise.all(asked)).filter((entry) => entry !== undefined);
    // An alias of a deleted task does not know of its end.
    return entries.find(({ gone }) => gone !== undefined) ?? entries[0];
  }

  outcome(tenantId: TenantId, id: TaskId): Promise<TaskAndResult | undefined> {
    return this.#group.of(id).outcome({ tenantId, id });
  }

  async result(tenantId: TenantId, id: TaskId): Promise<Result | undefined> {
    return (await this.outcome(tenantId, id))?.result;
  }

  async awaitResult(
    tenantId: TenantId,
    id: TaskId,
    { waitMs, signal }: ResultWait,
  ): Promise<"waited" | "crowded"> {
    if (!this.#waitShares.hasRoomFor(tenantId)) return "crowded";
    const ending = new AbortController();
    const end = (): void => ending.abort(endOfWait);
    const stopListening = signal === undefined ? undefined : this.#aborts.add(signal, end);
    this.#waits.add(ending);
    this.#waitShares.add(tenantId, 1);
    try {
      return await this.#group.of(id).ask("awaitResult", [tenantId, id, waitMs], ending.signal);
    } finally {
      this.#waits.delete(ending);
      this.#waitShares.add(tenantId, -1);
      stopListening?.();
    }
  }

  async attach(of: OwnedTask, artifact: Artifact): Promise<Attached> {
    const { bytes = 0 } = artifact;
    const exceeded = this.#usage.quotas.exceededByBytes(of.tenantId, bytes);
    if (exceeded !== undefined) return { ok: false, code: "quota_exceeded", exceeded };
    const shard = this.#group.of(of.id);
    return shard.ask("attach", [of, artifact], undefined, (number) =>
      this.#usage.send(shard.number, number, of.tenantId, { storedBytes: bytes }),
    );
  }

  exceededByBytes(tenantId: TenantId, bytes: number): Exceeded | undefined {
    return this.#usage.quotas.exceededByBytes(tenantId, bytes);
  }

  async cleanUp(wanted: CleanUp): Promise<number> {
    let deleted = 0;
    for (const shard of this.#group.all) {
      const limit = wanted.limit - deleted;
      if (limit <= 0) break;
      deleted += await shard.ask("cleanUp", [{ ...wanted, limit }]);
    }
    return deleted;
  }

  /** The explanation of the task's shard, with the counts of its queue in the other shards. */
  async explain(of: TaskOf): Promise<Explained | undefined> {
    const shard = this.#group.of(of.id);
    const own = await shard.ask("explain", [of]);
    if (own === undefined) return undefined;
    const queue = { tenantId: of.tenantId, name: queueOf(own.task.command) };
    const others = this.#group.othersThan(shard.number);
    const looks = others.map((each) => each.ask("lookAt", [queue]));
    const explained = withOthers(own, await Promise.all(looks));
    return { ...explained, obstacle: this.#obstacleOf(queue, own.obstacle) };
  }

  /** Quotas and the limits of topics hold over all shards; a single shard cannot check them. */
  #obstacleOf({ tenantId, name }: QueueName, own: Obstacle | undefined): Obstacle | undefined {
    if (own?.rule === "storage") return own;
    if (this.#usage.quotas.leasesLeft(tenantId) === 0) return { rule: "lease_quota" };
    const queue = this.#claims.queues.find(tenantId, name);
    if (own !== undefined || queue === undefined || !queue.isAtLimit) return own;
    return { rule: "topic_limit", limit: queue.leasedMax };
  }

  waitingWorkers(tenantId: TenantId): readonly WaitingWorker[] {
    return this.#claims.waiting.workersOf(tenantId);
  }

  async act(of: TaskOf, action: TaskAction): Promise<Acted> {
    const { tenantId, id } = of;
    const exceeded = exceededBy(this.#usage.quotas, of, action);
    if (exceeded !== undefined) return { ok: false, code: "quota_exceeded", exceeded };
    const shard = this.#group.of(id);
    return shard.ask("act", [of, action], undefined, (number) => {
      this.#usage.send(shard.number, number, tenantId, takenBy(action));
    });
  }

  /** The first shard decides, and the others follow it. */
  async putTopic(of: QueueName, policy: TopicPolicy): Promise<PutTopic> {
    const { first } = this.#group;
    const put = await first.ask("putTopic", [of, policy]);
    const others = this.#group.othersThan(first.number);
    await Promise.all(others.map((shard) => shard.ask("adoptTopic", [put.topic])));
    return put;
  }

  async deleteTopic(of: QueueName): Promise<void> {
    await Promise.all(this.#group.all.map((shard) => shard.ask("deleteTopic", [of])));
    this.#claims.queues.place(of, false);
    this.#claims.unlimited(of);
  }

  /** Repairs topics after a crash between the first shard and the others. */
  async #alignTopics(): Promise<void> {
    const asked = this.#group.all.map((shard) => shard.ask("allTopics", []));
    const [truth = [], ...others] = await Promise.all(asked);
    const nameOf = ({ tenantId, name }: QueueName): string => `${tenantId}/${name}`;
    const right = new Map(truth.map((topic) => [nameOf(topic), JSON.stringify(topic)]));
    await Promise.all(
      others.map(async (found, at) => {
        const shard = this.#group.all[at + 1] as RemoteShard;
        const there = new Map(found.map((topic) => [nameOf(topic), JSON.stringify(topic)]));
        for (const topic of found) {
          if (!right.has(nameOf(topic))) await shard.ask("deleteTopic", [topic]);
        }
        for (const topic of truth) {
          const isRight = there.get(nameOf(topic)) === right.get(nameOf(topic));
          if (!isRight) await shard.ask("adoptTopic", [topic]);
        }
      }),
    );
  }

  watchWork(hear: ((queue: QueueWork) => void) | undefined): void {
    this.#claims.onMoved = hear;
  }

  work({ tenantId, name }: QueueName): QueueWork | undefined {
    return this.#claims.queues.find(tenantId, name);
  }

  worksOf(tenantId: TenantId): Iterable<QueueWork> {
    return [...this.#claims.queues.ofTenant(tenantId)];
  }

  async *readBackup(reading: BackupReading): AsyncGenerator<Buffer> {
    for (const shard of this.#group.all) yield* shard.readBackup(reading);
  }

  isCrowded(tenantId: TenantId): boolean {
    return this.#claims.waiting.areCrowded(tenantId);
  }

  exceededByLease(tenantId: TenantId): Exceeded | undefined {
    return this.#usage.quotas.exceededByLease(tenantId);
  }

  /** What the tenant uses, as the quotas count it. */
  held(tenantId: TenantId): Usage {
    return this.#usage.of(tenantId);
  }

  get waitingClaims(): number {
    return this.#claims.waiting.size;
  }

  /** How many queues are known. */
  get knownQueues(): number {
    return this.#claims.queues.size;
  }

  get waitingResults(): number {
    return this.#waits.size;
  }

  stopWaiting(): void {
    this.#claims.stopWaiting();
    for (const wait of this.#waits) wait.abort(endOfWait);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#group.all.map((shard) => shard.stop()));
  }

  /**
   * The first shard decides, and the others follow it. Changes of other nodes may reach the others in another
   * order, so they follow until the first shard has nothing newer.
   */
  async #changeSecrets(tenantId: TenantId, change: SecretsChange): Promise<boolean> {
    const { first } = this.#group;
    if (!(await first.ask("webhooks.changeSecrets", [tenantId, change]))) return false;
    for (let sent: string | undefined; ; ) {
      const secrets = await first.ask("webhooks.secrets", [tenantId]);
      const text = JSON.stringify(secrets);
      if (text === sent) return true;
      sent = text;
      const others = this.#group.othersThan(first.number);
      await Promise.all(
        others.map((shard) => shard.ask("webhooks.setSecrets", [tenantId, secrets])),
      );
    }
  }
}

interface Keyed {
  readonly input: NewTask;
  /** The shard of the key. */
  readonly shard: number;
  readonly waiter: Waiter<Enqueued>;
}

/**
 * A new task whose key may belong to a task of another shard, because the number of shards has changed: asks that
 * shard. When that shard does not have the key any more, the shard of the key forgets it.
 */
class KeyedEnqueue implements EnqueueWaiter {
  readonly #router: Router;
  readonly #of: Keyed;

  constructor(router: Router, of: Keyed) {
    this.#router = router;
    this.#of = of;
  }

  durable(enqueued: Enqueued, item: number): void {
    this.#of.waiter.durable(enqueued, item);
  }

  refused(why: Refused, item: number): void {
    this.#of.waiter.refused(why, item);
  }

  moved(id: TaskId, item: number): void {
    const shard = this.#router.shardOf(id);
    this.#router.enqueueAt(shard, this.#of.input, this, item, { kind: "known" });
  }

  unknownKey(item: number): void {
    const { input, shard, waiter } = this.#of;
    const exceeded = this.#router.exceededByTask(input);
    if (exceeded !== undefined) waiter.refused({ code: "quota_exceeded", exceeded }, item);
    else this.#router.enqueueAt(shard, input, this, item, { kind: "forget" });
  }
}
