/**
 * Where the newest state lies: the generation that grows, the one that is being flushed, what was read
 * ahead or kept after a flush, and the kv below. Reads look in this order.
 */

import type { Op } from "./batch-codec.ts";
import { check, type FaultError } from "./fault.ts";
import { type Generation, readPosition } from "./flusher.ts";
import type { Group } from "./group-commit.ts";
import { sealedEnd, unseal } from "./kv/checked-value.ts";
import type { Kv, KvEntry, KvRange } from "./kv/kv.ts";
import { firstKeys, openRows, type RowCursor, scanEntries, scanKeys } from "./merged-scan.ts";
import { Overlay, type OverlayEntry, type RowEntry, type Unflushed } from "./overlay.ts";
import { RowsAhead, TextsAhead } from "./read-ahead.ts";
import { type Row, type RowChange, type RowCodec, recordOf } from "./row-codec.ts";

/** Rows that stay in memory after they were flushed. */
const keptRowsMax = 32_768;

export class Layers {
  active: Overlay = new Overlay();
  #frozen: Generation | undefined;
  readonly #kv: Kv;
  readonly #codec: RowCodec;
  /** Called when the bytes of a row cannot be read. */
  readonly #onDamaged: (key: string) => void;
  readonly #texts: TextsAhead;
  readonly #rows: RowsAhead;
  /** Rows as the kv holds them. */
  readonly #kept: Map<string, Row> = new Map();

  constructor(kv: Kv, codec: RowCodec, onDamaged: (key: string) => void) {
    this.#kv = kv;
    this.#codec = codec;
    this.#onDamaged = onDamaged;
    this.#texts = new TextsAhead(kv);
    this.#rows = new RowsAhead(kv, codec);
  }

  get frozen(): Generation | undefined {
    return this.#frozen;
  }

  get size(): number {
    return this.active.size + (this.#frozen?.overlay.size ?? 0);
  }

  get bytes(): number {
    return this.active.bytes + (this.#frozen?.overlay.bytes ?? 0);
  }

  /** Adds changes of rows to the group, and makes them visible. */
  change({ writer, index }: Group, changes: readonly RowChange[]): void {
    const codec = this.#codec;
    const { active } = this;
    const bytes = writer.bodyBytes;
    for (let at = 0; at < changes.length; at++) {
      const change = changes[at] as RowChange;
      const id = codec.idOf((change.after ?? change.before) as Row);
      writer.addRow(id, change, codec);
      active.change(id, change, index);
    }
    active.logged(writer.bodyBytes - bytes);
  }

  /** Like `change`, for keys that hold no rows. */
  write({ writer, index }: Group, ops: readonly Op[]): void {
    const { prefix } = this.#codec;
    const { active } = this;
    for (const op of ops) {
      check(!op.key.startsWith(prefix), "a row is committed as a change of it");
      writer.add(op);
      active.apply(op, writer.last, index);
    }
  }

  rowEntry(id: string): RowEntry | undefined {
    return this.active.rows.get(id) ?? this.#frozen?.overlay.rows.get(id);
  }

  /** Index of the log record that wrote the key last; undefined when the kv has it. */
  indexOf(key: string): number | undefined {
    const { prefix } = this.#codec;
    if (key.startsWith(prefix)) return this.rowEntry(key.slice(prefix.length))?.index;
    return this.#entry(key)?.index;
  }

  row(id: string): Row | undefined {
    const entry = this.rowEntry(id);
    if (entry !== undefined) return entry.row;
    return this.#kept.get(id) ?? this.#rows.get(id) ?? this.#storedRow(id);
  }

  get(key: string): Buffer | undefined {
    const { prefix } = this.#codec;
    if (key.startsWith(prefix)) {
      const known = this.rowEntry(key.slice(prefix.length));
      if (known !== undefined) return known.row && recordOf(known.row, this.#codec);
    }
    const entry = this.#entry(key);
    return entry === undefined ? this.#stored(key) : entry.value;
  }

  /** Like `get`, but returns damaged bytes as the kv has them; undefined when nothing can be read at all. */
  raw(key: string): Buffer | undefined {
    return unlessDamaged(() => this.get(key)) ?? unlessDamaged(() => this.#kv.get(key));
  }

  #stored(key: string): Buffer | undefined {
    const stored = this.#kv.get(key);
    if (stored === undefined || this.#codec.isIndexKey(key)) return stored;
    return unseal(key, stored);
  }

  getText(key: string): string | undefined {
    const entry = this.#entry(key);
    if (entry !== undefined) return entry.text;
    if (key.startsWith(this.#codec.prefix)) return this.get(key)?.toString("utf8");
    return this.#texts.take(key) ?? this.#stored(key)?.toString("utf8");
  }

  readAhead(keys: readonly string[]): Promise<readonly KvEntry<string>[]> {
    return this.#texts.read(keys);
  }

  async readRowsAhead(ids: readonly string[]): Promise<readonly Row[]> {
    await this.#rows.read(ids.filter((id) => !this.#isInMemory(id)));
    const found: Row[] = [];
    for (const id of ids) {
      const entry = this.rowEntry(id);
      const row = entry === undefined ? (this.#kept.get(id) ?? this.#rows.get(id)) : entry.row;
      if (row !== undefined) found.push(row);
    }
    return found;
  }

  scan(range: KvRange, limit: number): Promise<KvEntry[]> {
    return scanEntries(this.#scanned(), range, limit);
  }

  scanKeys(range: KvRange, limit: number): Promise<string[]> {
    return scanKeys(this.#scanned(), range, limit);
  }

  firstKeys(ranges: readonly KvRange[], limit: number): Promise<string[][]> {
    return firstKeys(this.#scanned(), ranges, limit);
  }

  openRows(ids: KvRange): RowCursor {
    return openRows(this.#scanned(), ids);
  }

  unflushed(): Unflushed {
    const overlays = [this.active];
    const frozen = this.#frozen;
    // The kv may have kept a batch that it reported as failed.
    const isKept = frozen !== undefined && readPosition(this.#kv) >= frozen.throughIndex;
    if (frozen !== undefined && !isKept) overlays.unshift(frozen.overlay);
    return {
      rows: overlays.flatMap(({ rows }) => [...rows.values()]),
      entries: overlays.flatMap(({ entries }) => [...entries]),
    };
  }

  /** Begins a new generation. */
  freeze(throughIndex: number): void {
    this.#frozen = { overlay: this.active, throughIndex };
    this.active = new Overlay();
  }

  /** The frozen generation is in the kv. */
  flushed({ overlay }: Generation): void {
    this.#frozen = undefined;
    this.#texts.flushed(overlay);
    this.#rows.flushed(overlay);
    for (const [id, { row, keep }] of overlay.rows) {
      const isKept = keep && row !== undefined;
      if (isKept && (this.#kept.size < keptRowsMax || this.#kept.has(id))) this.#kept.set(id, row);
      else this.#kept.delete(id);
    }
  }

  /** The kv may have taken what memory held; what it holds is unknown until memory is replaced. */
  forgetStored(): void {
    for (const overlay of [this.#frozen?.overlay, this.active]) {
      if (overlay === undefined) continue;
      this.#texts.flushed(overlay);
      this.#rows.flushed(overlay);
    }
    this.#rows.clear();
    this.#kept.clear();
  }

  /** Sets memory to one generation with everything that the log holds beyond the kv. */
  replace(overlay: Overlay): void {
    this.active = overlay;
    this.#frozen = undefined;
  }

  #entry(key: string): OverlayEntry | undefined {
    return this.active.entries.get(key) ?? this.#frozen?.overlay.entries.get(key);
  }

  #isInMemory(id: string): boolean {
    return (
      this.rowEntry(id) !== undefined || this.#kept.has(id) || this.#rows.get(id) !== undefined
    );
  }

  #storedRow(id: string): Row | undefined {
    const key = this.#codec.prefix + id;
    try {
      const bytes = this.#kv.get(key);
      if (bytes === undefined) return undefined;
      const end = sealedEnd(key, bytes);
      const row = end === undefined ? undefined : this.#codec.read(bytes, 0, end, id, undefined);
      if (row !== undefined) return row;
    } catch (error) {
      if ((error as FaultError).code !== "corrupt") throw error;
    }
    this.#onDamaged(key);
    return undefined;
  }

  #scanned(): { readonly kv: Kv; readonly overlays: readonly Overlay[]; readonly rows: RowCodec } {
    const overlays = [this.active];
    if (this.#frozen !== undefined) overlays.unshift(this.#frozen.overlay);
    return { kv: this.#kv, overlays, rows: this.#codec };
  }
}

function unlessDamaged<Value>(read: () => Value): Value | undefined {
  try {
    return read();
  } catch (error) {
    if ((error as FaultError).code === "corrupt") return undefined;
    throw error;
  }
}
