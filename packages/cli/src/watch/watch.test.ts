import assert from "node:assert/strict";
import { test } from "node:test";
import { chooseStyle } from "../terminal/style.ts";
import { between, bucketsIn, MetricsText, quantile, type Snapshot, snapshotOf } from "./metrics.ts";
import { topFigures, topLines } from "./top-view.ts";

const plain = chooseStyle({ isTerminal: false, env: {}, refused: false });
const frame = { baseUrl: "u", style: plain, columns: 120 };

interface Figures {
  readonly created?: number;
  readonly completed?: number;
  readonly failed?: number;
  readonly ready?: number;
  readonly started?: number;
}

function metricsOf({ created = 0, completed = 0, failed = 0, ready = 0, started = 1000 }: Figures) {
  return `# HELP codeq_task_created_total Tasks
codeq_task_created_total{command="Resize"} ${created}
codeq_task_completed_total{command="Resize",status="COMPLETED"} ${completed}
codeq_task_completed_total{command="Resize",status="FAILED"} ${failed}
codeq_task_processing_latency_seconds_bucket{command="Resize",status="COMPLETED",le="0.1"} ${completed}
codeq_task_processing_latency_seconds_bucket{command="Resize",status="COMPLETED",le="+Inf"} ${completed}
codeq_queue_depth{command="resize",queue="ready"} ${ready}
codeq_queue_depth{command="resize",queue="in_progress"} 2
codeq_queue_oldest_seconds{command="resize"} 75
codeq_queue_depth{command="resize",queue="dlq"} 3
codeq_waiters{kind="claim"} 4
codeq_storage_state{state="ok"} 1
codeq_storage_state{state="failed"} 0
process_start_time_seconds ${started}
`;
}

function snapshot(figures: Figures): Snapshot {
  const found = snapshotOf(new MetricsText(metricsOf(figures)));
  assert.ok(found !== undefined);
  return found;
}

test("metrics are read with labels, escapes and infinities", () => {
  const metrics = new MetricsText(
    'a{x="1",y="q\\"\\\\\\n"} 2\na{x="2"} 3.5\nb +Inf\n# TYPE a counter\nnot a line\n',
  );
  assert.deepEqual(metrics.all("a")[0], { labels: { x: "1", y: 'q"\\\n' }, value: 2 });
  assert.equal(metrics.value("a"), 5.5);
  assert.equal(metrics.value("a", { x: "2" }), 3.5);
  assert.equal(metrics.value("b"), Number.POSITIVE_INFINITY);
  assert.equal(metrics.has("c"), false);
});

test("a quantile lies inside its bucket, in proportion", () => {
  const buckets = [
    { to: 1, count: 10 },
    { to: 2, count: 20 },
    { to: Number.POSITIVE_INFINITY, count: 20 },
  ];
  assert.equal(quantile(buckets, 0.25), 0.5);
  assert.equal(quantile(buckets, 0.75), 1.5);
  assert.equal(quantile([{ to: 1, count: 0 }], 0.5), undefined);
  assert.equal(quantile([], 0.5), undefined);
  const open = [
    { to: 1, count: 0 },
    { to: Number.POSITIVE_INFINITY, count: 4 },
  ];
  assert.equal(quantile(open, 0.5), 1);
  assert.deepEqual(
    between(buckets, buckets).map(({ count }) => count),
    [0, 0, 0],
  );
});

test("a snapshot joins commands of any case, and knows a page that is not codeQ's", () => {
  const { queues, claimWaiters, storage } = snapshot({ created: 7, ready: 5 });
  assert.deepEqual([...queues.keys()], ["resize"]);
  const queue = queues.get("resize");
  assert.equal(queue?.created, 7);
  assert.equal(queue?.ready, 5);
  assert.equal(queue?.dlq, 3);
  assert.equal(claimWaiters, 4);
  assert.equal(storage, "ok");
  assert.equal(snapshotOf(new MetricsText("http_requests_total 3\n")), undefined);
  assert.equal(bucketsIn(new MetricsText(metricsOf({ completed: 4 })), "codeq_nothing").length, 0);
});

test("counters of a server that was started again begin at zero", () => {
  const before = snapshot({ created: 100 });
  const after = snapshot({ created: 2, started: 2000 });
  const look = { before, after, workers: undefined, seconds: 1, nowMs: 2_000_000 };
  const figures = topFigures(look);
  assert.equal(figures.inPerSecond, 2);
});

test("top has rates, depths, workers and times", () => {
  const before = snapshot({ created: 10, completed: 4 });
  const after = snapshot({ created: 30, completed: 14, failed: 1, ready: 12_345 });
  const workers = [
    { workerId: "\x1b[31midle", leases: 0, streams: 2, connectedAt: new Date(60_000_000).toJSON() },
    {
      workerId: "busy",
      leases: 3,
      streams: 0,
      oldestLeaseAt: new Date(60_995_000).toJSON(),
      lastSeenAt: new Date(60_999_000).toJSON(),
    },
  ];
  const look = { before, after, workers, seconds: 2, nowMs: 61_000_000 };
  const figures = topFigures(look);
  assert.equal(figures.inPerSecond, 10);
  assert.equal(figures.outPerSecond, 5);
  assert.equal(figures.failedPerSecond, 0.5);
  assert.equal(figures.queues[0]?.latencyP50Ms, 50);
  const text = topLines(look, { ...frame, baseUrl: "http://x" }).join("\n");
  assert.match(text, /^codeQ {2}http:\/\/x {2}up 16h 40m {2}storage ok/);
  assert.match(text, /tasks +in 10\/s {2}out 5.0\/s {2}failed 0.5\/s/);
  assert.match(
    text,
    /workers +4 waiting over HTTP {2}0 streams \(0 readys held\) {2}2 tasks running/,
  );
  assert.match(text, /QUEUE +READY +DELAYED +RUNNING +DEAD/);
  assert.match(text, /resize +12,345 +0 +2 +3 +1m 15s +10/);
  assert.match(
    text,
    /WORKER +RUNNING +OLDEST +SEEN +STREAMS +CONNECTED +CLIENT\nbusy +3 +5.0 s +1.0 s +0 +- +-\n/,
  );
  assert.match(text, /\nidle +0 +- +- +2 +16m 40s +-\n/);
  assert.doesNotMatch(topLines({ ...look, workers: undefined }, frame).join(), /WORKER/);
});

test("top of a server without tasks says how to make one", () => {
  const empty = snapshotOf(new MetricsText('codeq_storage_state{state="ok"} 1\n'));
  assert.ok(empty !== undefined);
  const look = { before: empty, after: empty, workers: [], seconds: 0, nowMs: 0 };
  const lines = topLines(look, frame);
  assert.ok(lines.some((line) => line.includes("no tasks yet")));
});
