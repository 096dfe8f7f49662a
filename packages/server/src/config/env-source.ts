/** The environment. A variable that is set to nothing counts as not set. */

import { closestName } from "./closest-name.ts";
import { inactiveSettings } from "./go-compat/inactive-settings.ts";
import { envNamesOf, rowOf, secretFileVariables, settingNames } from "./setting-table.ts";
import { configPathEnv, type Source, type Written } from "./source.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

const prefix = "CODEQ_";

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
 * Other programs own variables too (the client's CODEQ_BASE_URL, say), so an unknown one is an error
 * only when it is nearly the name of one of ours.
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
