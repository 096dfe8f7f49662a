import assert from "node:assert/strict";
import { test } from "node:test";
import { leasedTask, nobody, otherWorker, taskIn, worker } from "../test/build-task.ts";
import { checkOwner, type LeasedTask } from "./owner.ts";

const notOwner = { ok: false, code: "not_owner" };
const notInProgress = { ok: false, code: "not_in_progress" };

test("the worker that claimed the task owns it", () => {
  const task = leasedTask();
  assert.deepEqual(checkOwner(task, { workerId: worker }), { ok: true, value: task });
  assert.deepEqual(checkOwner(task, { workerId: worker, leaseToken: undefined }), {
    ok: true,
    value: task,
  });
});

test("the token of the latest claim is accepted", () => {
  const task = leasedTask();
  assert.deepEqual(checkOwner(task, { workerId: worker, leaseToken: 2 }), {
    ok: true,
    value: task,
  });
});

test("another worker is refused, with any token or none", () => {
  const task = leasedTask();
  assert.deepEqual(checkOwner(task, { workerId: otherWorker }), notOwner);
  for (const leaseToken of [0, 1, 2, 3]) {
    assert.deepEqual(checkOwner(task, { workerId: otherWorker, leaseToken }), notOwner);
  }
});

test("an older or a newer token is refused even for the same worker", () => {
  for (const leaseToken of [0, 1, 3, -2, Number.NaN]) {
    assert.deepEqual(checkOwner(leasedTask(), { workerId: worker, leaseToken }), notOwner);
  }
});

test("a worker without a name owns nothing", () => {
  assert.deepEqual(checkOwner(leasedTask(), { workerId: nobody }), notOwner);
  assert.deepEqual(checkOwner(leasedTask(), { workerId: nobody, leaseToken: 2 }), notOwner);
});

test("a worker without a name does not own even a task that nobody leased", () => {
  const place: LeasedTask["place"] = {
    in: "leased",
    workerId: nobody,
    untilMs: 3000,
    leaseMs: 1000,
    sinceMs: 2000,
  };
  assert.deepEqual(checkOwner(leasedTask({ place }), { workerId: nobody }), notOwner);
});

test("worker names are compared exactly", () => {
  for (const name of ["Worker-A", "worker-a ", " worker-a", "worker-", "worker-aa"]) {
    assert.deepEqual(checkOwner(leasedTask(), { workerId: name as typeof worker }), notOwner);
  }
});

test("a task that is not leased is not in progress for anybody", () => {
  for (const where of ["ready", "delayed", "dead", "done"] as const) {
    for (const workerId of [worker, otherWorker, nobody]) {
      assert.deepEqual(checkOwner(taskIn(where), { workerId }), notInProgress);
      assert.deepEqual(checkOwner(taskIn(where), { workerId, leaseToken: 2 }), notInProgress);
    }
  }
});
