import assert from "node:assert/strict";
import { test } from "node:test";
import {
  leasedTask,
  nobody,
  oneAttempt,
  otherWorker,
  retention,
  taskIn,
  worker,
} from "../../test/build-task.ts";
import type { Task } from "../task.ts";
import { claim } from "./claim.ts";
import type { Returned } from "./give-back.ts";
import { abandon } from "./give-back.ts";

const at = { nowMs: 10_000, seq: 50, retention };

function abandoned(task: Task, interrupted: boolean): Returned {
  const outcome = abandon(task, { workerId: worker }, { interrupted }, at);
  assert.ok(outcome.ok);
  return outcome.value;
}

function again(task: Task): Task {
  const claimed = claim(task, { workerId: worker, leaseMs: 1000 }, 10_000);
  assert.ok(claimed.ok);
  return claimed.value;
}

test("an abandoned task is ready at once at the back of its queue and counts", () => {
  const task = leasedTask({ error: "older" });
  assert.deepEqual(abandoned(task, false), {
    task: {
      ...task,
      attempts: 2,
      updatedMs: 10_000,
      place: { in: "ready", seq: 50 },
      trail: oneAttempt({ outcome: "abandoned" }),
    },
    buried: false,
    delaySeconds: 0,
  });
});

test("the last abandon buries the task", () => {
  const task = leasedTask({ attempts: 4, leaseToken: 5, error: "older" });
  const returned = abandoned(task, false);
  assert.equal(returned.buried, true);
  assert.equal(returned.task.attempts, 5);
  assert.equal(returned.task.error, "MAX_ATTEMPTS");
  assert.deepEqual(returned.task.place, { in: "dead", atMs: 10_000, expiresMs: 604_810_000 });
});

test("an interrupted worker hands its task back without counting an attempt", () => {
  const task = leasedTask();
  assert.deepEqual(abandoned(task, true), {
    task: {
      ...task,
      handBacks: 1,
      updatedMs: 10_000,
      place: { in: "ready", seq: 50 },
      trail: oneAttempt({ outcome: "interrupted" }),
    },
    buried: false,
    delaySeconds: 0,
  });
});

test("an interrupted hand-back does not bury a task on its last attempt", () => {
  const returned = abandoned(leasedTask({ attempts: 4, leaseToken: 5 }), true);
  assert.equal(returned.buried, false);
  assert.equal(returned.task.attempts, 4);
});

test("three hand-backs in a row are free, the fourth counts and starts a new row", () => {
  let task = leasedTask({ attempts: 0, leaseToken: 1 });
  const seen: [attempts: number, handBacks: number][] = [];
  for (let round = 0; round < 8; round++) {
    const returned = abandoned(task, true).task;
    seen.push([returned.attempts, returned.handBacks]);
    task = again(returned);
  }
  assert.deepEqual(seen, [
    [0, 1],
    [0, 2],
    [0, 3],
    [1, 0],
    [1, 1],
    [1, 2],
    [1, 3],
    [2, 0],
  ]);
});

test("the fourth hand-back in a row can bury the task", () => {
  const returned = abandoned(leasedTask({ attempts: 4, handBacks: 3, leaseToken: 8 }), true);
  assert.equal(returned.buried, true);
  assert.equal(returned.task.error, "MAX_ATTEMPTS");
});

test("a counted abandon in between ends the row of free hand-backs", () => {
  const task = again(abandoned(leasedTask({ handBacks: 2, leaseToken: 4 }), false).task);
  assert.equal(task.handBacks, 0);
  assert.equal(abandoned(task, true).task.handBacks, 1);
});

test("whoever does not own the lease cannot abandon it, interrupted or not", () => {
  const notOwner = { ok: false, code: "not_owner" };
  for (const interrupted of [false, true]) {
    const tries = [
      { workerId: otherWorker },
      { workerId: nobody },
      { workerId: worker, leaseToken: 1 },
      { workerId: otherWorker, leaseToken: 2 },
    ];
    for (const by of tries) {
      assert.deepEqual(abandon(leasedTask(), by, { interrupted }, at), notOwner);
    }
  }
});

test("a task that is not leased cannot be abandoned, interrupted or not", () => {
  for (const where of ["ready", "delayed", "dead", "done"] as const) {
    for (const interrupted of [false, true]) {
      const refused = abandon(taskIn(where), { workerId: worker }, { interrupted }, at);
      assert.deepEqual(refused, { ok: false, code: "not_in_progress" });
    }
  }
});
