/**
 * Values of the kv that somebody will ask for soon, read off the JavaScript thread in one pass over
 * their range. LevelDB is also spared the compactions that many single reads make it start.
 *
 * A value is handed out only while it is what the kv holds: a flush takes out what it has written,
 * and a reading that it overtook leaves those keys aside. A value is handed out once; what nobody
 * asked for goes when the memory is needed for later readings.
 */
import type { Kv } from "./kv/kv.ts";
import type { Overlay } from "./overlay.ts";

/** What a reading may cost: entries walked for each one wanted, and bytes held in memory. */
const walkMax = 4;
const pieceEntries = 512;
const bytesMax = 16 * 1024 * 1024;

export class ReadAhead {
  readonly #kv: Kv;
  readonly #values: Map<string, Buffer> = new Map();
  readonly #readings: Set<Overlay[]> = new Set();
  #bytes = 0;

  constructor(kv: Kv) {
    this.#kv = kv;
  }

  /** The value of the kv, if it was read ahead. */
  take(key: string): Buffer | undefined {
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

  /** Reads these keys, as far as they lie close together. */
  async read(keys: readonly string[]): Promise<void> {
    const wanted = keys.toSorted();
    const first = wanted[0];
    if (first === undefined) return;
    const flushed: Overlay[] = [];
    this.#readings.add(flushed);
    const cursor = this.#kv.cursor({ after: first.slice(0, -1), before: `${wanted.at(-1)}~` });
    try {
      let next = 0;
      for (let walked = 0; walked < keys.length * walkMax; walked += pieceEntries) {
        const piece = await cursor.next(pieceEntries);
        for (const [key, value] of piece) {
          while (next < wanted.length && (wanted[next] as string) < key) next += 1;
          if (wanted[next] !== key) continue;
          if (!flushed.some((overlay) => overlay.entries.has(key))) this.#add(key, value);
        }
        if (piece.length === 0 || next >= wanted.length - 1) return;
      }
    } finally {
      this.#readings.delete(flushed);
      await cursor.close();
    }
  }

  #add(key: string, value: Buffer): void {
    this.take(key);
    for (const [oldKey, oldValue] of this.#values) {
      if (this.#bytes + value.length <= bytesMax) break;
      this.#drop(oldKey, oldValue);
    }
    this.#values.set(key, value);
    this.#bytes += value.length;
  }

  #drop(key: string, value: Buffer): void {
    this.#values.delete(key);
    this.#bytes -= value.length;
  }
}
