/**
 * What lanes promise, looked at from outside. The tasks may be in any shard and at any leader, and what was durable just
 * before a crash may never be told:
 *
 * - a lane never has more leases than its limit, in all shards together;
 * - a lane spends at most its burst and what the time allows;
 * - a lane that is held is not claimed from, and its task keeps its turn;
 * - a lane is served in the order of priorities, and in its own order;
 * - leases and ready tasks in memory are those of the records.
 */
import {
  type Change,
  costOf,
  laneOf,
  type NewTask,
  queueOf,
  type Task,
  type TaskId,
} from "@codeq/queue";
import type { SimRandom } from "@codeq/simulated";
import type { Broker } from "../../packages/server/src/core/broker/broker.ts";
import type { ShardBroker } from "../../packages/server/src/core/broker/shard-broker.ts";
import { noLaneLimits } from "../../packages/server/src/core/records/lane-policy.ts";
import type { TopicPolicy } from "../../packages/server/src/core/records/topic-record.ts";
import { tasksPrefix } from "../../packages/server/src/core/store/keys.ts";
import { acme, decodeTask, entriesUnder } from "../../packages/server/test/broker-world.ts";

/** Undefined where nobody can tell now, because the shard of the task is down. */
type TaskOf = (id: TaskId) => Task | undefined;

const of = { tenantId: acme, name: "a" };
const concurrency = 2;
const rate = { units: 1, per: "1s", burst: 3 };
const unlimited = { units: 1_000_000, per: "1s", burst: 1_000_000 };
const policy: TopicPolicy = {
  priorityTiers: [0, 1, 2],
  maxAttempts: 1000,
  deadLetterTopicRef: "",
  retentionSeconds: 0,
  maxConsumers: 0,
  placement: "spread",
  lanes: { concurrency, rate },
};
/** No rate, and nobody holds it: its limit alone says whether claims may take from it. */
const quick = "quick";
const names = ["ada", "bob", quick];
const slackMs = 2;

interface Known {
  readonly ids: Set<TaskId>;
  /** Those that were ready when they were last told of. */
  readonly ready: Map<TaskId, Task>;
  /** The place in the order that leased tasks had. */
  readonly turns: Map<TaskId, number>;
  /** Tasks that were leased when they were last told of. */
  readonly leased: Map<TaskId, Task>;
  /** Those of which nobody was told whether they could be sent. */
  readonly doubtful: Map<TaskId, Task>;
  level: number;
  atMs: number;
  heldMs: number;
}

export class LaneWatch {
  /** Where a clock was wrong, times of records say nothing. */
  ignoresTimes = false;
  readonly #lanes = new Map<string, Known>();
  readonly #holds = new Map<TaskId, number>();

  async begin(broker: Pick<Broker, "putTopic" | "setLane">): Promise<void> {
    await broker.putTopic(of, policy);
    await broker.setLane({ ...of, lane: quick }, { ...noLaneLimits, rate: unlimited });
  }

  /** Fields of a new task of the tenant `acme` and the command `a`. The same key always has the same lane. */
  request(random: SimRandom, idempotencyKey: string): Pick<NewTask, "lane" | "cost"> {
    const all = ["", ...names];
    const lane =
      idempotencyKey === "" ? random.pick(all) : all[Number(idempotencyKey.slice(4)) % all.length];
    return { lane, cost: 1 + random.int(rate.burst) };
  }

  /** For how long a worker asks for a hold; 0 for none. */
  hold(random: SimRandom, task: Task | undefined): number {
    if (task === undefined || [quick, ""].includes(laneOf(task)) || random.next() < 0.2) return 0;
    const ms = 1000 + random.int(3000);
    this.#holds.set(task.id, ms);
    return ms;
  }

  /** A task that a request was answered with. */
  knows(task: Task): void {
    if (laneOf(task) !== "") this.#of(task).ids.add(task.id);
  }

  /** What became durable of these tasks may not have been told. */
  lost(isLost: (id: TaskId) => boolean): void {
    for (const { ready, turns, leased, doubtful } of this.#lanes.values()) {
      for (const id of ready.keys()) if (isLost(id)) ready.delete(id);
      for (const [id, task] of leased) {
        if (isLost(id)) doubtful.set(id, task);
      }
      for (const id of turns.keys()) if (isLost(id)) turns.delete(id);
    }
  }

  #of(task: Task): Known {
    const key = keyOf(task);
    const known = this.#lanes.get(key);
    if (known !== undefined) return known;
    const fresh: Known = {
      ids: new Set(),
      ready: new Map(),
      turns: new Map(),
      leased: new Map(),
      doubtful: new Map(),
      level: rate.burst,
      atMs: 0,
      heldMs: 0,
    };
    this.#lanes.set(key, fresh);
    return fresh;
  }

  /** A change is durable. Changes of a lane have to come in the order of its log. */
  saw({ before, after, because }: Change): string | undefined {
    const task = (after ?? before) as Task;
    if (laneOf(task) === "") return undefined;
    const known = this.#of(task);
    known.ids.add(task.id);
    let wrong: string | undefined;
    if (before !== undefined) decideDoubt(known, before);
    if (after?.place.in === "leased") known.leased.set(task.id, after);
    else known.leased.delete(task.id);
    if (because === "claimed" && before !== undefined && after !== undefined) {
      wrong = orderProblem(known, before) ?? (this.ignoresTimes ? undefined : spend(known, after));
      known.turns.set(task.id, seqOf(before));
    }
    if (because === "released") giveBack(known, task);
    if (because === "held") {
      const turn = known.turns.get(task.id) ?? seqOf(task);
      if (seqOf(task) !== turn) wrong = `${task.id} lost its turn in the lane ${laneOf(task)}`;
      const untilMs = task.updatedMs + (this.#holds.get(task.id) ?? 0);
      known.heldMs = Math.max(known.heldMs, untilMs);
    }
    if (after?.place.in === "ready") known.ready.set(task.id, after);
    else known.ready.delete(task.id);
    return wrong;
  }

  /** Whether a lane has more leases than its limit. */
  check(taskOf: TaskOf): string | undefined {
    for (const [name, known] of this.#lanes) {
      const { ids, doubtful } = known;
      for (const id of [...doubtful.keys()]) {
        const task = taskOf(id);
        if (task !== undefined) decideDoubt(known, task);
      }
      const leased = [...ids].filter((id) => taskOf(id)?.place.in === "leased").length;
      if (leased > concurrency) return `${name} has ${leased} leases, its limit is ${concurrency}`;
    }
    return undefined;
  }

  /** At rest: whether what brokers have in memory is what the records say. */
  async checkMemory(brokers: readonly ShardBroker[]): Promise<string | undefined> {
    for (const { queues, store } of brokers) {
      const real = new Map<string, { leased: number; ready: number }>();
      for (const [key, record] of await entriesUnder(store, tasksPrefix)) {
        const task = decodeTask(key, record);
        const { place } = task ?? {};
        if (task === undefined || (place?.in !== "leased" && place?.in !== "ready")) continue;
        // Nobody may have been told of a task that was created just before a crash.
        this.knows(task);
        const counts = real.get(keyOf(task)) ?? { leased: 0, ready: 0 };
        counts[place.in] += 1;
        real.set(keyOf(task), counts);
      }
      for (const queue of queues.all()) {
        for (const { name, leased, ready, reserved } of queue.lanes?.all() ?? []) {
          const key = `${queue.tenantId}/${queue.name}/${name}`;
          const found = real.get(key) ?? { leased: 0, ready: 0 };
          if (leased === found.leased && ready === found.ready && reserved === 0) continue;
          const told = `${leased} leases, ${reserved} to come, ${ready} ready`;
          return `${key} counts ${told}, and has ${found.leased} and ${found.ready}`;
        }
      }
    }
    return undefined;
  }

  /** Ready tasks of a queue that a claim must not wait beside. */
  claimable({ queues }: ShardBroker, name: string): number {
    const queue = queues.find(acme, name);
    if (queue === undefined) return 0;
    const { lanes } = queue;
    const lane = lanes?.find(quick);
    const inLane = lane !== undefined && lane.leased < concurrency ? lane.ready : 0;
    return queue.readyTotal - (lanes?.ready.reduce((sum, each) => sum + each, 0) ?? 0) + inLane;
  }
}

function keyOf(task: Task): string {
  return `${task.tenantId}/${queueOf(task.command)}/${laneOf(task)}`;
}

function orderProblem({ ready }: Known, before: Task): string | undefined {
  for (const other of ready.values()) {
    if (other.priority < before.priority || other.id === before.id) continue;
    if (other.priority > before.priority || seqOf(other) < seqOf(before)) {
      return `${before.id} of lane ${laneOf(before)} overtook ${other.id}`;
    }
  }
  return undefined;
}

function seqOf({ place }: Task): number {
  return place.in === "ready" ? place.seq : 0;
}

/** Gives the units of a task back that is ready as it was before it was leased: it could not be sent. */
function decideDoubt(known: Known, task: Task): void {
  const leased = known.doubtful.get(task.id);
  if (leased === undefined || !known.doubtful.delete(task.id) || task.place.in !== "ready") return;
  const isUnsent = task.attempts === leased.attempts && task.lane?.holds === leased.lane?.holds;
  if (isUnsent) giveBack(known, task);
}

/** No worker has seen the task, so its units are not spent. */
function giveBack(known: Known, task: Task): void {
  known.level = Math.min(rate.burst, refill(known, task.updatedMs) + costOf(task));
}

/** The units that there are by now. */
function refill(known: Known, nowMs: number): number {
  const passedMs = Math.max(0, nowMs + slackMs - known.atMs);
  known.level = Math.min(rate.burst, known.level + (passedMs * rate.units) / 1000);
  known.atMs = Math.max(nowMs, known.atMs);
  return known.level;
}

function spend(known: Known, task: Task): string | undefined {
  const nowMs = task.updatedMs;
  if (nowMs + slackMs < known.heldMs) return `lane ${laneOf(task)} was claimed from while held`;
  if (laneOf(task) === quick) return undefined;
  const level = refill(known, nowMs);
  known.level = level - costOf(task);
  if (known.level >= 0) return undefined;
  return `lane ${laneOf(task)} spent ${costOf(task)} of ${level.toFixed(2)} units`;
}
