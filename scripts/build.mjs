/**
 * Compiles the server when its sources are not the ones that were compiled last; telling that takes
 * a few milliseconds. Plain JavaScript for Node 18 and later.
 */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fail, root, runTool } from "./ensure-ready.mjs";

const packages = ["protocol", "queue", "engine", "server"];
const stampPath = join(root, "packages", "server", "dist", ".built-from");
export const serverMain = join(root, "packages", "server", "dist", "main.js");

export function buildServer(node) {
  const hash = sourceHash();
  const previous = existsSync(stampPath) ? readFileSync(stampPath, "utf8") : undefined;
  const complete =
    existsSync(serverMain) &&
    packages.every((name) => existsSync(join(root, "packages", name, "dist", "index.js")));
  if (complete && previous === hash) return;
  console.error("codeQ: compiling the server");
  // Forced: the compiler's own record does not notice a changed base configuration or lost output.
  const args = ["-b", "packages/server", "--force"];
  const status = runTool(node, "typescript/bin/tsc", args, { stdio: ["ignore", 2, 2] });
  if (status !== 0) fail("the server does not compile; see above");
  mkdirSync(dirname(stampPath), { recursive: true });
  writeFileSync(stampPath, hash);
}

/** Of everything that the compiler reads: sources, settings, and the versions of dependencies. */
function sourceHash() {
  const hash = createHash("sha256");
  const files = ["package-lock.json", "tsconfig.base.json"];
  for (const name of packages) {
    files.push(join("packages", name, "package.json"), join("packages", name, "tsconfig.json"));
    files.push(...sourcesUnder(join("packages", name, "src")));
  }
  for (const file of files) {
    const path = join(root, file);
    if (!existsSync(path)) continue;
    hash.update(`${file}\0`).update(readFileSync(path)).update("\0");
  }
  return hash.digest("hex");
}

function sourcesUnder(directory) {
  if (!existsSync(join(root, directory))) return [];
  return readdirSync(join(root, directory), { withFileTypes: true })
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((entry) => {
      const path = join(directory, entry.name);
      if (entry.isDirectory()) return sourcesUnder(path);
      return /\.ts$/.test(entry.name) && !/\.test\.ts$/.test(entry.name) ? [path] : [];
    });
}
