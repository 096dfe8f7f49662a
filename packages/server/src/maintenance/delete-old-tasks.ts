/** Deletes finished tasks whose retention has ended, with everything that belongs to them. */
import { isExpired, type Task } from "@codeq/queue";
import type { Broker } from "../broker/broker.ts";
import type { Clock } from "../clock.ts";
import type { ArtifactFiles } from "../store/artifact-files.ts";
import { endOf, idOf, numberOf, retentionPrefix, sortable } from "../store/keys.ts";
import type { Job } from "./ticker.ts";

const pieceTasks = 256;
/** Those that have to go within one of these go together: to look for each by itself costs more. */
const stepMs = 1000;

export class DeleteOldTasks implements Job {
  readonly name = "delete-old-tasks";
  readonly #broker: Broker;
  readonly #clock: Clock;
  readonly #artifacts: ArtifactFiles;
  /** The earliest time at which a task may have to go, on the wall clock. */
  #nextMs = 0;
  /** What stands up to here in the index has been looked at; it may be full of deleted keys. */
  #lookedTo: string = retentionPrefix;

  constructor(parts: { broker: Broker; clock: Clock; artifacts: ArtifactFiles }) {
    this.#broker = parts.broker;
    this.#clock = parts.clock;
    this.#artifacts = parts.artifacts;
  }

  /** A task became terminal and has to go at this time. */
  plan(expiresMs: number): void {
    this.#nextMs = Math.min(this.#nextMs, Math.ceil(expiresMs / stepMs) * stepMs);
    const position = retentionPrefix + sortable(expiresMs);
    if (position < this.#lookedTo) this.#lookedTo = position;
  }

  nextMs(): number | undefined {
    if (this.#nextMs === Number.POSITIVE_INFINITY) return undefined;
    return this.#clock.monotonicMs() + this.#nextMs - this.#clock.nowMs();
  }

  async runOnce(): Promise<void> {
    const { store } = this.#broker;
    const nowMs = this.#clock.nowMs();
    store.engine.assertWritable();
    // What becomes terminal while the scan runs lowers this again.
    this.#nextMs = Number.POSITIVE_INFINITY;
    const lookedFrom = this.#lookedTo;
    const due = { after: lookedFrom, before: endOf(`${retentionPrefix}${sortable(nowMs)}/`) };
    const keys = await store.engine.scanKeys(due, pieceTasks);
    const tasks: Task[] = [];
    for (const key of keys) {
      this.#lookedTo = key;
      const task = store.task(idOf(key));
      if (task !== undefined && isExpired(task, nowMs)) tasks.push(task);
    }
    try {
      // First, for afterwards nobody would know of them.
      await this.#artifacts.removeOf(tasks.map(({ id }) => id));
      await this.#broker.delete(tasks);
      if (keys.length === pieceTasks) this.#nextMs = Math.min(this.#nextMs, nowMs);
      else await this.#planNext();
    } catch (error) {
      // They are still there and have to be found again.
      if (lookedFrom < this.#lookedTo) this.#lookedTo = lookedFrom;
      this.#nextMs = Math.min(this.#nextMs, nowMs);
      throw error;
    }
  }

  /** Finds out when the next one has to go, once for all that go together. */
  async #planNext(): Promise<void> {
    const range = { after: this.#lookedTo, before: endOf(retentionPrefix) };
    const [next] = await this.#broker.store.engine.scanKeys(range, 1);
    if (next !== undefined) this.plan(numberOf(next));
  }
}
