/**
 * Keeps two cores and the disk busy while tests run: two processes that compute, and one that writes and syncs a file. Each ends
 * with the process that started it, however that one ends. Plain JavaScript for Node 18 and later.
 */
import { spawn } from "node:child_process";
import { rmSync } from "node:fs";
import { join } from "node:path";

const whileParentLives = `const parent = process.ppid; while (process.ppid === parent)`;
const computes = `${whileParentLives} for (let n = 0; n < 1e6; n += 1);`;
const syncs = `
const { fsyncSync, openSync, writeSync } = require("node:fs");
const file = openSync(process.argv[1], "w");
const block = Buffer.alloc(65536);
${whileParentLives} {
  writeSync(file, block, 0, block.length, 0);
  fsyncSync(file);
}`;

/** Returns what ends it. */
export function startLoad(folder) {
  const file = join(folder, "synced");
  const children = [[computes], [computes], [syncs, file]].map((args) =>
    spawn(process.execPath, ["--eval", ...args], { stdio: "ignore" }),
  );
  return () => {
    for (const child of children) child.kill("SIGKILL");
    rmSync(file, { force: true });
  };
}
