/** Lists the API keys of the caller's tenant, or of all tenants; never the secret of a key. */
import { isApiKeyId } from "../../edge/access/api-key-text.ts";
import type { ApiKeyPage, KnownApiKey } from "../../edge/access/api-keys.ts";
import { askedTenant } from "../../edge/asked-tenant.ts";
import { type Operation, refusal } from "../../edge/operation.ts";
import { type PageInput, pageLimitOf } from "../../edge/page-limit.ts";

export const listApiKeys: Operation<PageInput, ApiKeyPage> = {
  name: "list_api_keys",
  access: "admin",
  scope: undefined,
  audit: { of: "other tenants" },
  forEveryTenant: true,
  run: async ({ apiKeys }, call, input) => {
    const { after } = input;
    const limit = pageLimitOf(input);
    if (!limit.ok) return limit;
    if (!/^([a-z0-9-]{1,63}\/cq_[0-9a-z]{1,32})?$/.test(after)) {
      return refusal("invalid_argument", "invalid 'after' (use 'next' of the previous page)");
    }
    const page = await apiKeys.list({ tenantId: askedTenant(call), after, limit: limit.value });
    return { ok: true, value: page };
  },
};

export const getApiKey: Operation<{ readonly id: string }, KnownApiKey> = {
  name: "get_api_key",
  access: "admin",
  scope: undefined,
  audit: { of: "other tenants", target: ({ id }) => id },
  forEveryTenant: true,
  run: async ({ apiKeys }, call, { id }) => {
    const found = isApiKeyId(id) ? apiKeys.find(id) : undefined;
    const tenantId = askedTenant(call);
    const isForeign = tenantId !== undefined && found?.key.tenantId !== tenantId;
    return found === undefined || isForeign
      ? refusal("not_found", noSuchKey)
      : { ok: true, value: found };
  },
};

export const noSuchKey = "API key not found";
