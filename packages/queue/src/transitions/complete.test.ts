import assert from "node:assert/strict";
import { test } from "node:test";
import {
  leasedTask,
  nobody,
  otherWorker,
  placeNames,
  retention,
  taskIn,
  worker,
} from "../../test/build-task.ts";
import type { Owner } from "../owner.ts";
import { complete, isRepeat } from "./complete.ts";

const at = { nowMs: 10_000, retention, keepsResult: true };
const result = { json: '{"pages":1}', artifacts: [] };
const success = { how: "completed", error: "", result, resultBytes: 11 } as const;

test("a completed task is done and kept for its time", () => {
  const task = leasedTask();
  assert.deepEqual(complete(task, { workerId: worker, leaseToken: 2 }, success, at), {
    ok: true,
    value: {
      ...task,
      updatedMs: 10_000,
      storedBytes: 31,
      result,
      place: {
        in: "done",
        how: "completed",
        workerId: worker,
        startedMs: 2000,
        atMs: 10_000,
        expiresMs: 86_410_000,
      },
    },
  });
});

test("a result that is kept apart does not travel with the task, and counts all the same", () => {
  const apart = { ...at, keepsResult: false };
  const done = complete(leasedTask(), { workerId: worker }, success, apart);
  assert.ok(done.ok);
  assert.equal(done.value.result, undefined);
  assert.equal(done.value.storedBytes, 31);
});

test("a failed task is done too, with the worker's error and no attempt counted", () => {
  const failed = complete(
    leasedTask(),
    { workerId: worker },
    { ...success, how: "failed", error: "jam" },
    at,
  );
  assert.ok(failed.ok && failed.value.place.in === "done");
  assert.equal(failed.value.place.how, "failed");
  assert.equal(failed.value.error, "jam");
  assert.equal(failed.value.attempts, 1);
});

test("completing drops the error of an earlier attempt", () => {
  const done = complete(leasedTask({ error: "older" }), { workerId: worker }, success, at);
  assert.equal(done.ok && done.value.error, "");
});

test("completing keeps an error that the worker sends along", () => {
  const request = { ...success, error: "one page skipped" };
  const done = complete(leasedTask({ error: "older" }), { workerId: worker }, request, at);
  assert.equal(done.ok && done.value.error, "one page skipped");
});

test("a lease that has run out but was not taken back still accepts its own worker", () => {
  const late = { ...at, nowMs: 1_000_000 };
  assert.equal(complete(leasedTask(), { workerId: worker }, success, late).ok, true);
});

test("whoever does not own the lease cannot finish the task", () => {
  const strangers: Owner[] = [
    { workerId: otherWorker },
    { workerId: otherWorker, leaseToken: 2 },
    { workerId: nobody },
    { workerId: nobody, leaseToken: 2 },
    { workerId: worker, leaseToken: 1 },
    { workerId: worker, leaseToken: 3 },
  ];
  for (const by of strangers) {
    for (const how of ["completed", "failed"] as const) {
      const refused = complete(leasedTask(), by, { ...success, how, error: "jam" }, at);
      assert.deepEqual(refused, { ok: false, code: "not_owner" });
    }
  }
});

test("a task that is not leased cannot be finished, even by the worker that finished it", () => {
  for (const where of ["ready", "delayed", "dead", "done"] as const) {
    const refused = complete(taskIn(where), { workerId: worker, leaseToken: 2 }, success, at);
    assert.deepEqual(refused, { ok: false, code: "not_in_progress" });
  }
});

test("the same worker with the same word repeats itself", () => {
  const done = taskIn("done");
  assert.equal(isRepeat(done, { workerId: worker }, "completed"), true);
  assert.equal(isRepeat(done, { workerId: worker, leaseToken: undefined }, "completed"), true);
  assert.equal(isRepeat(done, { workerId: worker, leaseToken: 2 }, "completed"), true);
});

test("a submit is a repeat right after it was accepted, for both words", () => {
  for (const how of ["completed", "failed"] as const) {
    const done = complete(
      leasedTask(),
      { workerId: worker },
      { ...success, how, error: "jam" },
      at,
    );
    assert.ok(done.ok);
    assert.equal(isRepeat(done.value, { workerId: worker, leaseToken: 2 }, how), true);
  }
});

test("another word, another worker or another token is no repeat", () => {
  const done = taskIn("done");
  assert.equal(isRepeat(done, { workerId: worker }, "failed"), false);
  assert.equal(isRepeat(done, { workerId: otherWorker }, "completed"), false);
  assert.equal(isRepeat(done, { workerId: otherWorker, leaseToken: 2 }, "completed"), false);
  assert.equal(isRepeat(done, { workerId: worker, leaseToken: 1 }, "completed"), false);
  assert.equal(isRepeat(done, { workerId: worker, leaseToken: 3 }, "completed"), false);
});

test("a worker without a name repeats nothing", () => {
  const place = {
    in: "done",
    how: "completed",
    workerId: nobody,
    startedMs: 1000,
    atMs: 2000,
    expiresMs: 3000,
  } as const;
  assert.equal(isRepeat(taskIn("done", { place }), { workerId: nobody }, "completed"), false);
});

test("a task that no worker finished has nothing to repeat", () => {
  for (const where of placeNames.filter((name) => name !== "done")) {
    for (const how of ["completed", "failed"] as const) {
      assert.equal(isRepeat(taskIn(where), { workerId: worker }, how), false);
    }
  }
});
