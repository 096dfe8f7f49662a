import assert from "node:assert/strict";
import { test } from "node:test";
import { SimClock, settle } from "../../../testing/src/sim-clock.ts";
import { CliError } from "../cli-error.ts";
import type { ExitName } from "../exit-codes.ts";
import type { ClaimedTask, TaskEnd, TaskSource } from "./task-source.ts";
import { doTasks, type WorkEvent, type WorkOptions, type WorkSummary } from "./work-loop.ts";

function taskOf(id: string): ClaimedTask {
  const rest = { command: "hello", payload: "{}", attempts: 0, maxAttempts: 5, leaseToken: 1 };
  return { id, ...rest };
}

function refusal(exit: ExitName, status?: number): CliError {
  return new CliError(`refused ${status}`, { exit, status });
}

/** A server in memory: tasks wait in a list, and a claim waits until there is one. */
class MemorySource implements TaskSource {
  readonly tasks: ClaimedTask[] = [];
  readonly ended: [string, TaskEnd["as"]][] = [];
  readonly extended: string[] = [];
  /** Thrown by the next calls, in order. */
  readonly claimFaults: Error[] = [];
  readonly finishFaults: Error[] = [];
  extend_: () => Promise<boolean> = () => Promise.resolve(true);
  #wake: () => void = () => {};

  add(...ids: string[]): void {
    this.tasks.push(...ids.map(taskOf));
    this.#wake();
  }

  async claim(signal: AbortSignal): Promise<ClaimedTask | undefined> {
    const fault = this.claimFaults.shift();
    if (fault !== undefined) throw fault;
    while (this.tasks.length === 0) {
      await new Promise<void>((resolve, reject) => {
        const before = this.#wake;
        this.#wake = () => {
          before();
          resolve();
        };
        signal.addEventListener("abort", () => reject(new Error("aborted")));
      });
    }
    return this.tasks.shift();
  }

  extend(task: ClaimedTask): Promise<boolean> {
    this.extended.push(task.id);
    return this.extend_();
  }

  async finish(task: ClaimedTask, end: TaskEnd): Promise<string> {
    const fault = this.finishFaults.shift();
    if (fault !== undefined) throw fault;
    this.ended.push([task.id, end.as]);
    return end.as;
  }
}

function setup(options: Partial<WorkOptions> = {}) {
  const clock = new SimClock();
  const source = new MemorySource();
  const stop = new AbortController();
  const events: WorkEvent[] = [];
  const start = (): Promise<WorkSummary> =>
    doTasks({
      source,
      clock,
      run: async () => ({ as: "completed", result: "{}" }),
      concurrency: 1,
      leaseMs: 60_000,
      graceMs: 10_000,
      tasksMax: Number.POSITIVE_INFINITY,
      stopped: stop.signal,
      tell: (event) => void events.push(event),
      ...options,
    });
  return { clock, source, stop, events, start };
}

/** A run that ends when the test says so, or when it is told to stop. */
function longRun() {
  let end: (how: TaskEnd) => void = () => {};
  const run: WorkOptions["run"] = (_task, signal) =>
    new Promise((resolve) => {
      end = resolve;
      signal.addEventListener("abort", () => resolve({ as: "retry", reason: "stopped" }));
    });
  return { run, end: (how: TaskEnd) => end(how) };
}

test("tasks are done one after the other, up to the number that was asked for", async () => {
  const { source, start } = setup({ tasksMax: 2 });
  source.add("a", "b", "c");
  assert.deepEqual(await start(), { completed: 2, others: 0 });
  assert.deepEqual(source.ended, [
    ["a", "completed"],
    ["b", "completed"],
  ]);
  assert.equal(source.tasks.length, 1);
});

test("a slot that has nothing left to begin does not end the waiting of another", async () => {
  const { source, start } = setup({ concurrency: 2, tasksMax: 3 });
  source.add("a", "b");
  const working = start();
  await settle();
  source.add("c");
  assert.deepEqual(await working, { completed: 3, others: 0 });
});

test("a stop ends the waiting at once", async () => {
  const { stop, start, clock } = setup({ concurrency: 4 });
  const working = start();
  await settle();
  stop.abort();
  assert.deepEqual(await working, { completed: 0, others: 0 });
  assert.equal(clock.timers, 0);
});

test("several tasks run at a time, and no more than allowed", async () => {
  let running = 0;
  let most = 0;
  const run: WorkOptions["run"] = async () => {
    running += 1;
    most = Math.max(most, running);
    await settle();
    running -= 1;
    return { as: "completed", result: "{}" };
  };
  const { source, start } = setup({ concurrency: 3, tasksMax: 9, run });
  source.add(..."abcdefghi");
  assert.equal((await start()).completed, 9);
  assert.equal(most, 3);
});

test("the lease is extended at every third of it while the task runs, and not after", async () => {
  const long = longRun();
  const { source, start, clock } = setup({ run: long.run, tasksMax: 1 });
  source.add("a");
  const working = start();
  await clock.advance(65_000);
  assert.deepEqual(source.extended, ["a", "a", "a"]);
  long.end({ as: "completed", result: "{}" });
  assert.equal((await working).completed, 1);
  await clock.advance(60_000);
  assert.equal(source.extended.length, 3);
});

test("a lost lease stops the run, and nothing is told to the server", async () => {
  const long = longRun();
  const { source, start, clock, events } = setup({ run: long.run, tasksMax: 1 });
  source.extend_ = () => Promise.resolve(false);
  source.add("a");
  const working = start();
  await clock.advance(20_000);
  assert.deepEqual(await working, { completed: 0, others: 1 });
  assert.deepEqual(source.ended, []);
  assert.equal(events.at(-1)?.event, "lost");
});

test("a server that is away costs the lease only when it stays away for as long", async () => {
  const long = longRun();
  const { source, start, clock } = setup({ run: long.run, tasksMax: 1 });
  source.extend_ = () => Promise.reject(refusal("unreachable"));
  source.add("a");
  const working = start();
  await clock.advance(40_000);
  source.extend_ = () => Promise.resolve(true);
  await clock.advance(60_000);
  assert.deepEqual(source.ended, []);
  source.extend_ = () => Promise.reject(refusal("unreachable"));
  await clock.advance(80_000);
  assert.deepEqual(await working, { completed: 0, others: 1 });
});

test("what runs at a stop may finish within the grace", async () => {
  const long = longRun();
  const { source, start, stop, clock } = setup({ run: long.run });
  source.add("a", "b");
  const working = start();
  await settle();
  stop.abort();
  await clock.advance(9_000);
  long.end({ as: "completed", result: "{}" });
  assert.deepEqual(await working, { completed: 1, others: 0 });
  assert.equal(source.tasks.length, 1);
});

test("what does not finish within the grace is handed back and has not failed", async () => {
  const long = longRun();
  const { source, start, stop, clock } = setup({ run: long.run });
  source.add("a");
  const working = start();
  await settle();
  stop.abort();
  await clock.advance(10_000);
  await working;
  assert.deepEqual(source.ended, [["a", "handed back"]]);
});

test("a claim that fails for a while is repeated after a pause", async () => {
  const { source, start, clock, events } = setup({ tasksMax: 1 });
  source.claimFaults.push(refusal("unreachable"), refusal("refused", 503), refusal("refused", 429));
  source.add("a");
  const working = start();
  await clock.advance(3_000);
  assert.equal((await working).completed, 1);
  assert.equal(events.filter(({ event }) => event === "trouble").length, 3);
});

test("a claim that is refused for good ends everything", async () => {
  const { source, start } = setup({ concurrency: 2 });
  source.claimFaults.push(refusal("denied", 401));
  await assert.rejects(start(), /refused 401/);
});

test("an end that the server did not hear is told again, and one it refuses is not", async () => {
  const { source, start, clock, events } = setup({ tasksMax: 2 });
  source.finishFaults.push(refusal("unreachable"), refusal("refused", 507));
  source.add("a");
  const working = start();
  await clock.advance(2_000);
  assert.deepEqual(source.ended, [["a", "completed"]]);
  source.finishFaults.push(refusal("denied", 403));
  source.add("b");
  assert.deepEqual(await working, { completed: 1, others: 1 });
  assert.equal(events.at(-1)?.event, "lost");
  assert.equal(source.ended.length, 1);
});

test("a run that throws is tried again later", async () => {
  const run: WorkOptions["run"] = () => Promise.reject(new Error("boom"));
  const { source, start, events } = setup({ tasksMax: 1, run });
  source.add("a");
  await start();
  assert.deepEqual(source.ended, [["a", "retry"]]);
  const last = events.at(-1);
  assert.equal(last?.event === "ended" && last.why, "boom");
});
