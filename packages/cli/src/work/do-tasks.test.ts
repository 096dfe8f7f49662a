import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { task } from "@codeq/client";
import { testServer } from "@codeq/client/testing";
import {
  doTasks,
  type RunEnd,
  type RunnableTask,
  type WorkEvent,
  type WorkOptions,
  type WorkSummary,
} from "./do-tasks.ts";

const done: RunEnd = { as: "completed", result: "{}" };

async function setup(t: TestContext, options: Partial<WorkOptions> = {}) {
  const server = await testServer();
  t.after(() => server.close());
  const stop = new AbortController();
  const events: WorkEvent[] = [];
  const start = (more: Partial<WorkOptions> = {}): Promise<WorkSummary> =>
    doTasks({
      client: server.newClient(),
      commands: ["x"],
      run: async () => done,
      clock: { monotonicMs: () => Number(server.now) },
      concurrency: 1,
      leaseMs: 60_000,
      graceMs: 10_000,
      tasksMax: undefined,
      stopped: stop.signal,
      report: (event) => void events.push(event),
      ...options,
      ...more,
    });
  const enqueue = (name: string, input: unknown = {}) =>
    server.client.enqueue(task(name, { retry: { maxAttempts: 2 } }), input);
  const ended = () =>
    events.flatMap((event) => (event.event === "ended" ? [[event.as, event.why]] : []));
  return { server, stop, events, ended, start, enqueue };
}

/** Runs that end when the test says so, or when they are told to stop. */
function longRuns() {
  const runs: ((end: RunEnd) => void)[] = [];
  const run = ({ signal }: RunnableTask): Promise<RunEnd> =>
    new Promise((resolve) => {
      runs.push(resolve);
      signal.addEventListener("abort", () => resolve({ as: "retry", reason: "stopped" }));
    });
  return { run, runs };
}

test("tasks of several queues are done, up to the number that was asked for", async (t) => {
  const { server, start, enqueue } = await setup(t, { commands: ["x", "y", "X"], tasksMax: 2 });
  for (const name of ["x", "Y", "x"]) await enqueue(name);
  const working = start();
  await server.advance(0);
  assert.deepEqual(await working, { completed: 2, others: 0 });
  assert.equal(server.counts("x").ready + server.counts("y").ready, 1);
});

test("a run gets the payload as it was sent, and its result is kept as it is", async (t) => {
  const seen: string[] = [];
  const result = '{"digits":12345678901234567890}';
  const run = async ({ payloadText }: RunnableTask): Promise<RunEnd> => {
    seen.push(payloadText);
    return { as: "completed", result };
  };
  const { server, start, enqueue } = await setup(t, { run, tasksMax: 1 });
  const { id } = await enqueue("x", { a: 1 });
  const working = start();
  await server.advance(0);
  await working;
  assert.deepEqual(seen, ['{"a":1}']);
  const kept = await server.client.run(task("x"), id).result();
  assert.deepEqual(kept, JSON.parse(result));
});

test("several tasks run at a time, and no more than allowed", async (t) => {
  const long = longRuns();
  const { server, start, enqueue } = await setup(t, {
    run: long.run,
    concurrency: 3,
    tasksMax: 5,
  });
  for (let n = 0; n < 6; n += 1) await enqueue("x");
  const working = start();
  await server.advance(0);
  assert.equal(long.runs.length, 3);
  for (const end of long.runs.splice(0)) end(done);
  await server.advance(0);
  assert.equal(long.runs.length, 2);
  for (const end of long.runs) end(done);
  await server.advance(0);
  assert.deepEqual(await working, { completed: 5, others: 0 });
});

test("every end is told once, in the server's words and with the reason", async (t) => {
  const ends: RunEnd[] = [
    { as: "retry", reason: "exit code 7" },
    { as: "retry", reason: "exit code 8" },
    { as: "failed", error: "no such file" },
    done,
  ];
  const run = async (): Promise<RunEnd> => ends.shift() ?? done;
  const { server, start, enqueue, ended, events } = await setup(t, { run, tasksMax: 5 });
  const working = start();
  const dead = await enqueue("x");
  await server.runUntilIdle();
  const failed = await enqueue("x");
  await server.runUntilIdle();
  await enqueue("x");
  await enqueue("x");
  await server.runUntilIdle();
  assert.deepEqual(await working, { completed: 2, others: 3 });
  assert.deepEqual(ended(), [
    ["requeued", "exit code 7"],
    ["dlq", "exit code 8"],
    ["failed", "no such file"],
    ["completed", undefined],
    ["completed", undefined],
  ]);
  assert.equal(events.filter(({ event }) => event === "claimed").length, 5);
  await assert.rejects(dead.result(), { reason: "exit code 8" });
  await assert.rejects(failed.result(), { reason: "no such file" });
});

test("a run that throws is tried again later", async (t) => {
  const run = () => Promise.reject(new Error("boom"));
  const { server, start, enqueue, ended } = await setup(t, { run, tasksMax: 1 });
  const working = start();
  await enqueue("x");
  await server.advance(0);
  await working;
  assert.deepEqual(ended(), [["requeued", "boom"]]);
});

test("a stop ends the waiting at once", async (t) => {
  const { server, stop, start } = await setup(t, { concurrency: 4 });
  const working = start();
  await server.advance(0);
  stop.abort();
  await server.advance(0);
  assert.deepEqual(await working, { completed: 0, others: 0 });
});

test("what runs at a stop may finish within the grace", async (t) => {
  const long = longRuns();
  const { server, stop, start, enqueue, events } = await setup(t, { run: long.run });
  await enqueue("x");
  await enqueue("x");
  const working = start();
  await server.advance(0);
  stop.abort();
  assert.deepEqual(events.at(-1), { event: "stopping", running: 1 });
  await server.advance("9s");
  long.runs[0]?.(done);
  await server.advance(0);
  assert.deepEqual(await working, { completed: 1, others: 0 });
  assert.deepEqual([long.runs.length, server.counts("x").ready], [1, 1]);
});

test("what does not finish within the grace is handed back, and no attempt is counted", async (t) => {
  const long = longRuns();
  const { server, stop, start, enqueue, ended } = await setup(t, { run: long.run });
  await enqueue("x");
  const working = start();
  await server.advance(0);
  stop.abort();
  await server.advance("10s");
  assert.deepEqual(await working, { completed: 0, others: 1 });
  assert.deepEqual(ended(), [["requeued", undefined]]);
  const attempts: number[] = [];
  server.client.worker(task("x").handle((_input, { attempt }) => void attempts.push(attempt)));
  await server.advance(0);
  assert.deepEqual(attempts, [1]);
});

test("a connection that breaks is trouble, and the end is told all the same", async (t) => {
  const { server, start, enqueue, ended, events } = await setup(t, { tasksMax: 1 });
  await enqueue("x");
  server.loseResponse("result");
  const working = start();
  await server.advance("1s");
  assert.deepEqual(await working, { completed: 1, others: 0 });
  const told = events.map(({ event }) => event).filter((event) => event !== "claimed");
  assert.deepEqual(told, ["trouble", "connected", "ended"]);
  assert.deepEqual(ended(), [["completed", undefined]]);
});

test("what stays wrong is told once, and that it is over", async (t) => {
  const { server, stop, start, events } = await setup(t);
  let asked = 0;
  const token = (): string => {
    asked += 1;
    if (asked < 5) throw new Error("no token yet");
    return "dev-token";
  };
  const working = start({ client: server.newClient({ token }) });
  for (let second = 0; second < 10; second++) await server.advance("1s");
  assert.ok(asked >= 5);
  stop.abort();
  await working;
  const why = "the function that gives the token failed: no token yet; trying again";
  assert.deepEqual(events, [{ event: "trouble", why }, { event: "connected" }]);
});
