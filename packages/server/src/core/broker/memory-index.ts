/**
 * The in-memory index of where tasks are. Like the keys on disk, it is a function of the places of the
 * tasks: a change removes the task from its old place and adds it to the new one, and nothing else changes
 * the index.
 */
import { type Cause, type Change, queueOf, type Task } from "@codeq/queue";
import type { DelayedTasks } from "./delayed-tasks.ts";
import type { Leases } from "./leases.ts";
import type { QueueState, Queues } from "./queue-state.ts";

export class MemoryIndex {
  readonly queues: Queues;
  readonly leases: Leases;
  readonly delayed: DelayedTasks;
  /** Called with the queue of every task that has moved. */
  onMoved: ((queue: QueueState) => void) | undefined;

  constructor(parts: { queues: Queues; leases: Leases; delayed: DelayedTasks }) {
    this.queues = parts.queues;
    this.leases = parts.leases;
    this.delayed = parts.delayed;
  }

  queueOf(task: Task): QueueState {
    return this.queues.queue(task.tenantId, queueOf(task.command));
  }

  /** Follows a change; returns the queue that its task is in now. */
  apply({ before, after, because }: Change): QueueState {
    const queue = this.queueOf((after ?? before) as Task);
    if (because === "edited") {
      this.#edit(queue, before as Task, after as Task);
      return queue;
    }
    if (because === "attached") {
      this.onMoved?.(queue);
      return queue;
    }
    if (because === "extended") {
      if (after !== undefined) this.leases.extend(after);
      return queue;
    }
    if (before !== undefined) this.#leave(queue, before, because);
    if (after !== undefined) this.#enter(queue, after);
    this.queues.flows.count(queue.flow, because, after);
    this.onMoved?.(queue);
    return queue;
  }

  /** Its queue may be another one now; what kept its turn is where it was. */
  #edit(queue: QueueState, before: Task, after: Task): void {
    const from = this.queueOf(before);
    if (from !== queue || before.place !== after.place) {
      this.#leave(from, before, "edited");
      this.#enter(queue, after);
    }
    for (const each of new Set([from, queue])) this.queues.flows.count(each.flow, "edited", after);
    // Its payload may have another size.
    this.onMoved?.(from);
    if (from !== queue) this.onMoved?.(queue);
  }

  #enter(queue: QueueState, task: Task): void {
    const { place } = task;
    switch (place.in) {
      case "ready":
        this.queues.arrive(queue, task.priority, { number: place.seq, id: task.id });
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
        queue.addDead(1);
        return;
      case "done":
        if (place.how === "failed") queue.addFailed(1);
        return;
    }
  }

  #leave(queue: QueueState, task: Task, because: Cause): void {
    switch (task.place.in) {
      case "ready":
        // A claim has taken it out of its window and has accounted for it.
        if (because !== "claimed") this.queues.depart(queue, task.priority, task.place.seq);
        return;
      case "delayed":
        queue.addDelayed(-1);
        this.delayed.remove(task.id);
        return;
      case "leased":
        queue.addLeased(-1);
        this.leases.remove(task.id);
        return;
      case "dead":
        queue.addDead(-1);
        return;
      case "done":
        if (task.place.how === "failed") queue.addFailed(-1);
        return;
    }
  }
}
