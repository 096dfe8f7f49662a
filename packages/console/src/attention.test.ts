import assert from "node:assert/strict";
import test from "node:test";
import { attentionOf } from "./attention.ts";
import type { FailureGroup } from "./model/failures.ts";
import type { QueueRow } from "./model/queues.ts";

const nowMs = Date.UTC(2026, 4, 14, 14, 0, 0);
const rates = { enqueued: 0, completed: 0, failed: 0, retried: 0 };
const quiet = { ready: 0, delayed: 0, leased: 0, dead: 0, failed: 0, waiting: 0, asking: 0, rates };
const health = { status: "ok", storage: "open", durability: "fsync" };
const worker = { workerId: "mailer-1", leases: 0, streams: 1 };

test("a server at rest needs nobody", () => {
  const queues = [{ ...quiet, name: "send", ready: 5, waiting: 5, asking: 1, oldestSeconds: 60 }];
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
    found.map(({ level, page, queues: touched }) => [level, page, touched]),
    [
      ["bad", "health", []],
      ["bad", "failures", ["send"]],
      ["warn", "queue", ["video"]],
      ["warn", "workers", []],
    ],
  );
  assert.match(found[2]?.why ?? "", /By ana: “drain”\. 7 tasks are waiting\./);
});

const llm = { ...quiet, name: "llm", ready: 2, waiting: 2, oldestSeconds: 7200 };
const titles = (queues: readonly QueueRow[], failures?: readonly FailureGroup[]): string[] =>
  attentionOf({ queues, workers: [worker], failures, health, nowMs }).map(({ title }) => title);

test("ready tasks that no worker asks for are urgent, also while workers of other queues are there", () => {
  assert.deepEqual(titles([llm]), ["No worker for llm, oldest 2 h"]);
  const served = [
    { ...llm, asking: 1 },
    { ...llm, leased: 1 },
    { ...llm, rates: { ...rates, completed: 1 } },
  ];
  for (const each of served) {
    assert.deepEqual(titles([each]), ["Tasks of llm wait long, oldest 2 h"]);
  }
  assert.deepEqual(titles([{ ...llm, oldestSeconds: 1 }]), [], "it may be between two claims");
  const pause = { by: "ana", at: "2026-05-14T13:00:00Z" };
  assert.deepEqual(titles([{ ...llm, pause }]), ["llm: paused 1 h ago"]);
});

const group: FailureGroup = {
  id: "aa",
  text: "SmtpError: <n>",
  count: 24_000,
  dlq: 24_000,
  failed: 0,
  firstSeen: "2026-05-14T13:00:00Z",
  lastSeen: "2026-05-14T13:00:00Z",
  commands: [
    { command: "mail", count: 23_000 },
    { command: "sms", count: 1000 },
  ],
  example: { taskId: "", error: "" },
  trend: [],
  state: "open",
};

test("many queues with the same problem are one cause, and the largest comes first", () => {
  const many = Array.from({ length: 5 }, (_, n) => ({ ...llm, name: `q${n}`, waiting: n + 1 }));
  const failing = [
    { ...quiet, name: "mail", dead: 23_000 },
    { ...quiet, name: "sms", dead: 1000 },
  ];
  const queues = [...many, ...failing];
  assert.deepEqual(titles(queues, [group]), [
    "24,000 dead letters, 1 cause, 2 queues",
    "No worker for 5 queues, oldest 2 h",
  ]);
  const deep = many.map((each) => ({ ...each, waiting: 40_000 }));
  assert.deepEqual(titles([...deep, ...failing], [group]), [
    "No worker for 5 queues, oldest 2 h",
    "24,000 dead letters, 1 cause, 2 queues",
  ]);
  const mixed = [
    { ...quiet, name: "mail", dead: 20_000, failed: 3000 },
    { ...quiet, name: "sms", failed: 1000 },
  ];
  const failed = { ...group, failed: 4000, dlq: 20_000 };
  assert.deepEqual(titles(mixed, [failed]), ["24,000 failures, 1 cause, 2 queues"]);
});

test("a cause counts all of its queues, and what somebody has triaged is left out", () => {
  const queues = Array.from({ length: 52 }, (_, n) => ({ ...quiet, name: `q${n}`, failed: 10 }));
  const inQueues = (count: number): FailureGroup => ({
    ...group,
    count: 10 * count,
    dlq: 0,
    failed: 10 * count,
    // The server names no more queues.
    commands: queues
      .slice(0, Math.min(count, 20))
      .map(({ name }) => ({ command: name, count: 10 })),
  });
  assert.deepEqual(titles(queues, [inQueues(52)]), ["520 failures, 1 cause, 52 queues"]);
  const ignored = { ...inQueues(2), state: "ignored" } as const;
  const rest = {
    ...inQueues(50),
    commands: queues.slice(2, 22).map(({ name }) => ({ command: name, count: 10 })),
  };
  assert.deepEqual(titles(queues, [rest, ignored]), ["500 failures, 1 cause, 50 queues"]);
  assert.deepEqual(titles(queues.slice(0, 2), [ignored]), []);
});
