/**
 * What tracing costs the server: the same cycles over HTTP without tracing and with shares of the traces
 * kept, by turns, with a collector in this process that takes everything.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { here } from "./checkout.ts";
import { cycleFigures, type Figure, medianFigures, ratioFigures } from "./figures.ts";
import { loadProgram } from "./go-client.ts";
import { measure } from "./measure.ts";
import { choices, readOptions, wholeNumber } from "./options.ts";
import { progress, Table } from "./table.ts";
import { Workspace } from "./workspace.ts";

export const tracingHelp = `what tracing costs, by turns with a server that does not trace
    --mode os                  durability mode
    --connections 64           at the same time, each doing one request after the other
    --seconds 5                per measurement
    --rounds 3                 of each case; each is shown, then the medians and the ratios to off
  The cases are off, 1 % and all of the traces. Compare \`server us\`, the CPU time of a cycle.`;

const cases = { off: undefined, "1 %": "0.01", all: "1" } as const;
type Case = keyof typeof cases;

export async function tracingBench(args: readonly string[]): Promise<void> {
  const values = readOptions(args, {
    mode: choices(["fsync", "interval", "os"], "os"),
    connections: wholeNumber("64"),
    seconds: wholeNumber("5"),
    rounds: wholeNumber("3"),
  });
  await using workspace = new Workspace();
  const collector = await startCollector();
  const table = new Table(["tracing", "round"]);
  const measured = new Map<Case, (readonly Figure[])[]>();
  try {
    for (let round = 1; round <= values.rounds; round += 1) {
      for (const each of Object.keys(cases) as Case[]) {
        progress(`tracing ${each}, round ${round}`);
        const env = { CODEQ_DURABILITY: values.mode[0] ?? "os", ...envOf(each, collector.port) };
        const figures = await figuresOf(workspace, env, values);
        measured.set(each, [...(measured.get(each) ?? []), figures]);
        table.add([each, String(round)], figures);
      }
    }
  } finally {
    collector.close();
  }
  const medians = new Map([...measured].map(([each, all]) => [each, medianFigures(all)]));
  for (const [each, figures] of medians) table.add([each, "median"], figures);
  const off = medians.get("off") ?? [];
  for (const [each, figures] of medians) {
    if (each !== "off") table.add([each, "ratio"], ratioFigures(figures, off));
  }
}

function envOf(each: Case, port: number): Record<string, string> {
  const ratio = cases[each];
  if (ratio === undefined) return { TRACING_ENABLED: "false" };
  return {
    TRACING_ENABLED: "true",
    TRACING_SAMPLE_RATIO: ratio,
    OTEL_EXPORTER_OTLP_PROTOCOL: "http/protobuf",
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`,
  };
}

async function figuresOf(
  workspace: Workspace,
  env: Record<string, string>,
  { connections, seconds }: { readonly connections: number; readonly seconds: number },
): Promise<Figure[]> {
  const { port, child } = await workspace.startServer(env, here);
  const load = { kind: "http", part: "closed", port, connections, tasksPerSecond: 0, tasks: 0 };
  const measured = await measure(workspace, {
    ...{ seconds, warmUpSeconds: 2, syscallSeconds: 0, port, load },
    program: loadProgram("own", "http-load.ts"),
    server: child,
  });
  await workspace.stop(child);
  return cycleFigures(measured);
}

async function startCollector(): Promise<{ readonly port: number; readonly close: () => void }> {
  const server = createServer((request, response) => {
    request.resume();
    request.on("end", () => response.writeHead(200).end());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const close = (): void => {
    server.closeAllConnections();
    server.close();
  };
  return { port, close };
}
