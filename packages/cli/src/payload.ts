/**
 * The payload of a command (in the argument, from a file with `@`, or `-` for standard input) and the body of a
 * request around it. JSON stays text, so that numbers keep their digits.
 */
import { createReadStream } from "node:fs";
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { limits } from "@codeq/server/command-line";
import type { BodyOf } from "./api/contract-commands.ts";
import type { Call } from "./call.ts";
import { type CliError, usageError } from "./cli-error.ts";
import type { Options } from "./options.ts";

/** Far above what any server takes; protects the memory of this process. */
const payloadCharsMax = 256 * 1024 * 1024;

const quoting = `quote the payload for the shell: '{"name":"world"}'; or send plain text with --text`;

/** JSON text, as it was written. */
export async function readPayload(call: Call, given: string, asText: boolean): Promise<string> {
  const text = await sourceText(call, given);
  if (asText) return JSON.stringify(text);
  const json = text.trim();
  if (json === "") throw usageError("the payload is empty", quoting);
  if (!isJson(json)) throw usageError("the payload is not JSON", quoting);
  if (json === "null") throw usageError("a payload cannot be null", "omit the payload, or send {}");
  return json;
}

async function sourceText(call: Call, given: string): Promise<string> {
  if (given === "-") {
    if (call.host.input.isTerminal)
      call.note("reading the payload from the terminal; finish with Ctrl-D");
    let text = "";
    for await (const piece of call.host.input.text()) text = grown(text, piece);
    return text;
  }
  if (!given.startsWith("@")) return given;
  try {
    return await readFile(pathOf(call, given), "utf8");
  } catch (error) {
    throw unreadable(pathOf(call, given), error);
  }
}

/** Lines of a file or of the input, without the empty ones, each with its number. */
export async function* readLines(
  call: Call,
  given: string,
): AsyncGenerator<{ readonly number: number; readonly text: string }> {
  let number = 0;
  let rest = "";
  for await (const piece of piecesOf(call, given)) {
    const lines = grown(rest, piece).split("\n");
    rest = lines.pop() ?? "";
    for (const text of lines) {
      number += 1;
      if (text.trim() !== "") yield { number, text: text.trim() };
    }
  }
  if (rest.trim() !== "") yield { number: number + 1, text: rest.trim() };
}

async function* piecesOf(call: Call, given: string): AsyncGenerator<string> {
  if (given === "-" || given === "") {
    yield* call.host.input.text();
    return;
  }
  if (!given.startsWith("@")) throw usageError("--lines reads from - or from a file: @path");
  const path = pathOf(call, given);
  try {
    for await (const piece of createReadStream(path, "utf8")) yield piece as string;
  } catch (error) {
    throw unreadable(path, error);
  }
}

function grown(text: string, piece: string): string {
  if (text.length + piece.length <= payloadCharsMax) return text + piece;
  throw usageError(
    `the payload has more than ${payloadCharsMax} characters; send a reference to the data instead`,
  );
}

function pathOf(call: Call, given: string): string {
  return resolve(call.host.directory, given.slice(1));
}

function unreadable(path: string, error: unknown): CliError {
  const { code } = error as NodeJS.ErrnoException;
  const why = code === "ENOENT" ? "does not exist" : `cannot be read (${code})`;
  return usageError(`the file ${path} ${why}`);
}

export function checkCommand(command: string): string {
  if (limits.commandPattern.test(command)) return command;
  throw usageError(
    `${JSON.stringify(command)} is not a valid command name`,
    "use a letter or digit, then up to 127 letters, digits and _ . : -",
  );
}

/** The fields of a new task besides command and payload. */
export function taskFields(options: Options): NewTask {
  return {
    priority: options.wholeNumber("priority", { min: 0, max: limits.priorityMax }),
    maxAttempts: options.wholeNumber("max-attempts", { min: 1, max: limits.maxAttemptsMax }),
    idempotencyKey: options.text("key"),
    unique: uniqueIn(options),
    lane: options.text("lane"),
    cost: options.wholeNumber("cost", { min: 1, max: limits.laneUnitsMax }),
    runAt: options.instant("run-at"),
    delaySeconds: options.exactSeconds("delay"),
    timeoutSeconds: options.seconds("execution-timeout"),
    ttlSeconds: options.seconds("ttl"),
    webhook: options.text("webhook"),
    tags: options.has("tag") ? options.list("tag") : undefined,
    after: options.has("after") ? options.list("after") : undefined,
  };
}

export function uniqueIn(options: Options): NewTask["unique"] {
  const lengthOf = (name: string): string | undefined => {
    const ms = options.durationMs(name);
    return ms === undefined ? undefined : `${ms}ms`;
  };
  const rest = {
    on: options.text("unique-on"),
    while: options.text("unique-while"),
    for: lengthOf("unique-for"),
    maxWait: lengthOf("unique-max-wait"),
  };
  const key = options.text("unique");
  if (key !== undefined) return { key, ...rest };
  if (Object.values(rest).every((value) => value === undefined)) return undefined;
  throw usageError("--unique is missing", "options such as --unique-on need --unique <key>");
}

type NewTask = Partial<BodyOf<"POST /tasks">>;

/** A body as text, because the server keeps the payload as it was written. */
export function withPayload(fields: object, payload: string | undefined): string {
  const members = JSON.stringify(fields).slice(1, -1);
  const written = payload === undefined ? [] : [`"payload":${payload}`];
  return `{${[members, ...written].filter((each) => each !== "").join(",")}}`;
}

interface Source {
  readonly source: string;
}
interface ExactJson {
  parse<T>(text: string, revive: (name: string, value: unknown, at: Source) => unknown): T;
  rawJSON(text: string): unknown;
}

/** Parses so that `JSON.stringify` gives numbers back digit for digit. */
export function parseExact<T = unknown>(text: string): T {
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
    // The text is not JSON.
    return false;
  }
}
