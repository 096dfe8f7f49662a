/**
 * A kv that outlives its process: the contents are handed from life to life. A batch takes its time,
 * may be refused for lack of space, may be kept although it was reported as failed, and may be the
 * last thing that a process does. Reads of a range may take their time, too.
 */
import { FaultError, type Kv, type KvCursor, MemoryKv } from "@codeq/engine";

export interface KvFaults {
  /** Waits as long as the kv takes; never comes back in a process that is gone. */
  pause(): Promise<void>;
  /** The fault that the next batch meets, if any, and whether it is kept all the same. */
  next(): { readonly code: "disk_full" | "storage_failed"; readonly kept: boolean } | undefined;
  isFull(): boolean;
  /** May end the process, before or after the batch took effect. */
  mayCrash(when: "before" | "after"): void;
}

export function simKv(contents: Map<string, Buffer>, faults: KvFaults): Kv {
  const kv = new MemoryKv({ contents });
  const slowly = <Value>(cursor: KvCursor<Value>): KvCursor<Value> => ({
    next: async (count) => {
      await faults.pause();
      return cursor.next(count);
    },
    close: () => cursor.close(),
  });
  return {
    get: (key) => kv.get(key),
    getText: (key) => kv.getText(key),
    cursor: (range) => slowly(kv.cursor(range)),
    textCursor: (range) => slowly(kv.textCursor(range)),
    write: async (writes) => {
      const batch = [...writes];
      const fault = faults.next();
      faults.mayCrash("before");
      await faults.pause();
      if (fault === undefined || fault.kept) await kv.write(batch);
      faults.mayCrash("after");
      await faults.pause();
      if (fault !== undefined) throw new FaultError(fault.code, "simulated kv fault");
    },
    recover: async () => {
      await faults.pause();
      if (faults.isFull()) throw new FaultError("disk_full", "simulated: still no space");
    },
    stats: () => kv.stats(),
    close: () => kv.close(),
  };
}
