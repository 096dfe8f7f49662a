/** Deletes finished tasks of one tenant before their retention ends, the oldest first. */
import type { Task } from "@codeq/queue";
import type { CleanUp } from "../broker/queue.ts";
import type { Position, Store } from "../store/store.ts";

const pieceEntries = 500;

export async function cleanUp(
  parts: {
    readonly store: Store;
    /** With everything that belongs to them. */
    readonly delete: (tasks: readonly Task[]) => Promise<void>;
  },
  { tenantId, beforeMs, limit }: CleanUp,
): Promise<number> {
  const { store } = parts;
  let after: Position | undefined;
  let deleted = 0;
  while (deleted < limit) {
    const expired = await store.expiredWithOwners(after, beforeMs, pieceEntries);
    const tasks = expired
      .filter((each) => each.tenantId === tenantId)
      .map(({ id }) => store.task(id))
      .filter((task) => task?.tenantId === tenantId)
      .slice(0, limit - deleted) as Task[];
    if (tasks.length > 0) await parts.delete(tasks);
    deleted += tasks.length;
    after = expired.at(-1);
    if (after === undefined || expired.length < pieceEntries) break;
  }
  return deleted;
}
