/**
 * A worker extends its lease and may report about the task: how far it has come, and log lines for people. Reports
 * are kept with the task, so their size and rate are limited; what is too much is cut or dropped.
 */
import { accept, type Outcome } from "../outcome.ts";
import { checkOwner, type LeasedTask, type Owner } from "../owner.ts";
import type { LogLine, Task, Trail } from "../task.ts";

export interface Report {
  readonly progress: { readonly percent: number; readonly text: string } | undefined;
  readonly lines: readonly string[];
}

export const reportLimits = {
  textCharsMax: 200,
  lineCharsMax: 500,
  /** The most lines of a task, and the most characters of all its lines. */
  linesMax: 50,
  logCharsMax: 4096,
  /** Reports of one task that follow faster than this are dropped. */
  betweenMs: 100,
} as const;

/**
 * The lease starts again from now, and never ends earlier than it would have: a worker that asks for less time than
 * is left would lose its task while it works on it. The lease of a cancelled task is not extended beyond its grace
 * period, and no lease beyond the timeout of its task. A report of the worker is stored.
 */
export function extendLease(
  task: Task,
  by: Owner,
  at: {
    readonly nowMs: number;
    readonly leaseMs: number;
    /** How long the attempt has been under way, by a clock that never steps. */
    readonly ranMs: number;
    /** How long the lease still lasts, by the same clock. */
    readonly leftMs: number;
    readonly report?: Report | undefined;
  },
): Outcome<LeasedTask, "not_owner" | "not_in_progress"> {
  const owned = checkOwner(task, by);
  if (!owned.ok) return owned;
  const { trail } = task;
  const wantedMs = Math.max(at.leaseMs, Math.ceil(at.leftMs));
  const leaseMs = Math.max(1, Math.min(wantedMs, mostMs(task, at)));
  return accept({
    ...owned.value,
    updatedMs: at.nowMs,
    place: { ...owned.value.place, untilMs: at.nowMs + leaseMs, leaseMs },
    trail: at.report === undefined ? trail : withReport(trail, at.report, at.nowMs),
  });
}

/** How long the lease may last from now on, whatever its worker asks for. */
function mostMs(
  { cancelMs, extras }: Task,
  { nowMs, ranMs }: { readonly nowMs: number; readonly ranMs: number },
): number {
  const timeoutMs = extras?.timeoutMs ?? 0;
  const untilCancelled = cancelMs === 0 ? Number.POSITIVE_INFINITY : cancelMs - nowMs;
  const untilTimeout = timeoutMs === 0 ? Number.POSITIVE_INFINITY : Math.ceil(timeoutMs - ranMs);
  return Math.min(untilCancelled, untilTimeout);
}

/** The trail with the report; unchanged when the report came too soon after the last one. */
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

/** As many of the last lines as fit. */
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
