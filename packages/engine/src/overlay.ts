/**
 * One generation of what is in the log but not yet in the kv: the newest state of every row and the
 * newest value of every other key that was touched, or that it is gone.
 *
 * What was created in this generation and deleted in it leaves nothing behind. That is safe because
 * the kv, and the generation before, have never seen it.
 */

import { type Op, opKinds, type Span } from "./batch-codec.ts";
import { check } from "./fault.ts";
import type { Row, RowChange } from "./row-codec.ts";

/** Changed in place by the overlay; a reader uses it before the next commit only. */
export class RowEntry {
  /** Index of the log record that wrote it. */
  index: number;
  /** True when no older generation and not the kv knows the row. */
  readonly born: boolean;
  /** Undefined when the row was deleted. */
  row: Row | undefined;
  /** The row in older generations or the kv. */
  readonly below: Row | undefined;
  /** Worth its place in memory after it was flushed. */
  keep: boolean;

  constructor(index: number, { before, after, keep }: RowChange) {
    this.index = index;
    this.born = before === undefined;
    this.row = after;
    this.below = before;
    this.keep = keep === true;
  }
}

/** Changed in place, like `RowEntry`. */
export class OverlayEntry {
  /** Index of the log record that wrote it. */
  index: number;
  /** True when no older generation and not the kv knows the key. */
  readonly born: boolean;
  #buffer: Buffer | undefined;
  #start = 0;
  #end = 0;

  constructor(index: number, born: boolean) {
    this.index = index;
    this.born = born;
  }

  get isDeleted(): boolean {
    return this.#buffer === undefined;
  }

  /** Undefined when the key was deleted. */
  get value(): Buffer | undefined {
    return this.#buffer?.subarray(this.#start, this.#end);
  }

  /** The value as UTF-8; undefined when the key was deleted. */
  get text(): string | undefined {
    return this.#buffer?.toString("utf8", this.#start, this.#end);
  }

  write(index: number, value: Span): void {
    this.index = index;
    this.#buffer = value.buffer;
    this.#start = value.start;
    this.#end = value.end;
  }

  delete(index: number): void {
    this.index = index;
    this.#buffer = undefined;
  }
}

/** What the kv does not hold yet, or what a flush brings to it. */
export interface Unflushed {
  readonly rows: Iterable<RowEntry>;
  readonly entries: Iterable<readonly [string, OverlayEntry]>;
}

/** What an entry costs besides its key and value: the object and the map slot. */
const entryBytes = 200;
/** What the object of a row costs besides the text in it, about. */
const rowBytes = 400;
/** What is left of a replaced state until it is collected. */
const changeBytes = 100;

export class Overlay {
  readonly entries: Map<string, OverlayEntry> = new Map();
  readonly rows: Map<string, RowEntry> = new Map();
  /** Roughly the memory it holds: what was written, whether or not it was replaced since. */
  bytes = 0;

  get size(): number {
    return this.entries.size + this.rows.size;
  }

  /** Counts bytes of the log record for changes of rows. */
  logged(bytes: number): void {
    // Text is about as long in a row; values of other keys keep their whole frame in memory.
    this.bytes += bytes;
  }

  change(id: string, change: RowChange, index: number): void {
    const { before, after } = change;
    const entry = this.rows.get(id);
    if (entry === undefined) {
      const rows = before === undefined || after === undefined ? 1 : 2;
      this.bytes += entryBytes + id.length + rows * rowBytes;
      this.rows.set(id, new RowEntry(index, change));
      return;
    }
    check((entry.row === undefined) === (before === undefined), "a change begins where it is");
    this.bytes += changeBytes;
    if (after === undefined && entry.born) {
      this.rows.delete(id);
      return;
    }
    entry.index = index;
    entry.row = after;
    entry.keep = change.keep === true;
  }

  apply({ kind, key }: Pick<Op, "kind" | "key">, value: Span, index: number): void {
    const entry = this.entries.get(key);
    if (kind === opKinds.delete) {
      this.bytes += entryBytes + key.length;
      if (entry === undefined) this.entries.set(key, new OverlayEntry(index, false));
      else if (entry.born) this.entries.delete(key);
      else entry.delete(index);
      return;
    }
    this.bytes += entryBytes + key.length + value.end - value.start;
    const written = entry ?? new OverlayEntry(index, kind === opKinds.create);
    if (entry === undefined) this.entries.set(key, written);
    written.write(index, value);
  }
}
