import assert from "node:assert/strict";
import test from "node:test";
import { attentionOf } from "./attention.ts";

const nowMs = Date.UTC(2026, 4, 14, 14, 0, 0);
const rates = { enqueued: 0, completed: 0, failed: 0, retried: 0 };
const quiet = { ready: 0, delayed: 0, leased: 0, dead: 0, waiting: 0, rates };
const health = { status: "ok", storage: "open", durability: "fsync" };
const worker = { workerId: "mailer-1", leases: 0, streams: 1 };

test("a server at rest needs nobody", () => {
  const queues = [{ ...quiet, name: "send", ready: 5, waiting: 5 }];
  assert.deepEqual(attentionOf({ queues, workers: [worker], health, nowMs }), []);
});

test("a disk that is nearly full is told before the server refuses writes", () => {
  const of = (freeBytes: number) =>
    attentionOf({ queues: [], workers: [], health, disk: { freeBytes, minFreeBytes: 100 }, nowMs });
  assert.deepEqual(of(300), []);
  assert.deepEqual(
    of(299).map(({ level, title }) => [level, title]),
    [["warn", "299 B of disk space left"]],
  );
});

test("what is urgent comes first, each with the place where to act", () => {
  const queues = [
    {
      ...quiet,
      name: "video",
      waiting: 7,
      pause: { by: "ana", at: "2026-05-14T13:00:00Z", reason: "drain" },
    },
    { ...quiet, name: "send", dead: 3 },
  ];
  const silent = { ...worker, leases: 2, lastSeenAt: "2026-05-14T13:50:00Z" };
  const found = attentionOf({
    queues,
    workers: [silent],
    health: { ...health, storage: "full" },
    nowMs,
  });
  assert.deepEqual(
    found.map(({ level, page, queue }) => [level, page, queue]),
    [
      ["bad", "health", undefined],
      ["bad", "dead", "send"],
      ["warn", "queue", "video"],
      ["warn", "workers", undefined],
    ],
  );
  assert.match(found[2]?.why ?? "", /By ana: “drain”\. 7 tasks are waiting\./);
});

test("ready tasks without any worker are urgent, unless their queue is paused", () => {
  const ready = { ...quiet, name: "llm", ready: 2, waiting: 2 };
  const [found] = attentionOf({ queues: [ready], workers: [], health, nowMs });
  assert.equal(found?.title, "llm: no worker");
  const pause = { by: "ana", at: "2026-05-14T13:00:00Z" };
  const paused = attentionOf({ queues: [{ ...ready, pause }], workers: [], health, nowMs });
  assert.deepEqual(
    paused.map(({ level }) => level),
    ["warn"],
  );
});
