/** Transactions of node-postgres (`pg`): a client on which BEGIN was sent. */

/** As much of a `Client` or `PoolClient` of `pg` as the outbox uses. */
export interface NodePostgresTransaction {
  query(statement: string, values: string[]): Promise<{ readonly rows: readonly unknown[] }>;
}

/** The adapter for node-postgres. Pass the client of the transaction, not the pool. */
export async function nodePostgres(
  tx: NodePostgresTransaction,
  statement: string,
  value: string,
): Promise<readonly unknown[]> {
  return (await tx.query(statement, [value])).rows;
}
