/**
 * Finds the exact text of values inside JSON that was already parsed once, so that payloads and
 * results can be kept byte for byte: big numbers, key order and spacing survive.
 *
 * Assumes valid JSON; it only has to find where things end.
 */
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
    const keyEnd = endOfString(text, position);
    const isWanted = keyOf(text, position, keyEnd) === name;
    const start = skipSpace(text, skipSpace(text, keyEnd) + 1);
    const end = endOfValue(text, start);
    if (isWanted) found = { start, end };
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

function keyOf(text: string, start: number, end: number): string {
  const raw = text.slice(start + 1, end - 1);
  return raw.includes("\\") ? (JSON.parse(text.slice(start, end)) as string) : raw;
}

function endOfValue(text: string, start: number): number {
  const first = text[start];
  if (first === '"') return endOfString(text, start);
  if (first === "{" || first === "[") return endOfNested(text, start);
  let position = start;
  while (position < text.length && !isDelimiter(text.charCodeAt(position))) position += 1;
  return position;
}

function endOfNested(text: string, start: number): number {
  let depth = 0;
  let position = start;
  while (position < text.length) {
    const char = text[position];
    if (char === '"') {
      position = endOfString(text, position);
      continue;
    }
    if (char === "{" || char === "[") depth += 1;
    if (char === "}" || char === "]") depth -= 1;
    position += 1;
    if (depth === 0) return position;
  }
  return position;
}

function endOfString(text: string, start: number): number {
  let position = start + 1;
  while (position < text.length) {
    const char = text[position];
    if (char === '"') return position + 1;
    position += char === "\\" ? 2 : 1;
  }
  return position;
}

function skipSpace(text: string, start: number): number {
  let position = start;
  while (isSpace(text.charCodeAt(position))) position += 1;
  return position;
}

function isSpace(code: number): boolean {
  return code === 32 || code === 10 || code === 13 || code === 9;
}

function isDelimiter(code: number): boolean {
  return isSpace(code) || code === 44 || code === 93 || code === 125;
}
