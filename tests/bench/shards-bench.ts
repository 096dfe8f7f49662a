/**
 * How the server scales with its shards: full cycles over streams and over HTTP, with the same clients for
 * every number of shards, in one table.
 */
import { availableParallelism } from "node:os";
import { cycleFigures, type Figure, figure, latencyFigure, threadFigures } from "./figures.ts";
import { type ClientName, clientOption, ensureClients, loadProgram } from "./go-client.ts";
import { type Measured, measure } from "./measure.ts";
import {
  batchSizes,
  choice,
  choices,
  duration,
  readOptions,
  wholeNumber,
  wholeNumbers,
} from "./options.ts";
import { progress, Table } from "./table.ts";
import { Workspace } from "./workspace.ts";

const cores = availableParallelism();
/** As many as there are cores at most. */
const shardsTried = [1, 2, 4, 8, 16, 32, 64].filter((count) => count <= Math.max(cores, 2));
/** One process of clients for each four cores, so that they are not the limit and leave enough. */
const clientsTried = Math.max(1, Math.floor(cores / 4));

export const shardsHelp = `full cycles with several numbers of shards, over streams and over HTTP
    --shards ${shardsTried.join(",")}${" ".repeat(Math.max(1, 18 - shardsTried.join(",").length))}numbers of shards; up to the cores of this machine unless told
    --over streams,http        what clients talk over
    --mode fsync               fsync, interval or os
    --client own               own: lean ones in Node; go: Go's, which it builds; or both
    --clients ${clientsTried}                processes of own clients, each with all of the following
    --batch 1                  tasks in a message of streams; 8:32 creates 8 and asks for up to 32
    --producers 32             concurrent, on one producer stream
    --slots 128                worker slots on 4 streams
    --connections 64           of HTTP, each doing one request after the other
    --seconds 10               per measurement
    --warm-up 3                seconds before each
  Scaling is the rate in relation to that of the first number of shards. Server % is the main thread, which
  has the transports, and client % the busiest client: "full" tells which of them is the limit. Shards % is
  the CPU of each of these threads, and "full threads" names
  those of the server that have no more than a tenth of a CPU left. Latencies are in ms, p50/p99: of the three steps and, over HTTP, of the cycle; claim has the wait for a task in it.
  With several clients p50 is their median and p99 the worst of them. See streams for the other columns.`;

interface ShardsRun {
  readonly over: "streams" | "http";
  readonly client: ClientName;
  readonly mode: string;
  readonly clients: number;
  readonly seconds: number;
  readonly warmUpSeconds: number;
  /** What one client does. */
  readonly load: object;
}

export async function shardsBench(args: readonly string[]): Promise<void> {
  const values = readOptions(args, {
    shards: wholeNumbers(shardsTried.join(",")),
    over: choices(["streams", "http"], "streams,http"),
    mode: choice(["fsync", "interval", "os"], "fsync"),
    client: clientOption(),
    clients: wholeNumber(String(clientsTried)),
    batch: batchSizes("1"),
    producers: wholeNumber("32"),
    slots: wholeNumber("128"),
    connections: wholeNumber("64"),
    seconds: duration("10"),
    "warm-up": wholeNumber("3", 0),
  });
  ensureClients(values.client);
  const { mode, clients, seconds, producers, slots, connections } = values;
  const shared = {
    mode,
    clients,
    seconds,
    warmUpSeconds: values["warm-up"],
  };
  const closed = { part: "closed", tasksPerSecond: 0 } as const;
  const http = { batch: "-", load: { ...closed, kind: "http", connections, tasks: 0 } };
  const streams = values.batch.map((sizes) => ({
    batch: `${sizes.batch}:${sizes.batchOut}`,
    load: { ...closed, ...sizes, kind: "streams", producers, slots, workerStreams: 4 },
  }));
  const loads = values.over.flatMap((over) =>
    (over === "http" ? [http] : streams).map((each) => ({ ...each, over })),
  );
  await using workspace = new Workspace();
  console.log(`${cores} cores, ${mode}, ${clients} client process(es)`);
  const table = new Table(["over", "client", "batch", "shards"]);
  for (const { batch, ...kind } of loads) {
    for (const client of values.client) {
      let first: Measured | undefined;
      for (const shards of values.shards) {
        progress(`${kind.over}, ${client} client, ${shards} shard(s)`);
        const measured = await measureShards(workspace, { ...shared, ...kind, client }, shards);
        first ??= measured;
        table.add([kind.over, client, batch, String(shards)], figuresOf(measured, first));
      }
    }
  }
}

async function measureShards(
  workspace: Workspace,
  run: ShardsRun,
  shards: number,
): Promise<Measured> {
  const env = {
    CODEQ_DURABILITY: run.mode,
    CODEQ_SHARDS: String(shards),
  };
  const server = await workspace.startServer(env);
  const { child, port, workerStreamPort: workerPort, producerStreamPort: producerPort } = server;
  const file = run.over === "http" ? "http-load.ts" : "stream-load.ts";
  // Go uses as many cores as it needs in one process.
  const clients = run.client === "go" ? 1 : run.clients;
  const measured = await measure(workspace, {
    ...run,
    ...{ program: loadProgram(run.client, file), server: child },
    load: Array.from({ length: clients }, (_, client) => ({
      ...{ ...run.load, port, workerPort, producerPort },
      command: `bench-${client}`,
    })),
  });
  await workspace.stop(child);
  return measured;
}

function figuresOf(measured: Measured, first: Measured): Figure[] {
  const { latency } = measured;
  const scaling = measured.cyclesPerSecond / first.cyclesPerSecond;
  const [rate, ...others] = cycleFigures(measured);
  return [
    ...(rate === undefined ? [] : [rate]),
    figure("scaling", scaling, 2),
    ...others,
    latencyFigure("create", latency.create),
    latencyFigure("claim", latency.claim),
    latencyFigure("submit", latency.submit),
    latencyFigure("cycle", latency.cycle),
    // Last, since they are as long as there are threads.
    ...threadFigures(measured),
  ];
}
