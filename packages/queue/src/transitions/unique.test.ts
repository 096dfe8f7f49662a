import assert from "node:assert/strict";
import { test } from "node:test";
import { newTask, taskIn } from "../../test/build-task.ts";
import type { Task, TaskUnique } from "../task.ts";
import { enqueue } from "./enqueue.ts";
import {
  decideUnique,
  heldMs,
  holdsKey,
  released,
  replaceUnique,
  type UniqueRequest,
  uniqueActions,
} from "./unique.ts";

const request: UniqueRequest = {
  key: "k",
  while: "unfinished",
  on: "return",
  forMs: 0,
  maxWaitMs: 0,
};
const unique: TaskUnique = {
  key: "k",
  while: "unfinished",
  forMs: 0,
  replaced: 0,
  sinceMs: 1000,
  isHeld: false,
  dueMs: 0,
};
const at = { nowMs: 5000, seq: 50 };

function holderIn(where: Parameters<typeof taskIn>[0], over: Partial<TaskUnique> = {}): Task {
  return taskIn(where, { unique: { ...unique, ...over } });
}

test("a task holds its key until it has ended, or until a worker begins it", () => {
  const holds = (["ready", "delayed", "leased", "dead", "done"] as const).map((where) =>
    holdsKey({ ...holderIn(where), leaseToken: 0 }),
  );
  assert.deepEqual(holds, [true, true, true, false, false]);
  const waits = (["ready", "delayed", "leased", "dead"] as const).map((where) =>
    holdsKey({ ...holderIn(where, { while: "waiting" }), leaseToken: 0 }),
  );
  assert.deepEqual(waits, [true, true, false, false]);
  // Retries do not take the key again.
  assert.equal(holdsKey({ ...holderIn("ready", { while: "waiting" }), leaseToken: 1 }), false);
  assert.equal(holdsKey(taskIn("ready")), false);
});

test("the table of decisions", () => {
  const waiting = holderIn("delayed", { isHeld: true });
  const met: readonly (readonly [Task | undefined, Task | undefined])[] = [
    [undefined, undefined],
    [holderIn("ready"), undefined],
    [holderIn("leased"), undefined],
    [holderIn("leased"), waiting],
    [holderIn("done"), undefined],
  ];
  const decided = uniqueActions.map((on) =>
    met.map(([holder, other]) => {
      const decision = decideUnique({ ...request, on }, { holder, waiting: other, freeMs: 9 });
      const cancels = "cancels" in decision && decision.cancels !== undefined ? "+cancel" : "";
      const held = "isHeld" in decision && decision.isHeld ? "+held" : "";
      const later = "notBeforeMs" in decision && decision.notBeforeMs > 0 ? "+later" : "";
      return decision.do + held + later + cancels;
    }),
  );
  const changes = ["create", "replace", "create+held+later", "replace", "create+later"];
  assert.deepEqual(decided, [
    ["create", "answer", "answer", "answer", "answer"],
    ["create", "refuse", "refuse", "refuse", "refuse"],
    changes,
    changes,
    ["create", "create+cancel", "create+held+later+cancel", "replace+cancel", "create+later"],
  ]);
});

test("a held task cannot be claimed before it is released, and then at its own time", () => {
  const input = newTask({ unique: request, visibleMs: 9000 });
  const made = { id: taskIn("ready").id, keepsPayload: true, ...at };
  const held = enqueue(input, { ...made, isHeld: true });
  assert.deepEqual(held.place, { in: "delayed", dueMs: heldMs });
  assert.deepEqual(released(held, at).place, { in: "delayed", dueMs: 9000 });
  const late = released(held, { nowMs: 9000, seq: 51 });
  assert.deepEqual([late.place, late.unique?.isHeld], [{ in: "ready", seq: 51 }, false]);
  assert.equal(released(late, at), late);
});

test("a replaced task has the last payload and time, and is put off for a limited time", () => {
  const payload = { text: "[2]", bytes: 3, isKept: true };
  const wanted = { priority: 4, payload, visibleMs: 90_000 };
  const replace = (task: Task, maxWaitMs: number): Task => {
    const outcome = replaceUnique(task, { ...wanted, unique: { ...request, maxWaitMs } }, at);
    assert.ok(outcome.ok);
    return outcome.value;
  };
  const free = replace(holderIn("delayed"), 0);
  assert.deepEqual([free.payload, free.place], ["[2]", { in: "delayed", dueMs: 90_000 }]);
  assert.equal(free.unique?.replaced, 1);
  assert.deepEqual(replace(free, 10_000).place, { in: "delayed", dueMs: 11_000 });
  assert.deepEqual(replace(free, 1000).place, { in: "ready", seq: 50 });
  const held = holderIn("delayed", { isHeld: true });
  const later = replace({ ...held, place: { in: "delayed", dueMs: heldMs } }, 0);
  assert.deepEqual([later.place, later.unique?.dueMs], [{ in: "delayed", dueMs: heldMs }, 90_000]);
  assert.equal(replaceUnique(holderIn("leased"), wanted, at).ok, false);
});
