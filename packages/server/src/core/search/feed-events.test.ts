import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type Cause,
  type Change,
  changeOf,
  enqueue,
  type Place,
  type Task,
  type TaskId,
  type WorkerId,
} from "@codeq/queue";
import { acme, newTask } from "../../../test/broker-world.ts";
import { eventsOf } from "./feed-events.ts";

const workerId = "worker-1" as WorkerId;
const id = "018bcfe5-6800-7000-8bb7-15228d999bdd" as TaskId;

const places = {
  ready: { in: "ready", seq: 1 },
  delayed: { in: "delayed", dueMs: 7200 },
  leased: { in: "leased", workerId, untilMs: 9000, leaseMs: 5000, sinceMs: 4000 },
  dead: { in: "dead", atMs: 5000, expiresMs: undefined },
  completed: {
    in: "done",
    how: "completed",
    workerId,
    startedMs: 4000,
    atMs: 5000,
    expiresMs: 9000,
  },
  failed: { in: "done", how: "failed", workerId, startedMs: 4000, atMs: 5000, expiresMs: 9000 },
} as const satisfies Record<string, Place>;

function task(place: keyof typeof places, fields: Partial<Task> = {}): Task {
  const wanted = newTask({ command: "Render", priority: 4, payload: '"secret"' });
  const made = enqueue(wanted, { id, nowMs: 1000, seq: 1, keepsPayload: true });
  return { ...made, updatedMs: 5000, attempts: 1, ...fields, place: places[place] };
}

const about = {
  atMs: 5000,
  tenantId: acme,
  taskId: id,
  command: "Render",
  priority: 4,
  attempt: 2,
};
const byWorker = { ...about, workerId };

function told(from: Task | undefined, to: Task | undefined, because: Cause, reason = ""): unknown {
  return eventsOf(changeOf(from, to, because, reason));
}

test("a new task, one that became due and one that was claimed", () => {
  assert.deepEqual(told(undefined, task("ready"), "created"), [{ event: "created", ...about }]);
  assert.deepEqual(told(undefined, task("delayed"), "created"), [
    { event: "created", ...about, delaySeconds: 2.2 },
  ]);
  assert.deepEqual(told(task("delayed"), task("ready"), "promoted"), [
    { event: "promoted", ...about },
  ]);
  assert.deepEqual(told(task("ready"), task("leased"), "claimed"), [
    { event: "claimed", ...byWorker },
  ]);
});

test("a task that ended, by its worker or for good", () => {
  const leased = task("leased");
  assert.deepEqual(told(leased, task("completed"), "finished"), [
    { event: "completed", ...byWorker },
  ]);
  assert.deepEqual(told(leased, task("failed", { error: "jam" }), "finished"), [
    { event: "failed", ...byWorker, how: "permanent", reason: "jam" },
  ]);
  const buried = task("dead", { error: "jam", attempts: 2 });
  for (const because of ["nacked", "abandoned"] as const) {
    assert.deepEqual(told(leased, buried, because, "jam"), [
      { event: "failed", ...byWorker, how: "dead_letter", reason: "jam" },
    ]);
  }
});

test("a task whose last lease ended: that it ended, then what became of the task", () => {
  const buried = task("dead", { error: "LEASE_EXPIRED", attempts: 2 });
  assert.deepEqual(told(task("leased"), buried, "expired"), [
    { event: "lease_expired", ...byWorker },
    { event: "failed", ...byWorker, how: "dead_letter", reason: "LEASE_EXPIRED" },
  ]);
});

test("an attempt that came back is that attempt, also when it was counted", () => {
  const leased = task("leased");
  const counted = task("delayed", { attempts: 2 });
  assert.deepEqual(told(leased, counted, "nacked", "later"), [
    { event: "retried", ...byWorker, delaySeconds: 2.2, reason: "later" },
  ]);
  assert.deepEqual(told(leased, task("ready", { attempts: 2 }), "nacked"), [
    { event: "retried", ...byWorker },
  ]);
  assert.deepEqual(told(leased, counted, "expired"), [
    { event: "lease_expired", ...byWorker, delaySeconds: 2.2 },
  ]);
  assert.deepEqual(told(leased, task("ready", { attempts: 2 }), "abandoned"), [
    { event: "released", ...byWorker, how: "abandoned" },
  ]);
  assert.deepEqual(told(leased, task("ready", { handBacks: 1 }), "abandoned"), [
    { event: "released", ...byWorker, how: "interrupted" },
  ]);
  assert.deepEqual(told(leased, task("ready"), "released"), [
    { event: "released", ...byWorker, how: "unsent" },
  ]);
});

test("of heartbeats and deletions nobody is told, and of no change what is in the task", () => {
  assert.deepEqual(told(task("leased"), task("leased"), "extended"), []);
  assert.deepEqual(told(task("completed"), undefined, "deleted"), []);
  const all: Change[] = [
    changeOf(undefined, task("ready"), "created"),
    changeOf(task("ready"), task("leased"), "claimed"),
    changeOf(task("leased"), task("completed"), "finished"),
  ];
  for (const change of all) assert.ok(!JSON.stringify(eventsOf(change)).includes("secret"));
});
