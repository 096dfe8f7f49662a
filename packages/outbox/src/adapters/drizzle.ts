/** Transactions of Drizzle: the argument of the function that `db.transaction` calls. */
import { type SQL, sql } from "drizzle-orm";

/** As much of a transaction of Drizzle as the outbox uses, over node-postgres or postgres.js. */
export interface DrizzleTransaction {
  execute(query: SQL): PromiseLike<unknown>;
}

/** The adapter for Drizzle. */
export async function drizzle(
  tx: DrizzleTransaction,
  statement: string,
  value: string,
): Promise<readonly unknown[]> {
  const [before = "", after = ""] = statement.split("$1");
  const result = await tx.execute(sql`${sql.raw(before)}${value}${sql.raw(after)}`);
  const rows = Array.isArray(result) ? result : (result as { readonly rows: unknown[] }).rows;
  return rows as readonly unknown[];
}
