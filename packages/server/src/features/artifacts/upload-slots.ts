/**
 * How many files are stored at the same time. One tenant has at most half of the slots, so that its slow
 * files do not keep the others from storing any. Of those who wait, tenants take turns.
 */
import type { TenantId } from "@codeq/queue";
import type { Clock } from "../../core/clock.ts";
import { TenantShares } from "../../core/tenant-shares.ts";

/** How long a file waits for a slot. */
const waitMsMax = 10_000;

export class UploadSlots {
  readonly #clock: Clock;
  readonly #shares: TenantShares;
  readonly #waiting: Map<TenantId, Set<(isTaken: boolean) => void>> = new Map();

  constructor(max: number, clock: Clock) {
    this.#shares = new TenantShares(max);
    this.#clock = clock;
  }

  /** False when there is no slot for the tenant now. */
  takeNow(tenantId: TenantId): boolean {
    if (!this.#shares.hasRoomFor(tenantId)) return false;
    this.#shares.add(tenantId, 1);
    return true;
  }

  /** False when there was none in time. */
  async take(tenantId: TenantId): Promise<boolean> {
    if (this.takeNow(tenantId)) return true;
    return await new Promise((resolve) => {
      const waiting = this.#waiting.get(tenantId) ?? new Set();
      const finish = (isTaken: boolean): void => {
        waiting.delete(finish);
        if (waiting.size === 0) this.#waiting.delete(tenantId);
        cancelTimer();
        resolve(isTaken);
      };
      this.#waiting.set(tenantId, waiting.add(finish));
      const cancelTimer = this.#clock.after(waitMsMax, () => finish(false));
    });
  }

  giveBack(tenantId: TenantId): void {
    this.#shares.add(tenantId, -1);
    for (const [next, waiting] of this.#waiting) {
      if (!this.takeNow(next)) continue;
      // To the end: it is the turn of the others first.
      this.#waiting.delete(next);
      this.#waiting.set(next, waiting);
      for (const finish of waiting) {
        finish(true);
        return;
      }
    }
  }
}
