/**
 * One generation of what is in the log but not yet in the kv: the newest value of every key that
 * was touched, or that it is gone.
 *
 * A key that was created in this generation and deleted in it leaves nothing behind. That is safe
 * because the kv, and the generation before, have never seen it.
 */
import { type OpKind, opKinds, type Span } from "./batch-codec.ts";

/** Changed in place by the overlay; whoever reads one does so before the next commit. */
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

/** What an entry costs besides its key and value: the object and the map slot. */
const entryOverheadBytes = 200;

export class Overlay {
  readonly entries: Map<string, OverlayEntry> = new Map();
  /** Roughly the memory it holds: what was written, whether or not it was replaced since. */
  bytes = 0;

  apply(kind: OpKind, key: string, value: Span, index: number): void {
    const before = this.entries.get(key);
    if (kind === opKinds.delete) {
      this.bytes += entryOverheadBytes + key.length;
      if (before === undefined) this.entries.set(key, new OverlayEntry(index, false));
      else if (before.born) this.entries.delete(key);
      else before.delete(index);
      return;
    }
    this.bytes += entryOverheadBytes + key.length + value.end - value.start;
    if (before !== undefined) {
      before.write(index, value);
      return;
    }
    const entry = new OverlayEntry(index, kind === opKinds.create);
    entry.write(index, value);
    this.entries.set(key, entry);
  }

  /** Entries strictly between the two keys, in order. */
  range(after: string, before: string): [string, OverlayEntry][] {
    const found: [string, OverlayEntry][] = [];
    for (const pair of this.entries) {
      if (pair[0] > after && pair[0] < before) found.push(pair);
    }
    return found.sort((a, b) => (a[0] < b[0] ? -1 : 1));
  }
}
