/**
 * Limits the number of open streams: a maximum for the server, of which one tenant may have at most half, so
 * that it cannot lock out the others.
 */
import type { TenantId } from "@codeq/queue";
import { TenantShares } from "../../tenant-shares.ts";

export class StreamSlots {
  readonly ofTenants: TenantShares;
  readonly #max: number;
  #taken = 0;

  constructor(max: number) {
    this.#max = max;
    this.ofTenants = new TenantShares(max);
  }

  get isFull(): boolean {
    return this.#taken >= this.#max;
  }

  add(change: 1 | -1): void {
    this.#taken += change;
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
    if (!this.#slots.ofTenants.hasRoomFor(tenantId)) return false;
    this.#tenantId = tenantId;
    this.#slots.ofTenants.add(tenantId, 1);
    return true;
  }

  giveBack(): void {
    if (this.#isTaken) this.#slots.add(-1);
    if (this.#tenantId !== undefined) this.#slots.ofTenants.add(this.#tenantId, -1);
  }
}
