import assert from "node:assert/strict";
import { test } from "node:test";
import { placeNames, taskIn, worker } from "../test/build-task.ts";
import { queueOf, statusOf } from "./task.ts";

test("the status follows from the place", () => {
  assert.deepEqual(
    placeNames.map((where) => statusOf(taskIn(where).place)),
    ["PENDING", "PENDING", "IN_PROGRESS", "FAILED", "COMPLETED"],
  );
  const failed = {
    in: "done",
    how: "failed",
    workerId: worker,
    startedMs: 0,
    atMs: 1,
    expiresMs: 2,
  } as const;
  assert.equal(statusOf(failed), "FAILED");
});

test("commands that differ only by case share a queue", () => {
  assert.equal(queueOf("Render.PDF"), "render.pdf");
  assert.equal(queueOf("render.pdf"), "render.pdf");
  assert.notEqual(queueOf("render.pdf"), queueOf("render-pdf"));
});
