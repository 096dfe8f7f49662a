/** Stands between the engine and its log and tells the ledger what goes through. */

import type { FaultError, Log } from "@codeq/engine";
import { headerBytes } from "../../packages/engine/src/log/log.ts";
import type { Ledger, LedgerEvent } from "./ledger.ts";

export interface TapOptions {
  readonly ledger: Ledger;
  readonly now: () => { readonly atMs: number; readonly wallMs: number };
  readonly isAlive: () => boolean;
  readonly onEvent: (event: LedgerEvent) => void;
  readonly trace: (line: string) => void;
  /** The log does not do what it says. */
  readonly onLie: (finding: string) => void;
}

export interface TappedLog extends Log {
  /** Whether a record is on its way to the log. */
  readonly isAppending: boolean;
}

export function tapLog(log: Log, options: TapOptions): TappedLog {
  const { ledger } = options;
  let isAppending = false;
  return {
    get firstIndex() {
      return log.firstIndex;
    },
    get lastIndex() {
      return log.lastIndex;
    },
    get bytes() {
      return log.bytes;
    },
    get isAppending() {
      return isAppending;
    },
    append: async (frame) => {
      // What a process does after its end reaches no disk.
      if (!options.isAlive()) return new Promise(() => {});
      const index = log.lastIndex + 1;
      const body = frame.buffer.subarray(headerBytes, headerBytes + frame.bodyBytes);
      const record = ledger.append({ index, ...options.now() }, body, options.onEvent);
      for (const event of record.events) options.trace(`log ${index} ${event.kind} ${event.id}`);
      isAppending = true;
      try {
        await log.append(frame);
        if (!options.isAlive()) return index;
        record.durableMs = options.now().atMs;
        if (log.lastIndex < index) {
          options.onLie(`record ${index} was acknowledged and the log ends at ${log.lastIndex}`);
          ledger.rewindTo(log.lastIndex);
        }
        return index;
      } catch (error) {
        const { code } = error as FaultError;
        options.trace(`log ${index} refused: ${code}`);
        if (code === "disk_full" && options.isAlive()) ledger.rewindTo(index - 1);
        throw error;
      } finally {
        isAppending = false;
      }
    },
    sync: () => log.sync(),
    readFrom: (index) => log.readFrom(index),
    trim: (index) => log.trim(index),
    close: () => log.close(),
  };
}
