/**
 * The log of a node that leads: a `Log` for its engine, kept in the shared log.
 *
 * - A record is acknowledged when a quorum of the log servers has synced it, and every record before it.
 * - When it is unknown whether a record was kept, the same bytes are sent again for the same slot until
 *   it is known. Nothing else is written meanwhile.
 * - When another node has taken over, a record that was not kept never will be: it is refused with
 *   `not_leader`, and so is everything after it.
 * - One append at a time, heartbeats included.
 *
 * States: leading; lost (deposed, diverged or given up), which is final.
 */
import assert from "node:assert/strict";
import type { EngineClock } from "../../engine-options.ts";
import { FaultError } from "../../fault.ts";
import {
  type Appended,
  type Frame,
  headerBytes,
  type Log,
  type LogRecord,
  recordTypes,
} from "../log.ts";
import { trimmed } from "../log-fault.ts";
import { type Appending, type SharedLog, sharedRecordTypes } from "./shared-log.ts";
import { type LogPosition, positionText, readSlot, stamp } from "./slot-rules.ts";

export interface LeaderLogParts {
  readonly shared: SharedLog;
  /** The position after the takeover of this node. */
  readonly position: LogPosition;
  readonly shard: number;
  readonly clock: EngineClock;
  /** How long after a record that was kept no other node can have taken over. */
  readonly leaseMs: number;
  /** After this time without a record that was kept, callers stop waiting. */
  readonly stuckMs: number;
  /** An idle log gets a heartbeat after this time; a busy log after `busyBeats` times as long. */
  readonly beatMs: number;
  /** The content of every heartbeat: who leads, for nodes that have not read the takeover. */
  readonly beat: Buffer;
}

/** Why a node leads no longer. */
export type Lost = "deposed" | "diverged" | "given up";

const retryMinMs = 20;
/** Less than the grace of candidates, so that a leader that was cut off goes on first. */
const retryMaxMs = 100;
/** How long a log server may be behind one that has refused an append. */
const shorterMs = 5000;
/** A full log takes records again when this part of it is free, so that it does not fill up at once. */
const freeShare = 1 / 16;
/** No more records are kept for the next backup: their positions take memory, and the log has a limit. */
const heldRecordsMax = 50_000;
const heldBytesMax = 64 * 1024 * 1024;
/** A busy log gets a heartbeat this many times less often than an idle one. */
const busyBeats = 4;
const gatherMs = 1;
/** The shortest time between two notices to the other nodes, which then read all new records together. */
const noticeGapMs = 50;

interface KeptRecord {
  readonly position: LogPosition;
  /** Bytes of the log up to this record, since it was opened, heartbeats included. */
  readonly endBytes: number;
}

export class LeaderLog implements Log {
  readonly gatherMs: number = gatherMs;
  /** Resolves when this node leads no longer. */
  readonly lost: Promise<Lost>;
  readonly #parts: LeaderLogParts;
  readonly #writer: number;
  readonly #epoch: number;
  /** Oldest first; the engine may begin at the first one. */
  readonly #kept: KeptRecord[];
  #position: LogPosition;
  /** Bytes of the log since it was opened. */
  #bytes = 0;
  #leaseUntilMs: number;
  #isWorking = false;
  #pending: { readonly frame: Frame; readonly appended: Appended } | undefined;
  #fault: FaultError | undefined;
  #lose: (why: Lost) => void = () => {};
  #cancelBeat: () => void = () => {};
  #isStuck = false;
  #cancelWatch: () => void = () => {};
  #beatMs = Number.NEGATIVE_INFINITY;
  #isClosed = false;
  #durableSlot = 0;
  #problem: string | undefined;
  #isFull = false;
  #hasNotified = false;

  constructor(parts: LeaderLogParts) {
    this.#parts = parts;
    this.#position = parts.position;
    this.#writer = parts.position.writer;
    this.#epoch = parts.position.epoch;
    this.#kept = [{ position: parts.position, endBytes: 0 }];
    // The takeover may have been kept long before it was read.
    this.#leaseUntilMs = 0;
    this.lost = new Promise((resolve) => {
      this.#lose = resolve;
    });
    this.#planBeat(0);
    this.#watch(parts.stuckMs);
  }

  get position(): LogPosition {
    return this.#position;
  }

  /** When the newest record that the log has kept was sent. */
  get keptMs(): number {
    return this.#leaseUntilMs - this.#parts.leaseMs;
  }

  /** Whether no other node can lead now. While this is false, no reads may be answered. */
  get isSure(): boolean {
    return this.#fault === undefined && this.#parts.clock.monotonicMs() < this.#leaseUntilMs;
  }

  /** Why nothing is written, while the log servers do not take it. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** Whether the log servers refused a record for lack of room, and too little was trimmed since. */
  get isFull(): boolean {
    return this.#isFull;
  }

  /** Whether the log is too long to be kept only for a backup. */
  get holdsMuch(): boolean {
    return this.#isFull || this.#kept.length > heldRecordsMax || this.bytes > heldBytesMax;
  }

  /** Called whenever `isSure` may have become true. */
  onSure: () => void = () => {};
  /** Called when the log begins to be stuck. */
  onStuck: () => void = () => {};

  /** Whether the log has kept nothing for so long that another node probably leads, or no node can. */
  get isStuck(): boolean {
    return this.#isStuck;
  }

  get firstIndex(): number {
    return (this.#kept[0] as KeptRecord).position.index + 1;
  }

  get lastIndex(): number {
    return (this.#kept.at(-1) as KeptRecord).position.index;
  }

  get bytes(): number {
    return this.#bytes - (this.#kept[0] as KeptRecord).endBytes;
  }

  get canAppend(): boolean {
    return this.#pending === undefined;
  }

  append(frame: Frame, appended: Appended): void {
    assert(this.canAppend, "append is called only when it can be");
    this.#pending = { frame, appended };
    void this.#work();
  }

  positionOf(index: number): string {
    return positionText(this.#keptAt(index).position);
  }

  async sync(): Promise<void> {
    // Acknowledged records were synced by a quorum.
  }

  readFrom(index: number): AsyncIterable<LogRecord> {
    return this.#read(index, this.lastIndex);
  }

  async trim(index: number): Promise<void> {
    const keep = Math.min(index - 1, this.lastIndex);
    const removed = keep - (this.#kept[0] as KeptRecord).position.index;
    if (removed <= 0) return;
    this.#kept.splice(0, removed);
    this.#durableSlot = (this.#kept[0] as KeptRecord).position.slot;
  }

  /** The slot up to which the kv of the leader is durable; 0 until it is known. */
  get durableSlot(): number {
    return this.#durableSlot;
  }

  /** Ends the leadership from this side; appends under way are refused as unknown. */
  giveUp(why: string): void {
    this.#losing("given up", new FaultError("unknown", why));
  }

  /** Writes that this node leads no longer, so that the others need not wait, and which node should, if any. */
  handOff(to?: string): Promise<void> {
    return this.#finish(sharedRecordTypes.handoff, to ?? "");
  }

  /** Writes the last record of the log: from now on, no node leads. */
  end(): Promise<void> {
    return this.#finish(sharedRecordTypes.end, "");
  }

  async #finish(type: number, text: string): Promise<void> {
    while (this.#isWorking && this.#fault === undefined) await this.#pause(retryMinMs);
    if (this.#fault !== undefined) return;
    this.#isWorking = true;
    const body = Buffer.from(text);
    await this.#put({ type, timeMs: this.#parts.clock.nowMs(), opCount: 0, body });
    // Notify now, because this node may end before the next notice.
    this.#parts.shared.notify();
    this.#isWorking = false;
    this.#losing("given up", new FaultError("not_leader", "this node has handed over"));
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelBeat();
    this.#cancelWatch();
  }

  async #work(): Promise<void> {
    if (this.#isWorking) return;
    this.#isWorking = true;
    while (this.#pending !== undefined) {
      const { frame, appended } = this.#pending;
      const fault = await this.#append(frame);
      this.#pending = undefined;
      appended(fault, this.lastIndex + (fault === undefined ? 0 : 1));
      await this.#beatWhenBusy();
    }
    this.#isWorking = false;
    this.#planBeat();
  }

  async #append(frame: Frame): Promise<FaultError | undefined> {
    const { buffer, bodyBytes, type, timeMs, opCount } = frame;
    const { recordBytesMax } = this.#parts.shared;
    if (headerBytes + bodyBytes > recordBytesMax) {
      const text = `a record of ${bodyBytes} bytes is more than the log servers take`;
      const todo = "start every etcd with --max-request-bytes=9437184";
      return new FaultError("disk_full", `${text} (${recordBytesMax}); ${todo}`);
    }
    const body = buffer.subarray(headerBytes, headerBytes + bodyBytes);
    return await this.#put({ type, timeMs, opCount, body });
  }

  /** Writes one record; resolves when it is known to be kept, or never to be. */
  async #put(what: {
    readonly type: number;
    readonly timeMs: number;
    readonly opCount: number;
    readonly body: Buffer;
  }): Promise<FaultError | undefined> {
    const { shard, clock } = this.#parts;
    const record = { ...what, shard, epoch: this.#epoch, writer: this.#writer };
    // Runs after the caller has returned.
    await Promise.resolve();
    for (;;) {
      if (this.#fault !== undefined) return this.#fault;
      const bytes = stamp(record, this.#position);
      const sentMs = clock.monotonicMs();
      const outcome = await this.#sendUntilKnown(bytes);
      if (this.#fault !== undefined) return this.#fault;
      if (outcome.kind === "full") return this.#full(outcome.why);
      const taken = outcome.kind === "kept" ? bytes : await this.#readTaken();
      if (taken === undefined) return this.#fault;
      if (bytes.equals(taken)) {
        this.#keep(bytes, sentMs);
        return undefined;
      }
      if (!this.#passOver(taken)) return this.#fault;
    }
  }

  async #sendUntilKnown(bytes: Buffer): Promise<Appending> {
    let retryMs = retryMinMs;
    let isRepeat = false;
    for (;;) {
      const outcome = await this.#parts.shared.append(bytes, this.#position.slot + 1);
      if (outcome.kind === "lost") {
        this.#losing("diverged", new FaultError("unknown", outcome.why));
      }
      // An earlier copy of these bytes may still be kept, as soon as there is room.
      const isKnown = outcome.kind !== "unknown" && !(outcome.kind === "full" && isRepeat);
      if (isKnown || this.#fault !== undefined) return outcome;
      isRepeat = true;
      this.#problem =
        `the log servers do not answer: ${outcome.why}. Changes wait; nothing is lost. ` +
        "Check that a majority of the log servers is up.";
      await this.#pause(retryMs);
      if (this.#fault !== undefined) return outcome;
      retryMs = Math.min(retryMs * 2, retryMaxMs);
    }
  }

  #full(why: string): FaultError {
    this.#isFull = true;
    this.#problem =
      `the log of this shard is full: ${why}. Start the nodes that are down, so that the log can be trimmed, ` +
      "or raise clusterLogBytes on every node.";
    return new FaultError("disk_full", this.#problem);
  }

  /** Another record is in the slot; true when it is a dead record. */
  #passOver(taken: Uint8Array): boolean {
    const { meaning, position } = readSlot(this.#position, taken);
    if (meaning.kind === "dead") {
      this.#position = position;
      return true;
    }
    if (meaning.kind === "live" && meaning.header.writer === this.#writer) {
      // Its caller got a refusal. As a record of the log it does no harm.
      const why = "a record that the log had refused was kept after all";
      this.#losing("given up", new FaultError("unknown", why));
    } else if (meaning.kind === "live" && meaning.header.type === sharedRecordTypes.takeover) {
      this.#losing("deposed", new FaultError("not_leader", "another node has taken over"));
    } else {
      const why = meaning.kind === "diverged" ? meaning.why : "somebody else writes as this node";
      this.#losing("diverged", new FaultError("unknown", why));
    }
    return false;
  }

  /** The record in the slot that was wanted; undefined when the leadership has ended. */
  async #readTaken(): Promise<Uint8Array | undefined> {
    const { shared, clock } = this.#parts;
    const startedMs = clock.monotonicMs();
    while (this.#fault === undefined) {
      try {
        const [found] = await shared.read(this.#position.slot + 1);
        if (found !== undefined) return found;
        if (clock.monotonicMs() - startedMs > shorterMs) {
          const { last } = await shared.bounds();
          if (last < this.#position.slot) {
            const why = `the log ends at slot ${last}, before ${this.#position.slot}`;
            this.#losing("diverged", new FaultError("unknown", why));
          }
        }
      } catch (error) {
        // The slot was trimmed, so its record cannot be known any more.
        if ((error as FaultError).code === "behind") this.#passed();
        // Otherwise the log servers do not answer now; wait for them.
      }
      if (this.#fault === undefined) await this.#pause(retryMinMs);
    }
    return undefined;
  }

  /** Other nodes have trimmed a log that was full, or go on with it. */
  #passed(): void {
    const why = "the log has gone on without this node";
    this.#losing("deposed", new FaultError("unknown", why));
  }

  #keep(bytes: Buffer, sentMs: number): void {
    const before = this.#position;
    this.#position = readSlot(before, bytes).position;
    this.#bytes += bytes.length;
    // The other nodes look for heartbeats by themselves.
    if (this.#position.index > before.index) {
      this.#kept.push({ position: this.#position, endBytes: this.#bytes });
      this.#notify();
    }
    this.#leaseUntilMs = sentMs + this.#parts.leaseMs;
    this.#isStuck = false;
    // The last bytes of a full log still take heartbeats.
    if (!this.#isFull) this.#problem = undefined;
    this.onSure();
  }

  #notify(): void {
    if (this.#hasNotified) return;
    this.#hasNotified = true;
    this.#parts.shared.notify();
    const { index } = this.#position;
    void this.#parts.clock.after(noticeGapMs, () => {
      this.#hasNotified = false;
      if (this.#position.index !== index) this.#notify();
    });
  }

  #watch(afterMs: number): void {
    const { clock, stuckMs } = this.#parts;
    this.#cancelWatch = clock.after(afterMs, () => {
      const leftMs = this.keptMs + stuckMs - clock.monotonicMs();
      if (leftMs <= 0 && !this.#isStuck) {
        this.#isStuck = true;
        this.onStuck();
      }
      this.#watch(leftMs > 0 ? leftMs : stuckMs);
    });
  }

  #planBeat(afterMs: number = this.#parts.beatMs): void {
    this.#cancelBeat();
    if (this.#isClosed || this.#fault !== undefined) return;
    this.#cancelBeat = this.#parts.clock.after(afterMs, () => void this.#beat());
  }

  async #beat(): Promise<void> {
    if (this.#isWorking || this.#isClosed || this.#fault !== undefined) return;
    this.#isWorking = true;
    await this.#putBeat();
    this.#isWorking = false;
    const { clock, beatMs } = this.#parts;
    const leftMs = this.#beatMs + beatMs - clock.monotonicMs();
    // The others take a heartbeat that is late for the last one of a leader that is gone.
    if (this.#pending === undefined) this.#planBeat(Math.max(0, leftMs));
    else void this.#work();
  }

  async #beatWhenBusy(): Promise<void> {
    if (this.#parts.clock.monotonicMs() - this.#beatMs < this.#parts.beatMs * busyBeats) return;
    if (this.#fault === undefined) await this.#putBeat();
  }

  async #putBeat(): Promise<void> {
    const { clock, beat } = this.#parts;
    this.#beatMs = clock.monotonicMs();
    const timeMs = clock.nowMs();
    await this.#put({ type: sharedRecordTypes.heartbeat, timeMs, opCount: 0, body: beat });
    if (this.#isFull) await this.#lookForSpace();
  }

  async #lookForSpace(): Promise<void> {
    try {
      const { freeBytes, bytesMax } = await this.#parts.shared.space();
      if (freeBytes < bytesMax * freeShare) return;
      this.#isFull = false;
      this.#problem = undefined;
    } catch {
      // The request is repeated with the next heartbeat.
    }
  }

  #losing(why: Lost, fault: FaultError): void {
    if (this.#fault !== undefined) return;
    this.#fault = fault;
    this.#cancelBeat();
    this.#lose(why);
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#parts.clock.after(ms, resolve));
  }

  #keptAt(index: number): KeptRecord {
    const first = (this.#kept[0] as KeptRecord).position.index;
    const found = this.#kept[index - first];
    if (found === undefined) throw trimmed(index, first + 1);
    return found;
  }

  /** Asks again until the log servers answer: their records are needed, and may be nowhere else. */
  async #readAnswered(slot: number): Promise<readonly Uint8Array[]> {
    for (;;) {
      try {
        return await this.#parts.shared.read(slot);
      } catch (error) {
        if ((error as FaultError).code === "behind") this.#passed();
        if (this.#fault !== undefined) throw this.#fault;
        if (this.#isClosed || (error as FaultError).code !== "storage_failed") throw error;
        await this.#pause(retryMaxMs);
      }
    }
  }

  async *#read(from: number, last: number): AsyncGenerator<LogRecord, void, void> {
    let { position } = this.#keptAt(from - 1);
    while (position.index < last) {
      for (const bytes of await this.#readAnswered(position.slot + 1)) {
        const reading = readSlot(position, bytes);
        const { meaning } = reading;
        if (meaning.kind === "diverged") throw new FaultError("corrupt", meaning.why);
        position = reading.position;
        if (meaning.kind !== "live" || meaning.header.type !== recordTypes.batches) continue;
        const { type, shard, epoch, writer, timeMs, opCount } = meaning.header;
        const { index } = position;
        yield { index, type, shard, epoch, writer, timeMs, opCount, body: meaning.body };
        if (index >= last) return;
      }
    }
  }
}
