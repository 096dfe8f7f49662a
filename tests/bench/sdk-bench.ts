/**
 * What the client library costs: full cycles through it beside the same cycles through the raw stream
 * client, against servers of the same kind in the same run.
 */
import { type Measured, measure } from "./measure.ts";
import { choices, readOptions, wholeNumber, wholeNumbers } from "./options.ts";
import { measureStreams } from "./streams-bench.ts";
import { cyclesCells, printRow, progress } from "./table.ts";
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
  printRow(columns);
  for (const mode of values.mode) {
    for (const batch of values.batch) {
      const load = { ...shape, part: "closed" as const, batch, tasksPerSecond: 0 };
      const raw: Measured[] = [];
      const library: Measured[] = [];
      for (let round = 1; round <= rounds; round += 1) {
        progress(`${mode}, ${batch} in a call, round ${round}`);
        raw.push(await measureStreams(workspace, { ...times, load, mode }));
        library.push(await measureLibrary(workspace, { ...times, load, mode }));
      }
      const [first, second] = [best(raw), best(library)];
      printRow([mode, String(batch), "raw", ...cyclesCells(first), "1.00"]);
      const ratio = second.cyclesPerSecond / first.cyclesPerSecond;
      printRow([mode, String(batch), "library", ...cyclesCells(second), ratio.toFixed(2)]);
    }
  }
}

const columns = [
  ...["mode", "batch", "client", "cycles/s", "server us", "client us", "server %", "client %"],
  ...["full", "other", "create", "ratio"],
];

/** Other work on the machine only ever takes away. */
function best(measured: readonly Measured[]): Measured {
  const [first, ...rest] = measured;
  if (first === undefined) throw new Error("nothing was measured");
  return rest.reduce(
    (found, each) => (each.cyclesPerSecond > found.cyclesPerSecond ? each : found),
    first,
  );
}

type Run = Parameters<typeof measureStreams>[1];

async function measureLibrary(workspace: Workspace, run: Run): Promise<Measured> {
  const { child, port } = await workspace.startServer({ CODEQ_DURABILITY: run.mode });
  const measured = await measure(workspace, {
    file: "sdk-load.ts",
    server: child,
    load: { ...run.load, port },
    warmUpSeconds: run.warmUpSeconds,
    seconds: run.seconds,
  });
  await workspace.stop(child);
  return measured;
}
