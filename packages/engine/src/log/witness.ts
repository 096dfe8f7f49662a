/**
 * A file beside the log with the id of its store and an index up to which the log was durable. A log that
 * was cut, emptied or exchanged looks like a whole log; only this file shows that it ends too early.
 *
 * A note was true when it was written, and may be old: notes are written without a sync, alternately in two
 * places, so that a torn note leaves the other one intact. No note is ahead of the log.
 */
import { crc32 } from "node:zlib";
import type { Disk, DiskFile } from "../disk/disk.ts";
import { FaultError } from "../fault.ts";

export interface Testimony {
  /** The id of the store. */
  readonly storeId: number;
  /** Every record up to this one was durable. */
  readonly index: number;
}

const fileName = "witness";
/** "cqwt" in the file. */
const magic = 0x74777163;
const noteBytes = 28;
const places = [0, 4096] as const;
const two32 = 2 ** 32;

export class Witness {
  readonly #file: DiskFile;
  /** Undefined for a new store, and when the file is lost or damaged. */
  readonly found: Testimony | undefined;
  #storeId = 0;
  #notedIndex = -1;
  #place = 0;
  #noting: Promise<void> = Promise.resolve();
  #closing: Promise<void> | undefined;

  private constructor(file: DiskFile, found: Testimony | undefined, place: number) {
    this.#file = file;
    this.found = found;
    this.#place = place;
  }

  static async open(disk: Disk): Promise<Witness> {
    const file = await disk.open(fileName, { create: true });
    let found: Testimony | undefined;
    let place = 0;
    for (const [at, offset] of places.entries()) {
      const testimony = decode(await file.read(offset, noteBytes));
      if (testimony === undefined || testimony.index < (found?.index ?? 0)) continue;
      found = testimony;
      // Overwrite the older note first.
      place = 1 - at;
    }
    return new Witness(file, found, place);
  }

  /** Throws when this is not the log of the store, or when records are missing at its end. */
  check(storeId: number, lastIndex: number): void {
    if (this.found === undefined) return;
    if (this.found.storeId !== storeId) {
      throw new FaultError(
        "corrupt",
        `the file ${fileName} belongs to store ${this.found.storeId}, the log to store ${storeId}. ` +
          "Restore the whole data directory from one backup.",
      );
    }
    if (this.found.index <= lastIndex) return;
    throw new FaultError(
      "corrupt",
      `The log is damaged: it ends at record ${lastIndex}, but record ${this.found.index} had been ` +
        "made durable. Nothing was changed. Restore the whole data directory (kv and log together) " +
        "from one backup.",
    );
  }

  /** Stores the id of the log's store, durably. */
  async begin(storeId: number, index: number): Promise<void> {
    this.#storeId = storeId;
    for (const offset of places) await this.#file.write(this.#encode(index), offset);
    await this.#file.sync();
    this.#notedIndex = index;
  }

  /** The log is durable up to this index. Costs the caller nothing and may be lost. */
  note(index: number): void {
    if (index <= this.#notedIndex) return;
    this.#notedIndex = index;
    this.#noting = this.#noting
      .then(() => this.#write(index))
      .catch(() => {
        // The older note is still true; the log itself reports what is wrong with the disk.
      });
  }

  async #write(index: number): Promise<void> {
    // More notes came while this one was being written.
    if (index < this.#notedIndex) return;
    await this.#file.write(this.#encode(index), places[this.#place] as number);
    this.#place = 1 - this.#place;
  }

  close(): Promise<void> {
    this.#closing ??= this.#noting.then(() => this.#file.close());
    return this.#closing;
  }

  #encode(index: number): Buffer {
    const bytes = Buffer.alloc(noteBytes);
    bytes.writeUInt32LE(magic, 0);
    bytes.writeUInt32LE(1, 4);
    for (const [offset, value] of [
      [8, this.#storeId],
      [16, index],
    ] as const) {
      bytes.writeUInt32LE(value % two32, offset);
      bytes.writeUInt32LE(Math.floor(value / two32), offset + 4);
    }
    bytes.writeUInt32LE(crc32(bytes.subarray(0, 24)), 24);
    return bytes;
  }
}

function decode(bytes: Buffer): Testimony | undefined {
  if (bytes.length < noteBytes || bytes.readUInt32LE(0) !== magic) return undefined;
  if (bytes.readUInt32LE(24) !== crc32(bytes.subarray(0, 24))) return undefined;
  const number = (at: number): number =>
    bytes.readUInt32LE(at + 4) * two32 + bytes.readUInt32LE(at);
  return { storeId: number(8), index: number(16) };
}
