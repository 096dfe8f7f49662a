/**
 * One generation of what is in the log but not yet in the kv: the newest value of every key that
 * was touched, or that it is gone.
 *
 * A key that was created in this generation and deleted in it leaves nothing behind. That is safe
 * because the kv, and the generation before, have never seen it.
 */
import { type Op, opKinds, type Span } from "./batch-codec.ts";
import type { Row } from "./index-keys.ts";

/** Changed in place by the overlay; whoever reads one does so before the next commit. */
export class OverlayEntry {
  /** Index of the log record that wrote it. */
  index: number;
  /** True when no older generation and not the kv knows the key. */
  readonly born: boolean;
  /** What the value says; undefined when no index keys follow from it, or it was deleted. */
  row: Row | undefined;
  /** The row in older generations or the kv. */
  below: Row | undefined;
  #buffer: Buffer | undefined;
  #start = 0;
  #end = 0;

  constructor(index: number, born: boolean, below: Row | undefined) {
    this.index = index;
    this.born = born;
    this.below = below;
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

  /** A value without a row leaves the index keys as they are. */
  write(index: number, value: Span, { row, before }: Pick<Op, "row" | "before">): void {
    this.index = index;
    if (row !== undefined) {
      if (this.row === undefined) this.below ??= before;
      this.row = row;
    }
    this.#buffer = value.buffer;
    this.#start = value.start;
    this.#end = value.end;
  }

  delete(index: number, before: Row | undefined): void {
    this.index = index;
    if (this.row === undefined) this.below ??= before;
    this.#buffer = undefined;
    this.row = undefined;
  }
}

type OverlayOp = Pick<Op, "kind" | "key" | "row" | "before">;

/** What an entry costs besides its key and value: the object and the map slot. */
const entryOverheadBytes = 200;
/** What a row costs, about. */
const rowBytes = 400;

export class Overlay {
  readonly entries: Map<string, OverlayEntry> = new Map();
  /** Roughly the memory it holds: what was written, whether or not it was replaced since. */
  bytes = 0;

  apply(op: OverlayOp, value: Span, index: number): void {
    const { kind, key } = op;
    const entry = this.entries.get(key);
    if (kind === opKinds.delete) {
      this.bytes += entryOverheadBytes + key.length;
      if (entry === undefined) this.entries.set(key, new OverlayEntry(index, false, op.before));
      else if (entry.born && !this.#leavesIndexKeys(entry, op)) this.entries.delete(key);
      else entry.delete(index, op.before);
      return;
    }
    this.bytes += entryOverheadBytes + key.length + value.end - value.start;
    if (op.row !== undefined) this.bytes += rowBytes;
    const written = entry ?? new OverlayEntry(index, kind === opKinds.create, op.before);
    if (entry === undefined) this.entries.set(key, written);
    written.write(index, value, op);
  }

  /** Index keys that came from an older log are entries of their own, which the record goes before. */
  #leavesIndexKeys(entry: OverlayEntry, op: OverlayOp): boolean {
    return entry.below !== undefined || (entry.row === undefined && op.before !== undefined);
  }
}
