/**
 * API keys as text: a JSON array, one position per field, written once and deleted once. Of the secret, only
 * the hash is stored. A record that cannot be decoded is undefined and grants nothing.
 */
import { create, put, remove } from "@codeq/engine";
import type { TenantId } from "@codeq/queue";
import type { NameRange, RecordKind } from "../../core/control/control-records.ts";
import { parseRecord } from "../../core/records/parse-record.ts";
import {
  apiKeyKey,
  apiKeysPrefix,
  apiKeyUseKey,
  apiKeyUsesPrefix,
  endOf,
} from "../../core/store/keys.ts";
import type { RecordWrite } from "../../core/store/store.ts";

declare const brand: unique symbol;
/** The id of a key; the text of the key begins with it. Not a secret. */
export type ApiKeyId = string & { readonly [brand]: "ApiKeyId" };

export const apiKeyRoles = ["none", "viewer", "admin", "operator"] as const;
export type ApiKeyRole = (typeof apiKeyRoles)[number];

export interface ApiKey {
  readonly id: ApiKeyId;
  readonly tenantId: TenantId;
  /** A name for people. */
  readonly name: string;
  /** SHA-256 of the key's text, in hexadecimal digits. */
  readonly hash: string;
  readonly scopes: readonly string[];
  readonly eventTypes: readonly string[];
  readonly role: ApiKeyRole;
  readonly createdMs: number;
  /** The subject that asked for it. */
  readonly createdBy: string;
  /** Undefined for never. */
  readonly expiresMs: number | undefined;
}

/** About when an API key was last used. */
export interface ApiKeyUse {
  readonly id: ApiKeyId;
  readonly lastUsedMs: number;
}

export function writesOfApiKey(key: ApiKey): RecordWrite[] {
  return [create(apiKeyKey(key.tenantId, key.id), encodeApiKey(key))];
}

export function removalsOfApiKey({ tenantId, id }: ApiKey): RecordWrite[] {
  return [remove(apiKeyKey(tenantId, id)), remove(apiKeyUseKey(id))];
}

/** Notes when a key was last used. */
export function writesOfUse(id: ApiKeyId, lastUsedMs: number): RecordWrite[] {
  return [put(apiKeyUseKey(id), String(lastUsedMs))];
}

export function encodeApiKey(key: ApiKey): string {
  return JSON.stringify([
    key.id,
    key.tenantId,
    key.name,
    key.hash,
    key.scopes,
    key.eventTypes,
    key.role,
    key.createdMs,
    key.createdBy,
    key.expiresMs ?? null,
  ]);
}

export const apiKeyRecords: RecordKind<ApiKey> = {
  prefix: apiKeysPrefix,
  decode: (text, name) => {
    const key = decodeApiKey(text);
    return key !== undefined && `${key.tenantId}/${key.id}` === name ? key : undefined;
  },
};

/** The names `<tenant>/<id>` of the keys of a tenant, or of all tenants, after the given name. */
export function apiKeyRange(tenantId: TenantId | undefined, after: string): NameRange {
  if (tenantId === undefined) return { prefix: apiKeysPrefix, after };
  const first = `${tenantId}/`;
  return {
    prefix: apiKeysPrefix,
    after: after.startsWith(first) ? after : first,
    before: endOf(first),
  };
}

export const apiKeyUses: RecordKind<ApiKeyUse> = {
  prefix: apiKeyUsesPrefix,
  decode: (text, name) => ({ id: name as ApiKeyId, lastUsedMs: Number(text) }),
};

export function decodeApiKey(text: string): ApiKey | undefined {
  const row = parseRecord(text);
  if (!isRow(row)) return undefined;
  const [id, tenantId, name, hash, scopes, eventTypes, role, createdMs, createdBy, expires] = row;
  return {
    id,
    tenantId,
    name,
    hash,
    scopes,
    eventTypes,
    role,
    createdMs,
    createdBy,
    expiresMs: expires ?? undefined,
  };
}

type Row = readonly [
  id: ApiKeyId,
  tenantId: TenantId,
  name: string,
  hash: string,
  scopes: readonly string[],
  eventTypes: readonly string[],
  role: ApiKeyRole,
  createdMs: number,
  createdBy: string,
  expiresMs: number | null,
];

function isRow(row: unknown): row is Row {
  if (!Array.isArray(row)) return false;
  const [id, tenantId, name, hash, scopes, eventTypes, role, createdMs, createdBy, expires] = row;
  return (
    [id, tenantId, name, createdBy].every((each) => typeof each === "string") &&
    typeof hash === "string" &&
    /^[0-9a-f]{64}$/.test(hash) &&
    isTextList(scopes) &&
    isTextList(eventTypes) &&
    apiKeyRoles.includes(role) &&
    Number.isSafeInteger(createdMs) &&
    (expires === null || Number.isSafeInteger(expires))
  );
}

function isTextList(value: unknown): boolean {
  return Array.isArray(value) && value.every((item) => typeof item === "string");
}
