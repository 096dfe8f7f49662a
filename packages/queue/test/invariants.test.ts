import assert from "node:assert/strict";
import { test } from "node:test";
import type { Place, Task, TaskId } from "../src/task.ts";
import { nobody, placeNames, taskIn, worker } from "./build-task.ts";
import { violations } from "./invariants.ts";

test("a sound task in any place breaks no rule", () => {
  for (const where of placeNames) assert.deepEqual(violations(taskIn(where)), []);
});

test("a clock that stepped back between two changes breaks no rule", () => {
  assert.deepEqual(violations(taskIn("ready", { createdMs: 5000, updatedMs: 2000 })), []);
});

const lease = {
  in: "leased",
  workerId: worker,
  untilMs: 3000,
  leaseMs: 1000,
  sinceMs: 2000,
} as const;
const end = {
  in: "done",
  how: "failed",
  workerId: worker,
  startedMs: 1000,
  atMs: 2000,
  expiresMs: 2000,
} as const;

const result = { json: "{}", artifacts: [] };

test("a finished task with its result, and one whose result is kept apart, break no rule", () => {
  for (const each of [result, undefined]) {
    assert.deepEqual(violations(taskIn("done", { result: each })), []);
  }
});

test("a task that is kept for no time, or for ever, breaks no rule", () => {
  assert.deepEqual(violations(taskIn("done", { place: end })), []);
  const dead: Place = { in: "dead", atMs: 2000, expiresMs: undefined };
  assert.deepEqual(violations(taskIn("dead", { place: dead })), []);
});

const unsound: readonly [name: string, task: Task, says: RegExp][] = [
  ["an empty id", taskIn("ready", { id: "" as TaskId }), /id is empty/],
  ["an empty command", taskIn("ready", { command: "" }), /command/],
  ["a priority above 9", taskIn("ready", { priority: 10 }), /priority/],
  ["a priority below 0", taskIn("ready", { priority: -1 }), /priority/],
  ["a priority with a fraction", taskIn("ready", { priority: 1.5 }), /priority/],
  ["a creation time that is no number", taskIn("ready", { createdMs: Number.NaN }), /createdMs/],
  ["a change time with a fraction", taskIn("ready", { updatedMs: 0.5 }), /updatedMs/],
  ["no attempts allowed", taskIn("leased", { maxAttempts: 0 }), /maxAttempts/],
  ["attempts below zero", taskIn("ready", { attempts: -1 }), /attempts -1/],
  ["attempts with a fraction", taskIn("ready", { attempts: 0.5 }), /attempts 0.5/],
  ["a token below zero", taskIn("ready", { leaseToken: -1, attempts: 0 }), /leaseToken -1/],
  ["hand-backs below zero", taskIn("ready", { handBacks: -1 }), /handBacks/],
  ["a fourth free hand-back", taskIn("ready", { handBacks: 4, leaseToken: 9 }), /handBacks/],
  ["attempts used up and still ready", taskIn("ready", { attempts: 5, leaseToken: 5 }), /5 of 5/],
  ["attempts used up and running", taskIn("leased", { attempts: 5, leaseToken: 6 }), /5 of 5/],
  ["attempts used up and finished", taskIn("done", { attempts: 5, leaseToken: 6 }), /5 of 5/],
  ["dead too early", taskIn("dead", { attempts: 4 }), /dead with 4 of 5/],
  ["dead too late", taskIn("dead", { attempts: 6, leaseToken: 6 }), /dead with 6 of 5/],
  ["dead with hand-backs", taskIn("dead", { handBacks: 1, leaseToken: 9 }), /hand-backs/],
  ["more returns than claims", taskIn("ready", { attempts: 3, leaseToken: 2 }), /leaseToken 2/],
  ["running without a claim", taskIn("leased", { attempts: 2, leaseToken: 2 }), /leaseToken 2/],
  ["finished without a claim", taskIn("done", { attempts: 0, leaseToken: 0 }), /leaseToken 0/],
  ["hand-backs without claims", taskIn("ready", { handBacks: 2, leaseToken: 2 }), /leaseToken 2/],
  ["a position below zero", taskIn("ready", { place: { in: "ready", seq: -1 } }), /seq/],
  ["a due time now", taskIn("delayed", { place: { in: "delayed", dueMs: 2000 } }), /future/],
  ["a due time in part", taskIn("delayed", { place: { in: "delayed", dueMs: 9000.5 } }), /dueMs/],
  ["a result before it was claimed", taskIn("ready", { result }), /ready with a result/],
  ["a result while it waits", taskIn("delayed", { result }), /delayed with a result/],
  ["a result while it runs", taskIn("leased", { result }), /leased with a result/],
  ["a lease of nobody", taskIn("leased", { place: { ...lease, workerId: nobody } }), /nobody/],
  ["a lease of no length", taskIn("leased", { place: { ...lease, leaseMs: 0 } }), /leaseMs/],
  ["a lease that was over", taskIn("leased", { place: { ...lease, untilMs: 2000 } }), /future/],
  [
    "a lease without an end",
    taskIn("leased", { place: { ...lease, untilMs: Infinity } }),
    /untilMs/,
  ],
  ["death without an error", taskIn("dead", { error: "" }), /without an error/],
  ["a change after death", taskIn("dead", { updatedMs: 2001 }), /after its end/],
  ["a change after the finish", taskIn("done", { updatedMs: 2001 }), /after its end/],
  ["finished by nobody", taskIn("done", { place: { ...end, workerId: nobody } }), /nobody/],
  ["gone before its end", taskIn("done", { place: { ...end, expiresMs: 1999 } }), /expires/],
];

for (const [name, task, says] of unsound) {
  test(`${name} is reported`, () => {
    assert.match(violations(task).join("; "), says);
  });
}

test("each broken rule is reported once", () => {
  assert.equal(
    violations(taskIn("ready", { id: "" as TaskId, command: "", priority: 12 })).length,
    3,
  );
});
