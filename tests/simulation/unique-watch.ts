/**
 * What unique keys promise, looked at from outside: one live task at most for a key, one more that waits for its end, the
 * payload that was accepted last, and an entry exactly as long as its task or its time. The tasks may be in any shard and
 * at any leader.
 */
import { holdsKey, queueOf, type Task, type TaskId, uniqueActions } from "@codeq/queue";
import type { SimRandom } from "@codeq/simulated";
import type { Enqueued } from "../../packages/server/src/core/broker/verbs.ts";
import { decodeUnique } from "../../packages/server/src/core/records/unique-record.ts";
import { uniqueKeyOf } from "../../packages/server/src/core/store/keys.ts";
import type { Store } from "../../packages/server/src/core/store/store.ts";
import { entriesUnder } from "../../packages/server/test/broker-world.ts";

type Asked = ReturnType<UniqueWatch["request"]>;

/** Undefined where nobody can tell now, because the shard of the task is down. */
type TaskOf = (id: TaskId) => Task | undefined;

export class UniqueWatch {
  /** Every task that had the key. */
  readonly #ids = new Map<string, Set<TaskId>>();
  /** Requests are counted; the number of one is its payload. */
  #requests = 0;
  /** Of each accepted request, how many had begun when its answer came. */
  readonly #answeredAt = new Map<number, number>();
  /** Of each task, the request that began last of those that were accepted. */
  readonly #last = new Map<TaskId, number>();

  /** A request that keeps to few keys, so that most of them meet a live task. */
  request(random: SimRandom, actions: readonly (typeof uniqueActions)[number][] = uniqueActions) {
    this.#requests += 1;
    const unique = {
      key: `unique-${random.int(5)}`,
      while: random.next() < 0.3 ? ("waiting" as const) : ("unfinished" as const),
      on: random.pick(actions),
      forMs: random.next() < 0.1 ? 5000 : 0,
      maxWaitMs: random.next() < 0.5 ? 3000 : 0,
    };
    return { unique, payload: String(this.#requests) };
  }

  /** The answer to a request. */
  accepted({ unique, payload }: Partial<Asked>, { task, deduplicated }: Enqueued): void {
    this.saw(task);
    if (unique === undefined || (unique.on === "return" && deduplicated)) return;
    const request = Number(payload);
    this.#answeredAt.set(request, this.#requests);
    this.#last.set(task.id, Math.max(request, this.#last.get(task.id) ?? 0));
  }

  /** A task that a request was answered with, or that changed. */
  saw(task: Task): void {
    if (task.unique === undefined) return;
    const key = keyOf(task);
    const ids = this.#ids.get(key) ?? new Set();
    this.#ids.set(key, ids.add(task.id));
  }

  /** What is wrong with the live tasks of a key. */
  check(taskOf: TaskOf): string | undefined {
    for (const [key, ids] of this.#ids) {
      const live = liveOf(key, ids, taskOf);
      const waiting = live.filter(({ unique }) => unique?.isHeld === true);
      const holders = live.length - waiting.length;
      if (holders > 1) return `${key} has ${holders} live tasks`;
      if (waiting.length > 1) return `${waiting.length} tasks wait for ${key}`;
      if (waiting.length > 0 && holders === 0) return `${key} has 0 live tasks and one that waits`;
    }
    return this.#problemOfPayloads(taskOf);
  }

  /** Requests that were under way together may be decided in any order; one without an answer may happen at any time. */
  #problemOfPayloads(taskOf: TaskOf): string | undefined {
    for (const [id, last] of this.#last) {
      const payload = taskOf(id)?.payload;
      if (payload === undefined) continue;
      const begun = this.#answeredAt.get(Number(payload)) ?? Number.POSITIVE_INFINITY;
      if (begun < last) return `${id} was accepted with ${last}, and has ${payload}`;
    }
    return undefined;
  }

  /** Whether the entries of all shards are those of the live tasks. */
  async checkEntries(stores: readonly Store[], taskOf: TaskOf): Promise<string | undefined> {
    const found = (
      await Promise.all(stores.map((store) => entriesUnder(store, "codeq/unique/")))
    ).flat();
    const named = new Map<string, string>();
    for (const [key, value] of found) {
      const entry = decodeUnique(value.toString());
      if (entry?.hasEnded === true && entry.untilMs > 0) continue;
      if (named.has(key)) return `${key} has entries in two shards`;
      named.set(key, entry?.holder ?? "");
      // Nobody may have been told of a task that was created just before a crash.
      for (const id of [entry?.holder, entry?.waiting] as readonly TaskId[]) {
        const task = id ? taskOf(id) : undefined;
        if (task !== undefined) this.saw(task);
      }
    }
    for (const [key, ids] of this.#ids) {
      const holder = liveOf(key, ids, taskOf).find(({ unique }) => unique?.isHeld !== true);
      if ((holder?.id ?? "") !== (named.get(key) ?? "")) {
        return `the entry of ${key} names ${named.get(key)}, and ${holder?.id} is live`;
      }
      named.delete(key);
    }
    for (const key of named.keys()) return `${key} has an entry and no task`;
    return undefined;
  }
}

/** A task that was moved has the key of another queue. */
function liveOf(key: string, ids: ReadonlySet<TaskId>, taskOf: TaskOf): Task[] {
  const tasks = [...ids].flatMap((id) => taskOf(id) ?? []);
  return tasks.filter((task) => holdsKey(task) && keyOf(task) === key);
}

function keyOf({ tenantId, command, unique }: Task): string {
  return uniqueKeyOf({ tenantId, queue: queueOf(command), key: unique?.key ?? "" });
}
