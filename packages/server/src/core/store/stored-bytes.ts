/**
 * How many bytes of payloads and results each tenant has stored. A total is in the same log record as the
 * changes that led to it, so totals are exact after any crash, and a start has nothing to add up. Memory
 * holds the totals in use.
 *
 * A change is reported after its commit, in the same event loop turn: a group that closes in between does
 * not contain the change, and so must not contain its total either.
 */
import { type Op, put, remove } from "@codeq/engine";
import type { TenantId } from "@codeq/queue";
import { storedBytesKey } from "./keys.ts";

interface Total {
  readonly tenantId: TenantId;
  bytes: number;
  isChanged: boolean;
}

/** Totals that have not changed are read again when they are needed. */
const totalsMax = 10_000;
const noChanges: readonly Op[] = [];

export class StoredBytes {
  readonly #getText: (key: string) => string | undefined;
  readonly #totals: Map<TenantId, Total> = new Map();
  #changed: Total[] = [];

  constructor(getText: (key: string) => string | undefined) {
    this.#getText = getText;
  }

  of(tenantId: TenantId): number {
    return this.#total(tenantId).bytes;
  }

  add(tenantId: TenantId, bytes: number): void {
    const total = this.#total(tenantId);
    total.bytes += bytes;
    if (total.isChanged) return;
    total.isChanged = true;
    this.#changed.push(total);
  }

  /** The totals that have changed since the last call, as writes. */
  takeChanges(): readonly Op[] {
    if (this.#changed.length === 0) return noChanges;
    const ops = this.#changed.map((total) => {
      total.isChanged = false;
      const key = storedBytesKey(total.tenantId);
      return total.bytes === 0 ? remove(key) : put(key, String(total.bytes));
    });
    this.#changed = [];
    if (this.#totals.size > totalsMax) this.#totals.clear();
    return ops;
  }

  /** Drops the totals after a full disk undid changes; the store has the right ones. */
  forgetAll(): void {
    this.#totals.clear();
    this.#changed = [];
  }

  #total(tenantId: TenantId): Total {
    const known = this.#totals.get(tenantId);
    if (known !== undefined) return known;
    const bytes = Number(this.#getText(storedBytesKey(tenantId)) ?? 0);
    const total: Total = { tenantId, bytes, isChanged: false };
    this.#totals.set(tenantId, total);
    return total;
  }
}
