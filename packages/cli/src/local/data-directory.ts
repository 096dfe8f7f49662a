/** The data directory and the configuration of a server on this machine, and errors of files in the directory. */
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Config } from "@codeq/server/config";
import type { Call } from "../call.ts";
import { CliError } from "../cli-error.ts";
import type { ExitName } from "../exit-codes.ts";

/** What `dev` makes in the current directory. */
const devFolder = ".codeq";

export function devDataDirectory(call: Call): string {
  return join(call.host.directory, devFolder, "data");
}

/** Without a setting it is that of `dev`, when there is one and no other. */
export function dataDirectoryOf(call: Call, config: Config): string {
  const configured = resolve(call.host.directory, config.dataDir);
  const isDefault = config.sources.dataDir === "default";
  if (isDefault && !existsSync(configured) && existsSync(devDataDirectory(call))) {
    return devDataDirectory(call);
  }
  return configured;
}

/** The configuration of a server that would be started here: from flags, environment and file. */
interface ServerConfig {
  readonly config: Config;
  readonly warnings: readonly string[];
}

export async function serverConfig(
  call: Call,
  args: readonly string[] = call.serverArgs,
): Promise<ServerConfig> {
  const { loadConfig } = await import("@codeq/server/config");
  const readFile = (path: string): string => readFileSync(path, "utf8");
  const loaded = loadConfig({ argv: args, env: call.host.env, readFile });
  if (loaded.ok) return loaded;
  const list = loaded.problems.map((problem) => `\n  - ${problem}`).join("");
  throw new CliError(`the configuration has ${loaded.problems.length} problem(s):${list}`, {
    exit: "usage",
    next: "codeq serve --help lists every setting",
  });
}

/** Throws what the command ends with; errors other than faults as they are. */
export async function throwFault(
  error: unknown,
  nextOf: (code: string) => string | undefined = () => undefined,
): Promise<never> {
  const { FaultError } = await import("@codeq/server/data-dir");
  if (!(error instanceof FaultError)) throw error;
  const { code, message, cause } = error;
  throw new CliError(message, { exit: exitOf(code), next: nextOf(code), cause });
}

function exitOf(code: string): ExitName {
  if (code === "locked") return "locked";
  return code === "disk_full" ? "full" : "data";
}
