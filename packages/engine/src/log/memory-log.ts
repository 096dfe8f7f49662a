/**
 * The log in memory: it behaves like the local log, without a disk. Nothing fails and nothing survives the
 * process; `reopen` simulates a restart. For tests and for servers without persistence.
 */
import assert from "node:assert/strict";
import {
  type Appended,
  appendsInFlightMax,
  type Frame,
  headerBytes,
  type Log,
  type LogRecord,
} from "./log.ts";
import { closed, trimmed } from "./log-fault.ts";
import { frameBytes } from "./record.ts";

export interface MemoryLogOptions {
  readonly writer: number;
  readonly epoch: number;
  readonly shard: number;
}

export class MemoryLog implements Log {
  readonly #options: MemoryLogOptions;
  readonly #records: LogRecord[];
  #inFlight = 0;
  #closed = false;

  constructor(options: MemoryLogOptions, records: readonly LogRecord[] = []) {
    this.#options = options;
    this.#records = [...records];
  }

  get firstIndex(): number {
    return this.#records[0]?.index ?? 1;
  }

  get lastIndex(): number {
    return this.#records.at(-1)?.index ?? 0;
  }

  get bytes(): number {
    return this.#records.reduce((sum, record) => sum + frameBytes(record.body.length), 0);
  }

  get canAppend(): boolean {
    return this.#inFlight < appendsInFlightMax;
  }

  append(frame: Frame, appended: Appended): void {
    assert(this.canAppend, "append is called only when it can be");
    const index = this.lastIndex + 1;
    const fault = this.#closed ? closed() : undefined;
    if (fault === undefined) this.#add(frame, index);
    this.#inFlight += 1;
    queueMicrotask(() => {
      this.#inFlight -= 1;
      appended(fault, index);
    });
  }

  #add(frame: Frame, index: number): void {
    const { buffer, bodyBytes, type, timeMs, opCount } = frame;
    assert(buffer.length >= frameBytes(bodyBytes), "a frame has room for header and padding");
    const body = Buffer.from(buffer.subarray(headerBytes, headerBytes + bodyBytes));
    this.#records.push({ ...this.#options, index, type, timeMs, opCount, body });
  }

  async sync(): Promise<void> {
    this.#check();
  }

  readFrom(index: number): AsyncIterable<LogRecord> {
    return this.#read(index, this.lastIndex);
  }

  async *#read(index: number, last: number): AsyncGenerator<LogRecord, void, void> {
    this.#check();
    if (index < this.firstIndex) throw trimmed(index, this.firstIndex);
    const from = index - this.firstIndex;
    for (const record of this.#records.slice(from, last - this.firstIndex + 1)) {
      this.#check();
      yield record;
    }
  }

  /** Keeps the last record, as the local log does, so that the index goes on after a restart. */
  async trim(index: number): Promise<void> {
    this.#check();
    const keepFrom = Math.min(index, this.lastIndex);
    this.#records.splice(0, Math.max(0, keepFrom - this.firstIndex));
  }

  async close(): Promise<void> {
    this.#closed = true;
  }

  /** The log that a later process would open. */
  reopen(): MemoryLog {
    this.#closed = true;
    return new MemoryLog(this.#options, this.#records);
  }

  #check(): void {
    if (this.#closed) throw closed();
  }
}
