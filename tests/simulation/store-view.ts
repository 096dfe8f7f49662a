/** The whole store at one moment, as the server's own reads see it: the kv with the overlay on top. */
import type { Task, TaskId } from "@codeq/queue";
import { indexWrites } from "../../packages/engine/src/index-keys.ts";
import type { Core } from "../../packages/server/src/start/compose.ts";
import { resultKey, taskKey } from "../../packages/server/src/store/keys.ts";
import { taskIndexing } from "../../packages/server/src/store/keys-of.ts";
import { decodeTask, resultIn } from "../../packages/server/src/store/task-codec.ts";
import type { World } from "./world.ts";

export interface StoreView {
  readonly core: Core;
  /** All keys but those that the engine and the flush keep for themselves. */
  readonly keys: ReadonlyMap<string, string>;
  readonly tasks: ReadonlyMap<TaskId, Task>;
  /** Keys of task records that do not decode. */
  readonly unreadable: readonly string[];
  /** Nothing is on its way to the log, so the ledger stands where the store stands. */
  readonly isSettled: boolean;
}

const taskPrefix = "codeq/tasks/";
const ownPrefixes = ["codeq/meta/", "codeq/counts/"];

/** Undefined while there is nothing that could be looked at as a whole. */
export function viewStore(world: World): StoreView | undefined {
  const life = world.serving;
  // A full disk takes decisions back, and until that is done memory is ahead of the store.
  if (life === undefined || life.core.engine.state !== "open") return undefined;
  const { engine } = life.core;
  const bytes = new Map<string, Buffer>(world.kvFiles.contents);
  for (const [key, entry] of engine.unflushed()) {
    if (entry.value === undefined) bytes.delete(key);
    else bytes.set(key, entry.value);
    for (const write of indexWrites(entry, taskIndexing)) {
      if (write.value === undefined) bytes.delete(write.key);
      else bytes.set(write.key, write.value);
    }
  }
  const keys = new Map<string, string>();
  const tasks = new Map<TaskId, Task>();
  const unreadable: string[] = [];
  for (const [key, value] of bytes) {
    if (ownPrefixes.some((prefix) => key.startsWith(prefix))) continue;
    keys.set(key, value.toString("utf8"));
    if (!key.startsWith(taskPrefix)) continue;
    const task = decodeTask(value);
    if (task === undefined) unreadable.push(key);
    else tasks.set(task.id, task);
  }
  const isSettled = engine.stats().waitingBytes === 0 && life.log?.isAppending === false;
  return { core: life.core, keys, tasks, unreadable, isSettled };
}

/** The encoded result, whether it travels with the task or has a key of its own, but not both. */
export function resultTextOf(keys: ReadonlyMap<string, string>, id: TaskId): string | undefined {
  const short = resultIn(keys.get(taskKey(id)) ?? "");
  const apart = keys.get(resultKey(id));
  return short !== undefined && apart !== undefined ? `${short} and ${apart}` : (short ?? apart);
}
