/**
 * Loads a module with a bug: one piece of text of one source file is replaced, and the module and everything it
 * imports from this repository is loaded again under addresses of their own. The product knows nothing of it.
 */
import assert from "node:assert/strict";
import { registerHooks } from "node:module";

export interface Mutation {
  /** The end of the path of the source file. */
  readonly file: string;
  /** Stands in the file once. */
  readonly from: string;
  readonly to: string;
}

let mutants = 0;

export async function importMutant<Module>(module: URL, mutation: Mutation): Promise<Module> {
  mutants += 1;
  const mark = `?mutant=${mutants}`;
  let isPlanted = false;
  const hooks = registerHooks({
    resolve: (specifier, context, next) => {
      const resolved = next(specifier, context);
      const isInside = context.parentURL?.endsWith(mark) === true;
      const isOurs = resolved.url.startsWith("file:") && !resolved.url.includes("/node_modules/");
      if (!isInside || !isOurs) return resolved;
      return { ...resolved, url: `${resolved.url}${mark}` };
    },
    load: (url, context, next) => {
      const loaded = next(url, context);
      if (!url.endsWith(`${mutation.file}${mark}`)) return loaded;
      const parts = String(loaded.source).split(mutation.from);
      assert.equal(parts.length, 2, `${mutation.file} has "${mutation.from}" once`);
      isPlanted = true;
      return { ...loaded, source: parts.join(mutation.to) };
    },
  });
  try {
    const loaded: Module = await import(`${module.href}${mark}`);
    assert.ok(isPlanted, `${mutation.file} is loaded`);
    return loaded;
  } finally {
    hooks.deregister();
  }
}
