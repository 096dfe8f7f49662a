/** Outputs that are JSON text before they come here. */
import { CodeqError } from "../codeq-error.ts";

/**
 * An output that is the text of a JSON object already; it is stored as it is. For what another program
 * has printed, and for numbers with more digits than JavaScript keeps.
 *
 * ```ts
 * const sum = task("sum").handle(async (_input, { payloadText }) => new JsonText(await pipe(payloadText)));
 * ```
 */
export class JsonText {
  readonly text: string;

  constructor(text: string) {
    if (!isObject(text)) {
      throw new CodeqError("invalid_output", "a JsonText has to be the text of a JSON object");
    }
    this.text = text;
  }
}

function isObject(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value);
  } catch {
    // The text is not JSON.
    return false;
  }
}

const wrapper = "$value";
const wrapped = `{"${wrapper}":`;

/**
 * Outputs as results of the server, which have to be JSON objects. An object goes as it is, so that
 * other clients find what the handler returned. Anything else is put into an object with one key,
 * and so is an object that could be mistaken for that, or for no output at all. Empty text means no output.
 */
export function outputToJson(output: unknown): string {
  const json = JSON.stringify(output);
  if (json === undefined) return "";
  const isPlain = json.startsWith("{") && json !== "{}" && !json.startsWith(wrapped);
  return isPlain ? json : `${wrapped}${json}}`;
}

export function outputFromJson(json: string): unknown {
  if (json === "") return undefined;
  const value = JSON.parse(json) as Record<string, unknown>;
  const keys = Object.keys(value);
  if (keys.length === 0) return undefined;
  return keys.length === 1 && keys[0] === wrapper ? value[wrapper] : value;
}
