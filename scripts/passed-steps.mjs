/**
 * Remembers which steps passed as a whole with which sources, so that `npm run check -- --rest` does not repeat
 * them. Plain JavaScript for Node 18 and later.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { root } from "./ensure-ready.mjs";

const record = join(root, "node_modules/.cache/passed-steps.json");

/** Names the state of all files that git does not ignore; undefined without git. */
export function sourcesId(directory = root) {
  const index = join(directory, "node_modules/.cache/sources-index");
  const git = (...args) =>
    spawnSync("git", args, {
      cwd: directory,
      encoding: "utf8",
      env: { ...process.env, GIT_INDEX_FILE: index },
    });
  mkdirSync(dirname(index), { recursive: true });
  rmSync(index, { force: true });
  if (git("add", "--all").status !== 0) return undefined;
  const { status, stdout } = git("write-tree");
  return status === 0 ? stdout.trim() : undefined;
}

export function rememberPassed(sources, steps) {
  writeFileSync(record, JSON.stringify({ sources, steps: steps.map(({ name }) => name) }));
}

/** The names of the steps that passed with the same sources. */
export function passedBefore(sources) {
  try {
    const kept = JSON.parse(readFileSync(record, "utf8"));
    return sources !== undefined && kept.sources === sources ? kept.steps : [];
  } catch {
    // No run has passed here yet.
    return [];
  }
}
