/** Who is calling, once a token was accepted. */
import type { TenantId, WorkerId } from "@codeq/queue";

export interface Identity {
  readonly subject: string;
  /** As whom the caller holds leases. */
  readonly workerId: WorkerId;
  readonly tenantId: TenantId;
  readonly scopes: ReadonlySet<string>;
  /** Lower-case commands the caller may work on; `*` stands for all. */
  readonly eventTypes: readonly string[];
  readonly isAdmin: boolean;
  /** When the token stops being good; undefined for never. */
  readonly expiresMs: number | undefined;
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
