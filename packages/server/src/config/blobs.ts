/**
 * Parsing shared by the structured settings, and `persistenceConfig` itself. Each is accepted as a map in
 * the file or as JSON text from any source. Problems name fields, never their contents: the message of a
 * JSON parser would repeat the text, which may be a token.
 */

import { closestName } from "./closest-name.ts";
import { type Parsed, type Parser, parsed, refused, trueOrFalse, wholeNumber } from "./parsers.ts";

/** The older spelling of `dataDir`, `durability` and `shards`; only what was written is present. */
export interface PersistenceConfig {
  readonly path?: string;
  readonly fsyncOnCommit?: boolean;
  readonly numShards?: number;
}

const shardsMax = 64;

export const persistenceBlob: Parser<PersistenceConfig> = {
  accepts: "a map or JSON object with path, fsyncOnCommit and numShards",
  example: '{"path":"./data"}',
  parse(raw) {
    const value = readJson(raw);
    if (!isRecord(value)) return refused(`expected ${this.accepts}`);
    const unknown = unknownFields(value, ["path", "fsyncOnCommit", "numShards"]);
    if (unknown !== undefined) return refused(unknown);
    const { path, fsyncOnCommit, numShards } = value;
    if (path !== undefined && (typeof path !== "string" || path.trim() === "")) {
      return refused("path: expected a directory");
    }
    const sync = optional(fsyncOnCommit, trueOrFalse);
    if (!sync.ok) return refused(`fsyncOnCommit: ${sync.problem}`);
    const shards = optional(numShards, wholeNumber(1, shardsMax, 1));
    if (!shards.ok) return refused(`numShards: ${shards.problem}`);
    return parsed({
      ...(path === undefined ? {} : { path: path.trim() }),
      ...(sync.value === undefined ? {} : { fsyncOnCommit: sync.value }),
      ...(shards.value === undefined ? {} : { numShards: shards.value }),
    });
  },
};

/** Text that does not look like JSON is kept as it is: for the auth blobs it is the token itself. */
export function readJson(raw: unknown): unknown {
  if (typeof raw !== "string" || !/^\s*[{["]/.test(raw)) return raw;
  try {
    return JSON.parse(raw);
  } catch {
    // The parser's message quotes the text. `undefined` fits no blob, so it is refused by shape.
    return undefined;
  }
}

/** Names the field only when it is a misspelt known one: a token put in its place stays unsaid. */
export function unknownFields(
  value: Record<string, unknown>,
  known: readonly string[],
): string | undefined {
  const name = Object.keys(value).find((field) => !known.includes(field));
  if (name === undefined) return undefined;
  const meant = closestName(name, known);
  const field = meant === undefined ? "a field" : `${name} (did you mean ${meant}?)`;
  return `${field} is not one of ${known.join(", ")}`;
}

function optional<T>(raw: unknown, parser: Parser<T>): Parsed<T | undefined> {
  return raw === undefined ? parsed(undefined) : parser.parse(raw);
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
