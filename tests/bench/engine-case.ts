/**
 * One measurement in a process of its own, so that neither memory nor compiled code of one case is
 * part of another. Takes a JSON argument, writes a JSON line.
 */
import fs from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { WorkerId } from "@codeq/queue";
import { type HeapUse, watchHeap } from "./heap-use.ts";
import { Histogram } from "./histogram.ts";
import type { Mode, OpenBroker, Written } from "./open-broker.ts";
import { syscallsPerSecond } from "./syscalls.ts";

export interface CaseOptions {
  readonly part: "preload" | "cycles";
  /** The file that opens a broker, of this checkout or of another one. */
  readonly brokerFile: string;
  readonly directory: string;
  readonly mode: Mode;
  readonly backlog: number;
  /** Over so many queues tasks are spread, and claimed from any of them; 0 for one queue, claimed by its name. */
  readonly queues: number;
  readonly inFlight: number;
  readonly seconds: number;
  readonly flushMiB: number;
  /** For how long system calls are counted afterwards. */
  readonly syscallSeconds: number;
}

export interface CaseResult {
  readonly openMs: number;
  readonly ready: number;
  /** Right after opening, and the highest during the run. */
  readonly openRssMb: number;
  readonly rssMb: number;
  readonly cyclesPerSecond: number;
  readonly cpuUsPerCycle: number;
  readonly heap: HeapUse;
  /** Undefined when they were not counted. */
  readonly syscallsPerCycle: number | undefined;
  /** Undefined for a checkout that does not tell. */
  readonly kvWritesPerCycle: number | undefined;
  /** Undefined for a checkout that does not tell. */
  readonly stallUsPerCycle: number | undefined;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly bytesPerCycle: number;
  readonly batchesPerGroup: number;
  readonly anchorPerSecond: number;
}

const warmUpShare = 0.2;
const preloadPiece = 1000;
const progressEvery = 250_000;
const anchorSeconds = 1;

/** As often as it was in all checkouts that may be measured. */
const syncIntervalMs = 100;

const options = JSON.parse(process.argv[2] ?? "{}") as CaseOptions;
let created = 0;
const { cycleOne, enqueueOne, openBroker, readyCount } = (await import(
  pathToFileURL(options.brokerFile).href
)) as typeof import("./open-broker.ts");
if (options.part === "preload") await preload();
else console.log(JSON.stringify(await measure()));

/** The queue of the next task. */
function nextFields(): { readonly command: string } | undefined {
  if (options.queues === 0) return undefined;
  created += 1;
  return { command: `work-${created % options.queues}` };
}

async function preload(): Promise<void> {
  const { engine, broker } = await openBroker(options.directory, { ...options, mode: "os" });
  for (let count = 0; count < options.backlog; ) {
    let done = Promise.resolve();
    for (let i = 0; i < preloadPiece; i++) done = enqueueOne(broker, nextFields());
    await done;
    count += preloadPiece;
    if (count % progressEvery === 0) console.error(`  preloaded ${count} tasks`);
  }
  await engine[Symbol.asyncDispose]();
}

async function measure(): Promise<CaseResult> {
  const startedAt = performance.now();
  const opened = await openBroker(options.directory, options);
  const openMs = performance.now() - startedAt;
  const openRssMb = rssMb();
  const ready = readyCount(opened.broker);
  await runFor(opened, options.seconds * warmUpShare);
  const before = { ...opened.written };
  const stalledBefore = stalledSeconds(opened);
  const endWatch = watchHeap();
  const run = await runFor(opened, options.seconds);
  const heap = endWatch();
  const written: Written = {
    groups: opened.written.groups - before.groups,
    batches: opened.written.batches - before.batches,
    bytes: opened.written.bytes - before.bytes,
    // NaN in an older one that does not count them.
    kvWrites: opened.written.kvWrites - before.kvWrites,
  };
  // NaN in an older one that does not tell.
  const stalledUs = (stalledSeconds(opened) - stalledBefore) * 1e6;
  const syscallsPerCycle = await countSyscalls(opened);
  await opened.engine[Symbol.asyncDispose]();
  const { latencies, cycles, seconds, cpuUs } = run;
  return {
    ...{ openMs, ready, openRssMb, rssMb: run.rssMb, heap, syscallsPerCycle },
    cyclesPerSecond: cycles / seconds,
    cpuUsPerCycle: cpuUs / cycles,
    p50Ms: latencies.quantile(0.5) ?? 0,
    p99Ms: latencies.quantile(0.99) ?? 0,
    bytesPerCycle: written.bytes / cycles,
    batchesPerGroup: written.batches / written.groups,
    kvWritesPerCycle: Number.isNaN(written.kvWrites) ? undefined : written.kvWrites / cycles,
    stallUsPerCycle: Number.isNaN(stalledUs) ? undefined : stalledUs / cycles,
    anchorPerSecond: await anchor(written, cycles),
  };
}

function stalledSeconds({ engine }: OpenBroker): number {
  return engine.stats().writeStallSeconds;
}

async function countSyscalls(opened: OpenBroker): Promise<number | undefined> {
  const { syscallSeconds } = options;
  if (syscallSeconds === 0) return undefined;
  const counting = syscallsPerSecond(process.pid, syscallSeconds);
  const { cycles, seconds } = await runFor(opened, syscallSeconds);
  const perSecond = await counting;
  return perSecond === undefined ? undefined : (perSecond * seconds) / cycles;
}

interface Run {
  readonly latencies: Histogram;
  readonly cycles: number;
  readonly seconds: number;
  readonly cpuUs: number;
  readonly rssMb: number;
}

async function runFor({ broker }: OpenBroker, seconds: number): Promise<Run> {
  const latencies = new Histogram();
  let cycles = 0;
  let highest = 0;
  const sampler = setInterval(() => {
    highest = Math.max(highest, rssMb());
  }, 100);
  const startedAt = performance.now();
  const cpuBefore = process.cpuUsage();
  const endAt = startedAt + seconds * 1000;
  const client = async (workerId: WorkerId): Promise<void> => {
    for (let now = performance.now(); now < endAt; ) {
      await cycleOne(broker, workerId, nextFields());
      const after = performance.now();
      latencies.add(after - now);
      cycles += 1;
      now = after;
    }
  };
  const clients = Array.from({ length: options.inFlight }, (_, i) => client(`w${i}` as WorkerId));
  await Promise.all(clients);
  clearInterval(sampler);
  const { user, system } = process.cpuUsage(cpuBefore);
  return {
    ...{ latencies, cycles, cpuUs: user + system, rssMb: highest },
    seconds: (performance.now() - startedAt) / 1000,
  };
}

/** Cycles per second when the same bytes are only appended to a file, grouped and synced alike. */
async function anchor(written: Written, cycles: number): Promise<number> {
  const bytes = Buffer.alloc(Math.round(written.bytes / written.groups), "x");
  const fd = fs.openSync(join(options.directory, "anchor"), "w");
  const startedAt = performance.now();
  let groups = 0;
  let syncedAt = startedAt;
  while (performance.now() - startedAt < anchorSeconds * 1000) {
    await append(fd, bytes);
    groups += 1;
    const isDue = performance.now() - syncedAt > syncIntervalMs;
    if (options.mode === "fsync" || (options.mode === "interval" && isDue)) {
      await sync(fd);
      syncedAt = performance.now();
    }
  }
  const seconds = (performance.now() - startedAt) / 1000;
  fs.closeSync(fd);
  return (groups * cycles) / written.groups / seconds;
}

function append(fd: number, bytes: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    fs.write(fd, bytes, (error) => (error === null ? resolve() : reject(error)));
  });
}

function sync(fd: number): Promise<void> {
  return new Promise((resolve, reject) => {
    fs.fdatasync(fd, (error) => (error === null ? resolve() : reject(error)));
  });
}

function rssMb(): number {
  return process.memoryUsage.rss() / 1e6;
}
