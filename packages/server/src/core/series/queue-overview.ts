/** The data of a dashboard for every queue of a tenant, from memory. */
import type { TenantId } from "@codeq/queue";
import type { QueueCounts } from "../broker/queue.ts";
import type { QueueState, Queues } from "../broker/queue-state.ts";
import type { Store } from "../store/store.ts";
import { timeOfId } from "../task-ids.ts";
import { headsSinceMs } from "./queue-series.ts";

export function countsOfQueues(queues: Queues, tenantId: TenantId, nowMs: number): QueueCounts[] {
  const elapsedMs = nowMs - queues.flows.startedMs;
  return [...queues.ofTenant(tenantId)].map(({ name, counts, flow }) => ({
    queue: name,
    counts,
    flow: flow.lastMinute(elapsedMs),
    oldestMs: undefined,
  }));
}

export function withOldest(
  { queues, store }: { readonly queues: Queues; readonly store: Store },
  tenantId: TenantId,
  all: readonly QueueCounts[],
): Promise<QueueCounts[]> {
  const oldest = all.map(async (each) => {
    const queue = queues.find(tenantId, each.queue);
    const oldestMs = queue === undefined ? undefined : await oldestReadyMs(queue, store);
    return { ...each, oldestMs };
  });
  return Promise.all(oldest);
}

/** Of a queue that nobody has claimed from since the start, the heads are read. */
async function oldestReadyMs(queue: QueueState, store: Store): Promise<number | undefined> {
  if (queue.readyTotal === 0) return undefined;
  const known = headsSinceMs(queue);
  if (known !== undefined) return known;
  let oldest: number | undefined;
  for (const [priority, count] of queue.counts.ready.entries()) {
    if (count === 0) continue;
    const [head] = await store.readyAfter({ ...nameOf(queue), priority }, 0, 1);
    if (head !== undefined) oldest = Math.min(oldest ?? Number.MAX_VALUE, timeOfId(head.id));
  }
  return oldest;
}

function nameOf({ tenantId, name }: QueueState): { tenantId: TenantId; name: string } {
  return { tenantId, name };
}
