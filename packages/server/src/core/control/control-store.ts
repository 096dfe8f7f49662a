/**
 * The control store holds everything that is not a task: API keys, audit records, subscriptions, bulk jobs. A single
 * server has it in its own store; the nodes of a cluster share it.
 *
 * - Listeners keep copies in memory: they are notified of every write once it is durable, in the order of the log,
 *   also of writes of other nodes. A commit resolves after the listeners of this server were notified.
 * - A commit may name the records that it expects. If one of them has changed, nothing is written.
 */
import type { EngineState } from "@codeq/engine";
import type { RecordText, RecordWrite } from "../store/store.ts";
import type { ControlRecords } from "./control-records.ts";

export interface ControlStore {
  readonly state: EngineState;
  readonly records: ControlRecords;
  /** Whether this server does the work that one node does for the whole cluster. */
  readonly isInCharge: boolean;
  /** Throws what `commit` would throw now. */
  assertWritable(): void;
  /** Like `assertWritable`, for commits that only remove records. */
  assertDeletable(): void;
  /** False when a record is not as expected; the listeners have been notified of it by then. */
  commit(writes: readonly RecordWrite[], expected?: readonly RecordText[]): Promise<boolean>;
  /** Resolves when this server has read everything that was committed before, on any node. */
  refresh(): Promise<void>;
  /** Loads the listener. Resolves when that is done, or at once when there is nothing to read yet. */
  listen(listener: ControlListener): Promise<void>;
}

export interface ControlListener {
  /** Called for every record; `changeIn` says what it means to one kind. */
  changed(write: RecordText): void;
  /** Drops everything, and reads it from the records again. */
  load(records: ControlRecords): Promise<void>;
  /** The copy of the listener may be out of date until it loads again. */
  doubt?(): void;
  /** This server is in charge from now on. */
  takeCharge?(): void;
}

/** Notifies listeners of writes. */
export function notify(listeners: Iterable<ControlListener>, writes: Iterable<RecordText>): void {
  for (const write of writes) for (const listener of listeners) listener.changed(write);
}
