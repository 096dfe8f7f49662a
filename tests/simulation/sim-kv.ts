/**
 * A kv that outlives its process: its tables are handed from life to life. A batch takes its time,
 * may be refused for lack of space, may be kept although it was reported as failed, at once or when
 * the kv has recovered, and may be the last thing that a process does. Reads of a range may take
 * their time, too.
 *
 * Batches are in a log of its own first, which is not trusted with anything and is gone with the process;
 * from time to time tables are made of everything that was written.
 */
import {
  CollectedBatch,
  FaultError,
  type Kv,
  type KvCursor,
  type KvWrite,
  MemoryKv,
} from "@codeq/engine";
import type { SimRandom } from "@codeq/simulated";

export interface KvFault {
  readonly code: "disk_full" | "storage_failed";
  /** Whether the batch is kept all the same, and when it shows. */
  readonly kept: "no" | "now" | "later";
}

export interface KvFaults {
  /** Waits as long as the kv takes; never comes back in a process that is gone. */
  pause(): Promise<void>;
  /** The fault that the next batch meets, if any. */
  next(): KvFault | undefined;
  isFull(): boolean;
  /** Whether tables are made now, of what was written. */
  makesTables(): boolean;
  /** May end the process, before or after the batch took effect. */
  mayCrash(when: "before" | "after"): void;
}

/** Of a draw from 0 to 1; every other batch is kept. */
export function keptOf(draw: number): KvFault["kept"] {
  if (draw >= 0.5) return "no";
  return draw < 0.25 ? "later" : "now";
}

/** Keys with values that readers are answered with; what indexes hold is checked with their tables. */
const rotting = ["codeq/tasks/", "codeq/payload/", "codeq/results/", "codeq/idempo/"];
const rottenMax = 6;

/** What is in the files of a kv. */
export class SimKvFiles {
  /** As a process sees it. */
  readonly contents: Map<string, Buffer> = new Map();
  /** What shows when the kv has recovered. */
  hidden: readonly KvWrite[] = [];
  /** Keys whose values are no longer what was written. */
  readonly rotten: Set<string> = new Set();
  /** Batches that are in no table, oldest first. */
  #ownLog: (readonly KvWrite[])[] = [];
  #tables: ReadonlyMap<string, Buffer> = new Map();

  logged(writes: readonly KvWrite[]): void {
    this.#ownLog.push(writes);
  }

  makeTables(): void {
    this.#tables = new Map(this.contents);
    this.#ownLog = [];
  }

  /** Changes a bit in each of some values, while no process has them open; returns their keys. */
  rot(random: SimRandom): readonly string[] {
    const keys = [...this.#tables.keys()].filter((key) =>
      rotting.some((kind) => key.startsWith(kind)),
    );
    const tables = new Map(this.#tables);
    for (let count = 1 + random.int(rottenMax); count > 0 && keys.length > 0; count -= 1) {
      const key = random.pick(keys);
      const value = Buffer.from(tables.get(key) as Buffer);
      const at = random.int(value.length);
      value[at] = (value[at] as number) ^ (1 << random.int(8));
      tables.set(key, value);
      keys.splice(keys.indexOf(key), 1);
      this.rotten.add(key);
    }
    this.#tables = tables;
    return [...this.rotten];
  }

  /** A process has ended: what is in no table is gone, but for batches of the own log that are trusted. */
  reopen(
    trusted: (ownLog: readonly (readonly KvWrite[])[]) => readonly (readonly KvWrite[])[],
  ): void {
    const kept = trusted(this.#ownLog);
    this.contents.clear();
    for (const [key, value] of this.#tables) this.contents.set(key, value);
    for (const { key, value } of kept.flat()) {
      if (value === undefined) this.contents.delete(key);
      else this.contents.set(key, value);
    }
    this.#ownLog = [];
    this.hidden = [];
    if (kept.length > 0) this.makeTables();
  }
}

export async function openSimKv(files: SimKvFiles, faults: KvFaults): Promise<Kv> {
  const kv = new MemoryKv(files);
  let writtenIndex = 0;
  let durableIndex = 0;
  const makeTables = (): void => {
    files.makeTables();
    durableIndex = writtenIndex;
  };
  const keep = async (writes: readonly KvWrite[]): Promise<void> => {
    files.logged(writes);
    await kv.write(writes);
  };
  const show = async (): Promise<void> => {
    await keep(files.hidden);
    files.hidden = [];
  };
  const slowly = <Value>(cursor: KvCursor<Value>): KvCursor<Value> => ({
    next: async (count) => {
      await faults.pause();
      return cursor.next(count);
    },
    close: () => cursor.close(),
  });
  const write = async (writes: readonly KvWrite[]): Promise<void> => {
    const fault = faults.next();
    faults.mayCrash("before");
    await faults.pause();
    if (fault?.kept === "later") files.hidden = writes;
    else if (fault?.kept !== "no") await keep(writes);
    faults.mayCrash("after");
    await faults.pause();
    if (fault !== undefined) throw new FaultError(fault.code, "simulated kv fault");
  };
  return {
    files: {
      noteWritten: async (index) => {
        writtenIndex = index;
        if (faults.makesTables()) makeTables();
        return durableIndex;
      },
      makeDurable: async () => {
        await faults.pause();
        if (!faults.isFull()) makeTables();
        return durableIndex;
      },
      reclaim: () => faults.pause(),
      scrub: () => faults.pause(),
    },
    get: (key) => kv.get(key),
    getText: (key) => kv.getText(key),
    cursor: (range) => slowly(kv.cursor(range)),
    textCursor: (range) => {
      const cursor = kv.textCursor(range);
      return { ...slowly(cursor), skipTo: (key) => cursor.skipTo(key) };
    },
    batch: () => new CollectedBatch(write),
    recover: async () => {
      await faults.pause();
      if (faults.isFull()) throw new FaultError("disk_full", "simulated: still no space");
      await show();
    },
    stats: () => kv.stats(),
    close: () => kv.close(),
  };
}
