/** The secrets that sign the callbacks of a tenant, as text, newest first. */
import { put, remove } from "@codeq/engine";
import type { TenantId } from "@codeq/queue";
import { signingKey } from "./keys.ts";
import { parseRecord } from "./parse-record.ts";
import type { RecordWrite } from "./store.ts";

export interface SigningSecret {
  /** Names it, and tells nothing of it. */
  readonly id: string;
  /** `whsec_` and base64; empty stands for what the configuration has. */
  readonly secret: string;
  readonly createdMs: number;
  /** The subject that asked for it. */
  readonly createdBy: string;
  /** When it ceases to sign; undefined for never. */
  readonly untilMs: number | undefined;
}

/** Those that sign now, the newest first. */
export function signingNow(secrets: readonly SigningSecret[], nowMs: number): readonly string[] {
  const valid = secrets.filter(({ untilMs }) => (untilMs ?? nowMs + 1) > nowMs);
  return valid.map(({ secret }) => secret);
}

/** Replaces all secrets of a tenant; none leaves it to the configuration. */
export function writeOfSigning(tenantId: TenantId, secrets: readonly SigningSecret[]): RecordWrite {
  const key = signingKey(tenantId);
  if (secrets.length === 0) return remove(key);
  const rows = secrets.map(({ id, secret, createdMs, createdBy, untilMs }) => {
    return [id, secret, createdMs, createdBy, untilMs ?? 0];
  });
  return put(key, JSON.stringify(rows));
}

/** Undefined for what is no record. */
export function decodeSigning(text: string): readonly SigningSecret[] | undefined {
  const rows = parseRecord(text);
  if (!Array.isArray(rows) || !rows.every(isRow)) return undefined;
  return rows.map(([id, secret, createdMs, createdBy, untilMs]) => {
    return { id, secret, createdMs, createdBy, untilMs: untilMs || undefined };
  });
}

type Row = readonly [
  id: string,
  secret: string,
  createdMs: number,
  createdBy: string,
  untilMs: number,
];

function isRow(row: unknown): row is Row {
  if (!Array.isArray(row) || row.length !== 5) return false;
  const [id, secret, createdMs, createdBy, untilMs] = row as unknown[];
  const areTexts = [id, secret, createdBy].every((each) => typeof each === "string");
  return areTexts && [createdMs, untilMs].every(Number.isSafeInteger);
}
