/**
 * API keys of the caller's tenant, or of all tenants. A caller can grant only what it has: only operators create
 * keys of operators, and a creator that is limited to some commands creates keys for those. An admin may
 * grant every scope of tasks, whatever scopes its own token has, because deciding who works in the tenant is
 * the purpose of the role. When a revocation is answered, the key is refused everywhere: its streams have been ended,
 * and its waiting requests have been answered.
 */
import { limits } from "@codeq/protocol";
import { api } from "@codeq/protocol/api";
import type { ApiKey } from "../../edge/access/api-keys/api-key-record.ts";
import { isApiKeyId } from "../../edge/access/api-keys/api-key-text.ts";
import type { CreatedApiKey, KnownApiKey } from "../../edge/access/api-keys/api-keys.ts";
import {
  anyEventType,
  askedTenant,
  createScope,
  hiddenPayloadsScope,
  type Identity,
  workerScopes,
} from "../../edge/access/identity.ts";
import { auditEventOf } from "../../edge/audit/audit-record.ts";
import { bind, type InputOf } from "../../edge/bind.ts";
import { type Answer, type Call, refusal, type Server } from "../../edge/operation.ts";

type Wanted = InputOf<typeof api.apiKeys.createApiKey>;

export const createApiKey = bind(api.apiKeys.createApiKey, {
  rate: "none",
  run: (server, call, input) => makeApiKey(server, call, input),
  audit: { byItself: true },
  show: ({ key, token }) => ({ status: 201, value: { ...key, token } }),
});

export const listApiKeys = bind(api.apiKeys.listApiKeys, {
  forEveryTenant: true,
  run: async ({ apiKeys }, call, page) => {
    const { keys, next } = await apiKeys.list({ ...page, tenantId: askedTenant(call) });
    return { ok: true, value: { keys: keys.map(apiKeyShown), next } };
  },
});

export const getApiKey = bind(api.apiKeys.getApiKey, {
  forEveryTenant: true,
  run: ({ apiKeys }, call, { id }) => {
    const found = isApiKeyId(id) ? apiKeys.find(id) : undefined;
    const tenantId = askedTenant(call);
    const isForeign = tenantId !== undefined && found?.key.tenantId !== tenantId;
    return found === undefined || isForeign ? noSuchKey : { ok: true, value: apiKeyShown(found) };
  },
});

export const revokeApiKey = bind(api.apiKeys.revokeApiKey, {
  forEveryTenant: true,
  rate: "none",
  run: (server, call, input) => endApiKey(server, call, input),
  audit: { byItself: true },
  show: () => ({ status: 204, value: undefined }),
});

/** As the API shows it, which leaves out its hash. */
export function apiKeyShown({ key, lastUsedMs }: KnownApiKey) {
  return { ...key, lastUsedMs };
}

/** Also used by the commands that work on the files without a server. */
export async function makeApiKey(
  { apiKeys, audit, clock }: Pick<Server, "apiKeys" | "audit" | "clock">,
  call: Pick<Call, "identity" | "from">,
  input: Wanted,
): Promise<Answer<CreatedApiKey>> {
  const { identity } = call;
  const role = readRole(input.role, identity);
  if (!role.ok) return role;
  const scopes = readScopes(input.scopes, role.value, identity);
  if (!scopes.ok) return scopes;
  const eventTypes = readEventTypes(input.eventTypes, identity);
  if (!eventTypes.ok) return eventTypes;
  const expiresMs = readExpiry(input, clock.nowMs());
  if (!expiresMs.ok) return expiresMs;
  const wanted = {
    tenantId: identity.tenantId,
    createdBy: identity.subject,
    name: input.name.trim(),
    role: role.value,
    scopes: scopes.value,
    eventTypes: eventTypes.value,
    expiresMs: expiresMs.value,
  };
  const created = await apiKeys.create(wanted, (key) =>
    audit.entry(
      auditEventOf(call, { action: createApiKey.name, outcome: "ok", ...described(key) }),
    ),
  );
  return created.ok ? created : refusal(created.code);
}

function described({ id, name, role, scopes }: ApiKey): { target: string; detail: string } {
  return { target: id, detail: `${name}: role ${role}, scopes ${scopes.join(" ") || "none"}` };
}

function readRole(text: string, { isOperator }: Identity): Answer<ApiKey["role"]> {
  const value = text.trim().toLowerCase() as ApiKey["role"];
  if (value === "operator" && !isOperator) {
    return refusal("operator_only", "only operators may create keys with the role operator");
  }
  return { ok: true, value };
}

const knownScopes: readonly string[] = [createScope, ...workerScopes, hiddenPayloadsScope];

function readScopes(
  texts: readonly string[],
  role: ApiKey["role"],
  { hidesPayloads }: Identity,
): Answer<readonly string[]> {
  const value = [...new Set(texts.map((scope) => scope.trim()))];
  if (!value.every((scope) => knownScopes.includes(scope))) {
    return refusal("invalid_argument", `invalid 'scopes' (of ${knownScopes.join(", ")})`);
  }
  if (role === "none" && value.every((scope) => scope === hiddenPayloadsScope)) {
    return refusal("invalid_argument", "a key needs scopes or a role");
  }
  if (hidesPayloads && !value.includes(hiddenPayloadsScope)) {
    const text = `payloads are hidden from you; give the key the scope ${hiddenPayloadsScope}`;
    return refusal("payloads_hidden", text);
  }
  return { ok: true, value };
}

function readEventTypes(
  texts: readonly string[],
  { creates }: Identity,
): Answer<readonly string[]> {
  const value =
    texts.length === 0 ? [anyEventType] : [...new Set(texts.map((each) => each.trim()))];
  const isGiven = (type: string): boolean => creates?.has(type.toLowerCase()) !== false;
  if (value.every(isGiven)) return { ok: true, value };
  return refusal("event_type_not_allowed", "a key can only have event types of its creator");
}

function readExpiry(input: Wanted, nowMs: number): Answer<number | undefined> {
  const { expiresMs, expiresInSeconds } = input;
  if (expiresMs !== undefined && expiresInSeconds !== 0) {
    return refusal("invalid_argument", "pass 'expiresAt' or 'expiresInSeconds', not both");
  }
  if (expiresInSeconds > 0) return { ok: true, value: nowMs + expiresInSeconds * 1000 };
  const max = limits.apiKeySecondsMax;
  if (expiresMs !== undefined && (expiresMs <= nowMs || expiresMs > nowMs + max * 1000)) {
    return refusal("invalid_argument", `invalid 'expiresAt' (within ${max} seconds from now)`);
  }
  return { ok: true, value: expiresMs };
}

/** Also used by the commands that work on the files without a server. */
export async function endApiKey(
  { apiKeys, audit }: Pick<Server, "apiKeys" | "audit">,
  call: Pick<Call, "identity" | "from">,
  { id }: { readonly id: string },
): Promise<Answer<ApiKey>> {
  if (!isApiKeyId(id)) return noSuchKey;
  const wanted = { id, tenantId: askedTenant(call) };
  const key = await apiKeys.revoke(wanted, ({ name, tenantId }) => {
    const what = { action: revokeApiKey.name, target: id, detail: name, outcome: "ok" } as const;
    return audit.entry(auditEventOf(call, { ...what, tenantId }));
  });
  return key === undefined ? noSuchKey : { ok: true, value: key };
}

const noSuchKey = refusal("not_found", "API key not found");
