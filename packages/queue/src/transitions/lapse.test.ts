import assert from "node:assert/strict";
import { test } from "node:test";
import {
  leasedTask,
  newTask,
  nobody,
  policy,
  retention,
  taskIn,
  worker,
} from "../../test/build-task.ts";
import { violations } from "../../test/invariants.ts";
import { noExtras } from "../task.ts";
import { edit } from "./edit.ts";
import { lapse, startByMsOf } from "./end-unfinished.ts";
import { enqueue } from "./enqueue.ts";
import { abandon, nack, release } from "./give-back.ts";

const extras = { ...noExtras, ttlMs: 4000, startByMs: 9000 };
const at = { nowMs: 9000, retention };
const back = { nowMs: 9000, seq: 50, draw: 0.5, policy, retention };

test("a task that nobody began in time ends as failed, by nobody", () => {
  for (const where of ["ready", "delayed"] as const) {
    const outcome = lapse(taskIn(where, { extras, error: "older" }), at);
    assert.ok(outcome.ok);
    assert.deepEqual(violations(outcome.value), []);
    assert.equal(outcome.value.error, "EXPIRED");
    assert.deepEqual(outcome.value.place, {
      in: "done",
      how: "failed",
      workerId: nobody,
      startedMs: 9000,
      atMs: 9000,
      expiresMs: 86_409_000,
    });
  }
});

test("a task does not lapse before its time, without one, or where it does not wait", () => {
  const early = { ...at, nowMs: 8999 };
  assert.equal(lapse(taskIn("ready", { extras }), early).ok, false);
  assert.equal(lapse(taskIn("ready"), at).ok, false);
  for (const where of ["leased", "dead", "done"] as const) {
    assert.deepEqual(lapse(taskIn(where, { extras }), at), { ok: false, code: "not_lapsed" });
  }
});

test("the time to live counts from when the task can be claimed", () => {
  const asked = newTask({ extras: { ...noExtras, ttlMs: 4000 } });
  const from = { id: taskIn("ready").id, nowMs: 1000, seq: 1, keepsPayload: true };
  assert.equal(startByMsOf(enqueue(asked, from)), 5000);
  assert.equal(startByMsOf(enqueue({ ...asked, visibleMs: 3000 }, from)), 7000);
  assert.equal(startByMsOf(enqueue({ ...asked, visibleMs: 500 }, from)), 5000);
});

test("another time moves the end of the time to live with it", () => {
  const moved = (dueMs: number | undefined): number | undefined => {
    const outcome = edit(taskIn("ready", { extras }), { dueMs }, { nowMs: 6000, seq: 50 });
    return outcome.ok ? startByMsOf(outcome.value) : undefined;
  };
  assert.deepEqual([moved(undefined), moved(0), moved(8000)], [9000, 10_000, 12_000]);
});

test("a task that a worker has had lapses no more; one that reached no worker still does", () => {
  const leased = leasedTask({ extras });
  const owner = { workerId: worker };
  const nacked = nack(leased, owner, { delaySeconds: 0, reason: "x" }, back);
  assert.equal(nacked.ok && startByMsOf(nacked.value.task), undefined);
  const handedBack = abandon(leased, owner, { interrupted: true }, back);
  assert.equal(handedBack.ok && startByMsOf(handedBack.value.task), undefined);
  const released = release(leased, owner, back);
  assert.equal(released.ok && startByMsOf(released.value), 9000);
});
