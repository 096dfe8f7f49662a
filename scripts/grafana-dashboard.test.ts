/** The dashboard asks for metrics and labels that there are, and its file is what the table says. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { metricTable } from "../packages/server/src/telemetry/metrics.ts";
import type { MetricRow } from "../packages/server/src/telemetry/registry.ts";
import { grafanaDashboard } from "./grafana-dashboard.ts";

interface Panel {
  readonly id: number;
  readonly title: string;
  readonly type: string;
  readonly gridPos: {
    readonly x: number;
    readonly y: number;
    readonly w: number;
    readonly h: number;
  };
  readonly targets?: readonly { readonly expr: string; readonly legendFormat: string }[];
}

interface Dashboard {
  readonly panels: readonly Panel[];
  readonly templating: {
    readonly list: readonly { readonly name: string; readonly query: string }[];
  };
}

const text = readFileSync(join(import.meta.dirname, "../deploy/grafana/codeq.json"), "utf8");
const dashboard = JSON.parse(text) as Dashboard;
const rows: ReadonlyMap<string, MetricRow> = new Map(
  (Object.values(metricTable) as MetricRow[]).map((row) => [row.name, row]),
);
/** What Prometheus and the scrape of several shards add. */
const addedLabels = ["job", "instance", "shard"];
const names = /\b(?:codeq|process|nodejs)_\w+/g;

/** What is wrong with a query, in words; empty when all is well. */
function mistakesOf(expr: string): string[] {
  const found = [...expr.matchAll(names)].map(([name]) => name);
  const asked = [...expr.matchAll(/(\w+)(?:=|=~)"/g), ...groupings(expr)].map(
    ([, label = ""]) => label,
  );
  if (found.length === 0) return [`${expr} asks for no metric`];
  return found.flatMap((name) => {
    const row = rows.get(name) ?? histogramOf(name);
    if (row === undefined) return [`there is no metric ${name}`];
    const labels = [...addedLabels, ...row.labels.map((label) => label.name)];
    if (name.endsWith("_bucket")) labels.push("le");
    return asked
      .filter((label) => !labels.includes(label))
      .map((label) => `${name} has no label ${label}`);
  });
}

function histogramOf(name: string): MetricRow | undefined {
  const row = rows.get(name.replace(/_(bucket|sum|count)$/, ""));
  return row?.type === "histogram" ? row : undefined;
}

function groupings(expr: string): string[][] {
  const lists = [...expr.matchAll(/\bby \(([^)]*)\)/g)].map(([, list = ""]) => list);
  return lists.flatMap((list) => list.split(",").map((label) => ["", label.trim()]));
}

test("the file is what the table says; if not, run npm run gen", () => {
  assert.equal(text, grafanaDashboard());
});

test("every panel asks for metrics and labels that there are", () => {
  const panels = dashboard.panels.filter(({ type }) => type !== "row");
  assert.ok(panels.length > 30);
  for (const { title, targets = [] } of panels) {
    assert.ok(targets.length > 0, title);
    for (const { expr, legendFormat } of targets) {
      assert.deepEqual(mistakesOf(expr), [], title);
      const shown = [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, label = ""]) => label);
      const metric = expr.match(names)?.[0] ?? "";
      assert.deepEqual(mistakesOf(`sum by (${shown.join(", ") || "job"}) (${metric})`), [], title);
    }
  }
  const queries = dashboard.templating.list.map(({ query }) => query);
  for (const query of queries.filter((each) => each !== "prometheus")) {
    assert.deepEqual(mistakesOf(query), []);
  }
});

test("a metric or a label that is not there is found", () => {
  const misspelt = "sum(codeq_queue_depths)";
  assert.deepEqual(mistakesOf(misspelt), ["there is no metric codeq_queue_depths"]);
  assert.deepEqual(mistakesOf("codeq_log_bytes_bucket"), [
    "there is no metric codeq_log_bytes_bucket",
  ]);
  const label = "codeq_dlq_depth has no label tenant";
  assert.deepEqual(mistakesOf('codeq_dlq_depth{tenant="a"}'), [label]);
  assert.deepEqual(mistakesOf("sum by (command, tenant) (codeq_dlq_depth)"), [label]);
});

test("panels have ids of their own and do not lie on each other", () => {
  const { panels } = dashboard;
  assert.equal(new Set(panels.map(({ id }) => id)).size, panels.length);
  const taken = new Set<string>();
  for (const { title, gridPos } of panels) {
    assert.ok(gridPos.x + gridPos.w <= 24, title);
    for (let x = gridPos.x; x < gridPos.x + gridPos.w; x += 1) {
      for (let y = gridPos.y; y < gridPos.y + gridPos.h; y += 1) {
        assert.ok(!taken.has(`${x},${y}`), `${title} lies on another panel`);
        taken.add(`${x},${y}`);
      }
    }
  }
});
