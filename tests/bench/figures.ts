/** Figures of a measurement as cells of a table, and what several measurements of one thing come to. */
import type { Latency } from "./load.ts";
import type { Measured } from "./measure.ts";
import type { Inside } from "./server-inside.ts";

/** One cell: a number, several of a kind, or a word. */
export interface Figure {
  readonly name: string;
  readonly values: readonly (number | undefined)[];
  /** Behind the point; those of milliseconds depend on the value. */
  readonly digits: number | "ms";
  /** Instead of values. */
  readonly text?: string;
}

export function figure(
  name: string,
  value: number | undefined,
  digits: Figure["digits"] = 0,
): Figure {
  return { name, values: [value], digits };
}

export function latencyFigure(name: string, { p50Ms, p99Ms }: Latency): Figure {
  return { name, values: [p50Ms, p99Ms], digits: "ms" };
}

export function cellOf({ values, digits, text }: Figure): string {
  if (text !== undefined) return text;
  const cells = values.map((value) => numberText(value, digits));
  return cells.every((cell) => cell === "-") ? "-" : cells.join("/");
}

function numberText(value: number | undefined, digits: Figure["digits"]): string {
  if (value === undefined || !Number.isFinite(value)) return "-";
  if (digits === "ms") return value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0);
  return value.toFixed(digits);
}

/** Of what several rounds have measured, figure by figure; words become those of the last. */
export function medianFigures(rounds: readonly (readonly Figure[])[]): Figure[] {
  const last = rounds.at(-1) ?? [];
  return last.map((shown, index) => ({
    ...shown,
    values: shown.values.map((_, part) => median(rounds.map((each) => each[index]?.values[part]))),
  }));
}

/** The second divided by the first, figure by figure. */
export function ratioFigures(first: readonly Figure[], second: readonly Figure[]): Figure[] {
  return second.map(({ name, values, text }, index) => ({
    ...{ name, digits: 2 },
    values: values.map((value, part) => {
      const other = first[index]?.values[part];
      return value === undefined || other === undefined ? undefined : value / other;
    }),
    ...(text === undefined ? {} : { text: "" }),
  }));
}

/** Of those that there are; undefined when there are none. */
export function median(values: readonly (number | undefined)[]): number | undefined {
  const sorted = values.filter((value) => value !== undefined).sort((a, b) => a - b);
  const upper = sorted[Math.floor(sorted.length / 2)];
  const lower = sorted[Math.floor((sorted.length - 1) / 2)];
  return upper === undefined || lower === undefined ? undefined : (upper + lower) / 2;
}

/** A main thread that has less of its CPU left than this counts as full. */
const fullShare = 0.9;

/** What the tables of all loads begin with. */
export function cycleFigures(measured: Measured): Figure[] {
  const { server, client } = measured;
  return [
    figure("cycles/s", measured.cyclesPerSecond),
    figure("server us", server.usPerCycle, 1),
    figure("client us", client.usPerCycle, 1),
    figure("server %", percent(server.mainShare)),
    figure("client %", percent(client.mainShare)),
    { name: "full", values: [], digits: 0, text: fullSide(measured) },
    figure("other", measured.otherCpus, 1),
  ];
}

/** What each shard had of a CPU, and which threads of the server are full. */
export function threadFigures({ server, threads }: Measured): Figure[] {
  const all = [{ name: "main", share: server.mainShare ?? 0 }, ...threads];
  const full = all.filter(({ share }) => share >= fullShare).map(({ name }) => name);
  return [
    { name: "shards %", values: threads.map(({ share }) => percent(share)), digits: 0 },
    { name: "full threads", values: [], digits: 0, text: full.join(" ") || "none" },
  ];
}

function percent(share: number | undefined): number | undefined {
  return share === undefined ? undefined : share * 100;
}

function fullSide({ server, client }: Measured): string {
  const isFull = ({ mainShare = 0 }): boolean => mainShare >= fullShare;
  if (isFull(server)) return isFull(client) ? "both" : "server";
  return isFull(client) ? "client" : "neither";
}

/** Per cycle. */
export function insideFigures(inside: Partial<Inside>): Figure[] {
  const copied = [inside.copiedBytes, inside.promotedBytes];
  return [
    figure("heap B", inside.allocatedBytes),
    { name: "copied B", values: copied, digits: 0 },
    figure("log B", inside.logBytes),
    figure("kv writes", inside.kvWrites, 2),
    figure("stall us", inside.stallUs, 1),
    figure("syscalls", inside.syscalls, 2),
  ];
}

export const insideHelp = `heap B is what the server allocated on the JavaScript heap in a cycle, copied B what collections
  of the young generation moved, and behind the stroke what of that they moved out of it; log B is
  what went into the log, kv writes how many keys were written to the store (at the end of each flush),
  stall us for how long commits were held back because the store did not keep up,
  syscalls the system calls of all threads, counted by perf or strace when --syscalls gives seconds.`;
