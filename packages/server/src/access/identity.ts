/** Who is calling, once a token was accepted. */
import type { TenantId } from "@codeq/queue";

export interface Identity {
  readonly subject: string;
  readonly tenantId: TenantId;
  readonly scopes: ReadonlySet<string>;
  /** Lower-case commands the caller may work on; `*` stands for all. */
  readonly eventTypes: readonly string[];
  readonly isAdmin: boolean;
}

export const workerScopes = [
  "codeq:claim",
  "codeq:heartbeat",
  "codeq:abandon",
  "codeq:nack",
  "codeq:result",
  "codeq:subscribe",
] as const;

export type WorkerScope = (typeof workerScopes)[number];
export const adminScope = "codeq:admin";
export const anyEventType = "*";
