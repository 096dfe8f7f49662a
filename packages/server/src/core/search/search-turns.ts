/**
 * Searches run one at a time, and the tenants that wait take turns: a tenant waits for at most one search of each
 * other tenant, however many searches the others have asked for.
 */
import type { TenantId } from "@codeq/queue";

export interface SearchLimits {
  /** Searches of one tenant that wait for their turn. */
  readonly waitingPerTenantMax: number;
  readonly waitingMax: number;
}

export const searchLimits: SearchLimits = { waitingPerTenantMax: 16, waitingMax: 1024 };

export class SearchTurns {
  readonly #limits: SearchLimits;
  /** The tenant with the next turn comes first. */
  readonly #waiting: Map<TenantId, (() => void)[]> = new Map();
  #waitingCount = 0;
  #isRunning = false;

  constructor(limits: SearchLimits = searchLimits) {
    this.#limits = limits;
  }

  /** Resolves when it is the turn of the search; undefined when too many searches wait. */
  take(tenantId: TenantId): Promise<void> | undefined {
    if (!this.#isRunning) {
      this.#isRunning = true;
      return Promise.resolve();
    }
    const { waitingMax, waitingPerTenantMax } = this.#limits;
    const ofTenant = this.#waiting.get(tenantId) ?? [];
    if (this.#waitingCount >= waitingMax || ofTenant.length >= waitingPerTenantMax)
      return undefined;
    this.#waiting.set(tenantId, ofTenant);
    this.#waitingCount += 1;
    return new Promise((resolve) => ofTenant.push(resolve));
  }

  /** The search that ran is over: the next tenant has its turn. */
  end(): void {
    const [next] = this.#waiting;
    if (next === undefined) {
      this.#isRunning = false;
      return;
    }
    const [tenantId, searches] = next;
    const run = searches.shift();
    this.#waitingCount -= 1;
    // Its other searches wait behind those of all other tenants.
    this.#waiting.delete(tenantId);
    if (searches.length > 0) this.#waiting.set(tenantId, searches);
    run?.();
  }
}
