/**
 * The shard's end of the connection to its router: carries out calls in order, and sends answers when they
 * are durable. Once an event loop turn it reports, before the answers, which queues have work, and the usage
 * of tenants with quotas.
 */
import { FaultError } from "@codeq/engine";
import type { IdempotencyEntry, NewTask, TaskId, TenantId } from "@codeq/queue";
import type { Feed, FeedEvent } from "../../telemetry/feed.ts";
import { endOfWait } from "../abort-groups.ts";
import { OpenBackups } from "../backup/backups.ts";
import type { ResultWait } from "../broker/broker.ts";
import { Claim } from "../broker/claims/claim.ts";
import type { QueueState } from "../broker/queues/queue-state.ts";
import type { ShardBroker } from "../broker/shard-broker.ts";
import type { ClaimedTask, Refused, Waiter } from "../broker/verbs.ts";
import type { EndpointChange } from "../broker/webhooks.ts";
import { ByteReader } from "../store/bytes.ts";
import { shardOf } from "./shard-of.ts";
import {
  answers,
  calls,
  DamagedMessage,
  type EnqueueMode,
  head,
  type Message,
  MessageWriter,
  notes,
  type ValueOf,
} from "./wire.ts";

const callNames = Object.keys(calls) as (keyof typeof calls)[];

/** Events are left out while the router has not received so many of the sent bytes. */
const unreceivedBytesMax = 8 * 1024 * 1024;

const unforeseen = "the shard could not carry out the call";

export interface ShardHostParts {
  readonly broker: ShardBroker;
  readonly feed: Feed;
  readonly shard: number;
  readonly count: number;
  /** Whether tenants have quotas that the router has to know about. */
  readonly isLimited: boolean;
  /** Runs a function after everything that arrived in the same event loop turn. */
  readonly defer: (run: () => void) => void;
  /** Runs a function a little later, for hints that no claim waits for; undefined where a message costs little. */
  readonly deferHints?: ((run: () => void) => void) | undefined;
  readonly send: (message: Uint8Array<ArrayBuffer>) => void;
  /** Called with an error that is a bug. */
  readonly onBug: (error: unknown) => void;
  /** The measurements of the shard, as text. */
  readonly scrape: () => string;
}

/** What the host of a broker answers as JSON besides the verbs of the broker. */
export interface HostVerbs {
  awaitResult(tenantId: TenantId, id: TaskId, waitMs: number): Promise<"waited" | "crowded">;
  backupPiece: OpenBackups["next"];
  endBackup: OpenBackups["close"];
  scrape(): string;
}

export class ShardHost {
  readonly #parts: ShardHostParts;
  readonly #out: MessageWriter = new MessageWriter();
  readonly #backups: OpenBackups;
  readonly #queues: Set<QueueState> = new Set();
  /** Tenants with stored bytes, to be reported with the queues. */
  #storing: readonly TenantId[] = [];
  #isReset = true;
  /** Claims for which the disk is read. */
  #undecided: AskedClaim[] = [];
  /** Calls that wait for something, and how to end that. */
  readonly #waits: Map<number, AbortController> = new Map();
  #done = 0;
  #sentBytes = 0;
  #receivedBytes = 0;
  #isDeferred = false;
  #areHintsDeferred = false;
  /** Queues whose last report had tasks to claim. */
  readonly #reportedReady: WeakSet<QueueState> = new WeakSet();
  /** Queues whose last report had a topic. */
  readonly #reportedTopics: WeakSet<QueueState> = new WeakSet();
  #stopListening: (() => void) | undefined;
  #missed = 0;

  /** `onMade` connects the host to the events of the broker before any of them can be missed. */
  static async open(parts: ShardHostParts, onMade: (host: ShardHost) => void): Promise<ShardHost> {
    const host = new ShardHost(parts, await storingTenants(parts));
    onMade(host);
    return host;
  }

  /** For a shard that only one router uses. */
  static openAlone(parts: ShardHostParts): Promise<ShardHost> {
    const { broker } = parts;
    return ShardHost.open(parts, (host) => {
      broker.onMoved = (queue) => host.moved(queue);
      broker.webhooks.onEndpoint = (change) => host.endpointChanged(change);
      broker.onRecovered.add(() => host.recovered());
    });
  }

  private constructor(parts: ShardHostParts, storing: readonly TenantId[]) {
    this.#parts = parts;
    this.#backups = new OpenBackups(parts.broker.store);
    this.#reportAll(storing);
    this.reportState();
  }

  /** Plans a report of the queue, which has changed. */
  moved(queue: QueueState): void {
    this.#queues.add(queue);
    const { deferHints, isLimited } = this.#parts;
    const isNews = queue.topPriority >= 0 && !this.#reportedReady.has(queue);
    if (deferHints === undefined || isNews || isLimited || queue.topic !== undefined) {
      this.#schedule();
      return;
    }
    if (this.#areHintsDeferred) return;
    this.#areHintsDeferred = true;
    deferHints(() => {
      this.#areHintsDeferred = false;
      if (this.#queues.size > 0) this.#schedule();
    });
  }

  /** Reports that a webhook endpoint began to fail, was disabled, or works again. */
  endpointChanged(change: EndpointChange): void {
    this.#note(notes.endpoint, change);
  }

  /** Reports everything again after the memory of the broker was rebuilt. */
  recovered(): void {
    storingTenants(this.#parts).then(
      (tenants) => this.#reportAll(tenants),
      // Tenants that cannot be read now are reported with their next change.
      () => this.#reportAll([]),
    );
  }

  /** Ends everything that the router waits for; the connection is closed. */
  close(): void {
    this.#listen(false);
    for (const wait of this.#waits.values()) wait.abort(endOfWait);
    void this.#backups.close();
  }

  /** Reports that the storage begins or ceases to accept writes. */
  reportState(fault?: FaultError): void {
    const { state } = this.#parts.broker;
    this.#note(notes.state, { state, error: fault?.message });
  }

  take(message: Uint8Array): void {
    const from = ByteReader.of(message);
    this.#receivedBytes = from.double();
    while (!from.isAtEnd) {
      const name = callNames[from.byte() - calls.enqueue.kind];
      if (name === undefined) throw new DamagedMessage("a shard does not have the call");
      const number = from.number();
      this.#done = number;
      const value = calls[name].read(from);
      try {
        this.#handlers[name](value as never, number);
      } catch (error) {
        // A bug fails only the call that runs into it.
        const isFault = error instanceof FaultError;
        if (!isFault) this.#parts.onBug(error);
        this.refuse(isFault ? error : new FaultError("storage_failed", unforeseen), number);
      }
    }
    this.#schedule();
  }

  /** Plans a report of all queues and of these tenants. */
  #reportAll(storing: readonly TenantId[]): void {
    this.#isReset = true;
    this.#storing = storing;
    this.#queues.clear();
    for (const queue of this.#parts.broker.queues.all()) this.#queues.add(queue);
    this.#schedule();
  }

  /** Carries out calls. */
  readonly #handlers: {
    [Name in keyof typeof calls]: (value: ValueOf<(typeof calls)[Name]>, number: number) => void;
  } = {
    enqueue: ({ input, mode }, number) => this.#enqueue(input, mode, number),
    claim: (request, number) => {
      const claim = new AskedClaim(request, this, number);
      this.#parts.broker.claim(claim);
      if (!claim.isDecided) this.#undecided.push(claim);
    },
    heartbeat: ({ of, request }, number) =>
      this.#parts.broker.heartbeat(of, request, this.#waiters.extended, number),
    nack: ({ of, request }, number) =>
      this.#parts.broker.nack(of, request, this.#waiters.returned, number),
    abandon: ({ of, request }, number) =>
      this.#parts.broker.abandon(of, request, this.#waiters.returned, number),
    submit: ({ of, request }, number) =>
      this.#parts.broker.submit(of, request, this.#waiters.submitted, number),
    release: (of) => this.#parts.broker.release(of),
    get: ({ tenantId, id }, number) =>
      this.#answerLater(answers.found, number, this.#parts.broker.get(tenantId, id)),
    outcome: ({ tenantId, id }, number) =>
      this.#answerLater(answers.outcome, number, this.#parts.broker.outcome(tenantId, id)),
    ask: ({ name, given }, number) =>
      this.#answerLater(answers.asked, number, this.#ask(name, given, number)),
    cancel: (number) => this.#waits.get(number)?.abort(endOfWait),
    listen: (isHeard) => this.#listen(isHeard),
  };

  #enqueue(input: NewTask, mode: EnqueueMode | undefined, number: number): void {
    const { broker, shard, count } = this.#parts;
    const { tenantId, idempotencyKey } = input;
    const known = idempotencyKey === "" ? undefined : this.#entryOf(tenantId, idempotencyKey);
    // A shard answers for the deleted tasks that it knows of, wherever they were.
    const isGone = known?.gone !== undefined;
    if (known !== undefined && !isGone && shardOf(known.taskId, count) !== shard) {
      if (mode?.kind !== "forget") {
        this.#answer(answers.moved, number, known.taskId);
        return;
      }
      broker.store.forgetIdempotency(tenantId, idempotencyKey);
    }
    if (mode?.kind === "known" && known === undefined) {
      this.#answer(answers.unknownKey, number, undefined);
      return;
    }
    if (mode?.kind === "exceeded" && known === undefined) {
      this.refuse({ code: "quota_exceeded", exceeded: mode.exceeded }, number);
      return;
    }
    broker.enqueue(input, this.#waiters.enqueued, number);
  }

  /** Undefined for a damaged entry; the broker answers with the damage. */
  #entryOf(tenantId: TenantId, key: string): IdempotencyEntry | undefined {
    try {
      return this.#parts.broker.entryOf(tenantId, key);
    } catch (error) {
      if (error instanceof FaultError) return undefined;
      throw error;
    }
  }

  #ask(name: string, given: readonly unknown[], number: number): unknown {
    const { broker, scrape } = this.#parts;
    const own: HostVerbs = {
      awaitResult: (...of) => this.#wait(number, ...of),
      backupPiece: (...of) => this.#backups.next(...of),
      endBackup: () => this.#backups.close(),
      scrape,
    };
    const [front, verb = name] = name.split(".") as [string, string?];
    const parts = {
      webhooks: broker.webhooks,
      schedules: broker.schedules,
      batches: broker.batches,
    };
    const part = verb === name ? undefined : parts[front as keyof typeof parts];
    const target = part ?? (name in own ? own : broker);
    // The types are checked where the router sends the call. JSON has no undefined.
    const run = (target as unknown as Record<string, (...given: unknown[]) => unknown>)[verb];
    if (run === undefined) throw new TypeError(`a shard has no verb ${name}`);
    return run.apply(
      target,
      given.map((each) => each ?? undefined),
    );
  }

  async #wait(
    number: number,
    ...[tenantId, id, waitMs]: Parameters<HostVerbs["awaitResult"]>
  ): ReturnType<HostVerbs["awaitResult"]> {
    const controller = new AbortController();
    this.#waits.set(number, controller);
    const wait: ResultWait = { waitMs, signal: controller.signal };
    try {
      return await this.#parts.broker.awaitResult(tenantId, id, wait);
    } finally {
      this.#waits.delete(number);
    }
  }

  #answerLater<T>(message: Message<T>, number: number, answer: T | Promise<T>): void {
    const failed = (error: unknown): void => {
      const isFault = error instanceof FaultError;
      this.refuse(isFault ? error : new FaultError("storage_failed", String(error)), number);
    };
    if (!(answer instanceof Promise)) this.#answer(message, number, answer);
    else answer.then((value) => this.#answer(message, number, value)).catch(failed);
  }

  #answer<T>(message: Message<T>, number: number, value: T): void {
    this.#out.send(message, number, value);
    this.#schedule();
  }

  #note<T>(message: Message<T>, value: T): void {
    this.#out.note(message, value);
    this.#schedule();
  }

  refuse(why: Refused, number: number): void {
    this.#answer(answers.refused, number, why);
  }

  claimed(claim: AskedClaim, tasks: readonly ClaimedTask[]): void {
    // The last report said that there is work, so the router needs a new one.
    if (tasks.length === 0) this.#reportAsked(claim);
    this.#answer(answers.claimed, claim.number, tasks);
  }

  #reportAsked({ tenantId, queues }: AskedClaim): void {
    const known = this.#parts.broker.queues;
    for (const name of queues ?? []) this.#queues.add(known.queue(tenantId, name));
    if (queues === undefined) {
      for (const queue of known.ofTenant(tenantId)) this.#queues.add(queue);
    }
  }

  #waiter<T>(message: Message<T>): Waiter<T> {
    return {
      durable: (value, number) => this.#answer(message, number, value),
      refused: (why, number) => this.refuse(why, number),
    };
  }

  readonly #waiters = {
    enqueued: this.#waiter(answers.enqueued),
    extended: this.#waiter(answers.extended),
    returned: this.#waiter(answers.returned),
    submitted: this.#waiter(answers.submitted),
  };

  #listen(isHeard: boolean): void {
    if (!isHeard) {
      this.#stopListening?.();
      this.#stopListening = undefined;
      return;
    }
    const hear = (event: FeedEvent): void => this.#sendEvent(event);
    this.#stopListening ??= this.#parts.feed.listen({ tenantId: undefined, hear, end: () => {} });
  }

  #sendEvent(event: FeedEvent): void {
    if (this.#sentBytes + this.#out.bytes - this.#receivedBytes > unreceivedBytesMax) {
      this.#missed += 1;
      return;
    }
    this.#note(notes.event, event);
  }

  #schedule(): void {
    if (this.#isDeferred) return;
    this.#isDeferred = true;
    this.#parts.defer(this.#flush);
  }

  /** Notes come before answers, so that the router knows the queue when it passes on an answer. */
  readonly #flush = (): void => {
    this.#isDeferred = false;
    const message = new MessageWriter();
    const { isOverloaded } = this.#parts.broker;
    if (this.#undecided.length > 0) {
      this.#undecided = this.#undecided.filter(({ isDecided }) => !isDecided);
    }
    const undecided = this.#undecided.map(({ number }) => number);
    message.put(head, { carriedOut: this.#done, undecided, isOverloaded });
    this.#writeNotes(message);
    if (this.#missed > 0) message.note(notes.missed, this.#missed);
    this.#missed = 0;
    message.append(this.#out);
    const bytes = message.take();
    this.#sentBytes += bytes.length;
    this.#parts.send(bytes);
  };

  #writeNotes(to: MessageWriter): void {
    const { broker, isLimited } = this.#parts;
    const tenants = new Set<TenantId>(this.#storing);
    this.#storing = [];
    if (this.#isReset) to.note(notes.reset, undefined);
    this.#isReset = false;
    for (const queue of this.#queues) {
      const { tenantId, name: queueName, readyTotal, topPriority, shares } = queue;
      const of = { tenantId, queue: queueName };
      // A paused queue has no tasks to claim.
      const ready = topPriority < 0 ? 0 : readyTotal;
      if (ready > 0) this.#reportedReady.add(queue);
      else this.#reportedReady.delete(queue);
      to.note(notes.hint, { ...of, ready, topPriority, shares });
      tenants.add(tenantId);
      const { topic, counts } = queue;
      if (topic === undefined && !this.#reportedTopics.delete(queue)) continue;
      if (topic !== undefined) this.#reportedTopics.add(queue);
      // A topic that was deleted limits nothing, which routers of other nodes learn here.
      const { maxConsumers: max, placement } = topic?.policy ?? { maxConsumers: 0 };
      to.note(notes.leased, { ...of, leased: counts.leased, max, isPlaced: placement === "one" });
    }
    this.#queues.clear();
    if (!isLimited) return;
    for (const tenantId of tenants) {
      const { pending, leased } = broker.queues.tenant(tenantId);
      const storedBytes = broker.store.storedBytes(tenantId);
      to.note(notes.usage, { tenantId, pending, leased, storedBytes });
    }
  }
}

/** Tenants whose bytes the router needs, also when they have no task in a queue. */
function storingTenants({ broker, isLimited }: ShardHostParts): Promise<readonly TenantId[]> {
  return isLimited ? broker.store.storingTenants() : Promise.resolve([]);
}

/** Never waits: claims without work wait in the router. */
class AskedClaim extends Claim {
  readonly #host: ShardHost;
  readonly number: number;
  #isAnswered = false;

  constructor(request: ConstructorParameters<typeof Claim>[0], host: ShardHost, number: number) {
    super(request);
    this.#host = host;
    this.number = number;
  }

  get isDecided(): boolean {
    return this.isServed || this.#isAnswered;
  }

  durable(tasks: readonly ClaimedTask[]): void {
    this.#isAnswered = true;
    this.#host.claimed(this, tasks);
  }

  refused(why: Refused): void {
    this.#isAnswered = true;
    this.#host.refuse(why, this.number);
  }
}
