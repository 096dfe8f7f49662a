/**
 * Counts what each tenant holds of something that is limited. One tenant may hold at most half, so that it
 * cannot lock out the others.
 */
import type { TenantId } from "@codeq/queue";

export class TenantShares {
  readonly #max: number;
  readonly #ofTenants: Map<TenantId, number> = new Map();
  #held = 0;

  constructor(max: number) {
    this.#max = max;
  }

  /** By all tenants together. */
  get held(): number {
    return this.#held;
  }

  hasRoomFor(tenantId: TenantId): boolean {
    const ofTenant = this.#ofTenants.get(tenantId) ?? 0;
    return this.#held < this.#max && ofTenant < Math.ceil(this.#max / 2);
  }

  clear(): void {
    this.#ofTenants.clear();
    this.#held = 0;
  }

  add(tenantId: TenantId, change: 1 | -1): void {
    this.#held += change;
    const ofTenant = (this.#ofTenants.get(tenantId) ?? 0) + change;
    if (ofTenant === 0) this.#ofTenants.delete(tenantId);
    else this.#ofTenants.set(tenantId, ofTenant);
  }
}
