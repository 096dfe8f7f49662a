/**
 * The sources of configuration: file, environment, files with secrets, and flags. Each returns named values that are
 * not checked yet, and complaints about unknown names. A complaint has only the name: a value without a row may be a
 * secret.
 */
import { LineCounter, parseDocument } from "yaml";
import { closestName, didYouMean } from "../core/closest-name.ts";
import { isRecord } from "./blobs.ts";
import { inactiveSettings } from "./go-settings.ts";
import {
  configPathEnv,
  configPathFlag,
  envNamesOf,
  flagOf,
  rowOf,
  secretFileVariables,
  settingNames,
} from "./setting-table.ts";
import type { SettingName } from "./settings.ts";

export interface Origin {
  /** In words: `file ./codeq.yaml`, `environment variable PORT`, `flag --port`. */
  readonly where: string;
  /** How a value is written there, for the fix in a message. */
  readonly spell: (value: string) => string;
}

interface Written {
  readonly name: string;
  readonly value: unknown;
  readonly origin: Origin;
}

export interface Source {
  readonly written: readonly Written[];
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
}

const inactiveNames = inactiveSettings.map((row) => row.name);
const knownNames: readonly string[] = [...settingNames, ...inactiveNames];

/** The messages of the YAML parser are not passed on, because they may quote a secret. */
export function readYaml(path: string, text: string): Source {
  const lineCounter = new LineCounter();
  const document = parseDocument(text, { prettyErrors: false, lineCounter });
  const faults = [...document.errors, ...document.warnings];
  const problems = faults.map((fault) => {
    const { line } = lineCounter.linePos(fault.pos[0]);
    return `file ${path}, line ${line}: not valid YAML (${fault.code})`;
  });
  const written: Written[] = [];
  if (problems.length > 0) return { written, problems, warnings: [] };
  const root = rootOf(document);
  if (root === undefined) problems.push(`file ${path}: expected a map of keys, such as port: 8080`);
  for (const [name, value] of flatten(root ?? {}, "")) {
    const answer = judge(name, value);
    if (answer === "value") {
      const spell = (example: string) => `${name}: ${example}`;
      written.push({ name, value, origin: { where: `file ${path}`, spell } });
    } else if (answer === "unknown") {
      const hint = didYouMean(name, knownNames);
      problems.push(`${name} (file ${path}): there is no such key${hint}`);
    } else if (answer === "not-a-map") {
      problems.push(`${name} (file ${path}): expected a map of keys`);
    }
  }
  return { written, problems, warnings: [] };
}

/** An empty document is an empty map; anything that is not a map is `undefined`. */
function rootOf(document: ReturnType<typeof parseDocument>): object | undefined {
  try {
    const root: unknown = document.toJS() ?? {};
    return isRecord(root) ? root : undefined;
  } catch {
    // An alias is undefined or expands without end; the caller reports the file as unusable.
    return undefined;
  }
}

/** Names with their values. A map is entered if known names begin with its name. */
function* flatten(map: object, prefix: string): Generator<[string, unknown]> {
  for (const [field, value] of Object.entries(map)) {
    const name = `${prefix}${field}`;
    if (isGroup(name) && isRecord(value)) yield* flatten(value, `${name}.`);
    else yield [name, value];
  }
}

function judge(name: string, value: unknown): "value" | "unset" | "unknown" | "not-a-map" {
  const known = knownNames.includes(name);
  if (!known && !isGroup(name)) return "unknown";
  if (value === null || value === undefined) return "unset";
  return known ? "value" : "not-a-map";
}

function isGroup(name: string): boolean {
  return knownNames.some((known) => known.startsWith(`${name}.`));
}

export type Environment = Readonly<Record<string, string | undefined>>;

const prefix = "CODEQ_";

/** An empty variable counts as not set. */
export function readEnvironment(env: Environment): Source {
  const warnings: string[] = [];
  const written: Written[] = [];
  const known = new Set<string>([configPathEnv, ...secretFileVariables.values()]);
  const rows = [
    ...settingNames.map((name) => ({ name, variables: envNamesOf(name, rowOf(name).env) })),
    ...inactiveSettings.map((row) => ({
      name: row.name,
      variables: envNamesOf(row.name, row.env),
    })),
  ];
  for (const { name, variables } of rows) {
    for (const variable of variables) known.add(variable);
    const links = variables.filter((variable) => isServiceLink(variable, env[variable]));
    const usable = variables.filter((variable) => !links.includes(variable));
    for (const link of links) {
      warnings.push(`${link} looks like a Kubernetes service link and is ignored`);
    }
    const variable = usable.find((candidate) => isSet(env[candidate]));
    if (variable === undefined) continue;
    const spell = (example: string) => `${variable}=${example}`;
    const origin = { where: `environment variable ${variable}`, spell };
    written.push({ name, value: env[variable], origin });
  }
  return { written, problems: misspeltVariables(env, known), warnings };
}

export function isSet(value: string | undefined): value is string {
  return value !== undefined && value.trim() !== "";
}

/** A service named `codeq` makes Kubernetes set CODEQ_PORT to an address, for every pod. */
function isServiceLink(variable: string, value: string | undefined): boolean {
  return variable === "CODEQ_PORT" && /^[a-z]+:\/\//.test(value ?? "");
}

/**
 * Other programs use the prefix too (the client reads CODEQ_URL), so an unknown variable is an error only if its
 * name is close to the name of a setting.
 */
function misspeltVariables(env: Environment, known: ReadonlySet<string>): string[] {
  const ours = [...known]
    .filter((variable) => variable.startsWith(prefix))
    .map((variable) => variable.slice(prefix.length));
  return Object.keys(env)
    .filter((variable) => variable.startsWith(prefix) && isSet(env[variable]))
    .filter((variable) => !known.has(variable))
    .sort()
    .flatMap((variable) => {
      const meant = closestName(variable.slice(prefix.length), ours);
      if (meant === undefined) return [];
      const hint = `did you mean ${prefix}${meant}?`;
      return [`environment variable ${variable}: there is no such setting; ${hint}`];
    });
}

/**
 * Secrets in files, such as those that containers mount: the first variable of a secret setting with `_FILE` at its
 * end names the file. Problems never quote the content of a file.
 */
export function readSecretFiles(env: Environment, readFile: (path: string) => string): Source {
  const written: Written[] = [];
  const problems: string[] = [];
  for (const [name, fileVariable] of secretFileVariables) {
    const path = env[fileVariable];
    if (!isSet(path)) continue;
    const origin = {
      where: `environment variable ${fileVariable}`,
      spell: (example: string) => `a file with ${example}`,
    };
    const other = envNamesOf(name, rowOf(name).env).find((variable) => isSet(env[variable]));
    const content = textOf(path, readFile);
    const problem =
      other === undefined ? content.problem : `${other} is set as well; remove one of them`;
    if (problem === undefined) written.push({ name, value: content.text, origin });
    else problems.push(`${name} (${origin.where}): ${problem}`);
  }
  return { written, problems, warnings: [] };
}

interface FileText {
  readonly text: string;
  readonly problem?: string;
}

/** A line break at the end does not belong to the secret. */
function textOf(path: string, readFile: (path: string) => string): FileText {
  try {
    const text = readFile(path).replace(/\r?\n$/, "");
    return text === "" ? { text, problem: `${path} is empty; write the secret into it` } : { text };
  } catch (error) {
    const code = (error as { code?: unknown } | null)?.code;
    const why = code === "ENOENT" ? "does not exist" : `cannot be read (${String(code)})`;
    return { text: "", problem: `${path} ${why}; correct the path` };
  }
}

interface FlagSource extends Source {
  readonly configPath: string | undefined;
}

/** The command line: `--name value`, `--name=value`, and switches that may stand alone. */
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
  /** Undefined if the argument is not a flag. */
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
    return `flag ${flag} is a setting of the Go server, and has no flag here; remove it`;
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
