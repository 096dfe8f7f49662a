import assert from "node:assert/strict";
import { test } from "node:test";
import { leasedTask, otherWorker, retention, taskIn, worker } from "../../test/build-task.ts";
import { violations } from "../../test/invariants.ts";
import type { Artifact, Task } from "../task.ts";
import { attach, attachedTo, withAttached } from "./attach.ts";
import { complete } from "./complete.ts";
import { abandon } from "./give-back.ts";

const file = (name: string, bytes: number): Artifact => {
  return { name, url: "/u", bytes, sha256: "h", contentType: "t" };
};

function attached(task: Task, ...files: readonly Artifact[]): Task {
  return files.reduce((before, each) => {
    const outcome = attach(before, { workerId: worker }, each, 3);
    assert.ok(outcome.ok);
    assert.deepEqual(violations(outcome.value), []);
    return outcome.value;
  }, task);
}

test("files are counted with their names, and one of the same name takes the place of the other", () => {
  const before = leasedTask();
  const task = attached(before, file("a", 10), file("ü☃😀", 5), file("a", 1));
  assert.deepEqual(
    attachedTo(task).map(({ name, bytes }) => [name, bytes]),
    [
      ["ü☃😀", 5],
      ["a", 1],
    ],
  );
  assert.equal(task.storedBytes - before.storedBytes, 5 + 9 + 2 + 1 + 1 + 2);
});

test("only the owner of a task attaches files, and not too many", () => {
  const full = attached(leasedTask(), file("a", 1), file("b", 1), file("c", 1));
  const more = attach(full, { workerId: worker }, file("d", 1), 3);
  assert.deepEqual(more, { ok: false, code: "too_many_artifacts" });
  const other = attach(full, { workerId: otherWorker }, file("a", 1), 3);
  assert.deepEqual(other, { ok: false, code: "not_owner" });
  const late = attach(taskIn("done"), { workerId: worker }, file("a", 1), 3);
  assert.deepEqual(late, { ok: false, code: "not_in_progress" });
});

test("the result has the files, those of the submission first, and each is counted once", () => {
  const before = leasedTask();
  const task = attached(before, file("a", 10), file("b", 20));
  const own = file("b", 1);
  const submission = withAttached(task, {
    how: "completed",
    error: "",
    result: { json: "{}", artifacts: [own] },
    resultBytes: 2 + 1 + 3,
  });
  assert.deepEqual(submission.result.artifacts, [own, file("a", 10)]);
  const at = { nowMs: before.updatedMs, retention, keepsResult: true };
  const outcome = complete(task, { workerId: worker }, submission, at);
  assert.ok(outcome.ok);
  assert.equal(outcome.value.storedBytes - before.storedBytes, 2 + 1 + 3 + 10 + 1 + 2);
});

test("the files of an attempt that came back belong to nobody", () => {
  const before = leasedTask();
  const task = attached(before, file("a", 10));
  for (const interrupted of [true, false]) {
    const at = { nowMs: before.updatedMs, seq: 9, retention };
    const outcome = abandon(task, { workerId: worker }, { interrupted }, at);
    assert.ok(outcome.ok);
    const { task: returned } = outcome.value;
    assert.deepEqual(
      [returned.result?.artifacts ?? [], returned.storedBytes],
      [[], before.storedBytes],
    );
    assert.deepEqual(violations(returned), []);
  }
});
