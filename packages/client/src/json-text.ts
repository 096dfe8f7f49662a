/** Outputs that are JSON text before they come here. */
import { CodeqError } from "./codeq-error.ts";

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
    // That is the answer.
    return false;
  }
}
