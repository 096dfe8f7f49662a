/**
 * Full cycles (enqueue, claim, submit; one task a call) through broker, store and engine in process,
 * without a transport: the ceiling of everything that is built on top. The anchor is what the disk
 * and Node alone make of the same bytes.
 */
import { rm } from "node:fs/promises";
import { brokerFile, type Checkout } from "./checkout.ts";
import type { CaseOptions, CaseResult } from "./engine-case.ts";
import { type Figure, figure, insideFigures, insideHelp, latencyFigure } from "./figures.ts";
import { perCycle } from "./measure.ts";
import { choices, readOptions, wholeNumber, wholeNumbers } from "./options.ts";
import { addByTurns, progress, Table, turnLabels } from "./table.ts";
import { turnOptions, turnsHelp, turnsOf } from "./turn-options.ts";
import { runCase, Workspace } from "./workspace.ts";

export const engineHelp = `full cycles in process, without a transport
    --mode fsync,interval,os   durability modes
    --backlog 0,1000000        ready tasks that are there from the start
    --queues 0                 over which tasks are spread, and claimed from any; 0: one queue, claimed by its name
    --in-flight 256            cycles at the same time
    --seconds 5                per measurement
    --flush-mib 6              overlay size at which a flush begins
    ${turnsHelp}
  cycle is how long one took, p50/p99 in ms; group is how many changes shared an append to the log. The
  anchor is a file that gets the same bytes. The CPU time includes that of the loop that drives it.
  ${insideHelp}`;

export async function engineBench(args: readonly string[]): Promise<void> {
  const values = readOptions(args, {
    mode: choices(["fsync", "interval", "os"], "fsync,interval,os"),
    backlog: wholeNumbers("0,1000000", 0),
    queues: wholeNumbers("0", 0),
    "in-flight": wholeNumber("256"),
    seconds: wholeNumber("5"),
    "flush-mib": wholeNumber("6"),
    ...turnOptions(),
  });
  const turns = turnsOf(values);
  const shape = { inFlight: values["in-flight"], flushMiB: values["flush-mib"] };
  const times = { seconds: values.seconds, syscallSeconds: values.syscalls };
  await using workspace = new Workspace();
  const table = new Table(turnLabels(["mode", "queues", "backlog"], turns));
  for (const { backlog, queues } of values.backlog.flatMap((backlog) =>
    values.queues.map((queues) => ({ backlog, queues })),
  )) {
    for (const mode of values.mode) {
      progress(`${mode}, ${queues || "one"} queues, backlog of ${backlog}`);
      const what = { ...shape, ...times, mode, backlog, queues };
      await addByTurns(table, turns, {
        labels: [mode, String(queues), String(backlog)],
        run: (checkout) => measureCase(workspace, checkout, what),
      });
    }
  }
}

async function measureCase(
  workspace: Workspace,
  checkout: Checkout,
  what: Omit<CaseOptions, "part" | "directory" | "brokerFile">,
): Promise<Figure[]> {
  const directory = workspace.newDirectory();
  const options = { ...what, directory, brokerFile: brokerFile(checkout) };
  if (what.backlog > 0) await runCase(workspace, "engine-case.ts", { ...options, part: "preload" });
  const text = await runCase(workspace, "engine-case.ts", { ...options, part: "cycles" });
  await rm(directory, { recursive: true, force: true });
  return figuresOf(JSON.parse(text) as CaseResult);
}

function figuresOf(result: CaseResult): Figure[] {
  const { heap, cyclesPerSecond } = result;
  const rates = {
    allocatedBytes: heap.allocatedBytes / heap.seconds,
    copiedBytes: heap.copiedBytes / heap.seconds,
    promotedBytes: heap.promotedBytes / heap.seconds,
  };
  const inside = {
    ...perCycle(rates, cyclesPerSecond),
    logBytes: result.bytesPerCycle,
    kvWrites: result.kvWritesPerCycle,
    stallUs: result.stallUsPerCycle,
    syscalls: result.syscallsPerCycle,
  };
  return [
    figure("cycles/s", cyclesPerSecond),
    figure("CPU us", result.cpuUsPerCycle, 1),
    latencyFigure("cycle", result),
    ...insideFigures(inside),
    figure("group", result.batchesPerGroup),
    figure("anchor/s", result.anchorPerSecond),
    figure("ratio", cyclesPerSecond / result.anchorPerSecond, 2),
    figure("open ms", result.openMs),
    figure("MB open", result.openRssMb),
    figure("MB max", result.rssMb),
  ];
}
