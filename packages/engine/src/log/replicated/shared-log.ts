/**
 * A log that several nodes share: one order of records for all of them, kept by a quorum of log servers.
 * etcd implements it, and a log in memory for simulations.
 *
 * Slots are numbered from 1 without gaps. A record gets the slot that its writer asks for, or none:
 * `append` compares and appends in one step. An answer may be lost, so a writer may get `unknown` for a
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
   * Records from this slot on, in order and without gaps; none when there are none yet, or when the server that
   * answers does not have them yet. Throws `behind` when the slot was removed, and another fault when no server
   * answers.
   */
  read(slot: number): Promise<readonly Uint8Array[]>;
  /** Whether a read behind this slot probably finds records, as far as this end has heard. Sends no request. */
  hasMore(slot: number): boolean;
  /**
   * The first slot that is kept and the last one that is taken; `last + 1` and `last` when empty. Never older than an
   * append that was acknowledged before the question was asked.
   */
  bounds(): Promise<LogBounds>;
  /** How many more bytes the log takes. */
  space(): Promise<LogSpace>;
  /** Removes the records below this slot; the last record stays in any case. */
  trim(slot: number): Promise<void>;
  /** Notifies the other nodes of new records, or sends them a short text. The notice may be lost. */
  notify(text?: string): void;
  /** Set by the listener; the text is empty when there are new records. */
  onNotice: (text: string) => void;
  close(): Promise<void>;
}

export interface LogSpace {
  readonly freeBytes: number;
  /** The limit for all records together. */
  readonly bytesMax: number;
}

export interface LogBounds {
  readonly first: number;
  readonly last: number;
}

export type Appending =
  | { readonly kind: "kept" }
  /** Another record has the slot; nothing was kept by this call. */
  | { readonly kind: "fenced" }
  /** A proof that the log has lost records: it ends before the previous slot, or it is another log. */
  | { readonly kind: "lost"; readonly why: string }
  /** The log takes nothing more before it is trimmed; nothing was kept. */
  | { readonly kind: "full"; readonly why: string }
  /** It is unknown whether the record was kept, or will be. */
  | { readonly kind: "unknown"; readonly why: string };

/** The types of records in a shared log, beside those of batches. */
export const sharedRecordTypes = { takeover: 2, heartbeat: 3, handoff: 4, end: 5 } as const;
