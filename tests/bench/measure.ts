/** Runs a load in a process of its own and takes the CPU time of both sides while it counts. */
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { type CpuTime, cpuOf, machineBusySeconds } from "./cpu-time.ts";
import type { LoadOptions, LoadReport } from "./load.ts";
import type { Workspace } from "./workspace.ts";

export interface Measurement {
  /** The file of the load, beside this one. */
  readonly file: string;
  readonly load: LoadOptions & Readonly<Record<string, unknown>>;
  readonly server: ChildProcess;
  readonly warmUpSeconds: number;
  readonly seconds: number;
}

/** CPU time of one side. */
export interface Side {
  readonly usPerCycle: number;
  /** How much of one CPU its main thread had, from 0 to 1. */
  readonly mainShare: number;
}

export interface Measured extends LoadReport {
  readonly cyclesPerSecond: number;
  readonly server: Side;
  readonly client: Side;
  /** CPUs that were kept busy by neither of the two. */
  readonly otherCpus: number;
}

export async function measure(workspace: Workspace, what: Measurement): Promise<Measured> {
  const child = workspace.fork(what.file, what.load);
  const ended = once(child, "exit").then(([code]) => {
    throw new Error(`the load ${what.file} ended by itself with code ${code}`);
  });
  // It ends by being stopped, too, when nobody waits for it any more.
  ended.catch(() => {});
  const said = async (): Promise<unknown> => {
    const [message] = (await Promise.race([once(child, "message"), ended])) as [unknown];
    return message;
  };
  const sides = [what.server, child];
  await said();
  await Promise.race([sleep(what.warmUpSeconds * 1000), ended]);
  child.send("begin");
  const before = await sample(sides);
  await Promise.race([sleep(what.seconds * 1000), ended]);
  child.send("end");
  const [after, report] = await Promise.all([sample(sides), said() as Promise<LoadReport>]);
  await workspace.stop(child);
  return summary(report, before, after);
}

interface Sample {
  readonly atMs: number;
  readonly machineSeconds: number;
  readonly processes: readonly CpuTime[];
}

async function sample(sides: readonly ChildProcess[]): Promise<Sample> {
  const atMs = performance.now();
  const machineSeconds = await machineBusySeconds();
  return { atMs, machineSeconds, processes: await Promise.all(sides.map(cpuOf)) };
}

function summary(report: LoadReport, before: Sample, after: Sample): Measured {
  const seconds = (after.atMs - before.atMs) / 1000;
  const cycles = report.finished * (seconds / report.seconds);
  const used = (index: number): CpuTime => {
    const first = before.processes[index];
    const last = after.processes[index];
    if (first === undefined || last === undefined) throw new Error("a process is missing");
    return {
      seconds: last.seconds - first.seconds,
      mainSeconds: last.mainSeconds - first.mainSeconds,
    };
  };
  const side = (index: number): Side => ({
    usPerCycle: (used(index).seconds / Math.max(cycles, 1)) * 1e6,
    mainShare: used(index).mainSeconds / seconds,
  });
  const machine = after.machineSeconds - before.machineSeconds;
  return {
    ...report,
    cyclesPerSecond: report.finished / report.seconds,
    server: side(0),
    client: side(1),
    otherCpus: Math.max(0, machine - used(0).seconds - used(1).seconds) / seconds,
  };
}
