/**
 * The files of one directory. All file work of the log goes through here, so that a simulated twin
 * can tear writes, lose what was not synced, run full and fail.
 *
 * A write is durable after the file's `sync` and, for a new or renamed file, `syncDirectory`.
 * Errors are those of the operating system, with `code` (ENOSPC, EIO, ...).
 */
export interface Disk extends ReadableDisk {
  /** Opens for reading and writing; creates the file when `create` is set. */
  open(name: string, options?: { readonly create?: boolean }): Promise<DiskFile>;
  rename(from: string, to: string): Promise<void>;
  remove(name: string): Promise<void>;
  syncDirectory(): Promise<void>;
  freeBytes(): Promise<number>;
}

/**
 * Syncs of a file may overlap, through one handle or several, and end in any order. Each covers what
 * was written before it began. A failure to bring something to the disk is reported once to each
 * handle, by the next of its syncs that ends: of two that overlap on one handle, the one that
 * succeeds may owe that to the other.
 */
export interface DiskFile extends ReadableFile {
  /** Writes all of `bytes` at `position`, or fails having written any part of it. */
  write(bytes: Uint8Array, position: number): Promise<void>;
  sync(): Promise<void>;
  /** Like `write`, for hot paths; `done` may be called before `writeThen` returns. */
  writeThen(bytes: Uint8Array, position: number, done: DiskDone): void;
  /** Like `sync`, for hot paths. */
  syncThen(done: DiskDone): void;
}

/** Called once, with the error or null. */
export type DiskDone = (error: Error | null) => void;

/** Read access to a directory. */
export interface ReadableDisk {
  open(name: string): Promise<ReadableFile>;
  /** Names of the files in the directory, sorted. */
  list(): Promise<string[]>;
}

export interface ReadableFile {
  /**
   * Up to `length` bytes from `position`; fewer only at the end of the file. They may be put into
   * `into`, which is large enough and free to be overwritten.
   */
  read(position: number, length: number, into?: Buffer): Promise<Buffer>;
  size(): Promise<number>;
  close(): Promise<void>;
}
