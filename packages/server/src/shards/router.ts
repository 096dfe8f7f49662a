/**
 * Presents several shards as one queue. A call about a task goes to the shard of the task. A new task goes
 * to the shard of its idempotency key or, without a key, to the shards in turn. A call about all tasks goes
 * to all shards, and the answers are merged.
 */
import { type EngineState, FaultError } from "@codeq/engine";
import { limits } from "@codeq/protocol";
import {
  type Artifact,
  type NackRequest,
  type NewTask,
  queueOf,
  type Result,
  type Returned,
  type Submission,
  type Task,
  type TaskId,
  type TenantId,
  type WorkerId,
} from "@codeq/queue";
import { AbortGroups, endOfWait } from "../abort-groups.ts";
import type { References } from "../artifacts/artifacts.ts";
import { askingWorkers } from "../broker/asking-workers.ts";
import type { Claim } from "../broker/claim.ts";
import { withOthers } from "../broker/explain.ts";
import type { AskingWorker, Explained, Obstacle, QueueLook } from "../broker/explained.ts";
import {
  cursorsOf,
  type FailureGroups,
  mergeFailureGroups,
  type WantedGroups,
} from "../broker/failure-groups.ts";
import { addQueueCounts } from "../broker/flow.ts";
import { firstOf, mergeRuns } from "../broker/merge-runs.ts";
import type {
  AbandonRequest,
  Attached,
  CleanUp,
  Extended,
  FoundPlace,
  FoundTasks,
  Heartbeat,
  MayFinish,
  PutTopic,
  Queue,
  QueueCounts,
  QueueWork,
  ResultWait,
  ShardState,
  TenantLeases,
  WantedTasks,
  WorkerLeases,
} from "../broker/queue.ts";
import { addPoints } from "../broker/queue-series.ts";
import type { EndpointChange } from "../broker/queue-webhooks.ts";
import {
  type Acted,
  exceededBy,
  type TaskAction,
  type TaskOf,
  takenBy,
} from "../broker/task-actions.ts";
import { orderOf } from "../broker/task-search.ts";
import type {
  ClaimedTask,
  Enqueued,
  OwnedTask,
  Refused,
  Submitted,
  TaskOutcome,
  Waiter,
} from "../broker/verbs.ts";
import type { Clock } from "../clock.ts";
import type { Exceeded, Quotas } from "../config/quotas.ts";
import { addCounts, type Counts, noCounts } from "../store/counts.ts";
import type { PausedQueue, QueuePause } from "../store/pause-record.ts";
import type { BackupReading } from "../store/read-backup.ts";
import type { SeriesName, SeriesPoint } from "../store/series-record.ts";
import type { QueueName } from "../store/store.ts";
import type { Topic, TopicPolicy } from "../store/topic-record.ts";
import type { Triage } from "../store/triage-record.ts";
import type { WantedBackup, WrittenBackup } from "../store/write-backup.ts";
import type { Feed } from "../telemetry/feed.ts";
import { TenantShares } from "../tenant-shares.ts";
import type { ShardLink } from "./link.ts";
import {
  type EnqueueWaiter,
  type NewTaskTerms,
  RemoteShard,
  type ShardNotes,
} from "./remote-shard.ts";
import { RoutedClaims } from "./routed-claims.ts";
import { RoutedWebhooks } from "./routed-webhooks.ts";
import type { Questions } from "./shard-host.ts";
import { shardOf, shardOfKey } from "./shard-of.ts";
import { type Held, SharedRoom } from "./shared-room.ts";

/** So many new tasks without a key go to one shard before it is the next one's turn. */
const turnTasksMax = 64;

export interface RouterParts {
  readonly links: readonly ShardLink[];
  readonly clock: Clock;
  readonly quotas: Quotas;
  readonly feed: Feed;
  /** Runs a function after what arrived in the same turn. */
  readonly defer: (run: () => void) => void;
  /** How the whole is, whenever one of the shards begins or ceases to accept writes. */
  readonly onState: (state: EngineState, fault: FaultError | undefined) => void;
  /** Events that the readers of feeds will never hear of. */
  readonly onMissed: (events: number) => void;
  /** An endpoint of callbacks is not what it was. */
  readonly onEndpoint: (change: EndpointChange) => void;
}

type State = { state: EngineState; error: string | undefined };

export class Router implements Queue, AsyncDisposable {
  readonly webhooks: RoutedWebhooks;
  readonly #shards: readonly RemoteShard[];
  readonly #states: State[];
  readonly #room: SharedRoom;
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
    this.#defer = defer;
    this.#room = new SharedRoom(quotas, links.length);
    this.#states = links.map(() => ({ state: "closed", error: undefined }));
    this.#opened = links.map(() => Promise.withResolvers());
    // A shard that ends early ends the start only where somebody waits for it.
    for (const { promise } of this.#opened) promise.catch(() => {});
    this.#shards = links.map((link, number) => {
      return new RemoteShard({ number, link, defer, notes: this.#notesOf(number, parts) });
    });
    this.webhooks = new RoutedWebhooks(this.#shards, (id) => this.shardOf(id));
    this.#claims = new RoutedClaims({
      shards: this.#shards,
      room: this.#room,
      clock,
      isOpen: (shard) => this.#states[shard]?.state === "open",
    });
    for (const shard of this.#shards) shard.hear();
    feed.onHeard = (isHeard) => {
      for (const shard of this.#shards) shard.listen(isHeard);
    };
  }

  /** Resolves when every shard has said what it has. */
  async opened(): Promise<void> {
    await Promise.all(this.#opened.map(({ promise }) => promise));
    await this.#alignTopics();
  }

  #notesOf(shard: number, { feed, onState, onMissed, onEndpoint }: RouterParts): ShardNotes {
    return {
      hint: (tenantId, queue, ready, topPriority) =>
        this.#claims.hint(shard, { tenantId, queue }, { ready, topPriority }),
      leased: (tenantId, queue, leased, max) =>
        this.#claims.leased(shard, { tenantId, queue }, { leased, max }),
      room: (tenantId, room) => {
        this.#room.tell(shard, tenantId, room);
        this.#claims.freed(tenantId);
      },
      event: (event) => feed.tell(event),
      missed: onMissed,
      endpoint: (change) => {
        this.webhooks.tellOthers(shard, change);
        onEndpoint(change);
      },
      state: (state, fault) => {
        this.#states[shard] = { state, error: fault?.message };
        this.#opened[shard]?.resolve();
        this.#claims.opened(shard);
        onState(this.state, fault);
      },
      down: (fault) => {
        // Another node may lead it soon, which is no failure.
        const state = fault.code === "not_leader" ? "closed" : "failed";
        this.#states[shard] = { state, error: fault.message };
        this.#opened[shard]?.reject(fault);
        this.#claims.down(shard);
        onState(this.state, fault);
      },
      up: () => this.#room.forgetSent(shard),
      anew: () => {
        this.#claims.forget(shard);
        this.#room.forget(shard);
      },
      carriedOut: (number, undecided) => {
        this.#room.carriedOut(shard, number, undecided);
        this.#claims.carriedOut(shard, number, undecided);
        // Who waits comes before those who ask again when they hear their answers.
        this.#claims.serveTold();
      },
      heard: () => this.#claims.serveTold(),
    };
  }

  /** Open as long as one of them is: the others refuse what is theirs. */
  get state(): EngineState {
    const states = this.#states.map(({ state }) => state);
    return (["open", "full", "failed"] as const).find((each) => states.includes(each)) ?? "closed";
  }

  get shards(): readonly ShardState[] {
    return this.#states.map((each, shard) => ({ shard, ...each }));
  }

  get isPartial(): boolean {
    return !this.#shards.every((shard) => this.#answers(shard));
  }

  get isOverloaded(): boolean {
    return this.#shards.some((shard) => shard.isOverloaded);
  }

  /** The measurements of every shard that answers. */
  async scrape(): Promise<readonly { readonly shard: number; readonly text: string }[]> {
    const asked = this.#shards.map(async (shard) => {
      const text = await shard.ask<"scrape", string>("scrape", []).catch(() => undefined);
      return text === undefined ? [] : [{ shard: shard.number, text }];
    });
    return (await Promise.all(asked)).flat();
  }

  enqueue(input: NewTask, waiter: Waiter<Enqueued>, item = 0): void {
    const { tenantId, idempotencyKey } = input;
    const exceeded = this.exceededByTask(input);
    if (idempotencyKey === "") {
      if (exceeded !== undefined) waiter.refused({ code: "quota_exceeded", exceeded }, item);
      // A task without a key is never found elsewhere.
      else this.enqueueAt(this.#nextShard(), input, waiter as EnqueueWaiter, item);
      return;
    }
    const shard = shardOfKey(tenantId, idempotencyKey, this.#shards.length);
    const keyed = new KeyedEnqueue(this, { input, shard, waiter });
    this.enqueueAt(shard, input, keyed, item, exceeded && { kind: "exceeded", exceeded });
  }

  exceededByTask({ tenantId, payloadBytes }: NewTask): Exceeded | undefined {
    return this.#room.exceededByTask(tenantId, payloadBytes);
  }

  enqueueAt(
    shard: number,
    input: NewTask,
    waiter: EnqueueWaiter,
    item: number,
    terms?: NewTaskTerms,
  ): void {
    const number = this.#shards[shard]?.enqueue(input, waiter, item, terms) ?? 0;
    if (number === 0 || (terms !== undefined && terms.kind !== "forget")) return;
    const { tenantId, payloadBytes: storedBytes } = input;
    this.#room.send(shard, number, tenantId, { pending: 1, storedBytes });
  }

  shardOf(id: TaskId): number {
    return shardOf(id, this.#shards.length);
  }

  /** Those of a turn go together, so that they share a commit; one that takes nothing is passed over. */
  #nextShard(): number {
    const count = this.#shards.length;
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
      if (this.#states[shard]?.state === "open") return shard;
    }
    return this.#turn;
  }

  claim(claim: Claim): void {
    // While nobody leads there may be work in a moment.
    if (this.state === "open" || this.state === "closed") this.#claims.claim(claim);
    else claim.refused(this.#fault());
  }

  cancelClaim(claim: Claim): void {
    this.#claims.cancel(claim);
  }

  heartbeat(of: OwnedTask, beat: Heartbeat, waiter: Waiter<Extended>, item = 0): void {
    this.#of(of.id).heartbeat(of, beat, waiter, item);
  }

  nack(of: OwnedTask, request: NackRequest, waiter: Waiter<Returned>, item = 0): void {
    this.#of(of.id).nack(of, request, waiter, item);
  }

  abandon(of: OwnedTask, request: AbandonRequest, waiter: Waiter<Returned>, item = 0): void {
    this.#of(of.id).abandon(of, request, waiter, item);
  }

  submit(of: OwnedTask, submission: Submission, waiter: Waiter<Submitted>, item = 0): void {
    this.#of(of.id).submit(of, submission, waiter, item);
  }

  release(of: OwnedTask): void {
    this.#of(of.id).release(of);
  }

  mayFinish(of: OwnedTask, how: Submission["how"]): Promise<MayFinish> {
    return this.#of(of.id).ask("mayFinish", [of, how]);
  }

  get(tenantId: TenantId, id: TaskId): Promise<ClaimedTask | undefined> {
    return this.#of(id).get(tenantId, id);
  }

  async placesOf(tenantId: TenantId, ids: readonly TaskId[]): Promise<readonly FoundPlace[]> {
    const found = new Map<TaskId, FoundPlace>();
    const byShard = Map.groupBy(ids, (id) => this.#of(id));
    const asked = [...byShard].map(async ([shard, some]) => {
      const places = await shard.ask<"placesOf", FoundPlace[]>("placesOf", [tenantId, some]);
      for (const [at, id] of some.entries()) found.set(id, places[at] as FoundPlace);
    });
    await Promise.all(asked);
    return ids.map((id) => found.get(id) as FoundPlace);
  }

  outcome(tenantId: TenantId, id: TaskId): Promise<TaskOutcome | undefined> {
    return this.#of(id).outcome(tenantId, id);
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
      return await this.#of(id).ask("awaitResult", [tenantId, id, waitMs], ending.signal);
    } finally {
      this.#waits.delete(ending);
      this.#waitShares.add(tenantId, -1);
      stopListening?.();
    }
  }

  async attach(of: OwnedTask, artifact: Artifact): Promise<Attached> {
    const { bytes = 0 } = artifact;
    const exceeded = this.#room.exceededByBytes(of.tenantId, bytes);
    if (exceeded !== undefined) return { ok: false, code: "quota_exceeded", exceeded };
    const shard = this.shardOf(of.id);
    return this.#of(of.id).ask<"attach", Attached>("attach", [of, artifact], undefined, (number) =>
      this.#room.send(shard, number, of.tenantId, { storedBytes: bytes }),
    );
  }

  exceededByBytes(tenantId: TenantId, bytes: number): Exceeded | undefined {
    return this.#room.exceededByBytes(tenantId, bytes);
  }

  artifactsOf(id: TaskId): Promise<References> {
    return this.#of(id).ask("artifactsOf", [id]);
  }

  async counts(tenantId: TenantId, command: string): Promise<Counts> {
    const all = await this.#askWorking<"counts", Counts>("counts", [tenantId, command]);
    return all.reduce(addCounts, noCounts());
  }

  async queuesOf(tenantId: TenantId, withAges: boolean): Promise<readonly QueueCounts[]> {
    const found = new Map<string, QueueCounts>();
    const given = [tenantId, withAges] as [TenantId, boolean];
    const all = await this.#askWorking<"queuesOf", readonly QueueCounts[]>("queuesOf", given);
    for (const each of all.flat()) {
      const before = found.get(each.queue);
      found.set(each.queue, before === undefined ? each : addQueueCounts(before, each));
    }
    return [...found.values()];
  }

  async seriesOf(of: SeriesName): Promise<readonly SeriesPoint[]> {
    const all = await this.#askAll<"seriesOf", readonly SeriesPoint[]>("seriesOf", [of]);
    const found = new Map<number, SeriesPoint>();
    for (const each of all.flat()) {
      const before = found.get(each.number);
      found.set(each.number, before === undefined ? each : addPoints(before, each));
    }
    return [...found.values()].sort((one, other) => one.number - other.number);
  }

  async tenants(): Promise<ReadonlySet<TenantId>> {
    return new Set((await this.#askWorking<"tenants", readonly TenantId[]>("tenants", [])).flat());
  }

  async leasesOf(tenantId: TenantId): Promise<TenantLeases> {
    const all = await this.#askWorking<"leasesOf", TenantLeases>("leasesOf", [tenantId]);
    const found = new Map<WorkerId, WorkerLeases>();
    for (const each of all.flatMap(({ workers }) => workers)) {
      const before = found.get(each.workerId);
      found.set(each.workerId, before === undefined ? each : merged(before, each));
    }
    const isPartial = this.isPartial || all.some((each) => each.isPartial);
    return { workers: [...found.values()], isPartial };
  }

  async cleanUp(wanted: CleanUp): Promise<number> {
    let deleted = 0;
    for (const shard of this.#shards) {
      const limit = wanted.limit - deleted;
      if (limit <= 0) break;
      deleted += await shard.ask<"cleanUp", number>("cleanUp", [{ ...wanted, limit }]);
    }
    return deleted;
  }

  /** A page of each, put together as far as all of them have looked. */
  async find(wanted: WantedTasks): Promise<FoundTasks | undefined> {
    const pages = await this.#askAll<"find", FoundTasks | null>("find", [wanted]);
    const found = pages.filter((page) => page !== null);
    if (found.length < pages.length) return undefined;
    const runs = found.map(({ tasks, next }) => ({ items: tasks, reached: next }));
    const idOf = ({ id }: Task): string => id;
    const merged = mergeRuns(runs, { idOf, comesFirst: orderOf(wanted.order) });
    const { items, reached } = firstOf(merged, wanted.limit, idOf);
    const totals = found.map(({ total }) => total);
    return {
      tasks: items,
      scanned: found.reduce((sum, { scanned }) => sum + scanned, 0),
      next: reached,
      total: totals.reduce(
        (sum, each) => (each === undefined ? sum : (sum ?? 0) + each),
        undefined,
      ),
    };
  }

  async failureGroups(wanted: WantedGroups): Promise<FailureGroups | undefined> {
    const cursors = cursorsOf(wanted.after, this.#shards.length);
    const over: FailureGroups = { groups: [], scanned: 0, next: undefined };
    const asked = this.#shards.map((shard, at) => {
      const after = cursors[at];
      if (after === undefined) return over;
      const given = { ...wanted, after };
      return shard.ask<"failureGroups", FailureGroups | null>("failureGroups", [given]);
    });
    const answers = await Promise.all(asked);
    const found = answers.filter((answer) => answer !== null);
    return found.length < answers.length ? undefined : mergeFailureGroups(found);
  }

  /** What its shard says, with what the others have of its queue. */
  async explain(of: TaskOf): Promise<Explained | undefined> {
    const shard = this.shardOf(of.id);
    const own = await this.#of(of.id).ask<"explain", Explained | null>("explain", [of]);
    if (own === null) return undefined;
    const { tenantId } = of;
    const queue = { tenantId, name: queueOf(own.task.command) };
    const others = this.#shards.filter(({ number }) => number !== shard);
    const looks = others.map((each) => each.ask<"lookAt", QueueLook>("lookAt", [queue]));
    const explained = withOthers(own, await Promise.all(looks));
    return { ...explained, obstacle: this.#obstacleOf(queue, own.obstacle) };
  }

  /** Quotas and the limits of topics hold over all shards, which a shard alone does not know. */
  #obstacleOf({ tenantId, name }: QueueName, own: Obstacle | undefined): Obstacle | undefined {
    if (own?.rule === "storage") return own;
    if (this.#room.leases(tenantId) === 0) return { rule: "lease_quota" };
    const queue = this.#claims.queues.find(tenantId, name);
    if (own !== undefined || queue === undefined || !queue.isAtLimit) return own;
    return { rule: "topic_limit", limit: queue.leasedMax };
  }

  asking(tenantId: TenantId): readonly AskingWorker[] {
    return askingWorkers(this.#claims.lines, tenantId);
  }

  async act(of: TaskOf, action: TaskAction): Promise<Acted> {
    const { tenantId, id } = of;
    const exceeded = exceededBy(this.#room, of, action);
    if (exceeded !== undefined) return { ok: false, code: "quota_exceeded", exceeded };
    const shard = this.shardOf(id);
    return this.#of(id).ask<"act", Acted>("act", [of, action], undefined, (number) => {
      this.#room.send(shard, number, tenantId, takenBy(action));
    });
  }

  async pause(of: QueueName, pause: QueuePause | undefined): Promise<void> {
    await this.#askAll<"pause", null>("pause", [of, pause ?? null]);
  }

  async pausesOf(tenantId: TenantId): Promise<readonly PausedQueue[]> {
    const all = await this.#askWorking<"pausesOf", readonly PausedQueue[]>("pausesOf", [tenantId]);
    return [...new Map(all.flat().map((each) => [each.queue, each])).values()];
  }

  /** The first shard decides, and the others follow it. */
  async putTopic(of: QueueName, policy: TopicPolicy): Promise<PutTopic> {
    const [first, ...others] = this.#shards as [RemoteShard, ...RemoteShard[]];
    const put = await first.ask<"putTopic", PutTopic>("putTopic", [of, policy]);
    await Promise.all(others.map((shard) => shard.ask("adoptTopic", [put.topic])));
    return put;
  }

  async deleteTopic(of: QueueName): Promise<void> {
    await this.#askAll<"deleteTopic", null>("deleteTopic", [of]);
    this.#claims.unlimited(of);
  }

  topicsOf(tenantId: TenantId): Promise<readonly Topic[]> {
    const [first] = this.#shards as [RemoteShard];
    return first.ask("topicsOf", [tenantId]);
  }

  /** The first shard keeps it. */
  triageOf(tenantId: TenantId): Promise<readonly Triage[]> {
    const [first] = this.#shards as [RemoteShard];
    return first.ask("triageOf", [tenantId]);
  }

  async setTriage(tenantId: TenantId, group: string, triage: Triage | undefined): Promise<void> {
    const [first] = this.#shards as [RemoteShard];
    await first.ask("setTriage", [tenantId, group, triage ?? null]);
  }

  /** A crash may have come between the first shard and the others. */
  async #alignTopics(): Promise<void> {
    const [truth = [], ...others] = await this.#askAll<"allTopics", readonly Topic[]>(
      "allTopics",
      [],
    );
    const nameOf = ({ tenantId, name }: QueueName): string => `${tenantId}/${name}`;
    const right = new Map(truth.map((topic) => [nameOf(topic), JSON.stringify(topic)]));
    await Promise.all(
      others.map(async (found, at) => {
        const shard = this.#shards[at + 1] as RemoteShard;
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
    return this.#claims.queues.requested(tenantId, undefined);
  }

  async backup(wanted: WantedBackup): Promise<readonly WrittenBackup[]> {
    const asked = this.#shards.map((shard) =>
      shard.ask<"backup", readonly WrittenBackup[]>("backup", [
        { ...wanted, store: `shard-${shard.number}` },
      ]),
    );
    return (await Promise.all(asked)).flat();
  }

  async *readBackup(reading: BackupReading): AsyncGenerator<Buffer> {
    for (const shard of this.#shards) yield* shard.readBackup(reading);
  }

  isCrowded(tenantId: TenantId): boolean {
    return this.#claims.lines.areCrowded(tenantId);
  }

  exceededByLease(tenantId: TenantId): Exceeded | undefined {
    return this.#room.exceededByLease(tenantId);
  }

  /** What the tenant has, as the quotas see it. */
  held(tenantId: TenantId): Held {
    return this.#room.held(tenantId);
  }

  get waitingClaims(): number {
    return this.#claims.lines.size;
  }

  /** Of how many queues something is known. */
  get knownQueues(): number {
    return this.#claims.knownQueues;
  }

  get waitingResults(): number {
    return this.#waits.size;
  }

  stopWaiting(): void {
    this.#claims.stopWaiting();
    for (const wait of this.#waits) wait.abort(endOfWait);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#shards.map((shard) => shard.stop()));
  }

  #of(id: TaskId): RemoteShard {
    return this.#shards[this.shardOf(id)] as RemoteShard;
  }

  #askAll<Name extends keyof Questions, T>(name: Name, given: Questions[Name]): Promise<T[]> {
    return Promise.all(this.#shards.map((shard) => shard.ask<Name, T>(name, given)));
  }

  /** Those that answer; throws when none does. `isPartial` says afterwards whether one is missing. */
  async #askWorking<Name extends keyof Questions, T>(
    name: Name,
    given: Questions[Name],
  ): Promise<T[]> {
    const working = this.#shards.filter((shard) => this.#answers(shard));
    const asked = await Promise.allSettled(working.map((shard) => shard.ask<Name, T>(name, given)));
    const answers = asked.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
    if (answers.length > 0) return answers;
    const [refused] = asked.flatMap((each) => (each.status === "rejected" ? [each.reason] : []));
    throw refused ?? this.#fault();
  }

  #answers({ number }: RemoteShard): boolean {
    const { state } = this.#states[number] as { readonly state: EngineState };
    return state === "open" || state === "full";
  }

  #fault(): FaultError {
    const code = this.state === "full" ? "disk_full" : "storage_failed";
    const error = this.#states.find((each) => each.error !== undefined)?.error;
    return new FaultError(code, error ?? "no shard accepts changes");
  }
}

function merged(some: WorkerLeases, others: WorkerLeases): WorkerLeases {
  return {
    workerId: some.workerId,
    leases: some.leases + others.leases,
    oldestMs: Math.min(some.oldestMs, others.oldestMs),
    seenMs: Math.max(some.seenMs, others.seenMs),
  };
}

interface Keyed {
  readonly input: NewTask;
  /** Of the key. */
  readonly shard: number;
  readonly waiter: Waiter<Enqueued>;
}

/**
 * A new task whose key may stand for one of another shard, since the number of shards was changed: that
 * one is asked. When it knows nothing of the key any more, the shard of the key forgets it.
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
