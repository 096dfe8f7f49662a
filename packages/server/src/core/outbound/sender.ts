/**
 * Sends what tenants want to have sent to endpoints of their choice, so that no tenant and no endpoint
 * holds up another one. Every endpoint of a tenant has a lane, with a circuit breaker:
 *
 * - Tenants take turns, and the lanes of a tenant take turns. Lanes and tenants have a limited number of
 *   open requests, and some slots are kept for tenants that have no open request.
 * - A new endpoint gets few slots until it has answered. An endpoint that stopped answering gets none until
 *   its breaker lets a try pass. Only silence counts: any answer, also an error, shows that the endpoint is there.
 * - The number of waiting items is limited for each lane and each tenant; `add` refuses what does not fit.
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
  /** Of them, for tenants that have nothing in flight. */
  readonly keptForIdleTenants: number;
  readonly perTenantMax: number;
  /** Of those of a tenant, for endpoints that have answered. */
  readonly keptForKnownEndpoints: number;
  readonly perEndpointMax: number;
  readonly perNewEndpointMax: number;
  readonly laneWaitingMax: number;
  readonly tenantWaitingMax: number;
  /** Lanes without items that are remembered with their breakers. */
  readonly idleLanesMax: number;
}

/** Whether the endpoint answered; undefined when it was not asked, or its answer does not matter. */
export type Ending = "answered" | "silent" | undefined;

/** What has no room for another item. */
export type Full = "tenant" | "lane";

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
  readonly lanes: Map<string, Lane<Item>>;
  /** Lanes with an item that may start, the next one first. */
  readonly knownTurns: Set<Lane<Item>>;
  readonly newTurns: Set<Lane<Item>>;
  waiting: number;
  inFlight: number;
  newInFlight: number;
}

interface Lane<Item> {
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
  /** Lanes that wait for their breaker, and a moment before which none of them may go on. */
  readonly #held: Set<Lane<Item>> = new Set();
  #heldMs = Number.POSITIVE_INFINITY;
  /** The lane that was used last comes last. */
  readonly #idle: Set<Lane<Item>> = new Set();
  readonly #inFlight: Set<Promise<void>> = new Set();

  constructor(parts: SenderParts<Item>) {
    this.#parts = parts;
    this.#limits = parts.limits;
  }

  /** Returns what has no room for the item; undefined when the item was added. */
  add(item: Item): Full | undefined {
    const { laneWaitingMax, tenantWaitingMax } = this.#limits;
    const lane = this.#laneOf(item);
    const { tenant, waiting } = lane;
    const isTenantFull = tenant.waiting >= tenantWaitingMax;
    if (isTenantFull || waiting.length >= laneWaitingMax) {
      this.#remember(lane);
      return isTenantFull ? "tenant" : "lane";
    }
    waiting.push(item);
    tenant.waiting += 1;
    this.#place(lane);
    return undefined;
  }

  /** Whether a tenant, and a lane of it if one is meant, is half empty again. */
  hasRoom({ tenantId, endpoint }: { tenantId: TenantId; endpoint: string | undefined }): boolean {
    const tenant = this.#tenants.get(tenantId);
    if (tenant === undefined) return true;
    const ofLane = endpoint === undefined ? 0 : (tenant.lanes.get(endpoint)?.waiting.length ?? 0);
    const { laneWaitingMax, tenantWaitingMax } = this.#limits;
    return tenant.waiting <= tenantWaitingMax / 2 && ofLane <= laneWaitingMax / 2;
  }

  isSilent({ tenantId, endpoint }: Destination): boolean {
    const lane = this.#tenants.get(tenantId)?.lanes.get(endpoint);
    return lane !== undefined && !lane.breaker.isClosed;
  }

  /** Sends nothing to the endpoint before this moment. */
  hold(to: Destination, untilMs: number): void {
    this.#laneOf(to).breaker.hold(untilMs);
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
      const lane = this.#nextLane();
      if (lane === undefined) return;
      this.#start(lane);
    }
  }

  /** Waits for the open requests. */
  async settle(): Promise<void> {
    await Promise.all(this.#inFlight);
  }

  #start(lane: Lane<Item>): void {
    const { tenant } = lane;
    const sent = this.#parts.send(lane.waiting.shift() as Item);
    tenant.waiting -= 1;
    if (sent !== undefined) {
      this.#count(lane, 1);
      const ended = sent.then((ending) => {
        this.#inFlight.delete(ended);
        this.#end(lane, ending);
        this.onFree();
      });
      this.#inFlight.add(ended);
    }
    // Both go to the end of their lines.
    tenant.knownTurns.delete(lane);
    tenant.newTurns.delete(lane);
    this.#turns.delete(tenant);
    this.#place(lane);
  }

  #end(lane: Lane<Item>, ending: Ending): void {
    const { tenant, breaker, endpoint } = lane;
    this.#count(lane, -1);
    const wasClosed = breaker.isClosed;
    if (ending === "answered") {
      breaker.succeeded();
      if (!lane.isKnown) tenant.newInFlight -= lane.inFlight;
      lane.isKnown = true;
    }
    const isOpen = ending === "silent" && breaker.failed(this.#parts.clock.monotonicMs());
    if (isOpen) this.#dropOver(lane);
    this.#place(lane);
    if (wasClosed === breaker.isClosed) return;
    this.#parts.onTurned?.({ tenantId: tenant.id, endpoint }, wasClosed ? "silent" : "answering");
  }

  #dropOver(lane: Lane<Item>): void {
    const wallMs = this.#parts.clock.nowMs();
    const over = lane.waiting.filter(({ overMs }) => overMs <= wallMs);
    if (over.length === 0) return;
    lane.waiting = lane.waiting.filter(({ overMs }) => overMs > wallMs);
    lane.tenant.waiting -= over.length;
    this.#parts.onOver?.(over);
  }

  #nextLane(): Lane<Item> | undefined {
    for (const tenant of this.#turns) {
      if (!this.#hasSlot(tenant)) continue;
      const [known] = tenant.knownTurns;
      const [fresh] = tenant.newTurns;
      const lane = known ?? (this.#mayStartNew(tenant) ? fresh : undefined);
      if (lane !== undefined) return lane;
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

  #count(lane: Lane<Item>, change: 1 | -1): void {
    lane.inFlight += change;
    lane.tenant.inFlight += change;
    if (!lane.isKnown) lane.tenant.newInFlight += change;
  }

  /** Puts the lane into the lines it belongs to now, at their ends if it was in none. */
  #place(lane: Lane<Item>): void {
    const { tenant, breaker } = lane;
    const isWaiting = lane.waiting.length > 0;
    const isHeld = isWaiting && breaker.untilMs > this.#parts.clock.monotonicMs();
    const mayStart = isWaiting && !isHeld && lane.inFlight < this.#slotsOf(lane);
    keepIn(tenant.knownTurns, lane, mayStart && lane.isKnown);
    keepIn(tenant.newTurns, lane, mayStart && !lane.isKnown);
    const mayStartNew = tenant.newTurns.size > 0 && this.#mayStartNew(tenant);
    const hasTurn = tenant.knownTurns.size > 0 || mayStartNew;
    keepIn(this.#turns, tenant, hasTurn && tenant.inFlight < this.#limits.perTenantMax);
    keepIn(this.#held, lane, isHeld);
    if (isHeld) this.#heldMs = Math.min(this.#heldMs, breaker.untilMs);
    this.#remember(lane);
  }

  #slotsOf({ breaker, isKnown }: Lane<Item>): number {
    if (!breaker.isClosed) return 1;
    return isKnown ? this.#limits.perEndpointMax : this.#limits.perNewEndpointMax;
  }

  /** Lets the lanes go on whose breakers let a try pass. */
  #release(): void {
    if (this.#parts.clock.monotonicMs() < this.#heldMs) return;
    this.#heldMs = Number.POSITIVE_INFINITY;
    for (const lane of [...this.#held]) this.#place(lane);
  }

  #laneOf({ tenantId, endpoint }: Destination): Lane<Item> {
    const tenant = this.#tenantOf(tenantId);
    const known = tenant.lanes.get(endpoint);
    if (known !== undefined) return known;
    const breaker = new CircuitBreaker(breakerLimits);
    const lane = { tenant, endpoint, breaker, waiting: [], inFlight: 0, isKnown: false };
    tenant.lanes.set(endpoint, lane);
    return lane;
  }

  #tenantOf(id: TenantId): Tenant<Item> {
    const known = this.#tenants.get(id);
    if (known !== undefined) return known;
    const turns = { knownTurns: new Set<Lane<Item>>(), newTurns: new Set<Lane<Item>>() };
    const counts = { waiting: 0, inFlight: 0, newInFlight: 0 };
    const tenant = { id, lanes: new Map(), ...turns, ...counts };
    this.#tenants.set(id, tenant);
    return tenant;
  }

  /** Keeps a lane without items for its breaker, and forgets the one that was idle longest. */
  #remember(lane: Lane<Item>): void {
    this.#idle.delete(lane);
    if (lane.waiting.length > 0 || lane.inFlight > 0) return;
    this.#idle.add(lane);
    if (this.#idle.size <= this.#limits.idleLanesMax) return;
    const [oldest = lane] = this.#idle;
    this.#idle.delete(oldest);
    const { tenant } = oldest;
    tenant.lanes.delete(oldest.endpoint);
    if (tenant.lanes.size === 0) this.#tenants.delete(tenant.id);
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
  return Math.max(allowance.waitInLineMs(), 1);
}

function keepIn<T>(set: Set<T>, item: T, belongs: boolean): void {
  if (belongs) set.add(item);
  else set.delete(item);
}
