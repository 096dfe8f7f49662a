/**
 * A broker, random requests with unique keys, workers and operators, and crashes in between. After every step the
 * whole store is compared with what unique keys promise:
 *
 * - one live task at most for a key, and one more that waits for its end;
 * - a waiting task has a live holder, so nothing waits for ever;
 * - an entry exists exactly as long as its task, or its time, and names the right tasks;
 * - the last accepted payload of a key is the one that runs next, or has run.
 */
import { holdsKey, type Task, type TaskId, uniqueActions } from "@codeq/queue";
import { SimRandom } from "@codeq/simulated";
import type { ShardBroker } from "../../packages/server/src/core/broker/shard-broker.ts";
import {
  decodeUnique,
  type UniqueName,
  uniqueNameOf,
} from "../../packages/server/src/core/records/unique-record.ts";
import { uniqueKeyOf } from "../../packages/server/src/core/store/keys.ts";
import {
  acme,
  BrokerWorld,
  claim,
  create,
  entriesUnder,
  nack,
  owned,
  submit,
  success,
} from "../../packages/server/test/broker-world.ts";

export type Plant = (broker: ShardBroker) => void;

const keys = ["a", "b"];
const commands = ["work", "other"];
/** The same key in another lane is another key. */
const lanes = ["", "", "a"];
const stepsOfRun = 120;

/** The first promise that a seed breaks; undefined for a sound run. */
export async function runUnique(
  seed: string,
  plant: Plant = () => {},
): Promise<string | undefined> {
  const run = new UniqueRun(new SimRandom(seed), plant);
  await run.open();
  for (let step = 0; step < stepsOfRun; step++) {
    await run.step();
    const finding = await run.check();
    if (finding !== undefined) return `step ${step}: ${finding}`;
  }
  return undefined;
}

class UniqueRun {
  readonly #random: SimRandom;
  readonly #plant: Plant;
  readonly #world = new BrokerWorld();
  readonly #ids = new Set<TaskId>();
  /** The payload that was accepted last, and its task. */
  readonly #last = new Map<string, { readonly id: TaskId; readonly payload: string }>();
  #payloads = 0;
  #broker!: ShardBroker;

  constructor(random: SimRandom, plant: Plant) {
    this.#random = random;
    this.#plant = plant;
  }

  async open(): Promise<void> {
    this.#broker = await this.#world.open();
    this.#plant(this.#broker);
  }

  async step(): Promise<void> {
    const random = this.#random;
    const kind = random.int(12);
    if (kind < 5) return this.#create();
    if (kind === 5) {
      this.#broker = await this.#world.kill();
      this.#plant(this.#broker);
      return;
    }
    if (kind === 6) return this.#pass(random.pick([10, 1000, 40_000]));
    if (kind === 7) {
      await claim(this.#broker, { leaseMs: 30_000 });
      return;
    }
    await this.#touch(kind);
  }

  async #create(): Promise<void> {
    const random = this.#random;
    this.#payloads += 1;
    const payload = String(this.#payloads);
    const [key, command, on, lane] = [
      random.pick(keys),
      random.pick(commands),
      random.pick(uniqueActions),
      random.pick(lanes),
    ];
    const unique = {
      key,
      while: random.next() < 0.3 ? ("waiting" as const) : ("unfinished" as const),
      on,
      forMs: random.next() < 0.2 ? 5000 : 0,
      maxWaitMs: random.next() < 0.5 ? 3000 : 0,
    };
    const visibleMs = random.next() < 0.3 ? this.#world.clock.nowMs() + 1000 : undefined;
    const extras = { tags: [], timeoutMs: 0, ttlMs: random.next() < 0.2 ? 2000 : 0, startByMs: 0 };
    const asked = create(this.#broker, {
      command,
      lane,
      unique,
      payload,
      visibleMs,
      extras,
      maxAttempts: 2,
    });
    const answer = await asked.done.catch(() => undefined);
    if (answer === undefined) return;
    this.#ids.add(answer.task.id);
    if (on === "return" && answer.deduplicated) return;
    this.#last.set(`${command} ${key} ${lane}`, { id: answer.task.id, payload });
  }

  async #pass(ms: number): Promise<void> {
    await this.#world.clock.advance(ms);
    const nowMs = this.#world.clock.nowMs();
    const broker = this.#broker;
    for (const task of this.#tasks()) {
      const { id, place } = task;
      if (place.in === "leased" && place.untilMs <= nowMs) broker.expire(id);
      else if (place.in === "delayed" && place.dueMs <= nowMs) {
        await broker.promote([{ id, number: place.dueMs }]);
      }
    }
    await broker.lapse(this.#tasks().map(({ id }) => id));
  }

  /** A worker or an operator does something to a task. */
  async #touch(kind: number): Promise<void> {
    const tasks = this.#tasks();
    if (tasks.length === 0) return;
    const task = this.#random.pick(tasks);
    const of = { tenantId: acme, id: task.id };
    if (kind === 8 || kind === 9) {
      const leased = tasks.filter(({ place }) => place.in === "leased");
      if (leased.length === 0) return;
      const one = owned(this.#random.pick(leased));
      if (kind === 8) await submit(this.#broker, one, success).done.catch(() => undefined);
      else
        await nack(this.#broker, one, { delaySeconds: 0, reason: "" }).done.catch(() => undefined);
      return;
    }
    const edit = { command: this.#random.pick(commands) };
    const action = [
      { kind: "cancel", graceMs: this.#random.pick([0, 5000]) } as const,
      { kind: "edit", edit } as const,
      { kind: "replay" } as const,
      { kind: "delete" } as const,
    ][this.#random.int(4)] as Parameters<ShardBroker["act"]>[1];
    await this.#broker.act(of, action);
  }

  #tasks(): Task[] {
    return [...this.#ids].flatMap((id) => this.#broker.store.task(id) ?? []);
  }

  async check(): Promise<string | undefined> {
    const nowMs = this.#world.clock.nowMs();
    const stored = await entriesUnder(this.#broker.store, "codeq/unique/");
    const entries = new Map(stored.map(([key, value]) => [key, decodeUnique(value.toString())]));
    const live = Map.groupBy(this.#tasks().filter(holdsKey), (task) =>
      uniqueKeyOf(uniqueNameOf(task) as UniqueName),
    );
    for (const [key, tasks] of live) {
      const holders = tasks.filter(({ unique }) => unique?.isHeld !== true);
      const waiting = tasks.filter(({ unique }) => unique?.isHeld === true);
      if (holders.length !== 1) return `${key} has ${holders.length} live tasks`;
      if (waiting.length > 1) return `${waiting.length} tasks wait for ${key}`;
      const entry = entries.get(key);
      if (entry === undefined || entry.hasEnded) return `${key} has no entry`;
      if (entry.holder !== holders[0]?.id) return `the entry of ${key} names another task`;
      if (entry.waiting !== (waiting[0]?.id ?? ""))
        return `the entry of ${key} names another waiting task`;
    }
    for (const [key, entry] of entries) {
      if (live.has(key) || (entry?.hasEnded === true && entry.untilMs > 0)) continue;
      return `${key} has an entry and no task at ${nowMs}`;
    }
    for (const [name, { id, payload }] of this.#last) {
      const task = this.#broker.store.task(id);
      if (task !== undefined && task.payload !== payload) {
        return `${name} was accepted with ${payload}, and ${id} has ${task.payload}`;
      }
    }
    return undefined;
  }
}
