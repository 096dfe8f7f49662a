/**
 * A log that several nodes share: one order of records for all of them, kept by a quorum of log servers.
 * This is the seam behind which NATS JetStream stands; a twin in memory serves simulations.
 *
 * Slots are numbered from 1 without gaps. A record gets the slot that its writer asks for, or none:
 * `append` compares and appends in one step. An answer may be lost, so a writer may hear `unknown` of a
 * record that was kept, or that is kept a little later. A repeat of the same bytes for the same slot
 * is harmless.
 */
export interface SharedLog {
  /** Drawn when the log was made; no other log has it. */
  readonly logId: number;
  /** The most bytes that a record may have. */
  readonly recordBytesMax: number;
  /** Keeps the record in this slot if the slot before it is the last one that is taken. */
  append(record: Uint8Array, slot: number): Promise<Appending>;
  /**
   * Records from this slot on, in order and without gaps; none when there are none yet, or when whoever
   * answered has not heard of them. Throws `behind` when the slot was removed, and another fault when
   * nobody answers.
   */
  read(slot: number): Promise<readonly Uint8Array[]>;
  /** The first slot that is kept and the last one that is taken; `last + 1` and `last` when empty. */
  bounds(): Promise<LogBounds>;
  /** How much more it takes. */
  room(): Promise<LogRoom>;
  /** Removes the records below this slot; the last record stays in any case. */
  trim(slot: number): Promise<void>;
  /** Tells the other nodes that there is something to read, or a short text. It may be lost. */
  poke(text?: string): void;
  /** Set by who listens; the text is empty when there is something to read. */
  onPoke: (text: string) => void;
  close(): Promise<void>;
}

export interface LogRoom {
  readonly freeBytes: number;
  /** Of all records together. */
  readonly bytesMax: number;
}

export interface LogBounds {
  readonly first: number;
  readonly last: number;
}

export type Appending =
  | { readonly kind: "kept" }
  /** The slot, or one behind it, is taken; nothing was kept by this call. */
  | { readonly kind: "fenced" }
  /** The log takes nothing more before it is trimmed; nothing was kept. */
  | { readonly kind: "full"; readonly why: string }
  /** Nobody knows whether it was kept, or will be. */
  | { readonly kind: "unknown"; readonly why: string };

/** The types of records in a shared log, beside those of batches. */
export const sharedRecordTypes = { takeover: 2, heartbeat: 3, handoff: 4, end: 5 } as const;
