/**
 * The memory of what authenticated callers have sent and what was not answered yet: bodies of requests and messages of
 * streams, with a limit for the process and one for each tenant. Beyond a limit, the input that is unfinished for the
 * longest time makes room, of the tenant that has the most: a caller that sends its input without a rest is done
 * before, and a tenant that keeps to its share is not affected by others.
 */
import type { TenantId } from "@codeq/queue";

export interface InFlightLimits {
  readonly bytesMax: number;
  readonly tenantBytesMax: number;
}

/** Above this share of a limit, senders that can wait are slowed down. */
const crowdedShare = 0.5;

export class InFlight {
  readonly limits: InFlightLimits;
  readonly #tenants: Map<TenantId, TenantInput> = new Map();
  #bytes = 0;
  #cuts = 0;

  constructor(limits: InFlightLimits) {
    this.limits = limits;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** How many inputs were cut off to make room since the start. */
  get cuts(): number {
    return this.#cuts;
  }

  /** Whether the tenant should send more slowly, because a limit is near. */
  isCrowded(tenantId: TenantId): boolean {
    const { bytesMax, tenantBytesMax } = this.limits;
    const ofTenant = this.#tenants.get(tenantId)?.bytes ?? 0;
    return this.#bytes > bytesMax * crowdedShare || ofTenant > tenantBytesMax * crowdedShare;
  }

  /** Begins an input; `cut` is called at most once, when it has to make room. */
  open(tenantId: TenantId, cut: () => void): Input {
    return new Input(tenantId, {
      cut,
      changed: (input, change) => this.#changed(input, change),
      ended: (input) => this.#tenants.get(tenantId)?.unfinished.delete(input),
    });
  }

  #changed(input: Input, change: number): void {
    const { tenantId } = input;
    let tenant = this.#tenants.get(tenantId);
    if (tenant === undefined) {
      tenant = { bytes: 0, unfinished: new Set() };
      this.#tenants.set(tenantId, tenant);
    }
    this.#bytes += change;
    tenant.bytes += change;
    if (change > 0 && !input.isWhole) tenant.unfinished.add(input);
    if (input.bytes === 0) tenant.unfinished.delete(input);
    if (change > 0) this.#makeRoom(tenant);
    if (tenant.bytes === 0) this.#tenants.delete(tenantId);
  }

  #makeRoom(sender: TenantInput): void {
    const { bytesMax, tenantBytesMax } = this.limits;
    while (sender.bytes > tenantBytesMax && this.#cutOldest(sender));
    while (this.#bytes > bytesMax && this.#cutOldest(this.#largest()));
  }

  /** False when the tenant has no unfinished input. */
  #cutOldest(tenant: TenantInput | undefined): boolean {
    const [oldest] = tenant?.unfinished ?? [];
    if (oldest === undefined) return false;
    this.#cuts += 1;
    oldest.cut();
    return true;
  }

  #largest(): TenantInput | undefined {
    let largest: TenantInput | undefined;
    for (const tenant of this.#tenants.values()) {
      if (tenant.unfinished.size === 0) continue;
      if (largest === undefined || tenant.bytes > largest.bytes) largest = tenant;
    }
    return largest;
  }
}

interface TenantInput {
  bytes: number;
  /** The oldest first. */
  readonly unfinished: Set<Input>;
}

/** What one request or stream has sent. */
export class Input {
  readonly tenantId: TenantId;
  readonly #parts: {
    readonly cut: () => void;
    readonly changed: (input: Input, change: number) => void;
    readonly ended: (input: Input) => void;
  };
  #bytes = 0;
  #isWhole = false;

  constructor(
    tenantId: TenantId,
    parts: {
      readonly cut: () => void;
      readonly changed: (input: Input, change: number) => void;
      readonly ended: (input: Input) => void;
    },
  ) {
    this.tenantId = tenantId;
    this.#parts = parts;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Nothing of it is missing, so it is answered soon and not cut off. */
  get isWhole(): boolean {
    return this.#isWhole;
  }

  /** Sets the number of bytes that the body has in memory now. */
  hold(bytes: number): void {
    const change = bytes - this.#bytes;
    if (change === 0) return;
    this.#bytes = bytes;
    this.#parts.changed(this, change);
  }

  finish(): void {
    this.#isWhole = true;
    this.#parts.ended(this);
  }

  cut(): void {
    this.hold(0);
    this.#parts.cut();
  }
}
