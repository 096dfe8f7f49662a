/**
 * What the broker holds in memory about where tasks are. Like the keys on disk it is a function of
 * the task's place: a transition leaves the old place and enters the new one, and nothing else
 * changes it.
 */
import { queueOf, type Task } from "@codeq/queue";
import type { DelayedTasks } from "./delayed-tasks.ts";
import type { Leases } from "./leases.ts";
import type { QueueState, Queues } from "./queue-state.ts";

export class MemoryIndex {
  readonly queues: Queues;
  readonly leases: Leases;
  readonly delayed: DelayedTasks;
  /** Called when a task became terminal and may be deleted at the given time. */
  onExpiry: (wallMs: number) => void = () => {};

  constructor(parts: { queues: Queues; leases: Leases; delayed: DelayedTasks }) {
    this.queues = parts.queues;
    this.leases = parts.leases;
    this.delayed = parts.delayed;
  }

  queueOf(task: Task): QueueState {
    return this.queues.queue(task.tenantId, queueOf(task.command));
  }

  enter(task: Task): void {
    const queue = this.queueOf(task);
    const { place } = task;
    switch (place.in) {
      case "ready":
        this.queues.arrive(queue, task.priority, { seq: place.seq, id: task.id });
        return;
      case "delayed":
        queue.addDelayed(1);
        this.delayed.add(queue, place.dueMs, task.id);
        return;
      case "leased":
        queue.addLeased(1);
        this.leases.add(task, 0);
        return;
      case "dead":
        queue.counts.dead += 1;
        if (place.expiresMs !== undefined) this.onExpiry(place.expiresMs);
        return;
      case "done":
        this.onExpiry(place.expiresMs);
        return;
    }
  }

  /** A ready task has been taken out of its window before. */
  leave(task: Task): void {
    const queue = this.queueOf(task);
    switch (task.place.in) {
      case "ready":
        queue.addReady(task.priority, -1);
        break;
      case "delayed":
        queue.addDelayed(-1);
        this.delayed.remove(task.id);
        break;
      case "leased":
        queue.addLeased(-1);
        this.leases.remove(task.id);
        break;
      case "dead":
        queue.counts.dead -= 1;
        break;
      case "done":
        break;
    }
  }
}
