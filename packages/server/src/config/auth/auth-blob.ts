/**
 * `producerAuthConfig` and `workerAuthConfig`. The content decides the provider: a token or a list of
 * tokens, an identity server with its key set, or several providers at once.
 */
import { isIPv4 } from "node:net";
import { isRecord, readJson, unknownFields } from "../blobs.ts";
import { duration, type Parsed, type Parser, parsed, refused, trueOrFalse } from "../parsers.ts";
import type { JwksProviderConfig, StaticProviderConfig, StaticTokenConfig } from "../settings.ts";

/** An auth config as written. Without a clock skew, `allowedClockSkewSeconds` applies. */
export interface WrittenAuth {
  readonly shape: "static" | "jwks" | "multi";
  readonly providers: readonly WrittenProvider[];
}

export type WrittenProvider = StaticProviderConfig | WrittenJwks;
type WrittenJwks = Omit<JwksProviderConfig, "clockSkewMs"> & {
  readonly clockSkewMs: number | undefined;
};

const tokensMax = 1000;
const providersMin = 2;
const providersMax = 4;

export const authBlob: Parser<WrittenAuth> = {
  accepts:
    "a token, a map or JSON object with token (and subject, scopes, ...), a list of such objects, an object with " +
    "jwksUrl, issuer and audience, or an object with providers",
  example: '{"token":"...","subject":"my-tenant"}',
  parse(raw) {
    const value = readJson(raw);
    if (isRecord(value) && "providers" in value) return readMulti(value);
    const single = readProvider(value);
    if (!single.ok) return single;
    return parsed({ shape: single.value.type, providers: [single.value] });
  },
};

function readProvider(value: unknown): Parsed<WrittenProvider> {
  const isJwks = isRecord(value) && !("token" in value) && requiredOfJwks.some((n) => n in value);
  return isJwks ? readJwks(value) : readStatic(value);
}

function readMulti(value: Record<string, unknown>): Parsed<WrittenAuth> {
  const unknown = unknownFields(value, ["providers"]);
  if (unknown !== undefined) return refused(unknown);
  const list = value["providers"];
  if (!Array.isArray(list) || list.length < providersMin || list.length > providersMax) {
    return refused(`providers: expected a list of ${providersMin} to ${providersMax}`);
  }
  const providers: WrittenProvider[] = [];
  for (const [index, item] of list.entries()) {
    const one = readMultiEntry(item);
    if (!one.ok) return refused(`provider ${index + 1}: ${one.problem}`);
    providers.push(one.value);
  }
  return parsed({ shape: "multi", providers });
}

function readMultiEntry(item: unknown): Parsed<WrittenProvider> {
  if (!isRecord(item)) return refused("expected an object with type and config");
  const unknown = unknownFields(item, ["type", "config"]);
  if (unknown !== undefined) return refused(unknown);
  const { type, config } = item;
  if (type !== "static" && type !== "jwks") return refused("type: expected static or jwks");
  const value = readJson(config);
  return type === "jwks" ? readJwks(value) : readStatic(value);
}

function readStatic(value: unknown): Parsed<WrittenProvider> {
  if (!Array.isArray(value)) {
    const one = readToken(value);
    return one.ok ? parsed({ type: "static", tokens: [one.value] }) : one;
  }
  if (value.length === 0 || value.length > tokensMax) {
    return refused(`expected 1 to ${tokensMax} tokens in the list`);
  }
  const tokens: StaticTokenConfig[] = [];
  for (const [index, item] of value.entries()) {
    const one = readToken(item);
    if (!one.ok) return refused(`entry ${index + 1}: ${one.problem}`);
    const twin = tokens.findIndex((other) => other.token === one.value.token);
    if (twin >= 0) return refused(`entries ${twin + 1} and ${index + 1} have the same token`);
    tokens.push(one.value);
  }
  return parsed({ type: "static", tokens });
}

const tokenFields = [
  ...["token", "subject", "email", "tenant", "scopes", "eventTypes", "roles", "raw"],
];

function readToken(value: unknown): Parsed<StaticTokenConfig> {
  const fields = typeof value === "string" ? { token: value } : value;
  if (!isRecord(fields)) return refused("expected a token, or an object with a token");
  const unknown = unknownFields(fields, tokenFields);
  if (unknown !== undefined) return refused(unknown);
  const { token, subject = "static", email = "", scopes = [], eventTypes = [] } = fields;
  if (!isText(token)) return refused("token: expected text that is not empty, in quotes");
  if (!isText(subject)) return refused("subject: expected text");
  if (typeof email !== "string") return refused("email: expected text");
  if (!isTextList(scopes)) return refused("scopes: expected a list of texts");
  if (!isTextList(eventTypes)) return refused("eventTypes: expected a list of texts");
  const raw = readRaw(fields);
  if (!raw.ok) return raw;
  return parsed({
    token: token.trim(),
    subject: subject.trim(),
    email: email.trim(),
    scopes,
    eventTypes,
    raw: raw.value,
  });
}

/** `tenant` and `roles` are short forms of the claims `tenantId` and `roles`. */
function readRaw(fields: Record<string, unknown>): Parsed<Record<string, unknown>> {
  const { raw = {}, tenant, roles } = fields;
  if (!isRecord(raw)) return refused("raw: expected an object");
  if (raw["exp"] !== undefined && !isNumericDate(raw["exp"])) {
    return refused("raw: expected exp to be a time in seconds since 1970");
  }
  if (tenant !== undefined && !isText(tenant)) return refused("tenant: expected text");
  if (roles !== undefined && !isTextList(roles)) return refused("roles: expected a list of texts");
  if (tenant !== undefined && "tenantId" in raw) return refused("tenant: raw has a tenantId too");
  if (roles !== undefined && "roles" in raw) return refused("roles: raw has roles too");
  return parsed({
    ...raw,
    ...(tenant === undefined ? {} : { tenantId: tenant.trim() }),
    ...(roles === undefined ? {} : { roles }),
  });
}

const skew = duration("0s", "10m", "60s");
const timeout = duration("100ms", "1m", "5s");
const refresh = duration("1s", "24h", "5m");
const stale = duration("1s", "720h", "24h");
const refetch = duration("1s", "1h", "10s");

const requiredOfJwks = ["jwksUrl", "issuer", "audience"];
const jwksFields = [
  ...[...requiredOfJwks, "clockSkew", "httpTimeout"],
  ...["refreshInterval", "staleFor", "refetchInterval", "allowInsecureUrl"],
];

export function readJwks(value: unknown): Parsed<WrittenJwks> {
  if (!isRecord(value)) return refused("expected an object with jwksUrl, issuer and audience");
  const unknown = unknownFields(value, jwksFields);
  if (unknown !== undefined) return refused(unknown);
  const { jwksUrl, issuer, audience } = value;
  if (!isText(jwksUrl)) return refused("jwksUrl is required");
  if (!isText(issuer)) return refused("issuer is required");
  if (!isText(audience)) return refused("audience is required");
  const insecure = trueOrFalse.parse(value["allowInsecureUrl"] ?? false);
  if (!insecure.ok) return refused(`allowInsecureUrl: ${insecure.problem}`);
  const problem = problemOfUrl(jwksUrl.trim(), insecure.value);
  if (problem !== undefined) return refused(`jwksUrl: ${problem}`);
  return readTimes(value, {
    type: "jwks",
    jwksUrl: jwksUrl.trim(),
    issuer: issuer.trim(),
    audience: audience.trim(),
  });
}

function readTimes(
  value: Record<string, unknown>,
  provider: Pick<WrittenJwks, "type" | "jwksUrl" | "issuer" | "audience">,
): Parsed<WrittenJwks> {
  const problems: string[] = [];
  const read = <Initial>(name: string, parser: Parser<number>, initial: Initial) => {
    const raw = value[name];
    // A zero in a file of the Go server means that the field is not set.
    if (raw === undefined || (raw === 0 && parser !== skew)) return initial;
    const one = parser.parse(raw);
    if (one.ok) return one.value;
    problems.push(`${name}: ${one.problem}`);
    return initial;
  };
  const clockSkewMs = read("clockSkew", skew, undefined);
  const httpTimeoutMs = read("httpTimeout", timeout, 5000);
  const refreshMs = read("refreshInterval", refresh, 300_000);
  const staleMs = read("staleFor", stale, 86_400_000);
  const refetchMs = read("refetchInterval", refetch, 10_000);
  if (problems.length === 0 && staleMs < refreshMs) {
    problems.push("staleFor: expected at least refreshInterval");
  }
  const [first] = problems;
  if (first !== undefined) return refused(first);
  return parsed({ ...provider, clockSkewMs, httpTimeoutMs, refreshMs, staleMs, refetchMs });
}

function problemOfUrl(text: string, allowInsecure: boolean): string | undefined {
  if (!URL.canParse(text)) return "expected a URL";
  const { protocol, hostname, username, password } = new URL(text);
  if (username !== "" || password !== "") return "must not contain a user name or password";
  if (protocol === "https:") return undefined;
  if (protocol !== "http:") return "expected https";
  return allowInsecure || isLoopback(hostname)
    ? undefined
    : "expected https; plain http is for this machine only, unless allowInsecureUrl is true";
}

function isLoopback(hostname: string): boolean {
  const isLocal = hostname === "localhost" || hostname === "[::1]";
  return isLocal || (isIPv4(hostname) && hostname.startsWith("127."));
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value.trim() !== "";
}

export function isTextList(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((item) => typeof item === "string");
}

/** Times in claims: seconds since 1970, as in JWTs. JSON allows 1e309, which is infinite. */
const year10000 = 253_402_300_800;

export function isNumericDate(value: unknown): value is number {
  return typeof value === "number" && value >= 0 && value < year10000;
}
