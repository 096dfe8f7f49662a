/** `docs/llms.txt` and `docs/AGENTS.md`: what agents read, made from the pages of the guide. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const docs = join(import.meta.dirname, "../docs");

/** What a program that uses codeQ consists of. */
const chosen: readonly (readonly [page: string, heading: string])[] = [
  ["producer.md", "A task is defined once"],
  ["producer.md", "Without a client"],
  ["producer.md", "Options of a task"],
  ["worker.md", "Errors and retries"],
  ["worker.md", "The context"],
  ["worker.md", "Stopping"],
  ["testing.md", "What your code enqueued"],
  ["testing.md", "Moving time"],
];

function read(path: string): string {
  return readFileSync(join(docs, path), "utf8");
}

/** The list of all pages, in the form of llmstxt.org. */
export function llmsText(): string {
  const list = (folder: string): string[] =>
    readdirSync(join(docs, folder))
      .filter((name) => name.endsWith(".md"))
      .sort()
      .map((name) => {
        const text = read(`${folder}/${name}`);
        const [, title = name] = /^# (.*)$/m.exec(text) ?? [];
        return `- [${title}](${folder}/${name}): ${aboutOf(text)}`;
      });
  const readme = readFileSync(join(docs, "../README.md"), "utf8");
  return [
    "# codeQ",
    "",
    `> ${aboutOf(readme)}`,
    "",
    "Every page is plain Markdown. [AGENTS.md](AGENTS.md) has what code that uses codeQ needs.",
    "",
    "## Guide",
    "",
    ...list("guide"),
    "",
    "## Reference",
    "",
    ...list("reference"),
    "",
  ].join("\n");
}

/** For an agent that writes code with codeQ. */
export function agentsText(): string {
  const sections = chosen.flatMap(([page, heading]) => [
    `## ${heading}`,
    "",
    section(page, heading),
  ]);
  return [
    "# Using codeQ",
    "",
    "Made from the guide by `npm run gen`. Copy it into a project that uses codeQ.",
    "",
    "- Install `@codeq/client`, and `@codeq/server` as a development dependency for tests.",
    "- `codeq dev worker.ts` runs a server and a worker; `codeq why <task>` explains why a task does not run.",
    "- A task is delivered at least once: give effects outside of codeQ the task's id or its fencing token.",
    "- Test with `testServer()`, which has a clock of its own; never wait for real time.",
    "- [llms.txt](llms.txt) lists all pages.",
    "",
    ...sections,
  ].join("\n");
}

/** A part of a page, with links that work from the folder above. */
function section(page: string, heading: string): string {
  const text = read(`guide/${page}`);
  const start = text.indexOf(`\n## ${heading}\n`);
  if (start < 0) throw new Error(`${page} has no heading ${heading}`);
  const from = start + `\n## ${heading}\n`.length;
  const end = text.indexOf("\n## ", from);
  return `${text
    .slice(from, end < 0 ? undefined : end)
    .trim()
    .replaceAll(/\]\((?!https?:|\.\.\/|#)/g, "](guide/")
    .replaceAll("](../", "](")
    .replaceAll("](#", `](guide/${page}#`)}\n`;
}

/** The first sentence under the title. */
function aboutOf(text: string): string {
  const body = text.replace(/^---[\s\S]*?---\n/, "").replace(/^# .*$/m, "");
  const paragraph = body.split(/\n\n+/).find((each) => /^[A-Z`[]/.test(each.trim())) ?? "";
  const line = paragraph
    .trim()
    .replaceAll("\n", " ")
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1");
  return /^.*?[.:](?= |$)/.exec(line)?.[0].replace(/:$/, ".") ?? line;
}
