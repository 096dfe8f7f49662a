/**
 * The packages as they would be published: packed by npm from a copy of the sources, so that nothing
 * that others compile or run meanwhile is touched.
 */
import { execFile } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { root } from "../e2e/server-process.ts";

const run = promisify(execFile);

/** What a new user installs; everything that these need comes along. */
const wanted = ["cli", "client"];

/** Paths of tarballs that install together. */
export async function packAll(directory: string): Promise<string[]> {
  const names = [...new Set(wanted.flatMap((name) => withDependencies(name)))];
  const copy = join(directory, "copy");
  const out = join(directory, "tarballs");
  copySources(copy, names);
  mkdirSync(out);
  const chosen = names.flatMap((name) => ["--workspace", `packages/${name}`]);
  await run("npm", ["pack", "--pack-destination", out, ...chosen], { cwd: copy });
  return readdirSync(out).map((name) => join(out, name));
}

function withDependencies(name: string, found: string[] = []): string[] {
  if (found.includes(name)) return found;
  found.push(name);
  const manifest = readFileSync(join(root, "packages", name, "package.json"), "utf8");
  const { dependencies = {} } = JSON.parse(manifest) as { dependencies?: Record<string, string> };
  for (const each of Object.keys(dependencies)) {
    if (each.startsWith("@codeq/")) withDependencies(each.slice("@codeq/".length), found);
  }
  return found;
}

const notSource = new Set(["dist", "node_modules", "LICENSE", "tsconfig.tsbuildinfo"]);

function copySources(copy: string, names: readonly string[]): void {
  mkdirSync(join(copy, "packages"), { recursive: true });
  for (const file of [
    "package.json",
    "package-lock.json",
    "tsconfig.base.json",
    "LICENSE",
    "scripts",
  ]) {
    cpSync(join(root, file), join(copy, file), { recursive: true });
  }
  const modules = join(copy, "node_modules");
  mkdirSync(join(modules, "@codeq"), { recursive: true });
  for (const name of readdirSync(join(root, "node_modules"))) {
    if (name !== "@codeq" && name !== ".package-lock.json") {
      symlinkSync(join(root, "node_modules", name), join(modules, name));
    }
  }
  for (const name of names) {
    const from = join(root, "packages", name);
    const to = join(copy, "packages", name);
    mkdirSync(to);
    for (const entry of readdirSync(from)) {
      if (!notSource.has(entry)) cpSync(join(from, entry), join(to, entry), { recursive: true });
    }
    symlinkSync(join("../../packages", name), join(modules, "@codeq", name));
  }
}
