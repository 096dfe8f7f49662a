/**
 * The configuration as text: the values in force and their sources, and all settings that exist. No secret
 * appears.
 */

import { describeQuotas } from "./quotas.ts";
import {
  configPathEnv,
  configPathFlag,
  envNamesOf,
  flagOf,
  rowOf,
  settingNames,
} from "./setting-table.ts";
import type { Config, ProviderConfig, SettingName } from "./settings.ts";

export interface DescribedKey {
  readonly key: SettingName;
  readonly value: string;
  readonly source: string;
}

/** One entry per key, in the order of the table. `persistenceConfig` is shown as the keys that it sets. */
export function describeConfig(config: Config): readonly DescribedKey[] {
  return settingNames
    .filter((key) => key !== "persistenceConfig")
    .map((key) => ({ key, value: describeValue(config, key), source: config.sources[key] }));
}

/** The text for `--help`. */
export function renderHelp(): string {
  const lines = [
    "codeQ server",
    "",
    "Flags override environment variables, which override the config file, which overrides defaults.",
    "",
    `  ${configPathFlag} <path>`,
    `      YAML file to read (environment variable ${configPathEnv}).`,
    "  --help",
    "      Print this text.",
  ];
  for (const name of settingNames) {
    const row = rowOf(name);
    const initial = row.initialInWords ?? String(row.initial);
    const unit = row.unit === undefined ? "" : `, in ${row.unit}`;
    lines.push(
      `  ${flagOf(name)}${row.parser.isSwitch === true ? "" : " <value>"}`,
      `      ${row.about}`,
      `      ${capitalized(row.parser.accepts)}${unit}; default: ${initial}.`,
      `      File: ${name}. Environment: ${envNamesOf(name, row.env).join(", ")}.`,
    );
  }
  return `${lines.join("\n")}\n`;
}

function describeValue(config: Config, key: SettingName): string {
  switch (key) {
    case "producerAuthConfig":
      return describeProviders(config.producerAuth);
    case "workerAuthConfig":
      return describeProviders(config.workerAuth);
    case "persistenceConfig":
      return "";
    case "quotas":
      return describeQuotas(config.quotas);
    default: {
      const value = config[key];
      if (rowOf(key).secret === true) return value === "" ? "" : mask;
      return String(value);
    }
  }
}

const mask = "***";

function describeProviders(providers: readonly ProviderConfig[]): string {
  return providers
    .map((each) =>
      each.type === "jwks" ? `keys of ${each.issuer}` : maskedTokens(each.tokens.length),
    )
    .join(", ");
}

function maskedTokens(count: number): string {
  return `${mask} (${count} ${count === 1 ? "token" : "tokens"})`;
}

function capitalized(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
