import assert from "node:assert/strict";
import { test } from "node:test";
import { leasedTask, policy, retention, worker } from "../../test/build-task.ts";
import { violations } from "../../test/invariants.ts";
import type { Task } from "../task.ts";
import { complete } from "./complete.ts";
import { extendLease, reportLimits, withReport } from "./extend-lease.ts";
import { nack } from "./give-back.ts";

const by = { workerId: worker };

function told(task: Task, nowMs: number, percent: number, ...lines: string[]): Task {
  const report = { progress: { percent, text: "pages" }, lines };
  const outcome = extendLease(task, by, { nowMs, leaseMs: 30_000, ranMs: 0, leftMs: 0, report });
  assert.ok(outcome.ok);
  assert.deepEqual(violations(outcome.value), []);
  return outcome.value;
}

test("what a worker says is kept with the task, and stays when it is done", () => {
  const task = told(told(leasedTask(), 5000, 10, "began"), 6000, 20, "went on");
  assert.deepEqual(task.trail, {
    attempts: [],
    progress: { percent: 20, text: "pages", atMs: 6000 },
    logs: [
      { atMs: 5000, text: "began" },
      { atMs: 6000, text: "went on" },
    ],
  });
  const result = { json: "{}", artifacts: [] };
  const submission = { how: "completed", error: "", result, resultBytes: 2 } as const;
  const done = complete(task, by, submission, { nowMs: 7000, retention, keepsResult: true });
  assert.equal(done.ok && done.value.trail, task.trail);
});

test("the next attempt begins without progress, and the lines stay", () => {
  const at = { nowMs: 9000, seq: 50, draw: 0.5, policy, retention };
  const back = nack(told(leasedTask(), 5000, 50, "x"), by, { delaySeconds: 1, reason: "" }, at);
  assert.ok(back.ok);
  assert.equal(back.value.task.trail?.progress, undefined);
  assert.equal(back.value.task.trail?.logs.length, 1);
});

test("a heartbeat that says nothing keeps nothing", () => {
  const outcome = extendLease(leasedTask(), by, {
    nowMs: 5000,
    leaseMs: 30_000,
    ranMs: 0,
    leftMs: 0,
  });
  assert.equal(outcome.ok && outcome.value.trail, undefined);
});

test("reports are bounded in size, number and rate", () => {
  const long = "x".repeat(10_000);
  const report = { progress: { percent: 1, text: long }, lines: [long] };
  const first = withReport(undefined, report, 1000);
  assert.equal(first?.progress?.text.length, reportLimits.textCharsMax);
  assert.equal(first?.logs[0]?.text.length, reportLimits.lineCharsMax);
  assert.equal(withReport(first, report, 1000 + reportLimits.betweenMs - 1), first);
  assert.notEqual(withReport(first, report, 1000 + reportLimits.betweenMs), first);
  // A clock that was set back stops nobody.
  assert.notEqual(withReport(first, report, 500), first);
  const lines = Array.from({ length: 200 }, (_, n) => `line ${n}`);
  const many = withReport(first, { progress: undefined, lines }, 9000);
  assert.equal(many?.logs.length, reportLimits.linesMax);
  assert.equal(many?.logs.at(-1)?.text, "line 199");
  const wide = withReport(first, { progress: undefined, lines: lines.map(() => long) }, 9000);
  assert.equal(wide?.logs.length, 8);
});
