/**
 * Signs webhooks and notifications: with the headers of the Go server, and with those of Standard Webhooks
 * (https://www.standardwebhooks.com), which contain one signature for each valid secret.
 */
import { createHmac } from "node:crypto";
import type { Config } from "../../config/settings.ts";

export type ConfiguredSecrets = Pick<Config, "webhookHmacSecret" | "webhookSecrets">;

export interface SignedMessage {
  readonly tenantId: string;
  /** The secrets of the tenant in the store. An empty secret, or none, stands for those of the configuration. */
  readonly secrets: readonly string[];
  readonly id: string;
  readonly timestampSeconds: number;
  readonly body: string;
}

const standardPrefix = "whsec_";

/** Without a secret only the id of the message. */
export function signatureHeaders(
  config: ConfiguredSecrets,
  { tenantId, secrets: own, id, timestampSeconds, body }: SignedMessage,
): Record<string, string> {
  const configured = secretsOf(config, tenantId);
  const secrets =
    own.length === 0 ? configured : own.flatMap((each) => (each === "" ? configured : [each]));
  const [newest] = secrets;
  if (newest === undefined) return { "webhook-id": id };
  const timestamp = String(timestampSeconds);
  const standard = secrets.map(
    (secret) => `v1,${hmac(keyOf(secret), `${id}.${timestamp}.${body}`).toString("base64")}`,
  );
  return {
    "x-codeq-timestamp": timestamp,
    "x-codeq-signature": hmac(newest, `${timestamp}.${body}`).toString("hex"),
    "webhook-id": id,
    "webhook-timestamp": timestamp,
    "webhook-signature": standard.join(" "),
  };
}

/** The newest first. */
function secretsOf(
  { webhookHmacSecret, webhookSecrets }: ConfiguredSecrets,
  tenantId: string,
): readonly string[] {
  const own = webhookSecrets.tenants.get(tenantId);
  if (own !== undefined) return own;
  if (webhookSecrets.default.length > 0) return webhookSecrets.default;
  return webhookHmacSecret.trim() === "" ? [] : [webhookHmacSecret];
}

/** A secret in the form of Standard Webhooks stands for bytes; any other is its own text. */
function keyOf(secret: string): Buffer {
  return secret.startsWith(standardPrefix)
    ? Buffer.from(secret.slice(standardPrefix.length), "base64")
    : Buffer.from(secret);
}

function hmac(key: string | Buffer, text: string): Buffer {
  return createHmac("sha256", key).update(text).digest();
}
