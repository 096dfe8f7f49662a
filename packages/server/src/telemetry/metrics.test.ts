import assert from "node:assert/strict";
import { test } from "node:test";
import { systemClock } from "../core/clock.ts";
import { collectProcessMetrics, openProcessProbe } from "../start/collect-metrics.ts";
import { createMetrics, type Metrics, metricTable } from "./metrics.ts";
import type { MetricRow } from "./registry.ts";

const rows: readonly MetricRow[] = Object.values(metricTable);

/** The samples of one metric in a scrape, without HELP and TYPE. */
function samples(metrics: Metrics, name: string): string[] {
  return metrics
    .render()
    .split("\n")
    .filter((line) => new RegExp(`^${name}(_bucket|_sum|_count)?[ {]`).test(line));
}

function setup(commandsMax = 200): Metrics {
  return createMetrics({ commandsMax });
}

test("the metrics of the Go server have their names, types, labels and buckets", () => {
  const contract: Record<string, [string, string[]]> = {
    codeq_task_created_total: ["counter", ["command"]],
    codeq_task_claimed_total: ["counter", ["command"]],
    codeq_task_completed_total: ["counter", ["command", "status"]],
    codeq_task_processing_latency_seconds: ["histogram", ["command", "status"]],
    codeq_lease_expired_total: ["counter", ["command"]],
    codeq_webhook_deliveries_total: ["counter", ["kind", "command", "outcome"]],
    codeq_rate_limit_hits_total: ["counter", ["scope", "operation"]],
    codeq_queue_depth: ["gauge", ["command", "queue"]],
    codeq_dlq_depth: ["gauge", ["command"]],
    codeq_subscriptions_active: ["gauge", ["command"]],
  };
  for (const [name, [type, labels]] of Object.entries(contract)) {
    const row = rows.find((candidate) => candidate.name === name);
    assert.deepEqual([row?.type, row?.labels.map((label) => label.name)], [type, labels], name);
  }
  assert.deepEqual(
    metricTable.taskProcessingLatency.buckets,
    [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600],
  );
});

test("every row has its own legal name, a help line, and buckets exactly when a histogram", () => {
  assert.equal(new Set(rows.map((row) => row.name)).size, rows.length);
  for (const row of rows) {
    assert.match(row.name, /^(codeq|process|nodejs)_[a-z_]+$/);
    assert.equal(row.type === "counter", row.name.endsWith("_total"), row.name);
    assert.match(row.help, /^[^\\\n]+\.$/);
    assert.ok(row.labels.length <= 3);
    assert.equal(row.buckets !== undefined, row.type === "histogram");
    const sorted = [...(row.buckets ?? [])].sort((a, b) => a - b);
    assert.deepEqual(row.buckets ?? [], sorted);
  }
});

test("of values for the same labels, the largest counts where the row says so", () => {
  const metrics = setup(2);
  const name = "codeq_queue_oldest_seconds";
  metrics.queueOldestSeconds.collect(() => [
    ...[[3, "a"] as const, [7, "a"] as const, [5, "a"] as const],
    ...[[1, "b"] as const, [2, "c"] as const, [9, "d"] as const],
  ]);
  assert.deepEqual(samples(metrics, name), [
    `${name}{command="a"} 7`,
    `${name}{command="b"} 1`,
    `${name}{command="_other"} 9`,
  ]);
});

test("counters add up per label combination", () => {
  const metrics = setup();
  metrics.taskCreated.inc("a");
  metrics.taskCreated.inc("a");
  metrics.taskCreated.add(5, "b");
  metrics.taskCreated.add(-5, "b");
  metrics.taskCompleted.inc("a", "COMPLETED");
  metrics.taskCompleted.inc("a", "FAILED");
  metrics.webhookDeliveries.inc("task_result", "a", "failure");
  metrics.webhookDeliveries.inc("task_result", "a", "failure");
  assert.deepEqual(samples(metrics, "codeq_task_created_total"), [
    'codeq_task_created_total{command="a"} 2',
    'codeq_task_created_total{command="b"} 5',
  ]);
  assert.deepEqual(samples(metrics, "codeq_task_completed_total"), [
    'codeq_task_completed_total{command="a",status="COMPLETED"} 1',
    'codeq_task_completed_total{command="a",status="FAILED"} 1',
  ]);
  assert.deepEqual(samples(metrics, "codeq_webhook_deliveries_total"), [
    'codeq_webhook_deliveries_total{kind="task_result",command="a",outcome="failure"} 2',
  ]);
});

test("gauges are set, and metrics without labels exist from the start", () => {
  const metrics = setup();
  assert.deepEqual(samples(metrics, "codeq_log_bytes"), ["codeq_log_bytes 0"]);
  metrics.logBytes.set(12);
  metrics.waiters.set(3, "claim");
  metrics.waiters.set(2, "claim");
  assert.deepEqual(samples(metrics, "codeq_log_bytes"), ["codeq_log_bytes 12"]);
  assert.deepEqual(samples(metrics, "codeq_waiters"), ['codeq_waiters{kind="claim"} 2']);
});

test("histograms count each observation in its bucket and in every larger one", () => {
  const metrics = setup();
  for (const value of [1, 2, 3, 5000]) metrics.commitGroupBatches.observe(value);
  const lines = samples(metrics, "codeq_commit_group_batches");
  assert.deepEqual(lines.slice(0, 4), [
    'codeq_commit_group_batches_bucket{le="1"} 1',
    'codeq_commit_group_batches_bucket{le="2"} 2',
    'codeq_commit_group_batches_bucket{le="4"} 3',
    'codeq_commit_group_batches_bucket{le="8"} 3',
  ]);
  assert.deepEqual(lines.slice(-3), [
    'codeq_commit_group_batches_bucket{le="+Inf"} 4',
    "codeq_commit_group_batches_sum 5006",
    "codeq_commit_group_batches_count 4",
  ]);
  metrics.operationSeconds.observe(0.5, "claim_tasks", "ok");
  const labelled = samples(metrics, "codeq_operation_seconds");
  assert.ok(
    labelled.includes(
      'codeq_operation_seconds_bucket{operation="claim_tasks",outcome="ok",le="0.5"} 1',
    ),
  );
  assert.ok(
    labelled.includes('codeq_operation_seconds_sum{operation="claim_tasks",outcome="ok"} 0.5'),
  );
});

test("S12: at most commandsMax commands are told apart, the same ones in every metric", () => {
  const metrics = setup(2);
  for (const command of ["a", "b", "c", "d", "a"]) metrics.taskCreated.inc(command);
  for (const command of ["d", "b"]) metrics.taskCompleted.inc(command, "FAILED");
  assert.deepEqual(samples(metrics, "codeq_task_created_total"), [
    'codeq_task_created_total{command="a"} 2',
    'codeq_task_created_total{command="b"} 1',
    'codeq_task_created_total{command="_other"} 2',
  ]);
  assert.deepEqual(samples(metrics, "codeq_task_completed_total"), [
    'codeq_task_completed_total{command="_other",status="FAILED"} 1',
    'codeq_task_completed_total{command="b",status="FAILED"} 1',
  ]);
});

test("S12: a hundred thousand commands leave a scrape of bounded size", () => {
  const metrics = setup(10);
  for (let n = 0; n < 100_000; n++) {
    metrics.taskCreated.inc(`c${n}`);
    metrics.httpRequests.inc(`/r${n}`, `M${n}`, `${n}`);
  }
  assert.equal(samples(metrics, "codeq_task_created_total").length, 11);
  assert.ok(samples(metrics, "codeq_http_requests_total").length < 200);
});

/** The largest closed set is that of the error codes. */
const valuesMax = 128;

test("S12: a label has a closed set of values or is one of the few that are bounded, and none tells who", () => {
  const open = new Set<string>();
  for (const { name, labels } of rows) {
    for (const label of labels) {
      assert.doesNotMatch(label.name, /tenant|token|subject|worker|user|url|task|id$/, name);
      if (label.values === undefined) open.add(label.name);
      else assert.ok(label.values.length <= valuesMax, `${name} ${label.name}`);
    }
  }
  assert.deepEqual([...open].sort(), ["command", "method", "operation", "route", "status"]);
});

test("S12: every metric with open labels stays bounded, whatever values come", () => {
  const metrics = setup(10);
  for (const [key, row] of Object.entries(metricTable) as [keyof typeof metricTable, MetricRow][]) {
    if (row.labels.every(({ values }) => values !== undefined)) continue;
    const recorder = metrics[key] as unknown as Record<string, (...args: unknown[]) => void>;
    for (let n = 0; n < 3000; n++) {
      const labels = row.labels.map(({ values }) => values?.[n % values.length] ?? `v${n}`);
      if (row.type === "histogram") recorder["observe"]!(1, ...labels);
      else if (row.type === "gauge") recorder["set"]!(1, ...labels);
      else recorder["inc"]!(...labels);
    }
    const perSeries = row.type === "histogram" ? (row.buckets?.length ?? 0) + 3 : 1;
    const found = samples(metrics, row.name).length / perSeries;
    assert.ok(found <= 129 * 10, `${row.name} has ${found} series`);
  }
});

test("callbacks are asked at each scrape, and entries with equal labels are added up", () => {
  const metrics = setup(1);
  let depth = 1;
  metrics.queueDepth.collect(() => [
    [depth, "a", "ready"],
    [10, "a", "ready"],
    [3, "b", "ready"],
    [4, "c", "ready"],
  ]);
  assert.deepEqual(samples(metrics, "codeq_queue_depth"), [
    'codeq_queue_depth{command="a",queue="ready"} 11',
    'codeq_queue_depth{command="_other",queue="ready"} 7',
  ]);
  depth = 2;
  assert.equal(
    samples(metrics, "codeq_queue_depth")[0],
    'codeq_queue_depth{command="a",queue="ready"} 12',
  );
  metrics.queueDepth.collect(() => []);
  assert.deepEqual(samples(metrics, "codeq_queue_depth"), []);
});

test("label values are escaped", () => {
  const metrics = setup();
  metrics.taskCreated.inc('a"b\\c\nd');
  assert.deepEqual(samples(metrics, "codeq_task_created_total"), [
    'codeq_task_created_total{command="a\\"b\\\\c\\nd"} 1',
  ]);
});

test("numbers that are not finite are written as the format wants them", () => {
  const metrics = setup();
  const texts = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, Number.NaN, 1e21].map(
    (value) => {
      metrics.writeAmplification.set(value);
      return samples(metrics, "codeq_write_amplification")[0]?.split(" ")[1];
    },
  );
  assert.deepEqual(texts, ["+Inf", "-Inf", "NaN", "1e+21"]);
});

test("a scrape is one HELP and TYPE per metric, every line well-formed, ending in a newline", () => {
  const metrics = setup();
  metrics.taskCreated.inc("a");
  const text = metrics.render();
  assert.ok(text.endsWith("\n"));
  const lines = text.trimEnd().split("\n");
  assert.equal(lines.filter((line) => line.startsWith("# HELP ")).length, rows.length);
  assert.equal(lines.filter((line) => line.startsWith("# TYPE ")).length, rows.length);
  for (const line of lines) {
    assert.match(line, /^(# (HELP|TYPE) [a-z_]+ .+|[a-z_]+(\{[a-z]+=".*"\})? [-+\w.]+)$/);
  }
});

test("process metrics come from the probe at each scrape", () => {
  const metrics = setup();
  collectProcessMetrics(metrics, {
    startedAtMs: 1_700_000_000_500,
    memory: () => ({ rss: 7, heapUsed: 8 }),
    cpuSeconds: () => 1.25,
    lagSeconds: () => 0.003,
  });
  const text = metrics.render();
  for (const line of [
    "process_resident_memory_bytes 7",
    "nodejs_heap_size_used_bytes 8",
    "process_cpu_seconds_total 1.25",
    "process_start_time_seconds 1700000000.5",
    "codeq_event_loop_lag_seconds 0.003",
  ]) {
    assert.ok(text.includes(`\n${line}\n`), line);
  }
});

test("the probe of this process gives plausible numbers and lets go of its timer", () => {
  const timers: (() => void)[] = [];
  const probe = openProcessProbe({
    ...systemClock,
    nowMs: () => 5,
    after: (_delayMs, run) => {
      timers.push(run);
      return () => void timers.splice(0);
    },
  });
  assert.equal(probe.startedAtMs, 5);
  assert.ok(probe.memory().rss > probe.memory().heapUsed);
  assert.ok(probe.cpuSeconds() > 0);
  assert.equal(probe.lagSeconds(), 0, "measured without a sample");
  timers.shift()?.();
  assert.ok(probe.lagSeconds() > 0);
  assert.equal(timers.length, 1, "the next sample");
  probe[Symbol.dispose]();
  assert.equal(timers.length, 0);
});
