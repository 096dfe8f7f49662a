/**
 * JSON text as lines to show, without parsing it into values, so that numbers keep all digits. Text that is not JSON
 * is shown unchanged.
 */

export interface JsonPiece {
  readonly kind: "key" | "string" | "number" | "word" | "mark" | "text";
  readonly text: string;
  /** A number that JavaScript would round. */
  readonly isExact?: boolean;
}

export interface JsonLine {
  readonly depth: number;
  readonly pieces: readonly JsonPiece[];
}

/** Longer texts are cut to keep the page fast; the copy button copies the whole text. */
const textCharsMax = 2000;
export const linesMax = 5000;

const token =
  /\s*(?:("(?:[^"\\]|\\.)*")|(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)|(true|false|null)|([{}[\],:]))/y;

interface Token {
  readonly kind: "string" | "number" | "word" | "mark";
  readonly text: string;
}

/** Undefined if a token is not JSON; the grammar is not checked. */
function tokensOf(json: string): Token[] | undefined {
  const tokens: Token[] = [];
  token.lastIndex = 0;
  const end = json.trimEnd().length;
  while (token.lastIndex < end) {
    const match = token.exec(json);
    if (match === null) return undefined;
    const [, string, number, word, mark] = match;
    if (string !== undefined) tokens.push({ kind: "string", text: string });
    else if (number !== undefined) tokens.push({ kind: "number", text: number });
    else if (word !== undefined) tokens.push({ kind: "word", text: word });
    else tokens.push({ kind: "mark", text: mark ?? "" });
  }
  return tokens;
}

export function jsonLines(json: string): JsonLine[] {
  const tokens = tokensOf(json);
  if (tokens === undefined || tokens.length === 0) return plainLines(json);
  const page = new LinesOfTokens();
  for (const [at, each] of tokens.entries()) {
    page.add(each, { before: tokens[at - 1], behind: tokens[at + 1] });
    if (page.lines.length >= linesMax) break;
  }
  page.endLine();
  return page.lines;
}

class LinesOfTokens {
  readonly lines: JsonLine[] = [];
  #depth = 0;
  #pieces: JsonPiece[] = [];

  add(
    each: Token,
    { before, behind }: { before: Token | undefined; behind: Token | undefined },
  ): void {
    if (isClosing(each) && !isOpening(before)) this.#end(-1);
    this.#pieces.push(pieceOf(each, behind?.text === ":"));
    if (isOpening(each) && !isClosing(behind)) this.#end(1);
    else if (each.kind === "mark" && each.text === ",") this.endLine();
  }

  endLine(): void {
    if (this.#pieces.length > 0) this.lines.push({ depth: this.#depth, pieces: this.#pieces });
    this.#pieces = [];
  }

  #end(step: number): void {
    this.endLine();
    this.#depth = Math.max(0, this.#depth + step);
  }
}

function isOpening(each: Token | undefined): boolean {
  return each?.kind === "mark" && (each.text === "{" || each.text === "[");
}

function isClosing(each: Token | undefined): boolean {
  return each?.kind === "mark" && (each.text === "}" || each.text === "]");
}

function pieceOf({ kind, text }: Token, isKey: boolean): JsonPiece {
  if (kind === "mark" && text === ":") return { kind, text: ": " };
  if (kind === "number") return { kind, text, ...(isRounded(text) ? { isExact: true } : {}) };
  const shown = text.length > textCharsMax ? `${text.slice(0, textCharsMax)}…` : text;
  return { kind: isKey ? "key" : kind, text: shown };
}

export function isRounded(text: string): boolean {
  return canonical(text) !== canonical(String(Number(text)));
}

/** Sign, digits without zeros at the ends, and the power of ten. */
function canonical(text: string): string {
  const [, sign = "", whole = "", part = "", power = "0"] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text) ?? [];
  const digits = `${whole}${part}`.replace(/^0+/, "");
  const short = digits.replace(/0+$/, "");
  if (short === "") return "0";
  return `${sign}${short}e${Number(power) - part.length + digits.length - short.length}`;
}

function plainLines(text: string): JsonLine[] {
  return text
    .split("\n", linesMax)
    .map((line) => ({ depth: 0, pieces: [{ kind: "text", text: line.slice(0, textCharsMax) }] }));
}

/** Why the text is not valid JSON; undefined if it is. */
export function jsonProblem(text: string): string | undefined {
  if (text.trim() === "") return "Empty: JSON is required";
  try {
    JSON.parse(text);
    return undefined;
  } catch (error) {
    return `Not valid JSON: ${(error as Error).message}`;
  }
}

/** The text of a member, unchanged: `rawMember('{"a":{"b":1.0}}', ["a", "b"])` is `1.0`. */
export function rawMember(json: string, path: readonly string[]): string | undefined {
  let text: string | undefined = json;
  for (const name of path) text = text === undefined ? undefined : memberOf(text, name);
  return text;
}

function memberOf(json: string, name: string): string | undefined {
  token.lastIndex = 0;
  const wanted = JSON.stringify(name);
  let depth = 0;
  let from = -1;
  let key = "";
  for (let match = token.exec(json); match !== null; match = token.exec(json)) {
    const [whole, string, , , mark] = match;
    const isEnd = depth === 1 && (mark === "," || mark === "}");
    if (isEnd && from >= 0) return json.slice(from, token.lastIndex - whole.length).trim();
    depth += steps[mark ?? ""] ?? 0;
    if (depth !== 1) continue;
    if (string !== undefined) key = string;
    if (mark === ":" && key === wanted) from = token.lastIndex;
  }
  return undefined;
}

const steps: Readonly<Record<string, number>> = { "{": 1, "[": 1, "}": -1, "]": -1 };
