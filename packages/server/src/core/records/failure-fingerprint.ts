/**
 * The fingerprint of an error: its first line without everything that differs from task to task, such as
 * numbers, ids, quoted text, addresses and paths.
 */
import { hash } from "node:crypto";

const charsMax = 500;
const digitsOfFingerprint = 12;

export const fingerprintPattern: RegExp = /^[0-9a-f]{12}$/;

/** Applied in this order: a text that one pattern replaced is not matched again. */
const variable: readonly (readonly [RegExp, string])[] = [
  [/[a-z][a-z0-9+.-]{1,9}:\/\/[^\s"'`<>]+/gi, "<url>"],
  [/[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+/g, "<email>"],
  [/"[^"]*"|`[^`]*`|(?<!\w)'[^']*'(?!\w)/g, "<text>"],
  [/\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?/g, "<time>"],
  [/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi, "<id>"],
  [/(?:\b[A-Za-z]:|(?<![\w<>])\.{0,2})(?:[\\/][\w.@~+-]+)+[\\/]?/g, "<path>"],
  [/\b0x[0-9a-f]+\b/gi, "<id>"],
  [/\b(?=[A-Za-z_-]*\d)(?=[\d_-]*[A-Za-z])[\w-]{8,}\b/g, "<id>"],
  [/\d+(?:[.,:]\d+)*/g, "<n>"],
];

/** The text that all errors of a group have in common. */
export function failureText(error: string): string {
  const line = error.trimStart().split("\n", 1)[0] ?? "";
  let text = line.slice(0, charsMax);
  for (const [pattern, name] of variable) text = text.replace(pattern, name);
  return text.replace(/\s+/g, " ").trim();
}

/** The failure group of a text. */
export function fingerprintOf(error: string): string {
  return hash("sha256", failureText(error)).slice(0, digitsOfFingerprint);
}

const known = new WeakMap<object, string>();

/** The failure group of a task, which is asked for several times until the task is flushed. */
export function groupOfTask(task: { readonly error: string }): string {
  let group = known.get(task);
  if (group === undefined) {
    group = fingerprintOf(task.error);
    known.set(task, group);
  }
  return group;
}
