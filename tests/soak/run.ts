/** `npm run soak`: ten minutes of mixed load on a real server, and whether it came out of it sound. */
import { parseArgs } from "node:util";
import { sumOf } from "./checks.ts";
import {
  heapGrowthMax,
  type Progress,
  residentGrowthMax,
  runSoak,
  type SoakReport,
} from "./soak.ts";

const usage = `npm run soak -- [options]
  --seconds S       how long the load lasts (600)
  --rate N          tasks per second on the steady streams (500)
  --seed TEXT       repeats the choices of a run (drawn from the time unless given)
  --help            this text
Ends with 1 when something does not add up.`;

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "600" },
    rate: { type: "string", default: "500" },
    seed: { type: "string", default: String(Math.floor(performance.timeOrigin) % 1_000_000_000) },
    help: { type: "boolean" },
  },
});

if (values.help === true) console.log(usage);
else process.exitCode = await main();

async function main(): Promise<number> {
  const { seed } = values;
  console.log(`${values.seconds} s at ${values.rate} tasks/s, seed ${seed}`);
  const report = await runSoak({
    seconds: Number(values.seconds),
    rate: Number(values.rate),
    seed,
    onProgress: (progress) => console.log(progressLine(progress)),
  });
  for (const line of table(report)) console.log(line);
  for (const problem of report.problems) console.log(`PROBLEM ${problem}`);
  console.log(report.problems.length === 0 ? "sound" : `not sound; the seed was ${seed}`);
  return report.problems.length === 0 ? 0 : 1;
}

function progressLine({ seconds, scrape, ledger }: Progress): string {
  const cells = [
    `${seconds} s`.padStart(6),
    `created ${ledger.total("creates acknowledged")}`,
    `ended ${ledger.total("completed") + ledger.total("failed")}`,
    `ready ${sumOf(scrape, "codeq_queue_depth", 'queue="ready"')}`,
    `leased ${sumOf(scrape, "codeq_queue_depth", 'queue="in_progress"')}`,
    `expired ${sumOf(scrape, "codeq_lease_expired_total")}`,
    `streams ${sumOf(scrape, "codeq_streams_open")} of ${ledger.total("streams opened")}`,
    `resident ${mebibytes(sumOf(scrape, "process_resident_memory_bytes"))}`,
    `problems ${ledger.problems.length}`,
  ];
  return cells.join("  ");
}

function table({ ledger, scrape, places, early, late, drainSeconds }: SoakReport): string[] {
  const rows: [string, string][] = [
    ...[...ledger.counts].sort().map(([what, count]): [string, string] => [what, String(count)]),
    ["tasks without any answer", String(ledger.stories.filter(({ id }) => id === "").length)],
    ...Object.entries(places).map(([place, count]): [string, string] => [
      `stored ${place}`,
      String(count),
    ]),
    ["leases that ran out", String(sumOf(scrape, "codeq_lease_expired_total"))],
    ["pauses for slow readers", String(sumOf(scrape, "codeq_stream_pauses_total", "slow_reader"))],
    ["seconds to drain", drainSeconds.toFixed(1)],
    ["heap, early and late", `${mebibytes(early.heap)} ${mebibytes(late.heap)}`],
    ["resident, early and late", `${mebibytes(early.resident)} ${mebibytes(late.resident)}`],
    ["growth allowed", `${mebibytes(heapGrowthMax)} ${mebibytes(residentGrowthMax)}`],
  ];
  return rows.map(([what, value]) => `  ${what.padEnd(48)} ${value}`);
}

function mebibytes(bytes: number): string {
  return `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}
