/**
 * One generation of what is in the log but not yet in the kv: the newest value of every key that
 * was touched, or that it is gone.
 *
 * A key that was created in this generation and deleted in it leaves nothing behind. That is safe
 * because the kv, and the generation before, have never seen it.
 */
import { type OpKind, opKinds } from "./batch-codec.ts";

export interface OverlayEntry {
  /** Undefined when the key was deleted. */
  readonly value: Buffer | undefined;
  /** Index of the log record that wrote it. */
  readonly index: number;
  /** True when no older generation and not the kv knows the key. */
  readonly born: boolean;
}

/** What an entry costs besides its key and value: the object, the view and the map slot. */
const entryOverheadBytes = 200;

export class Overlay {
  readonly entries: Map<string, OverlayEntry> = new Map();
  /** Roughly the memory it holds: what was written, whether or not it was replaced since. */
  bytes = 0;

  apply(kind: OpKind, key: string, value: Buffer | undefined, index: number): void {
    this.bytes += entryOverheadBytes + key.length + (value === undefined ? 0 : value.length);
    const before = this.entries.get(key);
    if (kind === opKinds.delete) {
      if (before?.born) this.entries.delete(key);
      else this.entries.set(key, { value: undefined, index, born: false });
      return;
    }
    const born = before === undefined ? kind === opKinds.create : before.born;
    this.entries.set(key, { value, index, born });
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
