/**
 * Explains why a task is where it is: the reason, the tasks ahead of it, and an estimate of when it starts.
 * The reason is the decision that a claim would make now.
 */
import { api, type KeptOf, type TaskExplanation } from "@codeq/protocol/api";
import { laneOf, queueOf, type Task, type TaskId } from "@codeq/queue";
import { taskOfAfter } from "../../core/records/batch-record.ts";
import type { WireRate } from "../../core/records/lane-policy.ts";
import type { QueuePause } from "../../core/records/pause-record.ts";
import {
  asksFor,
  type Explained,
  type LaneObstacle,
  type WaitingWorker,
} from "../../core/search/explained.ts";
import { placeOf } from "../../core/search/task-filter.ts";
import { bind } from "../../edge/bind.ts";
import { type Answer, refusal, type Server } from "../../edge/operation.ts";
import { wholeId } from "../../edge/task-filter-input.ts";

/** The explanation of a task, and the task itself. */
export interface Explanation
  extends Pick<
    KeptOf<typeof TaskExplanation>,
    "rule" | "why" | "ahead" | "startsIn" | "queue" | "workers" | "nextMs" | "waitsFor"
  > {
  readonly task: Task;
  readonly pause: QueuePause | undefined;
}

export const explainTask = bind(api.explain.explainTask, {
  run: async (server, call, { id }): Promise<Answer<Explanation>> => {
    const { tenantId } = call.identity;
    const explained = await server.broker.explain({ tenantId, id: id as TaskId });
    if (explained === undefined) return refusal("not_found");
    return { ok: true, value: explanationOf(server, explained) };
  },
  show,
});

/** The same for administrators, who may name another tenant and cut the id. */
export const explainAnyTask = bind(api.explain.explainAnyTask, {
  run: async (server, call, input): Promise<Answer<Explanation>> => {
    const id = await wholeId(server, call, input.id);
    return id.ok ? explainTask.run(server, call, { id: id.value }) : id;
  },
  show,
});

function show({ task, pause, ...explanation }: Explanation) {
  const { id, command, place } = task;
  const value = { ...explanation, taskId: id, command, place: placeOf(task), paused: pause };
  if (place.in === "delayed" && task.unique?.isHeld !== true) {
    return { status: 200, value: { ...value, dueMs: place.dueMs } };
  }
  if (place.in !== "leased") return { status: 200, value };
  const { workerId, sinceMs, untilMs: leaseUntilMs } = place;
  return { status: 200, value: { ...value, workerId, sinceMs, leaseUntilMs } };
}

function explanationOf(server: Server, explained: Explained): Explanation {
  const { task, ahead, queue, obstacle, waitsFor } = explained;
  const workers = workersOf(server, task);
  const { rule, why } = ruleOf(server, explained, workers);
  const { drain } = queue;
  return {
    task,
    rule,
    why: why + replacedOf(task),
    pause: obstacle !== undefined && "pause" in obstacle ? obstacle.pause : undefined,
    nextMs: obstacle !== undefined && "nextMs" in obstacle ? obstacle.nextMs : undefined,
    ahead,
    startsIn: rule === "workers_busy" || rule === "next" ? startsIn(explained) : undefined,
    queue: {
      ready: queue.ready.reduce((sum, count) => sum + count, 0),
      delayed: queue.delayed,
      leased: queue.leased,
      endedPerMinute: drain && Math.round(drain.high * 600) / 10,
    },
    workers,
    waitsFor:
      waitsFor.length === 0
        ? undefined
        : waitsFor.map(({ id: taskId, command }) => ({ taskId, command })),
  };
}

type Workers = Explanation["workers"];

function workersOf({ broker, workers }: Server, { tenantId, command }: Task): Workers {
  const asking: readonly WaitingWorker[] = broker.waitingWorkers(tenantId);
  const connected = new Set<string>(asking.map(({ workerId }) => workerId));
  for (const [workerId] of workers.of(tenantId)) connected.add(workerId);
  const name = queueOf(command);
  return {
    asking: asking.filter((each) => asksFor(each, name)).length,
    connected: connected.size,
  };
}

/** How often later requests with the same unique key have changed the task. */
function replacedOf({ unique }: Task): string {
  if (unique === undefined || unique.replaced === 0) return "";
  return `; it was replaced ${counted(unique.replaced, "time")} since ${utc(unique.sinceMs)}`;
}

/** What a callback waits for. */
function whyHeld({ batch, waitsFor }: Explained): string {
  if (batch === undefined) return "it waits for the end of its batch, which cannot be read";
  const { id, pending, total, phase } = batch;
  const named = waitsFor.map((each) => `${each.command} ${each.id}`);
  const names = pending > named.length && named.length > 0 ? [...named, "…"] : named;
  const which = names.length === 0 ? "" : `: ${names.join(", ")}`;
  if (taskOfAfter(id) !== undefined) {
    return `it waits for ${pending} of ${counted(total, "task")} of its 'after'${which}`;
  }
  const seal = phase === "open" ? "it waits for its batch to be sealed, and " : "it waits ";
  return `${seal}for ${pending} of ${counted(total, "member")} of batch ${id}${which}`;
}

type Held = Pick<Explanation, "rule" | "why">;

function ruleOf(server: Server, explained: Explained, workers: Workers): Held {
  const { task } = explained;
  const { place } = task;
  switch (place.in) {
    case "delayed":
      if (explained.obstacle?.rule === "expired") return whyExpired(task);
      if (task.unique?.isHeld === true) {
        const key = JSON.stringify(task.unique.key);
        return {
          rule: "delayed",
          why: `it waits for the end of the task with its unique key ${key}`,
        };
      }
      return { rule: "delayed", why: `it waits for its time, ${utc(place.dueMs)}` };
    case "held":
      return { rule: "held", why: whyHeld(explained) };
    case "leased": {
      const cancelled =
        task.cancelMs === 0 ? "" : "; it was cancelled and is about to be taken away";
      const since = `${utc(place.sinceMs)}, until ${utc(place.untilMs)} unless it extends its lease`;
      return { rule: "leased", why: `${place.workerId} has it since ${since}${cancelled}` };
    }
    case "dead":
      return {
        rule: "dead",
        why: `it used up its ${counted(task.maxAttempts, "attempt")}: ${task.error}`,
      };
    case "done": {
      if (place.how === "completed") return { rule: "done", why: `${place.workerId} completed it` };
      if (place.how === "cancelled") return { rule: "cancelled", why: "it was cancelled" };
      return { rule: "failed", why: `it failed: ${task.error}` };
    }
    case "ready":
      return whyReady(server, explained, workers);
  }
}

function whyReady(server: Server, { task, obstacle, queue }: Explained, workers: Workers): Held {
  switch (obstacle?.rule) {
    case "expired":
      return whyExpired(task);
    case "storage":
      return { rule: "storage", why: "the storage takes no changes now; see /healthz" };
    case "lease_quota": {
      const { limit = 0, current = 0 } = server.broker.exceededByLease(task.tenantId) ?? {};
      const why = `its tenant has ${counted(current, "lease")} of the ${limit} that it may have`;
      return { rule: "lease_quota", why };
    }
    case "paused": {
      const { by, atMs, reason } = obstacle.pause;
      const because = reason === "" ? "" : `: ${reason}`;
      return { rule: "paused", why: `${by} paused its queue at ${utc(atMs)}${because}` };
    }
    case "topic_limit": {
      const why = `its topic allows ${counted(obstacle.limit, "lease")} at a time, and all are in use`;
      return { rule: "topic_limit", why };
    }
    case "lane_paused":
    case "lane_limit":
    case "lane_held":
    case "lane_rate":
    case "topic_rate":
      return whyLane(task, obstacle);
    case undefined:
      return whyUnclaimed(queue.leased, workers);
  }
}

function whyLane(task: Task, obstacle: LaneObstacle): Held {
  const { rule } = obstacle;
  const lane = `its lane ${JSON.stringify(laneOf(task))}`;
  switch (rule) {
    case "lane_paused": {
      const { by, atMs, reason } = obstacle.pause;
      const because = reason === "" ? "" : `: ${reason}`;
      return { rule, why: `${by} paused ${lane} at ${utc(atMs)}${because}` };
    }
    case "lane_limit": {
      const { limit } = obstacle;
      return { rule, why: `${lane} has ${limit} of ${counted(limit, "lease")} that it may have` };
    }
    case "lane_held":
      return { rule, why: `${lane} is held until ${utc(obstacle.nextMs)}` };
    case "lane_rate": {
      const why = `${lane} has the units for its next task at ${utc(obstacle.nextMs)}`;
      return { rule, why: why + rateText(obstacle.rate) };
    }
    case "topic_rate": {
      const why = `its queue has the units for it at ${utc(obstacle.nextMs)}`;
      return { rule, why: why + rateText(obstacle.rate) };
    }
  }
}

function rateText(rate: WireRate | undefined): string {
  if (rate === undefined) return "";
  const burst = rate.burst > 0 ? `, at most ${rate.burst} at once` : "";
  return ` (its rate: ${counted(rate.units, "unit")} in ${rate.per}${burst})`;
}

function whyExpired({ extras }: Task): Held {
  const why = `no worker began it by ${utc(extras?.startByMs ?? 0)}, and it is about to fail`;
  return { rule: "expired", why };
}

/** Nothing holds it: it is for workers to ask. */
function whyUnclaimed(leased: number, { asking, connected }: Workers): Held {
  if (asking > 0) return { rule: "next", why: "a worker asks for its queue and gets it next" };
  if (leased > 0) {
    const why = `workers of its queue are busy with ${counted(leased, "task")}, and none asks for another`;
    return { rule: "workers_busy", why };
  }
  if (connected === 0) return { rule: "no_worker", why: "no worker is connected" };
  const are = connected === 1 ? "is" : "are";
  const why = `${counted(connected, "worker")} ${are} connected, and none asks for its queue`;
  return { rule: "no_worker_for_command", why };
}

function startsIn({ ahead, queue: { drain } }: Explained): Explanation["startsIn"] {
  if (ahead === undefined || drain === undefined) return undefined;
  const before = ahead.higher + ahead.older;
  const fromSeconds = Math.round(before / drain.high);
  // A window in which nothing was begun says nothing about when the next one is.
  const slowest = drain.low === 0 ? drain.high / 2 : drain.low;
  return { fromSeconds, toSeconds: Math.ceil((before + 1) / slowest) };
}

function utc(ms: number): string {
  return new Date(ms).toISOString();
}

/** "1 task", "2 tasks". */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
