/**
 * Secrets in files, such as those that containers mount: the first variable of a secret setting with `_FILE` at its
 * end names the file. What is wrong with a file is said without its content.
 */
import { type Environment, isSet } from "./env-source.ts";
import { envNamesOf, rowOf, secretFileVariables } from "./setting-table.ts";
import type { Source, Written } from "./source.ts";

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

/** The line break at the end is no part of a secret. */
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
