/**
 * The router's end of the connection to one shard. The calls of an event loop turn travel together. When the
 * shard ends unexpectedly, waiting callers are told that the outcome is unknown.
 */
import { type EngineState, FaultError } from "@codeq/engine";
import type { NackRequest, NewTask, Returned, Submission, TaskId, TenantId } from "@codeq/queue";
import type { Exceeded } from "../../config/quotas.ts";
import type { TaskEvent } from "../../telemetry/feed.ts";
import type { BackupReading } from "../backup/backups.ts";
import type { Broker } from "../broker/broker.ts";
import type { ClaimRequest } from "../broker/claim.ts";
import type { AbandonRequest, Extended, Heartbeat } from "../broker/queue.ts";
import type { EndpointChange } from "../broker/queue-webhooks.ts";
import type { Answer, Given } from "../broker/routing.ts";
import type {
  ClaimedTask,
  Enqueued,
  OwnedTask,
  Refused,
  Submitted,
  TaskOutcome,
  Waiter,
} from "../broker/verbs.ts";
import type { Webhooks } from "../broker/webhooks.ts";
import type { ShardLink } from "./link.ts";
import { DamagedMessage, MessageReader, MessageWriter } from "./message.ts";
import type { HostVerbs } from "./shard-host.ts";
import {
  answer,
  call,
  readClaimed,
  readHead,
  readOutcome,
  readRefused,
  readSubmitted,
  terms,
  writeClaim,
  writeHeartbeat,
  writeNewTask,
  writeOwned,
  writeSubmission,
} from "./wire.ts";

/** What a shard that is behind may have in front of it. */
const unreadBytesMax = 64 * 1024 * 1024;
/** Received so much without having had anything to say, the router says so. */
const unsaidBytesMax = 1024 * 1024;

/** What is heard from a shard besides answers. */
export interface ShardNotes {
  /** So many tasks of a queue are ready; the highest priority among them, -1 for none. */
  hint(tenantId: TenantId, queue: string, ready: number, topPriority: number): void;
  room(tenantId: TenantId, room: { pending: number; leased: number; storedBytes: number }): void;
  event(event: TaskEvent): void;
  missed(events: number): void;
  endpoint(change: EndpointChange): void;
  state(state: EngineState, fault: FaultError | undefined): void;
  /** It has ended: what becomes of the calls to it is unknown. */
  down(fault: FaultError): void;
  /** How many leases a queue with a topic has there, and may have in all; 0 for any number. */
  leased(tenantId: TenantId, queue: string, leased: number, max: number): void;
  /** A new one is there in its place. */
  up(): void;
  /** All that was heard before of queues and tenants is void. */
  anew(): void;
  /** Everything up to this call was carried out, and what was heard tells of it. */
  carriedOut(number: number, undecided: readonly number[]): void;
  /** All of a message was heard, and everybody has been answered. */
  heard(): void;
}

/** How a new task is to be taken, if it is not simply to be created. */
export type NewTaskTerms =
  | { readonly kind: "exceeded"; readonly exceeded: Exceeded }
  | { readonly kind: "known" }
  | { readonly kind: "forget" };

/** The key of a new task leads to another shard, or to nothing. */
export interface EnqueueWaiter extends Waiter<Enqueued> {
  moved(id: TaskId, item: number): void;
  unknownKey(item: number): void;
}

/** What a shard answers as JSON: the verbs of its broker, of its callbacks, and of its host. */
type AskedVerbs = Broker &
  HostVerbs & { [Name in keyof Webhooks as `webhooks.${Name}`]: Webhooks[Name] };
export type AskedName = keyof AskedVerbs;

interface Waiting {
  readonly waiter: Waiter<never>;
  readonly item: number;
}

export class RemoteShard {
  readonly number: number;
  readonly #link: ShardLink;
  readonly #notes: ShardNotes;
  readonly #defer: (run: () => void) => void;
  readonly #out: MessageWriter = new MessageWriter();
  readonly #waiting: Map<number, Waiting> = new Map();
  /** The last call of each message under way, and its size. */
  #unread: { readonly last: number; readonly bytes: number }[] = [];
  #unreadBytes = 0;
  #calls = 0;
  #received = 0;
  #unsaid = 0;
  #isDeferred = false;
  #isOverloadedThere = false;
  #isListening = false;
  #fault: FaultError | undefined;

  constructor(parts: {
    readonly number: number;
    readonly link: ShardLink;
    readonly notes: ShardNotes;
    readonly defer: (run: () => void) => void;
  }) {
    this.number = parts.number;
    this.#link = parts.link;
    this.#notes = parts.notes;
    this.#defer = parts.defer;
    this.#begin();
  }

  /** From now on what the shard says is heard. */
  hear(): void {
    this.#link.onDown = (fault, meanwhile) => this.#down(fault, meanwhile ?? fault);
    this.#link.onMessage = (message) => this.#take(message);
  }

  get isOverloaded(): boolean {
    return this.#isOverloadedThere || this.#unreadBytes > unreadBytesMax;
  }

  /** Returns the number of the call. */
  enqueue(input: NewTask, waiter: EnqueueWaiter, item: number, on?: NewTaskTerms): number {
    const number = this.#call(call.enqueue, waiter, item);
    if (number === 0) return 0;
    writeNewTask(this.#out, input);
    this.#out.byte(on === undefined ? terms.none : terms[on.kind]);
    if (on?.kind === "exceeded") this.#out.text(JSON.stringify(on.exceeded));
    return number;
  }

  claim(request: ClaimRequest, waiter: Waiter<readonly ClaimedTask[]>): number {
    const number = this.#call(call.claim, waiter, 0);
    if (number !== 0) writeClaim(this.#out, request);
    return number;
  }

  heartbeat(of: OwnedTask, beat: Heartbeat, waiter: Waiter<Extended>, item: number): void {
    if (this.#call(call.heartbeat, waiter, item) === 0) return;
    writeOwned(this.#out, of);
    writeHeartbeat(this.#out, beat);
  }

  nack(of: OwnedTask, request: NackRequest, waiter: Waiter<Returned>, item: number): void {
    if (this.#call(call.nack, waiter, item) === 0) return;
    writeOwned(this.#out, of);
    this.#out.double(request.delaySeconds);
    this.#out.text(request.reason);
  }

  abandon(of: OwnedTask, request: AbandonRequest, waiter: Waiter<Returned>, item: number): void {
    if (this.#call(call.abandon, waiter, item) === 0) return;
    writeOwned(this.#out, of);
    this.#out.flag(request.interrupted);
  }

  submit(of: OwnedTask, submission: Submission, waiter: Waiter<Submitted>, item: number): void {
    if (this.#call(call.submit, waiter, item) === 0) return;
    writeOwned(this.#out, of);
    writeSubmission(this.#out, submission);
  }

  release(of: OwnedTask): void {
    if (this.#call(call.release, undefined, 0) !== 0) writeOwned(this.#out, of);
  }

  get(tenantId: TenantId, id: TaskId): Promise<ClaimedTask | undefined> {
    return this.#promised(call.get, () => {
      this.#out.text(tenantId);
      this.#out.text(id);
    });
  }

  outcome(tenantId: TenantId, id: TaskId): Promise<TaskOutcome | undefined> {
    return this.#promised(call.outcome, () => {
      this.#out.text(tenantId);
      this.#out.text(id);
    });
  }

  async *readBackup({ reader, since }: BackupReading): AsyncGenerator<Buffer> {
    const store = `shard-${this.number}`;
    const wanted = { store, since: since[store] };
    let isOver = false;
    try {
      for (let pieces = 0; ; pieces += 1) {
        const piece = await this.ask("backupPiece", [reader, wanted, pieces]);
        isOver = piece === undefined;
        if (piece === undefined) return;
        yield Buffer.from(piece, "base64");
      }
    } finally {
      // Its reader has gone; that the shard has as well does not matter.
      if (!isOver) this.ask("endBackup", []).catch(() => {});
    }
  }

  /**
   * Asks what travels as JSON. `signal` ends the waiting, not the answer; `onCall` hears the number of
   * the call.
   */
  ask<Name extends AskedName>(
    name: Name,
    given: Given<AskedVerbs[Name]>,
    signal?: AbortSignal | undefined,
    onCall?: (number: number) => void,
  ): Promise<Answer<AskedVerbs[Name]>> {
    return this.#promised(call.ask, (number) => {
      onCall?.(number);
      this.#out.text(name);
      this.#out.text(JSON.stringify(given));
      signal?.addEventListener("abort", () => this.#cancel(number), { once: true });
      if (signal?.aborted) this.#cancel(number);
    });
  }

  listen(isHeard: boolean): void {
    this.#isListening = isHeard;
    if (this.#call(call.listen, undefined, 0) !== 0) this.#out.flag(isHeard);
  }

  stop(): Promise<void> {
    return this.#link.stop();
  }

  #promised<T>(kind: number, write: (number: number) => void): Promise<T> {
    return new Promise((resolve, reject) => {
      const waiter: Waiter<T> = { durable: resolve, refused: reject };
      const number = this.#call(kind, waiter, 0);
      if (number !== 0) write(number);
    });
  }

  #cancel(number: number): void {
    if (!this.#waiting.has(number)) return;
    if (this.#call(call.cancel, undefined, 0) !== 0) this.#out.number(number);
  }

  /** Begins a call; 0 when the shard is gone, which the waiter has heard then. */
  #call(kind: number, waiter: Waiter<never> | undefined, item: number): number {
    if (this.#fault !== undefined) {
      waiter?.refused(this.#fault, item);
      return 0;
    }
    this.#calls += 1;
    const number = this.#calls;
    if (waiter !== undefined) this.#waiting.set(number, { waiter, item });
    this.#out.byte(kind);
    this.#out.number(number);
    this.#schedule();
    return number;
  }

  #begin(): void {
    this.#out.double(this.#received);
    this.#unsaid = 0;
  }

  #schedule(): void {
    if (this.#isDeferred) return;
    this.#isDeferred = true;
    this.#defer(this.#flush);
  }

  readonly #flush = (): void => {
    this.#isDeferred = false;
    if (this.#fault !== undefined) return;
    const message = this.#out.take();
    this.#begin();
    this.#unread.push({ last: this.#calls, bytes: message.length });
    this.#unreadBytes += message.length;
    this.#link.send(message);
  };

  #take(message: Uint8Array): void {
    if (this.#fault !== undefined) this.#up();
    const from = new MessageReader(message);
    const { carriedOut, undecided, isOverloaded } = readHead(from);
    this.#isOverloadedThere = isOverloaded;
    this.#received += message.length;
    this.#unsaid += message.length;
    if (this.#unsaid > unsaidBytesMax) this.#schedule();
    let done = 0;
    while ((this.#unread[done]?.last ?? Number.POSITIVE_INFINITY) <= carriedOut) {
      this.#unreadBytes -= this.#unread[done]?.bytes ?? 0;
      done += 1;
    }
    if (done > 0) this.#unread = this.#unread.slice(done);
    const bugs: unknown[] = [];
    let isNoted = false;
    while (!from.isAtEnd) {
      const kind = from.byte();
      if (kind < answer.hint && !isNoted) {
        // The notes stand in front: now all that belongs together is known.
        this.#notes.carriedOut(carriedOut, undecided);
        isNoted = true;
      }
      if (kind >= answer.hint) this.#note(kind, from);
      else this.#tell(this.#read(kind, from), bugs);
    }
    if (!isNoted) this.#notes.carriedOut(carriedOut, undecided);
    this.#notes.heard();
    // After all others were told: what one of them did wrong is not theirs.
    if (bugs.length > 0) throw bugs[0];
  }

  #tell(tell: () => void, bugs: unknown[]): void {
    try {
      tell();
    } catch (error) {
      bugs.push(error);
    }
  }

  /** Reads an answer; returns how to tell it to who waits. */
  #read(kind: number, from: MessageReader): () => void {
    const number = from.number();
    const waiting = this.#waiting.get(number);
    this.#waiting.delete(number);
    const waiter = waiting?.waiter as unknown as Waiter<unknown> | undefined;
    const item = waiting?.item ?? 0;
    switch (kind) {
      case answer.enqueued: {
        const replayed = from.flag();
        const enqueued: Enqueued = { task: from.task(), replayed };
        return () => waiter?.durable(enqueued, item);
      }
      case answer.claimed: {
        const tasks: ClaimedTask[] = [];
        for (let left = from.number(); left > 0; left--) tasks.push(readClaimed(from));
        return () => waiter?.durable(tasks, item);
      }
      case answer.extended: {
        const untilMs = from.double();
        const extended: Extended = { untilMs, isCancelled: from.flag() };
        return () => waiter?.durable(extended, item);
      }
      case answer.returned: {
        const task = from.task();
        const buried = from.flag();
        const returned: Returned = { task, buried, delaySeconds: from.double() };
        return () => waiter?.durable(returned, item);
      }
      case answer.submitted: {
        const submitted = readSubmitted(from);
        return () => waiter?.durable(submitted, item);
      }
      case answer.refused: {
        const why = readRefused(from);
        return () => waiter?.refused(why, item);
      }
      case answer.found: {
        const found = from.flag() ? readClaimed(from) : undefined;
        return () => waiter?.durable(found, item);
      }
      case answer.outcome: {
        const outcome = from.flag() ? readOutcome(from) : undefined;
        return () => waiter?.durable(outcome, item);
      }
      case answer.told: {
        // The host sends null in place of undefined, which JSON lacks.
        const told = from.json() ?? undefined;
        return () => waiter?.durable(told, item);
      }
      case answer.moved: {
        const id = from.text() as TaskId;
        return () => (waiter as EnqueueWaiter | undefined)?.moved(id, item);
      }
      case answer.unknownKey:
        return () => (waiter as EnqueueWaiter | undefined)?.unknownKey(item);
      default:
        throw new DamagedMessage(`a shard has no answer ${kind}`);
    }
  }

  #note(kind: number, from: MessageReader): void {
    switch (kind) {
      case answer.hint: {
        const tenantId = from.text() as TenantId;
        const queue = from.text();
        const ready = from.number();
        this.#notes.hint(tenantId, queue, ready, from.number() - 1);
        return;
      }
      case answer.leased: {
        const tenantId = from.text() as TenantId;
        const queue = from.text();
        const leased = from.number();
        this.#notes.leased(tenantId, queue, leased, from.number());
        return;
      }
      case answer.room: {
        const tenantId = from.text() as TenantId;
        const pending = from.number();
        const leased = from.number();
        this.#notes.room(tenantId, { pending, leased, storedBytes: from.number() });
        return;
      }
      case answer.event:
        this.#notes.event(from.json() as TaskEvent);
        return;
      case answer.missed:
        this.#notes.missed(from.number());
        return;
      case answer.endpoint:
        this.#notes.endpoint(from.json() as EndpointChange);
        return;
      case answer.anew:
        this.#notes.anew();
        return;
      case answer.state: {
        const state = from.text() as EngineState;
        const message = from.text();
        const fault = message === "" ? undefined : new FaultError("storage_failed", message);
        this.#notes.state(state, fault);
        return;
      }
      default:
        throw new Error(`a shard has no note ${kind}`);
    }
  }

  #down(fault: FaultError, meanwhile: FaultError): void {
    if (this.#fault !== undefined) return;
    this.#fault = meanwhile;
    this.#out.take();
    this.#unread = [];
    this.#unreadBytes = 0;
    this.#isOverloadedThere = false;
    this.#notes.down(meanwhile);
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const { waiter, item } of waiting) waiter.refused(fault as Refused, item);
  }

  /** A new shard speaks in place of the one that ended; it knows of none of the calls. */
  #up(): void {
    this.#fault = undefined;
    this.#calls = 0;
    this.#received = 0;
    this.#begin();
    this.#notes.up();
    if (this.#isListening) this.listen(true);
  }
}
