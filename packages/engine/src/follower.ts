/**
 * Keeps a kv in step with a log that another node writes. Records are applied in their order and
 * flushed as an engine flushes them, with the place in the log that was reached, so that an engine can
 * be opened on the same kv as soon as nothing is left to flush.
 *
 * The kv need not be durable: after a crash it is at an earlier record, and the log is read from there.
 */
import { type DecodedOp, decodeBody } from "./batch-codec.ts";
import { FaultError } from "./fault.ts";
import { type Derive, flush, readPosition, readStoredPlace, readStoreId } from "./flusher.ts";
import { sealedEnd, unseal } from "./kv/checked-value.ts";
import type { Kv } from "./kv/kv.ts";
import {
  firstPlace,
  type LogPlace,
  placeText,
  quietSlots,
  readPlace,
} from "./log/replicated/slot-rules.ts";
import { Overlay } from "./overlay.ts";
import { applyRecord } from "./replay.ts";
import type { Row, RowCodec } from "./row-codec.ts";

/** This key exists when the kv has everything of a log that has ended. */
export const endedKey = "codeq/meta/ended";

export interface FollowerOptions {
  readonly kv: Kv;
  /** The id of the log. */
  readonly storeId: number;
  readonly rows: RowCodec;
  readonly derive: Derive;
  readonly defer: (run: () => void) => void;
  /** Overlay size at which a flush begins. */
  readonly flushBytes: number;
  /** Called with every record after it was applied. */
  readonly onApplied?: ((ops: Iterable<DecodedOp>, index: number) => void) | undefined;
}

export interface FollowedRecord {
  readonly body: Buffer;
  readonly opCount: number;
}

export class Follower {
  readonly #options: FollowerOptions;
  #overlay: Overlay = new Overlay();
  /** The last record that was applied, in the overlay or in the kv. */
  #applied: LogPlace;
  /** The kv refused a batch for lack of space and takes no other until it has recovered. */
  #isFull = false;
  /** Bytes of records since the kv was last made durable. */
  #bytes = 0;
  /** Flushed places of the kv that are not known to be durable, oldest first. */
  #settled: LogPlace[] = [];
  /** The place up to which the kv is durable. */
  #durable: LogPlace;

  /** Throws `corrupt` when the kv was written from another log. */
  constructor(options: FollowerOptions) {
    assertSameLog(options.kv, options.storeId);
    this.#options = options;
    this.#applied = this.storedPlace;
    // Nothing was written to the kv since it was opened.
    this.#durable = this.#applied;
  }

  /** The place of the kv; records that were applied beyond it are in memory only. */
  get storedPlace(): LogPlace {
    return storedPlaceOf(this.#options.kv);
  }

  /** A row after all applied records; also undefined for a row that cannot be read. */
  row(id: string): Row | undefined {
    const entry = this.#overlay.rows.get(id);
    if (entry !== undefined) return entry.row;
    const { kv, rows } = this.#options;
    const key = rows.prefix + id;
    const bytes = kv.get(key);
    const end = bytes === undefined ? undefined : sealedEnd(key, bytes);
    if (bytes === undefined || end === undefined) return undefined;
    return rows.read(bytes, 0, end, id, undefined);
  }

  /** Any value that is not a row, as text. */
  getText(key: string): string | undefined {
    const entry = this.#overlay.entries.get(key);
    if (entry !== undefined) return entry.text;
    const stored = this.#options.kv.get(key);
    return stored && unseal(key, stored).toString("utf8");
  }

  /**
   * Applies one record; `place` is where it is. Resolves at once, or when memory has room again. When there is no
   * room because the disk is full, the record was not applied and may be given again.
   */
  async apply(record: FollowedRecord, place: LogPlace): Promise<void> {
    const { onApplied, flushBytes } = this.#options;
    if (this.#overlay.bytes >= flushBytes) await this.settle();
    applyRecord({ ...record, index: place.index }, this.#overlay, this.#options);
    this.#applied = place;
    this.#bytes += record.body.length;
    if (onApplied === undefined) return;
    // Flush first: listeners may read the record from the kv.
    await this.settle();
    onApplied(decodeBody(record.body), place.index);
  }

  /** Brings everything that was applied into the kv. */
  async settle(): Promise<void> {
    const { kv } = this.#options;
    const place = this.#applied;
    if (this.#isFull) await kv.recover();
    this.#isFull = false;
    // A kv may have kept a batch that it reported as failed.
    if (readPosition(kv) < place.index) await this.#flush(place);
    this.#overlay = new Overlay();
  }

  /** Makes everything that was applied durable in the kv, so that the log can be trimmed. */
  async secure(): Promise<void> {
    await this.settle();
    const index = await this.#options.kv.files?.makeDurable();
    if (index !== undefined) this.#noteDurable(index);
  }

  /** How many applied records that changed nothing are in the log, and could be trimmed after `secure`. */
  get quietSlots(): number {
    return quietSlots(this.#durable, this.#applied);
  }

  /** Drops what is not in the kv; returns the place from which to follow again. */
  startOver(): LogPlace {
    this.#overlay = new Overlay();
    this.#applied = this.storedPlace;
    this.#noteSettled(this.#applied);
    return this.#applied;
  }

  async #flush(place: LogPlace): Promise<void> {
    const log = {
      bytes: this.#bytes,
      sync: () => Promise.resolve(),
      trim: async (index: number) => this.#noteDurable(index - 1),
      placeOf: () => placeText(place),
    };
    this.#noteSettled(place);
    const parts = { ...this.#options, log, activeBytes: () => 0 };
    try {
      await flush({ overlay: this.#overlay, throughIndex: place.index }, parts);
    } catch (error) {
      this.#isFull = error instanceof FaultError && error.code === "disk_full";
      throw error;
    }
  }

  /** The log has ended here: makes everything durable, and notes that nothing comes after it. */
  async end(place: LogPlace): Promise<void> {
    const { kv } = this.#options;
    await this.settle();
    const batch = kv.batch();
    batch.put(endedKey, Buffer.from(String(place.slot)));
    await batch.write({ sync: true });
    await kv.files?.noteWritten(place.index);
    await kv.files?.makeDurable();
  }

  get durablePlace(): LogPlace {
    return this.#durable;
  }

  #noteSettled(place: LogPlace): void {
    const { index } = this.#settled.at(-1) ?? this.#durable;
    if (index < place.index) this.#settled.push(place);
  }

  #noteDurable(index: number): void {
    const durable = this.#settled.filter((place) => place.index <= index);
    this.#settled = this.#settled.slice(durable.length);
    this.#durable = durable.at(-1) ?? this.#durable;
    if (this.#settled.length === 0) this.#bytes = 0;
  }
}

/** Throws `corrupt` when the kv was written from another log. */
export function assertSameLog(kv: Kv, logId: number): void {
  const stored = readStoreId(kv);
  if (stored === undefined || stored === logId) return;
  throw new FaultError(
    "corrupt",
    `the data of this node comes from log ${stored}, and the log servers have log ${logId}. ` +
      "Check that the data directory and the log servers belong to the same cluster. Nothing was changed.",
  );
}

/** The place of a kv in its log. Throws `format` when the kv was written from a log that is not shared. */
export function storedPlaceOf(kv: Kv): LogPlace {
  const text = readStoredPlace(kv);
  const index = readPosition(kv);
  if (text === undefined && index === 0) return firstPlace;
  const place = text === undefined ? undefined : readPlace(text, index);
  if (place !== undefined) return place;
  throw new FaultError(
    "format",
    "the store was written without a shared log. Choose an empty data directory for a cluster node.",
  );
}
