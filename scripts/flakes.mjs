/**
 * `npm run flakes -- [step or file]... [--times N] [--load] [--seed S]` runs tests N times (10), each time in another random
 * order, and reports each test that was not always green, with what its first failure left. `--load` keeps both cores and
 * the disk busy meanwhile. `--seed` repeats the order of a round. Plain JavaScript for Node 18 and later.
 */
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmdirSync } from "node:fs";
import { cpus } from "node:os";
import { join, relative } from "node:path";
import { parseArgs } from "node:util";
import { ensureReady, fail, root } from "./ensure-ready.mjs";
import { startLoad } from "./load.mjs";
import { chooseSteps, isTests, redTestsIn, runSteps } from "./test-steps.mjs";

const lanesMax = 3;
const shownLines = 20;
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    times: { type: "string", default: "10" },
    seed: { type: "string", default: `${Math.floor(Math.random() * 1_000_000)}` },
    load: { type: "boolean", default: false },
  },
});
const [times, firstSeed] = [Number(values.times), Number(values.seed)];
if (!(times >= 1) || !(firstSeed >= 0)) fail("--times and --seed are numbers");
const { steps = [], problem } = chooseSteps(positionals);
if (problem !== undefined) fail(problem);
const chosen = steps.filter((step) => positionals.length > 0 || isTests(step));
// The steps run side by side, and each would install missing packages.
ensureReady();

mkdirSync(join(root, "test-results"), { recursive: true });
const folder = mkdtempSync(join(root, "test-results/flakes-"));
const stopLoad = values.load ? startLoad(folder) : () => {};
const children = new Set();
/** Tests that were red, with the runs in which they were. */
const red = new Map();
let runs = 0;
let redRuns = 0;

for (const signal of ["SIGINT", "SIGTERM"]) {
  process.once(signal, () => {
    for (const child of children) child.kill(signal);
    stopLoad();
    report();
    process.exit(1);
  });
}
for (let round = 1; round <= times; round += 1) {
  const seed = firstSeed + round - 1;
  console.log(`-- round ${round} of ${times}, seed ${seed}`);
  const lanes = Math.min(lanesMax, cpus().length + 1, chosen.length);
  await runSteps(chosen, { lanes, run: (step) => runOnce(step, round, seed) });
}
stopLoad();
report();
process.exitCode = red.size > 0 ? 1 : 0;

/** Resolves with true also after a failure, so that the other steps run. */
function runOnce({ name }, round, seed) {
  const label = name.replaceAll("/", "-");
  const parent = join(folder, `${round}-${label}`);
  const args = [join(root, "scripts/test.mjs"), `--seed=${seed}`, `--results=${parent}`, name];
  const child = spawn(process.execPath, args, {
    cwd: root,
    stdio: ["ignore", "pipe", "inherit"],
  });
  children.add(child);
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text) => {
    output += text;
  });
  return new Promise((resolve) => {
    child.once("close", (code) => {
      children.delete(child);
      runs += 1;
      if (code !== 0) note({ name, seed, results: join(parent, label) }, redTestsIn(output));
      console.log(`   ${output.trimEnd().split("\n").slice(-2).join("; ")}`);
      resolve(true);
    });
  });
}

/** A step that failed without a red test is reported by its name. */
function note(run, tests) {
  redRuns += 1;
  const found = tests.size > 0 ? tests : new Map([[`the step ${run.name}`, ""]]);
  for (const [test, text] of found) {
    red.set(test, [...(red.get(test) ?? []), { ...run, text }]);
    console.log(`   RED: ${test}`);
  }
}

function report() {
  for (const [test, [first, ...more]] of red) {
    const seeds = [first, ...more].map(({ seed }) => seed).join(", ");
    console.log(`${test}\n  red in ${more.length + 1} of ${times} rounds, with seed ${seeds}`);
    console.log(first.text.split("\n").slice(0, shownLines).join("\n"));
    console.log(`  logs and pictures of the first time: ${relative(process.cwd(), first.results)}`);
  }
  if (red.size === 0) removeIfEmpty(folder);
  console.log(`${runs} runs, ${redRuns} red; ${red.size} tests were not always green`);
}

function removeIfEmpty(path) {
  try {
    rmdirSync(path);
  } catch {
    // A run was stopped before its end.
  }
}
