/** Transactions of postgres.js (`postgres`): the argument of the function that `sql.begin` calls. */

/** As much of a `TransactionSql` of `postgres` as the outbox uses. */
export interface PostgresJsTransaction {
  unsafe(statement: string, values: string[]): PromiseLike<readonly unknown[]>;
}

/** The adapter for postgres.js. */
export async function postgresJs(
  tx: PostgresJsTransaction,
  statement: string,
  value: string,
): Promise<readonly unknown[]> {
  return await tx.unsafe(statement, [value]);
}
