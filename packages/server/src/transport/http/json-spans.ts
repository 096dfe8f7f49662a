/**
 * Finds the exact text of values inside JSON that was already parsed once, so that payloads and
 * results can be kept byte for byte: big numbers, key order and spacing survive.
 *
 * Assumes valid JSON; it only has to find where things end.
 */
import { endOfString, endOfValue, skipSpace, startOfMember } from "../json-scan.ts";

export interface Span {
  readonly start: number;
  readonly end: number;
}

/** The value of a member of the object that starts at `at`; the last one wins, as in JSON.parse. */
export function memberSpan(text: string, at: number, name: string): Span | undefined {
  let found: Span | undefined;
  let position = skipSpace(text, at) + 1;
  for (;;) {
    position = skipSpace(text, position);
    if (text[position] === "}" || position >= text.length) return found;
    if (text[position] === ",") {
      position += 1;
      continue;
    }
    const start = startOfMember(text, position);
    const end = endOfValue(text, start);
    if (isNamed(text, position, name)) found = { start, end };
    position = end;
  }
}

/** The elements of the array that starts at `at`. */
export function elementSpans(text: string, at: number): Span[] {
  const spans: Span[] = [];
  let position = skipSpace(text, at) + 1;
  for (;;) {
    position = skipSpace(text, position);
    if (text[position] === "]" || position >= text.length) return spans;
    if (text[position] === ",") {
      position += 1;
      continue;
    }
    const end = endOfValue(text, position);
    spans.push({ start: position, end });
    position = end;
  }
}

/** Whether the string at `at` is this name, perhaps with escapes. */
function isNamed(text: string, at: number, name: string): boolean {
  if (text.startsWith(name, at + 1) && text[at + 1 + name.length] === '"') return true;
  const end = endOfString(text, at);
  // An escape takes six letters at most, for one.
  if (end - at - 2 <= name.length || end - at - 2 > name.length * 6) return false;
  const raw = text.slice(at, end);
  return raw.includes("\\") && JSON.parse(raw) === name;
}
