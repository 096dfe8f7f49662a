/**
 * Everybody who may knock at the door, for the tables of access: one column each, with a token of the
 * configuration and one that an identity server signed wherever both can be had. What is wrong with a
 * bad token is one thing only; without it the token could do everything.
 */
import { errors } from "@codeq/protocol";
import { SimIssuer } from "@codeq/simulated";
import type {
  JwksProviderConfig,
  ProviderConfig,
} from "../../packages/server/src/config/settings.ts";
import { workerScopes } from "../../packages/server/src/edge/access/identity.ts";
import { type Options, startMs } from "./setup.ts";
import { producerTokens, workerTokens } from "./tokens.ts";

export type Access = "producer" | "worker" | "either" | "viewer" | "admin" | "operator";

/** What a caller is told instead of an answer. */
export type Refused = readonly [status: number, error: string];

/**
 * `ok`: it may. `foreign`: it may, in another tenant. `other kind`: its token is for something else.
 * `other work`: it is a worker of other tasks and event types.
 */
export type Expected = "ok" | "foreign" | "other kind" | "other work" | Refused;

export interface Column {
  /** Undefined for a call without any token. */
  readonly tokens: readonly (string | undefined)[];
  readonly expected: Readonly<Record<Access, Expected>>;
}

const issuer = new SimIssuer().addKey("current");
const forger = new SimIssuer().addKey("current");
const stranger = new SimIssuer("https://other.example.com").addKey("current");
const rotated = new SimIssuer().addKey("unknown");

const nowSeconds = Math.floor(startMs / 1000);
const hour = 3600;
const everything = ["codeq:create", ...workerScopes, "codeq:admin", "codeq:operator"].join(" ");
const acme = { tenantId: "acme" };
const forProducers = { aud: "codeq", sub: "shop", exp: nowSeconds + hour, ...acme };
const forWorkers = {
  aud: ["codeq-worker"],
  sub: "worker-1",
  exp: nowSeconds + hour,
  ...acme,
  scope: workerScopes.join(" "),
  eventTypes: ["*"],
};
/** May do everything, as anything; each bad token spoils one part of it. */
const full = {
  ...forWorkers,
  aud: ["codeq", "codeq-worker"],
  scope: everything,
  roles: ["admin", "operator"],
};

const everywhere = (expected: Expected): Column["expected"] => ({
  producer: expected,
  worker: expected,
  either: expected,
  viewer: expected,
  admin: expected,
  operator: expected,
});
const badToken: Refused = [401, "invalid token"];
const missingScope: Refused = [403, "missing scope"];
const adminOnly: Refused = [401, "unauthorized. Admin only"];
const readOnly: Refused = [403, errors.read_only.text];
const operatorOnly: Refused = [403, "operators only"];
const badTenant: Refused = [403, "invalid tenant claims"];
const badClaims: Refused = [401, "invalid token claims"];

/** A producer, to whom the doors of workers and of administrators are closed. */
const asProducer: Column["expected"] = {
  producer: "ok",
  worker: "other kind",
  either: "ok",
  viewer: adminOnly,
  admin: adminOnly,
  operator: operatorOnly,
};
const asWorker: Column["expected"] = {
  producer: "other kind",
  worker: "ok",
  either: "ok",
  viewer: "other kind",
  admin: "other kind",
  operator: "other kind",
};

export const columns: Readonly<Record<string, Column>> = {
  "no token": { tokens: [undefined], expected: everywhere([401, "missing Authorization header"]) },
  garbage: {
    tokens: ["garbage", "a.b.c", "..", "x".repeat(8000), "ey.".repeat(6000)],
    expected: everywhere(badToken),
  },
  expired: {
    tokens: [issuer.token({ ...full, exp: nowSeconds - 60 })],
    expected: everywhere([401, "token is expired"]),
  },
  "never expires": {
    tokens: [issuer.token({ ...full, exp: undefined })],
    expected: everywhere(badClaims),
  },
  "not valid yet": {
    tokens: [
      issuer.token({ ...full, nbf: nowSeconds + 61 }),
      issuer.token({ ...full, iat: nowSeconds + 61 }),
    ],
    expected: everywhere([401, "token is not valid yet"]),
  },
  "wrong audience": {
    tokens: [issuer.token({ ...full, aud: "other" }), issuer.token({ ...full, aud: undefined })],
    expected: everywhere([401, "invalid audience"]),
  },
  "wrong issuer": {
    tokens: [stranger.token(full)],
    expected: everywhere([401, "invalid issuer"]),
  },
  "wrong key": {
    tokens: [
      forger.token(full),
      rotated.token(full),
      issuer.token(full, { header: { alg: "none" } }),
      issuer.token(full).replace(/[^.]*$/, ""),
    ],
    expected: everywhere(badToken),
  },
  "bad claims": {
    tokens: [
      issuer.token({ ...full, roles: { admin: true } }),
      issuer.token({ ...full, commands: "*" }),
      issuer.token({ ...full, scope: 7 }),
      issuer.token({ ...full, sub: undefined }),
    ],
    expected: everywhere(badClaims),
  },
  "bad tenant": {
    tokens: [
      issuer.token({ ...full, tenantId: "ACME" }),
      issuer.token({ ...full, tenantId: 7 }),
      issuer.token({ ...full, tid: "globex" }),
    ],
    expected: everywhere(badTenant),
  },
  "producer with a bad tenant": {
    tokens: ["producer-upper-tenant", "admin-two-tenants"],
    expected: { ...everywhere(badTenant), worker: "other kind" },
  },
  "worker with a bad tenant": {
    tokens: ["worker-number-tenant"],
    expected: { ...everywhere("other kind"), worker: badTenant, either: badTenant },
  },
  producer: {
    tokens: ["producer-acme", issuer.token(forProducers)],
    expected: asProducer,
  },
  "producer without the scope to create": {
    tokens: [
      "producer-no-create",
      issuer.token({ ...forProducers, scope: `openid ${workerScopes.join(" ")}` }),
    ],
    expected: { ...asProducer, producer: missingScope },
  },
  "producer of another command": {
    tokens: ["producer-prints", issuer.token({ ...forProducers, commands: ["print"] })],
    expected: { ...asProducer, producer: [403, "event type not allowed"] },
  },
  "producer of another tenant": {
    tokens: ["producer-globex", issuer.token({ ...forProducers, tenantId: "globex" })],
    expected: { ...asProducer, producer: "foreign", either: "foreign" },
  },
  worker: { tokens: ["worker-acme", issuer.token(forWorkers)], expected: asWorker },
  "worker without scope": {
    tokens: ["worker-few-scopes", issuer.token({ ...forWorkers, scope: "openid" })],
    expected: { ...asWorker, worker: missingScope },
  },
  "worker without any scope": {
    tokens: ["worker-no-scopes", issuer.token({ ...forWorkers, scope: "" })],
    expected: { ...asWorker, worker: [401, "missing scope"] },
  },
  "worker without event types": {
    tokens: ["worker-no-types", issuer.token({ ...forWorkers, eventTypes: [] })],
    expected: { ...asWorker, worker: [401, "missing eventTypes"], either: "other kind" },
  },
  "worker of another event type": {
    tokens: [
      "worker-render",
      issuer.token({ ...forWorkers, sub: "worker-4", eventTypes: ["Render"] }),
    ],
    expected: { ...asWorker, worker: "other work" },
  },
  "worker of another tenant": {
    tokens: ["worker-globex", issuer.token({ ...forWorkers, tenantId: "globex" })],
    expected: { ...asWorker, worker: "foreign", either: "foreign" },
  },
  admin: {
    tokens: [
      "admin-acme",
      issuer.token({ ...forProducers, role: "ADMIN" }),
      issuer.token({ ...forProducers, scope: "codeq:admin codeq:create" }),
    ],
    expected: { ...asProducer, viewer: "ok", admin: "ok" },
  },
  "admin by scope alone": {
    tokens: ["admin-by-scope", issuer.token({ ...forProducers, scope: "codeq:admin" })],
    expected: { ...asProducer, producer: missingScope, viewer: "ok", admin: "ok" },
  },
  "admin of another tenant": {
    tokens: ["admin-globex", issuer.token({ ...forProducers, tenantId: "globex", role: "admin" })],
    expected: {
      ...asProducer,
      producer: "foreign",
      either: "foreign",
      viewer: "foreign",
      admin: "foreign",
    },
  },
  operator: {
    tokens: [
      "operator",
      issuer.token({ ...forProducers, tenantId: "ops-team", roles: ["Operator"] }),
    ],
    expected: {
      producer: "foreign",
      worker: "other kind",
      either: "foreign",
      viewer: "foreign",
      admin: "foreign",
      operator: "ok",
    },
  },
  viewer: {
    tokens: ["viewer-acme", issuer.token({ ...forProducers, scope: "codeq:viewer" })],
    expected: {
      ...asProducer,
      producer: missingScope,
      viewer: "ok",
      admin: readOnly,
    },
  },
  "viewer of another tenant": {
    tokens: [issuer.token({ ...forProducers, tenantId: "globex", roles: ["Viewer"] })],
    expected: {
      ...asProducer,
      producer: missingScope,
      either: "foreign",
      viewer: "foreign",
      admin: readOnly,
    },
  },
};

/** Admins and viewers who see no payloads. */
export const hiddenTokens: readonly string[] = [
  "admin-blind",
  issuer.token({ ...forProducers, scope: "codeq:viewer codeq:payloads-hidden" }),
  issuer.token({ ...full, roles: ["admin", "payloads-hidden"] }),
];

export const blindOperator: string = issuer.token({
  ...full,
  roles: ["operator", "payloads-hidden"],
});

/** What a token that is for something else is refused with. */
export function refusedKind(token: string | undefined): Refused {
  return token?.includes(".") ? [401, "invalid audience"] : badToken;
}

const server: Omit<JwksProviderConfig, "audience"> = {
  type: "jwks",
  jwksUrl: "https://id.example.com/keys",
  issuer: issuer.issuer,
  clockSkewMs: 60_000,
  httpTimeoutMs: 5000,
  refreshMs: 300_000,
  staleMs: 86_400_000,
  refetchMs: 10_000,
};

function withIssuer(tokens: readonly object[], audience: string): readonly ProviderConfig[] {
  const common = { email: "", scopes: [], eventTypes: [], raw: {} };
  return [
    { type: "static", tokens: tokens.map((each) => ({ ...common, ...each }) as never) },
    { ...server, audience },
  ];
}

/** How a server is set up for all of these callers. */
export const accessOptions: Options = {
  settings: {
    producerAuth: withIssuer(producerTokens, "codeq"),
    workerAuth: withIssuer(workerTokens, "codeq-worker"),
  },
  fetchKeySet: async () => issuer.keySet(),
};
