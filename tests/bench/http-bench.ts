/**
 * Full cycles (create, claim, result; three requests) over keep-alive connections, with the load in a
 * process of its own. The anchor is Node's bare HTTP server under the same client in the same run:
 * the ratio says how much of what HTTP alone could do is left for queueing.
 */
import { type ChildProcess, fork, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import type { HttpLoad, HttpLoadResult } from "./http-load.ts";

export const httpHelp = `full cycles over HTTP with keep-alive connections
    --mode fsync,interval,os   durability modes
    --backlog 0,1000000        ready tasks that are there from the start
    --connections 64           at the same time, each doing one request after the other
    --seconds 5                per measurement, after 2 of warm-up`;

const root = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
const file = (name: string): string => join(root, "tests", "bench", name);
const ticksPerSecond = 100;
const warmUpSeconds = 2;

export async function httpBench(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      mode: { type: "string", default: "fsync,interval,os" },
      backlog: { type: "string", default: "0,1000000" },
      connections: { type: "string", default: "64" },
      seconds: { type: "string", default: "5" },
    },
  });
  await mkdir(join(root, "data"), { recursive: true });
  const directory = await mkdtemp(join(root, "data", "bench-"));
  const load = {
    warmUpSeconds,
    seconds: Number(values.seconds),
    connections: Number(values.connections),
  };
  printRow([
    "mode",
    "backlog",
    "cycles/s",
    "req/s",
    "server us/cycle",
    "client us/cycle",
    "p50 ms",
    "p99 ms",
    "anchor req/s",
    "ratio",
  ]);
  try {
    for (const backlog of values.backlog.split(",").map(Number)) {
      for (const mode of values.mode.split(",")) {
        const anchor = await measureEcho(load);
        const dataDir = join(directory, `${mode}-${backlog}`);
        const { result, serverUs } = await measureServer({ mode, dataDir, backlog }, load);
        await rm(dataDir, { recursive: true, force: true });
        const requests = result.perSecond * 3;
        printRow([
          mode,
          String(backlog),
          result.perSecond.toFixed(0),
          requests.toFixed(0),
          serverUs.toFixed(1),
          result.clientCpuUs.toFixed(1),
          result.p50Ms.toFixed(1),
          result.p99Ms.toFixed(1),
          anchor.perSecond.toFixed(0),
          (requests / anchor.perSecond).toFixed(2),
        ]);
      }
    }
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

type Load = Pick<HttpLoad, "connections" | "seconds" | "warmUpSeconds">;

async function measureEcho(load: Load): Promise<HttpLoadResult> {
  const server = await startServer([file("echo-server.ts")], {});
  const { result } = await runLoad(
    { ...load, part: "echo", port: server.port, tasks: 0 },
    server.child,
  );
  await stop(server.child);
  return result;
}

async function measureServer(
  what: { mode: string; dataDir: string; backlog: number },
  load: Load,
): Promise<{ result: HttpLoadResult; serverUs: number }> {
  const server = await startServer([join(root, "packages", "server", "src", "main.ts")], {
    PORT: "0",
    WORKER_STREAM_ADDR: "off",
    PRODUCER_STREAM_ADDR: "off",
    CODEQ_DATA_DIR: what.dataDir,
    CODEQ_DURABILITY: what.mode,
    LOG_LEVEL: "info",
    UV_THREADPOOL_SIZE: "8",
  });
  const { port, child } = server;
  if (what.backlog > 0) {
    const preload = { ...load, part: "preload" as const, port, tasks: what.backlog };
    await once(fork(file("http-load.ts"), [JSON.stringify(preload)], forkOptions), "exit");
  }
  const measured = await runLoad({ ...load, part: "cycles", port, tasks: 0 }, child);
  await stop(child);
  return {
    result: measured.result,
    serverUs: (measured.cpuSeconds / measured.result.perSecond / load.seconds) * 1e6,
  };
}

const forkOptions = { execArgv: ["--conditions=source"] };

/** Runs the load and takes the server's CPU time between the begin and the end of the measurement. */
async function runLoad(
  load: HttpLoad,
  server: ChildProcess,
): Promise<{ result: HttpLoadResult; cpuSeconds: number }> {
  const child = fork(file("http-load.ts"), [JSON.stringify(load)], forkOptions);
  let begin = 0;
  let end = 0;
  let result: HttpLoadResult | undefined;
  child.on("message", (message) => {
    if (message === "begin") void cpuSecondsOf(server).then((seconds) => (begin = seconds));
    else if (message === "end") void cpuSecondsOf(server).then((seconds) => (end = seconds));
    else result = message as HttpLoadResult;
  });
  const [code] = (await once(child, "exit")) as [number];
  if (code !== 0 || result === undefined) throw new Error(`the load failed with code ${code}`);
  return { result, cpuSeconds: end - begin };
}

async function cpuSecondsOf(child: ChildProcess): Promise<number> {
  const stat = await readFile(`/proc/${child.pid}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
}

async function startServer(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<{ child: ChildProcess; port: number }> {
  const child = spawn(process.execPath, ["--conditions=source", ...args], {
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "inherit"],
  });
  for await (const line of createInterface({ input: child.stdout })) {
    if (!line.includes('"listening"')) continue;
    child.stdout.resume();
    return { child, port: (JSON.parse(line) as { port: number }).port };
  }
  throw new Error("the server ended before it listened");
}

async function stop(child: ChildProcess): Promise<void> {
  child.kill("SIGTERM");
  await once(child, "exit");
}

function printRow(cells: readonly string[]): void {
  console.log(cells.map((cell) => cell.padStart(15)).join(" "));
}
