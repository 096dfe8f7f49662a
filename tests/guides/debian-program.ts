/**
 * Programs of Debian's packages that tests need: those of the system where they are installed, and else
 * taken out of the package without installing it, so that no service starts and nobody has to be root.
 */
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from "node:fs";
import { delimiter, join } from "node:path";
import type { TestContext } from "node:test";
import { promisify } from "node:util";
import { root } from "../e2e/server-process.ts";

const run = promisify(execFile);
const cache = join(root, "node_modules/.cache/debian");

/** The path of the program; undefined, with the reason told, where there is no way to get it. */
export async function debianProgram(
  t: TestContext,
  wanted: { readonly program: string; readonly package: string },
): Promise<string | undefined> {
  const folders = [...(process.env["PATH"] ?? "").split(delimiter), "/usr/sbin", "/usr/bin"];
  const extracted = join(cache, wanted.package);
  const places = [...folders, join(extracted, "usr/sbin"), join(extracted, "usr/bin")];
  const find = (): string | undefined =>
    places.map((folder) => join(folder, wanted.program)).find((path) => existsSync(path));
  const there = find();
  if (there !== undefined) return there;
  try {
    await extract(wanted.package, extracted);
  } catch (error) {
    const [why] = String((error as Error).message).split("\n");
    t.skip(`${wanted.program} is not there, and apt-get cannot fetch ${wanted.package}: ${why}`);
  }
  return find();
}

/** Beside its place and then moved there, because several tests may do it at the same time. */
async function extract(name: string, to: string): Promise<void> {
  mkdirSync(cache, { recursive: true });
  const directory = mkdtempSync(`${to}-`);
  await run("apt-get", ["download", name], { cwd: directory });
  const [file = ""] = readdirSync(directory);
  await run("dpkg-deb", ["-x", join(directory, file), join(directory, "files")]);
  if (!existsSync(to)) renameSync(join(directory, "files"), to);
  rmSync(directory, { recursive: true });
}
