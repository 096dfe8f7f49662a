/**
 * Full cycles (enqueue, claim, submit; one task a call) through broker, store and engine in process,
 * without a transport: the ceiling of everything that is built on top. The anchor is what the disk
 * and Node alone make of the same bytes.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import type { CaseOptions, CaseResult } from "./engine-case.ts";
import type { Mode } from "./open-broker.ts";

export const engineHelp = `full cycles in process, without a transport
    --mode fsync,interval,os   durability modes
    --backlog 0,1000000        ready tasks that are there from the start
    --in-flight 256            cycles at the same time
    --seconds 5                per measurement
    --repeat 1                 measurements per case; the table shows each
    --flush-mib 6              overlay size at which a flush begins`;

const root = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
const caseFile = join(root, "tests", "bench", "engine-case.ts");

export async function engineBench(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      mode: { type: "string", default: "fsync,interval,os" },
      backlog: { type: "string", default: "0,1000000" },
      "in-flight": { type: "string", default: "256" },
      seconds: { type: "string", default: "5" },
      repeat: { type: "string", default: "1" },
      "flush-mib": { type: "string", default: "6" },
    },
  });
  await mkdir(join(root, "data"), { recursive: true });
  const directory = await mkdtemp(join(root, "data", "bench-"));
  try {
    printRow(columns);
    for (const backlog of values.backlog.split(",").map(Number)) {
      for (const mode of values.mode.split(",") as Mode[]) {
        for (let i = 0; i < Number(values.repeat); i++) {
          await benchCase({
            part: "cycles",
            directory: join(directory, "case"),
            mode,
            backlog,
            inFlight: Number(values["in-flight"]),
            seconds: Number(values.seconds),
            flushMiB: Number(values["flush-mib"]),
          });
        }
      }
    }
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

const columns = [
  ...["mode", "backlog", "cycles/s", "CPU us", "p50 ms", "p99 ms"],
  ...["anchor/s", "ratio", "B/cycle", "group", "open ms", "RSS open", "RSS max"],
];

async function benchCase(options: CaseOptions): Promise<void> {
  if (options.backlog > 0) await runCase({ ...options, part: "preload" });
  const result = JSON.parse(await runCase(options)) as CaseResult;
  await rm(options.directory, { recursive: true, force: true });
  printRow([
    options.mode,
    String(result.ready),
    result.cyclesPerSecond.toFixed(0),
    result.cpuUsPerCycle.toFixed(1),
    result.p50Ms.toFixed(1),
    result.p99Ms.toFixed(1),
    result.anchorPerSecond.toFixed(0),
    (result.cyclesPerSecond / result.anchorPerSecond).toFixed(2),
    result.bytesPerCycle.toFixed(0),
    result.batchesPerGroup.toFixed(0),
    result.openMs.toFixed(0),
    `${result.openRssMb.toFixed(0)} MB`,
    `${result.rssMb.toFixed(0)} MB`,
  ]);
}

async function runCase(options: CaseOptions): Promise<string> {
  // As scripts/start.mjs sets them.
  const nodeArgs = [...process.execArgv, "--max-semi-space-size=8"];
  const env = { ...process.env, UV_THREADPOOL_SIZE: "8", MALLOC_ARENA_MAX: "2" };
  const child = spawn(process.execPath, [...nodeArgs, caseFile, JSON.stringify(options)], {
    env,
    stdio: ["ignore", "pipe", "inherit"],
  });
  let output = "";
  child.stdout.on("data", (text: Buffer) => {
    output += text.toString("utf8");
  });
  const [code] = (await once(child, "close")) as [number | null];
  if (code !== 0) throw new Error(`the measurement ended with code ${code}`);
  return output;
}

function printRow(cells: readonly string[]): void {
  console.log(cells.map((cell) => cell.padStart(9)).join(" "));
}
