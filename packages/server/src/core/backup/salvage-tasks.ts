/**
 * Reads the tasks of a data directory that no server can open any more, as far as their bytes are readable.
 * Nothing is changed. All tasks are in memory at once.
 */
import { join } from "node:path";
import { type DecodedOp, type OnDamage, opKinds, salvageLog, salvageTables } from "@codeq/engine";
import type { ResultBody, Task, TaskId } from "@codeq/queue";
import { payloadKey, resultKey, taskKey, tasksPrefix } from "../store/keys.ts";
import { decodeResult, readTask } from "../store/task-codec.ts";

export interface SalvagedTask {
  readonly task: Task;
  /** JSON text; undefined when it cannot be read. */
  readonly payload: string | undefined;
  /** Undefined when the task has none, or it cannot be read. */
  readonly result: ResultBody | undefined;
  /** Records before its last change are missing, so it may have been changed otherwise, too. */
  readonly isUncertain: boolean;
}

const prefixes = [tasksPrefix, "codeq/payload/", "codeq/results/"];

export async function salvageTasks(
  directory: string,
  onDamage: OnDamage,
): Promise<readonly SalvagedTask[]> {
  const isWanted = (key: string): boolean => prefixes.some((prefix) => key.startsWith(prefix));
  const { values, position } = salvageTables(join(directory, "kv"), isWanted, onDamage);
  const found = new Found(values, onDamage);
  if (position === undefined && values.size > 0) {
    onDamage(
      "the position of the tables in the log is unknown: only new tasks are read from the log",
    );
    found.onlyNew = true;
  }
  for await (const { ops, isBehindGap } of salvageLog(
    join(directory, "log"),
    (position ?? 0) + 1,
    onDamage,
  )) {
    for (const op of ops) found.apply(op, isBehindGap);
  }
  return found.tasks();
}

class Found {
  /** Patches of tasks that the tables have cannot be put in order with them. */
  onlyNew = false;
  readonly #tasks = new Map<TaskId, Task>();
  readonly #texts = new Map<string, Buffer>();
  readonly #uncertain = new Set<TaskId>();
  readonly #onDamage: OnDamage;

  constructor(values: ReadonlyMap<string, Buffer>, onDamage: OnDamage) {
    this.#onDamage = onDamage;
    for (const [key, value] of values) {
      if (!key.startsWith(tasksPrefix)) {
        this.#texts.set(key, value);
        continue;
      }
      const id = key.slice(tasksPrefix.length) as TaskId;
      this.#keep(id, readTask({ buffer: value, start: 0, end: value.length }, id));
    }
  }

  apply({ kind, key, value }: DecodedOp, isBehindGap: boolean): void {
    if (kind < opKinds.rowCreated) {
      if (kind === opKinds.delete) this.#texts.delete(key);
      else this.#texts.set(key, Buffer.from(value.buffer.subarray(value.start, value.end)));
      return;
    }
    const id = key as TaskId;
    if (this.onlyNew && this.#tasks.has(id)) return;
    if (kind === opKinds.rowDeleted) {
      this.#tasks.delete(id);
      return;
    }
    const before = this.#tasks.get(id);
    if (kind === opKinds.rowChanged && before === undefined) {
      this.#onDamage(`only a change of task ${id} is left`);
      return;
    }
    if (isBehindGap && kind === opKinds.rowChanged) this.#uncertain.add(id);
    this.#keep(id, readTask(value, id, kind === opKinds.rowChanged ? before : undefined));
  }

  tasks(): SalvagedTask[] {
    return [...this.#tasks.values()].map((task) => {
      const result = this.#texts.get(resultKey(task.id));
      return {
        task,
        payload: task.payload ?? this.#texts.get(payloadKey(task.id))?.toString("utf8"),
        result: task.result ?? (result && decodeResult(result)),
        isUncertain: this.#uncertain.has(task.id),
      };
    });
  }

  #keep(id: TaskId, task: Task | undefined): void {
    if (task === undefined) this.#onDamage(`${taskKey(id)} cannot be read`);
    else this.#tasks.set(id, task);
  }
}
