/**
 * A broker, random tasks with lanes, workers, operators, clock steps, full disks, and crashes in between. A model of its own hears of
 * every durable change in the order of the log and checks what lanes promise:
 *
 * - a lane never has more leases than its limit;
 * - a lane spends at most its burst and what the time allows, with what was settled, also across crashes;
 * - a lane is served in the order of priorities, and in its own order;
 * - a lane that is paused is not claimed from;
 * - a claim never waits while a lane may be served, and a lane that waits for a time has a timer for it;
 * - an explanation names the pause, the limit, the rate or the hold that a claim would meet;
 * - leases and ready tasks in memory are those of the records, after every step.
 */
import { type Change, queueOf, type Task, type TaskId } from "@codeq/queue";
import { SimRandom } from "@codeq/simulated";
import type { ShardBroker } from "../../packages/server/src/core/broker/shard-broker.ts";
import {
  type LaneLimits,
  noLaneLimits,
} from "../../packages/server/src/core/records/lane-policy.ts";
import type { TopicPolicy } from "../../packages/server/src/core/records/topic-record.ts";
import {
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
const priorities = [0, 5];
const stepsOfRun = 150;
const slackMs = 2;
const plenty = Number.MAX_SAFE_INTEGER;
const large = JSON.stringify("x".repeat(6000));

/** 10 units in a second, 5 at once; the lane `b` has no rate, the lane `d/é` a limit of 1. */
const rate = { units: 10, per: "1s", burst: 5 };
const concurrency = 2;
const policy: TopicPolicy = {
  priorityTiers: priorities,
  maxAttempts: 3,
  deadLetterTopicRef: "",
  retentionSeconds: 0,
  maxConsumers: 0,
  placement: "spread",
  lanes: { concurrency, rate },
};
const unlimited = { units: 1_000_000, per: "1s", burst: 1_000_000 };
const of = { tenantId: acme, name: "work" };
const ownLimits: Readonly<Record<string, LaneLimits>> = {
  b: { ...noLaneLimits, rate: unlimited },
  "d/é": { ...noLaneLimits, concurrency: 1 },
};

function limitOf(lane: string): number {
  return lane === "d/é" ? 1 : concurrency;
}

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

/** A bucket of units, as a model of a rate: it fills with the time and never overflows. */
class Bucket {
  level: number = rate.burst;
  #atMs: number;

  constructor(nowMs: number) {
    this.#atMs = nowMs;
  }

  at(nowMs: number): number {
    const filled = ((nowMs - this.#atMs) * rate.units) / 1000;
    return Math.min(rate.burst, this.level + filled);
  }

  change(units: number, nowMs: number): void {
    this.level = Math.min(rate.burst, this.at(nowMs) + units);
    this.#atMs = nowMs;
  }
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
  readonly #buckets = new Map<string, Bucket>();
  readonly #heldMs = new Map<string, number>();
  readonly #paused = new Set<string>();
  readonly #stepsClock: boolean;
  #hasStepped = false;
  #waiting = 0;
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
    await this.#broker.putTopic(of, policy);
    for (const lane of ["b", "d/é"]) {
      await this.#broker.setLane({ ...of, lane }, ownLimits[lane] ?? noLaneLimits);
    }
    this.#plant(this.#broker);
  }

  get #nowMs(): number {
    return this.#world.clock.monotonicMs();
  }

  async step(): Promise<void> {
    const random = this.#random;
    const kind = random.int(16);
    if (kind < 5) await this.#create();
    else if (kind < 7) await this.#claim(random.int(4) + 1, 0);
    else if (kind === 7) await this.#claim(1, 60_000);
    else if (kind === 8) await this.#crash();
    else if (kind === 14) await this.#fillDisk();
    else if (kind === 15) await this.#pause(random.pick(lanes));
    else if (kind < 11) await this.#pass(random.pick([1, 90, 300, 40_000]));
    else await this.#touch(kind);
    this.#broker.wakeLanes(1000);
    await this.#world.clock.advance(0);
  }

  async #create(): Promise<void> {
    const random = this.#random;
    const lane = random.next() < 0.15 ? "" : random.pick(lanes);
    const fields = { lane, cost: random.int(rate.burst) + 1, priority: random.pick(priorities) };
    const asked = create(this.#broker, { ...fields, maxAttempts: 2 });
    await asked.done.catch(() => undefined);
  }

  async #claim(count: number, waitMs: number): Promise<void> {
    const claimed = claim(this.#broker, { count, waitMs, leaseMs: 30_000 });
    if (waitMs === 0) await claimed;
    else {
      this.#waiting += 1;
      const ended = (): void => {
        this.#waiting -= 1;
      };
      claimed.then(ended, ended);
    }
  }

  async #crash(): Promise<void> {
    if (this.#stepsClock) {
      this.#hasStepped = true;
      this.#world.clock.stepWall(-this.#random.int(100_000));
    }
    this.#broker = await this.#world.kill();
    this.#waiting = 0;
    this.#plant(this.#broker);
  }

  /** What is decided while the disk is full is undone, and memory is read from the records again. */
  async #fillDisk(): Promise<void> {
    const { disk, clock } = this.#world;
    const leased = [...this.#tasks.values()].filter(({ place }) => place.in === "leased");
    disk.capacityBytes = 0;
    const refused: Promise<unknown>[] = [create(this.#broker, { payload: large }).done];
    refused.push(claim(this.#broker, { count: 3, leaseMs: 30_000 }));
    for (const task of leased.slice(0, 2)) {
      const holdMs = this.#random.pick([0, 50_000]);
      const request = { delaySeconds: 0, reason: "", used: 0, holdMs };
      refused.push(nack(this.#broker, owned(task), request).done);
    }
    // A claim that finds nothing writes nothing.
    const [created] = await Promise.allSettled(refused);
    if (created?.status !== "rejected") this.finding ??= "a full disk accepts a task";
    disk.capacityBytes = plenty;
    await clock.advance(1000);
    this.#plant(this.#broker);
  }

  /** An operator pauses a lane, or resumes it; the lane keeps its other limits. */
  async #pause(lane: string): Promise<void> {
    const isPaused = this.#paused.has(lane);
    const pause = isPaused ? undefined : { by: "ann", reason: "", atMs: 1 };
    const limits = { ...(ownLimits[lane] ?? noLaneLimits), pause };
    const done = this.#broker.setLane({ ...of, lane }, limits);
    if (isPaused) this.#paused.delete(lane);
    else this.#paused.add(lane);
    await done;
  }

  async #pass(ms: number): Promise<void> {
    await this.#world.clock.advance(ms);
    const broker = this.#broker;
    broker.wakeLanes(1000);
    for (const { id, place } of [...this.#tasks.values()]) {
      const lease = broker.leases.get(id);
      if (place.in === "leased" && (lease?.dueMs ?? Infinity) <= this.#nowMs) broker.expire(id);
      else if (place.in === "delayed" && place.dueMs <= this.#world.clock.nowMs()) {
        await broker.promote([{ id, number: place.dueMs }]);
      }
    }
  }

  /** A worker or an operator does something to a task. */
  async #touch(kind: number): Promise<void> {
    const random = this.#random;
    const leased = [...this.#tasks.values()].filter(({ place }) => place.in === "leased");
    if (kind === 13) {
      const task = random.pick([...this.#tasks.values(), undefined]);
      const action = random.pick([
        { kind: "cancel", graceMs: random.pick([0, 5000]) },
        { kind: "replay" },
        { kind: "edit", edit: { priority: random.pick(priorities) } },
      ] as const);
      if (task !== undefined) await this.#broker.act({ tenantId: acme, id: task.id }, action);
      return;
    }
    if (leased.length === 0) return;
    const task = random.pick(leased);
    const used = random.next() < 0.5 ? random.int(10) : undefined;
    this.#settled = used === undefined ? undefined : { id: task.id, used };
    if (kind === 12) {
      await submit(this.#broker, owned(task), { ...success, used }).done.catch(() => undefined);
      return;
    }
    this.#holdMs = random.next() < 0.4 ? 2000 : 0;
    const request = { delaySeconds: random.int(2), reason: "", used, holdMs: this.#holdMs };
    await nack(this.#broker, owned(task), request).done.catch(() => undefined);
    this.#holdMs = 0;
  }

  #observe({ before, after, because }: Change): void {
    const task = (after ?? before) as Task;
    const lane = task.lane?.name ?? "";
    if (because === "claimed") this.#claimed(before as Task, lane);
    if (this.#settled?.id === task.id && before?.place.in === "leased") {
      const { used } = this.#settled;
      this.#bucketOf(lane)?.change((task.lane?.cost ?? 1) - used, this.#nowMs);
      this.#settled = undefined;
    }
    if (because === "held" && lane !== "") {
      const untilMs = this.#nowMs + this.#holdMs;
      this.#heldMs.set(lane, Math.max(untilMs, this.#heldMs.get(lane) ?? 0));
    }
    if (after === undefined) this.#tasks.delete(task.id);
    else this.#tasks.set(task.id, after);
  }

  #bucketOf(lane: string): Bucket | undefined {
    if (lane === "" || lane === "b") return undefined;
    const bucket = this.#buckets.get(lane) ?? new Bucket(this.#nowMs);
    this.#buckets.set(lane, bucket);
    return bucket;
  }

  #claimed(before: Task, lane: string): void {
    if (lane === "") return;
    const { ready, leased } = this.#inLane(lane);
    if (this.#paused.has(lane)) this.finding ??= `lane ${lane} was claimed from during a pause`;
    if (leased >= limitOf(lane)) this.finding ??= `lane ${lane} has more leases than its limit`;
    const [first] = ready;
    if (first?.id !== before.id) this.finding ??= `a task of lane ${lane} overtook another`;
    if ((this.#heldMs.get(lane) ?? 0) > this.#nowMs + slackMs) {
      this.finding ??= `lane ${lane} was claimed from while it was held`;
    }
    const bucket = this.#bucketOf(lane);
    const cost = before.lane?.cost ?? 1;
    if (bucket === undefined) return;
    if (bucket.at(this.#nowMs + slackMs) < cost) {
      this.finding ??= `lane ${lane} spent ${cost} of ${bucket.at(this.#nowMs)} units`;
    }
    bucket.change(-cost, this.#nowMs);
  }

  /** What the records say of a lane; ready tasks in the order in which they have to be claimed. */
  #inLane(lane: string): { readonly ready: readonly Task[]; readonly leased: number } {
    const all = [...this.#tasks.values()].filter((task) => (task.lane?.name ?? "") === lane);
    const ready = all.filter(({ place }) => place.in === "ready");
    ready.sort((a, b) => b.priority - a.priority || seqOf(a) - seqOf(b));
    return { ready, leased: all.filter(({ place }) => place.in === "leased").length };
  }

  check(): string | undefined {
    const queue = this.#broker.queues.find(acme, queueOf("work"));
    if (queue === undefined) return "the queue is gone";
    const withTasks = lanes.filter((name) => this.#inLane(name).ready.length > 0).length;
    const { claimable = 0, waiting = 0 } = queue.lanes?.states ?? {};
    if (claimable < 0 || waiting < 0 || claimable + waiting !== withTasks) {
      return `${claimable} lanes are claimable and ${waiting} wait, and ${withTasks} have tasks`;
    }
    let top = -1;
    const plain = this.#inLane("");
    if (plain.ready.length > 0) top = plain.ready[0]?.priority ?? -1;
    for (const name of lanes) {
      const { ready, leased } = this.#inLane(name);
      const lane = queue.lanes?.find(name);
      if ((lane?.leased ?? 0) !== leased || (lane?.reserved ?? 0) !== 0) {
        return `lane ${name} counts ${lane?.leased} leases and has ${leased}`;
      }
      if ((lane?.ready ?? 0) !== ready.length) {
        return `lane ${name} counts ${lane?.ready} ready tasks and has ${ready.length}`;
      }
      // The cost of the next task is not known before it is read.
      if (lane?.top !== undefined && lane.top.head === undefined) return undefined;
      const [first] = ready;
      if (first === undefined || leased >= limitOf(name) || this.#paused.has(name)) continue;
      const dueMs = this.#dueMs(name, first.lane?.cost ?? 1);
      if (dueMs + slackMs < this.#nowMs) top = Math.max(top, first.priority);
      else if (dueMs - slackMs > this.#nowMs || this.#hasStepped) {
        const nextMs = this.#broker.queues.lanes.nextMs ?? Infinity;
        if (!this.#hasStepped && nextMs > dueMs + slackMs) return `lane ${name} has no timer`;
      } else return undefined;
    }
    if (this.#hasStepped) return undefined;
    const wrong = this.#explanations();
    if (wrong !== undefined) return wrong;
    if (queue.topPriority !== top) {
      return `claims may take the priority ${queue.topPriority}, and should be able to take ${top}`;
    }
    if (this.#waiting > 0 && top >= 0) return "a claim waits while a lane may be served";
    return undefined;
  }

  /** What explanations say of the next task of each lane. */
  #explanations(): string | undefined {
    const lanesOfQueue = this.#broker.queues.find(acme, "work")?.lanes;
    for (const name of lanes) {
      const { ready, leased } = this.#inLane(name);
      const [first] = ready;
      if (first === undefined) continue;
      const rule = lanesOfQueue?.obstacleOf(first)?.rule;
      const isPaused = this.#paused.has(name);
      if (isPaused !== (rule === "lane_paused")) return `the explanation of ${name} says ${rule}`;
      if (isPaused) continue;
      const isLimited = leased >= limitOf(name);
      if (isLimited !== (rule === "lane_limit")) return `the explanation of ${name} says ${rule}`;
      if (isLimited) continue;
      const isLater = this.#dueMs(name, first.lane?.cost ?? 1) > this.#nowMs + slackMs;
      if (isLater !== (rule !== undefined)) return `the explanation of ${name} says ${rule}`;
    }
    return undefined;
  }

  /** When the lane may be claimed from, as the model says. */
  #dueMs(lane: string, cost: number): number {
    const level = this.#bucketOf(lane)?.at(this.#nowMs) ?? cost;
    const missing = Math.max(0, cost - level);
    const wait = missing === 0 ? -2 * slackMs : (missing * 1000) / rate.units;
    const heldMs = this.#heldMs.get(lane) ?? 0;
    return Math.max(this.#nowMs + wait, heldMs);
  }
}

function seqOf({ place }: Task): number {
  return place.in === "ready" ? place.seq : 0;
}
