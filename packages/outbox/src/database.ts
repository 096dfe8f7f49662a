/** Connections of this package to Postgres, which are its own and not those of the application. */
import { CodeqError } from "@codeq/client";
import { messageOf } from "@codeq/client/outbox";
import pg from "pg";

/** The address of a database, or a function that gives it: a password may change over time. */
export type DatabaseUrl = string | (() => string | Promise<string>);

export type Database = pg.Client;

const connectMs = 10_000;
/** A connection that answers nothing for so long is given up. */
const queryMs = 30_000;
/** Postgres releases the rows of a relay that stands still in a transaction. */
const idleInTransactionMs = 60_000;

/** The caller ends it. `lost` is called once, when the connection breaks. */
export async function connect(
  databaseUrl: DatabaseUrl,
  lost: (error: Error) => void = () => {},
): Promise<Database> {
  const connectionString = typeof databaseUrl === "string" ? databaseUrl : await databaseUrl();
  const database = new pg.Client({
    connectionString,
    application_name: "codeq outbox",
    keepAlive: true,
    connectionTimeoutMillis: connectMs,
    query_timeout: queryMs,
    idle_in_transaction_session_timeout: idleInTransactionMs,
  });
  // Without a listener, the end of a connection would be the end of the process.
  database.on("error", lost);
  await database.connect();
  return database;
}

/** Runs a function with a connection of its own. */
export async function withDatabase<T>(
  databaseUrl: DatabaseUrl,
  run: (database: Database) => Promise<T>,
): Promise<T> {
  const database = await connect(databaseUrl).catch((error: unknown) => {
    throw databaseError(error);
  });
  try {
    return await run(database);
  } catch (error) {
    throw databaseError(error);
  } finally {
    await database.end();
  }
}

const undefinedTable = "42P01";

/** What Postgres or the way to it said, with what to do. The address may hold a password and is not quoted. */
export function databaseError(thrown: unknown): CodeqError {
  if (thrown instanceof CodeqError) return thrown;
  const { code } = thrown as { readonly code?: string };
  const message =
    code === undefinedTable
      ? "the tables of the outbox do not exist; run the SQL that codeq outbox sql prints"
      : `Postgres: ${messageOf(thrown)}`;
  return new CodeqError("unavailable", message, { cause: thrown });
}
