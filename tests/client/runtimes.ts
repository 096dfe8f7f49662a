/** Programs from npm that only tests of the client need, in the user's cache folder. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { toolCache } from "../tool-cache.ts";

export const runtimes = {
  workerd: { version: "1.20261110.1", file: "@cloudflare/workerd-linux-64/bin/workerd" },
  bun: { version: "1.4.4", file: "@oven/bun-linux-x64/bin/bun" },
  deno: { version: "2.9.6", file: "@deno/linux-x64-glibc/deno" },
} as const;

export type RuntimeName = keyof typeof runtimes;

/** The program, or why there is none. */
export function runtime(
  name: RuntimeName,
): { readonly path: string } | { readonly missing: string } {
  const { version, file } = runtimes[name];
  if (process.platform !== "linux" || process.arch !== "x64") {
    return { missing: "the tests know it on Linux on x64 only" };
  }
  const got = fromNpm(file.replace(/^(@[^/]+\/[^/]+)\/.*$/, "$1"), version);
  return "missing" in got ? got : { path: join(got.path, file) };
}

/** The `node_modules` with this package and what it needs, or why there is none. */
export function fromNpm(
  name: string,
  version: string,
): { readonly path: string } | { readonly missing: string } {
  const kept = join(toolCache, `npm-${name.replaceAll("/", "-")}-${version}`);
  const path = join(kept, "node_modules");
  if (!existsSync(join(path, name))) install(name, version, kept);
  return existsSync(join(path, name)) ? { path } : { missing: `npm does not get ${name}` };
}

function install(name: string, version: string, kept: string): void {
  mkdirSync(toolCache, { recursive: true });
  const cwd = mkdtempSync(join(toolCache, "runtime-"));
  try {
    const manifest = { name: "runtime-of-tests", private: true, dependencies: { [name]: version } };
    writeFileSync(join(cwd, "package.json"), JSON.stringify(manifest));
    const words = ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"];
    if (spawnSync("npm", words, { cwd, stdio: "ignore" }).status !== 0) return;
    // At once, because several tests may do it at the same time.
    if (!existsSync(kept)) renameSync(cwd, kept);
  } finally {
    rmSync(cwd, { recursive: true, force: true });
  }
}
