/**
 * Keeps a kv in step with a log that another node writes. Records are applied in their order and
 * flushed as an engine flushes them, with the position in the log that was reached, so that an engine can
 * be opened on the same kv as soon as nothing is left to flush.
 *
 * The kv need not be durable: after a crash it is at an earlier record, and the log is read from there.
 */
import { type DecodedOp, decodeBody } from "./batch-codec.ts";
import { FaultError } from "./fault.ts";
import { type Derive, flush, readLogPosition, readPosition, readStoreId } from "./flusher.ts";
import { sealedEnd, unseal } from "./kv/checked-value.ts";
import type { Kv } from "./kv/kv.ts";
import {
  firstPosition,
  type LogPosition,
  parsePosition,
  positionText,
  quietSlots,
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
  #applied: LogPosition;
  /** The kv refused a batch for lack of space and takes no other until it has recovered. */
  #isFull = false;
  /** Bytes of records since the kv was last made durable. */
  #bytes = 0;
  /** Flushed positions of the kv that are not known to be durable, oldest first. */
  #settled: LogPosition[] = [];
  /** The position up to which the kv is durable. */
  #durable: LogPosition;

  /** Throws `corrupt` when the kv was written from another log. */
  constructor(options: FollowerOptions) {
    assertSameLog(options.kv, options.storeId);
    this.#options = options;
    this.#applied = this.storedPosition;
    // Nothing was written to the kv since it was opened.
    this.#durable = this.#applied;
  }

  /** The position of the kv; records that were applied beyond it are in memory only. */
  get storedPosition(): LogPosition {
    return logPositionOf(this.#options.kv);
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
   * Applies one record; `position` is behind it. Resolves at once, or when memory has room again. When there is no
   * room because the disk is full, the record was not applied and may be given again.
   */
  async apply(record: FollowedRecord, position: LogPosition): Promise<void> {
    const { onApplied, flushBytes } = this.#options;
    if (this.#overlay.bytes >= flushBytes) await this.settle();
    applyRecord({ ...record, index: position.index }, this.#overlay, this.#options);
    this.#applied = position;
    this.#bytes += record.body.length;
    if (onApplied === undefined) return;
    // Flush first: listeners may read the record from the kv.
    await this.settle();
    onApplied(decodeBody(record.body), position.index);
  }

  /** Brings everything that was applied into the kv. */
  async settle(): Promise<void> {
    const { kv } = this.#options;
    const position = this.#applied;
    if (this.#isFull) await kv.recover();
    this.#isFull = false;
    // A kv may have kept a batch that it reported as failed.
    if (readPosition(kv) < position.index) await this.#flush(position);
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

  /** Drops what is not in the kv; returns the position from which to follow again. */
  startOver(): LogPosition {
    this.#overlay = new Overlay();
    this.#applied = this.storedPosition;
    this.#noteSettled(this.#applied);
    return this.#applied;
  }

  async #flush(position: LogPosition): Promise<void> {
    const log = {
      bytes: this.#bytes,
      sync: () => Promise.resolve(),
      trim: async (index: number) => this.#noteDurable(index - 1),
      positionOf: () => positionText(position),
    };
    this.#noteSettled(position);
    const parts = { ...this.#options, log, activeBytes: () => 0 };
    try {
      await flush({ overlay: this.#overlay, throughIndex: position.index }, parts);
    } catch (error) {
      this.#isFull = error instanceof FaultError && error.code === "disk_full";
      throw error;
    }
  }

  /** The log has ended here: makes everything durable, and notes that nothing comes after it. */
  async end(position: LogPosition): Promise<void> {
    const { kv } = this.#options;
    await this.settle();
    const batch = kv.batch();
    batch.put(endedKey, Buffer.from(String(position.slot)));
    await batch.write({ sync: true });
    await kv.files?.noteWritten(position.index);
    await kv.files?.makeDurable();
  }

  get durablePosition(): LogPosition {
    return this.#durable;
  }

  #noteSettled(position: LogPosition): void {
    const { index } = this.#settled.at(-1) ?? this.#durable;
    if (index < position.index) this.#settled.push(position);
  }

  #noteDurable(index: number): void {
    const durable = this.#settled.filter((position) => position.index <= index);
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

/** The position of a kv in its log. Throws `format` when the kv was written from a log that is not shared. */
export function logPositionOf(kv: Kv): LogPosition {
  const text = readLogPosition(kv);
  const index = readPosition(kv);
  if (text === undefined && index === 0) return firstPosition;
  const position = text === undefined ? undefined : parsePosition(text, index);
  if (position !== undefined) return position;
  throw new FaultError(
    "format",
    "the store was written without a shared log. Choose an empty data directory for a cluster node.",
  );
}
