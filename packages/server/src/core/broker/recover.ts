/**
 * Rebuilds the memory of the broker from the keys: at the start, and after a full disk undid decisions that
 * were not durable yet. Counts come from the counters that every flush writes, plus the log records behind
 * the flush. Leases are read; ready and delayed tasks are read when needed.
 */

import type { Store } from "../store/store.ts";
import type { DelayedTasks } from "./delayed-tasks.ts";
import { graceMsOf, type Leases } from "./leases.ts";
import type { QueueState, Queues } from "./queue-state.ts";

interface Memory {
  readonly store: Store;
  readonly queues: Queues;
  readonly leases: Leases;
  readonly delayed: DelayedTasks;
}

/** Returns the highest sequence number in use. */
export async function recoverMemory(memory: Memory): Promise<number> {
  const { store, queues, leases, delayed } = memory;
  queues.clear();
  leases.clear();
  delayed.clear();
  const { queues: found, sequence } = await store.counts();
  for (const { queue: name, tenantId, counts } of found) {
    const queue = queues.queue(tenantId, name);
    queue.recover(counts);
    for (let priority = 0; priority < counts.ready.length; priority++) {
      if (queue.ready(priority) > 0) queue.window(priority).recover(sequence);
    }
    if (counts.delayed > 0) delayed.recover(queue);
    if (counts.leased > 0) await readLeases(memory, queue);
  }
  for await (const { tenantId, name, pause } of store.pauses()) {
    queues.queue(tenantId, name).pause = pause;
  }
  for await (const topic of store.topics()) {
    queues.setTopic(queues.queue(topic.tenantId, topic.name), topic);
  }
  return sequence;
}

async function readLeases({ store, leases }: Memory, queue: QueueState): Promise<void> {
  for await (const task of store.leased(queue)) {
    if (task.place.in !== "leased") continue;
    leases.add(task, graceMsOf(task.place.leaseMs));
  }
}
