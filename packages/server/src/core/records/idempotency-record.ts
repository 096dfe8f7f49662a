/** The task of an idempotency key, as text: a JSON array, one position per field. */
import type { IdempotencyEntry, TaskId } from "@codeq/queue";
import { parseRecord } from "./parse-record.ts";

export function encodeIdempotency(entry: IdempotencyEntry): string {
  return JSON.stringify([entry.taskId, entry.queue, entry.payloadHash]);
}

/** Undefined when it cannot be read. */
export function decodeIdempotency(text: string): IdempotencyEntry | undefined {
  const row = parseRecord(text);
  if (!Array.isArray(row) || row.length !== 3) return undefined;
  if (!row.every((cell) => typeof cell === "string")) return undefined;
  const [taskId, queue, payloadHash] = row as [TaskId, string, string];
  return { taskId, queue, payloadHash };
}
