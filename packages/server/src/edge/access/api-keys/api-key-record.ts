/**
 * API keys as text: a JSON array, one position per field, written once and deleted once. Of the secret, only
 * the hash is stored. A record that cannot be decoded is undefined and grants nothing.
 */
import { create, put, remove } from "@codeq/engine";
import * as api from "@codeq/protocol/api";
import type { TenantId } from "@codeq/queue";
import type { NameRange, RecordKind } from "../../../core/control/control-records.ts";
import {
  apiKeyKey,
  apiKeysPrefix,
  apiKeyUseKey,
  apiKeyUsesPrefix,
  endOf,
} from "../../../core/store/keys.ts";
import { fieldsOf, rowOf } from "../../../core/store/row-of.ts";
import type { RecordWrite } from "../../../core/store/store.ts";

declare const brand: unique symbol;
/** The id of a key; the text of the key begins with it. Not a secret. */
export type ApiKeyId = string & { readonly [brand]: "ApiKeyId" };

export type ApiKey = Omit<api.KeptOf<typeof api.ApiKey>, "id" | "tenantId" | "lastUsedMs"> & {
  readonly id: ApiKeyId;
  readonly tenantId: TenantId;
  /** SHA-256 of the key's text, in hexadecimal digits. */
  readonly hash: string;
};

const hashPattern = /^[0-9a-f]{64}$/;
const row = rowOf({
  ...fieldsOf(api.ApiKey, "id", "tenantId", "name"),
  hash: api.text(),
  ...fieldsOf(api.ApiKey, "scopes", "eventTypes", "role", "createdAt", "createdBy", "expiresAt"),
});

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
  return row.encode(key);
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
  const key = row.decode(text) as ApiKey | undefined;
  return key !== undefined && hashPattern.test(key.hash) ? key : undefined;
}
