/**
 * The secrets that sign webhooks: for all tenants, and for tenants with their own secrets. Two secrets may
 * be valid at once, so that receivers can switch from one to the other. Messages never repeat a secret.
 */
import { limits } from "@codeq/protocol";
import { isRecord, readJson, unknownFields } from "./blobs.ts";
import { type Parsed, type Parser, parsed, refused } from "./parsers.ts";

export interface WebhookSecrets {
  /** Of tenants without their own; empty leaves it to `webhookHmacSecret`. The newest first. */
  readonly default: readonly string[];
  readonly tenants: ReadonlyMap<string, readonly string[]>;
}

export const noWebhookSecrets: WebhookSecrets = { default: [], tenants: new Map() };

const atOnceMax = 2;
const tenantsMax = 10_000;
/** As Standard Webhooks asks: 24 to 64 bytes. */
const secretPattern = /^whsec_([A-Za-z0-9+/]{32,88}={0,2})$/;
const secretBytesMin = 24;
const secretBytesMax = 64;
const form = `"whsec_" and the base64 of ${secretBytesMin} to ${secretBytesMax} bytes`;

export const webhookSecretsBlob: Parser<WebhookSecrets> = {
  accepts: "a map or JSON object with default and tenants",
  example: '{"default":["whsec_..."]}',
  parse(raw) {
    const value = readJson(raw);
    if (!isRecord(value)) return refused(`expected ${this.accepts}`);
    const unknown = unknownFields(value, ["default", "tenants"]);
    if (unknown !== undefined) return refused(unknown);
    const all = readSecrets("default", value["default"] ?? []);
    if (!all.ok) return all;
    const tenants = readTenants(value["tenants"] ?? {});
    return tenants.ok ? parsed({ default: all.value, tenants: tenants.value }) : tenants;
  },
};

function readTenants(raw: unknown): Parsed<Map<string, readonly string[]>> {
  if (!isRecord(raw)) return refused("tenants: expected a map of tenants");
  const found = new Map<string, readonly string[]>();
  const entries = Object.entries(raw);
  if (entries.length > tenantsMax) return refused(`tenants: expected at most ${tenantsMax}`);
  for (const [index, [tenant, value]] of entries.entries()) {
    // What cannot be a tenant may be a secret in the wrong place, so it is not repeated.
    if (!limits.tenantPattern.test(tenant))
      return refused(`tenants: the name of entry ${index + 1} is not a valid tenant`);
    const secrets = readSecrets(`tenants.${tenant}`, value);
    if (!secrets.ok) return secrets;
    if (secrets.value.length === 0) return refused(`tenants.${tenant}: expected ${form}`);
    found.set(tenant, secrets.value);
  }
  return parsed(found);
}

/** One, or a list. */
function readSecrets(path: string, raw: unknown): Parsed<readonly string[]> {
  const list: readonly unknown[] = Array.isArray(raw) ? raw : [raw];
  if (list.length > atOnceMax) return refused(`${path}: expected at most ${atOnceMax} secrets`);
  return list.every(isSecret) ? parsed(list) : refused(`${path}: expected ${form}`);
}

function isSecret(value: unknown): value is string {
  const [, base64] = secretPattern.exec(typeof value === "string" ? value : "") ?? [];
  if (base64 === undefined) return false;
  const { length } = Buffer.from(base64, "base64");
  return length >= secretBytesMin && length <= secretBytesMax;
}
