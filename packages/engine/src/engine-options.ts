/** The options of an engine, and the state and statistics that it reports. */
import type { FaultError } from "./fault.ts";
import type { Derive } from "./flusher.ts";
import type { Kv, KvStats } from "./kv/kv.ts";
import type { Log } from "./log/log.ts";
import type { RowCodec } from "./row-codec.ts";

export interface EngineObserver {
  grouped(batches: number, bytes: number): void;
  flushed(seconds: number, entries: number): void;
  stateChanged(state: EngineState, fault: FaultError | undefined): void;
}

export interface EngineOptions {
  readonly log: Log;
  readonly kv: Kv;
  /** The kv stays open when the engine is closed. */
  readonly isKvLent?: boolean | undefined;
  /** The id of the store that log and kv belong to; undefined when they cannot be mixed up. */
  readonly storeId?: number | undefined;
  readonly rows: RowCodec;
  readonly derive: Derive;
  readonly observer: EngineObserver;
  /** Called with the stored state before the first write; throws to leave the files untouched. */
  readonly verify?: (get: (key: string) => Buffer | undefined) => void;
  readonly freeBytes: () => Promise<number>;
  readonly clock: EngineClock;
  /** Runs a function after what arrived in the same turn. */
  readonly defer: (run: () => void) => void;
  readonly minFreeBytes: number;
  /** Overlay size at which a flush begins. */
  readonly flushBytes: number;
  /** How often the log is synced in the background; undefined when appends sync, or nothing does. */
  readonly syncIntervalMs: number | undefined;
}

export interface EngineClock {
  nowMs(): number;
  monotonicMs(): number;
  after(delayMs: number, run: () => void): () => void;
}

export type EngineState = "open" | "full" | "failed" | "closed";

export interface EngineStats {
  readonly state: EngineState;
  readonly overlayEntries: number;
  readonly overlayBytes: number;
  readonly durableIndex: number;
  readonly flushedIndex: number;
  readonly logBytes: number;
  readonly waitingBytes: number;
  /** How often commits waited because the kv did not keep up, and for how long in all. */
  readonly writeStalls: number;
  readonly writeStallSeconds: number;
  readonly kv: KvStats;
}
