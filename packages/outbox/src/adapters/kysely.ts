/** Transactions of Kysely: the argument of the function that `db.transaction().execute` calls. */
import { CompiledQuery } from "kysely";

/** As much of a `Transaction` of Kysely as the outbox uses. */
export interface KyselyTransaction {
  executeQuery(query: CompiledQuery): Promise<{ readonly rows: readonly unknown[] }>;
}

/** The adapter for Kysely. */
export async function kysely(
  tx: KyselyTransaction,
  statement: string,
  value: string,
): Promise<readonly unknown[]> {
  return (await tx.executeQuery(CompiledQuery.raw(statement, [value]))).rows;
}
