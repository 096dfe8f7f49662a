/**
 * A cluster for one seed: nodes that are killed, paused and cut off, a log whose answers are late, lost
 * and repeated, and clients that ask any node. What clients were told is compared with what the replicas
 * have, and the replicas with each other.
 */
import assert from "node:assert/strict";
import type { Change, Task, TaskId, TenantId, WorkerId } from "@codeq/queue";
import { SimRandom, settle } from "@codeq/simulated";
import { graceMsOf } from "../../packages/server/src/core/broker/claims/leases.ts";
import type { ShardBroker } from "../../packages/server/src/core/broker/shard-broker.ts";
import type { ClaimedTask } from "../../packages/server/src/core/broker/verbs.ts";
import type { Router } from "../../packages/server/src/core/shards/router.ts";
import { shardOf } from "../../packages/server/src/core/shards/shard-of.ts";
import {
  AskedClaim,
  acme,
  create,
  heartbeat,
  nack,
  owned,
  submit,
  success,
  umbrella,
} from "../../packages/server/test/broker-world.ts";
import {
  ClusterWorld,
  type Leadership,
  type SimNode,
} from "../../packages/server/test/cluster-world.ts";
import { BatchWatch } from "./batch-watch.ts";
import { ClusterLedger, type Known } from "./cluster-ledger.ts";
import { ClusterSchedules } from "./cluster-schedules.ts";
import { LaneWatch } from "./lane-watch.ts";
import { UniqueWatch } from "./unique-watch.ts";

export interface ClusterOptions {
  readonly seed: number;
  readonly steps?: number;
  /** Some tasks have unique keys. */
  readonly hasUnique?: boolean;
  /** There are batches. */
  readonly hasBatches?: boolean;
  /** Some tasks have lanes. */
  readonly hasLanes?: boolean;
}

export interface ClusterOutcome {
  readonly shards: number;
  readonly acknowledged: number;
  readonly claimed: number;
  readonly reads: number;
  /** Tasks that schedules created. */
  readonly fired: number;
  /** Callbacks of batches. */
  readonly released: number;
  readonly faults: number;
  readonly epochs: number;
  /** Slots that were removed from the logs, and nodes that needed a copy for that. */
  readonly trimmed: number;
  readonly copies: number;
  /** The first promise that was broken. */
  readonly finding: string | undefined;
}

export const clusterStepsDefault = 250;
const tenants: readonly TenantId[] = [acme, umbrella];
const leaseMs = 20_000;
const wrongMs = 2 * 3_600_000;
const faultKinds = [
  "kill",
  "wipe",
  "pause",
  "no log",
  "no network",
  "neither",
  "no log servers",
  "full log",
  "full disk",
  "wrong clock",
] as const;
/** Follow from when each replica flushed: how far it is, and the last number that a flush saw in use. */
const ownKeys: ReadonlySet<string> = new Set(["codeq/meta/position", "codeq/meta/sequence"]);

export async function simulateCluster(options: ClusterOptions): Promise<ClusterOutcome> {
  const random = new SimRandom(`cluster-run/${options.seed}`);
  const shards = random.pick([1, 1, 2, 3]);
  const trouble = random.pick([0, 0.01, 0.04]);
  const world = new ClusterWorld({ seed: options.seed, shards, trouble });
  const run = new ClusterRun(world, random, {
    hasUnique: options.hasUnique === true,
    batches: options.hasBatches
      ? new BatchWatch(new SimRandom(`batches/${options.seed}`), 1000)
      : undefined,
    lanes: options.hasLanes ? new LaneWatch() : undefined,
  });
  const stray = (error: unknown): void => {
    run.ledger.broken(`nobody caught ${error instanceof Error ? error.stack : String(error)}`);
  };
  process.on("uncaughtException", stray);
  process.on("unhandledRejection", stray);
  try {
    await run.toEnd(options.steps ?? clusterStepsDefault);
  } catch (error) {
    if (!(error instanceof assert.AssertionError)) throw error;
    run.ledger.broken(error.message);
  } finally {
    await settle(1);
    process.off("uncaughtException", stray);
    process.off("unhandledRejection", stray);
  }
  const { ledger, claimed, reads, faults, epochs } = run;
  const trimmed = world.logs.reduce((sum, log) => sum + log.bounds.first - 1, 0);
  const copies = world.nodes.reduce((sum, node) => sum + node.copies, 0);
  const { fired } = run.schedules;
  const released = run.batches?.released ?? 0;
  const counts = { claimed, reads, fired, released, faults, epochs, trimmed, copies };
  return { shards, acknowledged: ledger.tasks.size, ...counts, finding: ledger.finding };
}

interface Held {
  readonly id: TaskId;
  readonly tenantId: TenantId;
  readonly workerId: WorkerId;
  readonly leaseToken: number;
}

class ClusterRun {
  readonly ledger: ClusterLedger = new ClusterLedger();
  readonly schedules: ClusterSchedules;
  readonly batches: BatchWatch | undefined;
  claimed = 0;
  reads = 0;
  faults = 0;
  epochs = 0;
  readonly #world: ClusterWorld;
  readonly #random: SimRandom;
  readonly #keys: Map<string, TaskId> = new Map();
  readonly #unique: UniqueWatch = new UniqueWatch();
  readonly #held: Held[] = [];
  readonly #comesBack: Map<SimNode, number> = new Map();
  readonly #hasUnique: boolean;
  readonly #lanes: LaneWatch | undefined;
  /** Of each shard, the leader that was heard last. */
  readonly #led: Map<number, Leadership> = new Map();
  #wasClockWrong = false;

  constructor(
    world: ClusterWorld,
    random: SimRandom,
    parts: {
      readonly hasUnique: boolean;
      readonly batches: BatchWatch | undefined;
      readonly lanes: LaneWatch | undefined;
    },
  ) {
    this.#hasUnique = parts.hasUnique;
    this.batches = parts.batches;
    this.#lanes = parts.lanes;
    this.#world = world;
    this.#random = random;
    this.schedules = new ClusterSchedules(world, random.fork("schedules"));
    world.onTimers = (node, shard) => this.#timersRan(node, shard);
    world.onChange = (change, led) => this.#changed(change, led);
    // None of the faults breaks a disk.
    world.onFailed = ({ name }) => this.#broken(`${name.id} takes its storage for failed`);
  }

  get #isSound(): boolean {
    return this.ledger.finding === undefined;
  }

  async toEnd(steps: number): Promise<void> {
    await this.#beginLanes();
    for (let step = 1; step <= steps && this.#isSound; step += 1) {
      this.#trouble();
      for (let acts = this.#random.int(5); acts > 0; acts -= 1) this.#act();
      this.schedules.act();
      const asked = this.batches && this.#queue();
      if (asked !== undefined) this.batches?.act(asked, tenants, this.#added);
      await this.#world.clock.advance(
        this.#random.next() < 0.95 ? this.#random.int(60) : this.#random.int(4000),
      );
      this.#note(this.#unique.check(this.#taskOf));
      this.#note(this.#lanes?.check(this.#taskOf));
    }
    if (this.#isSound) await this.#finish();
  }

  /** Asks for the limits until they are accepted. */
  async #beginLanes(): Promise<void> {
    const { nodes, clock } = this.#world;
    let isAccepted = this.#lanes === undefined;
    for (let turn = 0; !isAccepted && turn < 1000; turn += 1) {
      const { router } = nodes[0] as SimNode;
      const begun = router && this.#lanes?.begin(router);
      begun?.then(
        () => {
          isAccepted = true;
        },
        () => {},
      );
      for (let wait = 0; !isAccepted && wait < 50; wait += 1) await clock.advance(100);
    }
    assert.ok(isAccepted, "no node takes the topic");
  }

  /** Timers run where the leader is, and nowhere else. */
  #timersRan({ shards, name }: SimNode, shard: number): void {
    const role = shards[shard]?.status.role ?? "opening";
    if (role === "opening" || role === "leading" || role === "steppingDown") return;
    this.#broken(`the timers of shard ${shard} run on ${name.id}, which is ${role}`);
  }

  /** A leader leaves the leases of the one before it some time, however late it is. */
  #changed(change: Change, led: Leadership): void {
    const { because, before, after } = change;
    this.batches?.saw(change);
    this.#watchLanes(change, led);
    if (after !== undefined) this.#unique.saw(after);
    const nameOf = ({ id, leaseToken }: Task): string => `${id} ${leaseToken}`;
    if ((because === "claimed" || because === "extended") && after !== undefined) {
      led.leases.add(nameOf(after));
    }
    // A cancelled task has the grace of its cancellation.
    if (because !== "expired" || before?.place.in !== "leased" || before.cancelMs > 0) return;
    const afterMs = this.#world.clock.monotonicMs() - led.sinceMs;
    if (led.leases.has(nameOf(before)) || afterMs >= graceMsOf(before.place.leaseMs)) return;
    this.#broken(
      `the lease of ${before.id} ended ${afterMs} ms after a takeover, without its grace`,
    );
  }

  /** A leader that was deposed hears of its last changes late: the next one has applied them before. */
  #watchLanes(change: Change, led: Leadership): void {
    const { id } = (change.after ?? change.before) as Task;
    const count = this.#world.logs.length;
    const shard = shardOf(id, count);
    const last = this.#led.get(shard);
    if (last !== undefined && last.sinceMs > led.sinceMs) return;
    if (last !== led) this.#lanes?.lost((other) => shardOf(other, count) === shard);
    this.#led.set(shard, led);
    this.#note(this.#lanes?.saw(change));
  }

  #trouble(): void {
    const { nodes, clock, logs } = this.#world;
    for (const [node, atMs] of [...this.#comesBack]) {
      if (clock.monotonicMs() < atMs) continue;
      this.#comesBack.delete(node);
      this.#heal(node);
    }
    const node = this.#random.pick(nodes);
    if (this.#random.next() > 0.06 || this.#comesBack.size > 0) return;
    this.faults += 1;
    this.#comesBack.set(node, clock.monotonicMs() + this.#random.int(12_000));
    switch (this.#random.pick(faultKinds)) {
      case "kill":
        node.kill();
        break;
      case "wipe":
        node.kill(true);
        break;
      case "pause":
        node.pause();
        break;
      case "no log":
        node.isWithoutLog = true;
        break;
      case "no network":
        node.isCutOff = true;
        break;
      case "neither":
        node.isWithoutLog = true;
        node.isCutOff = true;
        break;
      case "no log servers":
        for (const each of nodes) each.isWithoutLog = true;
        break;
      case "full log":
        for (const log of logs) log.bytesMax = log.bytes;
        break;
      case "full disk":
        node.isDiskFull = true;
        break;
      case "wrong clock":
        this.#wasClockWrong = true;
        if (this.#lanes !== undefined) this.#lanes.ignoresTimes = true;
        node.clockOffMs = this.#random.pick([-wrongMs, wrongMs]);
        break;
    }
  }

  #heal(node: SimNode): void {
    const { nodes, logs } = this.#world;
    for (const each of nodes) each.isWithoutLog = false;
    for (const log of logs) log.bytesMax = Number.POSITIVE_INFINITY;
    node.isCutOff = false;
    node.isDiskFull = false;
    node.clockOffMs = 0;
    if (node.isPaused) node.goOn();
    if (!node.isUp) node.start();
  }

  /** Of a node that answers. */
  #queue(): Router | undefined {
    const node = this.#random.pick(this.#world.nodes);
    return node.isPaused ? undefined : node.router;
  }

  #act(): void {
    const broker = this.#queue();
    if (broker === undefined) return;
    const draw = this.#random.next();
    if (draw < 0.35) this.#create(broker);
    else if (draw < 0.6) this.#claim(broker);
    else if (draw < 0.75) this.#read(broker);
    else this.#work(broker);
  }

  #create(broker: Router): void {
    const random = this.#random;
    const tenantId = random.pick(tenants);
    const idempotencyKey = random.next() < 0.4 ? `key-${random.int(40)}` : "";
    const priority = random.int(3);
    const isUnique = this.#hasUnique && idempotencyKey === "" && random.next() < 0.4;
    const asked = isUnique ? this.#unique.request(random, ["return", "replace", "latest"]) : {};
    const base = { tenantId, idempotencyKey, priority, command: "a", maxAttempts: 1000, ...asked };
    const laned = tenantId === acme ? this.#lanes?.request(random, idempotencyKey) : undefined;
    create(broker, { ...base, ...laned }).done.then(
      (enqueued) => {
        const { task } = enqueued;
        this.#lanes?.knows(task);
        this.#unique.accepted(asked, enqueued);
        const key = `${tenantId}/${idempotencyKey}`;
        const before = idempotencyKey === "" ? undefined : this.#keys.get(key);
        if (before !== undefined && before !== task.id) {
          this.#broken(`${key} stands for ${before} and for ${task.id}`);
        }
        if (idempotencyKey !== "") this.#keys.set(key, task.id);
        this.ledger.created(task.id, tenantId);
      },
      () => {},
    );
  }

  readonly #added = ({ id, tenantId }: Task): void => void this.ledger.created(id, tenantId);

  #claim(broker: Router): void {
    const random = this.#random;
    const claim = new AskedClaim({
      tenantId: random.pick(tenants),
      // Few, so that a worker gets a task again and only the token tells its leases apart.
      workerId: `w-${random.int(4)}` as WorkerId,
      queues: ["a"],
      leaseMs,
      count: 1 + random.int(3),
      waitMs: random.next() < 0.3 ? 0 : random.int(6000),
    });
    this.#ask(broker, claim);
  }

  #ask(broker: Router, claim: AskedClaim): void {
    const askedAt = this.ledger.now;
    claim.asked.done.then(
      (tasks) => this.#given(claim, tasks, askedAt),
      () => {},
    );
    broker.claim(claim);
  }

  #given(claim: AskedClaim, tasks: readonly ClaimedTask[], askedAt: number): void {
    for (const { task } of tasks) {
      const { id, tenantId, leaseToken } = task;
      this.claimed += 1;
      this.ledger.claimed(task, askedAt);
      this.#held.push({ id, tenantId, workerId: claim.workerId, leaseToken });
    }
  }

  #read(broker: Router): void {
    const ids = [...this.ledger.tasks.keys()];
    if (ids.length === 0) return;
    const id = this.#random.pick(ids);
    const { tenantId } = this.ledger.tasks.get(id) as Known;
    const before = this.ledger.before(id);
    broker.get(tenantId, id).then(
      (found) => {
        this.reads += 1;
        this.ledger.read(id, found?.task, before);
      },
      () => {},
    );
  }

  #work(broker: Router): void {
    const random = this.#random;
    const at = random.int(Math.max(this.#held.length, 1));
    const held = this.#held[at];
    if (held === undefined) return;
    const mine = ownedBy(held);
    const draw = random.next();
    if (draw < 0.2) {
      this.#expect(held, heartbeat(broker, mine, leaseMs).done);
      return;
    }
    this.#held.splice(at, 1);
    if (draw >= (this.#lanes === undefined ? 0.35 : 0.5)) {
      this.#submit(broker, held);
      return;
    }
    const holdMs = this.#lanes?.hold(random, this.#taskOf(held.id));
    const request = { delaySeconds: random.int(3), reason: "", holdMs };
    this.#expect(held, nack(broker, mine, request).done);
  }

  /** Whoever is told that its word counted had the lease. */
  #expect(held: Held, accepted: Promise<unknown>): void {
    const { id, leaseToken } = held;
    const before = this.ledger.before(id);
    accepted.then(
      () => this.ledger.worked(id, leaseToken, before),
      () => {},
    );
  }

  #submit(broker: Router, held: Held): void {
    const { done } = submit(broker, ownedBy(held), success);
    this.#expect(held, done);
    done.then(
      () => {
        (this.ledger.tasks.get(held.id) as Known).isDone = true;
      },
      (why: { readonly code?: string }) => {
        // Nothing was changed, or nobody knows: the worker asks again.
        if (why.code === "not_leader" || why.code === "unknown") this.#held.push(held);
      },
    );
  }

  /** Everything is healed; good workers end every task; the replicas are compared. */
  async #finish(): Promise<void> {
    const { nodes } = this.#world;
    this.#world.trouble = 0;
    this.#comesBack.clear();
    for (const node of nodes) this.#heal(node);
    // What a node with a wrong clock has put off for hours is due at last.
    if (this.#wasClockWrong) for (const node of nodes) node.clockOffMs = wrongMs;
    for (let round = 0; round < 1500 && this.#isSound; round += 1) {
      await this.#world.clock.advance(200);
      const { router } = nodes[round % nodes.length] as SimNode;
      if (router === undefined) continue;
      this.schedules.end(router);
      this.batches?.end(router);
      for (const held of this.#held.splice(0)) this.#submit(router, held);
      for (const tenantId of tenants) this.#claimAll(router, tenantId);
      const haveEnded = this.schedules.haveEnded && (this.batches?.haveEnded ?? true);
      const isOver = haveEnded && round > 100;
      if (isOver && [...this.ledger.tasks].every(([id, known]) => this.#isOver(id, known))) break;
    }
    if (!this.#isSound) return;
    for (const [id, known] of this.ledger.tasks) {
      const place = this.#placeOf(id);
      if (place !== "done") this.#broken(`${id} was acknowledged, and is ${place} in the end`);
      known.isDone = true;
    }
    for (const shard of this.#world.logs.keys()) {
      const [, ...others] = nodes.map((node) => node.shards[shard]?.status.leader?.id);
      const leader = nodes[0]?.shards[shard]?.status.leader?.id;
      if (leader === undefined || others.some((each) => each !== leader)) {
        this.#broken(`the nodes do not agree who leads shard ${shard}`);
      }
      this.epochs += nodes[0]?.shards[shard]?.status.epoch ?? 0;
    }
    this.#note(await this.schedules.check({ isClockRight: !this.#wasClockWrong }));
    const leaders = this.#world.logs.flatMap((_, shard) => this.#leading(shard) ?? []);
    const stores = leaders.map(({ store }) => store);
    this.#note(await this.#unique.checkEntries(stores, this.#taskOf));
    this.#note(await this.batches?.check(stores, true));
    this.#note(await this.#lanes?.checkMemory(leaders));
    await this.#compare();
  }

  /** Whoever was told so may have been killed. */
  #isOver(id: TaskId, known: Known): boolean {
    return known.isDone || this.#placeOf(id) === "done";
  }

  #placeOf(id: TaskId): string {
    return this.#taskOf(id)?.place.in ?? "gone";
  }

  readonly #taskOf = (id: TaskId): Task | undefined =>
    this.#leading(shardOf(id, this.#world.logs.length))?.store.task(id);

  #leading(shard: number): ShardBroker | undefined {
    return this.#world.leaderOf(shard)?.shards[shard]?.broker;
  }

  #note(wrong: string | undefined): void {
    if (wrong !== undefined) this.#broken(wrong);
  }

  #claimAll(broker: Router, tenantId: TenantId): void {
    const claim = new AskedClaim({
      tenantId,
      workerId: "w-last" as WorkerId,
      queues: undefined,
      leaseMs,
      count: 10,
      waitMs: 0,
    });
    this.#ask(broker, claim);
  }

  /** All replicas hold the same, byte for byte. */
  async #compare(): Promise<void> {
    const { nodes, clock } = this.#world;
    let isOver = false;
    const stopping = Promise.all(nodes.map((node) => node.stop())).then(() => {
      isOver = true;
    });
    for (let turn = 0; turn < 2000 && !isOver; turn += 1) await clock.advance(20);
    assert.ok(isOver, "the nodes do not stop");
    await stopping;
    // Whoever stopped first has not read the last words of the others.
    for (const node of nodes) node.catchUp();
    await clock.advance(5000);
    for (const { shards, name } of nodes) {
      for (const [number, shard] of shards.entries()) {
        const { role, slot, problem } = shard?.status ?? { role: "missing", slot: 0 };
        const last = this.#world.logs[number]?.bounds.last;
        if (role === "following" && slot === last) continue;
        this.#broken(`${name.id} is ${role} at slot ${slot} of ${last}: ${problem ?? ""}`);
      }
    }
    for (const node of nodes) void node.stop();
    await clock.advance(1000);
    for (const shard of this.#world.logs.keys()) {
      const [first = [], ...others] = nodes.map((node) => contentsOf(node, shard));
      for (const lines of others) {
        const differing = [
          ...lines.filter((line) => !first.includes(line)),
          ...first.filter((line) => !lines.includes(line)),
        ];
        if (differing.length > 0) {
          this.#broken(`the replicas of shard ${shard} differ:\n${differing.join("\n")}`);
        }
      }
    }
  }

  #broken(what: string): void {
    this.ledger.broken(what);
  }
}

function contentsOf(node: SimNode, shard: number): string[] {
  const entries = [...(node.contents[shard] ?? [])].filter(([key]) => !ownKeys.has(key));
  return entries.map(([key, value]) => `${key} ${value.toString("latin1")}`);
}

function ownedBy(held: Held): ReturnType<typeof owned> {
  const { workerId, leaseToken } = held;
  return { ...owned(held, workerId), owner: { workerId, leaseToken } };
}
