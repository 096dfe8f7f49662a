/**
 * `npm run lock`: writes the hashes that package-lock.json lacks. npm leaves out those of packages for
 * other platforms when the registry at hand does not have them; run it where the registry does.
 */
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "./ensure-ready.mjs";

/** Packages without a hash. */
export function lockGaps(lock) {
  return Object.entries(lock.packages)
    .filter(([path, { link }]) => path.startsWith("node_modules/") && link !== true)
    .filter(([, { integrity }]) => integrity === undefined)
    .map(([path, each]) => ({
      ...each,
      path,
      name: path.slice(path.lastIndexOf("node_modules/") + 13),
    }));
}

function hashOf({ name, version }) {
  const words = ["view", `${name}@${version}`, "dist.integrity"];
  const { status, stdout } = spawnSync("npm", words, { encoding: "utf8" });
  const hash = stdout?.trim() ?? "";
  return status === 0 && hash.startsWith("sha512-") ? hash : undefined;
}

if (process.argv[1] === import.meta.filename) {
  const path = join(root, "package-lock.json");
  const lock = JSON.parse(readFileSync(path, "utf8"));
  const missing = [];
  for (const gap of lockGaps(lock)) {
    const integrity = hashOf(gap);
    if (integrity === undefined) missing.push(gap.name);
    else lock.packages[gap.path] = { ...lock.packages[gap.path], integrity };
  }
  writeFileSync(path, `${JSON.stringify(lock, undefined, 2)}\n`);
  for (const name of missing) console.error(`error: the registry does not have ${name}`);
  process.exitCode = missing.length === 0 ? 0 : 1;
}
