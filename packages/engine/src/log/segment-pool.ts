/**
 * Files that wait to become segments.
 *
 * They are full of zeros or of old records, synced, and of the full segment size, because syncing
 * an overwrite is several times cheaper than syncing a file that grows. Old records are harmless:
 * their indexes are lower than that of any record written after them. One file is made ahead in the
 * background; a failure there is ignored, because the same work is repeated, and reports its failure, when
 * the file is needed.
 */
import type { Disk, DiskFile } from "../disk/disk.ts";
import { isDiskFull } from "../fault.ts";
import { closed } from "./log-fault.ts";

const sparesMax = 2;
/** A small segment is at most this part of a whole one. */
const smallShare = 16;
const blockBytes = 4096;
const zeros = Buffer.alloc(1024 * 1024);
const namePattern = /^spare-(\d+)$/;

export class SegmentPool {
  readonly #disk: Disk;
  readonly #segmentBytes: number;
  readonly #spares: string[] = [];
  #counter = 0;
  #preparing: Promise<void> | undefined;
  #closed = false;

  private constructor(disk: Disk, segmentBytes: number) {
    this.#disk = disk;
    this.#segmentBytes = segmentBytes;
  }

  /**
   * Takes over the spare files of an earlier process; removes half-made ones and those of another
   * size. With `keep` unset it removes all of them: an empty log starts at index 1 again, and then
   * the indexes in old files are not lower.
   */
  static async open(
    disk: Disk,
    options: { readonly segmentBytes: number; readonly keep: boolean },
  ): Promise<SegmentPool> {
    const pool = new SegmentPool(disk, options.segmentBytes);
    for (const name of await disk.list()) {
      const number = namePattern.exec(name)?.[1];
      if (number === undefined) continue;
      pool.#counter = Math.max(pool.#counter, Number(number));
      const full = options.keep && pool.#spares.length < sparesMax;
      if (full && (await fileBytes(disk, name)) === options.segmentBytes) pool.#spares.push(name);
      else await disk.remove(name);
    }
    return pool;
  }

  /** Makes a file of at least `bytes` appear under `name`; the caller syncs the directory. */
  async provide(name: string, bytes: number): Promise<number> {
    if (bytes > this.#segmentBytes) {
      await this.#disk.rename(await this.#prepare(bytes), name);
      return bytes;
    }
    await this.#preparing;
    const spare = this.#spares.shift();
    if (spare === undefined) return await this.#provideNew(name, bytes);
    try {
      await this.#disk.rename(spare, name);
    } catch (error) {
      this.#spares.unshift(spare);
      throw error;
    }
    return this.#segmentBytes;
  }

  async #provideNew(name: string, bytes: number): Promise<number> {
    const size = Math.max(bytes, this.#affordable(await this.#disk.freeBytes()));
    const file = await this.#prepare(size);
    try {
      await this.#disk.rename(file, name);
    } catch (error) {
      if (size === this.#segmentBytes) this.#spares.unshift(file);
      else await this.#disk.remove(file);
      throw error;
    }
    return size;
  }

  /**
   * A disk with too little room for a whole segment gets a small one, for changes that free room. The
   * key-value store has to write these changes, too, so half of the last room is left to it.
   */
  #affordable(freeBytes: number): number {
    if (freeBytes >= this.#segmentBytes) return this.#segmentBytes;
    const half = Math.floor(freeBytes / (2 * blockBytes)) * blockBytes;
    return Math.min(Math.ceil(this.#segmentBytes / smallShare), half);
  }

  /** Starts making a file in the background when none is waiting. */
  prepareAhead(): void {
    if (this.#spares.length > 0 || this.#preparing !== undefined || this.#closed) return;
    this.#preparing = this.#makeSpare()
      .catch(() => {
        // Nothing is lost: `provide` makes the file itself and reports what stops it.
      })
      .finally(() => {
        this.#preparing = undefined;
      });
  }

  /** Takes back the file of a removed segment. */
  async recycle(name: string, bytes: number): Promise<void> {
    if (bytes !== this.#segmentBytes || this.#spares.length >= sparesMax) {
      await this.#disk.remove(name);
      return;
    }
    const spare = this.#nextName();
    try {
      await this.#disk.rename(name, spare);
      this.#spares.push(spare);
    } catch (error) {
      // A rename may need room, and trimming has to work on a full disk.
      if (!isDiskFull(error)) throw error;
      await this.#disk.remove(name);
    }
  }

  /** Removes the waiting files, to free their room. */
  async removeSpares(): Promise<void> {
    await this.#preparing;
    for (let name = this.#spares.pop(); name !== undefined; name = this.#spares.pop()) {
      await this.#disk.remove(name);
    }
  }

  /** Stops the background work and waits for its end. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#preparing;
  }

  #nextName(): string {
    this.#counter += 1;
    return `spare-${this.#counter}`;
  }

  async #prepare(bytes: number): Promise<string> {
    const name = this.#nextName();
    const file = await this.#disk.open(name, { create: true });
    try {
      await this.#fill(file, bytes);
    } catch (error) {
      // Remove the part that was written, because the disk is full.
      await this.#disk.remove(name);
      throw error;
    }
    await this.#disk.syncDirectory();
    return name;
  }

  async #makeSpare(): Promise<void> {
    // A file that is prepared ahead must not take the last room from writes that need it now.
    if ((await this.#disk.freeBytes()) < 2 * this.#segmentBytes) return;
    const name = await this.#prepare(this.#segmentBytes);
    // Other files may have been recycled meanwhile.
    if (this.#spares.length < sparesMax) this.#spares.push(name);
    else await this.#disk.remove(name);
  }

  async #fill(file: DiskFile, bytes: number): Promise<void> {
    try {
      for (let offset = 0; offset < bytes; offset += zeros.length) {
        if (this.#closed) throw closed();
        await file.write(zeros.subarray(0, Math.min(zeros.length, bytes - offset)), offset);
      }
      await file.sync();
    } finally {
      await file.close();
    }
  }
}

/** Overwrites a range with zeros, without syncing it. */
export async function writeZeros(file: DiskFile, from: number, to: number): Promise<void> {
  for (let offset = from; offset < to; offset += zeros.length) {
    await file.write(zeros.subarray(0, Math.min(zeros.length, to - offset)), offset);
  }
}

async function fileBytes(disk: Disk, name: string): Promise<number> {
  const file = await disk.open(name);
  try {
    return await file.size();
  } finally {
    await file.close();
  }
}
