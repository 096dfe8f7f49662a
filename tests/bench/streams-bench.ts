/**
 * Full cycles (create, claim, result) over the two gRPC streams, with the client in a process of its
 * own. The anchor is the same conversation with a server that has no queue, under the same client in
 * the same run: the ratio says how much of what the streams alone could do is left for queueing.
 */
import type { LoadOptions } from "./load.ts";
import { type Measured, measure } from "./measure.ts";
import { choices, readOptions, wholeNumber, wholeNumbers } from "./options.ts";
import { bothMs, cyclesCells, printRow, progress } from "./table.ts";
import { benchFile, type Listening, Workspace } from "./workspace.ts";

export const streamsHelp = `full cycles over the gRPC streams; a task counts when its result was acknowledged
    --mode fsync,os            durability modes
    --batch 1,64               tasks in a message; 1 sends messages without a list
    --producers 32             concurrent, each waiting for its answer, on one producer stream
    --slots 128                worker slots; each has one Ready out and answers what it gets
    --worker-streams 4         that share the slots, on one connection
    --seconds 20               per measurement
    --warm-up 3                seconds before each
    --pickup-rate 200          tasks per second while the pickup latency is taken
    --pickup-seconds 10        for each mode; 0 leaves it out
  Producers pause while (producers + slots) x batch tasks are unfinished, so that no backlog grows.
  Latencies, in ms, p50/p99: create is from a message of tasks to its acknowledgement, claim from a
  Ready to its tasks (with the time in which there were none), submit from the results to their
  acknowledgement, pickup from the call that creates a task to the handler that gets it.
  CPU is in us per cycle for all threads of a process; server % and client % are how much of one CPU
  the main threads used, "full" which of them had no more than a tenth of it left, and other how many
  CPUs something else kept busy. tasks/msg is how many tasks one message brought a worker. The anchor
  is a server without a queue.`;

/** The anchor needs no more than this share of the time. */
const anchorShare = 0.25;

export async function streamsBench(args: readonly string[]): Promise<void> {
  const values = readOptions(args, {
    mode: choices(["fsync", "interval", "os"], "fsync,os"),
    batch: wholeNumbers("1,64"),
    producers: wholeNumber("32"),
    slots: wholeNumber("128"),
    "worker-streams": wholeNumber("4"),
    seconds: wholeNumber("20"),
    "warm-up": wholeNumber("3", 0),
    "pickup-rate": wholeNumber("200"),
    "pickup-seconds": wholeNumber("10", 0),
  });
  const { producers, slots, seconds } = values;
  const shape = { producers, slots, workerStreams: values["worker-streams"] };
  const times = { warmUpSeconds: values["warm-up"], seconds };
  await using workspace = new Workspace();
  printRow(columns);
  for (const mode of values.mode) {
    for (const batch of values.batch) {
      progress(`${mode}, ${batch} in a message`);
      const load = closedLoad(shape, batch);
      const anchorTimes = { ...times, seconds: Math.ceil(seconds * anchorShare) };
      const anchor = await measureEcho(workspace, { ...anchorTimes, load });
      const measured = await measureStreams(workspace, { ...times, load, mode });
      printRow([mode, String(batch), ...cells(measured, anchor)]);
    }
  }
  if (values["pickup-seconds"] === 0) return;
  console.log("");
  printRow(["mode", "tasks/s", "pickup", "server us", "other"]);
  for (const mode of values.mode) {
    progress(`${mode}, ${values["pickup-rate"]} tasks per second`);
    const load = pickupLoad(shape, values["pickup-rate"]);
    const pickupTimes = { ...times, seconds: values["pickup-seconds"] };
    const measured = await measureStreams(workspace, { ...pickupTimes, load, mode });
    printRow([
      mode,
      measured.cyclesPerSecond.toFixed(0),
      bothMs(measured.latency.pickup),
      measured.server.usPerCycle.toFixed(0),
      measured.otherCpus.toFixed(1),
    ]);
  }
}

const columns = [
  ...["mode", "batch", "cycles/s", "server us", "client us", "server %", "client %", "full"],
  ...["other", "create", "claim", "submit", "tasks/msg", "anchor/s", "ratio"],
];

function cells(measured: Measured, anchor: Measured): string[] {
  const { latency } = measured;
  return [
    ...cyclesCells(measured),
    bothMs(latency.claim),
    bothMs(latency.submit),
    (measured.finished / Math.max(measured.deliveries, 1)).toFixed(1),
    anchor.cyclesPerSecond.toFixed(0),
    (measured.cyclesPerSecond / anchor.cyclesPerSecond).toFixed(2),
  ];
}

interface Shape {
  readonly producers: number;
  readonly slots: number;
  readonly workerStreams: number;
}

type StreamLoad = LoadOptions & Shape;

interface Run {
  readonly load: StreamLoad;
  readonly warmUpSeconds: number;
  readonly seconds: number;
}

function closedLoad(shape: Shape, batch: number): StreamLoad {
  return { ...shape, part: "closed", batch, tasksPerSecond: 0 };
}

function pickupLoad(shape: Shape, tasksPerSecond: number): StreamLoad {
  return { ...shape, part: "pickup", batch: 1, tasksPerSecond };
}

/** With a server and a data directory of its own. */
export async function measureStreams(
  workspace: Workspace,
  run: Run & { readonly mode: string },
): Promise<Measured> {
  return await measureAt(
    workspace,
    await workspace.startServer({ CODEQ_DURABILITY: run.mode }),
    run,
  );
}

async function measureEcho(workspace: Workspace, run: Run): Promise<Measured> {
  const echo = benchFile("stream-echo-server.ts");
  return await measureAt(workspace, await workspace.startListening([echo], {}), run);
}

async function measureAt(workspace: Workspace, server: Listening, run: Run): Promise<Measured> {
  const { child, workerStreamPort: workerPort, producerStreamPort: producerPort } = server;
  const load = { ...run.load, workerPort, producerPort };
  const measured = await measure(workspace, {
    file: "stream-load.ts",
    server: child,
    load,
    warmUpSeconds: run.warmUpSeconds,
    seconds: run.seconds,
  });
  await workspace.stop(child);
  return measured;
}
