/** How figures are shown. */
import type { Latency } from "./load.ts";
import type { Measured, Side } from "./measure.ts";

/** A main thread that has less of its CPU left than this counts as full. */
const fullShare = 0.9;

export function printRow(cells: readonly string[], width = 11): void {
  console.log(cells.map((cell) => cell.padStart(width)).join(" "));
}

/** Goes beside the table, so that the table can be kept. */
export function progress(text: string): void {
  process.stderr.write(`  ${text}\n`);
}

export function bothMs({ p50Ms, p99Ms }: Latency): string {
  return `${ms(p50Ms)}/${ms(p99Ms)}`;
}

function ms(value: number | undefined): string {
  if (value === undefined) return "-";
  return value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0);
}

/** What the tables of all streams begin with. */
export function cyclesCells(measured: Measured): string[] {
  const { server, client } = measured;
  return [
    measured.cyclesPerSecond.toFixed(0),
    server.usPerCycle.toFixed(1),
    client.usPerCycle.toFixed(1),
    percent(server),
    percent(client),
    fullSide(measured),
    measured.otherCpus.toFixed(1),
    bothMs(measured.latency.create),
  ];
}

export function percent({ mainShare }: Side): string {
  return (mainShare * 100).toFixed(0);
}

export function fullSide({ server, client }: Measured): string {
  const full = [
    ...(server.mainShare >= fullShare ? ["server"] : []),
    ...(client.mainShare >= fullShare ? ["client"] : []),
  ];
  return full.length === 0 ? "neither" : full.join("+");
}
