/**
 * Full cycles (create, claim, result; three requests) over keep-alive connections, with the load in a
 * process of its own. The anchor is Node's bare HTTP server under the same client in the same run:
 * the ratio says how much of what HTTP alone could do is left for queueing.
 */
import { once } from "node:events";
import type { Checkout } from "./checkout.ts";
import {
  cycleFigures,
  type Figure,
  figure,
  insideFigures,
  insideHelp,
  latencyFigure,
} from "./figures.ts";
import { type ClientName, clientOption, ensureClients, loadProgram } from "./go-client.ts";
import type { HttpLoad } from "./http-load.ts";
import { type Measured, measure } from "./measure.ts";
import { choices, readOptions, wholeNumber, wholeNumbers } from "./options.ts";
import { addByTurns, progress, Table, type Turns, turnLabels } from "./table.ts";
import { turnOptions, turnsHelp, turnsOf } from "./turn-options.ts";
import { benchFile, Workspace } from "./workspace.ts";

export const httpHelp = `full cycles over HTTP with keep-alive connections
    --client own               own: a lean one in Node; go: Go's net/http, which it builds; or both
    --mode fsync,interval,os   durability modes
    --backlog 0,1000000        ready tasks that are there from the start
    --connections 64           at the same time, each doing one request after the other
    --seconds 5                per measurement; 0 leaves them out
    --warm-up 2                seconds before each
    --rate 1000                cycles per second of the light load, without a backlog
    --rate-seconds 5           per measurement of it; 0 leaves it out
    ${turnsHelp}
  Latencies are in ms, p50/p99, of the three requests and of the cycle, in the light load from the
  moment at which it was due. The other columns are those of streams.
  ${insideHelp}`;

const requestsPerCycle = 3;

export async function httpBench(args: readonly string[]): Promise<void> {
  const values = readOptions(args, {
    client: clientOption(),
    mode: choices(["fsync", "interval", "os"], "fsync,interval,os"),
    backlog: wholeNumbers("0,1000000", 0),
    connections: wholeNumber("64"),
    seconds: wholeNumber("5", 0),
    "warm-up": wholeNumber("2", 0),
    rate: wholeNumbers("1000"),
    "rate-seconds": wholeNumber("5", 0),
    ...turnOptions(),
  });
  const { connections, seconds } = values;
  const times = { warmUpSeconds: values["warm-up"], seconds, syscallSeconds: values.syscalls };
  const shape = { ...times, connections, tasksPerSecond: 0 };
  const kinds = values.mode.flatMap((mode) => values.client.map((client) => ({ mode, client })));
  ensureClients(values.client);
  await using workspace = new Workspace();
  if (seconds > 0) {
    const runs = values.backlog.flatMap((backlog) =>
      kinds.map((kind): HttpRun => ({ ...shape, ...kind, part: "closed", backlog })),
    );
    await closedTable(workspace, turnsOf(values), runs);
  }
  if (values["rate-seconds"] > 0) {
    const paced = { ...shape, part: "paced", backlog: 0, seconds: values["rate-seconds"] } as const;
    const runs = values.rate.flatMap((tasksPerSecond) =>
      kinds.map((kind): HttpRun => ({ ...paced, ...kind, tasksPerSecond })),
    );
    if (seconds > 0) console.log("");
    await pacedTable(workspace, turnsOf(values), runs);
  }
}

async function closedTable(
  workspace: Workspace,
  turns: Turns,
  runs: readonly HttpRun[],
): Promise<void> {
  const table = new Table(turnLabels(["mode", "client", "backlog"], turns));
  for (const run of runs) {
    progress(`${run.mode}, ${run.client} client, backlog of ${run.backlog}`);
    const anchor = await measureEcho(workspace, { ...run, syscallSeconds: 0 });
    await addByTurns(table, turns, {
      labels: [run.mode, run.client, String(run.backlog)],
      run: async (checkout) => {
        const measured = await measureServer(workspace, run, checkout);
        const requests = measured.cyclesPerSecond * requestsPerCycle;
        return [
          ...httpFigures(measured),
          figure("anchor req/s", anchor.cyclesPerSecond),
          figure("ratio", requests / anchor.cyclesPerSecond, 2),
        ];
      },
    });
  }
}

async function pacedTable(
  workspace: Workspace,
  turns: Turns,
  runs: readonly HttpRun[],
): Promise<void> {
  const table = new Table(turnLabels(["mode", "client", "rate"], turns));
  for (const run of runs) {
    progress(`${run.mode}, ${run.client} client, ${run.tasksPerSecond} cycles per second`);
    await addByTurns(table, turns, {
      labels: [run.mode, run.client, String(run.tasksPerSecond)],
      run: async (checkout) => httpFigures(await measureServer(workspace, run, checkout)),
    });
  }
}

function httpFigures(measured: Measured): Figure[] {
  const { latency } = measured;
  return [
    ...cycleFigures(measured),
    latencyFigure("create", latency.create),
    latencyFigure("claim", latency.claim),
    latencyFigure("submit", latency.submit),
    latencyFigure("cycle", latency.cycle),
    ...insideFigures(measured.inside),
  ];
}

interface HttpRun extends Pick<HttpLoad, "connections" | "tasksPerSecond"> {
  readonly part: "closed" | "paced";
  readonly mode: string;
  readonly client: ClientName;
  readonly backlog: number;
  readonly seconds: number;
  readonly warmUpSeconds: number;
  readonly syscallSeconds: number;
}

async function measureEcho(workspace: Workspace, run: HttpRun): Promise<Measured> {
  const { child, port } = await workspace.startListening([benchFile("echo-server.ts")], {});
  const measured = await measure(workspace, {
    ...{ ...run, program: loadProgram(run.client, "http-load.ts"), server: child },
    load: loadOf(run, { part: "echo", port }),
  });
  await workspace.stop(child);
  return measured;
}

async function measureServer(
  workspace: Workspace,
  run: HttpRun,
  checkout: Checkout,
): Promise<Measured> {
  const server = await workspace.startServer({ CODEQ_DURABILITY: run.mode }, checkout);
  const { port, child } = server;
  if (run.backlog > 0) {
    const preload = loadOf(run, { part: "preload", port });
    await once(workspace.fork("http-load.ts", preload), "exit");
  }
  const measured = await measure(workspace, {
    ...{ ...run, port, program: loadProgram(run.client, "http-load.ts"), server: child },
    load: loadOf(run, { part: run.part, port }),
  });
  await workspace.stop(child);
  return measured;
}

function loadOf(
  { connections, tasksPerSecond, backlog }: HttpRun,
  { part, port }: Pick<HttpLoad, "part" | "port">,
): HttpLoad & { readonly kind: string } {
  return { kind: "http", part, port, connections, tasksPerSecond, tasks: backlog };
}
