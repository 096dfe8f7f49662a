/**
 * The first code that runs in the executable, in the process and in each of its threads. Modules are
 * assets of the executable, under URLs of a scheme of their own; everything else is loaded as Node
 * loads it. Which part of the program runs is the first argument of a process that the executable has
 * started itself, and of every thread; without such an argument it is the command line.
 */
import { createRequire, registerHooks } from "node:module";
import { getAsset } from "node:sea";
import { isMainThread } from "node:worker_threads";
import { isPart, type Part, scheme } from "./parts.ts";

/** A script of the executable or of a thread cannot import modules by itself; this one can. */
const importer = { url: `${scheme}import.cjs`, source: "module.exports = (url) => import(url);" };

registerHooks({
  resolve(specifier, context, nextResolve) {
    if (specifier === importer.url) {
      return { url: specifier, format: "commonjs", shortCircuit: true };
    }
    const isInside = context.parentURL?.startsWith(scheme) === true;
    const url = isInside ? specifier.replace(/^\.\//, scheme) : specifier;
    if (!url.startsWith(scheme)) return nextResolve(specifier, context);
    return { url, format: "module", shortCircuit: true };
  },
  load(url, context, nextLoad) {
    if (url === importer.url) {
      return { source: importer.source, format: "commonjs", shortCircuit: true };
    }
    if (!url.startsWith(scheme)) return nextLoad(url, context);
    const source = getAsset(url.slice(scheme.length), "utf8");
    return { source, format: "module", shortCircuit: true };
  },
});

/** Takes the argument away, so that the part sees the arguments that are meant for it. */
function partToRun(): Part {
  const [given = ""] = process.argv.slice(2);
  if (!isPart(given)) return "@command-line";
  process.argv.splice(2, 1);
  return given;
}

const load = createRequire(process.execPath)(importer.url) as (url: string) => Promise<unknown>;

load(`${scheme}${partToRun()}.js`).catch((error: unknown) => {
  if (!isMainThread) throw error;
  process.stderr.write(`error: ${(error as Error).stack ?? String(error)}\n`);
  process.exit(1);
});
