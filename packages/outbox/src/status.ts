/** How many rows wait and how many were refused, and how refused rows get another try. */
import { type Database, type DatabaseUrl, withDatabase } from "./database.ts";

/** The rows of an outbox. */
export interface OutboxStatus {
  /** Rows whose tasks are not created yet. */
  readonly waiting: number;
  /** The age of the oldest of them, from the begin of its transaction; 0 when none waits. */
  readonly oldestSeconds: number;
  /** Rows that the server refused; they are kept with their error. */
  readonly refused: number;
}

const countRows = `SELECT
  count(*) FILTER (WHERE refused_at IS NULL) AS waiting,
  count(*) FILTER (WHERE refused_at IS NOT NULL) AS refused,
  extract(epoch FROM clock_timestamp() - min(created_at) FILTER (WHERE refused_at IS NULL)) AS oldest
FROM codeq_outbox`;

export async function readStatus(database: Database): Promise<OutboxStatus> {
  const { rows } = await database.query(countRows);
  const { waiting, refused, oldest } = rows[0];
  return {
    waiting: Number(waiting),
    oldestSeconds: Math.max(0, Number(oldest ?? 0)),
    refused: Number(refused),
  };
}

/** Counts the rows of an outbox. */
export function outboxStatus(databaseUrl: DatabaseUrl): Promise<OutboxStatus> {
  return withDatabase(databaseUrl, readStatus);
}

/** Lets relays try refused rows again: those with these ids, or all. Resolves with their number. */
export function retryRefused(databaseUrl: DatabaseUrl, ids?: readonly string[]): Promise<number> {
  const reset = "UPDATE codeq_outbox SET refused_at = NULL, error_code = NULL, error = NULL";
  return withDatabase(databaseUrl, async (database) => {
    const { rowCount } = await database.query(
      `${reset} WHERE refused_at IS NOT NULL AND ($1::text[] IS NULL OR id::text = ANY($1))`,
      [ids ?? null],
    );
    // An update does not fire the trigger of new rows.
    await database.query("SELECT pg_notify('codeq_outbox', '')");
    return rowCount ?? 0;
  });
}

/** The status as metrics in the text format of Prometheus. */
export function metricsText(status: OutboxStatus): string {
  const gauges = [
    ["codeq_outbox_waiting", "Rows whose tasks are not created yet.", status.waiting],
    ["codeq_outbox_oldest_seconds", "Age of the oldest waiting row.", status.oldestSeconds],
    ["codeq_outbox_refused", "Rows that the server refused.", status.refused],
  ] as const;
  return gauges
    .map(
      ([name, help, value]) => `# HELP ${name} ${help}\n# TYPE ${name} gauge\n${name} ${value}\n`,
    )
    .join("");
}
