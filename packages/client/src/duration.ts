/** Lengths of time as people write them, in whole milliseconds. */
import { CodeqError } from "./codeq-error.ts";

/** Milliseconds, or a number with a unit: `"500ms"`, `"30s"`, `"5m"`, `"1.5h"`, `"7d"`. */
export type Duration = number | `${number}${"ms" | "s" | "m" | "h" | "d"}`;

const unitMs = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const pattern = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/;

/** `what` names the option in the message of the error. */
export function toMs(duration: Duration, what: string): number {
  const ms = typeof duration === "number" ? duration : parse(duration);
  if (ms !== undefined && Number.isFinite(ms) && ms >= 0) return Math.round(ms);
  const text = `invalid ${what} ${JSON.stringify(duration)}: give milliseconds or a text like "30s"`;
  throw new CodeqError("invalid_option", `${text} (units: ms, s, m, h, d)`);
}

function parse(text: string): number | undefined {
  const match = pattern.exec(text);
  if (match === null) return undefined;
  return Number(match[1]) * unitMs[match[2] as keyof typeof unitMs];
}

/** For the wire, which counts in seconds: never shorter than asked for. */
export function toSeconds(ms: number): number {
  return Math.ceil(ms / 1000);
}

/** As a person would write it: `90s`, `2m`, `1h`. */
export function inWords(ms: number): string {
  for (const unit of ["d", "h", "m", "s"] as const) {
    if (ms >= unitMs[unit] && ms % unitMs[unit] === 0) return `${ms / unitMs[unit]}${unit}`;
  }
  return `${ms}ms`;
}
