/**
 * What a worker says about a task that it has: how far it has come, and lines for people who look. It is
 * bounded in size and in rate, because it is kept with the task; what is too much is cut or dropped.
 */
import type { LogLine, Trail } from "./task.ts";

export interface Report {
  readonly progress: { readonly percent: number; readonly text: string } | undefined;
  readonly lines: readonly string[];
}

export const reportLimits = {
  textCharsMax: 200,
  lineCharsMax: 500,
  /** Of a task, and all of them together. */
  linesMax: 50,
  logCharsMax: 4096,
  /** Reports of one task that follow faster than this are dropped. */
  betweenMs: 100,
} as const;

/** The trail with what was said; the same one when it came too soon. */
export function withReport(
  trail: Trail | undefined,
  { progress, lines }: Report,
  nowMs: number,
): Trail | undefined {
  const lastMs = Math.max(trail?.progress?.atMs ?? 0, trail?.logs.at(-1)?.atMs ?? 0);
  if (nowMs >= lastMs && nowMs - lastMs < reportLimits.betweenMs) return trail;
  const said = lines.map((line) => ({
    atMs: nowMs,
    text: line.slice(0, reportLimits.lineCharsMax),
  }));
  const text = progress?.text.slice(0, reportLimits.textCharsMax) ?? "";
  return {
    attempts: trail?.attempts ?? [],
    progress: progress === undefined ? trail?.progress : { ...progress, text, atMs: nowMs },
    logs: said.length === 0 ? (trail?.logs ?? []) : newest([...(trail?.logs ?? []), ...said]),
  };
}

/** As many of the last lines as there is room for. */
function newest(lines: readonly LogLine[]): readonly LogLine[] {
  let chars = 0;
  let first = lines.length;
  while (first > 0 && lines.length - first < reportLimits.linesMax) {
    chars += lines[first - 1]?.text.length ?? 0;
    if (chars > reportLimits.logCharsMax) break;
    first -= 1;
  }
  return lines.slice(first);
}
