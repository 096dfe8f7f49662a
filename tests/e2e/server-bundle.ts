/**
 * The server and its threads in one file each, bundled from the sources as they are now: a process starts
 * with little more than half of the CPU time that some hundred modules need.
 */
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join, relative } from "node:path";
import { build } from "esbuild";
import { bundling, placed, requireFrom } from "../../scripts/bundling.ts";

const root = join(import.meta.dirname, "../..");
const cache = join(root, "node_modules/.cache/bundles");
const currentFile = join(cache, "current.json");
/** Servers of other tests may still start threads from a bundle that is not the current one. */
const keptMs = 3_600_000;

const main = "packages/server/src/start/main.ts";
const threads = [
  "packages/server/src/start/shards/shard-thread.ts",
  "packages/engine/src/kv/check-tables-thread.ts",
];

/** These sources look for a thread beside themselves, all others for files of their package. */
const starters = /\/(shard-threads|check-tables)\.ts$/;

/** A folder, and the files that its bundles were made from, with their states. */
interface Current {
  readonly directory: string;
  readonly inputs: Readonly<Record<string, string>>;
}

/** Changes whenever the file does. */
function stateOf(path: string): string {
  const { mtimeMs, size } = statSync(join(root, path), { throwIfNoEntry: false }) ?? {};
  return `${mtimeMs} ${size}`;
}

function readCurrent(): Current | undefined {
  try {
    const current: Current = JSON.parse(readFileSync(currentFile, "utf8"));
    const isUpToDate = Object.entries(current.inputs).every(
      ([path, state]) => stateOf(path) === state,
    );
    return isUpToDate ? current : undefined;
  } catch {
    return undefined;
  }
}

const bundled = (directory: string, source: string): string =>
  join(directory, source.replace(/\.ts$/, ".js"));

/** Several processes may build at once, each in a folder of its own. */
async function buildAll(): Promise<Current> {
  mkdirSync(cache, { recursive: true });
  removeOld();
  const startedMs = Date.now();
  const directory = mkdtempSync(join(cache, "built-"));
  const placeOf = (path: string): string =>
    starters.test(path) ? bundled(directory, relative(root, path)) : path;
  const { metafile } = await build({
    ...bundling,
    entryPoints: [main, ...threads],
    outdir: directory,
    outbase: root,
    metafile: true,
    format: "esm",
    external: ["classic-level"],
    banner: { js: requireFrom("import.meta.url") },
    plugins: [placed(placeOf)],
  });
  writeFileSync(join(directory, "package.json"), '{ "type": "module" }');
  const inputs = [...others(), ...Object.keys(metafile.inputs)].map((path) => {
    const state = stateOf(path);
    return [path, Number.parseFloat(state) >= startedMs ? "just changed" : state];
  });
  const current = { directory, inputs: Object.fromEntries(inputs) };
  writeFileSync(join(directory, "current.json"), JSON.stringify(current));
  renameSync(join(directory, "current.json"), currentFile);
  return current;
}

/** What else decides about the bundle. */
function others(): string[] {
  const manifests = readdirSync(join(root, "packages")).map(
    (name) => `packages/${name}/package.json`,
  );
  return ["tests/e2e/server-bundle.ts", "scripts/bundling.ts", "package-lock.json", ...manifests];
}

function removeOld(): void {
  for (const name of readdirSync(cache)) {
    const path = join(cache, name);
    if (Date.now() - statSync(path).mtimeMs > keptMs)
      rmSync(path, { recursive: true, force: true });
  }
}

const { directory } = readCurrent() ?? (await buildAll());

export const serverMain: string = bundled(directory, main);
