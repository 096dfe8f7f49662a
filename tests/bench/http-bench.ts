/**
 * Full cycles (create, claim, result; three requests) over keep-alive connections, with the load in a
 * process of its own. The anchor is Node's bare HTTP server under the same client in the same run:
 * the ratio says how much of what HTTP alone could do is left for queueing.
 */
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { cpuOf } from "./cpu-time.ts";
import type { HttpLoad, HttpLoadResult } from "./http-load.ts";
import { choices, readOptions, wholeNumber, wholeNumbers } from "./options.ts";
import { printRow } from "./table.ts";
import { benchFile, Workspace } from "./workspace.ts";

export const httpHelp = `full cycles over HTTP with keep-alive connections
    --mode fsync,interval,os   durability modes
    --backlog 0,1000000        ready tasks that are there from the start
    --connections 64           at the same time, each doing one request after the other
    --seconds 5                per measurement, after 2 of warm-up`;

const warmUpSeconds = 2;
const columnWidth = 15;

export async function httpBench(args: readonly string[]): Promise<void> {
  const values = readOptions(args, {
    mode: choices(["fsync", "interval", "os"], "fsync,interval,os"),
    backlog: wholeNumbers("0,1000000", 0),
    connections: wholeNumber("64"),
    seconds: wholeNumber("5"),
  });
  const { connections, seconds } = values;
  const load = { warmUpSeconds, seconds, connections };
  await using workspace = new Workspace();
  printRow(columns, columnWidth);
  for (const backlog of values.backlog) {
    for (const mode of values.mode) {
      const anchor = await measureEcho(workspace, load);
      const { result, serverUs } = await measureServer(workspace, { mode, backlog, load });
      const requests = result.perSecond * 3;
      const cells = [
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
      ];
      printRow(cells, columnWidth);
    }
  }
}

const columns = [
  ...["mode", "backlog", "cycles/s", "req/s", "server us/cycle", "client us/cycle"],
  ...["p50 ms", "p99 ms", "anchor req/s", "ratio"],
];

type Load = Pick<HttpLoad, "connections" | "seconds" | "warmUpSeconds">;

async function measureEcho(workspace: Workspace, load: Load): Promise<HttpLoadResult> {
  const { child, port } = await workspace.startListening([benchFile("echo-server.ts")], {});
  const { result } = await runLoad(workspace, child, { ...load, part: "echo", port, tasks: 0 });
  await workspace.stop(child);
  return result;
}

async function measureServer(
  workspace: Workspace,
  what: { readonly mode: string; readonly backlog: number; readonly load: Load },
): Promise<{ result: HttpLoadResult; serverUs: number }> {
  const { port, child } = await workspace.startServer({ CODEQ_DURABILITY: what.mode });
  const { load, backlog } = what;
  if (backlog > 0) {
    const preload = { ...load, part: "preload", port, tasks: backlog };
    await once(workspace.fork("http-load.ts", preload), "exit");
  }
  const measured = await runLoad(workspace, child, { ...load, part: "cycles", port, tasks: 0 });
  await workspace.stop(child);
  return {
    result: measured.result,
    serverUs: (measured.cpuSeconds / measured.result.perSecond / load.seconds) * 1e6,
  };
}

/** Runs the load and takes the server's CPU time between the begin and the end of the measurement. */
async function runLoad(
  workspace: Workspace,
  server: ChildProcess,
  load: HttpLoad,
): Promise<{ result: HttpLoadResult; cpuSeconds: number }> {
  const child = workspace.fork("http-load.ts", load);
  let begin = 0;
  let end = 0;
  let result: HttpLoadResult | undefined;
  child.on("message", (message) => {
    if (message === "begin") void cpuOf(server).then(({ seconds }) => (begin = seconds));
    else if (message === "end") void cpuOf(server).then(({ seconds }) => (end = seconds));
    else result = message as HttpLoadResult;
  });
  const [code] = (await once(child, "exit")) as [number];
  if (code !== 0 || result === undefined) throw new Error(`the load failed with code ${code}`);
  return { result, cpuSeconds: end - begin };
}
