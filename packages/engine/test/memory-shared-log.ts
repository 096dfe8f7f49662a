/**
 * The shared log in memory. Nodes of one process open handles to it; a handle can be made to lose
 * answers, to delay and to be cut off, as the network between a node and its log servers does.
 */

import { FaultError } from "../src/fault.ts";
import { behind, closed } from "../src/log/log-fault.ts";
import { decodeHeader } from "../src/log/record.ts";
import {
  type Appending,
  type LogBounds,
  type LogSpace,
  type SharedLog,
  sharedRecordTypes,
} from "../src/log/replicated/shared-log.ts";

/** Records that one `read` answers with. */
const readMax = 64;
const recordBytesMax = 8 * 1024 * 1024;

/** What the log servers of all nodes hold. */
export class MemoryLogServer {
  readonly logId: number;
  /** Takes no more bytes than this. */
  bytesMax: number = Number.POSITIVE_INFINITY;
  /**
   * Whether a record that comes too late is kept all the same, somewhere behind the takeover that has its slot.
   * JetStream did so to a writer with several appends under way; readers have to pass over such a record.
   */
  slips: () => boolean = () => false;
  /** How many of the newest records the server that answers a read does not have yet. */
  lag: () => number = () => 0;
  readonly #records: Uint8Array[] = [];
  #trimmed = 0;
  readonly #handles: Set<MemorySharedLog> = new Set();

  constructor(logId: number) {
    this.logId = logId;
  }

  /** A node begins to use the log; what it asks travels as `way` says. */
  connect(way: Way = straightWay): MemorySharedLog {
    const handle = new MemorySharedLog(this, way);
    this.#handles.add(handle);
    return handle;
  }

  disconnect(handle: MemorySharedLog): void {
    this.#handles.delete(handle);
  }

  get bounds(): LogBounds {
    return { first: this.#trimmed + 1, last: this.#trimmed + this.#records.length };
  }

  get space(): LogSpace {
    const { bytesMax } = this;
    return { freeBytes: Math.max(0, bytesMax - this.bytes), bytesMax };
  }

  get bytes(): number {
    return this.#records.reduce((sum, { length }) => sum + length, 0);
  }

  append(record: Uint8Array, slot: number): Appending {
    const { last } = this.bounds;
    if (slot === last + 1) return this.force(record);
    if (slot > last + 1) return { kind: "lost", why: `the log ends at slot ${last}` };
    if (!this.slips() || !this.#isDeposed(record, slot)) return { kind: "fenced" };
    this.force(record);
    return { kind: "unknown", why: `it was kept in slot ${last + 1}` };
  }

  /** Whether a takeover was kept instead of this record. */
  #isDeposed(record: Uint8Array, slot: number): boolean {
    const isTakeover = (bytes: Uint8Array | undefined): boolean =>
      bytes !== undefined &&
      decodeHeader(Buffer.from(bytes), 0).type === sharedRecordTypes.takeover;
    return isTakeover(this.#records[slot - this.#trimmed - 1]) && !isTakeover(record);
  }

  /** Takes whatever comes, as a log without the compare would. */
  force(record: Uint8Array): Appending {
    if (Number.isFinite(this.bytesMax) && this.bytes + record.length > this.bytesMax)
      return { kind: "full", why: `it holds ${this.bytesMax} bytes` };
    this.#records.push(Uint8Array.from(record));
    return { kind: "kept" };
  }

  read(slot: number): readonly Uint8Array[] {
    if (slot <= this.#trimmed) throw behind(slot, this.bounds.first);
    const from = slot - this.#trimmed - 1;
    const end = Math.min(from + readMax, Math.max(from, this.#records.length - this.lag()));
    return this.#records.slice(from, end).map((each) => Uint8Array.from(each));
  }

  trim(slot: number): void {
    const removed = Math.min(slot - 1, this.bounds.last - 1) - this.#trimmed;
    if (removed <= 0) return;
    this.#records.splice(0, removed);
    this.#trimmed += removed;
  }

  /** Loses the newest records, as servers that did not sync them may. */
  forget(count: number): void {
    this.#records.splice(this.#records.length - count);
  }

  notify(from: MemorySharedLog, text: string): void {
    for (const handle of this.#handles) if (handle !== from) handle.notified(text);
  }
}

/**
 * How a question travels. `there` carries it out; the promise is what the node hears, or an error when
 * it hears nothing. It may be carried out late, or without an answer.
 */
export type Way = <T>(there: () => T) => Promise<T>;

const straightWay: Way = async (there) => there();

export class MemorySharedLog implements SharedLog {
  onNotice: (text: string) => void = () => {};
  readonly logId: number;
  readonly recordBytesMax: number = recordBytesMax;
  readonly #server: MemoryLogServer;
  readonly #way: Way;
  #isClosed = false;
  /** The last slot that this end has heard of. */
  #headSeen = 0;
  #isCut = false;

  constructor(server: MemoryLogServer, way: Way) {
    this.#server = server;
    this.logId = server.logId;
    this.#way = way;
  }

  async append(record: Uint8Array, slot: number): Promise<Appending> {
    this.#check();
    const sent = Uint8Array.from(record);
    try {
      return await this.#way(() => this.#server.append(sent, slot));
    } catch (error) {
      return { kind: "unknown", why: (error as Error).message };
    }
  }

  async read(slot: number): Promise<readonly Uint8Array[]> {
    const records = await this.#ask(() => this.#server.read(slot));
    this.#isCut = records.length === readMax;
    return records;
  }

  hasMore(slot: number): boolean {
    return this.#isCut || slot < this.#headSeen;
  }

  async bounds(): Promise<LogBounds> {
    const bounds = await this.#ask(() => this.#server.bounds);
    this.#headSeen = Math.max(this.#headSeen, bounds.last);
    return bounds;
  }

  space(): Promise<LogSpace> {
    return this.#ask(() => this.#server.space);
  }

  trim(slot: number): Promise<void> {
    return this.#ask(() => this.#server.trim(slot));
  }

  notify(text = ""): void {
    if (this.#isClosed) return;
    // A lost notice does no harm: the other nodes also look by themselves.
    this.#way(() => this.#server.notify(this, text)).catch(() => {});
  }

  notified(text: string): void {
    if (this.#isClosed) return;
    if (text === "") this.#headSeen = Math.max(this.#headSeen, this.#server.bounds.last);
    this.onNotice(text);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#server.disconnect(this);
  }

  async #ask<T>(there: () => T): Promise<T> {
    this.#check();
    try {
      return await this.#way(there);
    } catch (error) {
      if (error instanceof FaultError) throw error;
      throw new FaultError("storage_failed", `the log servers do not answer: ${String(error)}`);
    }
  }

  #check(): void {
    if (this.#isClosed) throw closed();
  }
}
