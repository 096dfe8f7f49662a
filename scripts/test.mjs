/**
 * `npm test`: every check of the repository, cheapest first, side by side; none is started after one has
 * failed. `npm test -- unit crash` runs these steps, `npm test -- tests/e2e/life.test.ts` this file, and
 * `npm test -- --long crash` the long form of a step. Plain JavaScript for Node 18 and later.
 */
import { spawn } from "node:child_process";
import { cpus } from "node:os";
import { join } from "node:path";
import { childEnvironment, ensureReady, fail, root } from "./ensure-ready.mjs";
import { chooseSteps, failuresIn, runSteps } from "./test-steps.mjs";

/** One step more than there are CPUs: many tests wait for disks, timers and other processes. */
const lanesMax = 3;

const words = process.argv.slice(2);
const isLong = words.includes("--long");
const { steps, problem } = chooseSteps(words.filter((word) => word !== "--long"));
if (problem !== undefined) fail(problem);
const node = ensureReady();
const lanes = Math.min(lanesMax, cpus().length + 1, steps.length);
const stepEnvironment = childEnvironment({
  // Hundreds of processes load the same sources; with their compiled code kept, each starts in half the time.
  NODE_COMPILE_CACHE: join(root, "node_modules/.cache/compile"),
  ...(isLong ? { CODEQ_TEST_LONG: "true" } : {}),
});
const startedAt = performance.now();
const ended = [];
const failures = [];
const secondsSince = (at) => `${((performance.now() - at) / 1000).toFixed(1)} s`;

/** A step that shares the machine is printed as a whole, when it has ended. */
function run({ name, args, env, isAlone }) {
  const isShared = lanes > 1 && !isAlone;
  console.log(`-- ${name}${isShared ? ": started" : ""}`);
  const stepStartedAt = performance.now();
  const child = spawn(node, args, {
    cwd: root,
    stdio: isShared ? ["ignore", "pipe", "pipe"] : "inherit",
    env: { ...stepEnvironment, ...env },
  });
  const pieces = [];
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (p) => pieces.push(p));
  return new Promise((resolve) => {
    const end = (why) => {
      const result = `${name} ${secondsSince(stepStartedAt)}`;
      if (isShared) {
        console.log(`-- ${name}: output`);
        process.stdout.write(Buffer.concat(pieces));
      }
      console.log(`-- ${result}: ${why === undefined ? "passed" : `failed (${why})`}`);
      if (why !== undefined) failures.push(...failuresIn(Buffer.concat(pieces).toString()));
      ended.push(why === undefined ? result : `${result} FAILED`);
      resolve(why === undefined);
    };
    child.once("error", ({ message }) => end(message));
    child.once("close", (code, signal) =>
      end(code === 0 ? undefined : (signal ?? `exit code ${code}`)),
    );
  });
}

const allPassed = await runSteps(steps, { lanes, run });
const summary = `${ended.join(", ")}; together ${secondsSince(startedAt)}`;
for (const failure of failures) console.log(failure);
if (!allPassed) fail(`not everything passed: ${summary}`);
console.log(`all passed: ${summary}`);
