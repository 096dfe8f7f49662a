/**
 * Sends what tenants want to have sent to endpoints of their choice, so that no tenant and no endpoint
 * holds up another one. Every endpoint of a tenant is a target with a circuit breaker of its own:
 *
 * - Tenants take turns, and the targets of a tenant take turns. Targets and tenants have a limited number of
 *   open requests, and some slots are kept for tenants that have no open request.
 * - A new endpoint gets few slots until it has answered. An endpoint that stopped answering gets none until
 *   its breaker lets a try pass. Only silence counts: any answer, also an error, shows that the endpoint is there.
 * - The number of waiting items is limited for each target and each tenant; `add` refuses what does not fit.
 */
import type { TenantId } from "@codeq/queue";
import type { Events } from "../../telemetry/events.ts";
import type { Clock } from "../clock.ts";
import type { Limiter } from "../limiter/limiter.ts";
import { CircuitBreaker } from "./circuit-breaker.ts";

/** Where something goes. */
export interface Destination {
  readonly tenantId: TenantId;
  /** Scheme, host and port. */
  readonly endpoint: string;
}

export interface Outgoing extends Destination {
  /** On the wall clock: while its endpoint is silent, the item is given up from this moment on. */
  readonly overMs: number;
}

export interface SenderLimits {
  readonly inFlightMax: number;
  /** The slots that are kept for tenants with nothing in flight. */
  readonly keptForIdleTenants: number;
  readonly perTenantMax: number;
  /** The slots of a tenant that are kept for endpoints that have answered. */
  readonly keptForKnownEndpoints: number;
  readonly perEndpointMax: number;
  readonly perNewEndpointMax: number;
  readonly targetWaitingMax: number;
  readonly tenantWaitingMax: number;
  /** Targets without items that are remembered with their breakers. */
  readonly idleTargetsMax: number;
}

/** Whether the endpoint answered; undefined when it was not asked, or its answer does not matter. */
export type Ending = "answered" | "silent" | undefined;

/** What is full. */
export type Full = "tenant" | "target";

export interface SenderParts<Item extends Outgoing> {
  readonly clock: Clock;
  readonly limits: SenderLimits;
  /** Sends an item and never rejects; returns undefined when there is nothing to send after all. */
  readonly send: (item: Item) => Promise<Ending> | undefined;
  /** Items of a silent endpoint were dropped, because they are over. */
  readonly onOver?: (items: readonly Item[]) => void;
  /** An endpoint stopped answering, or answers again. */
  readonly onTurned?: (to: Destination, turned: "silent" | "answering") => void;
}

/** When an endpoint opens its breaker, and when it is retried. */
export const breakerLimits = {
  failuresMax: 3,
  waitsMs: [1000, 2000, 4000, 8000, 16_000, 30_000],
} as const;

interface Tenant<Item> {
  readonly id: TenantId;
  readonly targets: Map<string, Target<Item>>;
  /** Targets with an item that may start, the next one first. */
  readonly knownTurns: Set<Target<Item>>;
  readonly newTurns: Set<Target<Item>>;
  waiting: number;
  inFlight: number;
  newInFlight: number;
}

interface Target<Item> {
  readonly tenant: Tenant<Item>;
  readonly endpoint: string;
  readonly breaker: CircuitBreaker;
  waiting: Item[];
  inFlight: number;
  /** Whether the endpoint has answered. */
  isKnown: boolean;
}

export class Sender<Item extends Outgoing> {
  /** Called when a request has ended, so that another item may start. */
  onFree: () => void = () => {};
  readonly #parts: SenderParts<Item>;
  readonly #limits: SenderLimits;
  readonly #tenants: Map<TenantId, Tenant<Item>> = new Map();
  /** Tenants with an item that may start, the next one first. */
  readonly #turns: Set<Tenant<Item>> = new Set();
  /** Targets that wait for their breaker, and a moment before which none of them may go on. */
  readonly #held: Set<Target<Item>> = new Set();
  #heldMs = Number.POSITIVE_INFINITY;
  /** The target that was used last comes last. */
  readonly #idle: Set<Target<Item>> = new Set();
  readonly #inFlight: Set<Promise<void>> = new Set();

  constructor(parts: SenderParts<Item>) {
    this.#parts = parts;
    this.#limits = parts.limits;
  }

  /** Returns what is full; undefined when the item was added. */
  add(item: Item): Full | undefined {
    const { targetWaitingMax, tenantWaitingMax } = this.#limits;
    const target = this.#targetOf(item);
    const { tenant, waiting } = target;
    const isTenantFull = tenant.waiting >= tenantWaitingMax;
    if (isTenantFull || waiting.length >= targetWaitingMax) {
      this.#remember(target);
      return isTenantFull ? "tenant" : "target";
    }
    waiting.push(item);
    tenant.waiting += 1;
    this.#arrange(target);
    return undefined;
  }

  /** Whether a tenant, and a target of it if one is meant, is half empty again. */
  hasRoom({ tenantId, endpoint }: { tenantId: TenantId; endpoint: string | undefined }): boolean {
    const tenant = this.#tenants.get(tenantId);
    if (tenant === undefined) return true;
    const ofTarget =
      endpoint === undefined ? 0 : (tenant.targets.get(endpoint)?.waiting.length ?? 0);
    const { targetWaitingMax, tenantWaitingMax } = this.#limits;
    return tenant.waiting <= tenantWaitingMax / 2 && ofTarget <= targetWaitingMax / 2;
  }

  isSilent({ tenantId, endpoint }: Destination): boolean {
    const target = this.#tenants.get(tenantId)?.targets.get(endpoint);
    return target !== undefined && !target.breaker.isClosed;
  }

  /** Sends nothing to the endpoint before this moment. */
  hold(to: Destination, untilMs: number): void {
    this.#targetOf(to).breaker.hold(untilMs);
  }

  /** When an item may start; undefined while only the end of a request changes that. */
  nextMs(): number | undefined {
    const nowMs = this.#parts.clock.monotonicMs();
    for (const tenant of this.#turns) if (this.#hasSlot(tenant)) return nowMs;
    return this.#held.size === 0 ? undefined : Math.max(this.#heldMs, nowMs);
  }

  /** Starts what may start, a number of items at most, and does not wait for it. */
  run(max: number = Number.POSITIVE_INFINITY): void {
    this.#release();
    for (let started = 0; started < max; started += 1) {
      const target = this.#nextTarget();
      if (target === undefined) return;
      this.#start(target);
    }
  }

  /** Waits for the open requests. */
  async settle(): Promise<void> {
    await Promise.all(this.#inFlight);
  }

  #start(target: Target<Item>): void {
    const { tenant } = target;
    const sent = this.#parts.send(target.waiting.shift() as Item);
    tenant.waiting -= 1;
    if (sent !== undefined) {
      this.#count(target, 1);
      const ended = sent.then((ending) => {
        this.#inFlight.delete(ended);
        this.#end(target, ending);
        this.onFree();
      });
      this.#inFlight.add(ended);
    }
    // Both go to the end of their order.
    tenant.knownTurns.delete(target);
    tenant.newTurns.delete(target);
    this.#turns.delete(tenant);
    this.#arrange(target);
  }

  #end(target: Target<Item>, ending: Ending): void {
    const { tenant, breaker, endpoint } = target;
    this.#count(target, -1);
    const wasClosed = breaker.isClosed;
    if (ending === "answered") {
      breaker.succeeded();
      if (!target.isKnown) tenant.newInFlight -= target.inFlight;
      target.isKnown = true;
    }
    const isOpen = ending === "silent" && breaker.failed(this.#parts.clock.monotonicMs());
    if (isOpen) this.#dropOver(target);
    this.#arrange(target);
    if (wasClosed === breaker.isClosed) return;
    this.#parts.onTurned?.({ tenantId: tenant.id, endpoint }, wasClosed ? "silent" : "answering");
  }

  #dropOver(target: Target<Item>): void {
    const wallMs = this.#parts.clock.nowMs();
    const over = target.waiting.filter(({ overMs }) => overMs <= wallMs);
    if (over.length === 0) return;
    target.waiting = target.waiting.filter(({ overMs }) => overMs > wallMs);
    target.tenant.waiting -= over.length;
    this.#parts.onOver?.(over);
  }

  #nextTarget(): Target<Item> | undefined {
    for (const tenant of this.#turns) {
      if (!this.#hasSlot(tenant)) continue;
      const [known] = tenant.knownTurns;
      const [fresh] = tenant.newTurns;
      const target = known ?? (this.#mayStartNew(tenant) ? fresh : undefined);
      if (target !== undefined) return target;
    }
    return undefined;
  }

  #hasSlot(tenant: Tenant<Item>): boolean {
    const { inFlightMax, keptForIdleTenants } = this.#limits;
    const kept = tenant.inFlight === 0 ? 0 : keptForIdleTenants;
    return this.#inFlight.size < inFlightMax - kept;
  }

  #mayStartNew(tenant: Tenant<Item>): boolean {
    const { perTenantMax, keptForKnownEndpoints } = this.#limits;
    return tenant.newInFlight < perTenantMax - keptForKnownEndpoints;
  }

  #count(target: Target<Item>, change: 1 | -1): void {
    target.inFlight += change;
    target.tenant.inFlight += change;
    if (!target.isKnown) target.tenant.newInFlight += change;
  }

  /** Puts the target into the sets that it belongs to now, at the end if it is new there. */
  #arrange(target: Target<Item>): void {
    const { tenant, breaker } = target;
    const isWaiting = target.waiting.length > 0;
    const isHeld = isWaiting && breaker.untilMs > this.#parts.clock.monotonicMs();
    const mayStart = isWaiting && !isHeld && target.inFlight < this.#slotsOf(target);
    keepIn(tenant.knownTurns, target, mayStart && target.isKnown);
    keepIn(tenant.newTurns, target, mayStart && !target.isKnown);
    const mayStartNew = tenant.newTurns.size > 0 && this.#mayStartNew(tenant);
    const hasTurn = tenant.knownTurns.size > 0 || mayStartNew;
    keepIn(this.#turns, tenant, hasTurn && tenant.inFlight < this.#limits.perTenantMax);
    keepIn(this.#held, target, isHeld);
    if (isHeld) this.#heldMs = Math.min(this.#heldMs, breaker.untilMs);
    this.#remember(target);
  }

  #slotsOf({ breaker, isKnown }: Target<Item>): number {
    if (!breaker.isClosed) return 1;
    return isKnown ? this.#limits.perEndpointMax : this.#limits.perNewEndpointMax;
  }

  /** Lets the targets go on whose breakers let a try pass. */
  #release(): void {
    if (this.#parts.clock.monotonicMs() < this.#heldMs) return;
    this.#heldMs = Number.POSITIVE_INFINITY;
    for (const target of [...this.#held]) this.#arrange(target);
  }

  #targetOf({ tenantId, endpoint }: Destination): Target<Item> {
    const tenant = this.#tenantOf(tenantId);
    const known = tenant.targets.get(endpoint);
    if (known !== undefined) return known;
    const breaker = new CircuitBreaker(breakerLimits);
    const target = { tenant, endpoint, breaker, waiting: [], inFlight: 0, isKnown: false };
    tenant.targets.set(endpoint, target);
    return target;
  }

  #tenantOf(id: TenantId): Tenant<Item> {
    const known = this.#tenants.get(id);
    if (known !== undefined) return known;
    const turns = { knownTurns: new Set<Target<Item>>(), newTurns: new Set<Target<Item>>() };
    const counts = { waiting: 0, inFlight: 0, newInFlight: 0 };
    const tenant = { id, targets: new Map(), ...turns, ...counts };
    this.#tenants.set(id, tenant);
    return tenant;
  }

  /** Keeps a target without items for its breaker, and forgets the one that was idle longest. */
  #remember(target: Target<Item>): void {
    this.#idle.delete(target);
    if (target.waiting.length > 0 || target.inFlight > 0) return;
    this.#idle.add(target);
    if (this.#idle.size <= this.#limits.idleTargetsMax) return;
    const [oldest = target] = this.#idle;
    this.#idle.delete(oldest);
    const { tenant } = oldest;
    tenant.targets.delete(oldest.endpoint);
    if (tenant.targets.size === 0) this.#tenants.delete(tenant.id);
  }
}

/** How long a request has to wait for the rate limit of its URL; 0 when it may go now. */
export function waitForLimit(
  { limiter, events }: { readonly limiter: Limiter; readonly events: Events },
  kind: "task_result" | "queue_ready",
  { tenantId, url }: { readonly tenantId: TenantId; readonly url: string },
): number {
  const allowance = limiter.of("webhook", { tenantId, subject: url });
  if (allowance === undefined || allowance.take(1) === 0) return 0;
  events.rateLimited("webhook", kind);
  return Math.max(allowance.queuedWaitMs(), 1);
}

function keepIn<T>(set: Set<T>, item: T, belongs: boolean): void {
  if (belongs) set.add(item);
  else set.delete(item);
}
