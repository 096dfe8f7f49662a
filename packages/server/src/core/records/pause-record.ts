/** The pause of a queue, as text: who paused it, when and why. */
import { put, remove } from "@codeq/engine";
import type { TenantId } from "@codeq/queue";
import { pausedKey } from "../store/keys.ts";
import { parseRecord } from "../store/row-of.ts";
import type { RecordWrite } from "../store/store.ts";

export interface QueuePause {
  /** The subject of the administrator. */
  readonly by: string;
  readonly atMs: number;
  /** Empty when none was given. */
  readonly reason: string;
}

export interface PausedQueue extends QueuePause {
  /** The queue's name: the command in lower case. */
  readonly queue: string;
}

/** The write that pauses a queue, or the one that resumes it. */
export function writeOfPause(
  { tenantId, name }: { readonly tenantId: TenantId; readonly name: string },
  pause: QueuePause | undefined,
): RecordWrite {
  const key = pausedKey(name, tenantId);
  return pause === undefined ? remove(key) : put(key, encodePause(pause));
}

function encodePause({ by, atMs, reason }: QueuePause): string {
  return JSON.stringify([by, atMs, reason]);
}

/** Undefined when the text is not a valid record. */
export function decodePause(text: string): QueuePause | undefined {
  const row = parseRecord(text);
  if (!Array.isArray(row) || row.length !== 3) return undefined;
  const [by, atMs, reason] = row as unknown[];
  const isWhole =
    typeof by === "string" && Number.isSafeInteger(atMs) && typeof reason === "string";
  return isWhole ? { by, atMs: atMs as number, reason } : undefined;
}
