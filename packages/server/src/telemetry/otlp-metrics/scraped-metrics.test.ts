import assert from "node:assert/strict";
import { test } from "node:test";
import { createMetrics } from "../metrics.ts";
import { scrapedMetrics } from "./scraped-metrics.ts";

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
