/** Enqueue tasks of codeQ in a transaction of Postgres: the producing side, the relay and the migration. */

export { migrationSql } from "./migration.ts";
export {
  createOutbox,
  type OnceOptions,
  Outbox,
  type OutboxAdapter,
  type OutboxEnqueueArguments,
  type OutboxEnqueueOptions,
  type OutboxItem,
  type OutboxOptions,
} from "./outbox.ts";
export {
  type RefusedRow,
  Relay,
  type RelayListeners,
  type RelayOptions,
  startRelay,
} from "./relay.ts";
export { metricsText, type OutboxStatus, outboxStatus, retryRefused } from "./status.ts";
