/**
 * The shard's end of the connection to its router: carries out calls in order, and sends answers when they
 * are durable. Once an event loop turn it reports, before the answers, which queues have work, and the usage
 * of tenants with quotas.
 */
import { FaultError } from "@codeq/engine";
import type { Returned, TaskId, TenantId } from "@codeq/queue";
import type { Feed, TaskEvent } from "../../telemetry/feed.ts";
import { endOfWait } from "../abort-groups.ts";
import { OpenBackups } from "../backup/backups.ts";
import type { Broker } from "../broker/broker.ts";
import { Claim } from "../broker/claim.ts";
import type { Extended, ResultWait } from "../broker/queue.ts";
import type { QueueState } from "../broker/queue-state.ts";
import type { EndpointChange } from "../broker/queue-webhooks.ts";
import type { ClaimedTask, Enqueued, Refused, Submitted, Waiter } from "../broker/verbs.ts";
import { DamagedMessage, MessageReader, MessageWriter } from "./message.ts";
import { shardOf } from "./shard-of.ts";
import {
  answer,
  call,
  readClaim,
  readHeartbeat,
  readNewTask,
  readOwned,
  readSubmission,
  terms,
  writeClaimed,
  writeHead,
  writeOutcome,
  writeRefused,
  writeSubmitted,
} from "./wire.ts";

/** Events are left out while so much of what was sent has not been received. */
const unreceivedBytesMax = 8 * 1024 * 1024;

const unforeseen = "the shard could not carry out the call";

export interface ShardHostParts {
  readonly broker: Broker;
  readonly feed: Feed;
  readonly shard: number;
  readonly count: number;
  /** Whether tenants have quotas that the router has to know about. */
  readonly isLimited: boolean;
  /** Runs a function after what arrived in the same turn. */
  readonly defer: (run: () => void) => void;
  /** Runs a function a little later, for hints that no claim waits for; undefined where a message costs little. */
  readonly deferHints?: ((run: () => void) => void) | undefined;
  readonly send: (message: Uint8Array<ArrayBuffer>) => void;
  /** Something threw that should not have. */
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
  /** Tenants that have something stored, to be told with the queues. */
  #storing: readonly TenantId[] = [];
  #isAnew = true;
  /** Claims for which the disk is read. */
  #undecided: AskedClaim[] = [];
  /** Calls that wait for something, and how to end that. */
  readonly #waits: Map<number, AbortController> = new Map();
  #done = 0;
  #sentBytes = 0;
  #receivedBytes = 0;
  #isDeferred = false;
  #areHintsDeferred = false;
  /** Queues that the router believes to have tasks for a claim. */
  readonly #toldReady: WeakSet<QueueState> = new WeakSet();
  #stopListening: (() => void) | undefined;
  #missed = 0;

  /** `onMade` sees to it that the host hears of what happens to the broker, from the first moment on. */
  static async open(parts: ShardHostParts, onMade: (host: ShardHost) => void): Promise<ShardHost> {
    const host = new ShardHost(parts, await storingTenants(parts));
    onMade(host);
    return host;
  }

  private constructor(parts: ShardHostParts, storing: readonly TenantId[]) {
    this.#parts = parts;
    this.#backups = new OpenBackups(parts.broker.store);
    this.#noteAll(storing);
    this.tellState();
  }

  /** Something of the queue has changed. */
  moved(queue: QueueState): void {
    this.#queues.add(queue);
    const { deferHints, isLimited } = this.#parts;
    const isNews = queue.topPriority >= 0 && !this.#toldReady.has(queue);
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

  /** An endpoint of callbacks is not what it was. */
  endpointChanged(change: EndpointChange): void {
    this.#out.byte(answer.endpoint);
    this.#out.text(JSON.stringify(change));
    this.#schedule();
  }

  /** The memory of the broker was made anew. */
  recovered(): void {
    storingTenants(this.#parts).then(
      (tenants) => this.#noteAll(tenants),
      // Those who cannot be read now are told with their next change.
      () => this.#noteAll([]),
    );
  }

  /** Nobody hears what it says any more. */
  close(): void {
    this.#listen(false);
    for (const wait of this.#waits.values()) wait.abort(endOfWait);
    void this.#backups.close();
  }

  /** The storage begins or ceases to accept writes. */
  tellState(fault?: FaultError): void {
    const { state } = this.#parts.broker;
    this.#out.byte(answer.state);
    this.#out.text(state);
    this.#out.text(fault?.message ?? "");
    this.#schedule();
  }

  take(message: Uint8Array): void {
    const from = new MessageReader(message);
    this.#receivedBytes = from.double();
    while (!from.isAtEnd) {
      const kind = from.byte();
      const number = from.number();
      this.#done = number;
      try {
        this.#carryOut(kind, number, from);
      } catch (error) {
        // Of what did not arrive whole nothing more can be read; a bug costs the call that it meets.
        if (error instanceof DamagedMessage) throw error;
        const isFault = error instanceof FaultError;
        if (!isFault) this.#parts.onBug(error);
        this.refuse(isFault ? error : new FaultError("storage_failed", unforeseen), number);
      }
    }
    this.#schedule();
  }

  /** Tells everything from the beginning. */
  #noteAll(storing: readonly TenantId[]): void {
    this.#isAnew = true;
    this.#storing = storing;
    this.#queues.clear();
    for (const queue of this.#parts.broker.queues.all()) this.#queues.add(queue);
    this.#schedule();
  }

  #carryOut(kind: number, number: number, from: MessageReader): void {
    const { broker } = this.#parts;
    switch (kind) {
      case call.enqueue:
        this.#enqueue(from, number);
        return;
      case call.claim: {
        const claim = new AskedClaim(readClaim(from), this, number);
        broker.claim(claim);
        if (!claim.isDecided) this.#undecided.push(claim);
        return;
      }
      case call.heartbeat: {
        const of = readOwned(from);
        broker.heartbeat(of, readHeartbeat(from), this.#extended, number);
        return;
      }
      case call.nack: {
        const of = readOwned(from);
        const request = { delaySeconds: from.double(), reason: from.text() };
        broker.nack(of, request, this.#returned, number);
        return;
      }
      case call.abandon: {
        const of = readOwned(from);
        broker.abandon(of, { interrupted: from.flag() }, this.#returned, number);
        return;
      }
      case call.submit: {
        const of = readOwned(from);
        broker.submit(of, readSubmission(from), this.#submitted, number);
        return;
      }
      case call.release:
        broker.release(readOwned(from));
        return;
      case call.get: {
        const tenantId = from.text() as TenantId;
        this.#answerLater(number, broker.get(tenantId, from.text() as TaskId), (found) => {
          this.#begin(answer.found, number);
          this.#out.flag(found !== undefined);
          if (found !== undefined) writeClaimed(this.#out, found);
        });
        return;
      }
      case call.outcome: {
        const tenantId = from.text() as TenantId;
        this.#answerLater(number, broker.outcome(tenantId, from.text() as TaskId), (found) => {
          this.#begin(answer.outcome, number);
          this.#out.flag(found !== undefined);
          if (found !== undefined) writeOutcome(this.#out, found);
        });
        return;
      }
      case call.ask: {
        const name = from.text();
        const told = this.#ask(name, from.json() as readonly unknown[], number);
        this.#answerLater(number, told, (value) => {
          this.#begin(answer.told, number);
          this.#out.text(JSON.stringify(value ?? null));
        });
        return;
      }
      case call.cancel:
        this.#waits.get(from.number())?.abort(endOfWait);
        return;
      case call.listen:
        this.#listen(from.flag());
        return;
      default:
        throw new DamagedMessage(`a shard has no call ${kind}`);
    }
  }

  #enqueue(from: MessageReader, number: number): void {
    const { broker, shard, count } = this.#parts;
    const input = readNewTask(from);
    const kind = from.byte();
    const given = kind === terms.exceeded ? from.text() : "";
    const { tenantId, idempotencyKey } = input;
    const known = idempotencyKey === "" ? undefined : this.#taskOf(tenantId, idempotencyKey);
    if (known !== undefined && shardOf(known, count) !== shard) {
      if (kind !== terms.forget) {
        this.#begin(answer.moved, number);
        this.#out.text(known);
        return;
      }
      broker.store.forgetIdempotency(tenantId, idempotencyKey);
    }
    if (kind === terms.known && known === undefined) {
      this.#begin(answer.unknownKey, number);
      return;
    }
    if (kind === terms.exceeded && known === undefined) {
      this.refuse({ code: "quota_exceeded", exceeded: JSON.parse(given) }, number);
      return;
    }
    broker.enqueue(input, this.#enqueued, number);
  }

  /** What is damaged is told by the broker. */
  #taskOf(tenantId: TenantId, key: string): TaskId | undefined {
    try {
      return this.#parts.broker.store.idempotency(tenantId, key)?.taskId;
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
    const [target, verb] = name.startsWith("webhooks.")
      ? [broker.webhooks, name.slice("webhooks.".length)]
      : [name in own ? own : broker, name];
    // The router checks names and arguments, in ShardGroup and RemoteShard. JSON has no undefined.
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

  #answerLater<T>(number: number, told: T | Promise<T>, write: (value: T) => void): void {
    const failed = (error: unknown): void => {
      const isFault = error instanceof FaultError;
      this.refuse(isFault ? error : new FaultError("storage_failed", String(error)), number);
    };
    if (told instanceof Promise) told.then(write).catch(failed);
    else write(told);
  }

  #begin(kind: number, number: number): void {
    this.#out.byte(kind);
    this.#out.number(number);
    this.#schedule();
  }

  refuse(why: Refused, number: number): void {
    this.#begin(answer.refused, number);
    writeRefused(this.#out, why);
  }

  claimed(claim: AskedClaim, tasks: readonly ClaimedTask[]): void {
    // The router believed that there is work, and has to hear that there is none.
    if (tasks.length === 0) this.#noteAsked(claim);
    this.#begin(answer.claimed, claim.number);
    this.#out.number(tasks.length);
    for (const task of tasks) writeClaimed(this.#out, task);
  }

  #noteAsked({ tenantId, queues }: AskedClaim): void {
    const known = this.#parts.broker.queues;
    for (const name of queues ?? []) this.#queues.add(known.queue(tenantId, name));
    if (queues === undefined) {
      for (const queue of known.ofTenant(tenantId)) this.#queues.add(queue);
    }
  }

  readonly #refused = (why: Refused, number: number): void => this.refuse(why, number);

  readonly #enqueued: Waiter<Enqueued> = {
    durable: ({ task, replayed }, number) => {
      this.#begin(answer.enqueued, number);
      this.#out.flag(replayed);
      this.#out.task(task);
    },
    refused: this.#refused,
  };

  readonly #extended: Waiter<Extended> = {
    durable: ({ untilMs, isCancelled }, number) => {
      this.#begin(answer.extended, number);
      this.#out.double(untilMs);
      this.#out.flag(isCancelled);
    },
    refused: this.#refused,
  };

  readonly #returned: Waiter<Returned> = {
    durable: ({ task, buried, delaySeconds }, number) => {
      this.#begin(answer.returned, number);
      this.#out.task(task);
      this.#out.flag(buried);
      this.#out.double(delaySeconds);
    },
    refused: this.#refused,
  };

  readonly #submitted: Waiter<Submitted> = {
    durable: (submitted, number) => {
      this.#begin(answer.submitted, number);
      writeSubmitted(this.#out, submitted);
    },
    refused: this.#refused,
  };

  #listen(isHeard: boolean): void {
    if (!isHeard) {
      this.#stopListening?.();
      this.#stopListening = undefined;
      return;
    }
    const hear = (event: TaskEvent): void => this.#tell(event);
    this.#stopListening ??= this.#parts.feed.listen({ tenantId: undefined, hear, end: () => {} });
  }

  #tell(event: TaskEvent): void {
    if (this.#sentBytes + this.#out.bytes - this.#receivedBytes > unreceivedBytesMax) {
      this.#missed += 1;
      return;
    }
    this.#out.byte(answer.event);
    this.#out.text(JSON.stringify(event));
    this.#schedule();
  }

  #schedule(): void {
    if (this.#isDeferred) return;
    this.#isDeferred = true;
    this.#parts.defer(this.#flush);
  }

  /** Notes stand in front of the answers: who hears of a task knows of the queue behind it, too. */
  readonly #flush = (): void => {
    this.#isDeferred = false;
    const message = new MessageWriter();
    const { isOverloaded } = this.#parts.broker;
    if (this.#undecided.length > 0) {
      this.#undecided = this.#undecided.filter(({ isDecided }) => !isDecided);
    }
    const undecided = this.#undecided.map(({ number }) => number);
    writeHead(message, { carriedOut: this.#done, undecided, isOverloaded });
    this.#writeNotes(message);
    if (this.#missed > 0) {
      message.byte(answer.missed);
      message.number(this.#missed);
      this.#missed = 0;
    }
    message.append(this.#out);
    const bytes = message.take();
    this.#sentBytes += bytes.length;
    this.#parts.send(bytes);
  };

  #writeNotes(to: MessageWriter): void {
    const { broker, isLimited } = this.#parts;
    const tenants = new Set<TenantId>(this.#storing);
    this.#storing = [];
    if (this.#isAnew) to.byte(answer.anew);
    this.#isAnew = false;
    for (const queue of this.#queues) {
      const { tenantId, name, readyTotal, topPriority } = queue;
      // Of a paused queue nothing can be claimed.
      const ready = topPriority < 0 ? 0 : readyTotal;
      if (ready > 0) this.#toldReady.add(queue);
      else this.#toldReady.delete(queue);
      to.byte(answer.hint);
      to.text(tenantId);
      to.text(name);
      to.number(ready);
      to.number(topPriority + 1);
      tenants.add(tenantId);
      if (queue.topic !== undefined) {
        to.byte(answer.leased);
        to.text(tenantId);
        to.text(name);
        to.number(queue.counts.leased);
        to.number(queue.topic.policy.maxConsumers);
      }
    }
    this.#queues.clear();
    if (!isLimited) return;
    for (const tenantId of tenants) {
      const { pending, leased } = broker.queues.tenant(tenantId);
      to.byte(answer.room);
      to.text(tenantId);
      to.number(pending);
      to.number(leased);
      to.number(broker.store.storedBytes(tenantId));
    }
  }
}

/** Whose bytes the router has to know of, though they may have no task in a queue. */
function storingTenants({ broker, isLimited }: ShardHostParts): Promise<readonly TenantId[]> {
  return isLimited ? broker.store.storingTenants() : Promise.resolve([]);
}

/** Never waits: the router keeps claims for which there is nothing. */
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
