import assert from "node:assert/strict";
import { test } from "node:test";
import { taskIn, worker } from "../test/build-task.ts";
import { emptyResult, resultOf } from "./result.ts";

test("a dead task leaves a failed result with its error and attempts", () => {
  const task = taskIn("dead", { error: "out of paper" });
  assert.deepEqual(resultOf(task, emptyResult), {
    taskId: task.id,
    status: "FAILED",
    resultJson: "",
    error: "out of paper",
    artifacts: [],
    attempts: 5,
    completedMs: 2000,
  });
});

test("a finished task leaves what its worker gave back, and how it ended", () => {
  const artifacts = [{ name: "page.pdf", url: "file:///page.pdf" }];
  const body = { json: '{"pages":1}', artifacts };
  for (const [how, status] of [
    ["completed", "COMPLETED"],
    ["failed", "FAILED"],
  ] as const) {
    const place = {
      in: "done",
      how,
      workerId: worker,
      startedMs: 1,
      atMs: 2000,
      expiresMs: 3000,
    } as const;
    const task = taskIn("done", { place, error: "one page skipped" });
    assert.deepEqual(resultOf(task, body), {
      taskId: task.id,
      status,
      resultJson: '{"pages":1}',
      error: "one page skipped",
      artifacts,
      attempts: 1,
      completedMs: 2000,
    });
  }
});

test("a task that has not ended has no result", () => {
  for (const where of ["ready", "delayed", "leased"] as const) {
    assert.equal(resultOf(taskIn(where), emptyResult), undefined);
  }
});
