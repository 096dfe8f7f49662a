/** The flags of the server as rows of options, for help and completion. */
import {
  configPathEnv,
  configPathFlag,
  flagOf,
  rowOf,
  settingNames,
} from "@codeq/server/command-line";
import type { OptionRow } from "./command.ts";

export function serverFlagRows(): readonly OptionRow[] {
  const config: OptionRow = {
    name: configPathFlag.slice(2),
    value: "path",
    env: configPathEnv,
    about: "YAML file to read settings from.",
  };
  const settings = settingNames.map((key): OptionRow => {
    const { parser, about, unit } = rowOf(key);
    const name = flagOf(key).slice(2);
    if (parser.isSwitch === true) return { name, about };
    return { name, value: unit ?? "value", about };
  });
  return [config, ...settings];
}
