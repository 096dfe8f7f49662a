import assert from "node:assert/strict";
import { test } from "node:test";
import { taskIn } from "../test/build-task.ts";
import { changeOf } from "./change.ts";

test("a change has what it is told and nothing beside it", () => {
  const [before, after] = [taskIn("leased"), taskIn("ready")];
  assert.deepEqual(changeOf(before, after, "nacked", "out of paper"), {
    before,
    after,
    because: "nacked",
    reason: "out of paper",
    payload: undefined,
    result: undefined,
    payloadHash: "",
    keep: true,
  });
  assert.equal(changeOf(after, undefined, "deleted").reason, "");
});
