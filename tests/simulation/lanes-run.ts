/**
 * A broker, random tasks with lanes in two queues, workers, operators who change, pause and move, clock steps, full disks,
 * and crashes in between. A model of its own hears of every durable change in the order of the log and checks what lanes
 * promise:
 *
 * - a lane, and a queue, never has more leases than its limit;
 * - a lane, and a queue, spends at most its burst and what the time allows, with what was settled, also across crashes and
 *   changes of the rate;
 * - a lane is served in the order of priorities, and in its own order;
 * - a lane that is paused or held is not claimed from;
 * - a claim never waits while a lane may be served, and what waits for a time has a timer for it;
 * - an explanation names the pause, the limit, the rate or the hold that a claim would meet;
 * - leases and ready tasks in memory are those of the records, after every step.
 */
import { type Change, costOf, laneOf, queueOf, type Task, type TaskId } from "@codeq/queue";
import { SimRandom } from "@codeq/simulated";
import type { ShardBroker } from "../../packages/server/src/core/broker/shard-broker.ts";
import {
  type LaneLimits,
  lanesPolicyOf,
  noLaneLimits,
  policyOf,
  rateOf,
  type WireRate,
} from "../../packages/server/src/core/records/lane-policy.ts";
import type { TopicPolicy } from "../../packages/server/src/core/records/topic-record.ts";
import {
  abandon,
  acme,
  BrokerWorld,
  claim,
  create,
  nack,
  owned,
  submit,
  success,
} from "../../packages/server/test/broker-world.ts";

export type Plant = (broker: ShardBroker) => void;

const lanes = ["a", "b", "c", "d/é"];
const queues = ["work", "other"];
const priorities = [0, 5];
const stepsOfRun = 200;
const slackMs = 2;
const plenty = Number.MAX_SAFE_INTEGER;
const large = JSON.stringify("x".repeat(6000));

const rate: WireRate = { units: 10, per: "1s", burst: 5 };
const slow: WireRate = { units: 1, per: "10s", burst: 6 };
const unlimited: WireRate = { units: 1_000_000, per: "1s", burst: 1_000_000 };
const most = 5;
const base: TopicPolicy = {
  priorityTiers: priorities,
  maxAttempts: 3,
  deadLetterTopicRef: "",
  retentionSeconds: 0,
  maxConsumers: 0,
  placement: "spread",
};
const limited: TopicPolicy = { ...base, lanes: { concurrency: 2, rate } };
const whole: TopicPolicy = { ...base, lanes: { concurrency: 3 }, rate };
const policies: readonly (TopicPolicy | undefined)[] = [
  limited,
  limited,
  { ...base, lanes: { concurrency: 0, rate: slow } },
  whole,
  { ...base, rate: slow, maxConsumers: 4 },
  { ...base, maxConsumers: 2 },
  undefined,
];
const ownLimits: readonly LaneLimits[] = [
  noLaneLimits,
  { ...noLaneLimits, rate: unlimited },
  { ...noLaneLimits, rate: slow },
  { ...noLaneLimits, concurrency: 1, weight: 3 },
];

/** The first promise that a seed breaks; undefined for a sound run. */
export async function runLanes(seed: string, plant: Plant = () => {}): Promise<string | undefined> {
  const run = new LanesRun(new SimRandom(seed), plant);
  await run.open();
  for (let step = 0; step < stepsOfRun; step++) {
    await run.step();
    const finding = run.finding ?? run.check();
    if (finding !== undefined) return `step ${step}: ${finding}`;
  }
  return undefined;
}

interface Counted {
  /** How many units of the burst are missing. */
  readonly missing: number;
  readonly atMs: number;
  /** How long a unit takes to come back; 0 while there was no rate. */
  readonly unitMs: number;
  readonly heldMs: number;
}

const nothingSpent: Counted = { missing: 0, atMs: 0, unitMs: 0, heldMs: 0 };

/** What a lane or a queue has spent: units come back with the time. */
class Spent {
  #now: Counted = nothingSpent;
  /** What the last record says: it is all that is left after a crash. */
  #recorded: Counted = nothingSpent;
  #rate: WireRate | undefined;

  get heldMs(): number {
    return this.#now.heldMs;
  }

  #missing(nowMs: number): number {
    const { missing, atMs, unitMs } = this.#now;
    return unitMs === 0 ? 0 : Math.max(0, missing - (nowMs - atMs) / unitMs);
  }

  adopt(wanted: WireRate | undefined, nowMs: number): void {
    this.#rate = wanted;
    const found = rateOf(wanted);
    if (found === undefined) return;
    const missing = this.#missing(nowMs);
    this.#now = { ...this.#now, missing, atMs: nowMs, unitMs: found.perMs / found.units };
  }

  change(units: number, nowMs: number): void {
    if (this.#rate === undefined) return;
    const missing = Math.max(0, this.#missing(nowMs) + units);
    this.#now = { ...this.#now, missing, atMs: nowMs };
  }

  hold(untilMs: number): void {
    this.#now = { ...this.#now, heldMs: Math.max(untilMs, this.#now.heldMs) };
  }

  record(): void {
    this.#recorded = this.#now;
  }

  restart(nowMs: number): void {
    this.#now = this.#recorded;
    this.adopt(this.#rate, nowMs);
  }

  /** When a task of this cost may be claimed; minus infinity for any time. */
  openMs(cost: number, nowMs: number): number {
    const found = rateOf(this.#rate);
    const heldMs = this.heldMs > nowMs ? this.heldMs : Number.NEGATIVE_INFINITY;
    const missing = this.#missing(nowMs);
    if (found === undefined || missing === 0) return heldMs;
    const over = missing - Math.max(found.burst - cost, 0);
    return Math.max(heldMs, nowMs + (over * found.perMs) / found.units);
  }
}

interface Waiting {
  readonly commands: readonly string[] | undefined;
}

class LanesRun {
  finding: string | undefined;
  readonly #random: SimRandom;
  readonly #plant: Plant;
  readonly #world = new BrokerWorld({
    flushBytes: 4096,
    segmentBytes: 4096,
    minFreeBytes: 100,
  });
  /** Tasks as the log says. */
  readonly #tasks = new Map<TaskId, Task>();
  /** By queue, and by queue and lane. */
  readonly #spent = new Map<string, Spent>();
  readonly #policies = new Map<string, TopicPolicy | undefined>();
  readonly #limits = new Map<string, LaneLimits>();
  readonly #paused = new Set<string>();
  readonly #stepsClock: boolean;
  #hasStepped = false;
  readonly #waiting = new Set<Waiting>();
  /** What is settled or held with the change that is durable next. */
  #settled: { readonly id: TaskId; readonly used: number } | undefined;
  #holdMs = 0;
  #broker!: ShardBroker;

  constructor(random: SimRandom, plant: Plant) {
    this.#random = random;
    this.#plant = plant;
    this.#stepsClock = random.next() < 0.3;
    this.#world.observe = (change) => this.#observe(change);
  }

  async open(): Promise<void> {
    this.#broker = await this.#world.open();
    await this.#putTopic("work", limited);
    await this.#putTopic("other", whole);
    await this.#setLane("work", "b", { ...noLaneLimits, rate: unlimited });
    await this.#setLane("work", "d/é", { ...noLaneLimits, concurrency: 1 });
    this.#began();
  }

  get #nowMs(): number {
    return this.#world.clock.monotonicMs();
  }

  async step(): Promise<void> {
    await this.#steps[this.#random.int(this.#steps.length)]?.();
    this.#broker.wakeLanes(1000);
    await this.#world.clock.advance(0);
  }

  readonly #steps: readonly (() => Promise<void>)[] = [
    ...Array.from({ length: 6 }, () => () => this.#create()),
    ...Array.from({ length: 2 }, () => () => this.#claim(this.#random.int(4) + 1, 0)),
    () => this.#claim(1, 60_000),
    () => this.#crash(),
    ...Array.from({ length: 3 }, () => () => this.#pass(this.#random.pick([1, 90, 300, 40_000]))),
    ...Array.from({ length: 3 }, () => () => this.#work()),
    ...Array.from({ length: 2 }, () => () => this.#operate()),
    () => this.#fillDisk(),
    () => this.#pause(),
    () => this.#changePolicy(),
  ];

  async #create(): Promise<void> {
    const random = this.#random;
    const lane = random.next() < 0.15 ? "" : random.pick(lanes);
    const cost = random.int(most) + 1;
    const delayMs = random.next() < 0.1 ? 100 : undefined;
    const ttlMs = random.next() < 0.1 ? 200 : 0;
    const asked = create(this.#broker, {
      lane,
      cost,
      command: random.next() < 0.7 ? "work" : "other",
      priority: random.pick(priorities),
      maxAttempts: 2,
      visibleMs: delayMs && this.#world.clock.nowMs() + delayMs,
      extras: ttlMs === 0 ? undefined : { tags: [], timeoutMs: 0, ttlMs, startByMs: 0 },
    });
    await asked.done.catch(() => undefined);
  }

  async #claim(count: number, waitMs: number): Promise<void> {
    const commands = this.#random.pick([
      ["work"],
      ["work"],
      ["other"],
      ["other"],
      queues,
      undefined,
    ]);
    const claimed = claim(this.#broker, { count, waitMs, leaseMs: 30_000, commands });
    if (waitMs === 0) {
      await claimed;
      return;
    }
    const waiting = { commands };
    this.#waiting.add(waiting);
    const ended = (): void => {
      this.#waiting.delete(waiting);
    };
    claimed.then(ended, ended);
  }

  async #crash(): Promise<void> {
    if (this.#stepsClock) {
      this.#hasStepped = true;
      this.#world.clock.stepWall(-this.#random.int(100_000));
    }
    this.#broker = await this.#world.kill();
    this.#waiting.clear();
    this.#restarted();
    this.#began();
  }

  #began(): void {
    this.#plant(this.#broker);
    this.#broker.onRecovered.add(() => {
      this.#restarted();
      this.#plant(this.#broker);
    });
  }

  /** Memory was read from the records. */
  #restarted(): void {
    for (const spent of this.#spent.values()) spent.restart(this.#nowMs);
  }

  /** What is decided while the disk is full is undone, and memory is read from the records again. */
  async #fillDisk(): Promise<void> {
    const { disk, clock } = this.#world;
    disk.capacityBytes = 0;
    const refused: Promise<unknown>[] = [create(this.#broker, { payload: large }).done];
    refused.push(claim(this.#broker, { count: 3, leaseMs: 30_000, commands: queues }));
    for (const task of this.#leased().slice(0, 2)) {
      const holdMs = this.#random.pick([0, 50_000]);
      const request = { delaySeconds: 0, reason: "", used: 0, holdMs };
      refused.push(nack(this.#broker, owned(task), request).done);
    }
    // A claim that finds nothing writes nothing.
    const [created] = await Promise.allSettled(refused);
    if (created?.status !== "rejected") this.finding ??= "a full disk accepts a task";
    disk.capacityBytes = plenty;
    await clock.advance(1000);
  }

  /** An operator pauses a lane or a queue, or resumes it; the lane keeps its other limits. */
  async #pause(): Promise<void> {
    const queue = this.#random.pick(queues);
    const lane = this.#random.pick([...lanes, ""]);
    const key = keyOf(queue, lane);
    const isPaused = this.#paused.has(key);
    if (isPaused) this.#paused.delete(key);
    else this.#paused.add(key);
    if (lane !== "") return this.#setLane(queue, lane, this.#limits.get(key) ?? noLaneLimits);
    const pause = isPaused ? undefined : pausedByAnn;
    return this.#broker.pause({ tenantId: acme, name: queue }, pause);
  }

  #changePolicy(): Promise<void> {
    const random = this.#random;
    const queue = random.pick(queues);
    if (random.next() < 0.5) return this.#putTopic(queue, random.pick(policies));
    return this.#setLane(queue, random.pick(lanes), random.pick(ownLimits));
  }

  async #putTopic(queue: string, policy: TopicPolicy | undefined): Promise<void> {
    this.#policies.set(queue, policy);
    for (const lane of ["", ...lanes]) this.#adopt(queue, lane);
    const of = { tenantId: acme, name: queue };
    if (policy === undefined) await this.#broker.deleteTopic(of);
    else await this.#broker.putTopic(of, policy);
  }

  async #setLane(queue: string, lane: string, limits: LaneLimits): Promise<void> {
    const key = keyOf(queue, lane);
    this.#limits.set(key, limits);
    this.#adopt(queue, lane);
    const pause = this.#paused.has(key) ? pausedByAnn : undefined;
    const done = this.#broker.setLane({ tenantId: acme, name: queue, lane }, { ...limits, pause });
    this.#record();
    await done;
  }

  #adopt(queue: string, lane: string): void {
    const { rate: whole, lanes: each } = this.#policies.get(queue) ?? base;
    const own = lane === "" ? whole : (this.#limits.get(keyOf(queue, lane))?.rate ?? each?.rate);
    this.#spentOf(queue, lane).adopt(own, this.#nowMs);
  }

  #spentOf(queue: string, lane: string): Spent {
    const key = keyOf(queue, lane);
    const spent = this.#spent.get(key) ?? new Spent();
    this.#spent.set(key, spent);
    return spent;
  }

  #limitOf(queue: string, lane: string): number {
    const each = lanesPolicyOf(this.#policies.get(queue) ?? base);
    return policyOf(each, this.#limits.get(keyOf(queue, lane))).concurrency;
  }

  async #pass(ms: number): Promise<void> {
    const { clock } = this.#world;
    await clock.advance(ms);
    const broker = this.#broker;
    for (const { id, place, extras } of [...this.#tasks.values()]) {
      const lease = broker.leases.get(id);
      const nowMs = clock.nowMs();
      if (place.in === "leased" && (lease?.dueMs ?? Infinity) <= this.#nowMs) broker.expire(id);
      else if (place.in === "delayed" && place.dueMs <= nowMs) {
        await broker.promote([{ id, number: place.dueMs }]);
      }
      const isOver = extras !== undefined && extras.startByMs !== 0 && extras.startByMs <= nowMs;
      if (isOver) await broker.lapse([id]);
    }
    broker.wakeLanes(1000);
  }

  #leased(): readonly Task[] {
    return [...this.#tasks.values()].filter(({ place }) => place.in === "leased");
  }

  /** A worker ends an attempt. */
  async #work(): Promise<void> {
    const random = this.#random;
    const leased = this.#leased();
    if (leased.length === 0) return;
    const task = random.pick(leased);
    const of = owned(task);
    const used = random.next() < 0.5 ? random.int(2 * most) : undefined;
    const settled = used === undefined ? undefined : { id: task.id, used };
    const kind = random.int(7);
    if (kind === 0) this.#broker.release(of);
    else if (kind === 1) await abandon(this.#broker, of, { interrupted: true }).done;
    else if (kind < 4) {
      this.#settled = settled;
      await submit(this.#broker, of, { ...success, used }).done.catch(() => undefined);
    } else {
      this.#settled = settled;
      this.#holdMs = random.next() < 0.4 ? 2000 : 0;
      const request = { delaySeconds: random.int(2), reason: "", used, holdMs: this.#holdMs };
      await nack(this.#broker, of, request).done.catch(() => undefined);
    }
    await this.#world.clock.advance(0);
    this.#settled = undefined;
    this.#holdMs = 0;
  }

  /** An operator does something to a task. */
  async #operate(): Promise<void> {
    const random = this.#random;
    const task = random.pick([...this.#tasks.values(), undefined]);
    if (task === undefined) return;
    const action = random.pick([
      { kind: "cancel", graceMs: random.pick([0, 5000]) },
      { kind: "replay" },
      { kind: "replayAs", changes: { command: random.pick(queues) } },
      { kind: "delete" },
      { kind: "edit", edit: { priority: random.pick(priorities) } },
      { kind: "edit", edit: { command: random.pick(queues) } },
      { kind: "edit", edit: { dueMs: this.#world.clock.nowMs() + random.pick([0, 100]) } },
    ] as const);
    await this.#broker.act({ tenantId: acme, id: task.id }, action);
  }

  #observe({ before, after, because }: Change): void {
    const task = (after ?? before) as Task;
    const lane = laneOf(task);
    const queue = queueOf(task.command);
    if (because === "claimed") this.#claimed(before as Task, lane);
    if (because === "released") this.#settle(task, 0);
    if (this.#settled?.id === task.id && before?.place.in === "leased") {
      this.#settle(task, this.#settled.used);
      this.#settled = undefined;
    }
    if (because === "held" && lane !== "") {
      this.#spentOf(queue, lane).hold(this.#nowMs + this.#holdMs);
    }
    this.#record();
    if (after === undefined) this.#tasks.delete(task.id);
    else this.#tasks.set(task.id, after);
  }

  /** What is written says what all lanes have spent by then. */
  #record(): void {
    for (const spent of this.#spent.values()) spent.record();
  }

  #settle(task: Task, used: number): void {
    const queue = queueOf(task.command);
    for (const each of new Set(["", laneOf(task)])) {
      this.#spentOf(queue, each).change(used - costOf(task), this.#nowMs);
    }
  }

  #claimed(before: Task, lane: string): void {
    const queue = queueOf(before.command);
    const cost = costOf(before);
    const inQueue = this.#leased().filter(({ command }) => queueOf(command) === queue);
    const max = this.#policies.get(queue)?.maxConsumers || Infinity;
    if (inQueue.length >= max) this.finding ??= `the queue ${queue} has more leases than its limit`;
    if (this.#paused.has(keyOf(queue, ""))) this.finding ??= `${queue} was claimed from in a pause`;
    const { ready, leased } = this.#inLane(queue, lane);
    if (ready[0]?.id !== before.id) this.finding ??= `a task of lane ${lane} overtook another`;
    for (const each of new Set(["", lane])) this.#spendFrom(queue, each, cost);
    if (lane === "") return;
    if (this.#paused.has(keyOf(queue, lane))) {
      this.finding ??= `lane ${lane} was claimed from during a pause`;
    }
    if (leased >= this.#limitOf(queue, lane)) {
      this.finding ??= `lane ${lane} has more leases than its limit`;
    }
  }

  #spendFrom(queue: string, lane: string, cost: number): void {
    const spent = this.#spentOf(queue, lane);
    const nowMs = this.#nowMs;
    if (spent.heldMs > nowMs + slackMs) {
      this.finding ??= `lane ${lane} was claimed from while it was held`;
    } else if (spent.openMs(cost, nowMs) > nowMs + slackMs) {
      this.finding ??= `lane "${lane}" of ${queue} spent ${cost} units that it did not have`;
    }
    spent.change(cost, nowMs);
  }

  /** What the records say of a lane; ready tasks in the order in which they have to be claimed. */
  #inLane(queue: string, lane: string): { readonly ready: readonly Task[]; leased: number } {
    const all = [...this.#tasks.values()].filter(
      (task) => laneOf(task) === lane && queueOf(task.command) === queue,
    );
    const ready = all.filter(({ place }) => place.in === "ready");
    ready.sort((a, b) => b.priority - a.priority || seqOf(a) - seqOf(b));
    return { ready, leased: all.filter(({ place }) => place.in === "leased").length };
  }

  check(): string | undefined {
    for (const queue of queues) {
      const wrong = this.#checkQueue(queue);
      if (wrong !== undefined) return `${queue}: ${wrong}`;
    }
    return undefined;
  }

  #checkQueue(name: string): string | undefined {
    const queue = this.#broker.queues.find(acme, name);
    if (queue === undefined) {
      return lanes.some((lane) => this.#inLane(name, lane).ready.length > 0)
        ? "the queue is gone"
        : undefined;
    }
    const withTasks = lanes.filter((lane) => this.#inLane(name, lane).ready.length > 0).length;
    const { claimable = 0, waiting = 0 } = queue.lanes?.states ?? {};
    if (claimable < 0 || waiting < 0 || claimable + waiting !== withTasks) {
      return `${claimable} lanes are claimable and ${waiting} wait, and ${withTasks} have tasks`;
    }
    for (const each of lanes) {
      const { ready, leased } = this.#inLane(name, each);
      const lane = queue.lanes?.find(each);
      if ((lane?.leased ?? 0) !== leased || (lane?.reserved ?? 0) !== 0) {
        return `lane ${each} counts ${lane?.leased} leases and has ${leased}`;
      }
      if ((lane?.ready ?? 0) !== ready.length) {
        return `lane ${each} counts ${lane?.ready} ready tasks and has ${ready.length}`;
      }
    }
    // The cost of a task is not known before it is read.
    const isUnread = lanes.some((each) => {
      const top = queue.lanes?.find(each)?.top;
      return top !== undefined && top.head === undefined;
    });
    const isNearby = lanes.some((each) => this.#isNear(name, each));
    if (this.#hasStepped || isUnread || isNearby) return undefined;
    return this.#checkOffer(name) ?? this.#explanations(name);
  }

  /** Whether the next task of a lane may be claimed within the time that the model may be wrong by. */
  #isNear(queue: string, lane: string): boolean {
    const [first] = this.#inLane(queue, lane).ready;
    if (first === undefined) return false;
    const both = ["", lane].map((each) => this.#openMs(queue, each, first));
    return both.some((ms) => Math.abs(ms - this.#nowMs) <= slackMs);
  }

  #openMs(queue: string, lane: string, first: Task): number {
    return this.#spentOf(queue, lane).openMs(costOf(first), this.#nowMs);
  }

  /** Whether claims may take what they should be able to take, and timers end in time. */
  #checkOffer(name: string): string | undefined {
    const queue = this.#broker.queues.find(acme, name);
    const timerMs = this.#broker.queues.lanes.nextMs ?? Infinity;
    let top = this.#inLane(name, "").ready[0]?.priority ?? -1;
    for (const each of lanes) {
      const { ready, leased } = this.#inLane(name, each);
      const [first] = ready;
      const isPaused = this.#paused.has(keyOf(name, each));
      if (first === undefined || leased >= this.#limitOf(name, each) || isPaused) continue;
      const openMs = this.#openMs(name, each, first);
      if (openMs <= this.#nowMs) top = Math.max(top, first.priority);
      else if (timerMs > openMs + slackMs) return `lane ${each} has no timer`;
    }
    const max = this.#policies.get(name)?.maxConsumers || Infinity;
    const leased = this.#leased().filter(({ command }) => queueOf(command) === name).length;
    if (this.#paused.has(keyOf(name, "")) || leased >= max) top = -1;
    const isAsked = [...this.#waiting].some(({ commands }) => commands?.includes(name) ?? true);
    const turn = queue?.lanes?.next(top)?.lane.name ?? "";
    const [next] = this.#inLane(name, turn).ready;
    if (top >= 0 && next !== undefined) {
      const openMs = this.#openMs(name, "", next);
      if (Math.abs(openMs - this.#nowMs) <= slackMs) return undefined;
      if (openMs > this.#nowMs) {
        // The queue finds out when a claim asks.
        if (isAsked && timerMs > openMs + slackMs) return "the queue has no timer";
        if (isAsked || queue?.topPriority === -1) return undefined;
      }
    }
    if (queue?.topPriority !== top) {
      return `claims may take the priority ${queue?.topPriority}, and should be able to take ${top}`;
    }
    if (isAsked && top >= 0) return "a claim waits while a lane may be served";
    return undefined;
  }

  /** What explanations say of the next task of each lane. */
  #explanations(name: string): string | undefined {
    const queue = this.#broker.queues.find(acme, name);
    for (const lane of lanes) {
      const [first] = this.#inLane(name, lane).ready;
      if (first === undefined) continue;
      const rule = queue?.lanes?.obstacleOf(first)?.rule;
      const expected = this.#obstacleOf(name, lane, first);
      if (expected === "" && rule === "topic_rate" && queue?.isWaiting) continue;
      if (!expected.split("|").includes(rule ?? "")) {
        return `the explanation of ${lane} says ${rule}, not ${expected}`;
      }
    }
    return undefined;
  }

  #obstacleOf(name: string, lane: string, first: Task): string {
    if (this.#paused.has(keyOf(name, lane))) return "lane_paused";
    if (this.#inLane(name, lane).leased >= this.#limitOf(name, lane)) return "lane_limit";
    if (this.#openMs(name, lane, first) > this.#nowMs) return "lane_rate|lane_held";
    return this.#openMs(name, "", first) > this.#nowMs ? "topic_rate" : "";
  }
}

const pausedByAnn = { by: "ann", reason: "", atMs: 1 };

function keyOf(queue: string, lane: string): string {
  return `${queue}/${lane}`;
}

function seqOf({ place }: Task): number {
  return place.in === "ready" ? place.seq : 0;
}
