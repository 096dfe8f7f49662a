/**
 * The content of one simulated file: what every reader sees, what a power failure is certain to
 * leave, and the writes in between.
 *
 * Assumes the weakest disk that is still honest about a successful sync: unsynced writes reach it
 * in any order, in any selection, and in single sectors.
 */

const sectorBytes = 512;

export interface SimWrite {
  readonly position: number;
  readonly bytes: Buffer;
}

export class SimContent {
  readonly live: GrowingBytes;
  readonly #synced: GrowingBytes;
  #unsynced: SimWrite[] = [];
  /** How often something could not be brought to the disk. */
  failures = 0;
  /** The code of the last of them. */
  failureCode = "";

  constructor(bytes: Buffer = Buffer.alloc(0)) {
    this.live = new GrowingBytes(bytes);
    this.#synced = new GrowingBytes(bytes);
  }

  write(write: SimWrite): void {
    this.live.write(write);
    this.#unsynced.push(write);
  }

  /** The writes that a sync which starts now will cover. */
  unsynced(): readonly SimWrite[] {
    return [...this.#unsynced];
  }

  markSynced(writes: readonly SimWrite[]): void {
    const done = new Set(writes);
    for (const write of this.#unsynced) if (done.has(write)) this.#synced.write(write);
    this.#unsynced = this.#unsynced.filter((write) => !done.has(write));
  }

  /**
   * A kernel that failed to write a page back calls it clean: some writes can be read as long as
   * the machine is up, and no later sync will save them. Writes since the sync began may share a
   * page with those it covers.
   */
  failSync(code: string, random: () => number): void {
    this.#unsynced = this.#unsynced.filter(() => random() < 0.5);
    this.failures += 1;
    this.failureCode = code;
  }

  afterPowerLoss(random: () => number): SimContent {
    const image = new GrowingBytes(this.#synced.copy());
    const inOrder = random() < 0.5;
    const kept = inOrder ? Math.floor(random() * (this.#unsynced.length + 1)) : Infinity;
    for (const [position, write] of this.#unsynced.entries()) {
      if (position > kept || (!inOrder && random() < 0.5)) continue;
      const whole = position !== kept && random() < 0.7;
      for (const part of whole ? [write] : tear(write, random)) image.write(part);
    }
    return new SimContent(image.copy());
  }
}

/** What is left of a write: everything up to some byte, or any of its sectors. */
export function tear(write: SimWrite, random: () => number): SimWrite[] {
  const { position, bytes } = write;
  if (random() < 0.5) {
    return [{ position, bytes: bytes.subarray(0, Math.floor(random() * (bytes.length + 1))) }];
  }
  const sectors: SimWrite[] = [];
  for (let start = 0; start < bytes.length; ) {
    const end = Math.min(bytes.length, start + sectorBytes - ((position + start) % sectorBytes));
    if (random() < 0.5) {
      sectors.push({ position: position + start, bytes: bytes.subarray(start, end) });
    }
    start = end;
  }
  return sectors;
}

/** Bytes that grow as they are written to, with zeros in the holes. */
class GrowingBytes {
  #buffer: Buffer;
  #size: number;

  constructor(bytes: Buffer) {
    this.#buffer = Buffer.from(bytes);
    this.#size = bytes.length;
  }

  get size(): number {
    return this.#size;
  }

  write({ position, bytes }: SimWrite): void {
    const end = position + bytes.length;
    if (bytes.length === 0) return;
    if (end > this.#buffer.length) {
      const grown = Buffer.alloc(Math.max(end, this.#buffer.length * 2));
      grown.set(this.#buffer.subarray(0, this.#size));
      this.#buffer = grown;
    }
    this.#buffer.set(bytes, position);
    this.#size = Math.max(this.#size, end);
  }

  read(position: number, length: number): Buffer {
    const end = Math.min(this.#size, position + length);
    return Buffer.from(this.#buffer.subarray(Math.min(position, end), end));
  }

  copy(): Buffer {
    return this.read(0, this.#size);
  }
}
