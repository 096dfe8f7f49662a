/**
 * The configuration file. The messages of the YAML parser are not passed on, because they may quote a
 * secret.
 */
import { LineCounter, parseDocument } from "yaml";
import { didYouMean } from "./closest-name.ts";
import { knownNames, type Source, type Written } from "./source.ts";

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
    return isMap(root) ? root : undefined;
  } catch {
    // Aliases that point nowhere or multiply without end; the caller reports the file as unusable.
    return undefined;
  }
}

/** Names with their values; maps are entered as long as known names continue below them. */
function* flatten(map: object, prefix: string): Generator<[string, unknown]> {
  for (const [field, value] of Object.entries(map)) {
    const name = `${prefix}${field}`;
    if (isGroup(name) && isMap(value)) yield* flatten(value, `${name}.`);
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

function isMap(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
