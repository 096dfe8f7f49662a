/**
 * Turns arguments, environment and file into a checked configuration, or into every problem at
 * once. `loadConfig` is pure: all input is passed in. Later sources win: defaults, then the file, then the
 * environment, then flags; a bad value is reported even when a later source would replace it.
 * No message contains the value of a secret.
 */
import { readFileSync } from "node:fs";
import type { PersistenceConfig } from "./blobs.ts";
import { checkConfig } from "./check-config.ts";
import { inactiveSettings } from "./go-settings.ts";
import { trueOrFalse } from "./parsers.ts";
import {
  configPathEnv,
  configPathFlag,
  isSettingName,
  rowOf,
  settingNames,
} from "./setting-table.ts";
import type { Config, SettingName } from "./settings.ts";
import {
  type Environment,
  isSet,
  type Origin,
  readEnvironment,
  readFlags,
  readSecretFiles,
  readYaml,
  type Source,
} from "./sources.ts";

export interface ConfigInput {
  /** The arguments after the program's own name. */
  readonly argv: readonly string[];
  readonly env: Environment;
  /** Reads a text file; throws when that is not possible. */
  readonly readFile: (path: string) => string;
  /** Checks other files that the configuration names; their problems are reported as well. */
  readonly checkFiles?: CheckFiles | undefined;
}

export type CheckFiles = (config: Config) => {
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
};

export type LoadedConfig =
  | { readonly ok: true; readonly config: Config; readonly warnings: readonly string[] }
  | { readonly ok: false; readonly problems: readonly string[] };

export function loadConfig(input: ConfigInput): LoadedConfig {
  const flags = readFlags(input.argv);
  const file = readConfigFile(input, flags.configPath);
  const draft = new Draft();
  const secrets = readSecretFiles(input.env, input.readFile);
  for (const source of [file, readEnvironment(input.env), secrets, flags]) draft.add(source);
  const checked = checkConfig(draft.values, draft.sources, draft.touched);
  const files = input.checkFiles?.(checked.config) ?? nothing;
  const problems = [...draft.problems, ...checked.problems, ...files.problems];
  if (problems.length > 0) return { ok: false, problems };
  const warnings = [...draft.warnings, ...checked.warnings, ...files.warnings];
  return { ok: true, config: checked.config, warnings };
}

/** Reads the environment and the files of the process; `argv` are the arguments after the program's own name. */
export function loadProcessConfig(argv: readonly string[], checkFiles?: CheckFiles): LoadedConfig {
  const readFile = (path: string): string => readFileSync(path, "utf8");
  return loadConfig({ argv, env: process.env, readFile, checkFiles });
}

const nothing: Source = { written: [], problems: [], warnings: [] };

/** The file is optional, but a file that was named must exist. */
function readConfigFile(input: ConfigInput, fromFlag: string | undefined): Source {
  const fromEnv = input.env[configPathEnv];
  const path = fromFlag ?? (isSet(fromEnv) ? fromEnv : undefined);
  if (path === undefined) return nothing;
  const asker =
    fromFlag === undefined ? `environment variable ${configPathEnv}` : `flag ${configPathFlag}`;
  try {
    return readYaml(path, input.readFile(path));
  } catch (error) {
    const code = (error as { code?: unknown } | null)?.code;
    const why = code === "ENOENT" ? "does not exist" : `cannot be read (${String(code)})`;
    const fix = "correct the path, or remove it to run without a file";
    return { ...nothing, problems: [`config file ${path} (${asker}) ${why}; ${fix}`] };
  }
}

/** The values so far; a later source overwrites an earlier one. */
class Draft {
  readonly values: Map<SettingName, unknown> = new Map();
  readonly sources: Record<SettingName, string>;
  /** Keys that a source set, with a valid value or not. */
  readonly touched: Set<SettingName> = new Set();
  readonly problems: string[] = [];
  readonly warnings: string[] = [];

  constructor() {
    const sources: Partial<Record<SettingName, string>> = {};
    for (const name of settingNames) {
      this.values.set(name, rowOf(name).initial);
      sources[name] = "default";
    }
    this.sources = sources as Record<SettingName, string>;
  }

  add(source: Source): void {
    this.problems.push(...source.problems);
    this.warnings.push(...source.warnings);
    const names = new Set(source.written.map((entry) => entry.name));
    for (const { name, value, origin } of source.written) {
      if (isSettingName(name)) this.#set(name, value, origin);
      else this.#noteInactive(name, value, origin);
      if (name === "persistenceConfig") this.#expandPersistence(origin, names);
    }
  }

  #set(name: SettingName, raw: unknown, origin: Origin): void {
    const row = rowOf(name);
    this.touched.add(name);
    const result = row.parser.parse(raw);
    if (result.ok) {
      this.values.set(name, result.value);
      this.sources[name] = origin.where;
      return;
    }
    if (name === "persistenceConfig") this.values.set(name, {});
    const shown = row.secret === true ? "the value (not shown)" : show(raw);
    this.problems.push(
      `${name} (${origin.where}): ${shown} is not accepted: ${result.problem}; ` +
        `for example ${origin.spell(row.parser.example)}`,
    );
  }

  #noteInactive(name: string, raw: unknown, origin: Origin): void {
    const row = inactiveSettings.find((known) => known.name === name);
    const flag = trueOrFalse.parse(raw);
    if (flag.ok && !flag.value && /enabled$/i.test(name)) return;
    const text = `${name} (${origin.where}): ${row?.instead}`;
    if (row?.isRefusedWhenOn) this.problems.push(text);
    else this.warnings.push(text);
  }

  /** Each field of `persistenceConfig` counts as if its own key stood in the same source. */
  #expandPersistence(origin: Origin, written: ReadonlySet<string>): void {
    const blob = this.values.get("persistenceConfig") as PersistenceConfig;
    const pairs: [keyof PersistenceConfig, SettingName, unknown][] = [
      ["path", "dataDir", blob.path],
      ["fsyncOnCommit", "durability", durabilityOf(blob)],
      ["numShards", "shards", blob.numShards],
    ];
    for (const [field, name, value] of pairs) {
      if (value === undefined) continue;
      if (written.has(name)) {
        this.problems.push(
          `${name} (${origin.where}): also set by persistenceConfig.${field}; remove one of them`,
        );
      }
      this.touched.add(name);
      this.values.set(name, value);
      this.sources[name] = `${origin.where}, persistenceConfig.${field}`;
    }
  }
}

function durabilityOf({ fsyncOnCommit }: PersistenceConfig): Config["durability"] | undefined {
  if (fsyncOnCommit === undefined) return undefined;
  return fsyncOnCommit ? "fsync" : "os";
}

const shownCharsMax = 80;

function show(raw: unknown): string {
  const text = JSON.stringify(raw) ?? String(raw);
  return text.length > shownCharsMax ? `${text.slice(0, shownCharsMax)}...` : text;
}
