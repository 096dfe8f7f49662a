/**
 * What the client library costs: full cycles through it beside the same cycles through the raw stream
 * client, against servers of the same kind in the same run.
 */
import { cycleFigures, type Figure, figure, latencyFigure } from "./figures.ts";
import { type Measured, measure } from "./measure.ts";
import { choices, readOptions, wholeNumber, wholeNumbers } from "./options.ts";
import { measureStreams, type StreamRun } from "./streams-bench.ts";
import { progress, Table } from "./table.ts";
import { Workspace } from "./workspace.ts";

export const sdkHelp = `full cycles through the client library, beside the raw stream client
    --mode fsync,os            durability modes
    --batch 1,64               tasks in a call of the producer
    --producers 32             concurrent, each waiting for its answer
    --slots 128                tasks (or batches of them) that workers have in hand
    --worker-streams 4         workers that share the slots
    --rounds 3                 of each, by turns; the best of each counts
    --seconds 8                per round
    --warm-up 2                seconds before each
  The ratio is that of the library to the raw client. Both count a task when its result was acknowledged;
  the library also makes an idempotency key for every task and JSON of every input and output.`;

export async function sdkBench(args: readonly string[]): Promise<void> {
  const values = readOptions(args, {
    mode: choices(["fsync", "interval", "os"], "fsync,os"),
    batch: wholeNumbers("1,64"),
    producers: wholeNumber("32"),
    slots: wholeNumber("128"),
    "worker-streams": wholeNumber("4"),
    rounds: wholeNumber("3"),
    seconds: wholeNumber("8"),
    "warm-up": wholeNumber("2", 0),
  });
  const { producers, slots, seconds, rounds } = values;
  const shape = { producers, slots, workerStreams: values["worker-streams"] };
  const times = { warmUpSeconds: values["warm-up"], seconds };
  await using workspace = new Workspace();
  const table = new Table(["mode", "batch", "client"]);
  for (const mode of values.mode) {
    for (const batch of values.batch) {
      const closed = { part: "closed", tasksPerSecond: 0 } as const;
      const load = { ...shape, ...closed, batch, batchOut: batch };
      const run: StreamRun = { ...times, mode, client: "own", load };
      const raw: Measured[] = [];
      const library: Measured[] = [];
      for (let round = 1; round <= rounds; round += 1) {
        progress(`${mode}, ${batch} in a call, round ${round}`);
        raw.push(await measureStreams(workspace, run));
        library.push(await measureLibrary(workspace, run));
      }
      const [first, second] = [best(raw), best(library)];
      table.add([mode, String(batch), "raw"], figuresOf(first, first));
      table.add([mode, String(batch), "library"], figuresOf(second, first));
    }
  }
}

function figuresOf(measured: Measured, raw: Measured): Figure[] {
  return [
    ...cycleFigures(measured),
    latencyFigure("create", measured.latency.create),
    figure("ratio", measured.cyclesPerSecond / raw.cyclesPerSecond, 2),
  ];
}

/** Other work on the machine only ever takes away. */
function best(measured: readonly Measured[]): Measured {
  const [first, ...rest] = measured;
  if (first === undefined) throw new Error("nothing was measured");
  return rest.reduce(
    (found, each) => (each.cyclesPerSecond > found.cyclesPerSecond ? each : found),
    first,
  );
}

async function measureLibrary(workspace: Workspace, run: StreamRun): Promise<Measured> {
  const { child, port } = await workspace.startServer({ CODEQ_DURABILITY: run.mode });
  const measured = await measure(workspace, {
    ...{ ...run, server: child, load: { ...run.load, port } },
    program: { kind: "node", file: "sdk-load.ts" },
  });
  await workspace.stop(child);
  return measured;
}
