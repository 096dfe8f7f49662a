/**
 * Rebuilds what the broker keeps in memory from the keys: at the start, and when a full disk undid
 * decisions that had not become durable. Counts come from the counters that every flush writes, plus
 * what the log holds beyond it; leases are read; ready and delayed tasks are read when needed.
 */

import type { TenantId } from "@codeq/queue";
import { addCounts, type Counts, changeOfCounts, decodeCounts } from "../store/counts.ts";
import { countsPrefix, idOf, inProgressPrefix, sequenceKey } from "../store/keys.ts";
import type { QueueStore } from "../store/queue-store.ts";
import { scanAll } from "../store/scan-all.ts";
import type { DelayedTasks } from "./delayed-tasks.ts";
import type { Leases } from "./leases.ts";
import type { Queues } from "./queue-state.ts";

interface Memory {
  readonly store: QueueStore;
  readonly queues: Queues;
  readonly leases: Leases;
  readonly delayed: DelayedTasks;
}

/** The least a recovered lease has left, whatever its length. */
const leaseGraceMsMin = 5000;

/** Returns the highest sequence number in use. */
export async function recoverMemory(memory: Memory): Promise<number> {
  const { store, queues, leases, delayed } = memory;
  queues.clear();
  leases.clear();
  delayed.clear();
  const unflushed = changeOfCounts(store.engine.unflushed());
  const stored = Number(store.engine.get(sequenceKey)?.toString("latin1") ?? 0);
  const sequence = Math.max(stored, unflushed.sequence);
  await readCounts(memory);
  for (const { queue, tenantId, counts } of unflushed.queues.values()) {
    const state = queues.queue(tenantId, queue);
    state.counts = addCounts(state.counts, counts);
  }
  for (const queue of queues.all()) {
    queue.tenant.pending += queue.readyTotal + queue.counts.delayed;
    queue.tenant.leased += queue.counts.leased;
    for (let priority = 0; priority < queue.counts.ready.length; priority++) {
      if (queue.ready(priority) > 0) queue.window(priority).recover(sequence);
    }
    if (queue.counts.delayed > 0) delayed.recover(queue);
    await readLeases(memory, inProgressPrefix(queue.prefix), queue.counts);
  }
  return sequence;
}

async function readCounts({ store, queues }: Memory): Promise<void> {
  for await (const [key, value] of scanAll(store.engine, countsPrefix)) {
    const [queue, tenant] = key.slice(countsPrefix.length).split("/") as [string, string];
    const tenantId = (tenant === "_" ? "" : tenant) as TenantId;
    queues.queue(tenantId, queue).counts = decodeCounts(value);
  }
}

/** A worker that was cut off by the restart gets the time of one heartbeat to come back. */
async function readLeases(memory: Memory, prefix: string, counts: Counts): Promise<void> {
  if (counts.leased === 0) return;
  for await (const [key] of scanAll(memory.store.engine, prefix)) {
    const task = memory.store.task(idOf(key));
    if (task?.place.in !== "leased") continue;
    memory.leases.add(task, Math.max(Math.ceil(task.place.leaseMs / 3), leaseGraceMsMin));
  }
}
