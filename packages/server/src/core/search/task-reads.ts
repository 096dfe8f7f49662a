/**
 * Reads of tasks for callers: only tasks of their tenant, once their state is durable, with lease ends as
 * extended by heartbeats.
 */
import type { Task, TaskId, TenantId } from "@codeq/queue";
import type { Leases } from "../broker/claims/leases.ts";
import type { ClaimedTask, TaskAndResult } from "../broker/verbs.ts";
import type { Store } from "../store/store.ts";

export class TaskReads {
  readonly #store: Store;
  readonly #leases: Leases;

  constructor(parts: { readonly store: Store; readonly leases: Leases }) {
    this.#store = parts.store;
    this.#leases = parts.leases;
  }

  /** The task as it is now, durable or not; undefined when it is unknown or belongs to another tenant. */
  find(of: { readonly tenantId: TenantId; readonly id: TaskId }): Task | undefined {
    const task = this.#store.task(of.id);
    return task?.tenantId === of.tenantId ? task : undefined;
  }

  async task(tenantId: TenantId, id: TaskId): Promise<ClaimedTask | undefined> {
    return await this.#whenSettled(id, () => {
      const task = this.#findWhole(tenantId, id);
      if (task === undefined) return undefined;
      return { task: this.withLiveLease(task), payload: this.#store.payload(task) };
    });
  }

  /** The task without its payload; undefined also when it cannot be read. */
  async settled(tenantId: TenantId, id: TaskId): Promise<Task | undefined> {
    return await this.#whenSettled(id, () => {
      const task = this.find({ tenantId, id });
      return task === undefined ? undefined : this.withLiveLease(task);
    });
  }

  async outcome(tenantId: TenantId, id: TaskId): Promise<TaskAndResult | undefined> {
    return await this.#whenSettled(id, () => {
      const task = this.#findWhole(tenantId, id);
      return task === undefined ? undefined : { task, result: this.#store.result(task) };
    });
  }

  /** Throws when the task exists and cannot be read. */
  #findWhole(tenantId: TenantId, id: TaskId): Task | undefined {
    const task = this.find({ tenantId, id });
    if (task === undefined) this.#store.assertReadable(id);
    return task;
  }

  /** Heartbeats move the end of a lease in memory first. */
  withLiveLease(task: Task): Task {
    const lease = this.#leases.get(task.id);
    if (lease === undefined || task.place.in !== "leased") return task;
    return { ...task, place: { ...task.place, untilMs: lease.untilMs } };
  }

  /**
   * Reads in the turn in which all changes of the task are durable: while a caller waits for that, more changes
   * may be decided, which callers must not see yet.
   */
  async #whenSettled<T>(id: TaskId, read: () => T): Promise<T> {
    for (let done = this.#store.whenDurable(id); done !== undefined; ) {
      await done;
      done = this.#store.whenDurable(id);
    }
    return read();
  }
}
