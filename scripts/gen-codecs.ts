/** Writes what follows from the .proto files: `npm run gen`. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { codecFiles } from "./codec-files.ts";

const root = join(import.meta.dirname, "..");
for (const [path, text] of codecFiles()) {
  writeFileSync(join(root, path), text);
  console.log(`wrote ${path}`);
}
