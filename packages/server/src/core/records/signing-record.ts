/** The secrets that sign the webhooks of a tenant, as text, newest first. */
import { put, remove } from "@codeq/engine";
import type { TenantId } from "@codeq/queue";
import { signingKey } from "../store/keys.ts";
import { parseRecord } from "../store/row-of.ts";
import type { RecordWrite } from "../store/store.ts";

export interface SigningSecret {
  /** The id of the secret, which reveals nothing about it. */
  readonly id: string;
  /** `whsec_` and base64; empty for the secret of the configuration. */
  readonly secret: string;
  readonly createdMs: number;
  /** The subject that asked for it. */
  readonly createdBy: string;
  /** When the secret ceases to sign; undefined for never. */
  readonly untilMs: number | undefined;
}

export type SecretsChange =
  /** The previous secret also signs until this time. */
  | { readonly kind: "rotate"; readonly secret: SigningSecret; readonly overlapUntilMs: number }
  | { readonly kind: "revoke"; readonly id: string };

/** The entry of the list for the secret of the configuration. */
const configured = { id: "configuration", secret: "", createdMs: 0, createdBy: "" };

/** The secrets after a change; undefined when there is none of this id to revoke. */
export function nextSecrets(
  secrets: readonly SigningSecret[],
  change: SecretsChange,
  nowMs: number,
): readonly SigningSecret[] | undefined {
  if (change.kind === "rotate") {
    const { secret, overlapUntilMs: untilMs } = change;
    return untilMs > nowMs ? [secret, { ...(secrets[0] ?? configured), untilMs }] : [secret];
  }
  const valid = validNow(secrets, nowMs);
  const rest = valid.filter(({ id }) => id !== change.id);
  if (rest.length === valid.length) return undefined;
  // The secret that is left must not expire at the end of the rotation.
  const kept = rest.map((each, at) => (at === 0 ? { ...each, untilMs: undefined } : each));
  return kept.some(({ secret }) => secret !== "") ? kept : [];
}

export function validNow(
  secrets: readonly SigningSecret[],
  nowMs: number,
): readonly SigningSecret[] {
  return secrets.filter(({ untilMs }) => (untilMs ?? nowMs + 1) > nowMs);
}

/** The secrets that sign now, newest first. */
export function signingNow(secrets: readonly SigningSecret[], nowMs: number): readonly string[] {
  return validNow(secrets, nowMs).map(({ secret }) => secret);
}

/** Replaces all secrets of a tenant; with none, the configuration applies. */
export function writeOfSigning(tenantId: TenantId, secrets: readonly SigningSecret[]): RecordWrite {
  const key = signingKey(tenantId);
  if (secrets.length === 0) return remove(key);
  const rows = secrets.map(({ id, secret, createdMs, createdBy, untilMs }) => {
    return [id, secret, createdMs, createdBy, untilMs ?? 0];
  });
  return put(key, JSON.stringify(rows));
}

/** Undefined when the text is not a valid record. */
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
