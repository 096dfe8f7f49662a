import assert from "node:assert/strict";
import { test } from "node:test";
import { policy, retention, taskIn, worker } from "../test/build-task.ts";
import { violations } from "../test/invariants.ts";
import { attemptsKeptMax, attemptsOf } from "./attempts.ts";
import type { Task } from "./task.ts";
import { claim, promote } from "./transitions/claim.ts";
import { complete } from "./transitions/complete.ts";
import { cancel } from "./transitions/end-unfinished.ts";
import { extendLease } from "./transitions/extend-lease.ts";
import { abandon, expireLease, nack, release } from "./transitions/give-back.ts";

const by = { workerId: worker };
const at = { nowMs: 9000, seq: 50, draw: 0.5, policy, retention };

function claimed(task: Task, nowMs = 5000): Task {
  const outcome = claim(task, { workerId: worker, leaseMs: 30_000 }, nowMs);
  assert.ok(outcome.ok);
  return outcome.value;
}

function fresh(): Task {
  return claimed(taskIn("ready", { attempts: 0, leaseToken: 0, maxAttempts: 100 }));
}

function last(task: Task) {
  assert.deepEqual(violations(task), []);
  return attemptsOf(task).at(-1);
}

const known = { workerId: worker, leaseToken: 1, startedMs: 5000, stack: "" };

test("an attempt that came back is kept with who had it, when, how it ended and the delay", () => {
  const outcomes = [
    [nack(fresh(), by, { delaySeconds: 7, reason: "jam" }, at), "nacked", "jam", 7000],
    [abandon(fresh(), by, { interrupted: false }, at), "abandoned", "", 0],
    [abandon(fresh(), by, { interrupted: true }, at), "interrupted", "", 0],
    [
      expireLease(fresh(), { ...at, ranMs: 0, policy: { ...policy, backoff: "fixed" } }),
      "expired",
      "",
      5000,
    ],
  ] as const;
  for (const [returned, outcome, error, delayMs] of outcomes) {
    assert.ok(returned.ok);
    const { task } = returned.value;
    assert.deepEqual(last(task), { ...known, endedMs: 9000, outcome, error, delayMs });
  }
  const released = release(fresh(), by, at);
  assert.equal(released.ok && last(released.value)?.outcome, "unsent");
  const cancelled = cancel(fresh(), { ...at, graceMs: 0 });
  assert.equal(cancelled.ok && last(cancelled.value)?.outcome, "cancelled");
});

test("the attempt under way, and the one that ended in a result, follow from the place", () => {
  const extended = extendLease(fresh(), by, {
    nowMs: 8000,
    leaseMs: 60_000,
    ranMs: 3000,
    leftMs: 0,
  });
  assert.ok(extended.ok);
  const open = { endedMs: undefined, error: "", delayMs: 0 };
  assert.deepEqual(attemptsOf(extended.value), [{ ...known, ...open, outcome: "running" }]);
  assert.equal(extended.value.trail, undefined);
  const submission = { how: "failed", error: "no", result: { json: "", artifacts: [] } } as const;
  const request = { ...submission, resultBytes: 0 };
  const done = complete(extended.value, by, request, { nowMs: 9000, retention, keepsResult: true });
  assert.ok(done.ok);
  const end = { endedMs: 9000, outcome: "failed", error: "no", delayMs: 0 } as const;
  assert.deepEqual(last(done.value), { ...known, ...end });
  assert.equal(done.value.trail, undefined);
});

test("the newest attempts are kept, and errors are cut to their beginning", () => {
  let task = taskIn("ready", { attempts: 0, leaseToken: 0, maxAttempts: 100 });
  const reason = "x".repeat(5000);
  for (let n = 0; n < attemptsKeptMax + 5; n++) {
    const back = nack(claimed(task), by, { delaySeconds: 0, reason }, { ...at, draw: 0 });
    assert.ok(back.ok);
    task = { ...back.value.task, place: { in: "ready", seq: n } };
  }
  const tokens = attemptsOf(task).map(({ leaseToken }) => leaseToken);
  assert.deepEqual(
    tokens,
    Array.from({ length: attemptsKeptMax }, (_, n) => n + 6),
  );
  assert.equal(last(task)?.error.length, 200);
});

test("a task that nobody ever had has none", () => {
  for (const where of ["ready", "delayed"] as const) {
    assert.deepEqual(attemptsOf(taskIn(where)), []);
  }
  const ended = cancel(taskIn("ready"), { ...at, graceMs: 0 });
  assert.ok(ended.ok);
  assert.deepEqual(attemptsOf(ended.value), []);
});

test("the newest attempts keep their stacks, and an attempt that failed for good is there once", () => {
  let task = fresh();
  for (let n = 1; n <= 5; n += 1) {
    const back = nack(task, by, { delaySeconds: 0, reason: "jam", stack: `at ${n}` }, at);
    assert.ok(back.ok);
    const ready = promote(back.value.task, { nowMs: 90_000, seq: 51 });
    assert.ok(ready.ok);
    task = claimed(ready.value, 90_000);
  }
  const stacks = (of: Task): string[] => attemptsOf(of).map(({ stack }) => stack);
  assert.deepEqual(stacks(task), ["", "", "at 3", "at 4", "at 5", ""]);
  const submission = { how: "failed", error: "gone", result: { json: "", artifacts: [] } } as const;
  const request = { ...submission, stack: "at 6", resultBytes: 0 };
  const failed = complete(task, by, request, { nowMs: 9000, retention, keepsResult: true });
  assert.ok(failed.ok);
  assert.deepEqual(stacks(failed.value), ["", "", "", "at 4", "at 5", "at 6"]);
  assert.equal(last(failed.value)?.outcome, "failed");
});
