/**
 * The callers of the contract tests. Two tenants, `acme` and `globex`; the workers of both that are
 * called `worker-1` differ in nothing but the tenant.
 */
import { workerScopes } from "../../packages/server/src/edge/access/identity.ts";

interface Token {
  readonly token: string;
  readonly subject: string;
  readonly scopes?: readonly string[];
  readonly eventTypes?: readonly string[];
  readonly raw?: Readonly<Record<string, unknown>>;
}

const acme = { tenantId: "acme" };
const globex = { tenantId: "globex" };
const all = { scopes: workerScopes, eventTypes: ["*"] } as const;

export const producerTokens: readonly Token[] = [
  { token: "producer-acme", subject: "shop", raw: acme },
  { token: "producer-globex", subject: "shop", raw: globex },
  { token: "admin-acme", subject: "boss", raw: { ...acme, role: "ADMIN" } },
  { token: "admin-globex", subject: "boss", raw: { ...globex, role: "admin" } },
  { token: "viewer-acme", subject: "eyes", raw: { ...acme, role: "viewer" } },
  { token: "admin-blind", subject: "boss", raw: { ...acme, roles: ["admin", "payloads-hidden"] } },
  { token: "admin-by-scope", subject: "boss", scopes: ["codeq:admin"], raw: acme },
  { token: "operator", subject: "ops", raw: { tenantId: "ops-team", roles: ["operator"] } },
  {
    token: "producer-no-create",
    subject: "shop",
    scopes: ["openid", ...workerScopes],
    raw: acme,
  },
  { token: "producer-prints", subject: "shop", raw: { ...acme, commands: ["Print"] } },
  {
    token: "admin-render",
    subject: "boss",
    eventTypes: ["Render"],
    raw: { ...acme, role: "admin" },
  },
  { token: "producer-upper-tenant", subject: "shop", raw: { tenantId: "ACME" } },
  {
    token: "admin-two-tenants",
    subject: "boss",
    raw: { tid: "acme", tenantId: "globex", role: "ADMIN" },
  },
];

export const workerTokens: readonly Token[] = [
  { token: "worker-acme", subject: "worker-1", ...all, raw: acme },
  { token: "worker-acme-2", subject: "worker-2", ...all, raw: acme },
  { token: "worker-globex", subject: "worker-1", ...all, raw: globex },
  {
    token: "worker-few-scopes",
    subject: "worker-3",
    scopes: ["openid"],
    ...limitedTo("*"),
  },
  { token: "worker-render", subject: "worker-4", scopes: workerScopes, ...limitedTo("Render") },
  { token: "worker-no-types", subject: "worker-5", scopes: workerScopes, raw: acme },
  { token: "worker-no-scopes", subject: "worker-6", eventTypes: ["*"], raw: acme },
  { token: "worker-number-tenant", subject: "worker-1", ...all, raw: { tenantId: 7 } },
];

function limitedTo(eventType: string): Pick<Token, "eventTypes" | "raw"> {
  return { eventTypes: [eventType], raw: acme };
}

export type Caller =
  | "producer-acme"
  | "producer-globex"
  | "admin-acme"
  | "admin-globex"
  | "admin-by-scope"
  | "viewer-acme"
  | "admin-blind"
  | "operator"
  | "producer-no-create"
  | "producer-prints"
  | "admin-render"
  | "producer-upper-tenant"
  | "admin-two-tenants"
  | "worker-acme"
  | "worker-acme-2"
  | "worker-globex"
  | "worker-few-scopes"
  | "worker-render"
  | "worker-no-types"
  | "worker-no-scopes"
  | "worker-number-tenant";
