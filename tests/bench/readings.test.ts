/** What other programs and the server write, as the benchmarks read it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { LoadReport } from "./load.ts";
import { mergedReport, perCycle } from "./measure.ts";
import { metricValue } from "./server-inside.ts";
import { perfCount, straceCount } from "./syscalls.ts";

test("perf counts, or says that it could not", () => {
  const event = "raw_syscalls:sys_enter";
  assert.equal(perfCount(`12345,,${event},1000213,100.00,,\n`), 12_345);
  assert.equal(perfCount(`<not supported>,,${event},0,100.00,,\n`), undefined);
  assert.equal(perfCount(`event syntax error: '${event}'\n`), undefined);
});

test("the sum of strace is found with and without the other columns", () => {
  const heading = "% time     seconds  usecs/call     calls    errors syscall";
  const line = "------ ----------- ----------- --------- --------- ----------------";
  const full = "100.00    0.000049           0       109        14 total";
  const older = "100.00    0.000049                   109        14 total";
  const noErrors = "100.00    0.000049           0       109           total";
  for (const total of [full, older, noErrors]) {
    assert.equal(straceCount([heading, line, total, ""].join("\n")), 109, total);
  }
  assert.equal(straceCount("strace: attach: Operation not permitted\n"), undefined);
});

test("a sample is read by its whole name", () => {
  const text = "# TYPE a histogram\na_sum_of 3\na_sum 1234.5\na_count 4\n";
  assert.equal(metricValue(text, "a_sum"), 1234.5);
  assert.equal(metricValue(text, "b_sum"), undefined);
});

test("rates are divided by that of the cycles, and what is unknown stays so", () => {
  const shares = perCycle({ logBytes: 5000, kvWrites: undefined }, 10);
  assert.equal(shares.logBytes, 500);
  assert.equal(shares.kvWrites, undefined);
  assert.equal(perCycle(undefined, 10).logBytes, undefined);
});

test("several loads are one: their tasks together, the usual latency and the worst", () => {
  const report = (finished: number, p50Ms: number | undefined, p99Ms: number | undefined) => {
    const each = { p50Ms, p99Ms };
    const latency = { create: each, claim: each, submit: each, pickup: each, cycle: each };
    return { seconds: 2, finished, deliveries: finished, latency } satisfies LoadReport;
  };
  const merged = mergedReport([report(10, 1, 9), report(20, 3, 5), report(30, 2, 7)]);
  assert.deepEqual([merged.seconds, merged.finished, merged.deliveries], [2, 60, 60]);
  assert.deepEqual(merged.latency.create, { p50Ms: 2, p99Ms: 9 });
  const none = mergedReport([report(0, undefined, undefined), report(0, undefined, undefined)]);
  assert.deepEqual(none.latency.cycle, { p50Ms: undefined, p99Ms: undefined });
});
