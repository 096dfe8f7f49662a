/**
 * The contents of a kv, to be copied to another node: all entries as they were at one moment, and with them
 * the position in the log that they are at. Values carry their checksums with them.
 *
 * An installation that was interrupted is known by a mark and begins again from nothing.
 */
import { createHash, type Hash } from "node:crypto";
import { FaultError } from "./fault.ts";
import { assertSameStore, positionKey, readPosition, readStoredPlace } from "./flusher.ts";
import type { Kv, KvEntry } from "./kv/kv.ts";

const installingKey = "codeq/meta/installing";
const everything = { after: "", before: "\x7f" } as const;
const pieceEntries = 2000;

export interface SnapshotEnd {
  readonly entries: number;
  /** Of all pieces, in their order. */
  readonly hash: string;
}

/** Reads a kv piece by piece; the last words say how much it was. */
export class SnapshotReader {
  readonly #cursor: ReturnType<Kv["cursor"]>;
  readonly #hash: Hash = createHash("sha256");
  #entries = 0;

  /** Throws when the kv is empty, or itself half of an installation. */
  constructor(kv: Kv) {
    if (readStoredPlace(kv) === undefined || isInstalling(kv)) {
      throw new FaultError("behind", "this node has no copy of the shard itself");
    }
    this.#cursor = kv.cursor(everything);
  }

  /** Undefined at the end. */
  async next(): Promise<Buffer | undefined> {
    const entries = await this.#cursor.next(pieceEntries);
    if (entries.length === 0) return undefined;
    const piece = encodeEntries(entries);
    this.#entries += entries.length;
    this.#hash.update(piece);
    return piece;
  }

  get end(): SnapshotEnd {
    return { entries: this.#entries, hash: this.#hash.digest("hex") };
  }

  async close(): Promise<void> {
    await this.#cursor.close();
  }
}

/** Writes what a reader has read, in the place of everything that is there. */
export class SnapshotWriter {
  readonly #kv: Kv;
  readonly #hash: Hash = createHash("sha256");
  #entries = 0;
  #position: Buffer | undefined;

  private constructor(kv: Kv) {
    this.#kv = kv;
  }

  static async begin(kv: Kv): Promise<SnapshotWriter> {
    const batch = kv.batch();
    batch.put(installingKey, Buffer.from("1"));
    await batch.write({ sync: true });
    const cursor = kv.cursor(everything);
    for (;;) {
      const entries = await cursor.next(pieceEntries);
      if (entries.length === 0) break;
      const removal = kv.batch();
      for (const [key] of entries) if (key !== installingKey) removal.del(key);
      await removal.write({ sync: false });
    }
    await cursor.close();
    return new SnapshotWriter(kv);
  }

  async add(piece: Buffer): Promise<void> {
    this.#hash.update(piece);
    const batch = this.#kv.batch();
    for (const [key, value] of decodeEntries(piece)) {
      this.#entries += 1;
      if (key === positionKey) this.#position = value;
      else batch.put(key, value);
    }
    await batch.write({ sync: false });
  }

  /** The copy counts from now on. Throws when it is not what was read, or of another log. */
  async finish(end: SnapshotEnd, identity: number): Promise<void> {
    const isWhole = end.entries === this.#entries && end.hash === this.#hash.digest("hex");
    if (!isWhole || this.#position === undefined) {
      throw new FaultError("storage_failed", "the copy of a shard did not arrive whole");
    }
    const position = this.#kv.batch();
    position.put(positionKey, this.#position);
    await position.write({ sync: false });
    assertSameStore(this.#kv, identity);
    const mark = this.#kv.batch();
    mark.del(installingKey);
    await mark.write({ sync: true });
    // A kv makes durable what was noted; a copy that a restart takes back must not count for a trim.
    await this.#kv.files?.noteWritten(readPosition(this.#kv));
    await this.#kv.files?.makeDurable();
  }
}

/** Whether a copy was begun and not finished; what is there means nothing. */
export function isInstalling(kv: Kv): boolean {
  return kv.get(installingKey) !== undefined;
}

function encodeEntries(entries: readonly KvEntry[]): Buffer {
  const parts: Buffer[] = [];
  for (const [key, value] of entries) {
    const head = Buffer.allocUnsafe(8);
    head.writeUInt32LE(key.length, 0);
    head.writeUInt32LE(value.length, 4);
    parts.push(head, Buffer.from(key, "latin1"), value);
  }
  return Buffer.concat(parts);
}

function* decodeEntries(piece: Buffer): Generator<KvEntry> {
  for (let at = 0; at < piece.length; ) {
    const keyEnd = at + 8 + piece.readUInt32LE(at);
    const end = keyEnd + piece.readUInt32LE(at + 4);
    yield [piece.toString("latin1", at + 8, keyEnd), piece.subarray(keyEnd, end)];
    at = end;
  }
}
