/**
 * How many streams may be open: so many altogether, and one tenant has at most half of them, so that
 * it cannot keep the others out.
 */
import type { TenantId } from "@codeq/queue";

export class StreamPlaces {
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

/** The place of one stream: taken when it opens, and for its tenant once that is known. */
export class StreamPlace {
  readonly #places: StreamPlaces;
  #isTaken = false;
  #tenantId: TenantId | undefined;

  constructor(places: StreamPlaces) {
    this.#places = places;
  }

  /** False when there is none left. */
  take(): boolean {
    if (this.#places.isFull) return false;
    this.#isTaken = true;
    this.#places.add(1);
    return true;
  }

  /** False when the tenant has all that it may have. */
  takeFor(tenantId: TenantId): boolean {
    if (this.#places.isFullFor(tenantId)) return false;
    this.#tenantId = tenantId;
    this.#places.addFor(tenantId, 1);
    return true;
  }

  giveBack(): void {
    if (this.#isTaken) this.#places.add(-1);
    if (this.#tenantId !== undefined) this.#places.addFor(this.#tenantId, -1);
  }
}
