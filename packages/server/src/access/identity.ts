/** The caller, once a token was accepted. */
import type { TenantId, WorkerId } from "@codeq/queue";
import type { ApiKeyId } from "../store/api-key-record.ts";

export interface Identity {
  readonly subject: string;
  /** As whom the caller holds leases. */
  readonly workerId: WorkerId;
  readonly tenantId: TenantId;
  /** The tenant that an operator comes from while it acts in another one. */
  readonly homeTenantId?: TenantId | undefined;
  readonly scopes: ReadonlySet<string>;
  /** Lower-case commands the caller may work on; `*` stands for all. */
  readonly eventTypes: readonly string[];
  /** Lower-case commands the caller may create tasks of; undefined for all. */
  readonly creates: ReadonlySet<string> | undefined;
  /** May look at everything in its tenant, and do nothing about it; admins are viewers too. */
  readonly isViewer: boolean;
  /** Is never shown what tasks carry: payloads, results and artifacts. */
  readonly hidesPayloads: boolean;
  /** Administers its own tenant. */
  readonly isAdmin: boolean;
  /** Administers every tenant; is an admin too. */
  readonly isOperator: boolean;
  /** Whether the token says anything about roles; only one that does not may be given one. */
  readonly hasRole: boolean;
  /** When the token stops being good; undefined for never. */
  readonly expiresMs: number | undefined;
  /** Who vouched for the token, in words for logs and records. */
  readonly issuedBy: string;
  /** Which API key was used, if one was. */
  readonly apiKeyId?: ApiKeyId | undefined;
  /** Whether the token has been taken back since it was accepted. */
  readonly isRevoked: () => boolean;
}

export const workerScopes = [
  "codeq:claim",
  "codeq:heartbeat",
  "codeq:abandon",
  "codeq:nack",
  "codeq:result",
  "codeq:subscribe",
] as const;

export const createScope = "codeq:create";
export const viewerScope = "codeq:viewer";
export const hiddenPayloadsScope = "codeq:payloads-hidden";
export const adminScope = "codeq:admin";
export const operatorScope = "codeq:operator";
export const anyEventType = "*";

/** What an operation may ask for. */
export type Scope = (typeof workerScopes)[number] | typeof createScope;
