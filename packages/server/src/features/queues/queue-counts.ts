/** How many tasks the caller's tenant has in each place. Answered from counters, not by counting. */
import { limits } from "@codeq/protocol";
import { queueOf } from "@codeq/queue";
import type { QueueCounts } from "../../core/broker/queue.ts";
import { type Counts, isEmpty, noCounts } from "../../core/records/counts.ts";
import type { PausedQueue, QueuePause } from "../../core/records/pause-record.ts";
import type { Topic } from "../../core/records/topic-record.ts";
import { hasFlow } from "../../core/series/flow.ts";
import { type Operation, refusal } from "../../edge/operation.ts";

export interface TenantQueues {
  readonly tenantId: string;
  /** In the order of their names. */
  readonly queues: readonly QueueCounts[];
  readonly pauses: readonly PausedQueue[];
  /** Of queues whose topic limits their leases. */
  readonly leasesMax: ReadonlyMap<string, number>;
  readonly nowMs: number;
  /** A shard is down, and its tasks are not counted. */
  readonly isPartial: boolean;
}

export const listQueues: Operation<{ readonly view: string }, TenantQueues> = {
  name: "list_queues",
  access: "viewer",
  scope: undefined,
  audit: { of: "other tenants" },
  run: async (server, call, { view }) => {
    if (view !== "buckets" && view !== "details") {
      return refusal("invalid_argument", "invalid 'view' (use buckets or details)");
    }
    const { tenantId } = call.identity;
    const queues = await server.queue.queuesOf(tenantId, view === "details");
    const pauses = await server.queue.pausesOf(tenantId);
    const paused = new Set(pauses.map(({ queue }) => queue));
    const shown = queues.filter(
      ({ queue, counts, flow }) => !isEmpty(counts) || hasFlow(flow) || paused.has(queue),
    );
    const sorted = shown.toSorted((one, other) => (one.queue < other.queue ? -1 : 1));
    const { isPartial } = server.queue;
    const nowMs = server.clock.nowMs();
    const leasesMax = new Map<string, number>();
    for (const { name, policy } of view === "details"
      ? await server.queue.topicsOf(tenantId)
      : []) {
      if (policy.maxConsumers > 0) leasesMax.set(name, policy.maxConsumers);
    }
    return { ok: true, value: { tenantId, queues: sorted, pauses, leasesMax, nowMs, isPartial } };
  },
};

export interface QueueDetails {
  readonly counts: Counts;
  /** Undefined when it is not paused. */
  readonly pause: QueuePause | undefined;
  /** Undefined when it has none. */
  readonly topic: Topic | undefined;
  /** A shard is down, and its tasks are not counted. */
  readonly isPartial: boolean;
}

const nothing = { counts: noCounts(), pause: undefined, topic: undefined };

export const getQueue: Operation<{ readonly command: string }, QueueDetails> = {
  name: "get_queue",
  access: "viewer",
  scope: undefined,
  audit: { of: "other tenants", target: ({ command }) => command },
  run: async (server, call, { command }) => {
    if (command.trim() === "") return refusal("invalid_argument", "command is required");
    if (!limits.commandPattern.test(command)) {
      return { ok: true, value: { ...nothing, isPartial: false } };
    }
    const { tenantId } = call.identity;
    const counts = await server.queue.counts(tenantId, command);
    const { isPartial } = server.queue;
    const pauses = await server.queue.pausesOf(tenantId);
    const pause = pauses.find(({ queue }) => queue === queueOf(command));
    const topics = await server.queue.topicsOf(tenantId);
    const topic = topics.find(({ name }) => name === queueOf(command));
    return { ok: true, value: { counts, pause, topic, isPartial } };
  },
};
