/** Formats JSON for people without changing its content: numbers keep their digits. */
interface Source {
  readonly source: string;
}
interface ExactJson {
  parse(text: string, revive: (name: string, value: unknown, at: Source) => unknown): unknown;
  rawJSON(text: string): unknown;
}

/** Parses so that `JSON.stringify` gives numbers back digit for digit. */
export function parseExact(text: string): unknown {
  const exact = JSON as unknown as ExactJson;
  return exact.parse(text, (_name, value, { source }) =>
    typeof value === "number" ? exact.rawJSON(source) : value,
  );
}

/** Indented; text that is not JSON stays as it is. */
export function prettyJson(text: string): string {
  try {
    return JSON.stringify(parseExact(text), undefined, 2);
  } catch {
    // A payload that came over a stream may be any text.
    return text;
  }
}

export function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    // That is the answer.
    return false;
  }
}
