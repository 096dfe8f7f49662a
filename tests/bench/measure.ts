/** Runs a load in a process of its own and takes the CPU time of both sides while it counts. */
import type { ChildProcess } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { type CpuTime, cpuOf, machineBusySeconds } from "./cpu-time.ts";
import type { LoadReport } from "./load.ts";
import { type LoadProcess, type LoadProgram, startLoad } from "./load-process.ts";
import { type Inside, insideNames, watchServer } from "./server-inside.ts";
import { syscallsPerSecond } from "./syscalls.ts";
import type { Workspace } from "./workspace.ts";

export interface Measurement {
  readonly program: LoadProgram;
  readonly load: object;
  readonly server: ChildProcess;
  readonly warmUpSeconds: number;
  readonly seconds: number;
  /** The port of our own server, which tells what goes on inside of it. */
  readonly port?: number;
  /** For how long its system calls are counted afterwards. */
  readonly syscallSeconds?: number;
}

/** CPU time of one side. */
export interface Side {
  readonly usPerCycle: number;
  /** How much of one CPU its main thread had, from 0 to 1; undefined where many threads are alike. */
  readonly mainShare: number | undefined;
}

export interface Measured extends LoadReport {
  readonly cyclesPerSecond: number;
  readonly server: Side;
  readonly client: Side;
  /** CPUs that were kept busy by neither of the two. */
  readonly otherCpus: number;
  /** Per cycle. */
  readonly inside: Partial<Inside>;
}

export async function measure(workspace: Workspace, what: Measurement): Promise<Measured> {
  const { server: child, port } = what;
  const load = startLoad(workspace, what.program, what.load);
  const sides = [child, load.child];
  await load.hear();
  await Promise.race([sleep(what.warmUpSeconds * 1000), load.ended]);
  const endWatch = port === undefined ? undefined : await watchServer({ child, port });
  load.tell("begin");
  const before = await sample(sides);
  await Promise.race([sleep(what.seconds * 1000), load.ended]);
  load.tell("end");
  const [after, report] = await Promise.all([sample(sides), load.hear() as Promise<LoadReport>]);
  const inside = await endWatch?.();
  const syscalls = await syscallsPerCycle(load, what);
  await workspace.stop(load.child);
  const { cyclesPerSecond, ...summed } = summary(report, before, after);
  return {
    ...{ ...summed, cyclesPerSecond, inside: { ...perCycle(inside, cyclesPerSecond), syscalls } },
    client: load.isSingleThreaded ? summed.client : { ...summed.client, mainShare: undefined },
  };
}

async function syscallsPerCycle(
  load: LoadProcess,
  { server, syscallSeconds = 0 }: Measurement,
): Promise<number | undefined> {
  if (syscallSeconds === 0) return undefined;
  load.tell("begin");
  const counting = syscallsPerSecond(server.pid, syscallSeconds);
  const perSecond = await Promise.race([counting, load.ended]);
  load.tell("end");
  const { finished, seconds } = (await load.hear()) as LoadReport;
  return perSecond === undefined ? undefined : (perSecond * seconds) / Math.max(finished, 1);
}

/** Of rates by the second. */
export function perCycle(
  inside: Partial<Inside> | undefined,
  cyclesPerSecond: number,
): Partial<Inside> {
  const shares = insideNames.map((name) => {
    const rate = inside?.[name];
    return [name, rate === undefined ? undefined : rate / cyclesPerSecond];
  });
  return Object.fromEntries(shares) as Partial<Inside>;
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

function summary(report: LoadReport, before: Sample, after: Sample): Omit<Measured, "inside"> {
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
