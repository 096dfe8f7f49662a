/**
 * Structured settings: `persistenceConfig`, `webhookSecrets`, and the parsing that all of them share. Each is a map in
 * the file or as JSON text from any source. Problems name fields, never their contents: the message of a
 * JSON parser would repeat the text, which may be a token or another secret.
 */
import { limits } from "@codeq/protocol";
import { closestName } from "../core/closest-name.ts";
import { type Parsed, type Parser, parsed, refused, trueOrFalse, wholeNumber } from "./parsers.ts";

/** The older form of `dataDir`, `durability` and `shards`; fields that were not written are missing. */
export interface PersistenceConfig {
  readonly path?: string;
  readonly fsyncOnCommit?: boolean;
  readonly numShards?: number;
}

const shardsMax = 64;

export const persistenceBlob: Parser<PersistenceConfig> = {
  accepts: "a map or JSON object with path, fsyncOnCommit and numShards",
  example: '{"path":"./data"}',
  parse(raw) {
    const value = readJson(raw);
    if (!isRecord(value)) return refused(`expected ${this.accepts}`);
    const unknown = unknownFields(value, ["path", "fsyncOnCommit", "numShards"]);
    if (unknown !== undefined) return refused(unknown);
    const { path, fsyncOnCommit, numShards } = value;
    if (path !== undefined && (typeof path !== "string" || path.trim() === "")) {
      return refused("path: expected a directory");
    }
    const sync = optional(fsyncOnCommit, trueOrFalse);
    if (!sync.ok) return refused(`fsyncOnCommit: ${sync.problem}`);
    const shards = optional(numShards, wholeNumber(1, shardsMax, 1));
    if (!shards.ok) return refused(`numShards: ${shards.problem}`);
    return parsed({
      ...(path === undefined ? {} : { path: path.trim() }),
      ...(sync.value === undefined ? {} : { fsyncOnCommit: sync.value }),
      ...(shards.value === undefined ? {} : { numShards: shards.value }),
    });
  },
};

/** A value for all tenants, and the values of tenants that have their own. */
export interface PerTenant<T> {
  readonly default: T;
  readonly tenants: ReadonlyMap<string, T>;
}

const tenantsMax = 10_000;

interface TenantRule<T> {
  readonly example: string;
  readonly readDefault: (raw: unknown) => Parsed<T>;
  readonly readTenant: (path: string, raw: unknown, all: T) => Parsed<T>;
  /** How a message names an entry whose key is not a valid tenant. */
  readonly nameEntry: (tenant: string, index: number) => string;
}

export function perTenant<T>(rule: TenantRule<T>): Parser<PerTenant<T>> {
  return {
    accepts: "a map or JSON object with default and tenants",
    example: rule.example,
    parse(raw) {
      const value = readJson(raw);
      if (!isRecord(value)) return refused(`expected ${this.accepts}`);
      const unknown = unknownFields(value, ["default", "tenants"]);
      if (unknown !== undefined) return refused(unknown);
      const all = rule.readDefault(value["default"] ?? undefined);
      if (!all.ok) return all;
      const tenants = readTenants(rule, value["tenants"] ?? {}, all.value);
      return tenants.ok ? parsed({ default: all.value, tenants: tenants.value }) : tenants;
    },
  };
}

function readTenants<T>(rule: TenantRule<T>, raw: unknown, all: T): Parsed<Map<string, T>> {
  if (!isRecord(raw)) return refused("tenants: expected a map of tenants");
  const found = new Map<string, T>();
  const entries = Object.entries(raw);
  if (entries.length > tenantsMax) return refused(`tenants: expected at most ${tenantsMax}`);
  for (const [index, [tenant, value]] of entries.entries()) {
    if (!limits.tenantPattern.test(tenant)) {
      return refused(`tenants: ${rule.nameEntry(tenant, index)} is not a valid tenant`);
    }
    const one = rule.readTenant(`tenants.${tenant}`, value, all);
    if (!one.ok) return one;
    found.set(tenant, one.value);
  }
  return parsed(found);
}

/**
 * The secrets that sign webhooks, the newest first. Without a `default`, `webhookHmacSecret` is used. Two secrets may
 * be valid at once, so that receivers can switch from one to the other.
 */
export type WebhookSecrets = PerTenant<readonly string[]>;

export const noWebhookSecrets: WebhookSecrets = { default: [], tenants: new Map() };

const secretsMax = 2;
/** Standard Webhooks requires 24 to 64 bytes. */
const secretPattern = /^whsec_([A-Za-z0-9+/]{32,88}={0,2})$/;
const secretBytesMin = 24;
const secretBytesMax = 64;
const secretForm = `"whsec_" and the base64 of ${secretBytesMin} to ${secretBytesMax} bytes`;

export const webhookSecretsBlob: Parser<WebhookSecrets> = perTenant({
  example: '{"default":["whsec_..."]}',
  readDefault: (raw = []) => readSecrets("default", raw),
  readTenant: (path, raw) => {
    const isEmpty = Array.isArray(raw) && raw.length === 0;
    return isEmpty ? refused(`${path}: expected ${secretForm}`) : readSecrets(path, raw);
  },
  // A key that is not a tenant may be a misplaced secret, so the message does not repeat it.
  nameEntry: (_, index) => `the name of entry ${index + 1}`,
});

/** Accepts one secret or a list. */
function readSecrets(path: string, raw: unknown): Parsed<readonly string[]> {
  const list: readonly unknown[] = Array.isArray(raw) ? raw : [raw];
  if (list.length > secretsMax) return refused(`${path}: expected at most ${secretsMax} secrets`);
  return list.every(isSecret) ? parsed(list) : refused(`${path}: expected ${secretForm}`);
}

function isSecret(value: unknown): value is string {
  const [, base64] = secretPattern.exec(typeof value === "string" ? value : "") ?? [];
  if (base64 === undefined) return false;
  const { length } = Buffer.from(base64, "base64");
  return length >= secretBytesMin && length <= secretBytesMax;
}

/** Text that does not look like JSON is returned unchanged: in an auth config it is the token itself. */
export function readJson(raw: unknown): unknown {
  if (typeof raw !== "string" || !/^\s*[{["]/.test(raw)) return raw;
  try {
    return JSON.parse(raw);
  } catch {
    // The parser's message quotes the text. `undefined` fits no blob, so it is refused by shape.
    return undefined;
  }
}

/** Names the field only if it is a misspelt known field: any other text may be a misplaced token. */
export function unknownFields(
  value: Record<string, unknown>,
  known: readonly string[],
): string | undefined {
  const name = Object.keys(value).find((field) => !known.includes(field));
  if (name === undefined) return undefined;
  const meant = closestName(name, known);
  const field = meant === undefined ? "a field" : `${name} (did you mean ${meant}?)`;
  return `${field} is not one of ${known.join(", ")}`;
}

function optional<T>(raw: unknown, parser: Parser<T>): Parsed<T | undefined> {
  return raw === undefined ? parsed(undefined) : parser.parse(raw);
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
