/**
 * `npm test` (the flag --brief) runs the checks that a person wants before and after a change, in minutes;
 * `npm run check` runs every check of the repository. Steps run side by side, cheapest first; none is started after
 * one has failed. `npm test -- unit crash` runs these steps, `npm test -- tests/e2e/life.test.ts` this file,
 * `npm run check -- --rest` what the last `npm test` of the same sources left out, and `--long crash` the long form
 * of a step. `--keep-going` runs all steps although one has failed, `--seed=7` runs tests in a random order,
 * `--results=<folder>` says where failures leave their logs. Plain JavaScript for Node 18 and later.
 */
import { spawn } from "node:child_process";
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join, relative } from "node:path";
import { childEnvironment, ensureReady, fail, root } from "./ensure-ready.mjs";
import { processesOf, removeAll } from "./left-behind.mjs";
import { passedBefore, rememberPassed, sourcesId } from "./passed-steps.mjs";
import {
  briefSteps,
  chooseSteps,
  countsIn,
  endedIn,
  failuresIn,
  inRandomOrder,
  leftOut,
  runSteps,
} from "./test-steps.mjs";

/** One step more than there are CPUs: many tests wait for disks, timers and other processes. */
const lanesMax = 3;
const progressMs = 15_000;

const flags = ["--long", "--brief", "--rest", "--keep-going"];
const words = process.argv.slice(2);
const [isLong, isBrief, isRest, keepsGoing] = flags.map((flag) => words.includes(flag));
const optionOf = (option) =>
  words.find((word) => word.startsWith(`${option}=`))?.slice(option.length + 1);
const seed = optionOf("--seed");
const names = words.filter((word) => !flags.includes(word) && !/^--(seed|results)=/.test(word));
const isWholeBrief = isBrief && names.length === 0;
const chosen = isWholeBrief ? { steps: briefSteps } : chooseSteps(names);
if (chosen.problem !== undefined) fail(chosen.problem);
const node = ensureReady();
const sources = isRest || isWholeBrief ? sourcesId() : undefined;
const done = isRest ? passedBefore(sources) : [];
const steps = chosen.steps
  .filter(({ name }) => !done.includes(name))
  .map((step) => (seed === undefined ? step : inRandomOrder(step, seed)));
if (done.length > 0) console.log(`passed already in npm test: ${done.join(", ")}`);

const lanes = Math.min(lanesMax, cpus().length + 1, steps.length);
/** Everything that tests write goes here, and leaves with the run. */
const scratch = mkdtempSync(join(tmpdir(), "codeq-tests-"));
// Servers that tests start give up their rights and still read their files there.
chmodSync(scratch, 0o755);
/** Removes what is left of a run that was killed. */
const guard = spawn(process.execPath, [join(root, "scripts/left-behind.mjs"), scratch], {
  stdio: ["pipe", "ignore", "ignore"],
  detached: true,
});
guard.unref();
guard.stdin.unref();
/** What helps to understand a failure: output of steps, logs of servers, pictures of pages. */
const outer = process.env.CODEQ_TEST_RESULTS;
const results =
  optionOf("--results") ??
  (outer === undefined ? join(root, "test-results") : join(outer, "inner"));
const stepEnvironment = childEnvironment({
  TMPDIR: scratch,
  // Hundreds of processes load the same sources; with their compiled code kept, each starts in half the time.
  NODE_COMPILE_CACHE: join(root, "node_modules/.cache/compile"),
  ...(isLong ? { CODEQ_TEST_LONG: "true" } : {}),
});
const startedAt = performance.now();
const ended = [];
const failures = [];
/** The folders with what failures left. */
const kept = [];
const sums = { passed: 0, failed: 0, skipped: 0 };
/** Steps that run now, with the tests that have ended in each. */
const running = new Map();
const children = new Set();
/** CPU seconds of the steps that have ended. */
let cpuCounted = endedCpuSeconds();
const secondsSince = (at) => `${((performance.now() - at) / 1000).toFixed(1)} s`;

const progress = setInterval(() => {
  const parts = [...running].map(
    ([name, { at, tests }]) => `${name} ${tests > 0 ? `${tests} tests, ` : ""}${secondsSince(at)}`,
  );
  if (parts.length > 0) console.log(`   after ${secondsSince(startedAt)}: ${parts.join("; ")}`);
}, progressMs);

/** The output of a step is shown when the step fails; of one that passes, only which tests it skipped and why. */
function run({ name, args, env, isPart }) {
  console.log(`-- ${name}${isPart ? " (in part)" : ""}: started`);
  const state = { at: performance.now(), tests: 0, cpu: "" };
  running.set(name, state);
  const stepResults = join(results, name.replaceAll("/", "-"));
  // Another run in the same checkout keeps its own folders.
  rmSync(stepResults, { recursive: true, force: true });
  mkdirSync(stepResults, { recursive: true });
  const child = spawn(node, args, {
    cwd: root,
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...stepEnvironment, CODEQ_TEST_RESULTS: stepResults, ...env },
  });
  children.add(child);
  const pieces = [];
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (piece) => {
      pieces.push(piece);
      state.tests += endedIn(piece.toString());
    });
  }
  return new Promise((resolve) => {
    const end = (exit) => {
      children.delete(child);
      running.delete(name);
      const output = Buffer.concat(pieces).toString();
      const took = `${name} ${secondsSince(state.at)}${state.cpu}`;
      resolve(judge({ took, output, exit, stepResults }));
    };
    child.once("error", ({ message }) => end(message));
    child.once("exit", () => {
      const spent = endedCpuSeconds() - cpuCounted;
      cpuCounted += spent;
      state.cpu = spent > 0 ? ` (CPU ${spent.toFixed(1)} s)` : "";
    });
    child.once("close", (code, signal) =>
      end(code === 0 ? undefined : (signal ?? `exit code ${code}`)),
    );
  });
}

/** Counts the tests of a step that has ended, says how it ended, and returns whether it passed. */
function judge({ took, output, exit, stepResults }) {
  const counts = countsIn(output);
  const ranNothing = counts !== undefined && counts.passed + counts.skipped + counts.failed === 0;
  const why = exit ?? (ranNothing ? "no test ran" : undefined);
  const isPassed = why === undefined;
  sums.passed += counts?.passed ?? Number(isPassed);
  sums.failed += Math.max(counts?.failed ?? 0, Number(!isPassed));
  sums.skipped += counts?.skipped ?? 0;
  ended.push(isPassed ? took : `${took} FAILED`);
  if (isPassed) {
    rmSync(stepResults, { recursive: true, force: true });
    for (const line of output.match(/^\s*﹣ .*$/gmu) ?? []) console.log(line);
    console.log(`-- ${took}: passed${counts === undefined ? "" : `, ${counts.passed} tests`}`);
    return true;
  }
  writeFileSync(join(stepResults, "output.txt"), output);
  kept.push(relative(".", stepResults));
  console.log(output);
  console.log(`-- ${took}: failed (${why})`);
  failures.push(...failuresIn(output));
  return false;
}

/** CPU seconds of child processes that have ended, and of processes that these waited for; only Linux says it. */
function endedCpuSeconds() {
  try {
    const [, fields] = readFileSync("/proc/self/stat", "utf8").split(") ");
    const [user, system] = fields.split(" ").slice(13, 15).map(Number);
    return (user + system) / 100;
  } catch {
    return 0;
  }
}

function removeIfEmpty(folder) {
  try {
    rmdirSync(folder);
  } catch {
    // Another run has something in it, or no step was run.
  }
}

function cleanUp() {
  clearInterval(progress);
  for (const { pid, command } of processesOf(scratch)) {
    console.log(`left behind: ${pid} ${command}`);
  }
  removeAll(scratch);
}
for (const signal of ["SIGINT", "SIGTERM"]) {
  process.once(signal, () => {
    for (const child of children) child.kill(signal);
    cleanUp();
    process.exit(1);
  });
}

const allPassed = await runSteps(steps, { lanes, run, keepsGoing });
cleanUp();
if (allPassed) removeIfEmpty(results);
if (isWholeBrief) {
  if (allPassed)
    rememberPassed(
      sources,
      briefSteps.filter(({ isPart }) => !isPart),
    );
  console.log(leftOut());
}
for (const failure of failures) console.log(failure);
if (!allPassed) console.log(`logs and pictures of what failed: ${kept.join(", ")}`);
console.log(`${ended.join(", ")}; together ${secondsSince(startedAt)}`);
const skipped = sums.skipped > 0 ? `, ${sums.skipped} skipped` : "";
console.log(`${sums.passed} passed, ${sums.failed} failed${skipped}`);
process.exitCode = allPassed ? 0 : 1;
