/**
 * The model of a kv: a map and its sorted keys. The contents may be handed in, so that a simulated
 * restart opens what the crashed process had written; `beforeWrite` lets a simulated disk delay a
 * batch, fail it, or never finish it.
 */
import type { Kv, KvCursor, KvEntry, KvRange, KvStats, KvWrite } from "./kv.ts";

export interface MemoryKvOptions {
  readonly contents?: Map<string, Buffer>;
  readonly beforeWrite?: () => Promise<void>;
}

export class MemoryKv implements Kv {
  readonly #contents: Map<string, Buffer>;
  readonly #beforeWrite: () => Promise<void>;
  #sorted: string[] | undefined;

  constructor(options: MemoryKvOptions = {}) {
    this.#contents = options.contents ?? new Map();
    this.#beforeWrite = options.beforeWrite ?? (() => Promise.resolve());
  }

  get(key: string): Buffer | undefined {
    return this.#contents.get(key);
  }

  cursor(range: KvRange): KvCursor {
    this.#sorted ??= [...this.#contents.keys()].sort();
    const entries: KvEntry[] = [];
    const keys = this.#sorted;
    for (let i = firstAfter(keys, range.after); i < keys.length; i++) {
      const key = keys[i] as string;
      if (key >= range.before) break;
      entries.push([key, this.#contents.get(key) as Buffer]);
    }
    let at = 0;
    return {
      next: (count) => {
        at += count;
        return Promise.resolve(entries.slice(at - count, at));
      },
      close: () => Promise.resolve(),
    };
  }

  async write(writes: Iterable<KvWrite>): Promise<void> {
    const batch = [...writes].map(({ key, value }) => ({
      key,
      // A view would keep the caller's whole buffer alive and change with it.
      value: value === undefined ? undefined : Buffer.from(value),
    }));
    await this.#beforeWrite();
    for (const { key, value } of batch) {
      if (value === undefined) this.#contents.delete(key);
      else this.#contents.set(key, value);
    }
    this.#sorted = undefined;
  }

  recover(): Promise<void> {
    return Promise.resolve();
  }

  stats(): KvStats {
    return {
      levels: [],
      compactionSeconds: 0,
      compactionReadBytes: 0,
      compactionWriteBytes: 0,
      memoryBytes: 0,
    };
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

function firstAfter(keys: readonly string[], key: string): number {
  let low = 0;
  let high = keys.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((keys[middle] as string) > key) high = middle;
    else low = middle + 1;
  }
  return low;
}
