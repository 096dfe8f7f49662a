/** A server that a command starts: its output as log lines (JSON) or text for people, and free ports for it. */

import { createServer } from "node:net";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import type { Config } from "@codeq/server/config";

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

/** A setting with a port, and the flag that takes any free one instead. */
const ports = [
  { setting: "port", flag: "--port=0" },
  { setting: "workerStreamAddr", flag: "--worker-stream-addr=:0" },
  { setting: "producerStreamAddr", flag: "--producer-stream-addr=:0" },
] as const;

interface FreePorts {
  readonly flags: readonly string[];
  /** The ports that are taken by other programs. */
  readonly taken: readonly number[];
}

/** Ports that the user chose are left alone: that they are taken is the user's to know. */
export async function freePorts(config: Config): Promise<FreePorts> {
  const flags: string[] = [];
  const taken: number[] = [];
  for (const { setting, flag } of ports) {
    const port = Number(String(config[setting]).replace(/^.*:/, ""));
    const isDefault = config.sources[setting] === "default";
    if (!isDefault || (await isFree(port, config.host))) continue;
    flags.push(flag);
    taken.push(port);
  }
  return { flags, taken };
}

/** The first of so many free ports in a row, from this one on. */
export async function freePortRow(from: number, count: number): Promise<number> {
  for (let first = from; ; first += count) {
    const row = Array.from({ length: count }, (_, above) => isFree(first + above, "127.0.0.1"));
    if ((await Promise.all(row)).every((free) => free)) return first;
  }
}

function isFree(port: number, host: string): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    // Whatever else is wrong with the address, the server itself says it better.
    server.once("error", ({ code }: NodeJS.ErrnoException) => resolve(code !== "EADDRINUSE"));
    server.listen({ port, host, exclusive: true }, () => server.close(() => resolve(true)));
  });
}
