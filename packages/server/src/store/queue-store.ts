/**
 * Records by id, over the engine's keys. Reads see every decision that was made, durable or not;
 * `whenDurable` is what to wait for before telling anybody.
 *
 * Decoded tasks are kept for a while because a task is usually claimed and finished soon after it
 * arrived. Records are immutable, so a kept one is as good as a fresh one.
 */
import { create, type Engine, type Op, put } from "@codeq/engine";
import type { IdempotencyEntry, Result, Task, TaskId, TenantId } from "@codeq/queue";
import { idempotencyKeyOf, idOf, payloadKey, quarantineKey, resultKey, taskKey } from "./keys.ts";
import {
  decodeIdempotency,
  decodeResult,
  decodeTask,
  encodeIdempotency,
  isPayloadApart,
  resultIn,
} from "./task-codec.ts";

const generationTasksMax = 16_384;

export class QueueStore {
  readonly engine: Engine;
  /** Records that could not be read since the start. */
  quarantined = 0;
  #young: Map<TaskId, Task> = new Map();
  #old: Map<TaskId, Task> = new Map();

  constructor(engine: Engine) {
    this.engine = engine;
  }

  task(id: TaskId): Task | undefined {
    const kept = this.#young.get(id) ?? this.#old.get(id);
    if (kept !== undefined) return kept;
    const key = taskKey(id);
    const text = this.engine.getText(key);
    if (text === undefined) return undefined;
    const task = decodeTask(text);
    if (task === undefined) this.quarantine(key);
    return task;
  }

  /** Makes reading each of these tasks and its payload once cheap. */
  async readAhead(ids: readonly TaskId[]): Promise<void> {
    const found = await this.engine.readAhead(ids.map(taskKey));
    const apart = found.filter(([, text]) => isPayloadApart(text));
    await this.engine.readAhead(apart.map(([key]) => payloadKey(idOf(key))));
  }

  payload(task: Task): string {
    return task.payload ?? this.engine.getText(payloadKey(task.id)) ?? "null";
  }

  result(id: TaskId): Result | undefined {
    const record = this.engine.getText(taskKey(id));
    const short = record === undefined ? undefined : resultIn(record);
    const key = short === undefined ? resultKey(id) : taskKey(id);
    const text = short ?? this.engine.getText(key);
    if (text === undefined) return undefined;
    const result = decodeResult(text);
    if (result === undefined) this.quarantine(key);
    return result;
  }

  idempotency(tenantId: TenantId, key: string): IdempotencyEntry | undefined {
    const storeKey = idempotencyKeyOf(tenantId, key);
    const text = this.engine.getText(storeKey);
    if (text === undefined) return undefined;
    const entry = decodeIdempotency(text);
    if (entry === undefined) this.quarantine(storeKey);
    return entry;
  }

  addIdempotency(ops: Op[], task: Task, entry: IdempotencyEntry): void {
    const value = encodeIdempotency(entry);
    // A key whose task is gone may still be there, so this is not always its creation.
    ops.push(put(idempotencyKeyOf(task.tenantId, task.idempotencyKey), value));
  }

  whenDurable(id: TaskId): Promise<void> | undefined {
    return this.engine.whenDurable(taskKey(id));
  }

  /** Remembers the newest record of a task. */
  keep(task: Task): void {
    if (this.#young.size >= generationTasksMax) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#young.set(task.id, task);
  }

  forget(id: TaskId): void {
    this.#young.delete(id);
    this.#old.delete(id);
  }

  forgetAll(): void {
    this.#young = new Map();
    this.#old = new Map();
  }

  /** The bytes stay where they are and are copied aside, so that nothing later overwrites them. */
  quarantine(key: string): void {
    this.quarantined += 1;
    const copyKey = quarantineKey(key);
    if (this.engine.state !== "open" || this.engine.get(copyKey) !== undefined) return;
    const bytes = this.engine.get(key);
    if (bytes === undefined) return;
    this.engine.commit([create(copyKey, bytes)]);
  }
}
