/**
 * The secrets that sign the callbacks of the caller's tenant. A new secret signs at once; the previous one
 * signs beside it for a while, so that receivers can switch. If the tenant had no secret of its own,
 * callbacks are signed with the secret of the configuration for the same time.
 */
import { limits } from "@codeq/protocol";
import type { SigningSecret } from "../store/signing-record.ts";
import { type Operation, refusal, type Server } from "./operation.ts";

export interface RotateSecretInput {
  /** How long the secret before it signs as well; undefined for the default. */
  readonly overlapSeconds: number | undefined;
}

const secretBytes = 32;
const idBytes = 8;
/** What the configuration has stands in the list under this name. */
const configured = "configuration";

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
    const untilMs = nowMs + overlapSeconds * 1000;
    const [newest] = await queue.webhooks.secrets(tenantId);
    const before = newest ?? { id: configured, secret: "", createdMs: 0, createdBy: "" };
    const secret = {
      id: `whk_${drawn(server, idBytes).toString("hex")}`,
      secret: `whsec_${drawn(server, secretBytes).toString("base64")}`,
      createdMs: nowMs,
      createdBy,
      untilMs: undefined,
    };
    const older = overlapSeconds === 0 ? [] : [{ ...before, untilMs }];
    await queue.webhooks.setSecrets(tenantId, [secret, ...older]);
    return { ok: true, value: secret };
  },
};

/** Those that sign now, the newest first. */
export const listSecrets: Operation<undefined, readonly SigningSecret[]> = {
  name: "list_webhook_secrets",
  access: "admin",
  scope: undefined,
  audit: { of: "other tenants" },
  run: async (server, call) => ({ ok: true, value: await valid(server, call.identity) }),
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
    const secrets = await valid(server, call.identity);
    const rest = secrets.filter((each) => each.id !== id);
    if (rest.length === secrets.length) return refusal("secret_not_found");
    // The one that is left over must not end with the time in which receivers were to change.
    const kept = rest.map((each, at) => (at === 0 ? { ...each, untilMs: undefined } : each));
    const isLeft = kept.some(({ secret }) => secret !== "");
    await server.queue.webhooks.setSecrets(call.identity.tenantId, isLeft ? kept : []);
    return { ok: true, value: { id } };
  },
};

async function valid(
  { queue, clock }: Server,
  { tenantId }: { readonly tenantId: SigningTenant },
): Promise<readonly SigningSecret[]> {
  const nowMs = clock.nowMs();
  const secrets = await queue.webhooks.secrets(tenantId);
  return secrets.filter(({ untilMs }) => untilMs === undefined || untilMs > nowMs);
}

type SigningTenant = Parameters<Server["queue"]["webhooks"]["secrets"]>[0];

function drawn({ randomBytes }: Server, bytes: number): Buffer {
  const into = Buffer.alloc(bytes);
  randomBytes(into);
  return into;
}
