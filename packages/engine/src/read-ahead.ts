/**
 * Values of the kv that somebody will ask for soon, read off the JavaScript thread in one pass over
 * their range. LevelDB is also spared the compactions that many single reads make it start.
 *
 * A value is handed out only while it is what the kv holds: a flush takes out what it has written,
 * and a reading that it overtook leaves those keys aside. A value is handed out once; what nobody
 * asked for goes when the memory is needed for later readings.
 */
import type { Kv, KvEntry } from "./kv/kv.ts";
import type { Overlay } from "./overlay.ts";

/** What a reading may cost: entries walked for each one wanted, and text held in memory. */
const walkMax = 4;
const pieceEntries = 512;
const charsMax = 16 * 1024 * 1024;

export class ReadAhead {
  readonly #kv: Kv;
  readonly #values: Map<string, string> = new Map();
  readonly #readings: Set<Overlay[]> = new Set();
  #chars = 0;

  constructor(kv: Kv) {
    this.#kv = kv;
  }

  /** The value of the kv, if it was read ahead. */
  take(key: string): string | undefined {
    if (this.#values.size === 0) return undefined;
    const value = this.#values.get(key);
    if (value !== undefined) this.#drop(key, value);
    return value;
  }

  /** The overlay's keys have been written to the kv. */
  flushed(overlay: Overlay): void {
    for (const reading of this.#readings) reading.push(overlay);
    for (const [key, value] of this.#values) {
      if (overlay.entries.has(key)) this.#drop(key, value);
    }
  }

  /** Reads these keys, as far as they lie close together: a few thousand of one range. */
  async read(keys: readonly string[]): Promise<readonly KvEntry<string>[]> {
    const wanted = keys.toSorted();
    const first = wanted[0];
    const found: KvEntry<string>[] = [];
    if (first === undefined) return found;
    const flushed: Overlay[] = [];
    this.#readings.add(flushed);
    const cursor = this.#kv.textCursor({ after: first.slice(0, -1), before: `${wanted.at(-1)}~` });
    try {
      let next = 0;
      for (let walked = 0; walked < keys.length * walkMax; walked += pieceEntries) {
        const piece = await cursor.next(pieceEntries);
        next = this.#addWanted(piece, wanted, { next, flushed, found });
        if (piece.length === 0 || next >= wanted.length - 1) break;
      }
      return found;
    } finally {
      this.#readings.delete(flushed);
      await cursor.close();
    }
  }

  /** Both lists are in order; returns how far in the wanted one the piece has come. */
  #addWanted(
    piece: readonly KvEntry<string>[],
    wanted: readonly string[],
    reading: {
      readonly next: number;
      readonly flushed: readonly Overlay[];
      readonly found: KvEntry<string>[];
    },
  ): number {
    let { next } = reading;
    for (const entry of piece) {
      const [key, value] = entry;
      while (next < wanted.length && (wanted[next] as string) < key) next += 1;
      if (wanted[next] !== key) continue;
      reading.found.push(entry);
      if (!reading.flushed.some((overlay) => overlay.entries.has(key))) this.#add(key, value);
    }
    return next;
  }

  #add(key: string, value: string): void {
    this.take(key);
    for (const [oldKey, oldValue] of this.#values) {
      if (this.#chars + value.length <= charsMax) break;
      this.#drop(oldKey, oldValue);
    }
    this.#values.set(key, value);
    this.#chars += value.length;
  }

  #drop(key: string, value: string): void {
    this.#values.delete(key);
    this.#chars -= value.length;
  }
}
