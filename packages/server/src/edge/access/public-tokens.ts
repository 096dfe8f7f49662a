/**
 * Tokens with which a browser may watch one task, and do nothing else. Nothing is stored: a token is sealed, with the
 * task and the time of its end inside. It ends with the API key of the caller who asked for it.
 */
import type { TaskId, TenantId } from "@codeq/queue";
import { accept, refuse } from "@codeq/queue";
import type { Clock } from "../../core/clock.ts";
import type { RandomBytes } from "../../core/task-ids.ts";
import type { ApiKeyId } from "./api-keys/api-key-record.ts";
import type { ApiKeys } from "./api-keys/api-keys.ts";
import { type Authenticated, type Identity, workerIdOf } from "./identity.ts";
import { Seal } from "./seal.ts";

interface PublicTokensParts {
  /** The same on all servers that accept each other's tokens. */
  readonly secret: string;
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
  readonly apiKeys: Pick<ApiKeys, "find">;
}

const prefix = "cqp_";

export class PublicTokens {
  readonly #parts: PublicTokensParts;
  readonly #seal: Seal;

  constructor(parts: PublicTokensParts) {
    this.#parts = parts;
    this.#seal = new Seal({ ...parts, purpose: "public token" });
  }

  /** A token for a task that the caller may read. */
  give(
    { tenantId, apiKeyId, expiresMs }: Identity,
    { id, forMs }: { readonly id: TaskId; readonly forMs: number },
  ): { readonly token: string; readonly expiresMs: number } {
    const untilMs = this.#parts.clock.nowMs() + forMs;
    const endMs = Math.min(untilMs, expiresMs ?? untilMs);
    const text = JSON.stringify([tenantId, id, endMs, apiKeyId ?? ""]);
    return { token: prefix + this.#seal.close(text), expiresMs: endMs };
  }

  /** Undefined for a token of another kind. */
  identityOf(token: string): Authenticated | undefined {
    if (!token.startsWith(prefix)) return undefined;
    const text = this.#seal.open(token.slice(prefix.length));
    if (text === undefined) return refuse("invalid_token");
    const [tenantId, id, expiresMs, key] = JSON.parse(text) as [TenantId, TaskId, number, string];
    if (expiresMs <= this.#parts.clock.nowMs()) return refuse("token_expired");
    const apiKeyId = key === "" ? undefined : (key as ApiKeyId);
    const { apiKeys } = this.#parts;
    const isRevoked = (): boolean => apiKeyId !== undefined && apiKeys.find(apiKeyId) === undefined;
    if (isRevoked()) return refuse("invalid_token");
    const subject = `public:${id}`;
    return accept({
      subject,
      workerId: workerIdOf(subject, ""),
      tenantId,
      expiresMs,
      isRevoked,
      isViewer: false,
      isAdmin: false,
      isOperator: false,
      hidesPayloads: false,
      scopes: new Set<string>(),
      eventTypes: [],
      creates: new Set<string>(),
      issuedBy: "public token",
      // No header gives it a role.
      hasRole: true,
      onlyTask: id,
    });
  }
}
