/**
 * Readers that wait for the result of a task; they are answered when the result is durable, or when their
 * time is up.
 */
import type { TaskId } from "@codeq/queue";
import { AbortGroups } from "../abort-groups.ts";
import type { Clock } from "../clock.ts";

export class ResultWaiters {
  readonly #clock: Clock;
  readonly #byTask: Map<TaskId, Set<() => void>> = new Map();
  readonly #aborts: AbortGroups = new AbortGroups();
  #size = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#size;
  }

  /** Resolves when the result is there, the time is up or the reader goes away. */
  wait(id: TaskId, options: { waitMs: number; signal: AbortSignal | undefined }): Promise<void> {
    return new Promise((resolve) => {
      const { signal } = options;
      const finish = (): void => {
        if (this.#byTask.get(id)?.delete(finish)) this.#size -= 1;
        if (this.#byTask.get(id)?.size === 0) this.#byTask.delete(id);
        cancelTimer();
        stopListening?.();
        resolve();
      };
      const waiting = this.#byTask.get(id) ?? new Set();
      this.#byTask.set(id, waiting.add(finish));
      this.#size += 1;
      const cancelTimer = this.#clock.after(options.waitMs, finish);
      let stopListening: (() => void) | undefined;
      if (signal !== undefined) stopListening = this.#aborts.add(signal, finish);
    });
  }

  finishAll(): void {
    for (const id of [...this.#byTask.keys()]) this.wake(id);
  }

  /** The result of this task is durable. */
  wake(id: TaskId): void {
    if (this.#size === 0) return;
    for (const finish of [...(this.#byTask.get(id) ?? [])]) finish();
  }
}
