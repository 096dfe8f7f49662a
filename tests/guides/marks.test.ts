/** No block of a page stands there unchecked, and no mark is without a block and a test. */
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { root } from "../e2e/server-process.ts";
import { blocksOf, type Mark, marks } from "./marks.ts";
import { anchorsIn, type Block, blocksIn, pages } from "./pages.ts";

const names = Object.keys(marks) as Mark[];

function unchecked(blocks: readonly Block[]): string[] {
  return blocks
    .filter(({ mark }) => !(names as string[]).includes(mark))
    .map(({ page, line, mark }) => `${page}:${line} \`\`\`${mark}`);
}

test("every block of every page has a mark that a test answers for", () => {
  const blocks = pages.flatMap((page) => blocksIn(page));
  assert.ok(blocks.length > 60, `only ${blocks.length} blocks were found`);
  assert.deepEqual(unchecked(blocks), [], "see the marks in tests/guides/marks.ts");
});

test("a block without a mark, or with one that nobody knows, is noticed with its place", () => {
  const text =
    "# A page\n\n```\nplain\n```\n\n```ts\nconst known = 1;\n```\n\n```sh magic\nx\n```\n";
  assert.deepEqual(unchecked(blocksIn("page.md", text)), [
    "page.md:3 ```",
    "page.md:11 ```sh magic",
  ]);
  assert.throws(() => blocksIn("page.md", "```ts\nnever closed\n"), /page\.md:1 opens a block/);
});

for (const mark of names) {
  test(`blocks marked ${mark} exist, and the test that answers for them asks for them`, () => {
    assert.ok(blocksOf(mark).length > 0, "no page has one; take the mark away");
    const path = join(root, marks[mark].checkedBy);
    assert.ok(existsSync(path), path);
    assert.ok(readFileSync(path, "utf8").includes(`"${mark}"`), `${path} does not ask for them`);
  });
}

test("headings become anchors as GitHub makes them", () => {
  const text = "# A page: `codeq top` & more\n## Twice\n## Twice\n## [Linked](x.md) text\n";
  assert.deepEqual(
    [...anchorsIn(text)],
    ["a-page-codeq-top--more", "twice", "twice-1", "linked-text"],
  );
});
