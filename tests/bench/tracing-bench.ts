/**
 * What tracing costs over the streams: the same load with tracing off, on for some traces, and on without a
 * collector, by turns in one run. The collector of this benchmark takes spans and does nothing with them.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import {
  cycleFigures,
  type Figure,
  figure,
  insideFigures,
  median,
  medianFigures,
} from "./figures.ts";
import { batchSizes, readOptions, wholeNumber } from "./options.ts";
import { measureStreams, type StreamRun } from "./streams-bench.ts";
import { progress, Table } from "./table.ts";
import type { TracingCaseOptions, TracingCaseResult } from "./tracing-case.ts";
import { freePort, runCase, Workspace } from "./workspace.ts";

export const tracingHelp = `full cycles over the streams with tracing off, sampled, and without a collector
    --batch 1,64               tasks in a message
    --rounds 3                 of all cases, by turns; the medians are shown
    --seconds 4                per measurement
    --warm-up 2                seconds before each
    --turns 200                of a tenth of a second, of the part in process
  First what tracing adds to a cycle in process, in short turns; that is the exact figure. Then over the streams.
  "of off" is the CPU time a cycle divided by that with tracing off in the same round, the median of all rounds.`;

export async function tracingBench(args: readonly string[]): Promise<void> {
  const values = readOptions(args, {
    batch: batchSizes("1,64"),
    rounds: wholeNumber("3"),
    seconds: wholeNumber("4"),
    "warm-up": wholeNumber("2", 0),
    turns: wholeNumber("200"),
  });
  let receivedBytes = 0;
  const collector = createServer((request, response) => {
    request.on("data", (piece: Buffer) => {
      receivedBytes += piece.length;
    });
    request.on("end", () => response.writeHead(200).end());
  }).listen(0, "127.0.0.1");
  await once(collector, "listening");
  const { port } = collector.address() as AddressInfo;
  const sampled = (ratio: string, at: number): Record<string, string> => ({
    ...{ TRACING_ENABLED: "true", TRACING_SAMPLE_RATIO: ratio },
    CODEQ_TRACING_OTLP_PROTOCOL: "http/protobuf",
    TRACING_OTLP_ENDPOINT: `http://127.0.0.1:${at}`,
  });
  const cases: Readonly<Record<string, Record<string, string>>> = {
    off: {},
    "1 %": sampled("0.01", port),
    "1 %, dead": sampled("0.01", await freePort()),
    "100 %": sampled("1", port),
  };
  await using workspace = new Workspace();
  await inProcess(workspace, { port, shares: [0.01, 1], turns: values.turns });
  const table = new Table(["batch", "tracing"]);
  for (const sizes of values.batch) {
    const run: StreamRun = {
      ...{ mode: "fsync", client: "own", warmUpSeconds: values["warm-up"] },
      seconds: values.seconds,
      load: {
        ...{ ...sizes, part: "closed", tasksPerSecond: 0 },
        ...{ producers: 32, slots: 128, workerStreams: 4 },
      },
    };
    const rounds = new Map(Object.keys(cases).map((name) => [name, [] as Figure[][]]));
    for (let round = 1; round <= values.rounds; round += 1) {
      for (const [name, env] of Object.entries(cases)) {
        progress(`${sizes.batch} in a message, ${name}, round ${round}`);
        const before = receivedBytes;
        const measured = await measureStreams(workspace, { ...run, env });
        const sentKb = (receivedBytes - before) / 1024;
        rounds
          .get(name)
          ?.push([
            ...cycleFigures(measured),
            ...insideFigures(measured.inside),
            figure("sent KB", sentKb),
          ]);
      }
    }
    const off = rounds.get("off") ?? [];
    for (const [name, each] of rounds) {
      const ratios = each.map((figures, round) => serverUs(figures) / serverUs(off[round]));
      table.add(
        [String(sizes.batch), name],
        [figure("of off", median(ratios), 3), ...medianFigures(each)],
      );
    }
  }
  collector.close();
  collector.closeAllConnections();
}

async function inProcess(
  workspace: Workspace,
  options: Omit<TracingCaseOptions, "directory">,
): Promise<void> {
  progress(`in process, ${options.turns} turns`);
  const directory = workspace.newDirectory();
  const text = await runCase(workspace, "tracing-case.ts", { ...options, directory });
  const { offUs, addedUs } = JSON.parse(text) as TracingCaseResult;
  const table = new Table(["tracing, in process"]);
  table.add(["off"], [figure("CPU us", offUs, 2), figure("added us", 0, 2)]);
  for (const [index, share] of options.shares.entries()) {
    const added = addedUs[index] ?? Number.NaN;
    table.add(
      [`${share * 100} %`],
      [figure("CPU us", offUs + added, 2), figure("added us", added, 2)],
    );
  }
}

function serverUs(figures: readonly Figure[] | undefined): number {
  return figures?.find(({ name }) => name === "server us")?.values[0] ?? Number.NaN;
}
