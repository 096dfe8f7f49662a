/** `bench`: measures a running server with one small client on this machine. */
import { limits } from "@codeq/server/command-line";
import { runLoad, type Spread } from "../bench/load.ts";
import type { Call } from "../call.ts";
import { exitCodes } from "../exit-codes.ts";
import { ProgressBar } from "../terminal/progress-bar.ts";
import { count, duration } from "../terminal/units.ts";

export async function run(call: Call): Promise<number> {
  const { options, host } = call;
  const tasks = options.wholeNumber("tasks", { min: 1, max: 10_000_000 }) ?? 5000;
  const payloadBytes =
    options.wholeNumber("payload-bytes", { min: 8, max: limits.payloadBytesMax }) ?? 100;
  const concurrency = options.wholeNumber("concurrency", { min: 1, max: 1000 }) ?? 32;
  const batch = options.wholeNumber("batch", { min: 1, max: limits.claimBatchMax }) ?? 1;
  const { errors: output, clock } = host;
  using bar = new ProgressBar({ output, clock, title: "tasks", total: tasks });
  const report = await runLoad({
    api: await call.api(),
    clock,
    // Always the same: a server tells only so many commands apart in its metrics.
    command: "codeq-bench",
    tasks,
    payloadBytes,
    concurrency,
    batch,
    stopped: host.stopped(),
    progress: (done) => bar.set(done),
  });
  bar[Symbol.dispose]();
  if (call.json) {
    call.printJson({ ...report, payloadBytes, concurrency, batch });
    return exitCodes.ok.code;
  }
  const { seconds, tasksPerSecond } = report;
  call.print(
    `${count(report.tasks)} tasks enqueued, claimed and completed in ${duration(seconds * 1000)}: ` +
      call.style.bold(`${count(tasksPerSecond)} tasks/s`),
  );
  call.print(`  enqueue  ${spreadText(report.enqueueMs)}`);
  call.print(`  pickup   ${spreadText(report.pickupMs)}`);
  call.print(`  cycle    ${spreadText(report.cycleMs)}`);
  call.note("measured with one small HTTP client; streams, batches and more clients are faster");
  return host.stopped().aborted ? exitCodes.interrupted.code : exitCodes.ok.code;
}

function spreadText({ p50, p99, max }: Spread): string {
  return `p50 ${duration(p50)}  p99 ${duration(p99)}  max ${duration(max)}`;
}
