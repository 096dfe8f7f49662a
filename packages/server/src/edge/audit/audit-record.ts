/**
 * Audit records as text: a JSON array, one position per field. A record is stored under its id, ordered by
 * time with the newest first; a second key under its tenant holds only the id.
 */

import { put, remove } from "@codeq/engine";
import type * as api from "@codeq/protocol/api";
import type { TenantId } from "@codeq/queue";
import type { NameRange, RecordKind } from "../../core/control/control-records.ts";
import { auditOfPrefix, auditPrefix, newestFirst } from "../../core/store/keys.ts";
import { parseRecord } from "../../core/store/row-of.ts";
import type { RecordWrite } from "../../core/store/store.ts";
import type { Identity } from "../access/identity.ts";

type Kept = api.KeptOf<typeof api.AuditRecord>;

/** An action of a caller, also a refused one. Unknown fields are empty. */
export interface AuditEvent extends Omit<Kept, "id" | "atMs" | "count" | "lastMs"> {
  /** The tenant that the action concerns; its administrators may read the record. */
  readonly tenantId: TenantId;
}

export interface AuditRecord extends AuditEvent, Pick<Kept, "id" | "atMs" | "count"> {
  /** When the same action happened last; `count` is how often it happened. */
  readonly lastMs: number;
}

/** The id of a record; the number distinguishes records of the same millisecond. */
export function auditIdAt(ms: number, number: string): string {
  return `${newestFirst(ms)}/${number}`;
}

/** Which records to list, the newest first. */
export function auditRange(wanted: {
  /** Undefined for the records of all tenants. */
  readonly tenantId?: TenantId | undefined;
  readonly fromMs?: number | undefined;
  /** Not included. */
  readonly toMs?: number | undefined;
  /** The id of the last record of the page before; empty for the first page. */
  readonly after: string;
}): NameRange {
  const { tenantId, fromMs, toMs, after } = wanted;
  const prefix = tenantId === undefined ? auditPrefix : auditOfPrefix(tenantId);
  // Records of one millisecond sort between its text and the same text with a tilde.
  const start = toMs === undefined ? "" : `${newestFirst(toMs)}/~`;
  const before = fromMs === undefined ? undefined : `${newestFirst(fromMs)}/~`;
  if (after < start) return { prefix, after: start, before };
  return { prefix, after, before };
}

export function writesOfAudit(record: AuditRecord): RecordWrite[] {
  const { id, tenantId } = record;
  return [put(auditPrefix + id, encodeAudit(record)), put(auditOfPrefix(tenantId) + id, "")];
}

export function removalsOfAudit({ id, tenantId }: AuditRecord): RecordWrite[] {
  return [remove(auditPrefix + id), remove(auditOfPrefix(tenantId) + id)];
}

const textFields = [
  ...["action", "target", "detail", "outcome", "code", "tenantId", "subject"],
  ...["homeTenantId", "issuedBy", "apiKeyId", "address", "requestId"],
] as (keyof AuditEvent)[];

function encodeAudit(record: AuditRecord): string {
  const texts = textFields.map((field) => record[field]);
  return JSON.stringify([record.atMs, record.lastMs, record.count, ...texts]);
}

export const auditRecords: RecordKind<AuditRecord> = { prefix: auditPrefix, decode: decodeAudit };

function decodeAudit(text: string, id: string): AuditRecord | undefined {
  const row = parseRecord(text);
  if (!Array.isArray(row) || row.length !== textFields.length + 3) return undefined;
  const [atMs, lastMs, count, ...texts] = row as unknown[];
  if (![atMs, lastMs, count].every(Number.isSafeInteger)) return undefined;
  if (!texts.every((each) => typeof each === "string")) return undefined;
  const event = Object.fromEntries(textFields.map((field, at) => [field, texts[at]]));
  return { id, atMs, lastMs, count, ...event } as unknown as AuditRecord;
}

/** The source of a call. */
export interface Origin {
  readonly address: string;
  readonly requestId: string;
}

export interface Actor {
  /** Undefined for a caller that was refused before it was authenticated. */
  readonly identity?: Identity | undefined;
  /** Undefined for an action of the server itself. */
  readonly from?: Origin | undefined;
}

export interface Happening extends Pick<AuditEvent, "action" | "outcome"> {
  readonly target?: string | undefined;
  readonly detail?: string | undefined;
  readonly code?: string | undefined;
  /** The tenant that the action concerns, if it is not the tenant that the caller acts in. */
  readonly tenantId?: TenantId | undefined;
}

const textCharsMax = 256;

/** Texts that callers choose are truncated. */
export function auditEventOf({ identity, from }: Actor, what: Happening): AuditEvent {
  return {
    action: what.action,
    target: cut(what.target ?? ""),
    detail: cut(what.detail ?? ""),
    outcome: what.outcome,
    code: what.code ?? "",
    tenantId: what.tenantId ?? identity?.tenantId ?? ("" as TenantId),
    subject: cut(identity?.subject ?? ""),
    homeTenantId: identity?.homeTenantId ?? identity?.tenantId ?? "",
    issuedBy: cut(identity?.issuedBy ?? ""),
    apiKeyId: identity?.apiKeyId ?? "",
    address: cut(from?.address ?? ""),
    requestId: cut(from?.requestId ?? ""),
  };
}

function cut(text: string): string {
  return text.slice(0, textCharsMax).toWellFormed();
}
