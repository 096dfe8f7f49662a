/**
 * Readers that wait for the result of a task; they are answered when the result is durable, or when their
 * time is up.
 */
import { limits } from "@codeq/protocol";
import type { TaskId, TenantId } from "@codeq/queue";
import { AbortGroups } from "../abort-groups.ts";
import type { Clock } from "../clock.ts";
import type { TaskOf } from "../search/task-actions.ts";
import { TenantShares } from "../tenant-shares.ts";
import type { ResultWait } from "./broker.ts";

export class ResultWaiters {
  readonly #clock: Clock;
  readonly #byTask: Map<TaskId, Set<() => void>> = new Map();
  readonly #aborts: AbortGroups = new AbortGroups();
  readonly #shares: TenantShares = new TenantShares(limits.waitersMax);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#shares.held;
  }

  /** Whether so many readers wait that the tenant may not have another waiting reader. */
  areCrowded(tenantId: TenantId): boolean {
    return !this.#shares.hasRoomFor(tenantId);
  }

  /** Resolves when the result is there, the time is up or the reader goes away. */
  wait({ tenantId, id }: TaskOf, { waitMs, signal }: ResultWait): Promise<void> {
    return new Promise((resolve) => {
      const finish = (): void => {
        if (this.#byTask.get(id)?.delete(finish)) this.#shares.add(tenantId, -1);
        if (this.#byTask.get(id)?.size === 0) this.#byTask.delete(id);
        cancelTimer();
        stopListening?.();
        resolve();
      };
      const waiting = this.#byTask.get(id) ?? new Set();
      this.#byTask.set(id, waiting.add(finish));
      this.#shares.add(tenantId, 1);
      const cancelTimer = this.#clock.after(waitMs, finish);
      let stopListening: (() => void) | undefined;
      if (signal !== undefined) stopListening = this.#aborts.add(signal, finish);
    });
  }

  finishAll(): void {
    for (const id of [...this.#byTask.keys()]) this.wake(id);
  }

  /** Answers the readers of this task, whose result is durable. */
  wake(id: TaskId): void {
    if (this.size === 0) return;
    for (const finish of [...(this.#byTask.get(id) ?? [])]) finish();
  }
}
