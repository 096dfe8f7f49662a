/**
 * Recognises the JSON that nearly all payloads are: ASCII, not nested deeply, without unusual numbers. One pass
 * over the bytes builds nothing, so it costs a fraction of the parser. Other text may still be JSON;
 * `json-scan.ts` decides.
 */
import type { WireBytes } from "@codeq/protocol/wire";

const depthMax = 30;
const quote = 34;
const comma = 44;
const minus = 45;
const dot = 46;
const zero = 48;
const nine = 57;
const colon = 58;
const openBracket = 91;
const backslash = 92;
const closeBracket = 93;
const letterU = 117;
const openBrace = 123;
const closeBrace = 125;

/** 1 for bytes that may be in a string without an escape. */
const inStrings = new Uint8Array(256);
inStrings.fill(1, 32, 128);
inStrings[quote] = 0;
inStrings[backslash] = 0;
/** 1 for bytes that may follow a backslash. */
const escaped = new Uint8Array(256);
for (const letter of '"\\/bfnrt') escaped[letter.charCodeAt(0)] = 1;

export function isPlainJson(bytes: WireBytes): boolean {
  if (typeof bytes === "string") return false;
  const end = endOfValue(bytes, 0, depthMax);
  return end >= 0 && skipSpace(bytes, end) === bytes.length;
}

/** Where the value that begins here, or behind spaces, ends; -1 when none is recognised. */
function endOfValue(bytes: Uint8Array, start: number, depthLeft: number): number {
  const at = skipSpace(bytes, start);
  const code = bytes[at];
  if (code === quote) return endOfString(bytes, at + 1);
  if (code !== openBrace && code !== openBracket) return endOfScalar(bytes, at);
  if (depthLeft === 0) return -1;
  return code === openBrace
    ? endOfObject(bytes, at + 1, depthLeft - 1)
    : endOfArray(bytes, at + 1, depthLeft - 1);
}

function endOfObject(bytes: Uint8Array, start: number, depthLeft: number): number {
  let at = skipSpace(bytes, start);
  if (bytes[at] === closeBrace) return at + 1;
  for (;;) {
    at = endOfMember(bytes, at, depthLeft);
    if (at < 0) return -1;
    at = skipSpace(bytes, at);
    if (bytes[at] === closeBrace) return at + 1;
    if (bytes[at] !== comma) return -1;
    at = skipSpace(bytes, at + 1);
  }
}

function endOfMember(bytes: Uint8Array, start: number, depthLeft: number): number {
  if (bytes[start] !== quote) return -1;
  const nameEnd = endOfString(bytes, start + 1);
  if (nameEnd < 0) return -1;
  const at = skipSpace(bytes, nameEnd);
  return bytes[at] === colon ? endOfValue(bytes, at + 1, depthLeft) : -1;
}

function endOfArray(bytes: Uint8Array, start: number, depthLeft: number): number {
  let at = skipSpace(bytes, start);
  if (bytes[at] === closeBracket) return at + 1;
  for (;;) {
    at = endOfValue(bytes, at, depthLeft);
    if (at < 0) return -1;
    at = skipSpace(bytes, at);
    if (bytes[at] === closeBracket) return at + 1;
    if (bytes[at] !== comma) return -1;
    at += 1;
  }
}

function skipSpace(bytes: Uint8Array, start: number): number {
  let at = start;
  for (;;) {
    const code = bytes[at] as number;
    if (code !== 32 && code !== 10 && code !== 13 && code !== 9) return at;
    at += 1;
  }
}

function endOfString(bytes: Uint8Array, start: number): number {
  let at = start;
  for (;;) {
    const code = bytes[at] as number;
    if (inStrings[code] === 1) at += 1;
    else if (code === quote) return at + 1;
    else if (code === backslash && escaped[bytes[at + 1] as number] === 1) at += 2;
    else return -1;
  }
}

function endOfScalar(bytes: Uint8Array, at: number): number {
  const code = bytes[at] as number;
  if (code === minus || (code >= zero && code <= nine)) return endOfNumber(bytes, at);
  if (code === 116) return isWord(bytes, at, 114, 117, 101) ? at + 4 : -1;
  if (code === 110) return isWord(bytes, at, letterU, 108, 108) ? at + 4 : -1;
  if (code === 102)
    return isWord(bytes, at + 1, 108, 115, 101) && bytes[at + 1] === 97 ? at + 5 : -1;
  return -1;
}

function isWord(
  bytes: Uint8Array,
  at: number,
  second: number,
  third: number,
  fourth: number,
): boolean {
  return bytes[at + 1] === second && bytes[at + 2] === third && bytes[at + 3] === fourth;
}

/** Digits and an optional fraction; exponents are unusual and not recognised. */
function endOfNumber(bytes: Uint8Array, start: number): number {
  let at = bytes[start] === minus ? start + 1 : start;
  const whole = endOfDigits(bytes, at);
  if (whole === at || (bytes[at] === zero && whole > at + 1)) return -1;
  at = whole;
  if (bytes[at] !== dot) return at;
  const fraction = endOfDigits(bytes, at + 1);
  return fraction === at + 1 ? -1 : fraction;
}

function endOfDigits(bytes: Uint8Array, start: number): number {
  let at = start;
  for (;;) {
    const code = bytes[at] as number;
    if (!(code >= zero && code <= nine)) return at;
    at += 1;
  }
}
