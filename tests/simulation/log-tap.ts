/** Stands between the engine and its log and tells the ledger what goes through. */

import type { FaultError, Log } from "@codeq/engine";
import { headerBytes } from "../../packages/engine/src/log/log.ts";
import type { Ledger, LedgerEvent, LedgerRecord } from "./ledger.ts";

export interface TapOptions {
  readonly ledger: Ledger;
  readonly now: () => { readonly atMs: number; readonly wallMs: number };
  readonly isAlive: () => boolean;
  readonly onEvent: (event: LedgerEvent) => void;
  readonly trace: (line: string) => void;
  /** The log does not do what it says, or is told what cannot be. */
  readonly onLie: (finding: string) => void;
}

export interface TappedLog extends Log {
  /** Whether records are on their way to the log. */
  readonly isAppending: boolean;
}

export function tapLog(log: Log, options: TapOptions): TappedLog {
  const { ledger } = options;
  let inFlight = 0;
  const settle = (record: LedgerRecord, fault: FaultError | undefined): void => {
    const { index } = record;
    if (fault?.code === "disk_full") ledger.rewindTo(index - 1);
    if (fault !== undefined) return;
    record.durableMs = options.now().atMs;
    if (log.lastIndex < index) {
      options.onLie(`record ${index} was acknowledged and the log ends at ${log.lastIndex}`);
      ledger.rewindTo(log.lastIndex);
    }
  };
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
    get canAppend() {
      return log.canAppend;
    },
    get isAppending() {
      return inFlight > 0;
    },
    append: (frame, appended) => {
      // What a process does after its end reaches no disk.
      if (!options.isAlive()) return;
      const index = ledger.lastIndex + 1;
      if (inFlight === 0 && log.lastIndex + 1 !== index) {
        options.onLie(`record ${index} is appended and the log ends at ${log.lastIndex}`);
      }
      const body = frame.buffer.subarray(headerBytes, headerBytes + frame.bodyBytes);
      const record = ledger.append({ index, ...options.now() }, body, options);
      for (const event of record.events) options.trace(`log ${index} ${event.kind} ${event.id}`);
      inFlight += 1;
      log.append(frame, (fault) => {
        inFlight -= 1;
        if (fault !== undefined) options.trace(`log ${index} refused: ${fault.code}`);
        if (options.isAlive()) settle(record, fault);
        appended(fault, index);
      });
    },
    sync: () => log.sync(),
    readFrom: (index) => log.readFrom(index),
    trim: (index) => log.trim(index),
    close: () => log.close(),
  };
}
