/**
 * The packages as tarballs, and the executable, built once for each state of the sources and kept in
 * `node_modules/.cache`. Tests whose subject is the building itself do it themselves.
 */
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
} from "node:fs";
import { join } from "node:path";
import { buildExecutable } from "../scripts/build-executable.ts";
import { packPackage, publishedFolders } from "../scripts/package-tarball.ts";
import { root } from "./e2e/server-process.ts";

const cache = join(root, "node_modules/.cache/built-once");

/** As the repository of the packages in the cache says. */
export const repository = "git+https://git.example.com/codeq/codeq.git";

/** A folder with a tarball of each published package and nothing else. */
export function packedPackages(): Promise<string> {
  return once("tarballs", (out) => {
    for (const folder of publishedFolders) packPackage(folder, out, { repository });
  });
}

/** The tarball of one package in the folder of all. */
export function tarballIn(packed: string, folder: string): string {
  const name = readdirSync(packed).find((each) => each.startsWith(`codeq-${folder}-`));
  if (name === undefined) throw new Error(`${folder} was not packed`);
  return join(packed, name);
}

/** The path of the executable. */
export async function builtExecutable(): Promise<string> {
  return join(await once("executable", buildExecutable), "codeq");
}

/** The folder of what was made from the sources that there are now. */
async function once(kind: string, make: (out: string) => unknown): Promise<string> {
  const name = `${kind}-${sourceHash()}`;
  const kept = join(cache, name);
  if (existsSync(kept)) return kept;
  mkdirSync(cache, { recursive: true });
  const scratch = mkdtempSync(join(cache, "making-"));
  try {
    await make(scratch);
    // Sources that changed meanwhile may be part of it.
    if (`${kind}-${sourceHash()}` !== name) return await once(kind, make);
    const isOld = (each: string): boolean => each.startsWith(`${kind}-`) && each !== name;
    for (const old of readdirSync(cache).filter(isOld)) {
      rmSync(join(cache, old), { recursive: true, force: true });
    }
    renameSync(scratch, kept);
  } catch (error) {
    // Another process has made the same at the same time.
    if (!existsSync(kept)) throw error;
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
  return kept;
}

/** Of everything that the packages and the executable are made of. */
function sourceHash(): string {
  const hash = createHash("sha256").update(process.version);
  const files = ["package-lock.json", "tsconfig.base.json", "README.md", "LICENSE"];
  for (const file of [...files, ...under("packages"), ...under("scripts")].sort()) {
    hash
      .update(`${file}\0`)
      .update(readFileSync(join(root, file)))
      .update("\0");
  }
  return hash.digest("hex").slice(0, 16);
}

/** Without what is installed or built. */
function under(directory: string): string[] {
  const entries = readdirSync(join(root, directory), { withFileTypes: true });
  return entries.flatMap((entry) => {
    const path = `${directory}/${entry.name}`;
    if (entry.isDirectory()) return isBuilt(path) ? [] : under(path);
    return /\.test\.\w+$|\.tsbuildinfo$/.test(path) ? [] : [path];
  });
}

function isBuilt(path: string): boolean {
  return /\/(node_modules|dist)$/.test(path) || path === "packages/server/console";
}
