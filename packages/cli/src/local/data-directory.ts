/** The data directory of a server on this machine: the configured one, or that of `dev`. */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Config } from "@codeq/server/config";
import type { Call } from "../call.ts";

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
