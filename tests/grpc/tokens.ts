/**
 * The callers of these tests, named as in the tests of the REST API where both use them. The tokens
 * that expire do so a minute after the start.
 */

import type {
  ProviderConfig,
  StaticTokenConfig,
} from "../../packages/server/src/config/settings.ts";
import { workerScopes } from "../../packages/server/src/edge/access/identity.ts";
import { startMs } from "../contract/setup.ts";

const acme = { tenantId: "acme" };
const globex = { tenantId: "globex" };
const expires = { exp: Math.floor(startMs / 1000) + 60 };

function producer(
  token: string,
  raw: StaticTokenConfig["raw"],
  more: Partial<StaticTokenConfig> = {},
): StaticTokenConfig {
  return { token, subject: "shop", email: "", scopes: [], eventTypes: [], raw, ...more };
}

function worker(
  token: string,
  subject: string,
  more: Partial<StaticTokenConfig> = {},
): StaticTokenConfig {
  const all = { scopes: workerScopes, eventTypes: ["*"], raw: acme };
  return { token, subject, email: "", ...all, ...more };
}

const producerTokens: readonly StaticTokenConfig[] = [
  producer("producer-acme", acme),
  producer("producer-globex", globex),
  producer("admin-acme", { ...acme, role: "ADMIN" }, { subject: "boss" }),
  producer("producer-claims", acme, { scopes: ["codeq:claim"] }),
  producer("producer-creates", acme, { scopes: ["openid", "codeq:create"] }),
  producer("producer-prints", { ...acme, commands: ["Print"] }, { eventTypes: ["render"] }),
  producer("producer-by-types", acme, { eventTypes: ["Render"] }),
  producer("producer-no-commands", { ...acme, commands: [] }),
  producer("producer-upper-tenant", { tenantId: "ACME" }),
  producer("producer-expires", { ...acme, ...expires }),
];

const workerTokens: readonly StaticTokenConfig[] = [
  worker("worker-acme", "worker-1"),
  worker("worker-acme-2", "worker-2"),
  worker("worker-globex", "worker-1", { raw: globex }),
  worker("worker-render", "worker-4", { eventTypes: ["Render"] }),
  worker("worker-subscribes", "worker-3", { scopes: ["codeq:subscribe"] }),
  worker("worker-claims", "worker-3", { scopes: ["codeq:claim"] }),
  worker("worker-no-types", "worker-5", { eventTypes: [] }),
  worker("worker-no-scopes", "worker-6", { scopes: [] }),
  worker("worker-number-tenant", "worker-1", { raw: { tenantId: 7 } }),
  worker("worker-expires", "worker-7", { raw: { ...acme, ...expires } }),
];

export const producerAuth: readonly ProviderConfig[] = [{ type: "static", tokens: producerTokens }];
export const workerAuth: readonly ProviderConfig[] = [{ type: "static", tokens: workerTokens }];
