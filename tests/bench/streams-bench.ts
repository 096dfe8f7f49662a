/**
 * Full cycles (create, claim, result) over the two gRPC streams, with the client in a process of its
 * own. `floor` measures by turns the least that a server of these streams can cost: the ratio says what queueing costs.
 */
import { once } from "node:events";
import { join } from "node:path";
import { type Checkout, floor, here } from "./checkout.ts";
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
import type { LoadOptions } from "./load.ts";
import { type Measured, measure } from "./measure.ts";
import {
  batchSizes,
  choices,
  duration,
  readOptions,
  wholeNumber,
  wholeNumbers,
} from "./options.ts";
import { addByTurns, progress, Table, type Turns, turnLabels } from "./table.ts";
import { turnOptions, turnsHelp, turnsOf } from "./turn-options.ts";
import { benchFile, type Listening, Workspace } from "./workspace.ts";

export const streamsHelp = `full cycles over the gRPC streams; a task counts when its result was acknowledged
    --client own               own: a lean one in Node; go: grpc-go, which it builds; or both
    --mode fsync,os            durability modes
    --batch 1,64               tasks in a message; 1 sends messages without a list; 8:32 creates 8
                               in a message and asks for up to 32
    --backlog 0                ready tasks that are there from the start
    --producers 32             concurrent, each waiting for its answer, on one producer stream
    --slots 128                worker slots; each has one Ready out and answers what it gets
    --worker-streams 4         that share the slots, on one connection
    --seconds 20               per measurement; 0 leaves them out
    --warm-up 3                seconds before each
    --rate 200                 tasks per second of the light load, one in a message; 200,1000 for two
    --rate-seconds 10          per measurement of it; 0 leaves it out
    ${turnsHelp}
  Producers pause while as much is unfinished as producers and slots can hold, so that no backlog grows.
  The light load has no backlog from the start either.
  Latencies, in ms, p50/p99: create is from a message of tasks to its acknowledgement, claim from a
  Ready to its tasks (with the time in which there were none), submit from the results to their
  acknowledgement, pickup from the call that creates a task to the handler that gets it.
  CPU is in us per cycle for all threads of a process; server % and client % are how much of one CPU
  the main threads used (in Go there is none), "full" which of them had no more than a tenth of it left,
  and other how many CPUs something else kept busy. tasks/msg is how many tasks one message brought a
  worker.
  ${insideHelp}`;

export const floorHelp = `the cycles of streams, by turns with the least that a server of these streams can cost
    The options and columns of streams; --against is not used, --rounds is 5 by default. "floor" is Node's own HTTP/2 server,
    which decodes and encodes the messages, appends what changes to a file and, with fsync, syncs it in groups; "here"
    is codeQ. The last line of each case is codeQ divided by the floor.`;

export async function floorBench(args: readonly string[]): Promise<void> {
  await streamsBench(["--rounds", "5", ...args], [floor, here]);
}

export async function streamsBench(
  args: readonly string[],
  compared?: readonly Checkout[],
): Promise<void> {
  const values = readOptions(args, {
    client: clientOption(),
    mode: choices(["fsync", "interval", "os"], "fsync,os"),
    batch: batchSizes("1,64"),
    backlog: wholeNumbers("0", 0),
    producers: wholeNumber("32"),
    slots: wholeNumber("128"),
    "worker-streams": wholeNumber("4"),
    seconds: duration("20", 0),
    "warm-up": wholeNumber("3", 0),
    rate: wholeNumbers("200"),
    "rate-seconds": duration("10", 0),
    ...turnOptions(),
  });
  const { producers, slots, seconds } = values;
  const shape = { producers, slots, workerStreams: values["worker-streams"] };
  const times = { warmUpSeconds: values["warm-up"], seconds, syscallSeconds: values.syscalls };
  const turns = turnsOf({ ...values, against: compared ?? values.against });
  const runs = values.mode.flatMap((mode) => values.client.map((client) => ({ mode, client })));
  ensureClients(values.client);
  await using workspace = new Workspace();
  if (seconds > 0) {
    const closed = { ...shape, part: "closed", tasksPerSecond: 0 } as const;
    const loads = values.batch.map((sizes) => ({ ...closed, ...sizes }));
    const full = values.backlog.flatMap((backlog) =>
      crossed(runs, loads, times).map((run) => ({ ...run, backlog })),
    );
    await closedTable(workspace, turns, full);
  }
  if (values["rate-seconds"] > 0) {
    const paced = { ...shape, part: "paced", batch: 1, batchOut: 1 } as const;
    const loads = values.rate.map((tasksPerSecond) => ({ ...paced, tasksPerSecond }));
    const pacedTimes = { ...times, seconds: values["rate-seconds"] };
    if (seconds > 0) console.log("");
    await pacedTable(workspace, turns, crossed(runs, loads, pacedTimes));
  }
}

function crossed(
  runs: readonly Pick<StreamRun, "mode" | "client">[],
  loads: readonly StreamLoad[],
  times: Times,
): StreamRun[] {
  return runs.flatMap((run) => loads.map((load) => ({ ...times, ...run, load })));
}

async function closedTable(
  workspace: Workspace,
  turns: Turns,
  runs: readonly StreamRun[],
): Promise<void> {
  const table = new Table(turnLabels(["mode", "client", "batch", "backlog"], turns));
  for (const run of runs) {
    const { mode, client, load, backlog = 0 } = run;
    const { batch, batchOut } = load;
    const sizes = batch === batchOut ? String(batch) : `${batch}:${batchOut}`;
    progress(`${mode}, ${client} client, ${sizes} in a message, backlog of ${backlog}`);
    await addByTurns(table, turns, {
      labels: [mode, client, sizes, String(backlog)],
      run: async (checkout) => closedFigures(await measureStreams(workspace, run, checkout)),
    });
  }
}

function closedFigures(measured: Measured): Figure[] {
  const { latency } = measured;
  return [
    ...cycleFigures(measured),
    latencyFigure("create", latency.create),
    latencyFigure("claim", latency.claim),
    latencyFigure("submit", latency.submit),
    figure("tasks/msg", measured.finished / Math.max(measured.deliveries, 1), 1),
    ...insideFigures(measured.inside),
  ];
}

async function pacedTable(
  workspace: Workspace,
  turns: Turns,
  runs: readonly StreamRun[],
): Promise<void> {
  const table = new Table(turnLabels(["mode", "client", "rate"], turns));
  for (const run of runs) {
    const { mode, client, load } = run;
    progress(`${mode}, ${client} client, ${load.tasksPerSecond} tasks per second`);
    await addByTurns(table, turns, {
      labels: [mode, client, String(load.tasksPerSecond)],
      run: async (checkout) => {
        const measured = await measureStreams(workspace, run, checkout);
        return [
          ...cycleFigures(measured),
          latencyFigure("create", measured.latency.create),
          latencyFigure("pickup", measured.latency.pickup),
          latencyFigure("submit", measured.latency.submit),
          ...insideFigures(measured.inside),
        ];
      },
    });
  }
}

type StreamLoad = LoadOptions & { readonly workerStreams: number };

interface Times {
  readonly warmUpSeconds: number;
  readonly seconds: number;
  readonly syscallSeconds?: number;
}

export interface StreamRun extends Times {
  readonly mode: string;
  readonly client: ClientName;
  readonly load: StreamLoad;
  /** Ready tasks that are there from the start. */
  readonly backlog?: number;
  /** Settings of the server, beside its durability. */
  readonly env?: Readonly<Record<string, string>>;
  /** Called before the load. */
  readonly prepare?: (server: Listening) => Promise<void>;
}

/** With a server and a data directory of its own. */
export async function measureStreams(
  workspace: Workspace,
  run: StreamRun,
  checkout?: Checkout,
): Promise<Measured> {
  if (checkout === floor) return await measureFloor(workspace, run);
  const server = await workspace.startServer({ CODEQ_DURABILITY: run.mode, ...run.env }, checkout);
  await run.prepare?.(server);
  if (run.backlog) await preload(workspace, server, run.backlog);
  return await measureAt(workspace, server, { ...run, port: server.port });
}

/** Over HTTP, because the load of the streams leaves no backlog. */
async function preload(
  workspace: Workspace,
  { port }: Pick<Listening, "port">,
  tasks: number,
): Promise<void> {
  const load: HttpLoad = { part: "preload", port, connections: 1, tasksPerSecond: 0, tasks };
  await once(workspace.fork("http-load.ts", load), "exit");
}

async function measureFloor(workspace: Workspace, run: StreamRun): Promise<Measured> {
  const log = join(workspace.newDirectory(), "log");
  const server = await workspace.startListening(
    ["--max-semi-space-size=8", benchFile("floor-server.ts"), run.mode, log],
    {},
  );
  return await measureAt(workspace, server, run);
}

async function measureAt(
  workspace: Workspace,
  { child, workerStreamPort: workerPort, producerStreamPort: producerPort }: Listening,
  run: StreamRun & { readonly port?: number },
): Promise<Measured> {
  const measured = await measure(workspace, {
    ...run,
    ...{ program: loadProgram(run.client, "stream-load.ts"), server: child },
    load: { ...run.load, kind: "streams", workerPort, producerPort },
  });
  await workspace.stop(child);
  return measured;
}
