/** The command line: `--name value`, `--name=value`, and switches that may stand alone. */

import { didYouMean } from "./closest-name.ts";
import { envNamesOf, flagOf, rowOf, settingNames } from "./setting-table.ts";
import type { SettingName } from "./settings.ts";
import { configPathFlag, inactiveNames, type Source, type Written } from "./source.ts";

export interface FlagSource extends Source {
  readonly configPath: string | undefined;
}

export function readFlags(argv: readonly string[]): FlagSource {
  const problems: string[] = [];
  const seen = new Map<string, string>();
  for (const argument of pairUp(argv)) {
    const { flag, value } = argument;
    if (flag === undefined) {
      problems.push(`argument ${argument.position}: expected a flag such as --port=8080`);
    } else if (!settingByFlag.has(flag) && flag !== configPathFlag) {
      problems.push(unknownFlag(flag));
    } else if (seen.has(flag)) {
      problems.push(`flag ${flag} is given twice; remove one of them`);
    } else if (value === undefined || value.trim() === "") {
      problems.push(`flag ${flag} needs a value: ${flag}=<value>`);
    } else {
      seen.set(flag, value);
    }
  }
  const written: Written[] = [];
  for (const [flag, value] of seen) {
    const name = settingByFlag.get(flag);
    const spell = (example: string) => `${flag}=${example}`;
    if (name) written.push({ name, value, origin: { where: `flag ${flag}`, spell } });
  }
  const warnings = [...seen.keys()].flatMap(warnOfSecret);
  return { written, problems, warnings, configPath: seen.get(configPathFlag) };
}

const settingByFlag: ReadonlyMap<string, SettingName> = new Map(
  settingNames.map((name) => [flagOf(name), name]),
);

interface Argument {
  readonly position: number;
  /** Missing when the argument is no flag. */
  readonly flag: string | undefined;
  readonly value: string | undefined;
}

/** Joins each flag with its value. An unknown flag takes a value too, so that it is not repeated. */
function pairUp(argv: readonly string[]): Argument[] {
  const found: Argument[] = [];
  for (let index = 0; index < argv.length; index++) {
    const position = index + 1;
    const argument = argv[index] ?? "";
    const next = argv[position];
    const cut = argument.indexOf("=");
    if (!isFlag(argument)) {
      found.push({ position, flag: undefined, value: undefined });
    } else if (cut > 0) {
      found.push({ position, flag: argument.slice(0, cut), value: argument.slice(cut + 1) });
    } else if (isSwitch(argument)) {
      found.push({ position, flag: argument, value: "true" });
    } else if (next === undefined || isFlag(next)) {
      found.push({ position, flag: argument, value: undefined });
    } else {
      found.push({ position, flag: argument, value: next });
      index++;
    }
  }
  return found;
}

function isFlag(argument: string): boolean {
  return argument.startsWith("--");
}

function isSwitch(flag: string): boolean {
  const name = settingByFlag.get(flag);
  return name !== undefined && rowOf(name).parser.isSwitch === true;
}

function unknownFlag(flag: string): string {
  if (inactiveNames.some((name) => flagOf(name) === flag)) {
    return `flag ${flag} is not supported in this version; remove it`;
  }
  const hint = didYouMean(flag, [...settingByFlag.keys(), configPathFlag]);
  return `flag ${flag}: there is no such flag${hint} (--help lists all)`;
}

function warnOfSecret(flag: string): string[] {
  const name = settingByFlag.get(flag);
  if (name === undefined || rowOf(name).secret !== true) return [];
  const variable = envNamesOf(name)[0];
  return [`flag ${flag} shows a secret to every user of this machine; use ${variable} instead`];
}
