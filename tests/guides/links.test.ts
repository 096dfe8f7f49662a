/** Links between the documents of the repository lead to files and headings that exist. */
import assert from "node:assert/strict";
import { existsSync, readdirSync, statSync } from "node:fs";
import { join, posix } from "node:path";
import { test } from "node:test";
import { root } from "../e2e/server-process.ts";
import { anchorsIn, proseOf, readPage } from "./pages.ts";

const folders = [
  "",
  "docs",
  "docs/guide",
  "docs/adr",
  "docs/reference",
  "packages/client",
  "examples/thumbnails",
  "examples/python",
  "examples/go",
];
const documents = folders.flatMap((folder) =>
  readdirSync(join(root, folder))
    .filter((name) => name.endsWith(".md"))
    .map((name) => posix.join(folder, name)),
);

interface Link {
  readonly from: string;
  readonly target: string;
}

function linksIn(from: string, text: string): Link[] {
  const prose = proseOf(text).replace(/`[^`\n]*`/g, "");
  const targets = [...prose.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = ""]) => target);
  return targets.filter((target) => !/^[a-z]+:/.test(target)).map((target) => ({ from, target }));
}

/** Empty when it leads somewhere. */
function broken({ from, target }: Link): string[] {
  const [path = "", anchor] = target.split("#");
  const file = path === "" ? from : posix.join(posix.dirname(from), path);
  const at = join(root, file);
  if (file.startsWith("..") || !existsSync(at)) return [`${from}: there is no ${target}`];
  if (anchor === undefined) return [];
  if (statSync(at).isDirectory()) return [`${from}: ${target} is a folder`];
  return anchorsIn(readPage(file)).has(anchor) ? [] : [`${from}: no heading for ${target}`];
}

const links = documents.flatMap((document) => linksIn(document, readPage(document)));

test("links between documents lead somewhere", () => {
  assert.ok(links.length > 100, `only ${links.length} links were found`);
  assert.deepEqual(links.flatMap(broken), []);
});

test("a link to nowhere is noticed: a file, a heading, a way out of the repository", () => {
  const text =
    "[a](no.md) [b](#no) [c](docs/guide/tls.md#renewal) [d](docs/guide/tls.md#no) [e](../x)";
  assert.deepEqual(linksIn("README.md", text).flatMap(broken), [
    "README.md: there is no no.md",
    "README.md: no heading for #no",
    "README.md: no heading for docs/guide/tls.md#no",
    "README.md: there is no ../x",
  ]);
});

test("every guide is linked from the README", () => {
  const fromReadme = links.filter(({ from }) => from === "README.md").map(({ target }) => target);
  for (const guide of documents.filter((path) => path.startsWith("docs/guide/"))) {
    assert.ok(fromReadme.includes(guide), `${guide} cannot be found from the README`);
  }
});
