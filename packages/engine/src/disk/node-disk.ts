/**
 * The disk of the operating system: one directory, flat file names.
 *
 * Guarantees what `Disk` asks for and nothing more: no locking, no caching, no retries. It goes
 * through descriptors and callbacks because a `FileHandle` costs several objects per call, and the
 * log makes two calls per commit. Assumes that nobody else writes to the directory.
 */
import * as fs from "node:fs";
import { mkdir, open as openHandle, readdir, rename, rm, statfs } from "node:fs/promises";
import { join } from "node:path";
import type { Disk, DiskFile } from "./disk.ts";

export class NodeDisk implements Disk {
  readonly directory: string;

  private constructor(directory: string) {
    this.directory = directory;
  }

  /** Creates the directory and its parents when they are missing. */
  static async open(directory: string): Promise<NodeDisk> {
    await mkdir(directory, { recursive: true });
    return new NodeDisk(directory);
  }

  open(name: string, options: { readonly create?: boolean } = {}): Promise<DiskFile> {
    const flags = fs.constants.O_RDWR | (options.create === true ? fs.constants.O_CREAT : 0);
    return new Promise((resolve, reject) => {
      fs.open(join(this.directory, name), flags, 0o640, (error, fd) => {
        if (error) reject(error);
        else resolve(new NodeFile(fd));
      });
    });
  }

  async list(): Promise<string[]> {
    const entries = await readdir(this.directory, { withFileTypes: true });
    return entries
      .filter((entry) => entry.isFile())
      .map((entry) => entry.name)
      .sort();
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

/**
 * A write of at most this size is made without handing it to another thread: it goes to the cache of
 * the operating system, which takes less time than to wake a thread and to be woken by it.
 */
const writeHereBytesMax = 256 * 1024;

class NodeFile implements DiskFile {
  readonly #fd: number;
  #closed = false;

  constructor(fd: number) {
    this.#fd = fd;
  }

  write(bytes: Uint8Array, position: number): Promise<void> {
    return this.#call((done) => {
      if (bytes.length > writeHereBytesMax) this.#writeRest(bytes, position, done);
      else this.#writeHere(bytes, position, done);
    });
  }

  #writeHere(bytes: Uint8Array, position: number, done: Done<void>): void {
    let written = 0;
    try {
      while (written < bytes.length) {
        const left = bytes.length - written;
        written += fs.writeSync(this.#fd, bytes, written, left, position + written);
      }
    } catch (error) {
      done(error as Error);
      return;
    }
    done(null, undefined);
  }

  /** The kernel may take less than it was given, mostly just before it reports a full disk. */
  #writeRest(bytes: Uint8Array, position: number, done: Done<void>): void {
    fs.write(this.#fd, bytes, 0, bytes.length, position, (error, written) => {
      if (error) done(error);
      else if (written === bytes.length) done(null, undefined);
      else this.#writeRest(bytes.subarray(written), position + written, done);
    });
  }

  read(position: number, length: number): Promise<Buffer> {
    const into = Buffer.allocUnsafe(length);
    return this.#call((done) => this.#readRest({ into, filled: 0, position }, done));
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
    return this.#call((done) =>
      fs.fstat(this.#fd, (error, stats) => (error ? done(error) : done(null, stats.size))),
    );
  }

  sync(): Promise<void> {
    return this.#call((done) =>
      fs.fdatasync(this.#fd, (error) => (error ? done(error) : done(null, undefined))),
    );
  }

  close(): Promise<void> {
    return this.#call((done) => {
      this.#closed = true;
      fs.close(this.#fd, (error) => (error ? done(error) : done(null, undefined)));
    });
  }

  /** Refuses a closed file here, since its descriptor may already belong to another one. */
  #call<T>(start: (done: Done<T>) => void): Promise<T> {
    return new Promise((resolve, reject) => {
      if (this.#closed) {
        reject(Object.assign(new Error("EBADF: the file is closed"), { code: "EBADF" }));
        return;
      }
      start((error, value) => (error === null ? resolve(value as T) : reject(error)));
    });
  }
}

type Done<T> = (error: Error | null, value?: T) => void;
