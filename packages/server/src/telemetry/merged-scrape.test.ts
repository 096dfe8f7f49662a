import assert from "node:assert/strict";
import { test } from "node:test";
import { mergedScrape } from "./merged-scrape.ts";
import { createMetrics, type Metrics } from "./metrics.ts";

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

test("counts of tasks are added up over the shards", () => {
  const { shards, series } = setup();
  for (const metrics of shards) metrics.taskCreated.inc("a");
  assert.deepEqual(series("codeq_task_created_total"), ['codeq_task_created_total{command="a"} 2']);
});

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
