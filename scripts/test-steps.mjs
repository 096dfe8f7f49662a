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
export const isTests = ({ args }) =>
  args.includes("--test") || args.includes("tests/run-together.ts");
const testsTogether = (...files) => ["--conditions=source", "tests/run-together.ts", ...files];
const folder = (name, more = {}) => ({
  name,
  args: tests(`tests/${name}/**/*.test.ts`),
  isAlone: false,
  ...more,
});
/** One test of a file; a run that matches no test fails. */
const oneCase = (file, name) => tests(`--test-name-pattern=${name}`, file);

/**
 * Each is a run of Node. One that measures the memory of a process runs alone, after all others; one that needs
 * another waits for it if both were chosen. `brief` says what `npm test` runs: the whole step (true) or these
 * arguments instead; `npm test` leaves out a step without it.
 */
export const steps = [
  {
    name: "lint",
    args: tool("@biomejs/biome/bin/biome", "check", "--error-on-warnings"),
    isAlone: false,
    brief: true,
  },
  { name: "types", args: tool("typescript/bin/tsc", "-b"), isAlone: false, brief: true },
  {
    name: "knip",
    args: tool("knip/bin/knip.js", "--config", "scripts/knip.json"),
    isAlone: false,
    brief: true,
  },
  {
    name: "unit",
    args: testsTogether(
      "packages/*/src/**/*.test.ts",
      "scripts/*.test.{mjs,ts}",
      "tests/tidy/*.test.ts",
      "tests/bench/*.test.ts",
      "tests/chaos/*.test.ts",
      "examples/*/*.test.ts",
    ),
    isAlone: false,
    brief: true,
  },
  {
    name: "tools",
    args: ["--conditions=source", "tests/prepare-tools.ts"],
    isAlone: false,
    // It packs what the step `types` compiles.
    needs: "types",
    brief: ["--conditions=source", "tests/prepare-tools.ts", "etcd", "postgres", "packed packages"],
  },
  // The longest of the others first, so that no lane is left with one of them at the end.
  folder("cluster", {
    needs: "tools",
    brief: oneCase("tests/cluster/failover.test.ts", "goes on when a whole machine is gone"),
  }),
  folder("api", { needs: "tools" }),
  folder("e2e", {
    args: tests("tests/e2e/!(bench).test.ts"),
    needs: "tools",
    brief: oneCase("tests/e2e/life.test.ts", "SIGTERM under load"),
  }),
  folder("cli", {
    needs: "tools",
    brief: oneCase("tests/cli/tasks.test.ts", "a task goes in, is done by a command"),
  }),
  folder("console", {
    brief: oneCase("tests/console/first-look.test.ts", "a queue is paused with a reason"),
  }),
  folder("outbox", {
    needs: "tools",
    brief: tests(
      "--test-name-pattern=task exists when|commits late|are killed",
      "tests/outbox/{relay,campaign}.test.ts",
    ),
  }),
  folder("crash", {
    brief: oneCase("tests/crash/kill.test.ts", "when durability is fsync$"),
  }),
  folder("guides", {
    needs: "tools",
    brief: oneCase("tests/guides/scripts.test.ts", "the commands of README.md"),
  }),
  folder("client", {
    needs: "tools",
    brief: tests("tests/client/{round-trip,tarball,transports}.test.ts"),
  }),
  folder("conformance", { needs: "tools" }),
  folder("clients", { needs: "tools" }),
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
  folder("contract", { args: testsTogether("tests/contract/!(access).test.ts"), brief: true }),
  folder("grpc", { args: testsTogether("tests/grpc/*.test.ts"), brief: true }),
  folder("install", { needs: "tools" }),
  folder("simulation", {
    brief: oneCase("tests/simulation/simulation.test.ts", "seed|durability"),
  }),
  folder("connections", {
    brief: oneCase("tests/connections/plain-requests.test.ts", "replies are the same"),
  }),
  { name: "access", args: testsTogether("tests/contract/access.test.ts"), isAlone: false },
  folder("damage", {
    brief: oneCase("tests/damage/salvage.test.ts", "all that can be read"),
  }),
  // That benchmarks run and what they print, not how fast anything is.
  { name: "bench", args: tests("tests/e2e/bench.test.ts"), isAlone: false },
  folder("memory", {
    args: tests("--test-concurrency=1", "tests/memory/*.test.ts"),
    isAlone: true,
  }),
];

/** The same step with its tests in the random order that the seed gives; one without tests as it is. */
export function inRandomOrder(step, seed) {
  const at = step.args.indexOf("--test");
  if (at === -1) return { ...step, env: { ...step.env, CODEQ_TEST_SEED: `${seed}` } };
  const order = ["--test-randomize", `--test-random-seed=${seed}`];
  return { ...step, args: [...step.args.slice(0, at), ...order, ...step.args.slice(at)] };
}

/** The steps of `npm test`, which takes minutes; `npm run check` runs all. */
export const briefSteps = steps
  .filter(({ brief }) => brief !== undefined)
  .map((step) => (step.brief === true ? step : { ...step, args: step.brief, isPart: true }));

/** What `npm test` did not run, in a sentence for the reader. */
export function leftOut() {
  const names = (chosen) => chosen.map(({ name }) => name).join(", ");
  return (
    `npm test ran one case of each of ${names(briefSteps.filter(({ isPart }) => isPart))}, ` +
    `and left out ${names(steps.filter(({ brief }) => brief === undefined))}; ` +
    "npm run check runs everything, and npm test -- <step> one step as a whole"
  );
}

/**
 * The steps for these arguments: names of steps, parts of such names, files of tests, folders. All steps
 * without arguments. Returns `{ problem }` for a word that means nothing.
 */
export function chooseSteps(words, directory = process.cwd()) {
  if (words.length === 0) return { steps };
  const chosen = [];
  for (const word of words) {
    const exact = steps.filter(({ name }) => name === word);
    const named = exact.length > 0 ? exact : steps.filter(({ name }) => name.includes(word));
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

/** How many tests passed, failed and were skipped, in the output of a run of tests; undefined for another step. */
export function countsIn(output) {
  const count = (word) => Number(output.match(new RegExp(`^ℹ ${word} (\\d+)$`, "m"))?.[1] ?? 0);
  if (!/^ℹ tests \d+$/m.test(output)) return undefined;
  return { passed: count("pass"), failed: count("fail"), skipped: count("skipped") };
}

/** The tests that ended in a piece of output. */
export function endedIn(output) {
  return output.match(/^\s*[✔✖﹣] /gmu)?.length ?? 0;
}

/**
 * What a run of tests says about those that failed, so that it can be repeated at the very end, below the
 * output of other steps. Empty for a step that is not a run of tests.
 */
export function failuresIn(output, linesMax = 120) {
  const at = output.lastIndexOf("✖ failing tests:");
  return at === -1 ? [] : output.slice(at).trimEnd().split("\n").slice(0, linesMax);
}

/** What is said about each test that failed in a run of tests, by its file and name. */
export function redTestsIn(output) {
  const parts = output
    .split(/^\s*test at /m)
    .slice(1)
    .reverse();
  const found = parts.map((part) => /^(.+?):\d+:\d+\n\s*✖ (.+) \([\d.]+ms\)\n([\s\S]*)/.exec(part));
  return new Map(
    found.filter(Boolean).map(([, file, name, text]) => [`${file}: ${name}`, text.trimEnd()]),
  );
}

/**
 * Runs steps side by side in lanes, and those that want to be alone one by one afterwards. `run` returns
 * a promise of whether a step passed. After a failure no step is started, unless the run keeps going. Resolves
 * with true when all have passed.
 */
export async function runSteps(chosen, { lanes, run, keepsGoing = false }) {
  let allPassed = true;
  const isOver = () => !allPassed && !keepsGoing;
  const running = new Map();
  const takeNext = (waiting) => {
    const isToCome = (needed) => running.has(needed) || waiting.some(({ name }) => name === needed);
    const free = waiting.findIndex(({ needs }) => !isToCome(needs));
    return waiting.splice(Math.max(free, 0), 1)[0];
  };
  const runNext = async (waiting) => {
    while (!isOver() && waiting.length > 0) {
      const step = takeNext(waiting);
      const needed = running.get(step.needs);
      const passed = needed?.then(() => isOver() || run(step)) ?? run(step);
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
