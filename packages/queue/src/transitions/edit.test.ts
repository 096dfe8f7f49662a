import assert from "node:assert/strict";
import { test } from "node:test";
import { taskIn } from "../../test/build-task.ts";
import { violations } from "../../test/invariants.ts";
import type { Task } from "../task.ts";
import { type Edit, edit } from "./edit.ts";

const at = { nowMs: 5000, seq: 50 };

function edited(task: Task, wanted: Edit): Task {
  const outcome = edit(task, wanted, at);
  assert.ok(outcome.ok);
  assert.deepEqual(violations(outcome.value), []);
  return outcome.value;
}

test("another priority or another queue sends a ready task to the back", () => {
  const task = taskIn("ready");
  const back = { in: "ready", seq: 50 } as const;
  assert.deepEqual(edited(task, { priority: 9 }), {
    ...task,
    priority: 9,
    updatedMs: 5000,
    place: back,
  });
  assert.deepEqual(edited(task, { command: "print" }), {
    ...task,
    command: "print",
    updatedMs: 5000,
    place: back,
  });
  assert.equal(edited(task, { priority: 99 }).priority, 9);
});

test("another payload, or another spelling of the command, costs a task nothing of its turn", () => {
  for (const where of ["ready", "delayed"] as const) {
    const task = taskIn(where);
    const long = { text: "[1]", bytes: 3, isKept: false };
    assert.equal(edited(task, { payload: long }).place, task.place);
    assert.deepEqual(
      [edited(task, { payload: long }).payload, edited(task, { payload: long }).storedBytes],
      [undefined, 3],
    );
    assert.equal(edited(task, { payload: { ...long, isKept: true } }).payload, "[1]");
    assert.equal(edited(task, { command: "RENDER" }).place, task.place);
    assert.equal(edited(task, { command: "RENDER" }).command, "RENDER");
  }
});

test("a task is put off, brought forward, or made ready at once", () => {
  for (const where of ["ready", "delayed"] as const) {
    assert.deepEqual(edited(taskIn(where), { dueMs: 7000 }).place, { in: "delayed", dueMs: 7000 });
  }
  assert.deepEqual(edited(taskIn("delayed"), { dueMs: 5000 }).place, { in: "ready", seq: 50 });
  const ready = taskIn("ready");
  assert.equal(edited(ready, { dueMs: 5000 }), ready);
});

test("a delayed task keeps its time in another queue, and is ready when it has passed", () => {
  const moved = edited(taskIn("delayed"), { command: "print", priority: 1 });
  assert.deepEqual([moved.command, moved.place], ["print", { in: "delayed", dueMs: 9000 }]);
  const late = taskIn("delayed", { place: { in: "delayed", dueMs: 4000 } });
  assert.deepEqual(edited(late, { priority: 1 }).place, { in: "ready", seq: 50 });
});

test("what changes nothing is the same task", () => {
  const task = taskIn("delayed");
  assert.equal(edited(task, {}), task);
  assert.equal(edited(task, { priority: 4, command: "Render", dueMs: 9000 }), task);
});

test("a task that a worker has, or that has ended, is not edited", () => {
  for (const where of ["leased", "dead", "done"] as const) {
    assert.deepEqual(edit(taskIn(where), { priority: 1 }, at), { ok: false, code: "not_waiting" });
  }
});
