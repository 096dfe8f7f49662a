/** Runs a load in a process of its own and takes the CPU time of both sides while it counts. */
import type { ChildProcess } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { type CpuTime, cpuOf, machineBusySeconds, type Process } from "./cpu-time.ts";
import { median } from "./figures.ts";
import type { LatencyName, LoadReport } from "./load.ts";
import { type LoadProcess, type LoadProgram, startLoad } from "./load-process.ts";
import { type Inside, insideNames, watchServer } from "./server-inside.ts";
import { syscallsPerSecond } from "./syscalls.ts";
import type { Workspace } from "./workspace.ts";

export interface Measurement {
  readonly program: LoadProgram;
  /** What the load does; of several, each in a process of its own. */
  readonly load: object | readonly object[];
  readonly server: ChildProcess;
  /** Processes that work with the server, by what they are. */
  readonly beside?: Readonly<Record<string, readonly Process[]>>;
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

/** The thread of a shard, and how much of one CPU it had. */
interface ThreadShare {
  readonly name: string;
  readonly share: number;
}

export interface Measured extends LoadReport {
  readonly cyclesPerSecond: number;
  readonly server: Side;
  readonly client: Side;
  /** Of the server, besides its main thread. */
  readonly threads: readonly ThreadShare[];
  /** CPU time of processes beside the server, in microseconds a cycle. */
  readonly beside: Readonly<Record<string, number>>;
  /** CPUs that were kept busy by none of them. */
  readonly otherCpus: number;
  /** Per cycle. */
  readonly inside: Partial<Inside>;
}

export async function measure(workspace: Workspace, what: Measurement): Promise<Measured> {
  const { server: child, port } = what;
  const given: readonly object[] = Array.isArray(what.load) ? what.load : [what.load];
  const loads = given.map((each) => startLoad(workspace, what.program, each));
  const [load] = loads as [LoadProcess];
  const sides = {
    server: [child],
    client: loads.map((each) => each.child),
    beside: Object.entries(what.beside ?? {}),
  };
  const anyEnded = Promise.race(loads.map(({ ended }) => ended));
  await Promise.all(loads.map((each) => each.hear()));
  await Promise.race([sleep(what.warmUpSeconds * 1000), anyEnded]);
  const endWatch = port === undefined ? undefined : await watchServer({ child, port });
  for (const each of loads) each.tell("begin");
  const before = await sample(sides);
  await Promise.race([sleep(what.seconds * 1000), anyEnded]);
  for (const each of loads) each.tell("end");
  const reported = Promise.all(loads.map((each) => each.hear() as Promise<LoadReport>));
  const [after, reports] = await Promise.all([sample(sides), reported]);
  const inside = await endWatch?.();
  const syscalls = await syscallsPerCycle(load, what);
  await Promise.all(loads.map((each) => workspace.stop(each.child)));
  const { cyclesPerSecond, ...summed } = summary(mergedReport(reports), before, after);
  return {
    ...{ ...summed, cyclesPerSecond, inside: { ...perCycle(inside, cyclesPerSecond), syscalls } },
    client: load.isSingleThreaded ? summed.client : { ...summed.client, mainShare: undefined },
  };
}

/** What several loads did at the same time: all their tasks, the usual latency, the worst of the rare ones. */
export function mergedReport(reports: readonly LoadReport[]): LoadReport {
  const [first] = reports as [LoadReport];
  if (reports.length === 1) return first;
  const sum = (of: (report: LoadReport) => number): number =>
    reports.reduce((total, report) => total + of(report), 0);
  const names = Object.keys(first.latency) as LatencyName[];
  const latency = names.map((name) => {
    const rare = reports.flatMap((report) => report.latency[name].p99Ms ?? []);
    const p50Ms = median(reports.map((report) => report.latency[name].p50Ms));
    return [name, { p50Ms, p99Ms: rare.length === 0 ? undefined : Math.max(...rare) }];
  });
  return {
    seconds: sum(({ seconds }) => seconds) / reports.length,
    finished: sum(({ finished }) => finished),
    deliveries: sum(({ deliveries }) => deliveries),
    latency: Object.fromEntries(latency) as LoadReport["latency"],
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

interface Sides {
  readonly server: readonly Process[];
  readonly client: readonly Process[];
  readonly beside: readonly (readonly [string, readonly Process[]])[];
}

interface Sample {
  readonly atMs: number;
  readonly machineSeconds: number;
  readonly server: readonly CpuTime[];
  readonly client: readonly CpuTime[];
  readonly beside: ReadonlyMap<string, readonly CpuTime[]>;
}

async function sample({ server, client, beside }: Sides): Promise<Sample> {
  const atMs = performance.now();
  const machineSeconds = await machineBusySeconds();
  const timesOf = (some: readonly Process[]): Promise<CpuTime[]> => Promise.all(some.map(cpuOf));
  const groups = beside.map(async ([name, some]) => [name, await timesOf(some)] as const);
  return {
    atMs,
    machineSeconds,
    server: await timesOf(server),
    client: await timesOf(client),
    beside: new Map(await Promise.all(groups)),
  };
}

/** What was used between two samples, process by process. */
function usedOf(before: readonly CpuTime[] = [], after: readonly CpuTime[] = []): CpuTime[] {
  return before.map((first, index) => {
    const last = after[index];
    if (last === undefined) throw new Error("a process is missing");
    return {
      seconds: last.seconds - first.seconds,
      mainSeconds: last.mainSeconds - first.mainSeconds,
      threads: new Map(
        [...last.threads].map(([name, spent]) => [name, spent - (first.threads.get(name) ?? 0)]),
      ),
    };
  });
}

function summary(report: LoadReport, before: Sample, after: Sample): Omit<Measured, "inside"> {
  const seconds = (after.atMs - before.atMs) / 1000;
  const cycles = report.finished * (seconds / report.seconds);
  const server = usedOf(before.server, after.server);
  const client = usedOf(before.client, after.client);
  const beside = [...before.beside].map(
    ([name, first]) => [name, usedOf(first, after.beside.get(name))] as const,
  );
  const all = [...server, ...client, ...beside.flatMap(([, some]) => some)];
  const usPerCycle = (some: readonly CpuTime[]): number =>
    (totalSeconds(some) / Math.max(cycles, 1)) * 1e6;
  // The busiest one is the one that may be full.
  const side = (processes: readonly CpuTime[]): Side => ({
    usPerCycle: usPerCycle(processes),
    mainShare: Math.max(...processes.map(({ mainSeconds }) => mainSeconds)) / seconds,
  });
  const machine = after.machineSeconds - before.machineSeconds;
  return {
    ...report,
    cyclesPerSecond: report.finished / report.seconds,
    server: side(server),
    client: side(client),
    beside: Object.fromEntries(beside.map(([name, some]) => [name, usPerCycle(some)])),
    threads: [...(server[0]?.threads ?? [])].map(([name, spent]) => ({
      name,
      share: spent / seconds,
    })),
    otherCpus: Math.max(0, machine - totalSeconds(all)) / seconds,
  };
}

function totalSeconds(processes: readonly CpuTime[]): number {
  return processes.reduce((total, { seconds }) => total + seconds, 0);
}
