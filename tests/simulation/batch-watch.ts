/**
 * What batches promise, looked at from outside: a callback is released once, and with the last end; a batch counts exactly
 * its members; members and their results are there while the callback waits. The batches may be in any shard and at any
 * leader.
 */
import {
  type Change,
  isFailure,
  isUnfinished,
  type Task,
  type TaskId,
  type TenantId,
} from "@codeq/queue";
import type { SimRandom } from "@codeq/simulated";
import type { Broker } from "../../packages/server/src/core/broker/broker.ts";
import type { ShardBroker } from "../../packages/server/src/core/broker/shard-broker.ts";
import type { BatchOf, BatchOptions } from "../../packages/server/src/core/records/batch-record.ts";
import { batchInDue } from "../../packages/server/src/core/store/keys.ts";
import type { Store } from "../../packages/server/src/core/store/store.ts";
import { create } from "../../packages/server/test/broker-world.ts";

/** What a client knows of a batch. */
interface Known extends BatchOf {
  /** An answer said that the batch is there. */
  isPut: boolean;
  /** An answer said that it takes no more members. */
  isOver: boolean;
  readonly members: Set<TaskId>;
  /** It is the batch of a task that waits for these. */
  readonly after?: readonly TaskId[];
}

const callbackOptions = {
  command: "a",
  payload: "{}",
  priority: 0,
  webhook: "",
  timeoutSeconds: 0,
  ttlSeconds: 0,
  tags: [],
} as const satisfies Partial<BatchOptions>;

const answered = new Set(["batch_over", "batch_not_found"]);

export class BatchWatch {
  finding: string | undefined;
  /** Callbacks that were released. */
  get released(): number {
    return this.#released.size;
  }
  readonly #random: SimRandom;
  readonly #maxAttempts: number;
  readonly #all: Known[] = [];
  readonly #waiting: Known[] = [];
  readonly #released = new Set<TaskId>();

  constructor(random: SimRandom, maxAttempts: number) {
    this.#random = random;
    this.#maxAttempts = maxAttempts;
  }

  /** A client puts a batch, adds a member to one, seals or cancels it. */
  act(broker: Broker, tenants: readonly TenantId[], added: (task: Task) => void): void {
    const random = this.#random;
    const draw = random.next();
    // Mostly one of the last, so that batches get members.
    const known = this.#all.length === 0 ? undefined : random.pick(this.#all.slice(-4));
    if (known === undefined || draw < 0.08) this.#put(broker, random.pick(tenants));
    else if (draw < 0.7) this.#add(broker, known, added);
    else if (draw < 0.8) this.#wait(broker, known);
    else if (draw < 0.97) this.#ask(known, () => broker.batches.seal(known));
    else this.#ask(known, () => broker.batches.cancel(known));
  }

  #put(broker: Broker, tenantId: TenantId): void {
    const random = this.#random;
    const of = { tenantId, id: `b${this.#all.length}` };
    const known: Known = { ...of, isPut: false, isOver: false, members: new Set() };
    this.#all.push(known);
    const options = {
      ...callbackOptions,
      maxAttempts: this.#maxAttempts,
      on: random.pick(["success", "end"] as const),
      failFast: random.next() < 0.3,
      openSeconds: random.pick([5, 100_000]),
    };
    Promise.resolve(broker.batches.put(of, options)).then(
      ({ ok }) => {
        known.isPut ||= ok;
      },
      () => {},
    );
  }

  #add(broker: Broker, known: Known, added: (task: Task) => void): void {
    const { tenantId, id: batchId, isPut } = known;
    const fields = { tenantId, batchId, command: "a", maxAttempts: this.#maxAttempts };
    create(broker, fields).done.then(
      ({ task }) => {
        known.members.add(task.id);
        added(task);
      },
      ({ code }: { readonly code?: string }) => {
        if (code === "batch_not_found" && isPut) this.#broken(`${batchId} was put and is unknown`);
      },
    );
  }

  /** A task after a few members of a batch, which are in one shard. */
  #wait(broker: Broker, { tenantId, members }: Known): void {
    const picked = [...members].slice(-1 - this.#random.int(3));
    if (picked.length === 0) return;
    const fields = { tenantId, command: "a", maxAttempts: this.#maxAttempts, after: picked };
    create(broker, fields).done.then(
      ({ task }) => {
        const of = { tenantId, id: `after:${task.id}`, members: new Set<TaskId>() };
        this.#waiting.push({ ...of, isPut: true, isOver: true, after: picked });
      },
      () => {},
    );
  }

  #ask(known: Known, ask: () => unknown): void {
    const { isPut } = known;
    Promise.resolve(ask() as Promise<{ readonly ok: boolean; readonly code?: string }>).then(
      ({ ok, code = "" }) => {
        known.isOver ||= ok || (isPut && answered.has(code));
      },
      () => {},
    );
  }

  /** Asks to seal all that are open, as often as it takes. */
  end(broker: Broker): void {
    for (const known of this.#all) {
      if (known.isPut && !known.isOver) this.#ask(known, () => broker.batches.seal(known));
    }
  }

  get haveEnded(): boolean {
    return this.#all.every(({ isPut, isOver }) => !isPut || isOver);
  }

  /** A change that is durable. */
  saw({ before, after }: Change): void {
    if (before?.place.in !== "held" || after?.place.in !== "ready") return;
    if (after.batch?.isCallback !== true) return;
    if (this.#released.has(after.id)) this.#broken(`the callback ${after.id} was released twice`);
    this.#released.add(after.id);
  }

  /** Compares the batches with their tasks while nothing happens. Retention has deleted nothing. */
  async check(stores: readonly Store[], areOver = false): Promise<string | undefined> {
    for (const known of [...this.#all, ...this.#waiting]) {
      const { id, isPut, members, after } = known;
      const [store, ...others] = stores.filter((each) => each.batch(known) !== undefined);
      if (others.length > 0) return `${id} is in two shards`;
      if (store === undefined) {
        if (isPut) return `${id} was put and is gone`;
        continue;
      }
      const wanted = { after: "", limit: 100_000, failed: false };
      const found = after ?? (await store.membersOfBatch(known, wanted));
      const missing = [...members].find((each) => !found.includes(each));
      if (missing !== undefined) return `${missing} was added to ${id} and is no member`;
      const tasks = found.flatMap((each) => store.task(each) ?? []);
      const wrong = problemOfBatch(store, known, tasks) ?? problemOfCallback(store, known);
      if (wrong !== undefined) return wrong;
      const { phase } = store.batch(known)?.state ?? {};
      if (areOver && isPut && (phase === "open" || phase === "sealed")) return `${id} is ${phase}`;
    }
    return this.finding;
  }

  #broken(text: string): void {
    this.finding ??= text;
  }
}

/** The callback was told of every member: it was not released before the last end. */
function problemOfCallback(store: Store, of: BatchOf): string | undefined {
  const { record, state } = store.batch(of) ?? {};
  const callback = record && store.task(record.callbackId);
  const { ended } = callback?.batch ?? {};
  // An operator may run the callback of a batch that expired.
  if (ended === undefined || state === undefined || callback?.replays !== 0) return undefined;
  const told = ended.succeeded + ended.failed + ended.cancelled;
  if (told === state.total) return undefined;
  return `the callback of ${of.id} was told of ${told} of ${state.total} members`;
}

/** What a batch says, compared with its tasks. */
export function problemOfBatch(
  store: Store,
  of: BatchOf,
  members: readonly Task[],
): string | undefined {
  const { id } = of;
  const found = store.batch(of);
  if (found === undefined) {
    return members.length === 0 ? undefined : `${id} is gone before ${members.length} members`;
  }
  const { state, record } = found;
  const { phase, pending, succeeded, failed, cancelled, total, chore } = state;
  const count = (is: (task: Task) => boolean): number => members.filter(is).length;
  const callback = store.task(record.callbackId);
  const isWaiting = callback !== undefined && callback.place.in !== "done";
  // The tasks of `after` have a retention of their own.
  const isKept = isWaiting && (record.after.length === 0 || members.length === total);
  if (pending !== count(isPending)) return `${id} says ${pending}, not ${count(isPending)} pending`;
  if (total !== pending + succeeded + failed + cancelled) return `${id} does not add up`;
  if (isKept && total !== members.length)
    return `${members.length} of ${total} members of ${id} are there`;
  if (isKept && succeeded !== count(hasSucceeded)) return `${id} counts ${succeeded} successes`;
  if (isKept && failed !== count(isFailure)) return `${id} counts ${failed} failures`;
  if (isKept && members.some((each) => !isPending(each) && store.wholeResult(each) === undefined))
    return `a result of ${id} cannot be read`;
  if (callback === undefined) return chore === "none" ? `${id} has no callback` : undefined;
  const isHeld = callback.place.in === "held";
  if (isHeld !== isUnfinished(state)) return `${id} is ${phase}, its callback ${callback.place.in}`;
  if (phase === "sealed" && pending === 0) return `${id} is sealed and waits for nothing`;
  return undefined;
}

export function isPending({ place }: Task): boolean {
  return place.in !== "done" && place.in !== "dead";
}

export function hasSucceeded({ place }: Task): boolean {
  return place.in === "done" && place.how === "completed";
}

/** What the ticker does for the batches of a shard. */
export async function workOnBatches({ store, batches }: ShardBroker, nowMs: number): Promise<void> {
  for (const { id } of await store.dueAfter("batches", {
    after: undefined,
    untilMs: nowMs,
    limit: 100,
  })) {
    await batches.work(batchInDue(id));
  }
}
