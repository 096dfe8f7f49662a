import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { manualPages } from "./manual-pages.ts";

const root = join(import.meta.dirname, "..");

for (const [path, text] of manualPages()) {
  test(`${path} is what the tables say; if not, run npm run gen`, () => {
    assert.equal(readFileSync(join(root, path), "utf8"), text);
  });
}
