/**
 * What a server tells of itself while it is measured: the use of its heap through the probe, and what
 * it wrote through its metrics. Both are taken over a time of their own, which is a little longer than
 * that in which cycles are counted, so they are rates.
 */
import { once } from "node:events";
import type { HeapUse } from "./heap-use.ts";
import type { Listening } from "./workspace.ts";

/** Per second; undefined is what could not be had. */
export interface Inside {
  readonly allocatedBytes: number | undefined;
  readonly copiedBytes: number | undefined;
  readonly promotedBytes: number | undefined;
  readonly logBytes: number | undefined;
  readonly kvWrites: number | undefined;
  /** Microseconds in which commits were held back. */
  readonly stallUs: number | undefined;
  readonly syscalls: number | undefined;
}

export const insideNames = [
  ...["allocatedBytes", "copiedBytes", "promotedBytes"],
  ...["logBytes", "kvWrites", "stallUs", "syscalls"],
] as readonly (keyof Inside)[];

/** Starts to watch; what it returns ends that. */
export async function watchServer({
  child,
  port,
}: Pick<Listening, "child" | "port">): Promise<() => Promise<Omit<Inside, "syscalls">>> {
  const before = await readMetrics(port);
  child.send("begin");
  return async () => {
    child.send("end");
    const [heap] = (await once(child, "message")) as [HeapUse];
    const after = await readMetrics(port);
    const seconds = (after.atMs - before.atMs) / 1000;
    const grown = (sample: string, factor = 1): number | undefined => {
      const [first, last] = [metricValue(before.text, sample), metricValue(after.text, sample)];
      if (first === undefined || last === undefined) return undefined;
      return ((last - first) * factor) / seconds;
    };
    return {
      allocatedBytes: heap.allocatedBytes / heap.seconds,
      copiedBytes: heap.copiedBytes / heap.seconds,
      promotedBytes: heap.promotedBytes / heap.seconds,
      logBytes: grown("codeq_commit_group_bytes_sum"),
      kvWrites: grown("codeq_flush_entries_sum"),
      stallUs: grown("codeq_write_stall_seconds_total", 1e6),
    };
  };
}

async function readMetrics(
  port: number,
): Promise<{ readonly atMs: number; readonly text: string }> {
  const atMs = performance.now();
  const response = await fetch(`http://127.0.0.1:${port}/metrics`, {
    headers: { authorization: "Bearer dev-token", connection: "close" },
  });
  return { atMs, text: await response.text() };
}

/** A sample, added up over its labels; undefined when there is no such one. */
export function metricValue(text: string, sample: string): number | undefined {
  const lines = text
    .split("\n")
    .filter((line) => line.startsWith(`${sample} `) || line.startsWith(`${sample}{`));
  if (lines.length === 0) return undefined;
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0);
}
