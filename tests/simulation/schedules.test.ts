/**
 * Schedules in a world that crashes, loses power, sets its clock, pauses them, runs them by hand and puts them with
 * another spec, on one shard and on several.
 *
 * Checked at the end of every life: each nominal instant has exactly one of {task, counted skip, waiting}; no task is
 * early or was created during a pause; tasks of a schedule overlap only when it allows that; of the tasks of schedules
 * with the same unique key, one has the key and one at most waits for it; and the live tasks that the server counts are
 * those that have not ended. Bugs are planted, and each must be found.
 */
import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import { SimRandom } from "@codeq/simulated";
import { Store } from "../../packages/server/src/core/store/store.ts";
import { campaignLength } from "../campaign-length.ts";
import { type RunningServer, setup } from "../contract/setup.ts";
import { importMutant, type Mutation } from "./mutant.ts";

const periodMs = 60_000;
const caller = "admin-acme";
const scheduleRule = "packages/queue/src/schedule/schedule.ts";
const overlaps = ["allow", "skip", "one", "replace"] as const;
const catchUps = ["none", "latest", "all"] as const;

interface Run {
  readonly at: string;
  readonly taskId?: string;
  readonly createdAt?: string;
  readonly kind: string;
}

interface Pause {
  readonly fromMs: number;
  toMs: number;
}

/** What schedules do that share a unique key. */
const uniqueActions = ["return", "latest", "cancel"] as const;

interface Known {
  readonly id: string;
  readonly overlap: (typeof overlaps)[number];
  readonly isUnique: boolean;
  readonly pauses: Pause[];
  isPaused: boolean;
  body: { readonly cron?: string; readonly every?: string };
}

class ScheduleWorld {
  server: RunningServer;
  readonly #random: SimRandom;
  readonly #schedules: Known[] = [];
  /** Wall clocks that were set back make created times go back as well. */
  #wasSetBack = false;

  constructor(server: RunningServer, random: SimRandom) {
    this.server = server;
    this.#random = random;
  }

  async make({ hasUnique }: { readonly hasUnique: boolean }): Promise<void> {
    for (const overlap of overlaps) {
      for (const catchUp of catchUps)
        await this.#put(`${overlap}-${catchUp}`, { overlap, catchUp });
    }
    if (!hasUnique) return;
    for (const overlap of ["allow", "one"] as const) {
      for (const on of uniqueActions) {
        const unique = { key: "shared", on };
        await this.#put(`unique-${overlap}-${on}`, { overlap, catchUp: "all", unique });
      }
    }
  }

  async #put(
    id: string,
    options: {
      readonly overlap: Known["overlap"];
      readonly catchUp: string;
      readonly unique?: object;
    },
  ): Promise<void> {
    const body = { command: "render", every: "1m", graceSeconds: 5, ...options };
    const path = `/v1/codeq/admin/schedules/${id}`;
    const reply = await this.server.ask(path, { method: "PUT", caller, body });
    assert.equal(reply.status, 201, reply.text);
    const isUnique = options.unique !== undefined;
    const { overlap } = options;
    this.#schedules.push({ id, overlap, isUnique, pauses: [], isPaused: false, body });
  }

  /** Another spec with the same instants. */
  async #putAgain(): Promise<void> {
    const schedule = this.#anySchedule();
    const { every, cron, ...rest } = schedule.body;
    schedule.body = { ...rest, ...(every === undefined ? { every: "1m" } : { cron: "* * * * *" }) };
    const path = `/v1/codeq/admin/schedules/${schedule.id}`;
    const reply = await this.server.ask(path, { method: "PUT", caller, body: schedule.body });
    assert.equal(reply.status, 200, reply.text);
  }

  async #runNow(): Promise<void> {
    const { id } = this.#anySchedule();
    const reply = await this.server.post(`/admin/schedules/${id}/run`, {}, caller);
    assert.ok(reply.status === 201 || reply.status === 409, reply.text);
  }

  #anySchedule(): Known {
    return this.#schedules[this.#random.int(this.#schedules.length)] as Known;
  }

  async step(): Promise<void> {
    const { clock } = this.server;
    const kind = this.#random.int(100);
    if (kind < 40) await clock.advance(this.#random.int(3 * periodMs));
    else if (kind < 43) await this.#putAgain();
    else if (kind < 48) await this.#runNow();
    else if (kind < 75) await this.#work();
    else if (kind < 85) await this.#pauseOrResume();
    else if (kind < 90) clock.stepWall(this.#random.int(20 * periodMs));
    else if (kind < 92) {
      this.#wasSetBack = true;
      clock.stepWall(-this.#random.int(5 * periodMs));
    } else await this.#restart();
  }

  /** A worker ends some of the tasks, one way or another. */
  async #work(): Promise<void> {
    for (let count = this.#random.int(6); count > 0; count--) {
      const reply = await this.server.post("/tasks/claim", { leaseSeconds: 300 }, "worker-acme");
      if (reply.status === 204) return;
      const { id } = reply.json;
      if (this.#random.int(5) === 0) await this.server.post(`/tasks/${id}/nack`, {}, "worker-acme");
      else if (this.#random.int(4) > 0) await this.server.complete(id);
    }
  }

  async #pauseOrResume(): Promise<void> {
    const schedule = this.#anySchedule();
    // A step of the wall clock is believed after a minute; until then, pauses have other times than the server says.
    await this.server.clock.advance(periodMs + 1000);
    const nowMs = this.server.clock.nowMs();
    const verb = schedule.isPaused ? "resume" : "pause";
    const reply = await this.server.post(`/admin/schedules/${schedule.id}/${verb}`, {}, caller);
    assert.equal(reply.status, 200, reply.text);
    schedule.isPaused = !schedule.isPaused;
    if (schedule.isPaused) schedule.pauses.push({ fromMs: nowMs, toMs: Number.POSITIVE_INFINITY });
    else (schedule.pauses.at(-1) as Pause).toMs = nowMs;
  }

  async #restart(): Promise<void> {
    const { world, clock } = this.server;
    // In the middle of a firing, often: a few milliseconds after an instant is due.
    if (this.#random.int(2) === 0) {
      const nowMs = clock.nowMs();
      await clock.advance(periodMs - (nowMs % periodMs) + this.#random.int(3));
    }
    const how = this.#random.int(3);
    if (how === 0) await world.stop();
    else world.crash(how === 1 ? "power" : "process");
    if (this.#random.int(2) === 0) await clock.advance(this.#random.int(10 * periodMs));
    this.server = await world.start();
    await this.check();
  }

  async check(): Promise<void> {
    let holders = 0;
    let waiting = 0;
    for (const schedule of this.#schedules) {
      const tasks = await this.#checkOne(schedule);
      if (!schedule.isUnique) continue;
      for (const { status, waitsForKey } of tasks) {
        if (!isLive(status)) continue;
        if (waitsForKey === true) waiting += 1;
        else holders += 1;
      }
    }
    assert.ok(holders <= 1, `${holders} live tasks have the unique key`);
    assert.ok(waiting <= holders, `${waiting} tasks wait for the unique key of ${holders}`);
  }

  /** The tasks of the schedule. */
  async #checkOne(schedule: Known): Promise<readonly ShownTask[]> {
    const { id, overlap } = schedule;
    const shown = (await this.server.get(`/admin/schedules/${id}`, caller)).json;
    const { runs } = (await this.server.get(`/admin/schedules/${id}/runs?limit=1000`, caller))
      .json as {
      runs: readonly Run[];
    };
    const tasks = runs.filter(({ kind }) => kind === "fired");
    const instants = tasks.map((run) => Date.parse(run.at));
    assert.equal(new Set(instants).size, instants.length, `${id}: an instant has two tasks`);
    assert.equal(instants.length, shown.fired, `${id}: tasks and the count of tasks differ`);
    const index = (text: string): number => Math.floor(Date.parse(text) / periodMs);
    const nominal = index(shown.handledAt) - index(shown.createdAt);
    const skipped = Object.values<number>(shown.skipped).reduce((sum, each) => sum + each, 0);
    const waiting = shown.waitingAt === undefined ? 0 : 1;
    assert.equal(
      shown.fired + skipped + waiting,
      nominal,
      `${id}: an instant was lost or counted twice`,
    );
    for (const { at, createdAt = "" } of tasks) {
      const createdMs = Date.parse(createdAt);
      assert.ok(createdMs >= Date.parse(at) || this.#wasSetBack, `${id}: ${at} is early`);
      const isInPause = schedule.pauses.some(
        ({ fromMs, toMs }) => createdMs > fromMs && createdMs < toMs,
      );
      assert.ok(!isInPause || this.#wasSetBack, `${id}: ${at} was created during a pause`);
    }
    const found: ShownTask[] = [];
    for (const { taskId } of runs)
      if (taskId !== undefined) found.push(await this.server.task(taskId));
    const live = found.filter(({ status }) => isLive(status)).length;
    assert.equal(live, shown.live, `${id}: live tasks and their count differ`);
    if (overlap !== "allow") assert.ok(live <= 1, `${id}: ${live} tasks are live`);
    return found;
  }
}

interface ShownTask {
  readonly status: string;
  readonly waitsForKey?: true;
}

function isLive(status: string): boolean {
  return status === "PENDING" || status === "IN_PROGRESS";
}

async function live(
  t: TestContext,
  seed: number,
  { shards = 1, open = setup }: { readonly shards?: number; readonly open?: typeof setup } = {},
): Promise<void> {
  const random = new SimRandom(seed);
  const settings = { shards, retentionSeconds: 10_000_000, dlqRetentionSeconds: 10_000_000 };
  const server = await open(t, { storage: "sim-disk", seed, settings });
  const world = new ScheduleWorld(server, random.fork("steps"));
  await world.make({ hasUnique: shards === 1 });
  for (let step = 0; step < 60; step++) await world.step();
  await world.server.clock.advance(1000);
  await world.check();
}

const seeds = campaignLength({ short: 3, long: 40 });
const shardCounts = [1, 3];

for (const shards of shardCounts) {
  describe(`${shards} shards`, () => {
    for (let seed = 1; seed <= seeds; seed++) {
      test(`seed ${seed}: every nominal instant is a task or a counted skip`, (t) =>
        live(t, seed, { shards }));
    }
  });
}

/** Mistakes in the code of schedules, as changes of the store. */
const bugs: Readonly<Record<string, () => () => void>> = {
  "the state is written in another record than the task": () => {
    const { commit } = Store.prototype;
    const late = new WeakMap<Store, Parameters<Store["commit"]>[1]>();
    Store.prototype.commit = function (this: Store, changes, records = []) {
      const before = late.get(this);
      late.set(this, records);
      return commit.call(this, changes, before);
    };
    return () => {
      Store.prototype.commit = commit;
    };
  },
  "the next instant counts from the restart and not from the last one": () =>
    withStates((state) => ({ ...state, handledMs: state.handledMs + 7 * periodMs })),
  "the last instant is fired again after a restart": () =>
    withStates((state) => ({ ...state, handledMs: state.handledMs - periodMs })),
  "a schedule does not look for the task that has its unique key": () => {
    const { unique } = Store.prototype;
    Store.prototype.unique = () => undefined;
    return () => {
      Store.prototype.unique = unique;
    };
  },
  "live tasks are not counted again after a restart": () => {
    const { liveOfSchedules } = Store.prototype;
    Store.prototype.liveOfSchedules = async function* () {};
    return () => {
      Store.prototype.liveOfSchedules = liveOfSchedules;
    };
  },
};

type State = Parameters<typeof import("@codeq/queue").nextNominal>[2];

function withStates(change: (state: State) => State): () => void {
  const { schedules } = Store.prototype;
  Store.prototype.schedules = async function* (this: Store) {
    for await (const { record, state } of schedules.call(this))
      yield { record, state: change(state) };
  };
  return () => {
    Store.prototype.schedules = schedules;
  };
}

/** Mistakes in the source. */
const mutants: readonly (Mutation & { readonly bug: string })[] = [
  {
    bug: "another spec counts from a clock that was set back",
    file: "packages/server/src/core/broker/schedules.ts",
    from: "Math.max(before.state.handledMs, nowMs)",
    to: "nowMs",
  },
  {
    bug: "a schedule fires before its time",
    file: scheduleRule,
    from: "Math.floor(input.nowMs - policy.delayMs);",
    to: "Math.floor(input.nowMs - policy.delayMs) + 60_000;",
  },
  {
    bug: "a schedule fires while it is paused",
    file: scheduleRule,
    from: "if (pause !== undefined) return undefined;",
    to: "",
  },
  {
    bug: "a schedule fires while its task has not ended",
    file: scheduleRule,
    from: 'if (overlap !== "allow" && this.#live > 0) {',
    to: 'if (overlap !== "allow" && this.#live > 1) {',
  },
];

/** Whether one of a few seeds breaks a promise. */
async function isFound(
  t: TestContext,
  how: { readonly shards: number; readonly open?: typeof setup },
): Promise<boolean> {
  for (let seed = 1; seed <= 8; seed++) {
    try {
      await live(t, seed, how);
    } catch (error) {
      if (error instanceof assert.AssertionError) return true;
      throw error;
    }
  }
  return false;
}

for (const shards of shardCounts) {
  describe(`${shards} shards, with a bug`, () => {
    for (const [bug, plant] of Object.entries(bugs)) {
      // With several shards, schedules have no unique keys.
      if (shards > 1 && bug.includes("unique key")) continue;
      test(`the check finds that ${bug}`, async (t) => {
        const restore = plant();
        try {
          assert.ok(await isFound(t, { shards }), "no seed found it");
        } finally {
          restore();
        }
      });
    }
    for (const { bug, ...mutation } of mutants) {
      test(`the check finds that ${bug}`, async (t) => {
        const module = new URL("../contract/setup.ts", import.meta.url);
        const mutant = await importMutant<typeof import("../contract/setup.ts")>(module, mutation);
        assert.ok(await isFound(t, { shards, open: mutant.setup }), "no seed found it");
      });
    }
  });
}
