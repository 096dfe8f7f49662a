/**
 * The steps of `npm test`, which of them the arguments ask for, and the order in which they run. Plain
 * JavaScript for Node 18 and later.
 */
import { existsSync, statSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { root } from "./ensure-ready.mjs";

const tool = (script, ...args) => [join(root, "node_modules", script), ...args];
/** A test or file that takes longer hangs; without a limit nobody would learn which one. */
const hangMs = 900_000;
const tests = (...args) => ["--conditions=source", "--test", `--test-timeout=${hangMs}`, ...args];
const testsTogether = (...files) => ["--conditions=source", "tests/run-together.ts", ...files];
const folder = (name, more = {}) => ({
  name,
  args: tests(`tests/${name}/**/*.test.ts`),
  isAlone: false,
  ...more,
});

/**
 * Each is a run of Node. One that measures the memory of a process runs alone, after all others; one that needs
 * another waits for it if both were chosen.
 */
export const steps = [
  {
    name: "lint",
    args: tool("@biomejs/biome/bin/biome", "check", "--error-on-warnings"),
    isAlone: false,
  },
  { name: "types", args: tool("typescript/bin/tsc", "-b"), isAlone: false },
  {
    name: "knip",
    args: tool("knip/bin/knip.js", "--config", "scripts/knip.json"),
    isAlone: false,
  },
  {
    name: "unit",
    args: testsTogether(
      "packages/*/{src,test}/**/*.test.ts",
      "scripts/*.test.{mjs,ts}",
      "tests/tidy/*.test.ts",
      "tests/bench/*.test.ts",
      "tests/chaos/*.test.ts",
      "examples/*/*.test.ts",
    ),
    isAlone: false,
  },
  {
    name: "tools",
    args: ["--conditions=source", "tests/prepare-tools.ts"],
    isAlone: false,
    // It packs what the step `types` compiles.
    needs: "types",
  },
  // The longest of the others first, so that no lane is left with one of them at the end.
  folder("cluster", { needs: "tools" }),
  folder("e2e", { args: tests("tests/e2e/!(bench).test.ts"), needs: "tools" }),
  folder("cli", { needs: "tools" }),
  folder("console"),
  folder("crash"),
  folder("guides", { needs: "tools" }),
  folder("client", { needs: "tools" }),
  {
    name: "shards",
    env: { CODEQ_TEST_SHARDS: "3" },
    args: testsTogether(
      // Who may do what, how often, and how requests are read does not depend on the number of shards.
      "tests/contract/!(access|api-pages|audit|bad-input|cluster|console-sessions|conventions|fuzz|identity-server|process|rate-limits).test.ts",
      "tests/grpc/{additions,outcomes,quotas}.test.ts",
    ),
    isAlone: false,
  },
  folder("contract", { args: testsTogether("tests/contract/!(access).test.ts") }),
  folder("grpc", { args: testsTogether("tests/grpc/*.test.ts") }),
  folder("install", { needs: "tools" }),
  folder("simulation"),
  folder("api", { needs: "tools" }),
  folder("connections"),
  { name: "access", args: testsTogether("tests/contract/access.test.ts"), isAlone: false },
  folder("damage"),
  // That benchmarks run and what they print, not how fast anything is.
  { name: "bench", args: tests("tests/e2e/bench.test.ts"), isAlone: false },
  folder("memory", {
    args: tests("--test-concurrency=1", "tests/memory/*.test.ts"),
    isAlone: true,
  }),
];

/**
 * The steps for these arguments: names of steps or parts of names, files of tests, folders. All steps
 * without arguments. Returns `{ problem }` for a word that means nothing.
 */
export function chooseSteps(words, directory = process.cwd()) {
  if (words.length === 0) return { steps };
  const chosen = [];
  for (const word of words) {
    const named = steps.filter(({ name }) => name.includes(word));
    const path = resolve(directory, word);
    if (named.length > 0) chosen.push(...named.filter((step) => !chosen.includes(step)));
    else if (existsSync(path)) chosen.push(pathStep(path));
    else {
      const names = steps.map(({ name }) => name).join(", ");
      return { problem: `${word} is neither a step nor a file; the steps are ${names}` };
    }
  }
  return { steps: steps.filter((step) => chosen.includes(step)).concat(chosen.filter(isPath)) };
}

const isPath = (step) => !steps.includes(step);

function pathStep(path) {
  const name = relative(root, path);
  const pattern = statSync(path).isDirectory() ? join(name, "**/*.test.{mjs,ts}") : name;
  return { name, args: tests(pattern), isAlone: false };
}

/**
 * What a run of tests says about those that failed, so that it can be repeated at the very end, below the
 * output of other steps. Empty for a step that is not a run of tests.
 */
export function failuresIn(output, linesMax = 120) {
  const at = output.lastIndexOf("✖ failing tests:");
  return at === -1 ? [] : output.slice(at).trimEnd().split("\n").slice(0, linesMax);
}

/**
 * Runs steps side by side in lanes, and those that want to be alone one by one afterwards. `run` returns
 * a promise of whether a step passed. After a failure no step is started. Resolves with true when all
 * have passed.
 */
export async function runSteps(chosen, { lanes, run }) {
  let allPassed = true;
  const running = new Map();
  const takeNext = (waiting) => {
    const isToCome = (needed) => running.has(needed) || waiting.some(({ name }) => name === needed);
    const free = waiting.findIndex(({ needs }) => !isToCome(needs));
    return waiting.splice(Math.max(free, 0), 1)[0];
  };
  const runNext = async (waiting) => {
    while (allPassed && waiting.length > 0) {
      const step = takeNext(waiting);
      const needed = running.get(step.needs);
      const passed = needed?.then(() => !allPassed || run(step)) ?? run(step);
      running.set(step.name, passed);
      if (!(await passed)) allPassed = false;
      running.delete(step.name);
    }
  };
  const shared = chosen.filter(({ isAlone }) => !isAlone);
  await Promise.all(Array.from({ length: lanes }, () => runNext(shared)));
  await runNext(chosen.filter(({ isAlone }) => isAlone));
  return allPassed;
}
