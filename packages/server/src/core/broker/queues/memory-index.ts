/**
 * The in-memory index of where tasks are. Like the keys on disk, it is a function of the places of the
 * tasks: a change removes the task from its old place and adds it to the new one, and nothing else changes
 * the index.
 */
import { type Cause, type Change, costOf, laneOf, queueOf, type Task } from "@codeq/queue";
import type { Store } from "../../store/store.ts";
import { graceMsOf, type Leases } from "../claims/leases.ts";
import type { DelayedTasks } from "./delayed-tasks.ts";
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

  /** Applies a change; returns the queue that the task is in now. */
  apply(change: Change): QueueState {
    const { before, after, because } = change;
    const queue = this.queueOf((after ?? before) as Task);
    if (because === "edited") {
      this.#edit(queue, change);
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
    if (before?.place.in === "leased" && after?.place.in === "leased") {
      // A cancellation with a grace moves the end of the lease, and the task keeps its slot.
      this.leases.remove(after.id);
      this.leases.add(after, 0);
    } else {
      if (before !== undefined) this.#leave(queue, before, because);
      if (after !== undefined) this.#enter(queue, after);
    }
    this.queues.flows.count(queue.flow, change);
    this.onMoved?.(queue);
    return queue;
  }

  /** An edit may move a task to another queue; a task that keeps its turn stays where it is. */
  #edit(queue: QueueState, change: Change): void {
    const [before, after] = [change.before as Task, change.after as Task];
    const from = this.queueOf(before);
    if (from !== queue || before.place !== after.place) {
      this.#leave(from, before, "edited");
      this.#enter(queue, after);
    }
    for (const each of new Set([from, queue])) this.queues.flows.count(each.flow, change);
    // The payload may have another size.
    this.onMoved?.(from);
    if (from !== queue) this.onMoved?.(queue);
  }

  #enter(queue: QueueState, task: Task): void {
    const { place } = task;
    switch (place.in) {
      case "ready":
        this.#arrive(queue, task, place.seq);
        return;
      case "delayed":
        queue.addDelayed(1);
        this.delayed.add(queue, place.dueMs, task.id);
        return;
      case "held":
        queue.addHeld(1);
        return;
      case "leased":
        if (laneOf(task) !== "") this.queues.lanesOf(queue).leased(laneOf(task));
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

  #arrive(queue: QueueState, task: Task, number: number): void {
    const { id, priority } = task;
    const lane = laneOf(task);
    if (lane === "") this.queues.arrive(queue, priority, { number, id });
    else this.queues.lanesOf(queue).arrive(lane, priority, { number, id, cost: costOf(task) });
  }

  #depart(queue: QueueState, task: Task, seq: number): void {
    const lane = laneOf(task);
    if (lane === "") this.queues.depart(queue, task.priority, seq);
    else this.queues.lanesOf(queue).depart(lane, task.priority, seq);
  }

  #leave(queue: QueueState, task: Task, because: Cause): void {
    switch (task.place.in) {
      case "ready":
        // A claim takes the task out of its window and updates the count.
        if (because !== "claimed") this.#depart(queue, task, task.place.seq);
        return;
      case "delayed":
        queue.addDelayed(-1);
        this.delayed.remove(task.id);
        return;
      case "held":
        queue.addHeld(-1);
        return;
      case "leased":
        queue.addLeased(-1);
        if (laneOf(task) !== "") this.queues.lanesOf(queue).unleased(laneOf(task));
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

  /**
   * Rebuilds the index from the keys: at the start, and after a full disk undid decisions that were not durable
   * yet. Counts come from the counters that every flush writes, and the log records after the flush. Leases are
   * read; ready and delayed tasks are read when needed. Returns the highest sequence number in use.
   */
  async recover(store: Store): Promise<number> {
    const { queues, leases, delayed } = this;
    queues.clear();
    leases.clear();
    delayed.clear();
    const { queues: found, lanes, sequence } = await store.counts();
    for (const { name, tenantId, lane, ready } of lanes) {
      queues.lanesOf(queues.queue(tenantId, name)).recover(lane, ready, sequence);
    }
    for (const { queue: name, tenantId, counts } of found) {
      const queue = queues.queue(tenantId, name);
      queue.recover(counts);
      for (let priority = 0; priority < counts.ready.length; priority++) {
        if (queue.plainReady(priority) > 0) queue.window(priority).recover(sequence);
      }
      if (counts.delayed > 0) delayed.recover(queue);
      if (counts.leased > 0) await this.#readLeases(store, queue);
    }
    for await (const { tenantId, name, pause } of store.pauses()) {
      queues.queue(tenantId, name).pause = pause;
    }
    for await (const topic of store.topics()) {
      queues.setTopic(queues.queue(topic.tenantId, topic.name), topic);
    }
    await this.#readLanes(store);
    return sequence;
  }

  async #readLeases(store: Store, queue: QueueState): Promise<void> {
    for await (const task of store.leased(queue)) {
      if (task.place.in !== "leased") continue;
      this.leases.add(task, graceMsOf(task.place.leaseMs));
      if (laneOf(task) !== "") this.queues.lanesOf(queue).leased(laneOf(task));
    }
  }

  /** After the leases are counted: what administrators gave to lanes, and what lanes have spent. */
  async #readLanes(store: Store): Promise<void> {
    const { queues } = this;
    for await (const { tenantId, name, lane, limits } of store.laneLimits()) {
      queues.lanesOf(queues.queue(tenantId, name)).setLimits(lane, limits);
    }
    for await (const { tenantId, name, lane, ...moments } of store.laneRecords(
      queues.lanes.clock,
    )) {
      queues.lanesOf(queues.queue(tenantId, name)).recoverMoments(lane, moments);
    }
    for (const queue of queues.all()) queue.lanes?.offerAll();
  }
}
