/**
 * The disk of the operating system: one directory, flat file names.
 *
 * Guarantees what `Disk` asks for and nothing more: no locking, no caching, no retries. It goes
 * through descriptors and callbacks because a `FileHandle` costs several objects per call, and the
 * log makes two calls per commit. Assumes that no other process writes to the directory.
 */
import * as fs from "node:fs";
import { mkdir, open as openHandle, readdir, rename, rm, statfs } from "node:fs/promises";
import { join } from "node:path";
import type { Disk, DiskDone, DiskFile, ReadableDisk, ReadableFile } from "./disk.ts";

/** A directory that is only read: files are opened for reading, and nothing is created. */
export class ReadOnlyDisk implements ReadableDisk {
  readonly directory: string;

  constructor(directory: string) {
    this.directory = directory;
  }

  open(name: string): Promise<ReadableFile> {
    return opened(join(this.directory, name), fs.constants.O_RDONLY, neverHere);
  }

  async list(): Promise<string[]> {
    const entries = await readdir(this.directory, { withFileTypes: true });
    return entries
      .filter((entry) => entry.isFile())
      .map((entry) => entry.name)
      .sort();
  }
}

export class NodeDisk implements Disk {
  readonly directory: string;
  readonly #pace: SyncPace;

  private constructor(directory: string, monotonicMs: () => number) {
    this.directory = directory;
    this.#pace = new SyncPace(monotonicMs);
  }

  /** Creates the directory and its parents when they are missing. */
  static async open(
    directory: string,
    monotonicMs: () => number = () => performance.now(),
  ): Promise<NodeDisk> {
    await mkdir(directory, { recursive: true });
    return new NodeDisk(directory, monotonicMs);
  }

  open(name: string, options: { readonly create?: boolean } = {}): Promise<DiskFile> {
    const flags = fs.constants.O_RDWR | (options.create === true ? fs.constants.O_CREAT : 0);
    return opened(join(this.directory, name), flags, this.#pace);
  }

  list(): Promise<string[]> {
    return new ReadOnlyDisk(this.directory).list();
  }

  rename(from: string, to: string): Promise<void> {
    return rename(join(this.directory, from), join(this.directory, to));
  }

  remove(name: string): Promise<void> {
    return rm(join(this.directory, name));
  }

  async syncDirectory(): Promise<void> {
    const handle = await openHandle(this.directory, "r");
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
  }

  async freeBytes(): Promise<number> {
    const { bavail, bsize } = await statfs(this.directory);
    return bavail * bsize;
  }
}

function opened(path: string, flags: number, pace: SyncPace): Promise<NodeFile> {
  return new Promise((resolve, reject) => {
    fs.open(path, flags, 0o640, (error, fd) => {
      if (error) reject(error);
      else resolve(new NodeFile(fd, pace));
    });
  });
}

/**
 * A write of at most this size is made without handing it to another thread: it goes to the cache of
 * the operating system, which takes less time than to wake a thread and to be woken by it.
 */
const writeHereBytesMax = 256 * 1024;

/** After a sync that took longer than this, the next one is left to another thread. */
const syncHereMsMax = 1;
/** The disk of a busy server has less rest than this between two syncs. */
const restMsMin = 0.1;

/**
 * Decides where a file is synced. A busy server works while another thread syncs. With few tasks, to wake that thread
 * and to be woken by it costs more than to wait for a fast disk.
 */
class SyncPace {
  readonly #monotonicMs: () => number;
  #underWay = 0;
  /** How long the last sync took, and when it ended. */
  #tookMs = Number.POSITIVE_INFINITY;
  #endedMs = 0;

  constructor(monotonicMs: () => number) {
    this.#monotonicMs = monotonicMs;
  }

  /** Returns when the sync began. */
  begin(): number {
    this.#underWay += 1;
    return this.#monotonicMs();
  }

  /** Whether the sync that began last is made without another thread. */
  isHere(startedMs: number): boolean {
    const hasRested = startedMs - this.#endedMs >= restMsMin;
    return this.#underWay === 1 && hasRested && this.#tookMs <= syncHereMsMax;
  }

  end(startedMs: number): void {
    this.#underWay -= 1;
    this.#endedMs = this.#monotonicMs();
    this.#tookMs = this.#endedMs - startedMs;
  }
}

/** For files that are only read. */
const neverHere = new SyncPace(() => 0);

class NodeFile implements DiskFile {
  readonly #fd: number;
  readonly #pace: SyncPace;
  #closed = false;

  constructor(fd: number, pace: SyncPace) {
    this.#fd = fd;
    this.#pace = pace;
  }

  write(bytes: Uint8Array, position: number): Promise<void> {
    return promised((done) => this.writeThen(bytes, position, done));
  }

  writeThen(bytes: Uint8Array, position: number, done: DiskDone): void {
    if (this.#closed) done(fileIsClosed());
    else if (bytes.length > writeHereBytesMax) this.#writeRest(bytes, position, done);
    else done(this.#writeHere(bytes, position));
  }

  #writeHere(bytes: Uint8Array, position: number): Error | null {
    let written = 0;
    try {
      while (written < bytes.length) {
        const left = bytes.length - written;
        written += fs.writeSync(this.#fd, bytes, written, left, position + written);
      }
    } catch (error) {
      return error as Error;
    }
    return null;
  }

  /** The kernel may take less than it was given, mostly just before it reports a full disk. */
  #writeRest(bytes: Uint8Array, position: number, done: DiskDone): void {
    fs.write(this.#fd, bytes, 0, bytes.length, position, (error, written) => {
      if (error) done(error);
      else if (written === bytes.length) done(null);
      else this.#writeRest(bytes.subarray(written), position + written, done);
    });
  }

  read(position: number, length: number, given?: Buffer): Promise<Buffer> {
    const into = given?.subarray(0, length) ?? Buffer.allocUnsafe(length);
    return promised((done) => {
      if (this.#closed) done(fileIsClosed());
      else this.#readRest({ into, filled: 0, position }, done);
    });
  }

  #readRest(
    { into, filled, position }: { into: Buffer; filled: number; position: number },
    done: Done<Buffer>,
  ): void {
    const at = position + filled;
    fs.read(this.#fd, into, filled, into.length - filled, at, (error, count) => {
      const total = filled + count;
      if (error) done(error);
      else if (count === 0 || total === into.length) done(null, into.subarray(0, total));
      else this.#readRest({ into, filled: total, position }, done);
    });
  }

  size(): Promise<number> {
    return promised((done) => {
      if (this.#closed) done(fileIsClosed());
      else fs.fstat(this.#fd, (error, stats) => (error ? done(error) : done(null, stats.size)));
    });
  }

  sync(): Promise<void> {
    return promised((done) => this.syncThen(done));
  }

  syncThen(done: DiskDone): void {
    if (this.#closed) {
      process.nextTick(done, fileIsClosed());
      return;
    }
    const pace = this.#pace;
    const startedMs = pace.begin();
    if (pace.isHere(startedMs)) {
      const error = this.#syncHere();
      pace.end(startedMs);
      queueMicrotask(() => done(error));
      return;
    }
    fs.fdatasync(this.#fd, (error) => {
      pace.end(startedMs);
      done(error);
    });
  }

  #syncHere(): Error | null {
    try {
      fs.fdatasyncSync(this.#fd);
      return null;
    } catch (error) {
      return error as Error;
    }
  }

  close(): Promise<void> {
    return promised((done) => {
      if (this.#closed) {
        done(fileIsClosed());
        return;
      }
      this.#closed = true;
      fs.close(this.#fd, (error) => done(error ?? null));
    });
  }
}

type Done<T> = (error: Error | null, value?: T) => void;

function promised<T>(start: (done: Done<T>) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    start((error, value) => (error === null ? resolve(value as T) : reject(error)));
  });
}

/** Thrown before the descriptor is used, because it may already belong to another file. */
function fileIsClosed(): Error {
  return Object.assign(new Error("EBADF: the file is closed"), { code: "EBADF" });
}
