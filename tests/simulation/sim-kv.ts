/**
 * A kv that outlives its process: the contents are handed from life to life. A batch takes its time,
 * may be refused for lack of space, may be kept although it was reported as failed, at once or when
 * the kv is opened anew, and may be the last thing that a process does. Reads of a range may take
 * their time, too.
 */
import {
  CollectedBatch,
  FaultError,
  type Kv,
  type KvCursor,
  type KvWrite,
  MemoryKv,
} from "@codeq/engine";

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
  /** May end the process, before or after the batch took effect. */
  mayCrash(when: "before" | "after"): void;
}

/** Of a draw from 0 to 1; every other batch is kept. */
export function keptOf(draw: number): KvFault["kept"] {
  if (draw >= 0.5) return "no";
  return draw < 0.25 ? "later" : "now";
}

/** What is in the files of a kv. */
export interface KvFiles {
  readonly contents: Map<string, Buffer>;
  /** What shows when they are opened. */
  hidden: readonly KvWrite[];
}

export async function openSimKv(files: KvFiles, faults: KvFaults): Promise<Kv> {
  const kv = new MemoryKv(files);
  const show = async (): Promise<void> => {
    await kv.write(files.hidden);
    files.hidden = [];
  };
  await show();
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
    else if (fault?.kept !== "no") await kv.write(writes);
    faults.mayCrash("after");
    await faults.pause();
    if (fault !== undefined) throw new FaultError(fault.code, "simulated kv fault");
  };
  return {
    get: (key) => kv.get(key),
    getText: (key) => kv.getText(key),
    cursor: (range) => slowly(kv.cursor(range)),
    textCursor: (range) => slowly(kv.textCursor(range)),
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
