/** Explains why a worker gets no tasks: what it asks for, and why each of these queues has no task for it. */
import { api, type KeptOf, type WorkerExplanation } from "@codeq/protocol/api";
import type { TenantId } from "@codeq/queue";
import type { QueueCounts } from "../../core/broker/broker.ts";
import type { PausedQueue } from "../../core/records/pause-record.ts";
import type { WaitingWorker } from "../../core/search/explained.ts";
import { bind } from "../../edge/bind.ts";
import type { ConnectedWorker } from "../../edge/connected-workers.ts";
import { type Answer, refusal, type Server } from "../../edge/operation.ts";
import { counted } from "./explain-task.ts";

type Explanation = KeptOf<typeof WorkerExplanation>;
type ExplainedQueue = Explanation["queues"][number];

const queuesShownMax = 100;

export const explainWorker = bind(api.explain.explainWorker, {
  run: async (server, call, { workerId }): Promise<Answer<Explanation>> => {
    const { tenantId } = call.identity;
    const asking = server.broker
      .waitingWorkers(tenantId)
      .find((each) => each.workerId === workerId);
    const connected = new Map<string, ConnectedWorker>(server.workers.of(tenantId)).get(workerId);
    const held = (await server.broker.leasesOf(tenantId)).workers;
    const leases = held.find((each) => each.workerId === workerId)?.leases ?? 0;
    if (asking === undefined && connected === undefined && leases === 0)
      return refusal("worker_not_found");
    const queues = asking === undefined ? [] : await queuesOf(server, tenantId, asking);
    const quota = server.broker.exceededByLease(tenantId);
    return {
      ok: true,
      value: {
        workerId,
        ...ruleOf({ asking, queues, quota, leases }),
        leases,
        claims: asking?.claims ?? 0,
        streams: connected?.streams ?? 0,
        connectedMs: connected?.sinceMs,
        asksFor: asking && (asking.queues ?? "all"),
        queues: queues.slice(0, queuesShownMax),
      },
    };
  },
});

async function queuesOf(
  { broker }: Server,
  tenantId: TenantId,
  { queues: asked }: WaitingWorker,
): Promise<readonly ExplainedQueue[]> {
  const known = new Map<string, QueueCounts>();
  for (const each of await broker.queuesOf(tenantId, false)) known.set(each.queue, each);
  const pauses = new Map<string, PausedQueue>();
  for (const each of await broker.pausesOf(tenantId)) pauses.set(each.queue, each);
  const limits = new Map<string, number>();
  for (const { name, policy } of await broker.topicsOf(tenantId)) {
    if (policy.maxConsumers > 0) limits.set(name, policy.maxConsumers);
  }
  const names = asked ?? [...known.keys()];
  return names.map((name) => {
    const leasedMax = limits.get(name) ?? Number.POSITIVE_INFINITY;
    return explained(name, known.get(name), { pause: pauses.get(name), leasedMax });
  });
}

function explained(
  queue: string,
  of: QueueCounts | undefined,
  { pause, leasedMax }: { readonly pause: PausedQueue | undefined; readonly leasedMax: number },
): ExplainedQueue {
  const ready = (of?.counts.ready ?? []).reduce((sum, count) => sum + count, 0);
  const { delayed = 0, leased = 0 } = of?.counts ?? {};
  const shown = { queue, ready, delayed, leased, paused: pause };
  if (pause !== undefined) return { ...shown, rule: "paused" };
  if (ready === 0) return { ...shown, rule: delayed > 0 ? "delayed" : "empty" };
  return { ...shown, rule: leased < leasedMax ? "ready" : "topic_limit" };
}

function ruleOf(known: {
  readonly asking: WaitingWorker | undefined;
  readonly queues: readonly ExplainedQueue[];
  readonly quota: { readonly limit: number; readonly current: number } | undefined;
  readonly leases: number;
}): Pick<Explanation, "rule" | "why"> {
  const { asking, queues, quota, leases } = known;
  if (asking === undefined) {
    const busy = leases === 0 ? "" : `; it is busy with ${counted(leases, "task")}`;
    return { rule: "not_asking", why: `no claim of it waits for tasks${busy}` };
  }
  if (quota !== undefined) {
    const why = `its tenant has ${counted(quota.current, "lease")} of the ${quota.limit} that it may have`;
    return { rule: "lease_quota", why };
  }
  if (queues.some(({ rule }) => rule === "ready")) {
    return { rule: "work_is_near", why: "a task is ready and is about to be given out" };
  }
  const limited = queues.filter(({ rule }) => rule === "topic_limit");
  if (limited.length > 0) {
    const names = limited.map(({ queue }) => queue).join(", ");
    const why = `tasks are ready, but as many are under way as the topics allow: ${names}`;
    return { rule: "topic_limit", why };
  }
  const paused = queues.filter(({ rule, ready }) => rule === "paused" && ready > 0);
  if (paused.length > 0) {
    const names = paused.map(({ queue }) => queue).join(", ");
    return { rule: "paused", why: `tasks are ready only in queues that are paused: ${names}` };
  }
  const delayed = queues.reduce((sum, each) => sum + each.delayed, 0);
  const later = delayed === 0 ? "" : `; ${counted(delayed, "task")} due later`;
  return { rule: "no_work", why: `no task is ready in the queues that it asks for${later}` };
}
