/** Transactions of Knex: the argument of the function that `knex.transaction` calls. */

/** As much of a `Knex.Transaction` as the outbox uses. */
export interface KnexTransaction {
  raw(statement: string, values: readonly string[]): PromiseLike<{ readonly rows: unknown[] }>;
}

/** The adapter for Knex, which marks parameters with `?`. */
export async function knex(
  tx: KnexTransaction,
  statement: string,
  value: string,
): Promise<readonly unknown[]> {
  return (await tx.raw(statement.replace("$1", "?"), [value])).rows;
}
