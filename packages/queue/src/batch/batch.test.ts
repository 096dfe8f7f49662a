import assert from "node:assert/strict";
import { test } from "node:test";
import { leasedTask, retention, taskIn } from "../../test/build-task.ts";
import type { Task, TaskId } from "../task.ts";
import {
  type BatchState,
  batchError,
  countMember,
  decideBatch,
  failedCallback,
  followCallback,
  heldAgain,
  newBatchState,
  releasedCallback,
} from "./batch.ts";

const spec = { failFast: false };
const sealed: BatchState = { ...newBatchState, phase: "sealed" };
const callback = taskIn("held", {
  batch: { id: "b1", isCallback: true, ended: undefined },
  leaseToken: 0,
});

function member(where: "ready" | "leased" | "dead" | "done", id = "m1"): Task {
  const batch = { id: "b1", isCallback: false, ended: undefined };
  return taskIn(where, { id: id as TaskId, batch });
}

test("a member is counted where it is, and a deleted member stays counted", () => {
  const created = countMember(spec, newBatchState, undefined, member("ready"));
  assert.deepEqual([created.total, created.pending], [1, 1]);
  assert.equal(countMember(spec, created, member("ready"), member("leased")), created);
  const ended = countMember(spec, created, member("leased"), member("done"));
  assert.deepEqual([ended.total, ended.pending, ended.succeeded], [1, 0, 1]);
  assert.equal(countMember(spec, ended, member("done"), undefined), ended);
});

test("a sealed batch is decided when nothing is pending, by its condition", () => {
  const failed = { ...sealed, total: 1, failed: 1 };
  assert.equal(decideBatch({ on: "success" }, newBatchState), undefined, "open");
  assert.equal(decideBatch({ on: "success" }, { ...sealed, pending: 1 }), undefined);
  assert.equal(decideBatch({ on: "success" }, sealed), "release");
  assert.equal(decideBatch({ on: "success" }, failed), "fail");
  assert.equal(decideBatch({ on: "success" }, { ...sealed, cancelled: 1 }), "fail");
  assert.equal(decideBatch({ on: "end" }, failed), "release");
  assert.equal(decideBatch({ on: "end" }, { ...failed, phase: "released" }), undefined);
});

test("failFast seals an open batch at its first failure, and cancels the rest", () => {
  const one = { ...newBatchState, total: 2, pending: 2 };
  const { phase, chore, failure } = countMember(
    { failFast: true },
    one,
    member("leased"),
    member("dead"),
  );
  assert.deepEqual([phase, chore, failure?.error], ["sealed", "cancel", "MAX_ATTEMPTS"]);
});

test("the replay of a failed member opens the decision again, unless the callback was released", () => {
  const failed: BatchState = { ...sealed, total: 1, failed: 1, phase: "failed", endedMs: 5 };
  const again = countMember(spec, failed, member("dead"), member("ready"));
  assert.deepEqual([again.phase, again.pending, again.endedMs], ["sealed", 1, 0]);
  const over = countMember(spec, { ...failed, phase: "released" }, member("dead"), member("ready"));
  assert.equal(over.phase, "released");
});

test("a released callback is ready and knows how the members ended", () => {
  const extras = { tags: [], timeoutMs: 0, ttlMs: 500, startByMs: 0 };
  const ended = { succeeded: 2, failed: 1, cancelled: 0 };
  const ready = releasedCallback({ ...callback, extras }, ended, { nowMs: 9000, seq: 4 });
  assert.deepEqual(ready.place, { in: "ready", seq: 4 });
  assert.deepEqual(ready.batch?.ended, ended);
  assert.equal(ready.extras?.startByMs, 9500, "its time to live counts from the release");
});

test("a callback that failed is a dead letter with the reason, and is held again only before it ran", () => {
  const failure = { taskId: "m1" as TaskId, error: "broken" };
  const why = batchError({ ...sealed, total: 3, failed: 1, cancelled: 1, failure });
  assert.equal(why, "BATCH_FAILED: 1 failed, 1 cancelled of 3; task m1: broken");
  const dead = failedCallback(callback, why, { nowMs: 9000, retention });
  assert.deepEqual([dead.place.in, dead.error], ["dead", why]);
  assert.deepEqual(heldAgain(dead, 9001).place, { in: "held" });
  const ran = { ...dead, leaseToken: 1 };
  assert.equal(heldAgain(ran, 9001), ran);
});

test("what happens to the callback changes the batch", () => {
  const cancelled = { ...callback, place: { ...taskIn("done").place, how: "cancelled" } } as Task;
  assert.equal(followCallback(sealed, callback, cancelled, 7).phase, "cancelled");
  assert.equal(followCallback(sealed, callback, undefined, 7).chore, "delete");
  const dead = { ...callback, place: taskIn("dead").place };
  const forced = followCallback({ ...sealed, phase: "failed" }, dead, taskIn("ready"), 7);
  assert.equal(forced.phase, "released");
  assert.equal(followCallback(sealed, leasedTask(), taskIn("done"), 7), sealed);
});
