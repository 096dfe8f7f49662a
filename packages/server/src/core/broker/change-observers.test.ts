import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type Change,
  changeOf,
  enqueue,
  type Task,
  type TaskId,
  type WorkerId,
} from "@codeq/queue";
import { acme, newTask, umbrella } from "../../../test/broker-world.ts";
import { Events } from "../../telemetry/events.ts";
import { Feed } from "../../telemetry/feed.ts";
import { createMetrics, type Metrics } from "../../telemetry/metrics.ts";
import { ChangeObservers } from "./change-observers.ts";

function setup(): {
  metrics: Metrics;
  feed: Feed;
  observers: ChangeObservers;
  heard: string[];
} {
  const metrics = createMetrics({ commandsMax: 10 });
  const feed = new Feed();
  const observers = new ChangeObservers({ events: new Events(metrics), feed });
  const heard: string[] = [];
  observers.onEnd = (expiresMs) => heard.push(`ends ${expiresMs}`);
  observers.onWebhook = (dueMs) => heard.push(`webhook ${dueMs}`);
  return { metrics, feed, observers, heard };
}

const workerId = "worker-1" as WorkerId;
const leased = { in: "leased", workerId, untilMs: 9000, leaseMs: 5000, sinceMs: 4000 } as const;
const done = {
  in: "done",
  how: "completed",
  workerId,
  startedMs: 2000,
  atMs: 3000,
  expiresMs: 8000,
} as const;
const dead = { in: "dead", atMs: 3000, expiresMs: undefined } as const;

function task(fields: Partial<Task> = {}): Task {
  const id = "018bcfe5-6800-7000-8bb7-15228d999bdd" as TaskId;
  const made = enqueue(newTask(), { id, nowMs: 1000, seq: 1, keepsPayload: true });
  return { ...made, ...fields };
}

/** The lines of a metric that begin like this. */
function lines(metrics: Metrics, start: string): string[] {
  return metrics
    .render()
    .split("\n")
    .filter((line) => line.startsWith(start));
}

test("whoever is interested hears of the end of a task: when it goes, and that it is sent", () => {
  const { observers, heard } = setup();
  const before = task({ place: leased });
  observers.observe(changeOf(undefined, task(), "created"));
  observers.observe(changeOf(task(), before, "claimed"));
  observers.observe(changeOf(before, task(), "released"));
  assert.deepEqual(heard, []);
  observers.observe(changeOf(before, task({ place: done }), "finished"));
  observers.observe(changeOf(before, task({ place: dead, webhook: "http://x" }), "nacked"));
  assert.deepEqual(heard, ["ends 8000", "ends undefined", "webhook 3000"]);
  observers.observe(changeOf(task({ place: done }), undefined, "deleted"));
  assert.equal(heard.length, 3);
});

test("every change is counted once, whatever way a task took to its end", () => {
  const { metrics, observers } = setup();
  const before = task({ place: leased });
  const changes: Change[] = [
    changeOf(undefined, task(), "created"),
    changeOf(task(), before, "claimed"),
    changeOf(before, before, "extended"),
    changeOf(before, task({ place: done, updatedMs: 4000 }), "finished"),
    changeOf(before, task({ place: dead }), "expired"),
    changeOf(task({ place: done }), undefined, "deleted"),
  ];
  for (const change of changes) observers.observe(change);
  assert.deepEqual(lines(metrics, "codeq_task_created_total{"), [
    'codeq_task_created_total{command="work"} 1',
  ]);
  assert.deepEqual(lines(metrics, "codeq_task_claimed_total{"), [
    'codeq_task_claimed_total{command="work"} 1',
  ]);
  assert.deepEqual(lines(metrics, "codeq_lease_expired_total{"), [
    'codeq_lease_expired_total{command="work"} 1',
  ]);
  assert.deepEqual(lines(metrics, "codeq_task_completed_total{").sort(), [
    'codeq_task_completed_total{command="work",status="COMPLETED"} 1',
    'codeq_task_completed_total{command="work",status="FAILED"} 1',
  ]);
});

test("feeds hear of the changes of their tenant, in order, while they listen", () => {
  const { feed, observers } = setup();
  const heard: string[] = [];
  observers.observe(changeOf(undefined, task(), "created"));
  const stop = feed.listen({
    tenantId: acme,
    hear: ({ event }) => heard.push(event),
    end: () => {},
  });
  const before = task({ place: leased });
  observers.observe(changeOf(task(), before, "claimed"));
  observers.observe(changeOf(undefined, task({ tenantId: umbrella }), "created"));
  observers.observe(changeOf(before, task({ place: dead, error: "LEASE_EXPIRED" }), "expired"));
  assert.deepEqual(heard, ["claimed", "lease_expired", "failed"]);
  stop();
  observers.observe(changeOf(undefined, task(), "created"));
  assert.equal(heard.length, 3);
});
