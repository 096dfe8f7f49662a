/**
 * A data directory with a past: made by a real server in four lives. The first ends cleanly, and a copy
 * of what it left is kept; the last two are killed, so that something is in the commit log only, and
 * something in LevelDB's own log.
 */
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync, watch } from "node:fs";
import { join } from "node:path";
import { inspectLog, ReadOnlyDisk } from "@codeq/engine";
import { ApiClient } from "../e2e/api-client.ts";
import { type ServerProcess, startServer } from "../e2e/server-process.ts";

export interface Prepared {
  readonly directory: string;
  /** As it was after the first life. */
  readonly older: string;
  /** The payload of every task that was acknowledged, by its id. */
  readonly pending: ReadonlyMap<string, string>;
  /** The result of every task that was completed. */
  readonly results: ReadonlyMap<string, string>;
}

export interface Size {
  /** Tasks in each life. */
  readonly tasks: number;
  /** Of the payload of every third task. */
  readonly longBytes: number;
}

export const small: Size = { tasks: 30, longBytes: 3000 };
/** More than a segment of the log, so that the beginning of the log is gone. */
export const large: Size = { tasks: 120, longBytes: 900_000 };

const lives = 4;
const isKilled = (life: number): boolean => life >= 3;

export async function prepare(root: string, name: string, size: Size): Promise<Prepared> {
  const directory = join(root, name);
  const older = join(root, `${name}-older`);
  const pending = new Map<string, string>();
  const results = new Map<string, string>();
  for (let life = 1; life <= lives; life += 1) {
    const server = await startServer({ dataDir: directory });
    const api = new ApiClient(server.port);
    await fill({ api, pending, results }, size, `${name} ${life}`);
    if (isKilled(life)) await untilWitnessed(directory);
    api.close();
    await end(server, life);
    if (life === 1) copyDirectory(directory, older);
  }
  return { directory, older, pending, results };
}

/** What is acknowledged is told to the witness of the log within a second. */
async function untilWitnessed(directory: string): Promise<void> {
  const { segments } = await inspectLog(new ReadOnlyDisk(join(directory, "log")));
  const lastIndex = segments.at(-1)?.lastIndex ?? 0;
  const path = join(directory, "witness");
  const watcher = watch(path);
  try {
    while (witnessedIndex(path) < lastIndex) await once(watcher, "change");
  } finally {
    watcher.close();
  }
}

/** The higher of its two notes. */
function witnessedIndex(path: string): number {
  const bytes = readFileSync(path);
  const notes = [0, 4096].filter((at) => bytes.length >= at + 28);
  return Math.max(0, ...notes.map((at) => Number(bytes.readBigUInt64LE(at + 16))));
}

async function end(server: ServerProcess, life: number): Promise<void> {
  if (isKilled(life)) {
    await server.kill();
    return;
  }
  const { code, stderr } = await server.stop();
  if (code !== 0) throw new Error(`the server ended with ${code}: ${stderr}`);
}

interface Filled {
  readonly api: ApiClient;
  readonly pending: Map<string, string>;
  readonly results: Map<string, string>;
}

async function fill({ api, pending, results }: Filled, size: Size, name: string): Promise<void> {
  for (let number = 0; number < size.tasks; number += 1) {
    const filler = number % 3 === 0 ? "x".repeat(size.longBytes) : "";
    const payload = JSON.stringify({ name, number, filler });
    const command = number % 5 === 0 ? "finish" : "keep";
    const reply = await api.create({ command, payload: JSON.parse(payload) });
    if (reply.status !== 202) throw new Error(`${reply.status}: ${reply.text}`);
    const { id } = JSON.parse(reply.text) as { id: string };
    if (command === "keep") pending.set(id, payload);
    else results.set(id, JSON.stringify({ done: id, filler: filler.slice(0, 2000) }));
  }
  for (;;) {
    const claimed = await api.post("/tasks/claim", { commands: ["finish"], leaseSeconds: 60 });
    if (claimed.status !== 200) return;
    const { id } = JSON.parse(claimed.text) as { id: string };
    const result = JSON.parse(results.get(id) as string);
    const done = await api.post(`/tasks/${id}/result`, { status: "COMPLETED", result });
    if (done.status !== 200) throw new Error(`${done.status}: ${done.text}`);
  }
}

/** Segments of the log are mostly zeros, which a copy need not have. */
export function copyDirectory(from: string, to: string): void {
  const { status, stderr } = spawnSync("cp", ["-r", "--sparse=always", from, to]);
  if (status !== 0) throw new Error(`cp: ${stderr}`);
}

/** The paths of all files below a directory, in order. */
export function filesBelow(directory: string, prefix = ""): string[] {
  const entries = readdirSync(join(directory, prefix), { withFileTypes: true });
  return entries
    .flatMap((entry) => {
      const path = join(prefix, entry.name);
      return entry.isDirectory() ? filesBelow(directory, path) : [path];
    })
    .sort();
}
