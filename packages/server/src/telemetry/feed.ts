/**
 * Passes changes of tasks to open feeds, in the order of the changes of each task. Nothing is stored: a
 * reader gets only events from the time it is connected. While no feed is open, this costs one comparison.
 */
import type { ErrorCode } from "@codeq/protocol";
import type {
  KeptOf,
  ScheduleEvent as ScheduleShape,
  TaskEvent as Shape,
} from "@codeq/protocol/api";
import type { TaskId, TenantId, WorkerId } from "@codeq/queue";

/** An event of a task. */
export type TaskEvent = KeptOf<typeof Shape> & {
  readonly tenantId: TenantId;
  readonly taskId: TaskId;
  readonly workerId?: WorkerId;
};

export type ScheduleEvent = KeptOf<typeof ScheduleShape> & {
  readonly tenantId: TenantId;
  readonly taskId?: undefined;
};
export type FeedEvent = TaskEvent | ScheduleEvent;

export interface FeedListener {
  /** Undefined for the events of all tenants. */
  readonly tenantId: TenantId | undefined;
  /** The listener serves readers that are counted elsewhere, and does not count itself. */
  readonly isShared?: true;
  readonly hear: (event: FeedEvent) => void;
  /** The feed ends, for this reason. */
  readonly end: (code: ErrorCode) => void;
}

export class Feed {
  /** Called when the first listener is added, and when the last one is removed. */
  onHeard: (isHeard: boolean) => void = () => {};
  readonly #ofTenants: Map<TenantId | undefined, Set<FeedListener>> = new Map();
  #listeners = 0;
  #shared = 0;

  get isHeard(): boolean {
    return this.#listeners > 0;
  }

  get size(): number {
    return this.#listeners - this.#shared;
  }

  /** The number of listeners of this tenant or, if undefined, of all tenants. */
  sizeOf(tenantId: TenantId | undefined): number {
    const listeners = [...(this.#ofTenants.get(tenantId) ?? [])];
    return listeners.filter(({ isShared }) => isShared !== true).length;
  }

  publish(event: FeedEvent): void {
    for (const each of this.#ofTenants.get(event.tenantId) ?? []) each.hear(event);
    for (const each of this.#ofTenants.get(undefined) ?? []) each.hear(event);
  }

  /** Returns a function that stops listening. */
  listen(listener: FeedListener): () => void {
    const { tenantId } = listener;
    const shared = listener.isShared === true ? 1 : 0;
    const listeners = this.#ofTenants.get(tenantId) ?? new Set();
    this.#ofTenants.set(tenantId, listeners.add(listener));
    this.#listeners += 1;
    this.#shared += shared;
    if (this.#listeners === 1) this.onHeard(true);
    return () => {
      if (!listeners.delete(listener)) return;
      this.#listeners -= 1;
      this.#shared -= shared;
      if (this.#listeners === 0) this.onHeard(false);
      if (listeners.size === 0) this.#ofTenants.delete(tenantId);
    };
  }

  endAll(code: ErrorCode): void {
    const all = [...this.#ofTenants.values()].flatMap((listeners) => [...listeners]);
    for (const each of all) each.end(code);
  }
}
