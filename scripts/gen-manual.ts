/** Writes the manual pages: `npm run gen`. */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { manualPages } from "./manual-pages.ts";

const root = join(import.meta.dirname, "..");
for (const [path, text] of manualPages()) {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
  console.log(`wrote ${path}`);
}
