/**
 * A disk that lives in memory and misbehaves on request.
 *
 * Everything it does follows from the calls it gets, `random` and `latency`: no clock, no other
 * source of chance. Writes become durable by the file's `sync`, names by `syncDirectory`, as on a
 * file system that promises no more than POSIX does. After `crash` the object is dead: what was in
 * flight and whatever is asked later never settles, like the work of a process that is gone.
 */
import type { Disk, DiskDone, DiskFile } from "@codeq/engine";
import { SimContent, type SimWrite, tear } from "./sim-content.ts";

export type SimDiskOperation =
  | "open"
  | "list"
  | "rename"
  | "remove"
  | "syncDirectory"
  | "freeBytes"
  | "write"
  | "read"
  | "size"
  | "sync"
  | "close";

export interface SimDiskOptions {
  /** A number from 0 up to but not including 1. */
  readonly random: () => number;
  /** How long an operation takes; its effect comes at the end. Default: a microtask. */
  readonly latency?: (operation: SimDiskOperation) => Promise<void>;
  /** The capacity for all files together; a write that needs more fails with ENOSPC. */
  readonly capacityBytes?: number;
}

/** The names of a directory and what they stand for. */
type Names = Map<string, SimContent>;
type NameChange = (names: Names) => void;

interface InFlight {
  /** What may have happened, in part, when the process ends now. */
  interrupt(): void;
}

export class SimDisk implements Disk {
  readonly #options: SimDiskOptions;
  readonly #names: Names;
  readonly #syncedNames: Names;
  #unsyncedChanges: NameChange[] = [];
  readonly #inFlight = new Set<InFlight>();
  readonly #faults: { operation: SimDiskOperation; code: string }[] = [];
  readonly #delays: { operation: SimDiskOperation; until: Promise<void> }[] = [];
  #dead = false;
  capacityBytes: number;

  constructor(options: SimDiskOptions) {
    this.#options = options;
    this.#names = new Map();
    this.#syncedNames = new Map();
    this.capacityBytes = options.capacityBytes ?? Number.MAX_SAFE_INTEGER;
  }

  /** Lets the next operation of a kind that has no fault yet fail, a write after any part of it. */
  failNext(operation: SimDiskOperation, code: string): void {
    this.#faults.push({ operation, code });
  }

  /** Lets the next operation of a kind wait for `until`, on top of its latency. */
  slow(operation: SimDiskOperation, until: Promise<void>): void {
    this.#delays.push({ operation, until });
  }

  /**
   * The disk that the next process finds. After the end of a `process` every finished write is
   * there, still unsynced, with any part of one that was not finished. After a `power` failure only
   * what was synced is certain.
   */
  crash(mode: "process" | "power"): SimDisk {
    this.#dead = true;
    for (const operation of this.#inFlight) operation.interrupt();
    const next = new SimDisk({ ...this.#options, capacityBytes: this.capacityBytes });
    if (mode === "process") {
      for (const [name, content] of this.#names) next.#names.set(name, content);
      for (const [name, content] of this.#syncedNames) next.#syncedNames.set(name, content);
      next.#unsyncedChanges = this.#unsyncedChanges;
      return next;
    }
    const { random } = this.#options;
    const names = new Map(this.#syncedNames);
    for (const change of this.#unsyncedChanges) if (random() < 0.5) change(names);
    for (const [name, content] of names) {
      const image = content.afterPowerLoss(random);
      next.#names.set(name, image);
      next.#syncedNames.set(name, image);
    }
    return next;
  }

  open(name: string, options: { readonly create?: boolean } = {}): Promise<DiskFile> {
    const create = (): void => {
      const content = new SimContent();
      this.#change((names) => {
        if (!names.has(name)) names.set(name, content);
      });
    };
    const missing = (): boolean => options.create === true && !this.#names.has(name);
    return this.#run("open", {
      apply: () => {
        if (missing()) create();
        const content = this.#names.get(name);
        if (content === undefined) throw systemError("ENOENT", name);
        return this.#file(content);
      },
      interrupt: () => {
        if (missing()) create();
      },
    });
  }

  list(): Promise<string[]> {
    return this.#run("list", { apply: () => [...this.#names.keys()].sort() });
  }

  rename(from: string, to: string): Promise<void> {
    return this.#changeName("rename", from, (names) => {
      const content = names.get(from);
      if (content === undefined) return;
      names.delete(from);
      names.set(to, content);
    });
  }

  remove(name: string): Promise<void> {
    return this.#changeName("remove", name, (names) => {
      names.delete(name);
    });
  }

  syncDirectory(): Promise<void> {
    const covered = new Set(this.#unsyncedChanges);
    return this.#run("syncDirectory", {
      apply: () => {
        for (const change of this.#unsyncedChanges) {
          if (covered.has(change)) change(this.#syncedNames);
        }
        this.#unsyncedChanges = this.#unsyncedChanges.filter((change) => !covered.has(change));
      },
    });
  }

  freeBytes(): Promise<number> {
    return this.#run("freeBytes", { apply: () => Math.max(0, this.#room()) });
  }

  #changeName(operation: "rename" | "remove", name: string, change: NameChange): Promise<void> {
    return this.#run(operation, {
      apply: () => {
        if (!this.#names.has(name)) throw systemError("ENOENT", name);
        this.#change(change);
      },
      interrupt: () => {
        if (this.#names.has(name)) this.#change(change);
      },
    });
  }

  #change(change: NameChange): void {
    change(this.#names);
    this.#unsyncedChanges.push(change);
  }

  #room(): number {
    let used = 0;
    for (const content of this.#names.values()) used += content.live.size;
    return this.capacityBytes - used;
  }

  #file(content: SimContent): DiskFile {
    let open = true;
    let failuresSeen = content.failures;
    const run = <T>(operation: SimDiskOperation, steps: Steps<T>): Promise<T> => {
      if (!open) return Promise.reject(systemError("EBADF", operation));
      if (operation === "close") open = false;
      return this.#run(operation, steps);
    };
    const write = (bytes: Uint8Array, position: number): Promise<void> =>
      run("write", this.#writeSteps(content, { position, bytes: Buffer.from(bytes) }));
    const sync = (): Promise<void> => {
      const covered = content.unsynced();
      return run("sync", {
        apply: () => {
          if (failuresSeen === content.failures) content.markSynced(covered);
          else {
            failuresSeen = content.failures;
            throw systemError(content.failureCode, "sync");
          }
        },
        fail: (code) => {
          content.failSync(code, this.#options.random);
          failuresSeen = content.failures;
        },
      });
    };
    return {
      write,
      sync,
      writeThen: (bytes, position, done) => callBack(write(bytes, position), done),
      syncThen: (done) => callBack(sync(), done),
      read: (position, length) => run("read", { apply: () => content.live.read(position, length) }),
      size: () => run("size", { apply: () => content.live.size }),
      close: () => run("close", { apply: () => undefined }),
    };
  }

  #writeSteps(content: SimContent, write: SimWrite): Steps<void> {
    const { random } = this.#options;
    const { position, bytes } = write;
    const writePart = (bytesMax: number): void => {
      const length = Math.floor(random() * (bytesMax + 1));
      content.write({ position, bytes: bytes.subarray(0, length) });
    };
    return {
      apply: () => {
        const grows = Math.max(0, position + bytes.length - content.live.size);
        const missing = Math.max(0, grows - Math.max(0, this.#room()));
        if (missing > 0) {
          writePart(Math.max(0, bytes.length - missing));
          throw systemError("ENOSPC", "write");
        }
        content.write(write);
      },
      fail: () => writePart(Math.max(0, bytes.length - 1)),
      interrupt: () => {
        // A killed process leaves the front of a write; the sectors matter when power fails next.
        if (random() < 0.5) writePart(bytes.length);
        else for (const part of tear(write, random)) content.write(part);
      },
    };
  }

  async #run<T>(operation: SimDiskOperation, steps: Steps<T>): Promise<T> {
    if (this.#dead) return never();
    const inFlight: InFlight = {
      interrupt: () => {
        if (steps.interrupt && this.#options.random() < 0.5) steps.interrupt();
      },
    };
    this.#inFlight.add(inFlight);
    const delay = takeFirst(this.#delays, operation);
    const fault = takeFirst(this.#faults, operation);
    await this.#options.latency?.(operation);
    await delay?.until;
    if (this.#dead) return never();
    this.#inFlight.delete(inFlight);
    if (fault === undefined) return steps.apply();
    steps.fail?.(fault.code);
    throw systemError(fault.code, operation);
  }
}

interface Steps<T> {
  apply(): T;
  /** The effect of an operation that fails. */
  fail?(code: string): void;
  /** What one that is cut off may have done; asked half of the time. */
  interrupt?(): void;
}

function takeFirst<T extends { operation: SimDiskOperation }>(
  list: T[],
  operation: SimDiskOperation,
): T | undefined {
  const position = list.findIndex((item) => item.operation === operation);
  return position < 0 ? undefined : list.splice(position, 1)[0];
}

function never(): Promise<never> {
  return new Promise(() => {});
}

function systemError(code: string, what: string): Error {
  return Object.assign(new Error(`${code}: simulated, ${what}`), { code });
}

/** Calls back at the end of work that is a promise, for disks that are made of those. */
export function callBack(work: Promise<void>, done: DiskDone): void {
  work.then(
    () => done(null),
    (error: Error) => done(error),
  );
}
