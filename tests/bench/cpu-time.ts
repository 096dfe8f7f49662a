/** How much CPU processes have used, as the Linux kernel counts it. */
import { readdir, readFile } from "node:fs/promises";

/** Of the counters, on every common build of the kernel. */
const ticksPerSecond = 100;

/** One of this machine. */
export interface Process {
  readonly pid?: number | undefined;
}

export interface CpuTime {
  readonly seconds: number;
  /** The share of the thread that runs the event loop. */
  readonly mainSeconds: number;
  /** Those of threads that the server has for shards, by their names. */
  readonly threads: ReadonlyMap<string, number>;
}

export async function cpuOf({ pid }: Process): Promise<CpuTime> {
  return {
    seconds: await ticksOf(`/proc/${pid}/stat`),
    mainSeconds: await ticksOf(`/proc/${pid}/task/${pid}/stat`),
    threads: await threadsOf(`/proc/${pid}/task`),
  };
}

async function threadsOf(tasks: string): Promise<ReadonlyMap<string, number>> {
  const found = new Map<string, number>();
  for (const task of await readdir(tasks)) {
    const name = (await readProc(`${tasks}/${task}/comm`).catch(() => "")).trim();
    if (!/^shard-\d+$/.test(name)) continue;
    found.set(name, await ticksOf(`${tasks}/${task}/stat`));
  }
  return found;
}

async function ticksOf(path: string): Promise<number> {
  const stat = await readProc(path);
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
}

/** Seconds that all CPUs of the machine together were not idle. */
export async function machineBusySeconds(): Promise<number> {
  const [line = ""] = (await readProc("/proc/stat")).split("\n");
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0, steal = 0] = line
    .trim()
    .split(/\s+/)
    .slice(1)
    .map(Number);
  return (user + nice + system + irq + softirq + steal) / ticksPerSecond;
}

async function readProc(path: string): Promise<string> {
  if (process.platform !== "linux") {
    throw new Error("CPU time is read from /proc: run this benchmark on Linux");
  }
  return await readFile(path, "utf8");
}
