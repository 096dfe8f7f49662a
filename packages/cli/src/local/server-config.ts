/** The configuration of a server that would be started here: from flags, environment and file. */
import { readFileSync } from "node:fs";
import type { Config } from "@codeq/server/config";
import type { Call } from "../call.ts";
import { CliError } from "../cli-error.ts";

export interface ServerConfig {
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
