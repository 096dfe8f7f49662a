/**
 * Finds the end of JSON values, and checks that they are valid JSON, without building them: building deeply
 * nested values or very many keys takes a hundred times as long as reading them. Nothing here recurses, so
 * nesting may be as deep as the text is long.
 */

/** Shorter text is parsed instead: JSON.parse is native code and faster than this file. */
const builtCharsMax = 8192;

/** Where the value that begins at `at` ends; -1 when there is no value. */
export function endOfValue(text: string, at: number): number {
  const first = text.charCodeAt(at);
  return first === openBrace || first === openBracket
    ? endOfNested(text, at)
    : endOfScalar(text, at);
}

/** Whether the whole text is one value. */
export function isJson(text: string): boolean {
  return text.length <= builtCharsMax ? canBeBuilt(text) : isOneValue(text);
}

function canBeBuilt(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    // A text this short fails only because it is not JSON.
    return false;
  }
}

export function isOneValue(text: string): boolean {
  const end = endOfValue(text, skipSpace(text, 0));
  return end >= 0 && skipSpace(text, end) === text.length;
}

export function skipSpace(text: string, start: number): number {
  let at = start;
  for (;;) {
    const code = text.charCodeAt(at);
    if (code !== 32 && code !== 10 && code !== 13 && code !== 9) return at;
    at += 1;
  }
}

/** Where the string that begins at `at` ends; -1 when there is none. */
export function endOfString(text: string, start: number): number {
  if (text.charCodeAt(start) !== quote) return -1;
  let at = start + 1;
  for (;;) {
    const code = text.charCodeAt(at);
    if (code === quote) return at + 1;
    if (code === backslash) {
      at = endOfEscape(text, at);
      if (at < 0) return -1;
    } else if (code >= firstLetter) {
      at += 1;
    } else {
      // A control character, or the end of the text (NaN).
      return -1;
    }
  }
}

const openBrace = 123;
const closeBrace = 125;
const openBracket = 91;
const closeBracket = 93;
const quote = 34;
const backslash = 92;
const colon = 58;
const comma = 44;
const firstLetter = 32;
const letterU = 117;

const escapes = new Set([...'"\\/bfnrt'].map((letter) => letter.charCodeAt(0)));
const fourHex = /^[0-9a-fA-F]{4}$/;

function endOfEscape(text: string, at: number): number {
  const code = text.charCodeAt(at + 1);
  if (code !== letterU) return escapes.has(code) ? at + 2 : -1;
  return fourHex.test(text.slice(at + 2, at + 6)) ? at + 6 : -1;
}

function endOfScalar(text: string, at: number): number {
  const first = text.charCodeAt(at);
  if (first === quote) return endOfString(text, at);
  if (first === 45 || isDigit(first)) return endOfNumber(text, at);
  const word = first === 116 ? "true" : first === 102 ? "false" : "null";
  return text.startsWith(word, at) ? at + word.length : -1;
}

function endOfNumber(text: string, start: number): number {
  let at = text.charCodeAt(start) === 45 ? start + 1 : start;
  const whole = endOfDigits(text, at);
  // Numbers have no leading zeros.
  if (whole === at || (text.charCodeAt(at) === 48 && whole > at + 1)) return -1;
  at = whole;
  if (text.charCodeAt(at) === 46) {
    const fraction = endOfDigits(text, at + 1);
    if (fraction === at + 1) return -1;
    at = fraction;
  }
  const letter = text.charCodeAt(at);
  if (letter !== 101 && letter !== 69) return at;
  const sign = text.charCodeAt(at + 1);
  const digits = sign === 43 || sign === 45 ? at + 2 : at + 1;
  const exponent = endOfDigits(text, digits);
  return exponent === digits ? -1 : exponent;
}

function endOfDigits(text: string, start: number): number {
  let at = start;
  while (isDigit(text.charCodeAt(at))) at += 1;
  return at;
}

function isDigit(code: number): boolean {
  return code >= 48 && code <= 57;
}

/** Reused by every scan; scans are synchronous, so one is enough. */
let spare: OpenContainers | undefined;
/** A stack that grew beyond this is not reused. */
const spareDepthMax = 4096;

function endOfNested(text: string, start: number): number {
  const open = spare ?? new OpenContainers();
  open.depth = 0;
  const end = readNested(text, start, open);
  spare = open.depthMax <= spareDepthMax ? open : undefined;
  return end;
}

function readNested(text: string, start: number, open: OpenContainers): number {
  let at = start;
  for (;;) {
    at = open.enter(text, at);
    if (at < 0) return -1;
    at = open.leave(text, at);
    if (at < 0 || open.depth === 0) return at;
  }
}

/** The open containers at a position of the text, innermost last. */
class OpenContainers {
  depth = 0;
  /** The character that closes each container. */
  #closing: Uint8Array = new Uint8Array(64);

  get depthMax(): number {
    return this.#closing.length;
  }

  /** Reads the value at `at` as far as its first scalar, or its first empty container, has ended. */
  enter(text: string, start: number): number {
    let at = start;
    for (;;) {
      const code = text.charCodeAt(at);
      if (code !== openBrace && code !== openBracket) return endOfScalar(text, at);
      const closing = code === openBrace ? closeBrace : closeBracket;
      this.#push(closing);
      at = skipSpace(text, at + 1);
      if (text.charCodeAt(at) === closing) {
        this.depth -= 1;
        return at + 1;
      }
      if (code === openBrace) at = startOfMember(text, at);
      if (at < 0) return -1;
    }
  }

  /** Reads from the end of a value to the start of the next one, or to the end of everything. */
  leave(text: string, end: number): number {
    let at = end;
    while (this.depth > 0) {
      at = skipSpace(text, at);
      const code = text.charCodeAt(at);
      const closing = this.#closing[this.depth - 1];
      if (code === closing) {
        this.depth -= 1;
        at += 1;
      } else if (code === comma) {
        const next = skipSpace(text, at + 1);
        return closing === closeBrace ? startOfMember(text, next) : next;
      } else {
        return -1;
      }
    }
    return at;
  }

  #push(closing: number): void {
    if (this.depth === this.#closing.length) {
      const larger = new Uint8Array(this.depth * 2);
      larger.set(this.#closing);
      this.#closing = larger;
    }
    this.#closing[this.depth] = closing;
    this.depth += 1;
  }
}

/** Where the value of the member begins whose name is at `at`; -1 when there is no member. */
function startOfMember(text: string, at: number): number {
  const nameEnd = endOfString(text, at);
  return nameEnd < 0 ? -1 : afterName(text, nameEnd);
}

/** Where the value begins whose name has ended at `nameEnd`; -1 when there is no colon. */
export function afterName(text: string, nameEnd: number): number {
  const between = skipSpace(text, nameEnd);
  return text.charCodeAt(between) === colon ? skipSpace(text, between + 1) : -1;
}
