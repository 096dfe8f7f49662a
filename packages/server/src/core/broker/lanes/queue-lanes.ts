/**
 * The lanes of one queue: their ready tasks and leases, which of them claims may take from, and in which order. Made
 * for the first task with a lane, or for a policy that needs it; other queues have none and pay nothing.
 */
import { costOf, laneOf, type Rate, type Task, type TaskId } from "@codeq/queue";
import {
  anyPolicy,
  type LaneLimits,
  type LanePolicy,
  policyOf,
  type WireRate,
} from "../../records/lane-policy.ts";
import { type Moments, removalOfLane } from "../../records/lane-record.ts";
import type { LaneLook, LaneObstacle } from "../../search/explained.ts";
import type { RecordWrite } from "../../store/store.ts";
import { timeOfId } from "../../task-ids.ts";
import type { QueueState } from "../queues/queue-state.ts";
import { FairOrder } from "./fair-order.ts";
import { Allowance, Lane, type Spender } from "./lane.ts";
import { type LanePosition, LaneWindow } from "./lane-window.ts";
import type { ShardLanes } from "./shard-lanes.ts";

/** The last moment of the year 9999: dates on the wire go no further, and a rate may need longer. */
const lastMs = 253_402_300_799_999;
/** Removals of records in one commit. */
const removalsMax = 1000;
/** Lanes that are looked at for the age of the oldest task. */
const headsMax = 1000;

/** The rate of the whole queue, as something that waits. */
class QueueRate implements Spender {
  readonly name = "";
  readonly queue: QueueState;
  dueMs = 0;
  heapIndex = -1;
  rate: Rate | undefined;
  readonly allowance: Allowance = new Allowance();

  constructor(queue: QueueState) {
    this.queue = queue;
  }

  wake(): void {
    this.queue.isWaiting = false;
  }
}

export class QueueLanes {
  readonly queue: QueueState;
  readonly whole: QueueRate;
  /** Ready tasks with a lane, by priority. */
  readonly ready: number[] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
  readonly #shard: ShardLanes;
  readonly #lanes: Map<string, Lane> = new Map();
  readonly #orders: (FairOrder | undefined)[] = [];
  /** What administrators gave to single lanes. */
  readonly #limits: Map<string, LaneLimits> = new Map();
  #policy: LanePolicy = anyPolicy;
  #withTasks = 0;
  /** The sequence number of the task that the rate of the queue does not allow yet. */
  #waitsForSeq: number | undefined;

  constructor(queue: QueueState, shard: ShardLanes) {
    this.queue = queue;
    this.whole = new QueueRate(queue);
    this.#shard = shard;
    shard.isUnused = false;
  }

  get size(): number {
    return this.#lanes.size;
  }

  /** Lanes with ready tasks: those that claims may take from, and those that wait for a lease, a time or an operator. */
  get states(): { readonly claimable: number; readonly waiting: number } {
    const claimable = this.#orders.reduce((sum, order) => sum + (order?.size ?? 0), 0);
    return { claimable, waiting: this.#withTasks - claimable };
  }

  all(): Iterable<Lane> {
    return this.#lanes.values();
  }

  find(name: string): Lane | undefined {
    return this.#lanes.get(name);
  }

  get limits(): ReadonlyMap<string, LaneLimits> {
    return this.#limits;
  }

  /** The policy of the topic has changed. */
  setPolicy(policy: LanePolicy, rate: Rate | undefined): void {
    this.#policy = policy;
    this.whole.rate = rate;
    this.#adoptRate(this.whole, rate);
    this.reopen();
    for (const lane of this.#lanes.values()) this.#adopt(lane);
  }

  #adoptRate(spender: Spender, rate: Rate | undefined): void {
    if (spender.allowance.adopt(rate, this.#nowMs)) this.#shard.changed(spender);
  }

  /** What an administrator gives to one lane; undefined for what the topic says. */
  setLimits(name: string, limits: LaneLimits | undefined): void {
    if (limits === undefined) this.#limits.delete(name);
    else this.#limits.set(name, limits);
    const lane = this.#lanes.get(name);
    if (lane !== undefined) this.#adopt(lane);
  }

  #adopt(lane: Lane): void {
    const policy = policyOf(this.#policy, this.#limits.get(lane.name));
    if (policy.weight !== lane.policy.weight) this.#withdraw(lane);
    lane.policy = policy;
    this.#adoptRate(lane, policy.rate);
    this.offer(lane);
  }

  /** How many units may be spent at once on a task of the lane. */
  burstOf(name: string): number {
    const { rate } = name === "" ? anyPolicy : policyOf(this.#policy, this.#limits.get(name));
    const most = Number.POSITIVE_INFINITY;
    return Math.min(rate?.burst ?? most, this.whole.rate?.burst ?? most);
  }

  /** The lane, made when it is missing. */
  lane(name: string): Lane {
    const known = this.#lanes.get(name);
    if (known !== undefined) return known;
    this.#shard.added();
    this.queue.tenant.lanes += 1;
    const lane = new Lane(name, this.queue, policyOf(this.#policy, this.#limits.get(name)));
    this.#adoptRate(lane, lane.policy.rate);
    this.#lanes.set(name, lane);
    return lane;
  }

  #window(lane: Lane, priority: number): LaneWindow {
    const known = lane.windowOf(priority);
    if (known !== undefined) return known;
    const window = new LaneWindow(lane, priority, this.#shard.entries);
    window.next = lane.firstWindow;
    lane.firstWindow = window;
    return window;
  }

  windowOf(name: string, priority: number): LaneWindow | undefined {
    return this.#lanes.get(name)?.windowOf(priority);
  }

  arrive(name: string, priority: number, position: LanePosition): void {
    const lane = this.lane(name);
    const window = this.#window(lane, priority);
    window.arrive(position, this.#shard.hasRoom(window));
    this.#count(window, 1);
    this.offer(lane);
  }

  /** A task is not ready any more, and was not claimed. */
  depart(name: string, priority: number, seq: number): void {
    const lane = this.lane(name);
    const window = this.#window(lane, priority);
    window.leave(seq);
    this.#count(window, -1);
    this.offer(lane);
  }

  #count(window: LaneWindow, change: number): void {
    const { priority, lane } = window;
    window.ready += change;
    this.#addReady(lane, change);
    this.ready[priority] = (this.ready[priority] as number) + change;
    this.queue.addReady(priority, change);
  }

  #addReady(lane: Lane, change: number): void {
    if (lane.ready === 0) this.#withTasks += 1;
    lane.ready += change;
    if (lane.ready === 0) this.#withTasks -= 1;
  }

  /** Ready tasks that are on disk, before the first change. */
  recover(name: string, counts: readonly number[], sequence: number): void {
    const lane = this.lane(name);
    for (const [priority, count] of counts.entries()) {
      if (count === 0) continue;
      this.#window(lane, priority).recover(count, sequence);
      this.#addReady(lane, count);
      this.ready[priority] = (this.ready[priority] as number) + count;
    }
  }

  /** What the lane, or the queue, has spent, and until when it is held. */
  recoverMoments(name: string, moments: Moments): void {
    const lane = name === "" ? undefined : this.lane(name);
    const spender = lane ?? this.whole;
    const { allowance } = spender;
    Object.assign(allowance, moments, { hasRecord: true });
    this.#adoptRate(spender, lane === undefined ? this.whole.rate : lane.policy.rate);
  }

  offerAll(): void {
    for (const lane of this.#lanes.values()) this.offer(lane);
  }

  /** A claim took a task; before that, the task was counted as reserved. */
  leased(name: string): void {
    const lane = this.lane(name);
    lane.leased += 1;
    if (lane.reserved > 0) lane.reserved -= 1;
  }

  unleased(name: string): void {
    const lane = this.lane(name);
    lane.leased -= 1;
    this.offer(lane);
  }

  /** Offers the next task of the lane to claims, or waits until the lane has an allowance again. */
  offer(lane: Lane): void {
    const { top, policy, allowance, offered } = lane;
    let next: LaneWindow | undefined;
    let openMs = 0;
    if (top !== undefined && policy.pause === undefined && !lane.isAtLimit) {
      openMs = allowance.openMs(policy.rate, top.headCost);
      if (openMs <= this.#nowMs) next = top;
    }
    if (next === undefined && openMs > 0) this.#shard.wait(lane, openMs);
    else if (lane.heapIndex >= 0) this.#shard.stop(lane);
    if (offered !== next) {
      if (offered !== undefined) this.#order(offered.priority).leave(offered);
      lane.offered = next;
      if (next !== undefined) {
        const hasPlain = this.queue.plainReady(next.priority) > 0;
        this.#order(next.priority).enter(next, hasPlain);
      }
      this.#report(offered?.priority);
      this.#report(next?.priority);
    }
    this.queue.headChanged();
    this.recheck();
  }

  #withdraw(lane: Lane): void {
    if (lane.offered === undefined) return;
    const { priority } = lane.offered;
    this.#order(priority).leave(lane.offered);
    lane.offered = undefined;
    this.#report(priority);
  }

  #report(priority: number | undefined): void {
    if (priority !== undefined) this.queue.offerLanes(priority, this.#order(priority).size > 0);
  }

  #order(priority: number): FairOrder {
    let order = this.#orders[priority];
    if (order === undefined) {
      order = new FairOrder();
      this.#orders[priority] = order;
    }
    return order;
  }

  /** The window that a claim takes from next; undefined for the tasks without a lane. */
  next(priority: number): LaneWindow | undefined {
    return this.#orders[priority]?.next(this.queue.plainReady(priority) > 0);
  }

  /** The weights of all lanes that claims may take from, and of the tasks without a lane. */
  weightOf(priority: number): number {
    const plain = this.queue.plainReady(priority) > 0 ? 1 : 0;
    return plain + (this.#orders[priority]?.weight ?? 0);
  }

  /** About how many tasks of other lanes come before a task that is behind so many of its own lane. */
  turnsBefore({ priority, ...task }: Task, older: number): ReturnType<FairOrder["turnsBefore"]> {
    const own = this.windowOf(laneOf(task), priority);
    const isOffered = own === undefined || own.lane.offered === own;
    if (!isOffered) return { turns: 0, isAtLeast: false };
    const plain = this.queue.plainReady(priority);
    return this.#order(priority).turnsBefore(own, { older, plain });
  }

  unread(priority: number, max: number): readonly LaneWindow[] {
    return this.#order(priority).unread(max);
  }

  /** Whether the rate of the queue allows its next task now; otherwise the queue waits. */
  mayTake(cost: number): boolean {
    const { allowance, rate } = this.whole;
    const openMs = allowance.openMs(rate, cost);
    if (openMs <= this.#nowMs) return true;
    this.queue.isWaiting = true;
    this.#waitsForSeq = this.queue.nextSeq;
    this.#shard.wait(this.whole, openMs);
    return false;
  }

  /** The next task of a window is being claimed. */
  serve(window: LaneWindow, cost: number): void {
    const { lane } = window;
    const order = this.#order(window.priority);
    order.served(window, cost);
    order.leave(window);
    lane.offered = undefined;
    this.#report(window.priority);
    lane.reserved += 1;
    const nowMs = this.#nowMs;
    this.#spend(lane, lane.policy.rate, cost);
    lane.allowance.claimed(cost, nowMs);
    this.whole.allowance.claimed(cost, nowMs);
    this.#spend(this.whole, this.whole.rate, cost);
    this.taken(window);
  }

  #spend(spender: Spender, rate: Rate | undefined, cost: number): void {
    if (rate === undefined) return;
    spender.allowance.spend(rate, cost, this.#nowMs);
    this.#shard.changed(spender);
  }

  /** The next task of a window is gone. */
  taken(window: LaneWindow): void {
    window.take();
    this.#count(window, -1);
    this.offer(window.lane);
  }

  /** A task without a lane is being claimed; false when the rate of the queue does not allow it now. */
  takePlain(priority: number, cost: number): boolean {
    if (!this.mayTake(cost)) return false;
    this.#orders[priority]?.servedPlain(cost);
    this.#spend(this.whole, this.whole.rate, cost);
    return true;
  }

  /** The worker of a task says how many units it took. */
  settle(task: Task, used: number): void {
    const of = { cost: task.lane?.cost ?? 1, used };
    this.#settle(this.whole, this.whole.rate, of);
    if (this.whole.heapIndex >= 0) this.reopen();
    const lane = this.#lanes.get(laneOf(task));
    if (lane === undefined) return;
    this.#settle(lane, lane.policy.rate, of);
    this.offer(lane);
  }

  #settle(
    spender: Spender,
    rate: Rate | undefined,
    of: { readonly cost: number; readonly used: number },
  ): void {
    if (rate === undefined) return;
    spender.allowance.settle(rate, { ...of, nowMs: this.#nowMs });
    this.#shard.changed(spender);
  }

  /** The next claim looks again at the rate of the queue. */
  reopen(): void {
    this.#shard.stop(this.whole);
    this.queue.isWaiting = false;
  }

  /** The same if the queue waits, and another task is next now. */
  recheck(): void {
    if (this.queue.isWaiting && this.queue.nextSeq !== this.#waitsForSeq) this.reopen();
  }

  get #nowMs(): number {
    return this.#shard.clock.monotonicMs();
  }

  hold(name: string, ms: number): void {
    const lane = this.lane(name);
    const untilMs = this.#nowMs + ms;
    if (untilMs > lane.allowance.heldMs) {
      lane.allowance.heldMs = untilMs;
      this.#shard.changed(lane);
    }
    this.offer(lane);
  }

  /** Forgets lanes that do not matter any more, with their records. */
  sweep(): void {
    const nowMs = this.#nowMs;
    let removals: RecordWrite[] = [];
    for (const lane of this.#lanes.values()) {
      if (!this.#isOver(lane, nowMs)) continue;
      this.#lanes.delete(lane.name);
      this.#shard.removed();
      this.queue.tenant.lanes -= 1;
      for (const window of lane.windows()) window.clear();
      lane.allowance.isChanged = false;
      if (!lane.allowance.hasRecord) continue;
      const { tenantId, name: queue } = this.queue;
      removals.push(removalOfLane({ tenantId, name: queue, lane: lane.name }));
      if (removals.length < removalsMax) continue;
      this.#shard.forget(removals);
      removals = [];
    }
    if (removals.length > 0) this.#shard.forget(removals);
  }

  #isOver(lane: Lane, nowMs: number): boolean {
    const { leased, reserved, allowance } = lane;
    if (leased > 0 || reserved > 0 || !allowance.isOver(nowMs)) return false;
    return [...lane.windows()].every(
      (each) =>
        each.ready === 0 &&
        each.reading === undefined &&
        this.#order(each.priority).owesNothing(each),
    );
  }

  /** Nothing would be lost with it. */
  get isIdle(): boolean {
    const nowMs = this.#nowMs;
    if (this.#limits.size > 0 || !this.whole.allowance.isOver(nowMs)) return false;
    this.sweep();
    return this.size === 0;
  }

  /** Why a ready task cannot be claimed now, as far as lanes and rates decide. */
  obstacleOf(task: Task): LaneObstacle | undefined {
    const lane = this.#lanes.get(laneOf(task));
    if (lane !== undefined) {
      const { policy, allowance, top } = lane;
      if (policy.pause !== undefined) return { rule: "lane_paused", pause: policy.pause };
      if (lane.isAtLimit) return { rule: "lane_limit", limit: policy.concurrency };
      const openMs = allowance.openMs(policy.rate, top?.headCost ?? 1);
      const nextMs = this.#laterWallMs(openMs);
      if (nextMs !== undefined) {
        if (allowance.heldMs >= openMs) return { rule: "lane_held", nextMs };
        return { rule: "lane_rate", nextMs, rate: this.#rateOf(lane.name) };
      }
    }
    const { allowance, rate, heapIndex, dueMs } = this.whole;
    const openMs = allowance.openMs(rate, costOf(task));
    // The queue may wait for a task that comes first and costs more.
    const nextMs = this.#laterWallMs(heapIndex < 0 ? openMs : Math.max(openMs, dueMs));
    const ofQueue = this.queue.topic?.policy.rate;
    return nextMs === undefined ? undefined : { rule: "topic_rate", nextMs, rate: ofQueue };
  }

  /** As administrators see it. */
  #rateOf(name: string): WireRate | undefined {
    return this.#limits.get(name)?.rate ?? this.queue.topic?.policy.lanes?.rate;
  }

  /** A moment as users see it; undefined when it has come. */
  #laterWallMs(ms: number): number | undefined {
    const { clock } = this.#shard;
    const leftMs = ms - clock.monotonicMs();
    return leftMs > 0 ? Math.min(Math.ceil(clock.nowMs() + leftMs), lastMs) : undefined;
  }

  look(name: string): LaneLook {
    const lane = this.#lanes.get(name);
    const policy = lane?.policy ?? policyOf(this.#policy, this.#limits.get(name));
    const { rate, concurrency, weight, pause } = policy;
    const { allowance = new Allowance(), top, ready = 0, leased = 0 } = lane ?? {};
    const head = top?.head;
    const nowMs = this.#nowMs;
    return {
      lane: name,
      ready,
      leased,
      oldestMs: head && timeOfId(head.id),
      concurrency: Number.isFinite(concurrency) ? concurrency : undefined,
      rate: this.#rateOf(name),
      weight,
      unitsLeft: rate && Math.floor(allowance.unitsLeft(rate, nowMs)),
      nextMs: this.#laterWallMs(allowance.openMs(rate, top?.headCost ?? 1)),
      paused: pause,
      recentUnits: allowance.recentUnits(nowMs),
    };
  }

  /** Lanes with ready tasks, leases, a time in the future, or limits of their own; those with the most tasks first. */
  looks(limit: number): readonly LaneLook[] {
    const depth = (name: string): number => this.#lanes.get(name)?.ready ?? 0;
    const order = (a: string, b: string): number => depth(b) - depth(a) || (a < b ? -1 : 1);
    let deepest: string[] = [];
    // Sorted in parts: there may be a million lanes.
    for (const name of this.#listed()) {
      if (deepest.push(name) === limit * 2) deepest = deepest.sort(order).slice(0, limit);
    }
    return deepest
      .sort(order)
      .slice(0, limit)
      .map((name) => this.look(name));
  }

  *#listed(): Generator<string> {
    const nowMs = this.#nowMs;
    yield* this.#limits.keys();
    for (const { name, ready, leased, allowance } of this.#lanes.values()) {
      const isBusy = ready > 0 || leased > 0 || !allowance.isOver(nowMs);
      if (isBusy && !this.#limits.has(name)) yield name;
    }
  }

  /** How many lanes `looks` would list without a limit, and what was claimed with a lane of late. */
  get totals(): { readonly total: number; readonly recentUnits: number } {
    let total = 0;
    for (const _ of this.#listed()) total += 1;
    return { total, recentUnits: this.whole.allowance.recentUnits(this.#nowMs) };
  }

  /** The next tasks of the lanes that have been there longest. */
  *heads(): Generator<TaskId> {
    let looked = 0;
    for (const lane of this.#lanes.values()) {
      const id = lane.top?.head?.id;
      if (id !== undefined) yield id;
      looked += 1;
      if (looked === headsMax) return;
    }
  }
}
