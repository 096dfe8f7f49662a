/**
 * A broker, random batches with members that end in every way, operators, sweeps, full disks and crashes. After every
 * commit, durable or not, the whole store is compared with what batches promise:
 *
 * - the callback is released in the log record of the last end or of the seal, once, and never before;
 * - a batch counts exactly its members, at every position;
 * - a sealed batch with nothing pending has ended;
 * - members and their results are there until the callback has ended;
 * - a batch that was cancelled leaves no member to run;
 * - what belongs to a batch is deleted after its callback.
 */
import type { Change, Task, TaskId } from "@codeq/queue";
import { SimRandom, settle } from "@codeq/simulated";
import type { ShardBroker } from "../../packages/server/src/core/broker/shard-broker.ts";
import { type BatchOf, taskOfAfter } from "../../packages/server/src/core/records/batch-record.ts";
import { batchInDue } from "../../packages/server/src/core/store/keys.ts";
import type { Store } from "../../packages/server/src/core/store/store.ts";
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
import { hasSucceeded, isPending, problemOfBatch, workOnBatches } from "./batch-watch.ts";

export type Plant = (broker: ShardBroker) => void;

const stepsOfRun = 150;
const large = JSON.stringify("x".repeat(3000));
const ofBatch = (id: string): BatchOf => ({ tenantId: acme, id });

/** The first promise that a seed breaks; undefined for a sound run. */
export async function runBatches(
  seed: string,
  plant: Plant = () => {},
): Promise<string | undefined> {
  const run = new BatchRun(new SimRandom(seed), plant);
  await run.open();
  for (let step = 0; step < stepsOfRun; step++) {
    await run.step();
    const finding = run.finding ?? run.check();
    if (finding !== undefined) return `step ${step}: ${finding}`;
  }
  await run.end();
  return run.finding ?? run.check() ?? (await run.checkLeftBehind());
}

class BatchRun {
  finding: string | undefined;
  readonly #random: SimRandom;
  readonly #plant: Plant;
  readonly #world = new BrokerWorld({
    segmentBytes: 4096,
    flushBytes: 20_000,
    minFreeBytes: 100,
  });
  readonly #ids = new Set<TaskId>();
  readonly #members = new Map<string, Set<TaskId>>();
  readonly #batches: string[] = [];
  #hasOperators = true;
  readonly #cachedMax: number;
  readonly #cancelled: Set<string> = new Set();
  /** Batches of tasks with `after`. */
  readonly #afters: Set<string> = new Set();
  /** Durable releases by callback. */
  readonly #released = new Map<TaskId, number>();
  #broker!: ShardBroker;

  constructor(random: SimRandom, plant: Plant) {
    this.#random = random;
    this.#plant = plant;
    this.#cachedMax = random.pick([2, 2, 1000]);
    this.#world.observe = (change) => this.#observe(change);
  }

  async open(): Promise<void> {
    this.#use(await this.#world.open());
  }

  #use(broker: ShardBroker): void {
    this.#broker = broker;
    // So that a few batches and members reach these limits.
    broker.batches.cachedMax = this.#cachedMax;
    broker.batches.pieceMembers = 2;
    const { store } = broker;
    const commit = store.commit.bind(store);
    store.commit = (changes, writes) => {
      const group = commit(changes, writes);
      for (const { after } of changes) if (after !== undefined) this.#note(after);
      this.finding ??= this.#checkCommit(changes, store);
      return group;
    };
    // A planted bug is between the broker and what is written.
    this.#plant(broker);
  }

  #note({ id, batch }: Task): void {
    this.#ids.add(id);
    if (batch === undefined) return;
    if (taskOfAfter(batch.id) !== undefined) this.#afters.add(batch.id);
    if (batch.isCallback) return;
    const members = this.#members.get(batch.id) ?? new Set();
    this.#members.set(batch.id, members.add(id));
  }

  #observe({ before, after }: Change): void {
    if (before?.place.in !== "held" || after?.place.in !== "ready") return;
    const times = (this.#released.get(after.id) ?? 0) + 1;
    this.#released.set(after.id, times);
    if (times > 1) this.finding ??= `the callback ${after.id} was released ${times} times`;
  }

  async step(): Promise<void> {
    const random = this.#random;
    const kind = random.int(16);
    if (kind === 0) return this.#put();
    if (kind < 5) return this.#addSome();
    if (kind === 5) return this.#seal();
    if (kind === 6) return this.#restart();
    if (kind === 7) return this.#pass(random.pick([10, 1000, 40_000, 3_700_000]));
    if (kind < 10) await claim(this.#broker, { count: 1 + random.int(3), leaseMs: 30_000 });
    else if (kind < 13) await this.#finish();
    else if (kind === 13) await this.#operate();
    else await this.#sweep();
  }

  async #restart(): Promise<void> {
    if (this.#random.next() < 0.3) await this.#fillDisk();
    else this.#use(await this.#world.kill());
  }

  /** What is decided while there is no room is undone. */
  async #fillDisk(): Promise<void> {
    const { disk, clock } = this.#world;
    disk.capacityBytes = 0;
    const asked = [this.#add(), this.#finish(), this.#seal(), this.#finish(), this.#add()];
    await Promise.all(asked);
    await settle();
    disk.capacityBytes = Number.MAX_SAFE_INTEGER;
    await clock.advance(1000);
  }

  async #put(): Promise<void> {
    const id = `b${this.#batches.length}`;
    this.#batches.push(id);
    const random = this.#random;
    const callback = {
      ...{ command: "report", payload: "{}", priority: 0, webhook: "", maxAttempts: 2 },
      ...{ timeoutSeconds: 0, ttlSeconds: random.next() < 0.2 ? 60 : 0, tags: [] },
    };
    const [on, failFast] = [random.pick(["success", "end"] as const), random.next() < 0.3];
    const openSeconds = random.pick([100, 100_000]);
    await this.#broker.batches
      .put(ofBatch(id), { ...callback, on, failFast, openSeconds })
      .catch(() => {});
  }

  async #addSome(): Promise<void> {
    const draw = this.#random.next();
    if (draw < 0.2) return this.#addAfter();
    if (draw < 0.9) return this.#add();
    // They end together.
    const lapsing = Array.from({ length: 9 }, () => this.#add(2000));
    await Promise.all(lapsing);
  }

  /** A task that waits for a few others, or for the first time one without a batch. */
  async #addAfter(): Promise<void> {
    const random = this.#random;
    const tasks = this.#tasks().slice(-20);
    const isPlain = tasks.length === 0 || random.next() < 0.4;
    const picked = isPlain
      ? []
      : Array.from({ length: 1 + random.int(3) }, () => random.pick(tasks));
    const after = [...new Set(picked.map(({ id }) => id))];
    const fields = { payload: "1", maxAttempts: 2, after: isPlain ? undefined : after };
    await create(this.#broker, fields).done.catch(() => {});
  }

  async #add(ttlMs = this.#random.next() < 0.2 ? 2000 : 0): Promise<void> {
    const batchId = this.#someBatch();
    if (batchId === undefined) return;
    const extras = { tags: [], timeoutMs: 0, ttlMs, startByMs: 0 };
    const visibleMs = this.#random.next() < 0.2 ? this.#world.clock.nowMs() + 1000 : undefined;
    const payload = this.#random.next() < 0.3 ? large : "1";
    const given = { batchId, extras, visibleMs, payload, maxAttempts: 2 };
    await create(this.#broker, given).done.catch(() => {});
  }

  async #seal(): Promise<void> {
    const id = this.#someBatch();
    if (id !== undefined) await this.#broker.batches.seal(ofBatch(id)).catch(() => {});
  }

  #someBatch(): string | undefined {
    // Mostly one of the last, so that batches get members.
    const last = this.#batches.slice(-3);
    return last.length === 0 ? undefined : this.#random.pick(last);
  }

  async #finish(): Promise<void> {
    const leased = this.#tasks().filter(({ place }) => place.in === "leased");
    if (leased.length === 0) return;
    const of = owned(this.#random.pick(leased));
    const isNack = this.#random.next() < 0.4;
    const asked = isNack
      ? nack(this.#broker, of, { delaySeconds: 0, reason: "no" })
      : submit(this.#broker, of, success);
    await asked.done.catch(() => {});
  }

  async #operate(): Promise<void> {
    const tasks = this.#tasks();
    if (tasks.length === 0) return;
    const random = this.#random;
    const batch = random.next() < 0.15 ? this.#someBatch() : undefined;
    if (batch !== undefined) await this.#cancel(batch);
    const action = random.pick([
      { kind: "cancel", graceMs: random.pick([0, 5000]) },
      { kind: "replay" },
      { kind: "replay" },
      { kind: "replayAs", changes: {} },
      { kind: "delete" },
      { kind: "edit", edit: { command: random.pick(["work", "other"]) } },
    ] as const);
    const dead = tasks.filter(({ place }) => place.in === "dead");
    const ended = tasks.filter(({ place, batch }) => place.in === "done" && batch?.isCallback);
    const by = { cancel: tasks, replay: dead, replayAs: dead, delete: ended, edit: tasks };
    const wanted = by[action.kind];
    const targets = wanted.length > 0 && random.next() < 0.8 ? wanted : tasks;
    const of = { tenantId: acme, id: random.pick(targets).id };
    await this.#broker.act(of, action).catch(() => {});
  }

  async #cancel(id: string): Promise<void> {
    const answer = await this.#broker.batches.cancel(ofBatch(id)).catch(() => undefined);
    if (answer?.ok === true) this.#cancelled.add(id);
  }

  async #pass(ms: number): Promise<void> {
    await this.#world.clock.advance(ms);
    await this.#sweep();
  }

  /** What the ticker does. */
  async #sweep(): Promise<void> {
    const broker = this.#broker;
    const { store } = broker;
    const nowMs = this.#world.clock.nowMs();
    for (const { id, place } of this.#tasks()) {
      if (place.in === "leased" && place.untilMs <= nowMs) broker.expire(id);
      else if (place.in === "delayed" && place.dueMs <= nowMs) {
        await broker.promote([{ id, number: place.dueMs }]);
      }
    }
    await broker.lapse(this.#tasks().map(({ id }) => id));
    const expired = await store.dueAfter("expired", {
      after: undefined,
      untilMs: nowMs,
      limit: 100,
    });
    await broker.delete(expired.flatMap(({ id }) => store.task(id) ?? []));
    await broker.cleanUp({ tenantId: acme, beforeMs: nowMs, limit: 1 });
    for (const { id } of await store.dueAfter("batches", {
      after: undefined,
      untilMs: nowMs,
      limit: 100,
    })) {
      const worked = broker.batches.work(batchInDue(id));
      // Operators do not wait for background work.
      if (this.#hasOperators && this.#random.next() < 0.5) await this.#operate();
      await worked;
    }
  }

  /** Everything ends, and nobody interferes. */
  async end(): Promise<void> {
    this.#hasOperators = false;
    for (const id of this.#batches) await this.#broker.batches.seal(ofBatch(id)).catch(() => {});
    for (let round = 0; round < 400; round++) {
      const open = this.#tasks().filter(({ place }) => place.in !== "done" && place.in !== "dead");
      if (open.length === 0) break;
      await claim(this.#broker, { commands: ["work", "other", "report"], count: 100 });
      for (const task of this.#tasks().filter(({ place }) => place.in === "leased")) {
        await submit(this.#broker, owned(task), success).done.catch(() => {});
      }
      await this.#pass(40_000);
    }
  }

  #tasks(): Task[] {
    return [...this.#ids].flatMap((id) => this.#broker.store.task(id) ?? []);
  }

  check(): string | undefined {
    return this.#checkBatches(this.#broker.store);
  }

  #checkCommit(changes: readonly Change[], store: Store): string | undefined {
    for (const { before, after } of changes) {
      if (before?.place.in !== "held" || after?.place.in !== "ready") continue;
      const id = after.batch?.id ?? "";
      const members = this.#membersOf(id, store);
      if (members.some(isPending)) return `the callback of ${id} was released early`;
      if (taskOfAfter(id) !== undefined) continue;
      const { ended } = after.batch ?? {};
      const wrong = ended?.succeeded !== members.filter(hasSucceeded).length;
      if (wrong) return `the callback of ${id} was told of ${ended?.succeeded} members`;
    }
    const ids = changes.flatMap(({ before, after }) => (after ?? before)?.batch?.id ?? []);
    return this.#checkBatches(store, new Set([...ids, ...this.#afters]));
  }

  #membersOf(id: string, store: Store): Task[] {
    const { after } = store.batch(ofBatch(id))?.record ?? {};
    if (after?.length) return after.flatMap((each) => store.task(each) ?? []);
    const tasks = [...(this.#members.get(id) ?? [])].flatMap((each) => store.task(each) ?? []);
    // Another task may have taken the place of one.
    return tasks.filter(({ batch }) => batch?.id === id);
  }

  #checkBatches(
    store: Store,
    ids: Iterable<string> = [...this.#batches, ...this.#afters],
  ): string | undefined {
    for (const id of ids) {
      const members = this.#membersOf(id, store);
      const finding = problemOfBatch(store, ofBatch(id), members) ?? this.#leftToRun(id, members);
      if (finding !== undefined) return finding;
    }
    return undefined;
  }

  #leftToRun(id: string, members: readonly Task[]): string | undefined {
    const { state } = this.#broker.store.batch(ofBatch(id)) ?? {};
    if (!this.#cancelled.has(id) || state?.chore === "cancel") return undefined;
    const left = members.find(({ place, replays }) => {
      return replays === 0 && (place.in === "ready" || place.in === "delayed");
    });
    return left && `${id} was cancelled, and ${left.id} is left to run`;
  }

  /** After the retention of the callbacks. */
  async checkLeftBehind(): Promise<string | undefined> {
    for (let round = 0; round < 8; round++) await this.#pass(7_300_000);
    for (let round = 0; round < 100; round++) {
      await workOnBatches(this.#broker, this.#world.clock.nowMs());
    }
    const found: string[] = [];
    for (const prefix of ["codeq/batch", "codeq/tasks/"]) {
      for (const [key] of await entriesUnder(this.#broker.store, prefix)) found.push(key);
    }
    return found.length === 0 ? undefined : `${found.join(", ")} is left behind`;
  }
}
