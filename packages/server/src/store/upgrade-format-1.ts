/**
 * Brings data of format 1 to format 2, which adds how many bytes are kept for each task, and for each
 * tenant. It may be interrupted anywhere and begun again: a task that has its number keeps it, and
 * the totals are written last, together with the new version.
 */
import { type Engine, type Op, put } from "@codeq/engine";
import type { TaskId, TenantId } from "@codeq/queue";
import { endOf, idOf, payloadKey, resultKey, storedBytesKey, tasksPrefix } from "./keys.ts";

const pieceEntries = 500;
/** How long a record of format 1 is, by the kind of its place, which stands at this position. */
const placeAt = 15;
const lengths: ReadonlyMap<unknown, number> = new Map([
  ["r", 17],
  ["w", 17],
  ["l", 19],
  ["d", 18],
  ["c", 19],
  ["f", 19],
]);

/** Upgrades every task, and returns the writes that complete it. */
export async function upgradeFormat1(engine: Engine): Promise<Op[]> {
  const totals = new Map<TenantId, number>();
  for (let after = tasksPrefix; ; ) {
    const entries = await engine.scan({ after, before: endOf(tasksPrefix) }, pieceEntries);
    const ops: Op[] = [];
    for (const [key, value] of entries) {
      const bytes = storedBytes(engine, idOf(key));
      const upgraded = upgradeTask(value, bytes);
      after = key;
      // What cannot be read stays as it is, for the quarantine.
      if (upgraded === undefined) continue;
      const { tenantId, text } = upgraded;
      totals.set(tenantId, (totals.get(tenantId) ?? 0) + bytes);
      if (text !== undefined) ops.push(put(key, text));
    }
    if (ops.length > 0) await engine.commit(ops).done;
    if (entries.length < pieceEntries) break;
  }
  return [...totals].map(([tenantId, bytes]) => put(storedBytesKey(tenantId), String(bytes)));
}

function storedBytes(engine: Engine, id: TaskId): number {
  return (engine.get(payloadKey(id))?.length ?? 0) + (engine.get(resultKey(id))?.length ?? 0);
}

/** The text is undefined when the record has its number already. */
function upgradeTask(
  value: Buffer,
  bytes: number,
): { readonly tenantId: TenantId; readonly text: string | undefined } | undefined {
  const row = parseRow(value) ?? [];
  const tenantId = row[1];
  const length = lengths.get(row[placeAt]);
  if (length === undefined || typeof tenantId !== "string") return undefined;
  const text = row.length > length ? undefined : JSON.stringify([...row, bytes]);
  return { tenantId: tenantId as TenantId, text };
}

function parseRow(value: Buffer): unknown[] | undefined {
  try {
    const row: unknown = JSON.parse(value.toString("utf8"));
    return Array.isArray(row) ? row : undefined;
  } catch {
    // The caller leaves the record alone.
    return undefined;
  }
}
