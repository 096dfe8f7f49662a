import assert from "node:assert/strict";
import { test } from "node:test";
import { taskIn } from "../test/build-task.ts";
import { buriedResult } from "./result.ts";

test("a dead task leaves a failed result with its error and attempts", () => {
  const task = taskIn("dead", { error: "out of paper" });
  assert.deepEqual(buriedResult(task), {
    taskId: task.id,
    status: "FAILED",
    resultJson: "",
    error: "out of paper",
    artifacts: [],
    attempts: 5,
    completedMs: 2000,
  });
});

test("asking for the burial of a task that is not dead is a bug", () => {
  for (const where of ["ready", "delayed", "leased", "done"] as const) {
    assert.throws(() => buriedResult(taskIn(where)), /no burial/);
  }
});
