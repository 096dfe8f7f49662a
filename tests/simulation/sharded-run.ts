/**
 * A router over shards for one seed: messages that are late, shards that are slow, that fail and that end
 * and come back, and clients that ask for everything. The seed chooses how many shards there are. What
 * clients were told is compared with what the shards have.
 */
import assert from "node:assert/strict";
import { FaultError } from "@codeq/engine";
import {
  type Change,
  laneOf,
  queueOf,
  type Task,
  type TaskId,
  type TenantId,
  type WorkerId,
} from "@codeq/queue";
import { SimRandom, settle } from "@codeq/simulated";
import {
  isLimited,
  noQuotas,
  type Quotas,
  quotaOf,
} from "../../packages/server/src/config/quotas.ts";
import type { ShardBroker } from "../../packages/server/src/core/broker/shard-broker.ts";
import type { ClaimedTask } from "../../packages/server/src/core/broker/verbs.ts";
import { shardOf } from "../../packages/server/src/core/shards/shard-of.ts";
import {
  AskedClaim,
  abandon,
  acme,
  create,
  heartbeat,
  nack,
  owned,
  runDue,
  submit,
  success,
  umbrella,
} from "../../packages/server/test/broker-world.ts";
import { lateWay, ShardedWorld } from "../../packages/server/test/queue-worlds.ts";
import { BatchWatch, workOnBatches } from "./batch-watch.ts";
import { LaneWatch } from "./lane-watch.ts";
import { UniqueWatch } from "./unique-watch.ts";

export interface ShardedOptions {
  readonly seed: number;
  readonly steps?: number;
  /** Some tasks have unique keys. */
  readonly hasUnique?: boolean;
  /** There are batches. */
  readonly hasBatches?: boolean;
  /** Some tasks have lanes. */
  readonly hasLanes?: boolean;
  /** Changes the world before anything happens. */
  readonly plant?: (world: ShardedWorld) => void;
}

export interface ShardedOutcome {
  readonly shards: number;
  readonly acknowledged: number;
  readonly claimed: number;
  readonly crashes: number;
  /** Callbacks of batches. */
  readonly released: number;
  /** The first promise that was broken. */
  readonly finding: string | undefined;
}

export const shardedStepsDefault = 300;
const stepsBetweenLooks = 25;
const tenants: readonly TenantId[] = [acme, umbrella];
const commands = ["a", "b"] as const;
const leaseMs = 20_000;

export async function simulateShards(options: ShardedOptions): Promise<ShardedOutcome> {
  const random = new SimRandom(`shards/${options.seed}`);
  const count = random.pick([1, 2, 2, 3, 3, 8]);
  const all = Number.POSITIVE_INFINITY;
  const quota = {
    ...noQuotas.default,
    pendingTasks: random.pick([10, 40, all]),
    storedBytes: random.pick([400, all]),
    concurrentLeases: random.pick([2, 8, all]),
  };
  const quotas: Quotas = { ...noQuotas, tenants: new Map([[acme as string, quota]]) };
  const world = await ShardedWorld.open(count, lateWay, { seed: options.seed, quotas });
  options.plant?.(world);
  const lanes = options.hasLanes === true ? new LaneWatch() : undefined;
  const run = new ShardedRun(world, random, {
    count,
    quotas,
    hasUnique: options.hasUnique === true,
    batches: options.hasBatches
      ? new BatchWatch(new SimRandom(`batches/${options.seed}`), 3)
      : undefined,
    lanes,
  });
  if (lanes !== undefined) await world.done(lanes.begin(world.broker));
  const stray = (error: unknown): void => {
    run.finding ??= `nobody caught ${String(error)}`;
  };
  process.on("uncaughtException", stray);
  process.on("unhandledRejection", stray);
  try {
    await run.toEnd(options.steps ?? shardedStepsDefault);
  } catch (error) {
    if (!(error instanceof assert.AssertionError)) throw error;
    run.finding ??= error.message;
  } finally {
    await settle(1);
    process.off("uncaughtException", stray);
    process.off("unhandledRejection", stray);
  }
  const { acknowledged, claimed, crashes, finding } = run;
  const released = run.batches?.released ?? 0;
  return { shards: count, acknowledged: acknowledged.size, claimed, crashes, released, finding };
}

interface Known {
  readonly tenantId: TenantId;
  isDone: boolean;
  /** Of the last lease that anybody was told of. */
  token: number;
}

interface Held {
  readonly id: TaskId;
  readonly tenantId: TenantId;
  readonly workerId: WorkerId;
  readonly leaseToken: number;
}

class ShardedRun {
  readonly acknowledged: Map<TaskId, Known> = new Map();
  claimed = 0;
  crashes = 0;
  finding: string | undefined;
  readonly batches: BatchWatch | undefined;
  readonly #world: ShardedWorld;
  readonly #random: SimRandom;
  readonly #count: number;
  readonly #leasesMax: number;
  readonly #isLimited: boolean;
  readonly #hasUnique: boolean;
  readonly #keys: Map<string, TaskId> = new Map();
  readonly #unique: UniqueWatch = new UniqueWatch();
  readonly #lanes: LaneWatch | undefined;
  readonly #held: Held[] = [];
  readonly #waiting: Set<AskedClaim> = new Set();
  /** Tasks that were never claimed, of this life of each shard, by bucket in their order. */
  readonly #order: Map<string, TaskId[]>[];
  readonly #down: Map<number, number> = new Map();
  /** The end of a lease that was not durable is undone with its shard; others may have its place. */
  #mayExceed = false;
  /** Queues that are paused in every shard, and those of which it is not known. */
  readonly #pauses: Map<string, "paused" | "unknown"> = new Map();
  /** On their way to the shards. */
  readonly #pausing: Set<string> = new Set();
  #workers = 0;

  constructor(
    world: ShardedWorld,
    random: SimRandom,
    parts: {
      readonly count: number;
      readonly quotas: Quotas;
      readonly hasUnique: boolean;
      readonly batches: BatchWatch | undefined;
      readonly lanes: LaneWatch | undefined;
    },
  ) {
    const { count, quotas } = parts;
    this.#lanes = parts.lanes;
    this.#hasUnique = parts.hasUnique;
    this.batches = parts.batches;
    this.#world = world;
    this.#random = random;
    this.#count = count;
    this.#leasesMax = quotaOf(quotas, acme).concurrentLeases;
    this.#isLimited = isLimited(quotas);
    this.#order = Array.from({ length: count }, () => new Map());
    world.observe = (shard, change) => this.#observe(shard, change);
  }

  async toEnd(steps: number): Promise<void> {
    for (let step = 1; step <= steps && this.finding === undefined; step += 1) {
      await this.#trouble();
      for (let acts = this.#random.int(4); acts > 0; acts -= 1) this.#act();
      this.batches?.act(this.#world.broker, tenants, this.#added);
      await this.#pass(
        this.#random.next() < 0.97 ? this.#random.int(15) : this.#random.int(30_000),
      );
      this.#checkLeases();
      this.#note(this.#unique.check(this.#taskOf));
      this.#note(this.#lanes?.check(this.#taskOf));
      if (step % stepsBetweenLooks === 0) await this.#look();
    }
    if (this.finding === undefined) await this.#finish();
  }

  async #pass(ms: number): Promise<void> {
    await this.#world.clock.advance(ms);
    await settle(2);
    for (const broker of this.#brokers()) {
      if (broker.state === "open") await this.#maintain(broker);
    }
  }

  async #maintain(broker: ShardBroker): Promise<void> {
    const work = async (): Promise<void> => {
      await runDue(broker, this.#world.clock);
      if (this.batches !== undefined) await workOnBatches(broker, this.#world.clock.nowMs());
    };
    const due = work().catch((error: unknown) => {
      if (!(error instanceof FaultError)) throw error;
    });
    // A disk that is slow or gone answers later, or never.
    await Promise.race([due, settle(20)]);
  }

  #brokers(): ShardBroker[] {
    return this.#world.brokers.filter((broker) => broker !== undefined);
  }

  async #trouble(): Promise<void> {
    const world = this.#world;
    for (const [shard, atMs] of [...this.#down]) {
      if (world.clock.monotonicMs() < atMs) continue;
      this.#down.delete(shard);
      await world.openShard(shard);
    }
    const draw = this.#random.next();
    const shard = this.#random.int(this.#count);
    if (draw > 0.06 || this.#down.has(shard)) return;
    const { disk } = world.world(shard);
    if (draw < 0.03) {
      const until = Promise.withResolvers<void>();
      world.clock.after(this.#random.int(300), () => until.resolve());
      disk.slow(this.#random.pick(["sync", "write"]), until.promise);
    } else if (draw < 0.04) {
      disk.failNext("sync", "EIO");
      this.#crash(shard, 200 + this.#random.int(500));
    } else if (draw < 0.044) {
      // The machine loses its power: every log is cut where it was.
      for (let each = 0; each < this.#count; each += 1) this.#crash(each, 0, "power");
    } else this.#crash(shard, 0);
  }

  /** Ends a shard after a while, and starts it again some time later. */
  #crash(shard: number, afterMs: number, how?: "power"): void {
    const world = this.#world;
    const end = (): void => {
      if (this.#down.has(shard)) return;
      this.crashes += 1;
      this.#mayExceed = true;
      this.#order[shard]?.clear();
      this.#lanes?.lost((id) => shardOf(id, this.#count) === shard);
      this.#down.set(shard, world.clock.monotonicMs() + this.#random.int(400));
      world.crash(shard, how ?? (this.#random.next() < 0.5 ? "process" : "power"));
    };
    if (afterMs === 0) end();
    else world.clock.after(afterMs, end);
  }

  #act(): void {
    const draw = this.#random.next();
    if (draw < 0.4) this.#create();
    else if (draw < 0.65) this.#claim();
    else if (draw < 0.7) this.#cancel();
    else if (draw < 0.76) this.#administer();
    else this.#work();
  }

  #create(): void {
    const random = this.#random;
    const tenantId = random.pick(tenants);
    const idempotencyKey = random.next() < 0.4 ? `key-${random.int(60)}` : "";
    const priority = random.int(3);
    const delayMs = random.next() < 0.1 ? random.int(5000) : undefined;
    const visibleMs = delayMs === undefined ? undefined : this.#world.clock.nowMs() + delayMs;
    const command = idempotencyKey === "" ? random.pick(commands) : "a";
    const maxAttempts = random.pick([1, 3, 20]);
    const isUnique = this.#hasUnique && idempotencyKey === "" && random.next() < 0.4;
    const asked = isUnique ? this.#unique.request(random) : {};
    const isLaned = tenantId === acme && command === "a";
    const laned = isLaned ? this.#lanes?.request(random, idempotencyKey) : undefined;
    const base = { tenantId, idempotencyKey, priority, visibleMs, command, maxAttempts, ...asked };
    create(this.#world.broker, { ...base, ...laned }).done.then(
      (enqueued) => {
        const { task, replayed, deduplicated } = enqueued;
        this.#unique.accepted(asked, enqueued);
        this.#lanes?.knows(task);
        const key = `${tenantId}/${idempotencyKey}`;
        const before = idempotencyKey === "" ? undefined : this.#keys.get(key);
        if (before !== undefined && before !== task.id) {
          this.#broken(`${key} stands for ${before} and for ${task.id}`);
        }
        if (idempotencyKey !== "") this.#keys.set(key, task.id);
        if (this.acknowledged.has(task.id)) {
          if (!replayed && !deduplicated) this.#broken(`${task.id} was created twice`);
          return;
        }
        this.acknowledged.set(task.id, { tenantId, isDone: false, token: 0 });
      },
      () => {},
    );
  }

  readonly #added = ({ id, tenantId }: Task): void => {
    this.acknowledged.set(id, this.acknowledged.get(id) ?? { tenantId, isDone: false, token: 0 });
  };

  #claim(): void {
    const random = this.#random;
    this.#workers += 1;
    const workerId = `w-${this.#workers}` as WorkerId;
    const claim = new AskedClaim({
      tenantId: random.pick(tenants),
      workerId,
      queues: random.next() < 0.3 ? undefined : [random.pick(commands)],
      leaseMs,
      count: 1 + random.int(4),
      waitMs: random.next() < 0.3 ? 0 : random.int(10_000),
    });
    this.#waiting.add(claim);
    const over = (): void => void this.#waiting.delete(claim);
    claim.asked.done
      .then(
        (tasks) => this.#given(claim, tasks),
        () => {},
      )
      .finally(over);
    this.#world.broker.claim(claim);
  }

  #given(claim: AskedClaim, tasks: readonly ClaimedTask[]): void {
    if (tasks.length > claim.count) this.#broken(`a claim for ${claim.count} got ${tasks.length}`);
    for (const { task } of tasks) {
      const { id, tenantId, leaseToken } = task;
      this.claimed += 1;
      if (tenantId !== claim.tenantId) this.#broken(`${id} was given to another tenant`);
      const known = this.acknowledged.get(id) ?? { tenantId, isDone: false, token: 0 };
      this.acknowledged.set(id, known);
      if (leaseToken <= known.token) this.#broken(`${id} was given out twice with ${leaseToken}`);
      known.token = leaseToken;
      this.#held.push({ id, tenantId, workerId: claim.workerId, leaseToken });
    }
  }

  #cancel(): void {
    const [claim] = this.#waiting;
    if (claim !== undefined) this.#world.broker.cancelClaim(claim);
  }

  /** Somebody cancels or replays a task, or pauses or resumes a queue. */
  #administer(): void {
    const random = this.#random;
    const draw = random.next();
    if (draw < 0.4) {
      void this.#pause(random.pick(tenants), random.pick(commands), random.next() < 0.4);
      return;
    }
    const ids = [...this.acknowledged.keys()];
    const id = ids[random.int(Math.max(ids.length, 1))];
    const known = id === undefined ? undefined : this.acknowledged.get(id);
    if (id === undefined || known === undefined) return;
    // Of what ends meanwhile nobody knows which was first.
    const { tenantId, isDone } = known;
    const { broker } = this.#world;
    const action =
      draw < 0.7
        ? ({ kind: "replay" } as const)
        : ({ kind: "cancel", graceMs: random.pick([0, 5000]) } as const);
    broker.act({ tenantId, id }, action).then(
      (acted) => {
        if (!acted.ok) {
          if (acted.code === "task_unknown") this.#broken(`${id} was acknowledged and is unknown`);
          return;
        }
        if (isDone) this.#broken(`${id} has ended, and ${action.kind} was accepted`);
        if (acted.task.place.in === "done") known.isDone = true;
      },
      () => {},
    );
  }

  /** While it is not answered, and after a failure, nobody knows which shards have heard of it. */
  async #pause(tenantId: TenantId, command: string, isPaused: boolean): Promise<boolean> {
    const name = `${tenantId}/${command}`;
    const { broker, clock } = this.#world;
    // The order in which two of them reach the shards is not known either.
    if (this.#pausing.has(name)) return false;
    this.#pausing.add(name);
    this.#pauses.set(name, "unknown");
    const pause = isPaused ? { by: "admin", atMs: clock.nowMs(), reason: "" } : undefined;
    try {
      await broker.pause({ tenantId, name: command }, pause);
      if (isPaused) this.#pauses.set(name, "paused");
      else this.#pauses.delete(name);
      return true;
    } catch {
      return false;
    } finally {
      this.#pausing.delete(name);
    }
  }

  #work(): void {
    const random = this.#random;
    const at = random.int(Math.max(this.#held.length, 1));
    const held = this.#held[at];
    if (held === undefined) return;
    const { broker } = this.#world;
    const { id, leaseToken } = held;
    const of = owned(held, held.workerId);
    const mine = { ...of, owner: { workerId: held.workerId, leaseToken } };
    const draw = random.next();
    if (draw < 0.15) {
      heartbeat(broker, mine, leaseMs).done.catch(() => {});
      return;
    }
    this.#held.splice(at, 1);
    if (draw < 0.3) {
      const holdMs = this.#lanes?.hold(random, this.#taskOf(id));
      nack(broker, mine, { delaySeconds: random.int(3), reason: "", holdMs });
    } else if (draw < 0.4) abandon(broker, mine, { interrupted: true });
    else if (draw < 0.45) broker.release(mine);
    else {
      submit(broker, mine, success).done.then(
        () => {
          const known = this.acknowledged.get(id);
          if (known !== undefined) known.isDone = true;
        },
        () => {},
      );
    }
  }

  /** Inside a shard, of tasks that were never claimed, the oldest of a bucket goes first. */
  #observe(shard: number, change: Change): void {
    const { before, after, because } = change;
    const task = after ?? before;
    if (task === undefined) return;
    this.#unique.saw(task);
    this.batches?.saw(change);
    this.#note(this.#lanes?.saw(change));
    if (shardOf(task.id, this.#count) !== shard) this.#broken(`${task.id} is in shard ${shard}`);
    const name = [task.tenantId, queueOf(task.command), task.priority, laneOf(task)].join("/");
    const order = this.#order[shard]?.get(name) ?? [];
    this.#order[shard]?.set(name, order);
    if (because === "created" && after?.place.in === "ready") order.push(task.id);
    // A replaced task may have another priority, and goes to the back.
    if (because === "edited") this.#forget(shard, task.id);
    const at = order.indexOf(task.id);
    if (because !== "claimed") {
      if (at >= 0 && after?.place.in !== "ready") order.splice(at, 1);
      return;
    }
    // What a claim got from one shard may end while it waits for another.
    if (this.acknowledged.get(task.id)?.isDone)
      this.#broken(`${task.id} was claimed after its end`);
    const queue = `${task.tenantId}/${queueOf(task.command)}`;
    if (this.#pauses.get(queue) === "paused")
      this.#broken(`${task.id} was claimed, ${queue} is paused`);
    if (at > 0) this.#broken(`${task.id} was claimed before ${order[0]} of the same bucket`);
    if (at === 0) order.shift();
  }

  #forget(shard: number, id: TaskId): void {
    for (const order of this.#order[shard]?.values() ?? []) {
      const at = order.indexOf(id);
      if (at >= 0) order.splice(at, 1);
    }
  }

  #checkLeases(): void {
    let leased = 0;
    for (const { queues } of this.#brokers()) leased += queues.findTenant(acme)?.leased ?? 0;
    if (leased > this.#leasesMax && !this.#mayExceed) {
      this.#broken(`${leased} leases, the quota is ${this.#leasesMax}`);
    }
    if (this.#down.size > 0 || leased > this.#leasesMax) return;
    // The router learns from the next report of a shard which ends of leases its crash has undone.
    if (this.#world.broker.held(acme).leased >= leased) this.#mayExceed = false;
  }

  readonly #taskOf = (id: TaskId): Task | undefined =>
    this.#world.brokers[shardOf(id, this.#count)]?.store.task(id);

  #note(wrong: string | undefined): void {
    if (wrong !== undefined) this.#broken(wrong);
  }

  /** Everything comes to rest, and what the router believes is compared with what the shards have. */
  async #look(): Promise<void> {
    await this.#rest();
    const { broker } = this.#world;
    for (const tenantId of tenants) {
      const sum = { pending: 0, leased: 0, storedBytes: 0 };
      for (const { queues, store } of this.#brokers()) {
        sum.pending += queues.findTenant(tenantId)?.pending ?? 0;
        sum.leased += queues.findTenant(tenantId)?.leased ?? 0;
        sum.storedBytes += store.storedBytes(tenantId);
      }
      const held = JSON.stringify(broker.held(tenantId));
      // Without quotas nobody counts.
      if (!this.#isLimited || held === JSON.stringify(sum)) continue;
      this.#broken(`what the router counts of ${tenantId} is ${held}, not ${JSON.stringify(sum)}`);
    }
    this.#checkWaiting();
    await this.#checkCounts();
    const stores = this.#brokers().map(({ store }) => store);
    this.#note(await this.#unique.checkEntries(stores, this.#taskOf));
    this.#note(await this.batches?.check(stores));
    this.#note(await this.#lanes?.checkMemory(this.#brokers()));
    for (const [id, { tenantId, isDone }] of this.acknowledged) {
      const broker = this.#world.brokers[shardOf(id, this.#count)] as ShardBroker;
      const task = broker.store.task(id);
      if (task?.tenantId !== tenantId) this.#broken(`${id} was acknowledged and is gone`);
      if (isDone && task?.place.in !== "done") this.#broken(`${id} ended and is ${task?.place.in}`);
    }
  }

  /** What the router answers is the sum of what the shards have. */
  async #checkCounts(): Promise<void> {
    const { broker } = this.#world;
    for (const tenantId of tenants) {
      for (const command of commands) {
        const counts = await this.#world.done(Promise.resolve(broker.counts(tenantId, command)));
        const told = counts.ready.reduce((sum, each) => sum + each, 0) + counts.delayed;
        let real = 0;
        for (const { queues } of this.#brokers()) {
          for (const each of queues.ofTenant(tenantId)) {
            if (each.name === command) real += each.readyTotal + each.counts.delayed;
          }
        }
        if (broker.isPartial) this.#broken("all shards are there, and counts are called partial");
        if (told === real) continue;
        this.#broken(`${told} tasks of ${tenantId}/${command} are counted, there are ${real}`);
      }
    }
  }

  /** Nobody waits beside work that it may have. */
  #checkWaiting(): void {
    const { broker } = this.#world;
    for (const { tenantId, queues, isCancelled } of this.#waiting) {
      if (isCancelled || broker.exceededByLease(tenantId) !== undefined) continue;
      for (const broker of this.#brokers()) {
        for (const { name, readyTotal } of broker.queues.ofTenant(tenantId)) {
          const hasLanes = this.#lanes !== undefined && tenantId === acme;
          const ready = hasLanes ? this.#lanes.claimable(broker, name) : readyTotal;
          if (ready === 0 || (queues !== undefined && !queues.includes(name))) continue;
          if (this.#pauses.has(`${tenantId}/${name}`)) continue;
          this.#broken(`a claim of ${tenantId} waits beside ${ready} tasks of ${name}`);
        }
      }
    }
  }

  /** All shards are up and every message has arrived. */
  async #rest(): Promise<void> {
    for (let turn = 0; turn < 1000; turn += 1) {
      for (const [shard, atMs] of this.#down) this.#down.set(shard, Math.min(atMs, 0));
      for (const [shard, broker] of this.#world.brokers.entries()) {
        if (broker?.state === "failed") this.#crash(shard, 0);
      }
      for (const shard of [...this.#down.keys()]) {
        this.#down.delete(shard);
        await this.#world.openShard(shard);
      }
      await this.#pass(20);
      if (turn < 40) continue;
      if (!this.#world.broker.shards.every(({ state }) => state === "open")) continue;
      // What maintenance has done arrives, too, and nothing new is done.
      for (let last = 0; last < 5; last += 1) {
        await this.#world.clock.advance(20);
        await settle(5);
      }
      return;
    }
    this.#broken("the shards do not come to rest");
  }

  /** Good workers only, until every task has ended. */
  async #finish(): Promise<void> {
    await this.#look();
    await this.#resumeAll();
    this.#world.broker.stopWaiting();
    for (let round = 0; round < 2000; round += 1) {
      this.batches?.end(this.#world.broker);
      const held = this.#held.splice(0);
      for (const each of held) {
        const { workerId, leaseToken, id } = each;
        const mine = { ...owned(each, workerId), owner: { workerId, leaseToken } };
        submit(this.#world.broker, mine, success).done.then(
          () => {
            const known = this.acknowledged.get(id);
            if (known !== undefined) known.isDone = true;
          },
          () => {},
        );
      }
      for (const tenantId of tenants) {
        const workerId = `finisher-${round}` as WorkerId;
        const request = { tenantId, workerId, queues: undefined, leaseMs, count: 50, waitMs: 0 };
        const claim = new AskedClaim(request);
        claim.asked.done.then(
          (tasks) => this.#given(claim, tasks),
          () => {},
        );
        this.#world.broker.claim(claim);
      }
      await this.#pass(500);
      const haveEnded = this.batches?.haveEnded ?? true;
      if (this.#held.length === 0 && haveEnded && this.#isEmpty()) break;
    }
    await this.#look();
    const stores = this.#brokers().map(({ store }) => store);
    this.#note(await this.batches?.check(stores, true));
    for (const [id, { tenantId }] of this.acknowledged) {
      const found = await this.#world.done(this.#world.broker.get(tenantId, id));
      const place = found?.task.place.in;
      if (place !== "done" && place !== "dead") this.#broken(`${id} does not end: ${place}`);
    }
  }

  async #resumeAll(): Promise<void> {
    for (const name of [...this.#pauses.keys()]) {
      const [tenantId, command] = name.split("/") as [TenantId, string];
      while (!(await this.#world.done(this.#pause(tenantId, command, false)))) await this.#pass(20);
    }
  }

  #isEmpty(): boolean {
    return this.#brokers().every(({ queues }) =>
      tenants.every((each) => {
        const tenant = queues.findTenant(each);
        return (tenant?.pending ?? 0) === 0 && (tenant?.leased ?? 0) === 0;
      }),
    );
  }

  #broken(text: string): void {
    this.finding ??= text;
  }
}
