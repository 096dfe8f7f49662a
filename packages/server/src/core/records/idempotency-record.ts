/** The task of an idempotency key, as text: a JSON array, one position per field. A deleted task adds four. */
import { endings, type GoneTask, type IdempotencyEntry, type TaskId } from "@codeq/queue";
import { parseRecord } from "../store/row-of.ts";

export function encodeIdempotency({ taskId, queue, payloadHash, gone }: IdempotencyEntry): string {
  const row = [taskId, queue, payloadHash];
  if (gone === undefined) return JSON.stringify(row);
  return JSON.stringify([...row, gone.how, gone.createdMs, gone.endedMs, gone.untilMs]);
}

/** Undefined when it cannot be read. */
export function decodeIdempotency(text: string): IdempotencyEntry | undefined {
  const row = parseRecord(text);
  if (!Array.isArray(row) || (row.length !== 3 && row.length !== 7)) return undefined;
  if (!row.slice(0, 3).every((cell) => typeof cell === "string")) return undefined;
  const [taskId, queue, payloadHash] = row as [TaskId, string, string];
  const gone = row.length === 3 ? undefined : goneIn(row.slice(3));
  return gone === "damaged" ? undefined : { taskId, queue, payloadHash, gone };
}

function goneIn([how, ...times]: readonly unknown[]): GoneTask | "damaged" {
  if (!endings.includes(how as GoneTask["how"]) || !times.every(Number.isSafeInteger)) {
    return "damaged";
  }
  const [createdMs, endedMs, untilMs] = times as [number, number, number];
  return { how: how as GoneTask["how"], createdMs, endedMs, untilMs };
}
