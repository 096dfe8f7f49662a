import assert from "node:assert/strict";
import test from "node:test";
import { type Attempt, attemptNumber, type TaskRow } from "./model/tasks.ts";
import { lifeOf } from "./task-life.ts";

const at = (second: number): string => new Date(Date.UTC(2026, 0, 1) + second * 1000).toISOString();
const ms = (second: number): number => Date.parse(at(second));
const task: TaskRow = {
  id: "1",
  command: "render",
  status: "PENDING",
  lastKnownLocation: "PENDING_LIST",
  maxAttempts: 3,
  place: "ready",
  createdAt: at(0),
  updatedAt: at(0),
};

const shown = (of: TaskRow, second: number): string[] =>
  lifeOf(of, ms(second)).map(
    ({ place, fromMs, toMs, attempt, isBad }) =>
      `${place} ${(toMs - fromMs) / 1000}${attempt === undefined ? "" : ` #${attempt}`}${isBad === true ? " bad" : ""}`,
  );

test("a task that waits has been ready since it came", () => {
  assert.deepEqual(shown(task, 5), ["ready 5"]);
});

test("a callback that waits for its batch has been held since it came", () => {
  assert.deepEqual(shown({ ...task, place: "held" }, 5), ["held 5"]);
});

test("attempts, the delays behind them and what followed have their lengths", () => {
  const attemptHistory: readonly Attempt[] = [
    {
      workerId: "w",
      leaseToken: 1,
      startedAt: at(2),
      endedAt: at(32),
      outcome: "nacked",
      delaySeconds: 30,
    },
    { workerId: "w", leaseToken: 2, startedAt: at(63), endedAt: at(70), outcome: "completed" },
  ];
  const done: TaskRow = { ...task, place: "done", attemptHistory, endedAt: at(70) };
  assert.deepEqual(shown(done, 100), [
    "ready 2",
    "leased 30 #1 bad",
    "delayed 30",
    "ready 1",
    "leased 7 #2",
    "done 30",
  ]);
});

test("a task that failed, or was cancelled, does not end as done", () => {
  for (const place of ["failed", "dead", "cancelled"] as const) {
    assert.deepEqual(shown({ ...task, place, endedAt: at(3) }, 5), ["ready 3", `${place} 2`]);
  }
});

test("the attempt of the worker that has the task or has ended it counts", () => {
  assert.equal(attemptNumber(task), 0);
  assert.equal(attemptNumber({ ...task, attempts: 2 }), 2);
  assert.equal(attemptNumber({ ...task, place: "failed", attempts: 2, workerId: "w" }), 3);
});

test("one that runs lasts until now, and attempts that are not kept are counted", () => {
  const running: Attempt = {
    workerId: "w",
    leaseToken: 9,
    startedAt: at(10),
    outcome: "running",
  };
  const leased: TaskRow = {
    ...task,
    place: "leased",
    attemptHistory: [running],
    attemptsOmitted: 4,
  };
  assert.deepEqual(shown(leased, 15), ["ready 10", "leased 5 #5"]);
});
