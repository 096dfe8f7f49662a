/**
 * Where everything is kept that is no task: API keys, audit records, subscriptions, bulk jobs. A server alone
 * has it in its own store; the nodes of a cluster share it.
 *
 * - Memory follows what is kept: listeners hear of every write once it is durable, in the order of the
 *   log, also of writes of other nodes. A commit resolves after the listeners of this server were told.
 * - A commit may name records as it knows them. If one of them is another by then, nothing is written.
 */
import type { EngineState } from "@codeq/engine";
import type { ControlRecords } from "./control-records.ts";
import type { RecordText, RecordWrite } from "./store.ts";

export interface ControlStore {
  readonly state: EngineState;
  readonly records: ControlRecords;
  /** Whether this server does what one of all nodes does for all of them. */
  readonly isInCharge: boolean;
  /** Throws what `commit` would throw now. */
  assertWritable(): void;
  /** The same for records that are only removed. */
  assertDeletable(): void;
  /** False when a record is not as expected; its listeners have heard of it then. */
  commit(writes: readonly RecordWrite[], expected?: readonly RecordText[]): Promise<boolean>;
  /** Has it read what is there. Resolves when it has, or at once when there is nothing to read yet. */
  listen(listener: ControlListener): Promise<void>;
}

export interface ControlListener {
  /** Called for every record; `changeIn` says what it means to one kind. */
  changed(write: RecordText): void;
  /** Forgets everything, and reads it from the records. */
  load(records: ControlRecords): Promise<void>;
  /** What it knows may be out of date until it loads again. */
  doubt?(): void;
  /** This server is in charge from now on. */
  takeCharge?(): void;
}

/** Tells those who listen of writes. */
export function tell(listeners: Iterable<ControlListener>, writes: Iterable<RecordText>): void {
  for (const write of writes) for (const listener of listeners) listener.changed(write);
}
