/** How much memory a server process holds, after it has collected its garbage. */
import { readFileSync } from "node:fs";
import type { ServerProcess } from "./server-process.ts";

export interface Memory {
  readonly resident: number;
  /** After a collection: what is really held. */
  readonly heap: number;
}

/** Flags of Node for a server whose memory is to be measured. */
export const measurable: readonly string[] = [
  "--expose-gc",
  `--import=${import.meta.resolve("./heap-report.ts")}`,
];

export async function memoryOf(server: ServerProcess): Promise<Memory> {
  const line = server.line((text) => text.startsWith("heap "));
  server.signal("SIGUSR2");
  const heap = Number((await line).slice("heap ".length));
  const status = readFileSync(`/proc/${server.pid}/status`, "utf8");
  // Files that are mapped into memory count for the system, not for the server.
  return { heap, resident: Number(/^RssAnon:\s+(\d+) kB/m.exec(status)?.[1]) * 1024 };
}
