/**
 * A backup of a store in pieces, for somebody who stores it elsewhere: what happened since an earlier one or,
 * when the log does not reach back so far, everything.
 */
import { type BackupPosition, FaultError } from "@codeq/engine";
import type { Store } from "../store/store.ts";

export interface ReadBackup {
  /** Names the store. */
  readonly store: string;
  readonly since: BackupPosition | undefined;
}

export interface BackupReading {
  /** Says who reads, as nobody else does. */
  readonly reader: string;
  /** Up to where each store of an earlier backup reaches, by its name. */
  readonly since: Readonly<Record<string, BackupPosition>>;
}

export async function* readBackup(
  store: Store,
  { store: name, since }: ReadBackup,
): AsyncGenerator<Buffer> {
  const continued = since && (await store.backup(name, since));
  const pieces = continued ?? (await store.backup(name, undefined));
  if (pieces === undefined) throw new Error("a full backup needs no log");
  yield* pieces;
}

/** Backups that a shard hands out piece by piece. The reader may have gone, so only the last one stays open. */
export class OpenBackups {
  readonly #store: Store;
  #open: { readonly reader: string; readonly pieces: AsyncGenerator<Buffer> } | undefined;

  constructor(store: Store) {
    this.#store = store;
  }

  /** The piece behind so many, as base64; undefined at the end. */
  async next(reader: string, wanted: ReadBackup, pieces: number): Promise<string | undefined> {
    if (this.#open?.reader !== reader) {
      if (pieces > 0) throw new FaultError("storage_failed", "the backup was cut off; begin again");
      await this.close();
      this.#open = { reader, pieces: readBackup(this.#store, wanted) };
    }
    const next = await this.#open.pieces.next();
    if (next.done !== true) return next.value.toString("base64");
    this.#open = undefined;
    return undefined;
  }

  async close(): Promise<void> {
    const open = this.#open;
    this.#open = undefined;
    await open?.pieces.return(undefined);
  }
}
