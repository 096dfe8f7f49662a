import assert from "node:assert/strict";
import { test } from "node:test";
import { createMetrics, largestMetrics, type Metrics } from "./metrics.ts";
import { hideCommands, mergedScrape, scrapedMetrics } from "./scrape.ts";

const lines = (...all: string[]): string => `${all.join("\n")}\n`;

test("series of the same name and labels are added up", () => {
  const head = ["# HELP codeq_x_total x", "# TYPE codeq_x_total counter"];
  const merged = mergedScrape(lines(...head, 'codeq_x_total{a="1 2"} 1'), [
    { shard: 0, text: lines(...head, 'codeq_x_total{a="1 2"} 2', 'codeq_x_total{a="}"} 5') },
    { shard: 1, text: lines(...head, 'codeq_x_total{a="1 2"} 4.5') },
  ]);
  assert.equal(merged, lines(...head, 'codeq_x_total{a="1 2"} 7.5', 'codeq_x_total{a="}"} 5'));
});

test("of what is no sum the largest counts", () => {
  const [name] = largestMetrics;
  const head = [`# HELP ${name} x`, `# TYPE ${name} gauge`];
  const text = (value: number): string => lines(...head, `${name}{command="c"} ${value}`);
  const merged = mergedScrape("", [
    { shard: 0, text: text(3) },
    { shard: 1, text: text(9) },
    { shard: 2, text: text(4) },
  ]);
  assert.equal(merged, text(9));
});

test("what means something for one store only has the number of its shard", () => {
  const head = ["# HELP codeq_log_bytes x", "# TYPE codeq_log_bytes gauge"];
  const merged = mergedScrape(lines(...head, "codeq_log_bytes 1"), [
    { shard: 0, text: lines(...head, 'codeq_log_bytes{kind="a"} 2') },
    { shard: 1, text: lines(...head, 'codeq_log_bytes{kind="a"} 3') },
  ]);
  assert.equal(
    merged,
    lines(
      ...head,
      'codeq_log_bytes{shard="control"} 1',
      'codeq_log_bytes{shard="0",kind="a"} 2',
      'codeq_log_bytes{shard="1",kind="a"} 3',
    ),
  );
});

test("histograms of several shards stay histograms", () => {
  const all = [createMetrics({ commandsMax: 10 }), createMetrics({ commandsMax: 10 })];
  for (const metrics of all) {
    metrics.flushSeconds.observe(0.01);
    metrics.commitGroupBatches.observe(3);
  }
  const texts = all.map((metrics, shard) => ({ shard, text: metrics.render() }));
  const merged = mergedScrape(createMetrics({ commandsMax: 10 }).render(), texts);
  const names = merged.split("\n").filter((line) => !line.startsWith("#"));
  assert.equal(
    new Set(names.map((line) => line.slice(0, line.lastIndexOf(" ")))).size,
    names.length,
  );
  assert.match(merged, /_bucket\{shard="1",le="\+Inf"\} 1/);
  assert.doesNotMatch(merged, /NaN/);
});

function setup(): { own: Metrics; shards: readonly Metrics[]; series: (name: string) => string[] } {
  const make = (): Metrics => createMetrics({ commandsMax: 5 });
  const own = make();
  const shards = [make(), make()];
  const series = (name: string): string[] =>
    mergedScrape(
      own.render(),
      shards.map((metrics, shard) => ({ shard, text: metrics.render() })),
    )
      .split("\n")
      .filter((line) => new RegExp(`^${name}[ {]`).test(line));
  return { own, shards, series };
}

test("what is about one store says which", () => {
  const { own, shards, series } = setup();
  own.writeStalls.collect(() => [[1]]);
  shards[0]?.writeStalls.collect(() => [[2]]);
  shards[1]?.writeStalls.collect(() => [[3]]);
  assert.deepEqual(series("codeq_write_stalls_total"), [
    'codeq_write_stalls_total{shard="control"} 1',
    'codeq_write_stalls_total{shard="0"} 2',
    'codeq_write_stalls_total{shard="1"} 3',
  ]);
  const aboutStores = [
    "codeq_write_amplification",
    "codeq_write_stall_seconds_total",
    "codeq_lsm_read_amplification",
    "codeq_lsm_compaction_backlog_bytes",
    "codeq_lsm_cache_max_bytes",
    "codeq_log_bytes",
  ];
  for (const name of aboutStores) assert.equal(series(name).length, 3, name);
});

test("series of commands become one: sums, or the largest; everything else stays", () => {
  const text = [
    "# TYPE codeq_tasks gauge",
    'codeq_tasks{command="pay-out",status="ready"} 3',
    'codeq_tasks{command="fraud\\"}check",status="ready"} 4',
    'codeq_tasks{command="pay-out",status="dead"} 1',
    'codeq_oldest{command="pay-out"} 5',
    'codeq_oldest{command="x"} 9',
    'codeq_seconds_bucket{kind="a",command="x",le="+Inf"} 2',
    'codeq_seconds_bucket{kind="a",command="y",le="+Inf"} 0.5',
    "codeq_up 1",
    "",
  ].join("\n");
  assert.equal(
    hideCommands(text, new Set(["codeq_oldest"])),
    [
      "# TYPE codeq_tasks gauge",
      'codeq_tasks{command="_all",status="ready"} 7',
      'codeq_tasks{command="_all",status="dead"} 1',
      'codeq_oldest{command="_all"} 9',
      'codeq_seconds_bucket{kind="a",command="_all",le="+Inf"} 2.5',
      "codeq_up 1",
      "",
    ].join("\n"),
  );
});

test("counters, gauges and histograms are read back as they were written", () => {
  const text = [
    "# HELP tasks_total How many.",
    "# TYPE tasks_total counter",
    'tasks_total{command="a\\"b\\\\c\\nd",outcome="ok"} 3',
    "# HELP depth Now.",
    "# TYPE depth gauge",
    "depth 1.5",
    "# HELP wait_seconds Long.",
    "# TYPE wait_seconds histogram",
    'wait_seconds_bucket{op="x",le="0.1"} 1',
    'wait_seconds_bucket{op="x",le="1"} 4',
    'wait_seconds_bucket{op="x",le="+Inf"} 6',
    'wait_seconds_sum{op="x"} 9.5',
    'wait_seconds_count{op="x"} 6',
    "",
  ].join("\n");
  const labels = { command: 'a"b\\c\nd', outcome: "ok" };
  assert.deepEqual(scrapedMetrics(text), [
    {
      name: "tasks_total",
      help: "How many.",
      type: "counter",
      points: [{ name: "tasks_total", labels, value: 3 }],
    },
    {
      name: "depth",
      help: "Now.",
      type: "gauge",
      points: [{ name: "depth", labels: {}, value: 1.5 }],
    },
    {
      name: "wait_seconds",
      help: "Long.",
      type: "histogram",
      histograms: [
        { labels: { op: "x" }, bounds: [0.1, 1], counts: [1, 3, 2], sum: 9.5, count: 6 },
      ],
    },
  ]);
});

test("everything that the server measures can be read back", () => {
  const metrics = createMetrics({ commandsMax: 3 });
  metrics.httpRequests.inc("/x", "GET", "200");
  const found = scrapedMetrics(metrics.render());
  const http = found.find(({ name }) => name === "codeq_http_requests_total");
  assert.ok(http?.type === "counter");
  assert.deepEqual(http.points[0]?.labels, { route: "/x", method: "GET", status: "200" });
  for (const each of found) assert.notEqual(each.help, "", each.name);
});
