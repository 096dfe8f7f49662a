/**
 * Values that will be read from the kv soon, read off the JavaScript thread in one pass over their range.
 * This also avoids the compactions that LevelDB starts after many single reads.
 *
 * A value is handed out only while it is what the kv holds: a flush removes the keys that it has written, also
 * from readings under way. Text is handed out once; a row stays. Values that were not asked for are dropped when
 * later readings need the memory.
 */
import { sealedEnd } from "./kv/checked-value.ts";
import type { Kv, KvCursor, KvEntry } from "./kv/kv.ts";
import type { Overlay } from "./overlay.ts";
import type { Row, RowCodec } from "./row-codec.ts";

/** What a reading may cost: entries walked for each one wanted, and what is held in memory. */
const walkMax = 4;
const pieceEntries = 512;
const heldMax = 16 * 1024 * 1024;
/** What the object of a row costs besides the text in it. */
const rowSize = 400;

/** Values with their sizes, the oldest first, up to a limit of their sum. */
class Held<Value> {
  readonly #values: Map<string, { readonly value: Value; readonly size: number }> = new Map();
  #size = 0;

  get(key: string): Value | undefined {
    return this.#values.size === 0 ? undefined : this.#values.get(key)?.value;
  }

  set(key: string, value: Value, size: number): void {
    this.delete(key);
    for (const oldest of this.#values.keys()) {
      if (this.#size + size <= heldMax) break;
      this.delete(oldest);
    }
    this.#values.set(key, { value, size });
    this.#size += size;
  }

  delete(key: string): void {
    const held = this.#values.get(key);
    if (held === undefined) return;
    this.#values.delete(key);
    this.#size -= held.size;
  }

  deleteAll(has: (key: string) => boolean): void {
    for (const key of this.#values.keys()) if (has(key)) this.delete(key);
  }

  clear(): void {
    this.#values.clear();
    this.#size = 0;
  }
}

/** The generations that were flushed while each reading was under way. */
class Readings {
  readonly #readings: Set<Overlay[]> = new Set();

  begin(): Overlay[] {
    const flushed: Overlay[] = [];
    this.#readings.add(flushed);
    return flushed;
  }

  end(flushed: Overlay[]): void {
    this.#readings.delete(flushed);
  }

  flushed(overlay: Overlay): void {
    for (const reading of this.#readings) reading.push(overlay);
  }
}

export class TextsAhead {
  readonly #kv: Kv;
  readonly #texts: Held<string> = new Held();
  readonly #readings: Readings = new Readings();

  constructor(kv: Kv) {
    this.#kv = kv;
  }

  /** The value of the kv, if it was read ahead. */
  take(key: string): string | undefined {
    const text = this.#texts.get(key);
    if (text !== undefined) this.#texts.delete(key);
    return text;
  }

  /** The overlay's keys have been written to the kv. */
  flushed(overlay: Overlay): void {
    this.#readings.flushed(overlay);
    this.#texts.deleteAll((key) => overlay.entries.has(key));
  }

  /** Reads these keys, as far as they lie close together: a few thousand of one range. */
  async read(keys: readonly string[]): Promise<readonly KvEntry<string>[]> {
    const found: KvEntry<string>[] = [];
    if (keys.length === 0) return found;
    const wanted = keys.toSorted();
    const flushed = this.#readings.begin();
    try {
      await readWanted(this.#kv.cursor(rangeOf(wanted)), wanted, (key, bytes) => {
        const end = sealedEnd(key, bytes);
        // A single read of the value reports the damage.
        if (end === undefined) return;
        const text = bytes.toString("utf8", 0, end);
        found.push([key, text]);
        if (!flushed.some(({ entries }) => entries.has(key)))
          this.#texts.set(key, text, text.length);
      });
    } finally {
      this.#readings.end(flushed);
    }
    return found;
  }
}

export class RowsAhead {
  readonly #kv: Kv;
  readonly #codec: RowCodec;
  readonly #rows: Held<Row> = new Held();
  readonly #readings: Readings = new Readings();

  constructor(kv: Kv, codec: RowCodec) {
    this.#kv = kv;
    this.#codec = codec;
  }

  /** The row in the kv, if it was read ahead. */
  get(id: string): Row | undefined {
    return this.#rows.get(id);
  }

  /** The overlay's rows have been written to the kv. */
  flushed(overlay: Overlay): void {
    this.#readings.flushed(overlay);
    this.#rows.deleteAll((id) => overlay.rows.has(id));
  }

  clear(): void {
    this.#rows.clear();
  }

  /** Reads these rows like texts, and decodes them; those that cannot be read are left out. */
  async read(ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    const { prefix } = this.#codec;
    const wanted = ids.map((id) => prefix + id).sort();
    const flushed = this.#readings.begin();
    try {
      await readWanted(this.#kv.cursor(rangeOf(wanted)), wanted, (key, bytes) => {
        const id = key.slice(prefix.length);
        if (flushed.some(({ rows }) => rows.has(id))) return;
        const end = sealedEnd(key, bytes);
        const row = end === undefined ? undefined : this.#codec.read(bytes, 0, end, id, undefined);
        if (row !== undefined) this.#rows.set(id, row, bytes.length + rowSize);
      });
    } finally {
      this.#readings.end(flushed);
    }
  }
}

function rangeOf(wanted: readonly string[]): { readonly after: string; readonly before: string } {
  const [first = ""] = wanted;
  return { after: first.slice(0, -1), before: `${wanted.at(-1)}~` };
}

/** Both the cursor and the wanted keys are in order. */
async function readWanted<Value>(
  cursor: KvCursor<Value>,
  wanted: readonly string[],
  found: (key: string, value: Value) => void,
): Promise<void> {
  try {
    let next = 0;
    for (let walked = 0; walked < wanted.length * walkMax; walked += pieceEntries) {
      const piece = await cursor.next(pieceEntries);
      for (const [key, value] of piece) {
        while (next < wanted.length && (wanted[next] as string) < key) next += 1;
        if (wanted[next] === key) found(key, value);
      }
      if (piece.length === 0 || next >= wanted.length - 1) break;
    }
  } finally {
    await cursor.close();
  }
}
