import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { root } from "./ensure-ready.mjs";
import {
  briefSteps,
  chooseSteps,
  countsIn,
  endedIn,
  failuresIn,
  leftOut,
  runSteps,
  steps,
} from "./test-steps.mjs";

const namesOf = (chosen) => chosen.map(({ name }) => name);

test("without words all steps run, and every folder of tests belongs to one", () => {
  assert.deepEqual(chooseSteps([]).steps, steps);
  const folders = readdirSync(join(root, "tests"), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .filter(({ name }) =>
      readdirSync(join(root, "tests", name), { recursive: true }).some((file) =>
        file.endsWith(".test.ts"),
      ),
    );
  const patterns = steps.flatMap(({ args }) => args);
  for (const { name } of folders) {
    assert.ok(
      patterns.some((pattern) => pattern.startsWith(`tests/${name}/`)),
      name,
    );
  }
});

test("a word chooses the steps with such a name, in their own order and once", () => {
  assert.deepEqual(namesOf(chooseSteps(["unit", "lint", "un"]).steps), ["lint", "unit"]);
  assert.deepEqual(namesOf(chooseSteps(["cli"]).steps), ["cli"]);
});

test("a file or a folder chooses its tests, from the folder where the command was typed", () => {
  const [file] = chooseSteps(["tests/e2e/life.test.ts"], root).steps;
  assert.equal(file.args.at(-1), "tests/e2e/life.test.ts");
  const [folder] = chooseSteps(["src/wire"], join(root, "packages/protocol")).steps;
  assert.equal(folder.args.at(-1), "packages/protocol/src/wire/**/*.test.{mjs,ts}");
  const both = chooseSteps(["scripts/start.test.mjs", "lint"], root).steps;
  assert.deepEqual(namesOf(both), ["lint", "scripts/start.test.mjs"]);
});

test("a word that means nothing is refused, with the steps that there are", () => {
  const { problem } = chooseSteps(["untit"]);
  assert.match(problem, /untit is neither a step nor a file; the steps are lint, types/);
});

test("npm test with a file runs that file and prints how long it took", () => {
  const args = [join(root, "scripts/test.mjs"), "scripts/ensure-ready.test.mjs"];
  const env = { ...process.env, NODE_TEST_CONTEXT: undefined };
  const { status, stdout } = spawnSync(process.execPath, args, {
    cwd: root,
    encoding: "utf8",
    env,
  });
  assert.equal(status, 0, stdout);
  assert.match(stdout, /scripts\/ensure-ready\.test\.mjs \d+\.\d s( \(CPU \d+\.\d s\))?; together/);
  assert.match(stdout, /\n\d+ passed, 0 failed\n$/);
});

test("the failures of a step are found below the output of its tests", () => {
  const output = "✖ a\n✔ b\nℹ fail 1\n\n✖ failing tests:\n\n✖ a\n  because\n";
  assert.deepEqual(failuresIn(output), ["✖ failing tests:", "", "✖ a", "  because"]);
  assert.equal(failuresIn(output, 1).length, 1);
  assert.deepEqual(failuresIn("error TS1005"), []);
});

/** Runs steps by hand: each ends when the test says so. */
function controlled(chosen, lanes, options = {}) {
  const running = new Map();
  const events = [];
  const run = ({ name }) => {
    events.push(name);
    return new Promise((resolve) => running.set(name, resolve));
  };
  const all = runSteps(chosen, { lanes, run, ...options });
  const end = async (name, passed = true) => {
    running.get(name)(passed);
    running.delete(name);
    await new Promise(setImmediate);
  };
  return { all, end, running, events };
}

const shared = (name) => ({ name, isAlone: false });
const alone = (name) => ({ name, isAlone: true });

test("steps share two lanes, and those that measure run alone at the end", async () => {
  const chosen = [shared("a"), alone("m"), shared("b"), shared("c"), alone("n")];
  const { all, end, running, events } = controlled(chosen, 2);
  assert.deepEqual([...running.keys()], ["a", "b"]);
  await end("b");
  assert.deepEqual([...running.keys()], ["a", "c"]);
  await end("a");
  assert.deepEqual([...running.keys()], ["c"]);
  await end("c");
  assert.deepEqual([...running.keys()], ["m"]);
  await end("m");
  assert.deepEqual([...running.keys()], ["n"]);
  await end("n");
  assert.equal(await all, true);
  assert.deepEqual(events, ["a", "b", "c", "m", "n"]);
});

test("a step waits for the one that it needs, also while that one waits itself", async () => {
  const needsA = { ...shared("b"), needs: "a" };
  const needsB = { ...shared("c"), needs: "b" };
  const { all, end, running, events } = controlled([shared("a"), needsA, needsB, shared("d")], 3);
  assert.deepEqual([...running.keys()], ["a", "d"]);
  await end("d");
  assert.deepEqual([...running.keys()], ["a"]);
  await end("a");
  assert.deepEqual([...running.keys()], ["b"]);
  await end("b");
  await end("c");
  assert.equal(await all, true);
  assert.deepEqual(events, ["a", "d", "b", "c"]);
});

test("a step waits for the one that it needs, and others go before it", async () => {
  const needing = { ...shared("b"), needs: "a" };
  const { all, end, running, events } = controlled([shared("a"), needing, shared("c")], 2);
  assert.deepEqual([...running.keys()], ["a", "c"]);
  await end("c");
  assert.deepEqual([...running.keys()], ["a"]);
  await end("a");
  assert.deepEqual([...running.keys()], ["b"]);
  await end("b");
  assert.equal(await all, true);
  assert.deepEqual(events, ["a", "c", "b"]);
});

test("after a failure what runs is finished, and nothing else is started", async () => {
  const { all, end, events } = controlled([shared("a"), shared("b"), shared("c"), alone("m")], 2);
  await end("a", false);
  await end("b");
  assert.equal(await all, false);
  assert.deepEqual(events, ["a", "b"]);
});

test("a run that keeps going starts all steps after a failure, and fails", async () => {
  const steps = [shared("a"), shared("b"), alone("m")];
  const { all, end, events } = controlled(steps, 1, { keepsGoing: true });
  await end("a", false);
  await end("b");
  await end("m");
  assert.equal(await all, false);
  assert.deepEqual(events, ["a", "b", "m"]);
});

test("what measures the memory of a process runs alone", () => {
  const measuring = steps.filter(({ isAlone }) => isAlone);
  assert.deepEqual(namesOf(measuring), ["memory"]);
});

test("npm test names every step that it shortens or leaves out", () => {
  const whole = briefSteps.filter(({ isPart }) => !isPart);
  for (const { name } of steps) {
    assert.equal(new RegExp(`\\b${name}\\b`).test(leftOut()), !namesOf(whole).includes(name), name);
  }
});

test("tests are counted from the output of a step", () => {
  const output = "✔ a (1ms)\n  ✔ b\n﹣ c # no Go\nℹ tests 3\nℹ pass 2\nℹ fail 0\nℹ skipped 1\n";
  assert.deepEqual(countsIn(output), { passed: 2, failed: 0, skipped: 1 });
  assert.equal(endedIn(output), 3);
  assert.equal(countsIn("Checked 9 files"), undefined);
});
