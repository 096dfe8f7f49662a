import assert from "node:assert/strict";
import { test } from "node:test";
import { mergedScrape } from "./merged-scrape.ts";
import { createMetrics, largestMetrics, type Metrics } from "./metrics.ts";

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
