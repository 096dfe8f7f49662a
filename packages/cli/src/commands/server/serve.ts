/** `serve`: runs the server with all its settings, until it is stopped. */
import { launchServer, standInFor } from "@codeq/server/command-line";
import type { Call } from "../../call.ts";
import { serverConfig } from "../../local/data-directory.ts";
import { readLogLines } from "../../local/server-process.ts";
import { type Column, tableLines } from "../../terminal/table.ts";

export async function run(call: Call): Promise<number> {
  const { env } = call.host;
  const args = call.serverArgs;
  return standInFor(() => {
    if (!call.json) return launchServer({ args, env, stdio: "inherit" });
    const server = launchServer({ args, env, stdio: ["ignore", "pipe", "inherit"] });
    if (server.stdout !== null) readLogLines(server.stdout, ({ text }) => call.print(text));
    return server;
  }, env);
}

/** `config print`: the settings of a server that would be started here, and the source of each. */
export async function printConfig(call: Call): Promise<void> {
  const { describeConfig } = await import("@codeq/server/config");
  const { config, warnings } = await serverConfig(call);
  const isChanged = call.options.has("changed");
  const keys = describeConfig(config).filter(({ source }) => !isChanged || source !== "default");
  for (const warning of warnings) call.note(`warning: ${warning}`);
  const none = ["all settings have their defaults"];
  const lines = keys.length === 0 ? none : tableLines(columns, keys, call.style);
  call.answer({ settings: keys, warnings }, ...lines);
}

const columns: readonly Column<{ key: string; value: string; source: string }>[] = [
  { title: "KEY", show: ({ key }) => key },
  { title: "VALUE", show: ({ value }) => value },
  { title: "FROM", show: ({ source }) => source },
];
