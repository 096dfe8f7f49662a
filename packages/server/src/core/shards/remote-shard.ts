/**
 * The router's end of the connection to one shard. The calls of an event loop turn travel together. When the
 * shard ends unexpectedly, waiting callers get the fault that the outcome is unknown.
 */
import type { FaultError } from "@codeq/engine";
import type { NewTask, TaskId } from "@codeq/queue";
import type { BackupReading } from "../backup/backups.ts";
import type { ClaimRequest } from "../broker/claims/claim.ts";
import type { Answer, Given } from "../broker/routing.ts";
import type { Schedules } from "../broker/schedules.ts";
import type { ShardBroker } from "../broker/shard-broker.ts";
import type { ClaimedTask, Enqueued, Refused, TaskAndResult, Waiter } from "../broker/verbs.ts";
import type { Webhooks } from "../broker/webhooks.ts";
import type { TaskOf } from "../search/task-actions.ts";
import { ByteReader } from "../store/bytes.ts";
import { double } from "../store/codec.ts";
import type { ShardLink } from "./link.ts";
import type { HostVerbs } from "./shard-host.ts";
import {
  answers,
  byKind,
  calls,
  DamagedMessage,
  type EnqueueMode,
  firstNote,
  head,
  type Message,
  MessageWriter,
  notes,
  type ValueOf,
} from "./wire.ts";

/** A shard with more unread bytes than this is overloaded. */
const unreadBytesMax = 64 * 1024 * 1024;
/** The router acknowledges after this many bytes even if there is nothing to send. */
const unsaidBytesMax = 1024 * 1024;

/** Receives what a shard sends besides answers. */
export type ShardNotes = {
  readonly [Name in keyof typeof notes]: (value: ValueOf<(typeof notes)[Name]>) => void;
} & {
  /** The shard has ended; the outcome of calls under way is unknown. */
  down(fault: FaultError): void;
  /** A new shard has taken its place. */
  up(): void;
  /** The shard has carried out everything up to this call, and the notes so far contain it. */
  carriedOut(number: number, undecided: readonly number[]): void;
  /** A message was read completely, and all its answers were passed on. */
  heard(): void;
};

/** Also hears that the idempotency key of a new task belongs to another shard, or to no task. */
export interface EnqueueWaiter extends Waiter<Enqueued> {
  moved(id: TaskId, item: number): void;
  unknownKey(item: number): void;
}

/** What a shard answers as JSON: the verbs of its broker, of its webhooks, of its schedules, and of its host. */
type AskedVerbs = ShardBroker &
  HostVerbs & { [Name in keyof Webhooks as `webhooks.${Name}`]: Webhooks[Name] } & {
    [Name in keyof Schedules as `schedules.${Name}`]: Schedules[Name];
  };
export type AskedName = keyof AskedVerbs;

const noteNames = Object.keys(notes) as (keyof typeof notes)[];
const answersByKind = byKind(answers);

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
  /** The last call of each unread message, and the size of the message. */
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

  /** Starts to listen to the shard. */
  hear(): void {
    this.#link.onDown = (fault, meanwhile) => this.#down(fault, meanwhile ?? fault);
    this.#link.onMessage = (message) => this.#take(message);
  }

  get isOverloaded(): boolean {
    return this.#isOverloadedThere || this.#unreadBytes > unreadBytesMax;
  }

  enqueue(input: NewTask, waiter: EnqueueWaiter, item: number, mode?: EnqueueMode): number {
    return this.send(calls.enqueue, { input, mode }, waiter, item);
  }

  claim(request: ClaimRequest, waiter: Waiter<readonly ClaimedTask[]>): number {
    return this.send(calls.claim, request, waiter);
  }

  get(of: TaskOf): Promise<ClaimedTask | undefined> {
    return this.#promised((waiter) => this.send(calls.get, of, waiter));
  }

  outcome(of: TaskOf): Promise<TaskAndResult | undefined> {
    return this.#promised((waiter) => this.send(calls.outcome, of, waiter));
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
      // The reader has gone; it does not matter whether the shard has gone as well.
      if (!isOver) this.ask("endBackup", []).catch(() => {});
    }
  }

  /**
   * Calls a verb whose arguments and answer travel as JSON. `signal` ends the wait of the shard, which then
   * answers; `onCall` gets the number of the call.
   */
  ask<Name extends AskedName>(
    name: Name,
    given: Given<AskedVerbs[Name]>,
    signal?: AbortSignal | undefined,
    onCall?: (number: number) => void,
  ): Promise<Answer<AskedVerbs[Name]>> {
    return this.#promised((waiter) => {
      const number = this.send(calls.ask, { name, given }, waiter);
      if (number === 0) return;
      onCall?.(number);
      signal?.addEventListener("abort", () => this.#cancel(number), { once: true });
      if (signal?.aborted) this.#cancel(number);
    });
  }

  listen(isHeard: boolean): void {
    this.#isListening = isHeard;
    this.send(calls.listen, isHeard, undefined);
  }

  stop(): Promise<void> {
    return this.#link.stop();
  }

  #promised<T>(send: (waiter: Waiter<T>) => void): Promise<T> {
    return new Promise((resolve, reject) => send({ durable: resolve, refused: reject }));
  }

  #cancel(number: number): void {
    if (this.#waiting.has(number)) this.send(calls.cancel, number, undefined);
  }

  /** Returns the number of the call; 0 when the shard is gone and the waiter was refused. */
  send<Value>(
    message: Message<Value>,
    value: Value,
    waiter: Waiter<never> | undefined,
    item = 0,
  ): number {
    if (this.#fault !== undefined) {
      waiter?.refused(this.#fault, item);
      return 0;
    }
    this.#calls += 1;
    const number = this.#calls;
    if (waiter !== undefined) this.#waiting.set(number, { waiter, item });
    this.#out.send(message, number, value);
    this.#schedule();
    return number;
  }

  #begin(): void {
    this.#out.put(double, this.#received);
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
    const from = ByteReader.of(message);
    const { carriedOut, undecided, isOverloaded } = head.read(from);
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
      const note = noteNames[kind - firstNote];
      if (note === undefined && !isNoted) {
        // Notes come before answers, so all notes have been read now.
        this.#notes.carriedOut(carriedOut, undecided);
        isNoted = true;
      }
      if (note !== undefined) this.#notes[note](notes[note].read(from) as never);
      else runCollecting(bugs, this.#read(kind, from));
    }
    if (!isNoted) this.#notes.carriedOut(carriedOut, undecided);
    this.#notes.heard();
    // Thrown after all others were answered, so that a bug of one caller does not affect the others.
    if (bugs.length > 0) throw bugs[0];
  }

  /** Reads an answer; returns the call of its waiter. */
  #read(kind: number, from: ByteReader): () => void {
    const number = from.number();
    const waiting = this.#waiting.get(number);
    this.#waiting.delete(number);
    const waiter = waiting?.waiter as unknown as Waiter<unknown> | undefined;
    const item = waiting?.item ?? 0;
    const found = answersByKind.get(kind);
    if (found === undefined) throw new DamagedMessage(`a shard has no answer ${kind}`);
    const value = found.read(from);
    switch (found) {
      case answers.refused:
        return () => waiter?.refused(value as Refused, item);
      case answers.moved:
        return () => (waiter as EnqueueWaiter | undefined)?.moved(value as TaskId, item);
      case answers.unknownKey:
        return () => (waiter as EnqueueWaiter | undefined)?.unknownKey(item);
      default:
        return () => waiter?.durable(value, item);
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

  /** A new shard has taken the place of the one that ended; it has none of the calls. */
  #up(): void {
    this.#fault = undefined;
    this.#calls = 0;
    this.#received = 0;
    this.#begin();
    this.#notes.up();
    if (this.#isListening) this.listen(true);
  }
}

function runCollecting(bugs: unknown[], run: () => void): void {
  try {
    run();
  } catch (error) {
    bugs.push(error);
  }
}
