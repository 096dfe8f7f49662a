/** The numbers of the README are those of the performance page. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { readPage } from "./pages.ts";

const rows = [
  ...readPage("README.md").matchAll(/^\| .* \| ([\d,]+) \| `(npm run bench[^`]*)` \|$/gm),
];

test("every number of the README is on the performance page", () => {
  assert.ok(rows.length >= 4, `only ${rows.length} rows were found`);
  const measured = readPage("docs/reference/performance.md");
  for (const [row, figure = ""] of rows) assert.ok(measured.includes(`| ${figure} |`), row);
});
