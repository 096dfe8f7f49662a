/** The parts of the executable: what can be run in a process or in a thread, and from which source. */
export const parts = {
  "@command-line": "packages/cli/src/main.ts",
  "@server": "packages/server/src/start/main.ts",
  "@shard": "packages/server/src/start/shards/shard-thread.ts",
  "@check-tables": "packages/engine/src/kv/check-tables-thread.ts",
  "@health": "scripts/in-executable/health-check.ts",
} as const;

export type Part = keyof typeof parts;

export function isPart(word: string): word is Part {
  return Object.hasOwn(parts, word);
}

/** The part whose source this is. */
export function partOf(path: string): Part | undefined {
  return Object.keys(parts)
    .filter(isPart)
    .find((part) => path.endsWith(`/${parts[part]}`));
}

/** URLs of modules in the executable begin with this. */
export const scheme = "codeq:";

/** Where the sources seem to be: their own URLs are built from it. */
export const sourceRoot = "/codeq-executable";
