/** `config print`: the settings of a server that would be started here, and the source of each. */
import type { Call } from "../call.ts";
import { exitCodes } from "../exit-codes.ts";
import { serverConfig } from "../local/server-config.ts";
import { type Column, tableLines } from "../terminal/table.ts";

export async function print(call: Call): Promise<number> {
  const { describeConfig } = await import("@codeq/server/config");
  const { config, warnings } = await serverConfig(call);
  const isChanged = call.options.has("changed");
  const keys = describeConfig(config).filter(({ source }) => !isChanged || source !== "default");
  for (const warning of warnings) call.note(`warning: ${warning}`);
  if (call.json) {
    call.printJson({ settings: keys, warnings });
    return exitCodes.ok.code;
  }
  if (keys.length === 0) call.print("all settings have their defaults");
  else for (const line of tableLines(columns, keys, call.style)) call.print(line);
  return exitCodes.ok.code;
}

const columns: readonly Column<{ key: string; value: string; source: string }>[] = [
  { title: "KEY", show: ({ key }) => key },
  { title: "VALUE", show: ({ value }) => value },
  { title: "FROM", show: ({ source }) => source },
];
