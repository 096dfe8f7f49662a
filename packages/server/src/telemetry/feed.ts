/**
 * Passes changes of tasks to open feeds, in the order of the changes of each task. Nothing is stored: a
 * reader gets only events from the time it is connected. While no feed is open, this costs one comparison.
 */
import { type ErrorCode, limits } from "@codeq/protocol";
import type {
  KeptOf,
  ScheduleEvent as ScheduleShape,
  TaskEvent as Shape,
} from "@codeq/protocol/api";
import type { TaskId, TenantId, WorkerId } from "@codeq/queue";
import { TenantShares } from "../core/tenant-shares.ts";

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
  /** The listener is a browser that watches this task only. Browsers are counted apart from the feeds of the tenant. */
  readonly publicTask?: TaskId;
  readonly hear: (event: FeedEvent) => void;
  /** The feed ends, for this reason. */
  readonly end: (code: ErrorCode) => void;
}

export class Feed {
  /** Called when the first listener is added, and when the last one is removed. */
  onHeard: (isHeard: boolean) => void = () => {};
  readonly #ofTenants: Map<TenantId | undefined, Set<FeedListener>> = new Map();
  readonly #ofTasks: Map<TaskId, Set<FeedListener>> = new Map();
  readonly #browsers: TenantShares = new TenantShares(limits.publicFeedsMax);
  #listeners = 0;
  #shared = 0;

  get isHeard(): boolean {
    return this.#listeners > 0;
  }

  /** Without browsers. */
  get size(): number {
    return this.#listeners - this.#shared - this.#browsers.held;
  }

  get browsers(): number {
    return this.#browsers.held;
  }

  /** Whether one more browser may watch a task of this tenant. */
  hasRoomForBrowser(tenantId: TenantId, task: TaskId): boolean {
    const ofTask = this.#ofTasks.get(task)?.size ?? 0;
    return ofTask < limits.publicFeedsPerTaskMax && this.#browsers.hasRoomFor(tenantId);
  }

  /** The number of listeners of this tenant or, if undefined, of all tenants. */
  sizeOf(tenantId: TenantId | undefined): number {
    const listeners = [...(this.#ofTenants.get(tenantId) ?? [])];
    return listeners.filter(({ isShared }) => isShared !== true).length;
  }

  publish(event: FeedEvent): void {
    for (const each of this.#ofTenants.get(event.tenantId) ?? []) each.hear(event);
    for (const each of this.#ofTenants.get(undefined) ?? []) each.hear(event);
    const { taskId } = event;
    if (this.#ofTasks.size === 0 || taskId === undefined) return;
    for (const each of this.#ofTasks.get(taskId) ?? []) each.hear(event);
  }

  /** Returns a function that stops listening. */
  listen(listener: FeedListener): () => void {
    const { tenantId, publicTask } = listener;
    const shared = listener.isShared === true ? 1 : 0;
    const count = (change: 1 | -1): void => {
      this.#listeners += change;
      this.#shared += shared * change;
      if (publicTask !== undefined) this.#browsers.add(tenantId as TenantId, change);
    };
    const leave =
      publicTask === undefined
        ? enter(this.#ofTenants, tenantId, listener)
        : enter(this.#ofTasks, publicTask, listener);
    count(1);
    if (this.#listeners === 1) this.onHeard(true);
    return () => {
      if (!leave()) return;
      count(-1);
      if (this.#listeners === 0) this.onHeard(false);
    };
  }

  endAll(code: ErrorCode): void {
    const all = [...this.#ofTenants.values(), ...this.#ofTasks.values()];
    for (const each of all.flatMap((listeners) => [...listeners])) each.end(code);
  }
}

/** Returns a function that takes the listener out; false when it was out already. */
function enter<Key>(
  map: Map<Key, Set<FeedListener>>,
  key: Key,
  listener: FeedListener,
): () => boolean {
  const listeners = map.get(key) ?? new Set();
  map.set(key, listeners.add(listener));
  return () => {
    const isOut = listeners.delete(listener);
    if (listeners.size === 0 && map.get(key) === listeners) map.delete(key);
    return isOut;
  };
}
