/**
 * The rules and the protocol must give the same answer for the same arguments, on any machine and
 * inside a simulation. So their sources import only each other and name nothing that reads a clock,
 * draws a random number, sets a timer or reaches the process.
 */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { test } from "node:test";

const packages = join(import.meta.dirname, "../..");

const bannedNames = [
  "Date",
  "Temporal",
  "setTimeout",
  "setInterval",
  "setImmediate",
  "queueMicrotask",
  "process",
  "globalThis",
  "crypto",
  "performance",
  "require",
];

interface Code {
  /** The source without comments; each string is replaced by its number in quotes. */
  readonly text: string;
  readonly strings: readonly string[];
}

const token = new RegExp(
  [
    String.raw`(?<comment>\/\/[^\n]*|\/\*[\s\S]*?\*\/)`,
    String.raw`(?<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')`,
    // A slash begins a pattern, not a division, when it follows what cannot end a value.
    String.raw`(?<=[(,=:[!&|?{};]\s*|\breturn\s+)` +
      String.raw`(?<pattern>\/(?:[^/\\\n[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/)`,
  ].join("|"),
  "g",
);

/** Template literals stay as they are, because the expressions inside them are code. */
function readCode(source: string): Code {
  const strings: string[] = [];
  const text = source.replace(token, (whole, ...rest) => {
    const groups = rest.at(-1) as Record<string, string | undefined>;
    if (groups["string"] === undefined) return " ";
    strings.push(whole.slice(1, -1));
    return `"${strings.length - 1}"`;
  });
  return { text, strings };
}

function impurities(source: string): string[] {
  const { text, strings } = readCode(source);
  const found: string[] = [];
  for (const [, number] of text.matchAll(/\b(?:from|import)\s*\(?\s*"(\d+)"/g)) {
    const specifier = strings[Number(number)] ?? "";
    if (!/^\.\.?\//.test(specifier)) found.push(`imports ${specifier}`);
  }
  if (/\bimport\s*\(\s*[^"\s]/.test(text)) found.push("imports what is known only at run time");
  if (/\bimport\s*\.\s*meta\b/.test(text)) found.push("uses import.meta");
  for (const name of bannedNames) {
    if (new RegExp(String.raw`(?<![\w$])${name}(?![\w$])`).test(text)) found.push(`uses ${name}`);
  }
  // Any other use than a call by name could hide the random source behind another name.
  if (/(?<![\w$])Math(?![\w$])(?!\s*\.\s*(?!random\b)\w)/.test(text)) {
    found.push("uses Math.random");
  }
  return found;
}

function sourcesOf(name: string): string[] {
  const folder = join(packages, name, "src");
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".ts") && !path.endsWith(".test.ts"))
    .map((path) => join(folder, path));
}

for (const name of ["queue", "protocol"]) {
  test(`the sources of ${name} reach nothing outside themselves`, () => {
    const files = sourcesOf(name);
    assert.ok(files.length > 0, "no source was read");
    const found = files.flatMap((file) =>
      impurities(readFileSync(file, "utf8")).map((what) => `${relative(packages, file)} ${what}`),
    );
    assert.deepEqual(found, []);
  });
}

test("the check reads every transition", () => {
  const names = sourcesOf("queue").map((file) => relative(packages, file).replaceAll("\\", "/"));
  for (const name of ["backoff", "index", "transitions/claim", "transitions/give-back"]) {
    assert.ok(names.includes(`queue/src/${name}.ts`), name);
  }
});

const impure: readonly [source: string, says: string][] = [
  [`import fs from "node:fs";`, "imports node:fs"],
  [`import "node:fs";`, "imports node:fs"],
  [`import type { Task } from '@codeq/queue';`, "imports @codeq/queue"],
  [`import {\n  one,\n  two,\n} from "fast-check";`, "imports fast-check"],
  [`export * from "pino";`, "imports pino"],
  [`export { a } from /* quietly */ "pino";`, "imports pino"],
  [`const fs = await import("node:fs");`, "imports node:fs"],
  [`const it = await import(name);`, "imports what is known only at run time"],
  [`import a from ".hidden/a.ts";`, "imports .hidden/a.ts"],
  [`const here = import.meta.url;`, "uses import.meta"],
  [`const fs = require("node:fs");`, "uses require"],
  [`const now = Date.now();`, "uses Date"],
  [`const at = new Date(0);`, "uses Date"],
  [`const now = globalThis.now;`, "uses globalThis"],
  [`setTimeout(run, 5);`, "uses setTimeout"],
  [`setInterval(run, 5);`, "uses setInterval"],
  [`const { env } = process;`, "uses process"],
  [`const all = [...process.argv];`, "uses process"],
  [`const id = crypto.randomUUID();`, "uses crypto"],
  [`const ms = performance.now();`, "uses performance"],
  [`const ms = \`\${Date.now()} ms\`;`, "uses Date"],
  [`const draw = Math.random();`, "uses Math.random"],
  [`const draw = Math . random();`, "uses Math.random"],
  [`const draw = Math["random"]();`, "uses Math.random"],
  [`const { random } = Math;`, "uses Math.random"],
  [`const parts = /[/"]/.exec(text); const now = Date.now(); const more = "";`, "uses Date"],
  [`const ratio = one / two; const now = Date.now() / 2;`, "uses Date"],
  [`/* a */ const now = Date.now(); /* b */`, "uses Date"],
];

for (const [source, says] of impure) {
  test(`the check finds that ${JSON.stringify(source)} ${says}`, () => {
    assert.deepEqual(impurities(source), [says]);
  });
}

const pure: readonly string[] = [
  `import { a } from "./a.ts";\nimport type { b } from "../b.ts";\nexport { c } from "./c.ts";`,
  `// Date.now() and Math.random() are passed in.`,
  `/**\n * import fs from "node:fs"\n * process.exit\n */`,
  `const text = "read the Date from process, or Math.random()";`,
  `const text = 'imported from "node:fs" by a // slash';`,
  `const top = Math.floor(Math.min(1, 2));`,
  `const updated = dateOf(task); const processed = 1; const $Date = 2; const Dates = 3;`,
  `const pattern = /"Date"|process/; const quotes = /['"]/;`,
];

for (const source of pure) {
  test(`the check accepts ${JSON.stringify(source)}`, () => {
    assert.deepEqual(impurities(source), []);
  });
}
