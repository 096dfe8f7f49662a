/** The payload of a command: in the argument, from a file with `@`, or `-` for standard input. */
import { createReadStream } from "node:fs";
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { isJson } from "./api/json-text.ts";
import type { Call } from "./call.ts";
import { type CliError, usageError } from "./cli-error.ts";

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
