/** The whole store at one moment, as the server's own reads see it: the kv with the overlay on top. */
import { writeIndexKeys } from "@codeq/engine";
import type { ResultBody, Task, TaskId } from "@codeq/queue";
import { sealedEnd } from "../../packages/engine/src/kv/checked-value.ts";
import { changeOfCounts } from "../../packages/server/src/core/records/counts.ts";
import {
  addCell,
  decodeCell,
  type FailureCell,
} from "../../packages/server/src/core/records/failure-counts.ts";
import {
  allFailureCountsPrefix,
  resultKey,
  tasksPrefix,
} from "../../packages/server/src/core/store/keys.ts";
import { decodeResult, readTask } from "../../packages/server/src/core/store/task-codec.ts";
import type { Core } from "../../packages/server/src/start/compose.ts";
import type { World } from "./world.ts";

export interface StoreView {
  readonly core: Core;
  /** All keys but the records of tasks and what the engine and the flush keep for themselves. */
  readonly keys: ReadonlyMap<string, Buffer>;
  readonly tasks: ReadonlyMap<TaskId, Task>;
  /** How many failures there are of each group, by the counter of its queue and hour. */
  readonly failures: ReadonlyMap<string, string>;
  /** Keys whose value is damaged, or is a task that does not decode. */
  readonly unreadable: readonly string[];
  /** Nothing is on its way to the log, so the ledger stands where the store stands. */
  readonly isSettled: boolean;
}

const ownPrefixes = ["codeq/meta/", "codeq/counts/", allFailureCountsPrefix];

/** Undefined while there is nothing that could be looked at as a whole. */
export function viewStore(world: World): StoreView | undefined {
  const life = world.serving;
  const { engine, rows } = life?.tap ?? {};
  // A full disk takes decisions back, and until that is done memory is ahead of the store.
  if (life === undefined || engine?.state !== "open" || rows === undefined) return undefined;
  const bytes = new Map<string, Buffer>();
  const unreadable: string[] = [];
  for (const [key, stored] of world.kvFiles.contents) {
    const end = rows.isIndexKey(key) ? stored.length : sealedEnd(key, stored);
    if (end === undefined) unreadable.push(key);
    else bytes.set(key, stored.subarray(0, end));
  }
  /** Those in memory; undefined when they are gone. */
  const live = new Map<string, Task | undefined>();
  const writes = {
    put: (key: string, value: Buffer) => void bytes.set(key, value),
    del: (key: string) => void bytes.delete(key),
  };
  const unflushed = engine.unflushed();
  for (const entry of unflushed.rows) {
    const { id } = (entry.row ?? entry.below) as Task;
    live.set(id, entry.row as Task | undefined);
    writeIndexKeys(writes, entry, rows);
  }
  for (const [key, { value }] of unflushed.entries) {
    if (value === undefined) bytes.delete(key);
    else bytes.set(key, value);
  }
  const keys = new Map<string, Buffer>();
  const tasks = new Map<TaskId, Task>();
  for (const [key, value] of bytes) {
    if (ownPrefixes.some((prefix) => key.startsWith(prefix))) continue;
    if (!key.startsWith(tasksPrefix)) {
      keys.set(key, value);
      continue;
    }
    const id = key.slice(tasksPrefix.length) as TaskId;
    if (live.has(id)) continue;
    const task = readTask({ buffer: value, start: 0, end: value.length }, id);
    if (task === undefined) unreadable.push(key);
    else tasks.set(id, task);
  }
  for (const task of live.values()) if (task !== undefined) tasks.set(task.id, task);
  const isSettled = engine.stats().waitingBytes === 0 && life.log?.isAppending === false;
  const failures = failuresIn(bytes, changeOfCounts(engine.unflushed()).failures.cells);
  return { core: life.core, keys, tasks, failures, unreadable, isSettled };
}

function failuresIn(
  bytes: ReadonlyMap<string, Buffer>,
  changes: ReadonlyMap<string, FailureCell>,
): Map<string, string> {
  const cells = new Map(changes);
  for (const [key, value] of bytes) {
    if (!key.startsWith(allFailureCountsPrefix)) continue;
    const stored = decodeCell(key, value);
    const change = changes.get(key);
    cells.set(key, change === undefined ? stored : addCell(stored, change));
  }
  return new Map([...cells].map(([key, { dead, failed }]) => [key, `${dead} ${failed}`]));
}

/** The result that travels with the task and the one that has a key of its own; one at most is right. */
export function resultBodiesOf(keys: ReadonlyMap<string, Buffer>, task: Task): ResultBody[] {
  const bytes = keys.get(resultKey(task.id));
  const apart = bytes === undefined ? undefined : decodeResult(bytes);
  return [task.result, apart].filter((body) => body !== undefined);
}
