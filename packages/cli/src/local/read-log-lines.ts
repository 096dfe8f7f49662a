/** Splits the output of a server into log lines (JSON) and text for people. */
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";

export interface LogLine {
  readonly level: string;
  readonly msg: string;
  /** All fields of the line. */
  readonly fields: Readonly<Record<string, unknown>>;
  /** The line as it was written. */
  readonly text: string;
}

/** Calls back for every log line, up to the end of the output. */
export function readLogLines(output: Readable, take: (line: LogLine) => void): void {
  createInterface({ input: output }).on("line", (text) => {
    const line = logLineIn(text);
    if (line !== undefined) take(line);
  });
}

function logLineIn(text: string): LogLine | undefined {
  if (!text.startsWith("{")) return undefined;
  try {
    const fields = JSON.parse(text) as Record<string, unknown>;
    return { level: String(fields["level"]), msg: String(fields["msg"]), fields, text };
  } catch {
    // Text that happens to begin like JSON.
    return undefined;
  }
}
