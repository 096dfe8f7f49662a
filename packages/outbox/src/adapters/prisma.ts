/** Transactions of Prisma: the argument of the function that `prisma.$transaction` calls. */

/** As much of a `Prisma.TransactionClient` as the outbox uses. */
export interface PrismaTransaction {
  $queryRawUnsafe(statement: string, ...values: string[]): PromiseLike<unknown>;
}

/** The adapter for Prisma. */
export async function prisma(
  tx: PrismaTransaction,
  statement: string,
  value: string,
): Promise<readonly unknown[]> {
  const rows = await tx.$queryRawUnsafe(statement, value);
  return rows as readonly unknown[];
}
