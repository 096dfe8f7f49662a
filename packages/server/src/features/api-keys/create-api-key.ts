/**
 * Creates an API key for the caller's tenant. Nobody can grant what they do not have: only operators create
 * keys of operators, and a creator that is limited to some commands creates keys for those. An admin may
 * grant every scope of tasks, whatever scopes its own token has, because deciding who works in the tenant is
 * the purpose of the role.
 */
import { limits } from "@codeq/protocol";
import { type ApiKey, type ApiKeyRole, apiKeyRoles } from "../../edge/access/api-key-record.ts";
import type { CreatedApiKey } from "../../edge/access/api-keys.ts";
import {
  anyEventType,
  createScope,
  hiddenPayloadsScope,
  type Identity,
  workerScopes,
} from "../../edge/access/identity.ts";
import { auditEventOf } from "../../edge/audit/audit-event.ts";
import {
  type Answer,
  type Call,
  type Operation,
  refusal,
  type Server,
} from "../../edge/operation.ts";
import { parseInstant } from "../../edge/parse-instant.ts";

export interface CreateApiKeyInput {
  readonly name: string;
  readonly scopes: readonly string[];
  /** Empty for every command. */
  readonly eventTypes: readonly string[];
  /** Empty for none. */
  readonly role: string;
  /** RFC 3339, or empty for never. */
  readonly expiresAt: string;
  /** 0 for never. */
  readonly expiresInSeconds: number;
}

export const createApiKey: Operation<CreateApiKeyInput, CreatedApiKey> = {
  name: "create_api_key",
  access: "admin",
  scope: undefined,
  audit: { of: "all", byItself: true },
  run: (server, call, input) => makeApiKey(server, call, input),
};

/** Also for those who have the files and no server. */
export async function makeApiKey(
  { apiKeys, audit, clock }: Pick<Server, "apiKeys" | "audit" | "clock">,
  call: Pick<Call, "identity" | "from">,
  input: CreateApiKeyInput,
): Promise<Answer<CreatedApiKey>> {
  const { identity } = call;
  const name = readName(input.name);
  if (!name.ok) return name;
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
    name: name.value,
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

const ofTasks: readonly string[] = [createScope, ...workerScopes];

function readName(text: string): Answer<string> {
  const value = text.trim();
  const max = limits.apiKeyNameCharsMax;
  const isPlain = value.isWellFormed() && !/\p{Cc}/u.test(value);
  if (value !== "" && value.length <= max && isPlain) return { ok: true, value };
  return refusal("invalid_argument", `invalid 'name' (1 to ${max} characters on one line)`);
}

function readRole(text: string, identity: Identity): Answer<ApiKeyRole> {
  const wanted = text === "" ? "none" : text.trim().toLowerCase();
  const value = apiKeyRoles.find((role) => role === wanted);
  if (value === undefined) {
    return refusal("invalid_argument", `invalid 'role' (one of ${apiKeyRoles.join(", ")})`);
  }
  if (value === "operator" && !identity.isOperator) {
    return refusal("operator_only", "only operators may create keys with the role operator");
  }
  return { ok: true, value };
}

function readScopes(
  texts: readonly string[],
  role: ApiKeyRole,
  { hidesPayloads }: Identity,
): Answer<readonly string[]> {
  const value = [...new Set(texts.map((scope) => scope.trim()))];
  const known = [...ofTasks, hiddenPayloadsScope];
  if (!value.every((scope) => known.includes(scope))) {
    return refusal("invalid_argument", `invalid 'scopes' (of ${known.join(", ")})`);
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
  const max = limits.apiKeyEventTypesMax;
  const value =
    texts.length === 0 ? [anyEventType] : [...new Set(texts.map((each) => each.trim()))];
  const isBad = (type: string): boolean =>
    type !== anyEventType && !limits.commandPattern.test(type);
  if (value.length > max || value.some(isBad)) {
    return refusal("invalid_argument", `invalid 'eventTypes' (at most ${max} commands, or *)`);
  }
  const isGiven = (type: string): boolean => creates?.has(type.toLowerCase()) !== false;
  if (value.every(isGiven)) return { ok: true, value };
  return refusal("event_type_not_allowed", "a key can only have event types of its creator");
}

function readExpiry(input: CreateApiKeyInput, nowMs: number): Answer<number | undefined> {
  const { expiresAt, expiresInSeconds } = input;
  const max = limits.apiKeySecondsMax;
  if (expiresAt !== "" && expiresInSeconds !== 0) {
    return refusal("invalid_argument", "pass 'expiresAt' or 'expiresInSeconds', not both");
  }
  const isCount = Number.isSafeInteger(expiresInSeconds) && expiresInSeconds >= 0;
  if (!isCount || expiresInSeconds > max) {
    return refusal("invalid_argument", `invalid 'expiresInSeconds' (1 to ${max})`);
  }
  if (expiresInSeconds > 0) return { ok: true, value: nowMs + expiresInSeconds * 1000 };
  if (expiresAt === "") return { ok: true, value: undefined };
  const value = parseInstant(expiresAt);
  if (value === undefined) return refusal("invalid_argument", "invalid 'expiresAt' (use RFC3339)");
  if (value <= nowMs || value > nowMs + max * 1000) {
    return refusal("invalid_argument", `invalid 'expiresAt' (within ${max} seconds from now)`);
  }
  return { ok: true, value };
}
