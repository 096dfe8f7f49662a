/** The oldest Node that the packages support, as a package of npm that is kept outside of the checkout. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { toolCache } from "../tool-cache.ts";

const version = "22.18.0";

/** The folder of its program, or why there is none. */
export function oldestNode(): { readonly path: string } | { readonly missing: string } {
  const name = `node-linux-${process.arch}`;
  const directory = join(toolCache, `node-${version}`);
  const path = join(directory, "node_modules", name, "bin");
  if (!existsSync(path)) {
    mkdirSync(directory, { recursive: true });
    const quiet = ["--no-audit", "--no-fund", "--no-save", "--ignore-scripts"];
    spawnSync("npm", ["install", "--prefix", directory, ...quiet, `${name}@${version}`]);
  }
  const { stdout } = spawnSync(join(path, "node"), ["--version"], { encoding: "utf8" });
  if (stdout?.trim() === `v${version}`) return { path };
  return { missing: `npm has no Node ${version} for this system` };
}
