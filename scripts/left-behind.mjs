/**
 * What a run of tests leaves behind: its folder for temporary files, file systems that are mounted there, and processes that
 * use the folder. As a program, `node left-behind.mjs <folder>` removes all of them when its input ends, which it does
 * however the run ends, also by SIGKILL. Processes and mounts are found on Linux only. Plain JavaScript for Node 18 and later.
 */
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** The processes that were started with the path of the folder in their environment, as only those of the run are. */
export function processesOf(folder) {
  return numbersIn("/proc")
    .filter((pid) => textOf(pid, "environ").includes(folder))
    .map((pid) => ({ pid, command: textOf(pid, "cmdline").replaceAll("\0", " ").trim() }));
}

export function removeAll(folder) {
  // A process may have started another one while the list was made.
  while (processesOf(folder).map(kill).includes(true)) wait();
  for (const path of mountsBelow(folder)) spawnSync("umount", ["--lazy", path]);
  // A process that has just been killed may still write.
  rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
}

function mountsBelow(folder) {
  const mounts = textOf("self", "mounts").split("\n");
  return mounts.map((line) => line.split(" ")[1]).filter((path) => path?.startsWith(`${folder}/`));
}

function numbersIn(folder) {
  try {
    return readdirSync(folder).map(Number).filter(Boolean);
  } catch {
    // Not Linux.
    return [];
  }
}

function textOf(pid, file) {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "utf8");
  } catch {
    // The process has ended, or belongs to somebody else.
    return "";
  }
}

function kill({ pid }) {
  try {
    return process.kill(pid, "SIGKILL");
  } catch {
    // The process has ended, or belongs to somebody else.
    return false;
  }
}

/** Until killed processes are gone. */
function wait() {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  process.stdin.resume().once("end", () => removeAll(process.argv[2]));
}
