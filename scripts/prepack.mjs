/**
 * Runs before npm packs one of the packages, in its folder: compiles it from scratch, so that no file
 * of an earlier version stays in it, and adds the licence.
 */
import { copyFileSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import { fail, root, runTool } from "./ensure-ready.mjs";

const folder = process.cwd();
const name = basename(folder);
// With its own record the compiler would not notice that the output is gone.
for (const made of ["dist", "tsconfig.tsbuildinfo"]) {
  rmSync(join(folder, made), { recursive: true, force: true });
}
const args = ["-b", `packages/${name}`];
const status = runTool(process.execPath, "typescript/bin/tsc", args, { stdio: ["ignore", 2, 2] });
if (status !== 0) fail(`the ${name} does not compile; see above`);
copyFileSync(join(root, "LICENSE"), join(folder, "LICENSE"));
