/**
 * The in-memory state of one queue, of one tenant, and of all of them: exact counts, the head of every
 * priority, and waiting claims. Queues without tasks and waiting claims are dropped when there are many.
 */
import { limits } from "@codeq/protocol";
import type { TaskId, TenantId } from "@codeq/queue";
import type { Clock } from "../../clock.ts";
import { type Rankable, type Ranked, ReadyOrder } from "../../ready-order.ts";
import { type Counts, noCounts } from "../../records/counts.ts";
import { lanesPolicyOf, rateOf } from "../../records/lane-policy.ts";
import type { QueuePause } from "../../records/pause-record.ts";
import type { Topic } from "../../records/topic-record.ts";
import { type QueueFlow, QueueFlows } from "../../series/flow.ts";
import type { Position } from "../../store/store.ts";
import { WaitList } from "../claims/wait-list.ts";
import { QueueLanes } from "../lanes/queue-lanes.ts";
import { ShardLanes } from "../lanes/shard-lanes.ts";
import { QueueMap, TenantQueues, type WaitingQueue } from "./queue-map.ts";
import { ReadyWindow } from "./ready-window.ts";

/** Entries of all windows together; an entry behind the first few thousand of a window takes 24 bytes. */
const allWindowsEntriesMax = 1_048_576;
/** Entries that a window may always read, so that every queue makes progress however many there are. */
const refillRoomMin = 16;
/** Sequence numbers are smaller than this; all priorities times this are exact numbers. */
const seqEnd = 2 ** 49;
/** Shared by queues of which nothing is being read. */
const noRefills: Map<number, Promise<void>> = new Map();

export class QueueState implements WaitingQueue, Rankable<QueueState> {
  readonly name: string;
  readonly tenantId: TenantId;
  readonly tenant: TenantState;
  #alone: readonly QueueState[] | undefined;
  /** By priority; a window is made when its first task arrives. */
  readonly #windows = new Array<ReadyWindow | undefined>(limits.priorityMax + 1);
  readonly waiters: WaitList = new WaitList();
  readonly flow: QueueFlow;
  #counts: Counts = noCounts();
  /** A bit for each priority that has ready tasks. */
  #readyBits = 0;
  #readyTotal = 0;
  /** In all places that are counted. */
  #tasks = 0;
  #pause: QueuePause | undefined;
  #topic: Topic | undefined;
  /** How many tasks may be leased. */
  #leasedMax = Number.POSITIVE_INFINITY;
  /** Leases that a claim under way is about to take; counted only where there is a limit. */
  #reserved = 0;
  /** The same for lanes that claims may take from. */
  #laneBits = 0;
  /** Undefined without tasks in lanes and without policies of lanes. */
  lanes: QueueLanes | undefined;
  #isWaiting = false;
  /** A mask of the ready bits: all bits while claims may take tasks, otherwise none. */
  #claimable = -1;
  /** The position up to which delayed tasks are in memory; `everything` when all are. */
  delayedCoveredTo: Position | undefined = everything;
  /** The refills under way, by priority. */
  #refills = noRefills;
  entry: Ranked<QueueState> | undefined;

  constructor(flow: QueueFlow, tenant: TenantState) {
    this.name = flow.name;
    this.tenantId = flow.tenantId;
    this.flow = flow;
    this.tenant = tenant;
  }

  /** Only this queue, for claims that ask for no other. */
  get alone(): readonly QueueState[] {
    this.#alone ??= [this];
    return this.#alone;
  }

  get counts(): Readonly<Counts> {
    return this.#counts;
  }

  /** Sets the counts from the store, before the first change. */
  recover(counts: Counts): void {
    for (const [priority, count] of counts.ready.entries()) this.addReady(priority, count);
    this.addDelayed(counts.delayed);
    this.addHeld(counts.held);
    this.addLeased(counts.leased);
    this.addDead(counts.dead);
    this.addFailed(counts.failed);
  }

  window(priority: number): ReadyWindow {
    let window = this.#windows[priority];
    if (window === undefined) {
      window = new ReadyWindow();
      this.#windows[priority] = window;
    }
    return window;
  }

  /** The refill under way of a priority. */
  refill(priority: number): Promise<void> | undefined {
    return this.#refills.get(priority);
  }

  setRefill(priority: number, refill: Promise<void> | undefined): void {
    if (refill !== undefined) {
      if (this.#refills === noRefills) this.#refills = new Map();
      this.#refills.set(priority, refill);
    } else if (this.#refills.delete(priority) && this.#refills.size === 0) {
      this.#refills = noRefills;
    }
  }

  /** Ready tasks without a lane. */
  plainReady(priority: number): number {
    return this.ready(priority) - (this.lanes?.ready[priority] ?? 0);
  }

  /** The next task of a priority; undefined when it has to be read. */
  headSeq(priority: number): number | undefined {
    const lane = this.#laneBits === 0 ? undefined : this.lanes?.next(priority);
    return lane === undefined ? this.window(priority).headSeq : lane.headSeq;
  }

  ready(priority: number): number {
    return this.#counts.ready[priority] as number;
  }

  get readyTotal(): number {
    return this.#readyTotal;
  }

  /** The highest priority with tasks to claim; -1 when there are none, and when the queue is paused or at its limit. */
  get topPriority(): number {
    return 31 - Math.clz32((this.#readyBits | this.#laneBits) & this.#claimable);
  }

  /** How many shares of what is claimed the queue should get in this shard: those of its lanes. */
  get shares(): number {
    const { topPriority, lanes } = this;
    return lanes === undefined || topPriority < 0 ? 1 : Math.max(1, lanes.weightOf(topPriority));
  }

  /** The next task, whether or not it may be claimed now; undefined when it has to be read. */
  get nextSeq(): number | undefined {
    const priority = 31 - Math.clz32(this.#readyBits | this.#laneBits);
    return priority < 0 ? undefined : this.headSeq(priority);
  }

  /** Highest priority first, then the oldest task. */
  get rank(): number | undefined {
    const { topPriority } = this;
    if (topPriority < 0) return undefined;
    // Tasks on disk may be older than all tasks in memory.
    const seq = this.headSeq(topPriority) ?? 0;
    return (limits.priorityMax - topPriority) * seqEnd + seq;
  }

  get pause(): QueuePause | undefined {
    return this.#pause;
  }

  set pause(pause: QueuePause | undefined) {
    this.#pause = pause;
    this.#offer();
  }

  get topic(): Topic | undefined {
    return this.#topic;
  }

  set topic(topic: Topic | undefined) {
    this.#topic = topic;
    this.#leasedMax = topic?.policy.maxConsumers || Number.POSITIVE_INFINITY;
    this.#offer();
  }

  /** Whether the topic limits how many tasks may be leased. */
  get isLimited(): boolean {
    return this.#leasedMax !== Number.POSITIVE_INFINITY;
  }

  get isAtLimit(): boolean {
    return this.#counts.leased + this.#reserved >= this.#leasedMax;
  }

  /** Reserves leases of a limited queue for a claim under way. */
  reserve(change: number): void {
    this.#reserved += change;
    this.#offer();
  }

  /** Whether the rate of the queue allows nothing now. */
  get isWaiting(): boolean {
    return this.#isWaiting;
  }

  set isWaiting(isWaiting: boolean) {
    this.#isWaiting = isWaiting;
    this.#offer();
  }

  /** Whether claims may take from a lane of this priority. */
  offerLanes(priority: number, isOffered: boolean): void {
    if (isOffered) this.#laneBits |= 1 << priority;
    else this.#laneBits &= ~(1 << priority);
    this.tenant.order.note(this);
  }

  #offer(): void {
    const isOpen = this.#pause === undefined && !this.#isWaiting && !this.isAtLimit;
    this.#claimable = isOpen ? -1 : 0;
    this.tenant.order.note(this);
  }

  /** Another task is the oldest of a window, or none is. */
  headChanged(): void {
    this.tenant.order.note(this);
  }

  addReady(priority: number, change: number): void {
    const count = this.ready(priority) + change;
    this.#counts.ready[priority] = count;
    const plain = this.lanes === undefined ? count : this.plainReady(priority);
    if (plain > 0) this.#readyBits |= 1 << priority;
    else this.#readyBits &= ~(1 << priority);
    this.#readyTotal += change;
    this.tenant.pending += change;
    this.tenant.order.note(this);
    this.#addTasks(change);
  }

  #addTasks(change: number): void {
    const hadTasks = this.hasTasks;
    this.#tasks += change;
    if (hadTasks !== this.hasTasks) this.tenant.queuesWithTasks += hadTasks ? -1 : 1;
  }

  get hasTasks(): boolean {
    return this.#tasks > 0;
  }

  addDelayed(change: number): void {
    this.#counts.delayed += change;
    this.tenant.pending += change;
    this.#addTasks(change);
  }

  addHeld(change: number): void {
    this.#counts.held += change;
    this.tenant.pending += change;
    this.#addTasks(change);
  }

  addLeased(change: number): void {
    this.#counts.leased += change;
    this.tenant.leased += change;
    this.#addTasks(change);
    if (this.#leasedMax !== Number.POSITIVE_INFINITY) this.#offer();
  }

  addDead(change: number): void {
    this.#counts.dead += change;
    this.#addTasks(change);
  }

  addFailed(change: number): void {
    this.#counts.failed += change;
    this.#addTasks(change);
  }

  /** The next task of each priority whose head is in memory. */
  *heads(): Generator<TaskId> {
    for (const window of this.#windows) {
      const id = window?.headId;
      if (id !== undefined) yield id;
    }
    if (this.lanes !== undefined) yield* this.lanes.heads();
  }

  get isIdle(): boolean {
    if (this.waiters.size > 0 || this.#pause !== undefined || this.#topic !== undefined) {
      return false;
    }
    if (this.hasTasks || this.#refills.size > 0) return false;
    return this.lanes === undefined || this.lanes.isIdle;
  }
}

/** A position after all others in the delayed index. */
export const everything: Position = { number: Number.POSITIVE_INFINITY, id: "" as TaskId };

export class TenantState extends TenantQueues<QueueState> {
  /** Tasks that are ready, delayed or held, and leases, over all of its queues. */
  pending = 0;
  leased = 0;
  queuesWithTasks = 0;
  /** Lanes in memory. */
  lanes = 0;
  /** The heads of many of its queues are being read for a claim for any queue. */
  reading: Promise<void> | undefined;
  /** The queues in the order in which a claim for any queue takes from them. */
  readonly order: ReadyOrder<QueueState> = new ReadyOrder(() => this.queues.values());
}

export class Queues extends QueueMap<QueueState, TenantState> {
  readonly flows: QueueFlows;
  /** Tasks in all windows together; bounded so that many small queues cost no more than one large. */
  windowEntries = 0;
  /** How many queues have a topic. */
  topics = 0;

  readonly lanes: ShardLanes;

  constructor(clock: Clock) {
    const flows = new QueueFlows();
    super({
      tenant: () => new TenantState(),
      queue: (name, tenantId, tenant) => new QueueState(flows.of(tenantId, name), tenant),
    });
    this.flows = flows;
    this.lanes = new ShardLanes(clock, () => this.all());
  }

  /** The lanes of a queue, made when they are missing. */
  lanesOf(queue: QueueState): QueueLanes {
    queue.lanes ??= new QueueLanes(queue, this.lanes);
    return queue.lanes;
  }

  setTopic(queue: QueueState, topic: Topic | undefined): void {
    this.topics += Number(topic !== undefined) - Number(queue.topic !== undefined);
    queue.topic = topic;
    const policy = topic?.policy;
    if (queue.lanes === undefined && policy?.rate === undefined && policy?.lanes === undefined)
      return;
    this.lanesOf(queue).setPolicy(lanesPolicyOf(policy ?? {}), rateOf(policy?.rate));
  }

  /** How many tasks a window may be filled with. */
  get refillRoom(): number {
    return Math.max(refillRoomMin, allWindowsEntriesMax - this.windowEntries);
  }

  arrive(queue: QueueState, priority: number, { number, id }: Position): void {
    const hasRoom = this.windowEntries < allWindowsEntriesMax;
    if (queue.window(priority).arrive(number, id, hasRoom)) this.windowEntries += 1;
    queue.addReady(priority, 1);
    queue.lanes?.recheck();
  }

  /** Removes a task that is not ready any more without having been claimed. */
  depart(queue: QueueState, priority: number, seq: number): void {
    if (queue.window(priority).leave(seq)) this.windowEntries -= 1;
    queue.addReady(priority, -1);
    queue.lanes?.recheck();
  }

  /** Takes the oldest task of the window; the caller updates the count. */
  take(queue: QueueState, priority: number): Position | undefined {
    const taken = queue.window(priority).take();
    if (taken !== undefined) this.windowEntries -= 1;
    queue.headChanged();
    return taken;
  }

  override clear(): void {
    super.clear();
    this.lanes.clear();
    this.topics = 0;
    this.windowEntries = 0;
  }
}
