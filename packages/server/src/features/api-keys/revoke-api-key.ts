/**
 * Revokes an API key. When the call is answered, the key is refused everywhere: its streams have been ended,
 * and its waiting requests have been answered.
 */

import type { ApiKey } from "../../edge/access/api-key-record.ts";
import { isApiKeyId } from "../../edge/access/api-key-text.ts";
import { askedTenant } from "../../edge/asked-tenant.ts";
import { auditEventOf } from "../../edge/audit/audit-event.ts";
import {
  type Answer,
  type Call,
  type Operation,
  refusal,
  type Server,
} from "../../edge/operation.ts";
import { noSuchKey } from "./list-api-keys.ts";

export interface RevokeApiKeyInput {
  readonly id: string;
}

export const revokeApiKey: Operation<RevokeApiKeyInput, ApiKey> = {
  name: "revoke_api_key",
  access: "admin",
  scope: undefined,
  forEveryTenant: true,
  audit: { of: "all", byItself: true, target: ({ id }) => id },
  run: (server, call, input) => endApiKey(server, call, input),
};

/** Also for those who have the files and no server. */
export async function endApiKey(
  { apiKeys, audit }: Pick<Server, "apiKeys" | "audit">,
  call: Pick<Call, "identity" | "from">,
  { id }: RevokeApiKeyInput,
): Promise<Answer<ApiKey>> {
  if (!isApiKeyId(id)) return refusal("not_found", noSuchKey);
  const wanted = { id, tenantId: askedTenant(call) };
  const key = await apiKeys.revoke(wanted, ({ name, tenantId }) => {
    const what = { action: revokeApiKey.name, target: id, detail: name, outcome: "ok" } as const;
    return audit.entry(auditEventOf(call, { ...what, tenantId }));
  });
  return key === undefined ? refusal("not_found", noSuchKey) : { ok: true, value: key };
}
