/**
 * Explains why a task is where it is. For a ready task, the explanation is the decision that a claim for its
 * queue would make now, so it cannot differ from what claims do.
 */
import { hasLapsed, laneOf, queueOf, type Task } from "@codeq/queue";
import type { Batches } from "../broker/batches.ts";
import type { Claims } from "../broker/claims/claims.ts";
import type { QueueState, Queues } from "../broker/queues/queue-state.ts";
import type { Clock } from "../clock.ts";
import { type Flow, minuteMs } from "../series/flow.ts";
import type { QueueName, Store } from "../store/store.ts";
import type { Ahead, Explained, Obstacle, QueueLook } from "./explained.ts";
import type { TaskOf } from "./task-actions.ts";
import type { TaskReads } from "./task-reads.ts";

export interface ExplainParts {
  readonly store: Store;
  readonly queues: Queues;
  readonly claims: Claims;
  readonly reads: TaskReads;
  readonly batches: Batches;
}

/** Entries on disk that are looked at, which takes some milliseconds. */
const scannedMax = 10_000;

export async function explain(
  parts: ExplainParts,
  clock: Clock,
  { tenantId, id }: TaskOf,
): Promise<Explained | undefined> {
  const task = (await parts.reads.task(tenantId, id))?.task;
  if (task === undefined) return undefined;
  const name = queueOf(task.command);
  const of = task.batch && { tenantId, id: task.batch.id };
  return {
    task,
    obstacle: hasLapsed(task, clock.nowMs()) ? { rule: "expired" } : obstacleOf(parts, task),
    ahead: await aheadOf(parts, task),
    queue: lookAt(parts.queues, { tenantId, name }, clock),
    batch: of && parts.batches.get(of),
    waitsFor: of && task.place.in === "held" ? await parts.batches.pendingOf(of) : [],
  };
}

export function lookAt(queues: Queues, { tenantId, name }: QueueName, clock: Clock): QueueLook {
  const queue = queues.find(tenantId, name);
  if (queue === undefined) return { ready: [], delayed: 0, leased: 0, drain: undefined };
  const { counts, flow } = queue;
  const lately = endedIn(flow.lastMinute(clock.nowMs() - queues.flows.startedMs));
  const rates = [lately, endedIn(flow.before)].map((ended) => (ended * 1000) / minuteMs);
  const [low, high] = [Math.min(...rates), Math.max(...rates)];
  const drain = high === 0 ? undefined : { low, high };
  return { ready: counts.ready, delayed: counts.delayed, leased: counts.leased, drain };
}

/** Every attempt that ends lets the next task begin. */
function endedIn({ completed, failed, retried }: Flow): number {
  return completed + failed + retried;
}

function obstacleOf({ claims, queues }: ExplainParts, task: Task): Obstacle | undefined {
  const allowed = claims.allowance(task.tenantId);
  if (typeof allowed === "string") return { rule: allowed };
  const queue = queues.find(task.tenantId, queueOf(task.command));
  if (queue === undefined) return undefined;
  if (queue.pause !== undefined) return { rule: "paused", pause: queue.pause };
  const ofLane = task.place.in === "ready" ? queue.lanes?.obstacleOf(task) : undefined;
  if (ofLane !== undefined && !queue.isAtLimit) return ofLane;
  if (queue.topPriority >= 0) return undefined;
  const limit = queue.topic?.policy.maxConsumers ?? 0;
  return queue.readyTotal > 0 ? { rule: "topic_limit", limit } : undefined;
}

async function aheadOf({ store, queues }: ExplainParts, task: Task): Promise<Ahead | undefined> {
  const queue = queues.find(task.tenantId, queueOf(task.command));
  if (task.place.in !== "ready" || queue === undefined) return undefined;
  const own = await aheadInLane({ store, queue }, task, task.place.seq);
  if (queue.lanes === undefined) return own;
  const { turns, isAtLeast } = queue.lanes.turnsBefore(task, own.older);
  return { ...own, older: own.older + turns, isAtLeast: own.isAtLeast || isAtLeast };
}

/** Without the tasks of other lanes. */
async function aheadInLane(
  { store, queue }: { readonly store: Store; readonly queue: QueueState },
  task: Task,
  seq: number,
): Promise<Ahead> {
  const { tenantId, priority } = task;
  const { name } = queue;
  const higher = sum(queue.counts.ready.slice(priority + 1));
  const lane = laneOf(task);
  if (lane !== "") {
    const window = queue.lanes?.windowOf(lane, priority);
    const { count = 0, knownTo = 0 } = window?.aheadOf(seq) ?? {};
    const isAtLeast = seq > knownTo;
    return { higher, older: count, isAtLeast };
  }
  const { count, knownTo } = queue.window(priority).aheadOf(seq);
  if (seq <= knownTo) return { higher, older: count, isAtLeast: false };
  const found = await store.readyAfter({ name, tenantId, priority }, knownTo, scannedMax);
  const older = found.filter(({ number }) => number < seq).length;
  return { higher, older: count + older, isAtLeast: older === scannedMax };
}

/**
 * The same over several shards. The order between shards is not known, so the estimate is that as many tasks of
 * the same priority come first in each other shard as in the shard of the task.
 */
export function withOthers(own: Explained, others: readonly QueueLook[]): Explained {
  const { task, ahead, queue } = own;
  let { higher = 0, older = 0 } = ahead ?? {};
  for (const { ready } of others) {
    higher += sum(ready.slice(task.priority + 1));
    older += Math.min(ahead?.older ?? 0, ready[task.priority] ?? 0);
  }
  return {
    ...own,
    ahead: ahead && { ...ahead, higher, older, isEstimate: true },
    queue: others.reduce(addLooks, queue),
  };
}

function addLooks(some: QueueLook, more: QueueLook): QueueLook {
  const priorities = Math.max(some.ready.length, more.ready.length);
  const drains = [some.drain, more.drain].filter((each) => each !== undefined);
  return {
    ready: Array.from({ length: priorities }, (_, at) => {
      return (some.ready[at] ?? 0) + (more.ready[at] ?? 0);
    }),
    delayed: some.delayed + more.delayed,
    leased: some.leased + more.leased,
    drain:
      drains.length === 0
        ? undefined
        : { low: sum(drains.map(({ low }) => low)), high: sum(drains.map(({ high }) => high)) },
  };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}
