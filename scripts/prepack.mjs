/**
 * Runs before npm packs one of the packages, in its folder: compiles it from scratch, so that no file
 * of an earlier version stays in it, and adds the licence.
 */
import { copyFileSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import { buildPackage } from "./build.mjs";
import { root } from "./ensure-ready.mjs";

const folder = process.cwd();
rmSync(join(folder, "dist"), { recursive: true, force: true });
buildPackage(process.execPath, basename(folder));
copyFileSync(join(root, "LICENSE"), join(folder, "LICENSE"));
