/**
 * The secrets that sign the webhooks of the caller's tenant. A new secret signs at once; the previous one
 * signs beside it for a while, so that receivers can switch. If the tenant had no secret of its own,
 * webhooks are signed with the secret of the configuration for the same time.
 */
import { limits } from "@codeq/protocol";
import { type SigningSecret, validNow } from "../../core/records/signing-record.ts";
import { type Operation, refusal, type Server } from "../../edge/operation.ts";

export interface RotateSecretInput {
  /** How long the secret before it signs as well; undefined for the default. */
  readonly overlapSeconds: number | undefined;
}

const secretBytes = 32;
const idBytes = 8;

export const rotateSecret: Operation<RotateSecretInput, SigningSecret> = {
  name: "rotate_webhook_secret",
  access: "admin",
  scope: undefined,
  rate: { scope: "admin", operation: "tasks" },
  audit: { of: "all", detail: ({ id }) => id },
  run: async (server, call, { overlapSeconds = limits.secretOverlapSecondsDefault }) => {
    const max = limits.secretOverlapSecondsMax;
    if (overlapSeconds < 0 || overlapSeconds > max) {
      return refusal("invalid_argument", `invalid 'overlapSeconds' (0 to ${max})`);
    }
    const { queue, clock } = server;
    const { tenantId, subject: createdBy } = call.identity;
    const nowMs = Math.floor(clock.nowMs());
    const overlapUntilMs = nowMs + overlapSeconds * 1000;
    const secret = {
      id: `whk_${drawn(server, idBytes).toString("hex")}`,
      secret: `whsec_${drawn(server, secretBytes).toString("base64")}`,
      createdMs: nowMs,
      createdBy,
      untilMs: undefined,
    };
    await queue.webhooks.changeSecrets(tenantId, { kind: "rotate", secret, overlapUntilMs });
    return { ok: true, value: secret };
  },
};

/** Those that sign now, the newest first. */
export const listSecrets: Operation<undefined, readonly SigningSecret[]> = {
  name: "list_webhook_secrets",
  access: "admin",
  scope: undefined,
  audit: { of: "other tenants" },
  run: async ({ queue, clock }, call) => {
    const secrets = await queue.webhooks.secrets(call.identity.tenantId);
    return { ok: true, value: validNow(secrets, clock.nowMs()) };
  },
};

export interface RevokeSecretInput {
  readonly id: string;
}

/** Without any secret of the tenant's own, that of the configuration signs. */
export const revokeSecret: Operation<RevokeSecretInput, RevokeSecretInput> = {
  name: "revoke_webhook_secret",
  access: "admin",
  scope: undefined,
  rate: { scope: "admin", operation: "tasks" },
  audit: { of: "all", target: ({ id }) => id },
  run: async (server, call, { id }) => {
    const { tenantId } = call.identity;
    const isKnown = await server.queue.webhooks.changeSecrets(tenantId, { kind: "revoke", id });
    return isKnown ? { ok: true, value: { id } } : refusal("secret_not_found");
  },
};

function drawn({ randomBytes }: Server, bytes: number): Buffer {
  const into = Buffer.alloc(bytes);
  randomBytes(into);
  return into;
}
