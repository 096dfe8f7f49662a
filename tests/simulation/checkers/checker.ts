/**
 * A checker watches a run for one promise. It is told what goes to the log, what is asked and
 * answered, when the server ends and comes back, and from time to time it is shown the whole store.
 * Every method is optional; a checker that finds the promise broken calls `report`.
 */
import type { Result, Task } from "@codeq/queue";
import type { AnyExchange, AnyRequest } from "../exchange.ts";
import type { LedgerEvent, LedgerRecord } from "../ledger.ts";
import type { StoreView } from "../store-view.ts";
import type { CrashMode } from "../weather.ts";
import type { Life, World } from "../world.ts";

export interface Checker {
  /** A task is about to change in the ledger. */
  event?(event: LedgerEvent): void;
  invoked?(request: AnyRequest): void;
  answered?(exchange: AnyExchange): void;
  posted?(task: Task, result: Result): void;
  died?(mode: CrashMode): void;
  /** Nothing ran for so long, up to now. */
  stalled?(ms: number): void;
  /** A start has read the log; the ledger has lost what the log has lost. */
  recovered?(recovery: Recovery): void;
  started?(life: Life): void;
  notStarted?(error: unknown): void;
  /** After every step. */
  stepped?(): void;
  /** Often, and always after a start. */
  looked?(view: StoreView): void;
  /** After everything has been given the time to finish. */
  ended?(view: StoreView): void;
}

export interface Recovery {
  /** The last record that the log still has. */
  readonly lastIndex: number;
  readonly lost: readonly LedgerRecord[];
  /** Whether the mode allows that something acknowledged at this time is lost. */
  mayHaveLost(acknowledgedMs: number): boolean;
}

export interface Watch {
  readonly world: World;
  report(finding: string): void;
}

export type MakeChecker = (watch: Watch) => Checker;
