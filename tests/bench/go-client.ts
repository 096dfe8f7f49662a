/**
 * The client that is not ours, built from go-client when it is asked for. The program is kept in the
 * folder for temporary files under the hash of its sources, so that it is built once for each version.
 */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { LoadProgram } from "./load-process.ts";
import { choice, type Option } from "./options.ts";
import { pathOf, SetupError } from "./programs.ts";
import { progress } from "./table.ts";

const sources = join(import.meta.dirname, "go-client");
const hashDigits = 16;

export type ClientName = "own" | "go";

/** Which clients a benchmark is run with. */
export function clientOption(): Option<ClientName[]> {
  const { text, read } = choice(["own", "go", "both"], "own");
  return {
    text,
    read: (name, given) => {
      const chosen = read(name, given);
      return chosen === "both" ? ["own", "go"] : [chosen];
    },
  };
}

/** Builds what is missing, so that nobody hears of it late. */
export function ensureClients(clients: readonly ClientName[]): void {
  if (clients.includes("go")) goClient();
}

/** The load in the file of this folder, or what is like it in Go. */
export function loadProgram(client: ClientName, file: string): LoadProgram {
  return client === "own" ? { kind: "node", file } : { kind: "program", path: goClient() };
}

/** The path of the program. */
function goClient(): string {
  const folder = join(tmpdir(), `codeq-bench-${process.getuid?.() ?? "user"}`);
  const path = join(folder, `client-${sourceHash()}`);
  if (existsSync(path)) return path;
  const go = pathOf("go");
  if (go === undefined) {
    throw new SetupError(
      "go not found: the client that is not ours is written in Go. " +
        "Install Go 1.26 or newer and put it into the PATH, or leave --client as own.",
    );
  }
  progress("building the Go client");
  mkdirSync(folder, { recursive: true });
  const unfinished = `${path}.${process.pid}`;
  const { status, stderr } = spawnSync(go, ["build", "-trimpath", "-o", unfinished, "."], {
    cwd: sources,
    encoding: "utf8",
  });
  if (status !== 0) throw new SetupError(`the Go client cannot be built:\n${stderr}`);
  renameSync(unfinished, path);
  return path;
}

function sourceHash(): string {
  const hash = createHash("sha256");
  for (const name of readdirSync(sources).sort()) {
    hash.update(name).update(readFileSync(join(sources, name)));
  }
  return hash.digest("hex").slice(0, hashDigits);
}
