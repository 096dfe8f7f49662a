/**
 * What an API key looks like:
 *
 *   cq_ <10 of time> <6 of chance>  _  <40 of secret> <7 of checksum>
 *   '------------- id ------------'
 *
 * Base 32 digits in ascending order, so that ids sort by creation time, without letters that look like others. The id
 * names the key and is not secret. The secret has 200 random bits. The checksum distinguishes a key that was mistyped
 * or cut off from an unknown key.
 */
import { crc32 } from "node:zlib";
import type { RandomBytes } from "../../../core/task-ids.ts";
import type { ApiKeyId } from "./api-key-record.ts";

const alphabet = "0123456789abcdefghjkmnpqrstvwxyz";
const bitsPerDigit = 5;
const timeDigits = 10;
const chanceDigits = 6;
const secretDigits = 40;
const checksumDigits = 7;

const start = "cq_";
const digit = `[${alphabet}]`;
const idText = `${start}${digit}{${timeDigits + chanceDigits}}`;
const idPattern = new RegExp(`^${idText}$`);
const keyPattern = new RegExp(`^(${idText})_${digit}{${secretDigits + checksumDigits}}$`);

export interface NewApiKey {
  readonly id: ApiKeyId;
  /** The whole key; only the caller that creates it gets it. */
  readonly token: string;
}

export function drawApiKey(nowMs: number, randomBytes: RandomBytes): NewApiKey {
  const time = digitsOf(nowMs, timeDigits);
  const id = (start + time + randomDigits(chanceDigits, randomBytes)) as ApiKeyId;
  const text = `${id}_${randomDigits(secretDigits, randomBytes)}`;
  return { id, token: text + checksumOf(text) };
}

/** Whether the text is an API key, possibly a damaged one. */
export function looksLikeApiKey(token: string): boolean {
  return token.startsWith(start);
}

/** The id in the text of a key; undefined if the text was mistyped or is incomplete. */
export function idInApiKey(token: string): ApiKeyId | undefined {
  const id = keyPattern.exec(token)?.[1];
  const isWhole = checksumOf(token.slice(0, -checksumDigits)) === token.slice(-checksumDigits);
  return id !== undefined && isWhole ? (id as ApiKeyId) : undefined;
}

export function isApiKeyId(text: string): text is ApiKeyId {
  return idPattern.test(text);
}

function checksumOf(text: string): string {
  return digitsOf(crc32(text), checksumDigits);
}

/** The last `count` digits of the number. */
function digitsOf(number: number, count: number): string {
  let text = "";
  let rest = number;
  for (let at = 0; at < count; at += 1) {
    text = alphabet[rest % alphabet.length] + text;
    rest = Math.floor(rest / alphabet.length);
  }
  return text;
}

/** Uses five bits of a byte for each digit, so all digits are equally likely. */
function randomDigits(count: number, randomBytes: RandomBytes): string {
  const bytes = new Uint8Array(count);
  randomBytes(bytes);
  return Array.from(bytes, (byte) => alphabet[byte >>> (8 - bitsPerDigit)]).join("");
}
