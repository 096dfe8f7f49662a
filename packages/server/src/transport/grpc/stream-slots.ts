/**
 * Limits the number of open streams: a maximum for the server, of which one tenant may have at most half, so
 * that it cannot lock out the others.
 */
import type { TenantId } from "@codeq/queue";

export class StreamSlots {
  readonly #max: number;
  readonly #ofTenants: Map<TenantId, number> = new Map();
  #taken = 0;

  constructor(max: number) {
    this.#max = max;
  }

  get isFull(): boolean {
    return this.#taken >= this.#max;
  }

  isFullFor(tenantId: TenantId): boolean {
    return (this.#ofTenants.get(tenantId) ?? 0) >= Math.ceil(this.#max / 2);
  }

  add(change: 1 | -1): void {
    this.#taken += change;
  }

  addFor(tenantId: TenantId, change: 1 | -1): void {
    const taken = (this.#ofTenants.get(tenantId) ?? 0) + change;
    if (taken === 0) this.#ofTenants.delete(tenantId);
    else this.#ofTenants.set(tenantId, taken);
  }
}

/** The slot of one stream: taken when it opens, and for its tenant once that is known. */
export class StreamSlot {
  readonly #slots: StreamSlots;
  #isTaken = false;
  #tenantId: TenantId | undefined;

  constructor(slots: StreamSlots) {
    this.#slots = slots;
  }

  /** False when there is none left. */
  take(): boolean {
    if (this.#slots.isFull) return false;
    this.#isTaken = true;
    this.#slots.add(1);
    return true;
  }

  /** False when the tenant has all that it may have. */
  takeFor(tenantId: TenantId): boolean {
    if (this.#slots.isFullFor(tenantId)) return false;
    this.#tenantId = tenantId;
    this.#slots.addFor(tenantId, 1);
    return true;
  }

  giveBack(): void {
    if (this.#isTaken) this.#slots.add(-1);
    if (this.#tenantId !== undefined) this.#slots.addFor(this.#tenantId, -1);
  }
}
