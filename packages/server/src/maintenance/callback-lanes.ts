/**
 * Callbacks that are due, and which of them may go next. Every endpoint of a tenant has a lane, with a
 * circuit breaker and slots of its own, so that no tenant and no endpoint holds up another one:
 *
 * - Tenants take turns, and the lanes of a tenant take turns. Lanes and tenants have a bounded number
 *   of slots, and some slots are kept for tenants that have nothing on its way.
 * - A new endpoint gets few slots until it has answered. One that stopped answering gets none until its
 *   breaker lets a try pass.
 * - Memory is bounded for each lane and tenant. What does not fit stays in the store; the lane or the
 *   tenant remembers from which key on, and asks for it when there is room again.
 */
import type { TenantId } from "@codeq/queue";
import type { WebhookJob } from "../store/webhook-job.ts";
import { CircuitBreaker } from "./circuit-breaker.ts";

export interface Callback extends WebhookJob {
  readonly tenantId: TenantId;
  /** Scheme, host and port that it goes to. */
  readonly endpoint: string;
  /** On the wall clock: when its last try would be over if the endpoint were tried throughout. */
  readonly overMs: number;
}

export interface LaneLimits {
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
  /** Lanes without callbacks that are remembered with their breakers. */
  readonly idleLanesMax: number;
}

const laneLimits: LaneLimits = {
  inFlightMax: 128,
  keptForIdleTenants: 32,
  perTenantMax: 48,
  keptForKnownEndpoints: 16,
  perEndpointMax: 16,
  perNewEndpointMax: 2,
  laneWaitingMax: 128,
  tenantWaitingMax: 4096,
  idleLanesMax: 10_000,
};

/**
 * What one of several shards may have on its way, so that all of them together have no more than one
 * shard alone would. A shard has one slot for an endpoint at least.
 */
export function laneLimitsOfShard(shards: number): Partial<LaneLimits> {
  const share = (slots: number): number => Math.max(1, Math.floor(slots / shards));
  const kept = (slots: number): number => Math.floor(slots / shards);
  return {
    inFlightMax: share(laneLimits.inFlightMax),
    keptForIdleTenants: kept(laneLimits.keptForIdleTenants),
    perTenantMax: share(laneLimits.perTenantMax),
    keptForKnownEndpoints: kept(laneLimits.keptForKnownEndpoints),
    perEndpointMax: share(laneLimits.perEndpointMax),
    perNewEndpointMax: share(laneLimits.perNewEndpointMax),
  };
}

/** What came of a callback: an answer, none, or no try for a reason of our own. */
export type Ending = "answered" | "unanswered" | "untried";

export interface Now {
  readonly wallMs: number;
  readonly monotonicMs: number;
}

interface Tenant {
  readonly id: TenantId;
  readonly lanes: Map<string, Lane>;
  /** Lanes with something that may start, the next one first. */
  readonly knownTurns: Set<Lane>;
  readonly newTurns: Set<Lane>;
  waiting: number;
  inFlight: number;
  newInFlight: number;
  /** Where the callbacks begin that found no room. */
  unreadFrom: string | undefined;
}

interface Lane {
  readonly tenant: Tenant;
  readonly endpoint: string;
  readonly breaker: CircuitBreaker;
  waiting: Callback[];
  inFlight: number;
  isKnown: boolean;
  unreadFrom: string | undefined;
}

export class CallbackLanes {
  readonly #limits: LaneLimits;
  readonly #tenants: Map<TenantId, Tenant> = new Map();
  /** Tenants with something that may start, the next one first. */
  readonly #turns: Set<Tenant> = new Set();
  /** Lanes that wait for their breaker, and a moment before which none of them may go on. */
  readonly #held: Set<Lane> = new Set();
  #heldMs = Number.POSITIVE_INFINITY;
  /** Lanes and tenants for which there is more in the store. */
  readonly #unread: Set<Lane | Tenant> = new Set();
  /** The one that was used last comes last. */
  readonly #idle: Set<Lane> = new Set();
  readonly #keys: Set<string> = new Set();
  #inFlight = 0;

  constructor(limits: Partial<LaneLimits> = {}) {
    this.#limits = { ...laneLimits, ...limits };
  }

  /** Whether the callback waits here or is on its way. */
  has(key: string): boolean {
    return this.#keys.has(key);
  }

  /**
   * Takes a callback over. One that finds no room is left to be read again; one that is over, and whose
   * endpoint does not answer, is to be given up.
   */
  add(callback: Callback, now: Now): "added" | "left" | "over" {
    const tenant = this.#tenantOf(callback.tenantId);
    const isCrowded = tenant.waiting >= this.#limits.tenantWaitingMax;
    if (isCrowded || tenant.unreadFrom !== undefined) return this.#leave(tenant, callback.key);
    const lane = this.#laneOf(callback);
    if (callback.overMs <= now.wallMs && !lane.breaker.isClosed) return "over";
    const isFull = lane.waiting.length >= this.#limits.laneWaitingMax;
    if (isFull || lane.unreadFrom !== undefined) return this.#leave(lane, callback.key);
    lane.waiting.push(callback);
    tenant.waiting += 1;
    this.#keys.add(callback.key);
    this.#place(lane, now.monotonicMs);
    return "added";
  }

  /** The callback whose turn it is; it is on its way until it has ended. */
  take(nowMs: number): Callback | undefined {
    this.#release(nowMs);
    for (const tenant of this.#turns) {
      if (!this.#hasSlot(tenant)) continue;
      const lane = this.#nextLane(tenant);
      const callback = lane?.waiting.shift();
      if (lane === undefined || callback === undefined) continue;
      this.#count(lane, 1);
      tenant.waiting -= 1;
      // Both go to the end of their lines.
      tenant.knownTurns.delete(lane);
      tenant.newTurns.delete(lane);
      this.#turns.delete(tenant);
      this.#place(lane, nowMs);
      return callback;
    }
    return undefined;
  }

  /**
   * The slot is free again. `over` are callbacks to give up: they waited longer than their tries would
   * have taken, for an endpoint that still does not answer.
   */
  end(callback: Callback, how: Ending, now: Now): { over: Callback[]; turned: Turn | undefined } {
    const lane = this.#laneOf(callback);
    const { breaker } = lane;
    this.#count(lane, -1);
    this.#keys.delete(callback.key);
    const wasClosed = breaker.isClosed;
    if (how === "answered") {
      breaker.answered();
      if (!lane.isKnown) lane.tenant.newInFlight -= lane.inFlight;
      lane.isKnown = true;
    }
    const isOpen = how === "unanswered" && breaker.unanswered(now.monotonicMs);
    const over = isOpen ? this.#takeOver(lane, now.wallMs) : [];
    this.#place(lane, now.monotonicMs);
    if (wasClosed === breaker.isClosed) return { over, turned: undefined };
    return { over, turned: wasClosed ? "silent" : "answering" };
  }

  /** It ended without having been written; it is read again, and its lane waits until then. */
  putBack(callback: Callback, now: Now, untilMs: number): void {
    const lane = this.#laneOf(callback);
    lane.breaker.hold(untilMs);
    this.#leave(lane, callback.key);
    this.end(callback, "untried", now);
  }

  /** When there is something to start or to read; undefined while only endings change that. */
  nextMs(nowMs: number): number | undefined {
    if (this.#wantsReading() || this.#canStart()) return nowMs;
    return this.#held.size === 0 ? undefined : Math.max(this.#heldMs, nowMs);
  }

  /** Where to read again for lanes and tenants with room, which then take what they are given. */
  readAgain(): { readonly from: string; readonly isDone: () => boolean } | undefined {
    let from: string | undefined;
    const reading: (Lane | Tenant)[] = [];
    for (const shelf of this.#unread) {
      if (shelf.unreadFrom === undefined || !this.#hasRoom(shelf)) continue;
      if (from === undefined || shelf.unreadFrom < from) from = shelf.unreadFrom;
      shelf.unreadFrom = undefined;
      this.#unread.delete(shelf);
      reading.push(shelf);
    }
    if (from === undefined) return undefined;
    return { from, isDone: () => reading.every((shelf) => shelf.unreadFrom !== undefined) };
  }

  #wantsReading(): boolean {
    for (const shelf of this.#unread) if (this.#hasRoom(shelf)) return true;
    return false;
  }

  /** Half empty, so that reading is worth it. */
  #hasRoom(shelf: Lane | Tenant): boolean {
    const { laneWaitingMax, tenantWaitingMax } = this.#limits;
    if ("lanes" in shelf) return shelf.waiting <= tenantWaitingMax / 2;
    const isShort = shelf.waiting.length <= laneWaitingMax / 2;
    return isShort && shelf.tenant.waiting <= tenantWaitingMax / 2;
  }

  #canStart(): boolean {
    for (const tenant of this.#turns) if (this.#hasSlot(tenant)) return true;
    return false;
  }

  #hasSlot(tenant: Tenant): boolean {
    const { inFlightMax, keptForIdleTenants } = this.#limits;
    const isIdle = tenant.inFlight === 0;
    return this.#inFlight < (isIdle ? inFlightMax : inFlightMax - keptForIdleTenants);
  }

  #nextLane(tenant: Tenant): Lane | undefined {
    const [known] = tenant.knownTurns;
    const [fresh] = tenant.newTurns;
    return known ?? (this.#mayStartNew(tenant) ? fresh : undefined);
  }

  #mayStartNew(tenant: Tenant): boolean {
    const { perTenantMax, keptForKnownEndpoints } = this.#limits;
    return tenant.newInFlight < perTenantMax - keptForKnownEndpoints;
  }

  #count(lane: Lane, change: 1 | -1): void {
    lane.inFlight += change;
    lane.tenant.inFlight += change;
    this.#inFlight += change;
    if (!lane.isKnown) lane.tenant.newInFlight += change;
  }

  /** Into the lines it belongs to now, at their ends if it was in none. */
  #place(lane: Lane, nowMs: number): void {
    const { tenant, breaker } = lane;
    const isHeld = breaker.untilMs > nowMs;
    const isWaiting = lane.waiting.length > 0;
    const mayStart = isWaiting && !isHeld && lane.inFlight < this.#slotsOf(lane);
    keepIn(tenant.knownTurns, lane, mayStart && lane.isKnown);
    keepIn(tenant.newTurns, lane, mayStart && !lane.isKnown);
    const mayStartNew = tenant.newTurns.size > 0 && this.#mayStartNew(tenant);
    const hasTurn = tenant.knownTurns.size > 0 || mayStartNew;
    keepIn(this.#turns, tenant, hasTurn && tenant.inFlight < this.#limits.perTenantMax);
    keepIn(this.#held, lane, isHeld && isWaiting);
    if (isHeld && isWaiting) this.#heldMs = Math.min(this.#heldMs, breaker.untilMs);
    this.#remember(lane);
  }

  #slotsOf({ breaker, isKnown }: Lane): number {
    if (!breaker.isClosed) return 1;
    return isKnown ? this.#limits.perEndpointMax : this.#limits.perNewEndpointMax;
  }

  /** Lets the lanes go on whose breakers let a try pass. */
  #release(nowMs: number): void {
    if (nowMs < this.#heldMs) return;
    this.#heldMs = Number.POSITIVE_INFINITY;
    for (const lane of [...this.#held]) this.#place(lane, nowMs);
  }

  #takeOver(lane: Lane, wallMs: number): Callback[] {
    const over = lane.waiting.filter(({ overMs }) => overMs <= wallMs);
    if (over.length === 0) return over;
    lane.waiting = lane.waiting.filter(({ overMs }) => overMs > wallMs);
    lane.tenant.waiting -= over.length;
    for (const { key } of over) this.#keys.delete(key);
    return over;
  }

  #leave(shelf: Lane | Tenant, key: string): "left" {
    if (shelf.unreadFrom === undefined || key < shelf.unreadFrom) shelf.unreadFrom = key;
    this.#unread.add(shelf);
    return "left";
  }

  #tenantOf(id: TenantId): Tenant {
    const known = this.#tenants.get(id);
    if (known !== undefined) return known;
    const tenant: Tenant = {
      id,
      lanes: new Map(),
      knownTurns: new Set(),
      newTurns: new Set(),
      waiting: 0,
      inFlight: 0,
      newInFlight: 0,
      unreadFrom: undefined,
    };
    this.#tenants.set(id, tenant);
    return tenant;
  }

  #laneOf({ tenantId, endpoint }: Callback): Lane {
    const tenant = this.#tenantOf(tenantId);
    const known = tenant.lanes.get(endpoint);
    if (known !== undefined) return known;
    const lane: Lane = {
      tenant,
      endpoint,
      breaker: new CircuitBreaker(),
      waiting: [],
      inFlight: 0,
      isKnown: false,
      unreadFrom: undefined,
    };
    tenant.lanes.set(endpoint, lane);
    return lane;
  }

  /** Keeps a lane without callbacks for its breaker, and forgets the one that was idle longest. */
  #remember(lane: Lane): void {
    this.#idle.delete(lane);
    if (lane.waiting.length > 0 || lane.inFlight > 0) return;
    this.#idle.add(lane);
    if (this.#idle.size <= this.#limits.idleLanesMax) return;
    const [oldest] = this.#idle;
    if (oldest === undefined || oldest.unreadFrom !== undefined) return;
    this.#idle.delete(oldest);
    oldest.tenant.lanes.delete(oldest.endpoint);
    const { tenant } = oldest;
    if (tenant.lanes.size === 0 && tenant.unreadFrom === undefined) this.#tenants.delete(tenant.id);
  }
}

export type Turn = "silent" | "answering";

function keepIn<T>(set: Set<T>, item: T, belongs: boolean): void {
  if (belongs) set.add(item);
  else set.delete(item);
}
