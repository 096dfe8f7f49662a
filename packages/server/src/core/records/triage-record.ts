/** The decision of an administrator about a failure group, as text. A group without a record is open. */
import { put, remove } from "@codeq/engine";
import type { TenantId } from "@codeq/queue";
import { triageKey } from "../store/keys.ts";
import { parseRecord } from "../store/row-of.ts";
import type { RecordWrite } from "../store/store.ts";

export const triageStates = ["resolved", "ignored", "snoozed"] as const;
export type TriageState = (typeof triageStates)[number];

export interface Triage {
  /** The fingerprint of the group. */
  readonly group: string;
  readonly state: TriageState;
  /** The subject of the administrator. */
  readonly by: string;
  readonly atMs: number;
  /** The end of a snooze; 0 for other states. */
  readonly untilMs: number;
  /** Empty when none was given. */
  readonly reason: string;
}

export function writeOfTriage(tenantId: TenantId, triage: Triage): RecordWrite {
  const { group, state, by, atMs, untilMs, reason } = triage;
  return put(triageKey(tenantId, group), JSON.stringify([state, by, atMs, untilMs, reason]));
}

export function removalOfTriage(tenantId: TenantId, group: string): RecordWrite {
  return remove(triageKey(tenantId, group));
}

/** Undefined when the text is not a valid record. */
export function decodeTriage(group: string, text: string): Triage | undefined {
  const row = parseRecord(text);
  if (!Array.isArray(row) || row.length !== 5) return undefined;
  const [named, by, atMs, untilMs, reason] = row as unknown[];
  const state = triageStates.find((each) => each === named);
  const areNumbers = Number.isSafeInteger(atMs) && Number.isSafeInteger(untilMs);
  if (state === undefined || !areNumbers) return undefined;
  if (typeof by !== "string" || typeof reason !== "string") return undefined;
  return { group, state, by, atMs: atMs as number, untilMs: untilMs as number, reason };
}
