/**
 * Compiles a package and those it needs when the sources are not the ones that were compiled last;
 * telling that takes a few milliseconds. Plain JavaScript for Node 18 and later.
 */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fail, root, runTool } from "./ensure-ready.mjs";

export function buildPackage(node, target) {
  const packages = packagesOf(target);
  const dist = (name) => join(root, "packages", name, "dist");
  const isThere = (name) =>
    ["index.js", "main.js", "start/main.js"].some((file) => existsSync(join(dist(name), file)));
  const stampPath = join(dist(target), ".built-from");
  const hash = sourceHash(packages);
  const previous = existsSync(stampPath) ? readFileSync(stampPath, "utf8") : undefined;
  if (previous === hash && packages.every(isThere)) return;
  console.error(`codeQ: compiling the ${target}`);
  // Forced: the compiler's own record does not notice a changed base configuration or lost output.
  const args = ["-b", `packages/${target}`, "--force"];
  const status = runTool(node, "typescript/bin/tsc", args, { stdio: ["ignore", 2, 2] });
  if (status !== 0) fail(`the ${target} does not compile; see above`);
  mkdirSync(dirname(stampPath), { recursive: true });
  writeFileSync(stampPath, hash);
}

/** The package and all of this repository that it needs, by the names of their folders. */
export function packagesOf(target, found = []) {
  if (found.includes(target)) return found;
  found.push(target);
  const path = join(root, "packages", target, "package.json");
  const { dependencies = {} } = existsSync(path) ? JSON.parse(readFileSync(path, "utf8")) : {};
  for (const name of Object.keys(dependencies)) {
    if (name.startsWith("@codeq/")) packagesOf(name.slice("@codeq/".length), found);
  }
  return found;
}

/** Of everything that the compiler reads: sources, settings, and the versions of dependencies. */
function sourceHash(packages) {
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
