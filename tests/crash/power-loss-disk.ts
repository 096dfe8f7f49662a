/**
 * Real files that can lose power. Everything is written through to the directory at once and noted
 * until it is synced. `losePower` then leaves what a power failure may leave: everything that was
 * synced, and of the rest any part, sector by sector; names change back from some point on. When
 * only the process ends, everything is there for the next one, which gets the notes, too.
 *
 * The failure comes at a given operation, which is cut short by it; all later ones are refused. Syncs
 * only take note: what the real device does is not looked at. Those under way at the same time end
 * in any order.
 */
import {
  closeSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { type Disk, type DiskDone, type DiskFile, NodeDisk } from "@codeq/engine";
import { callBack, type SimRandom, settle } from "@codeq/simulated";

interface UnsyncedWrite {
  readonly position: number;
  /** Shorter than `after` where the file ended. */
  readonly before: Buffer;
  readonly after: Buffer;
  readonly bytesBefore: number;
  isDone: boolean;
}

/** What a file holds, under whatever name and through however many handles. */
interface Content {
  name: string;
  bytes: number;
  unsynced: UnsyncedWrite[];
  /** One write at a time, since each has to read what it replaces. */
  last: Promise<void>;
}

interface NameChange {
  undo(): void;
  /** Called when it cannot be undone any more. */
  forget(): void;
}

interface Options {
  readonly random: SimRandom;
  /** How many operations there are before the failure. */
  readonly operations: number;
  /** The disk of a process that ended and left its writes to the operating system. */
  readonly after: PowerLossDisk | undefined;
}

const sectorBytes = 512;
const syncTurnsMax = 4;

export class PowerLossDisk implements Disk {
  readonly #inner: NodeDisk;
  readonly random: SimRandom;
  #contents: Map<string, Content> = new Map();
  readonly #graves: string;
  #changes: NameChange[] = [];
  #graveCount = 0;
  #left: number;
  #onLost: () => void = () => {};
  /** Resolves at the failure. */
  readonly lost: Promise<void> = new Promise((resolve) => {
    this.#onLost = resolve;
  });
  isLost = false;
  syncsInFlight = 0;

  private constructor(parts: Options & { readonly inner: NodeDisk }) {
    this.#inner = parts.inner;
    this.random = parts.random;
    this.#left = parts.operations;
    this.#graves = join(parts.inner.directory, "graves");
    mkdirSync(this.#graves, { recursive: true });
    if (parts.after !== undefined) this.#takeOver(parts.after);
  }

  /** Power fails at the given operation, counted from 1. */
  static async open(directory: string, options: Options): Promise<PowerLossDisk> {
    return new PowerLossDisk({ inner: await NodeDisk.open(directory), ...options });
  }

  async open(name: string, options: { readonly create?: boolean } = {}): Promise<DiskFile> {
    this.#count();
    const isNew = options.create === true && !(await this.#inner.list()).includes(name);
    const file = await this.#inner.open(name, options);
    if (isNew) {
      this.#changes.push({ undo: () => this.#removeNow(name), forget: () => {} });
    }
    let content = this.#contents.get(name);
    if (content === undefined) {
      content = { name, bytes: await file.size(), unsynced: [], last: Promise.resolve() };
      this.#contents.set(name, content);
    }
    return new PowerLossFile(this, file, content);
  }

  list(): Promise<string[]> {
    this.#count();
    return this.#inner.list();
  }

  async rename(from: string, to: string): Promise<void> {
    this.#count();
    const replaced = (await this.#inner.list()).includes(to) ? this.#bury(to) : undefined;
    const content = this.#contents.get(from);
    await this.#inner.rename(from, to);
    this.#changes.push({
      undo: () => {
        renameSync(this.#path(to), this.#path(from));
        if (content !== undefined) content.name = from;
        replaced?.undo();
      },
      forget: () => replaced?.forget(),
    });
    if (content === undefined) return;
    this.#contents.delete(from);
    this.#contents.set(to, content);
    content.name = to;
  }

  async remove(name: string): Promise<void> {
    this.#count();
    this.#changes.push(this.#bury(name));
    this.#contents.delete(name);
  }

  async syncDirectory(): Promise<void> {
    this.#count();
    const covered = [...this.#changes];
    await settle(1);
    if (this.isLost) throw powerFailure();
    for (const change of covered) change.forget();
    this.#changes = this.#changes.filter((change) => !covered.includes(change));
  }

  freeBytes(): Promise<number> {
    return Promise.resolve(Number.MAX_SAFE_INTEGER);
  }

  /** The power has failed elsewhere, and so it has here. */
  fail(): void {
    this.#left = 0;
    if (this.isLost) return;
    this.isLost = true;
    this.#onLost();
  }

  /**
   * Leaves in the directory what the failure spared. Nobody may have a file open any more. Returns whether
   * anything was not yet synced.
   */
  losePower(): boolean {
    const contents = new Set(this.#contents.values());
    const isCut =
      this.#changes.length > 0 || [...contents].some((each) => each.unsynced.length > 0);
    const kept = this.random.int(this.#changes.length + 1);
    for (const change of this.#changes.splice(kept).reverse()) change.undo();
    for (const change of this.#changes) change.forget();
    for (const content of contents) this.#loseWrites(content);
    rmSync(this.#graves, { recursive: true });
    return isCut;
  }

  /** Called at the start of every operation of a file, too. */
  count(): void {
    this.#count();
  }

  #count(): void {
    this.#left -= 1;
    if (this.#left <= 0) this.fail();
    if (this.isLost) throw powerFailure();
  }

  #takeOver(before: PowerLossDisk): void {
    for (const [name, content] of before.#contents) {
      content.unsynced = content.unsynced.filter(({ isDone }) => isDone);
      this.#contents.set(name, content);
    }
    this.#changes = before.#changes;
    this.#graveCount = before.#graveCount;
    // What the changes do when they are undone concerns the names that are known here.
    before.#contents = this.#contents;
  }

  #loseWrites({ name, unsynced }: Content): void {
    const first = unsynced[0];
    if (first === undefined) return;
    let fd: number;
    try {
      fd = openSync(this.#path(name), "r+");
    } catch {
      // Its name was lost together with what it held.
      return;
    }
    for (const write of unsynced.toReversed()) {
      writeSync(fd, write.before, 0, write.before.length, write.position);
    }
    ftruncateSync(fd, Math.min(...unsynced.map(({ bytesBefore }) => bytesBefore)));
    const survives = this.#survival();
    for (const write of unsynced) {
      for (const [start, end] of sectorsOf(write)) {
        if (!survives()) continue;
        writeSync(fd, write.after, start - write.position, end - start, start);
      }
    }
    closeSync(fd);
  }

  /** Whether the next sector made it: none, all, those at the front, or any. */
  #survival(): () => boolean {
    const random = this.random;
    const kind = random.int(4);
    let isOver = false;
    const odds = random.next();
    return () => {
      if (kind === 0) return false;
      if (kind === 1) return true;
      if (kind === 2) return random.next() < odds;
      isOver ||= random.next() < 0.1;
      return !isOver;
    };
  }

  #bury(name: string): NameChange {
    this.#graveCount += 1;
    const grave = join(this.#graves, String(this.#graveCount));
    const content = this.#contents.get(name);
    renameSync(this.#path(name), grave);
    return {
      undo: () => {
        renameSync(grave, this.#path(name));
        if (content === undefined) return;
        content.name = name;
        this.#contents.set(name, content);
      },
      forget: () => rmSync(grave, { force: true }),
    };
  }

  #removeNow(name: string): void {
    this.#contents.delete(name);
    rmSync(this.#path(name), { force: true });
  }

  #path(name: string): string {
    return join(this.#inner.directory, name);
  }
}

class PowerLossFile implements DiskFile {
  readonly #disk: PowerLossDisk;
  readonly #inner: DiskFile;
  readonly #content: Content;

  constructor(disk: PowerLossDisk, inner: DiskFile, content: Content) {
    this.#disk = disk;
    this.#inner = inner;
    this.#content = content;
  }

  write(bytes: Uint8Array, position: number): Promise<void> {
    const content = this.#content;
    const written = content.last.then(() => this.#write(Buffer.from(bytes), position));
    content.last = written.catch(() => {});
    return written;
  }

  async #write(after: Buffer, position: number): Promise<void> {
    const content = this.#content;
    // A write that is cut short by the failure may have got anywhere.
    const before = await this.#inner.read(position, after.length);
    const bytesBefore = content.bytes;
    const write: UnsyncedWrite = { position, before, after, bytesBefore, isDone: false };
    if (!this.#disk.isLost) content.unsynced.push(write);
    this.#disk.count();
    await this.#inner.write(after, position);
    content.bytes = Math.max(content.bytes, position + after.length);
    write.isDone = true;
    if (this.#disk.isLost) throw powerFailure();
  }

  async read(position: number, length: number): Promise<Buffer> {
    this.#disk.count();
    return this.#inner.read(position, length);
  }

  async size(): Promise<number> {
    this.#disk.count();
    return this.#inner.size();
  }

  async sync(): Promise<void> {
    this.#disk.count();
    const covered = this.#content.unsynced.filter(({ isDone }) => isDone);
    this.#disk.syncsInFlight += 1;
    try {
      await settle(1 + this.#disk.random.int(syncTurnsMax));
    } finally {
      this.#disk.syncsInFlight -= 1;
    }
    if (this.#disk.isLost) throw powerFailure();
    this.#content.unsynced = this.#content.unsynced.filter((write) => !covered.includes(write));
  }

  writeThen(bytes: Uint8Array, position: number, done: DiskDone): void {
    callBack(this.write(bytes, position), done);
  }

  syncThen(done: DiskDone): void {
    callBack(this.sync(), done);
  }

  close(): Promise<void> {
    return this.#inner.close();
  }
}

function* sectorsOf({ position, after }: UnsyncedWrite): Generator<readonly [number, number]> {
  const end = position + after.length;
  for (let start = position; start < end; ) {
    const next = Math.min(end, (Math.floor(start / sectorBytes) + 1) * sectorBytes);
    yield [start, next];
    start = next;
  }
}

function powerFailure(): Error {
  return Object.assign(new Error("EIO: the power has failed"), { code: "EIO" });
}
