/** Packages from npm that tests and benchmarks use and a checkout does not bring, in the user's cache folder. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { toolCache } from "./tool-cache.ts";

export interface WantedPackages {
  /** With a version: another version is another folder. */
  readonly name: string;
  readonly dependencies: Readonly<Record<string, string>>;
  /** What else the folder needs; false when that fails. */
  readonly prepare?: (folder: string) => boolean;
}

/** The folder with the packages, or why there is none. */
export function npmPackages(
  wanted: WantedPackages,
): { readonly path: string } | { readonly missing: string } {
  const kept = join(toolCache, wanted.name);
  if (!existsSync(kept)) install(kept, wanted);
  return existsSync(kept) ? { path: kept } : { missing: `npm does not get ${wanted.name}` };
}

function install(kept: string, { name, dependencies, prepare }: WantedPackages): void {
  mkdirSync(toolCache, { recursive: true });
  const cwd = mkdtempSync(join(toolCache, "npm-"));
  try {
    const manifest = { name: `${name}-of-tests`, private: true, dependencies };
    writeFileSync(join(cwd, "package.json"), JSON.stringify(manifest));
    const words = ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"];
    if (spawnSync("npm", words, { cwd, stdio: "ignore" }).status !== 0) return;
    if (prepare?.(cwd) === false) return;
    // At once, because several tests may do it at the same time.
    if (!existsSync(kept)) renameSync(cwd, kept);
  } finally {
    rmSync(cwd, { recursive: true, force: true });
  }
}
