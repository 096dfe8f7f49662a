/**
 * What users of the libraries can see, as one page: every declaration that their entries export,
 * and those that these mention. It is read from the compiler's own declarations, so a change in it is
 * a change for users.
 */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");
const packages = join(root, "packages");
export const apiReportPath = "docs/reference/client-api.md";

const entries = {
  "@codeq/client": "client/dist/index",
  "@codeq/client/fetch": "client/dist/fetch/index",
  "@codeq/client/testing": "client/dist/test-server/index",
  "@codeq/client/opentelemetry": "client/dist/opentelemetry",
  "@codeq/client/fastify": "client/dist/fastify",
  "@codeq/nest": "nest/dist/index",
  "@codeq/outbox": "outbox/dist/index",
  "@codeq/outbox/node-postgres": "outbox/dist/adapters/node-postgres",
  "@codeq/outbox/postgres-js": "outbox/dist/adapters/postgres-js",
  "@codeq/outbox/drizzle": "outbox/dist/adapters/drizzle",
  "@codeq/outbox/kysely": "outbox/dist/adapters/kysely",
  "@codeq/outbox/knex": "outbox/dist/adapters/knex",
  "@codeq/outbox/prisma": "outbox/dist/adapters/prisma",
} as const;

interface Declaration {
  readonly name: string;
  /** Path below `packages`, without its ending. */
  readonly file: string;
  readonly text: string;
}

/** Brings the declarations up to date. */
export function compileLibraries(): void {
  const tsc = join(root, "node_modules/typescript/bin/tsc");
  const folders = ["packages/client", "packages/nest", "packages/outbox"];
  execFileSync(process.execPath, [tsc, "-b", ...folders], { cwd: root, stdio: "inherit" });
}

/** Exported names about which an editor has nothing to say. */
export function undocumented(): string[] {
  return Object.values(entries)
    .flatMap(exportsOf)
    .filter(({ name, file }) => !isDocumented(name, rawDeclarationsOf(file)))
    .map(({ name }) => name);
}

function isDocumented(name: string, text: string): boolean {
  const [first] = text.matchAll(startOf(name));
  return text.slice(0, first?.index).trimEnd().endsWith("*/");
}

export function apiReport(): string {
  const shown = new Set<string>();
  const sections = Object.entries(entries).map(([entry, file]) => {
    const exported = exportsOf(file).filter(({ name }) => !shown.has(name));
    const mentioned = mentionedIn(exported, shown);
    for (const { name } of [...exported, ...mentioned]) shown.add(name);
    return section(entry, exported, mentioned);
  });
  return [
    "# Client API",
    "",
    "Generated from the declarations of `packages/client`, `packages/nest` and `packages/outbox` by `npm run gen`; a",
    "test fails while this page is not what the code says.",
    "",
    ...sections,
  ].join("\n");
}

function section(
  entry: string,
  exported: readonly Declaration[],
  mentioned: readonly Declaration[],
): string {
  const lines = [`## ${entry}`, "", block(exported), ""];
  if (mentioned.length > 0)
    lines.push("Not exported, but mentioned above:", "", block(mentioned), "");
  return lines.join("\n");
}

function block(declarations: readonly Declaration[]): string {
  const sorted = [...declarations].sort((a, b) => (a.name < b.name ? -1 : 1));
  return ["```text", sorted.map(({ text }) => text).join("\n\n"), "```"].join("\n");
}

/** What a file exports: its own declarations, or those that it passes on. */
function exportsOf(file: string): Declaration[] {
  const text = declarationsOf(file);
  const passedOn = [...text.matchAll(/^export (?:type )?\{([^}]*)\} from "([^"]+)";/gm)].flatMap(
    ([, names = "", from = ""]) =>
      namesIn(names).map((name) => find(name, resolveFrom(file, from))),
  );
  const whole = [...text.matchAll(/^export (?:type )?\* from "(\.[^"]+)";/gm)].flatMap(
    ([, from = ""]) => exportsOf(resolveFrom(file, from)),
  );
  const own = [...text.matchAll(declarationStart)].map(([, name = ""]) => find(name, file));
  const found = [...passedOn, ...whole, ...own].filter((each) => each !== undefined);
  return [...new Map(found.map((each) => [each.name, each])).values()];
}

/** Declarations of the package that others mention, and what those mention. */
function mentionedIn(from: readonly Declaration[], shown: ReadonlySet<string>): Declaration[] {
  const known = new Set([...shown, ...from.map(({ name }) => name)]);
  const found: Declaration[] = [];
  const queue = [...from];
  for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
    for (const name of new Set(next.text.match(/\b[A-Z]\w*\b|(?<=typeof )\w+/g))) {
      if (known.has(name)) continue;
      const declaration = mentioned(name, next.file);
      if (declaration === undefined) continue;
      known.add(name);
      found.push(declaration);
      queue.push(declaration);
    }
  }
  return found;
}

function mentioned(name: string, file: string): Declaration | undefined {
  const imports = [
    ...declarationsOf(file).matchAll(/^import (?:type )?\{([^}]*)\} from "(\.[^"]+)";/gm),
  ];
  const [, , from] = imports.find(([, names = ""]) => namesIn(names).includes(name)) ?? [];
  return find(name, from === undefined ? file : resolveFrom(file, from));
}

const declarationStart =
  /^(?:export )?(?:declare )?(?:abstract )?(?:class|function|const|interface|type) (\w+)/gm;

/** All declarations of that name in a file: a function may have several. */
function find(name: string, file: string): Declaration | undefined {
  const text = declarationsOf(file);
  const parts = [...text.matchAll(startOf(name))].map(({ index }) =>
    text.slice(index, endOf(text, index)),
  );
  return parts.length === 0 ? undefined : { name, file, text: parts.join("\n") };
}

function startOf(name: string): RegExp {
  const kinds = "class|function|const|interface|type";
  return new RegExp(`^(?:export )?(?:declare )?(?:abstract )?(?:${kinds}) ${name}\\b`, "gm");
}

/** A declaration ends with a semicolon or a closing brace outside of everything else. */
function endOf(text: string, start: number): number {
  let depth = 0;
  const isBlock = /^(?:export )?(?:declare )?(?:abstract )?(?:class|interface)\b/.test(
    text.slice(start, start + 60),
  );
  for (let at = start; at < text.length; at += 1) {
    const char = text[at] ?? "";
    if ("{([".includes(char)) depth += 1;
    if ("})]".includes(char)) depth -= 1;
    if (depth === 0 && (char === ";" || (char === "}" && isBlock))) return at + 1;
  }
  return text.length;
}

/** The declarations of a file without their comments. */
function declarationsOf(file: string): string {
  const text = rawDeclarationsOf(file);
  return text.replace(/^\s*\/\*\*[\s\S]*?\*\/\n/gm, "").replace(/\/\*\*[\s\S]*?\*\//g, "");
}

function rawDeclarationsOf(file: string): string {
  return readFileSync(join(packages, `${file}.d.ts`), "utf8");
}

function namesIn(list: string): string[] {
  return list
    .split(",")
    .map((name) => name.trim().replace(/^type /, ""))
    .filter((name) => name !== "");
}

function resolveFrom(file: string, specifier: string): string {
  return join(file, "..", specifier).replace(/\.[jt]s$/, "");
}
