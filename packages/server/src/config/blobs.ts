/**
 * The three structured keys: `persistenceConfig`, `producerAuthConfig`, `workerAuthConfig`. Each is
 * accepted as a map of the file or as JSON text from any source. Problems name fields, never their
 * contents: what a JSON parser says about bad text would repeat the text, and that may be a token.
 */
import { type Parsed, type Parser, parsed, refused, trueOrFalse, wholeNumber } from "./parsers.ts";
import type { PersistenceConfig, StaticTokenConfig } from "./settings.ts";
import { closestName } from "./suggest.ts";

const tokensMax = 1000;
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

export const authBlob: Parser<readonly StaticTokenConfig[]> = {
  accepts:
    "a token, a map or JSON object with token (and subject, scopes, ...), or a list of those",
  example: '{"token":"...","subject":"my-tenant"}',
  parse(raw) {
    const value = readJson(raw);
    if (!Array.isArray(value)) {
      const one = readToken(value);
      return one.ok ? parsed([one.value]) : one;
    }
    if (value.length === 0 || value.length > tokensMax) {
      return refused(`expected 1 to ${tokensMax} tokens in the list`);
    }
    const tokens: StaticTokenConfig[] = [];
    for (const [index, item] of value.entries()) {
      const one = readToken(item);
      if (!one.ok) return refused(`entry ${index + 1}: ${one.problem}`);
      const twin = tokens.findIndex((other) => other.token === one.value.token);
      if (twin >= 0) return refused(`entries ${twin + 1} and ${index + 1} have the same token`);
      tokens.push(one.value);
    }
    return parsed(tokens);
  },
};

/** Text that does not look like JSON is kept as it is: for the auth blobs it is the token itself. */
function readJson(raw: unknown): unknown {
  if (typeof raw !== "string" || !/^\s*[{["]/.test(raw)) return raw;
  try {
    return JSON.parse(raw);
  } catch {
    // The parser's message quotes the text. `undefined` fits no blob, so it is refused by shape.
    return undefined;
  }
}

function readToken(value: unknown): Parsed<StaticTokenConfig> {
  const fields = typeof value === "string" ? { token: value } : value;
  if (!isRecord(fields)) return refused("expected a token, or an object with a token");
  const unknown = unknownFields(fields, tokenFields);
  if (unknown !== undefined) return refused(unknown);
  const { token, subject = "static", email = "", scopes = [], eventTypes = [], raw = {} } = fields;
  if (typeof token !== "string" || token.trim() === "") {
    return refused("token: expected text that is not empty, in quotes");
  }
  if (typeof subject !== "string" || subject.trim() === "")
    return refused("subject: expected text");
  if (typeof email !== "string") return refused("email: expected text");
  if (!isTextList(scopes)) return refused("scopes: expected a list of texts");
  if (!isTextList(eventTypes)) return refused("eventTypes: expected a list of texts");
  if (!isRecord(raw)) return refused("raw: expected an object");
  return parsed({
    token: token.trim(),
    subject: subject.trim(),
    email: email.trim(),
    scopes,
    eventTypes,
    raw,
  });
}

const tokenFields = ["token", "subject", "email", "scopes", "eventTypes", "raw"];

/** Names the field only when it is a misspelt known one: a token put in its place stays unsaid. */
function unknownFields(
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

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isTextList(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((item) => typeof item === "string");
}
