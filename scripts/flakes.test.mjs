import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { root } from "./ensure-ready.mjs";
import { inRandomOrder, redTestsIn, steps } from "./test-steps.mjs";

const env = { ...process.env, NODE_TEST_CONTEXT: undefined };

function planted(t, text) {
  const folder = mkdtempSync(join(tmpdir(), "codeq-planted-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, "planted.test.mjs");
  writeFileSync(file, `import { test } from "node:test";\n${text}`);
  return file;
}

test("a test that is red now and then is found beside load, with its first log", (t) => {
  const file = planted(
    t,
    `import { appendFileSync, readFileSync } from "node:fs";
    const runs = import.meta.filename + ".runs";
    test("steady", () => {});
    test("red in the second run", () => {
      appendFileSync(runs, "x");
      if (readFileSync(runs, "utf8") === "xx") throw new Error("by chance");
    });`,
  );
  const args = [join(root, "scripts/flakes.mjs"), file, "--times", "3", "--seed", "5", "--load"];
  const { status, stdout } = spawnSync(process.execPath, args, {
    cwd: root,
    encoding: "utf8",
    env,
  });
  assert.equal(status, 1, stdout);
  assert.match(
    stdout,
    /planted\.test\.mjs: red in the second run\n {2}red in 1 of 3 rounds, with seed 6\n +Error: by chance\n/,
  );
  assert.doesNotMatch(stdout, /steady/);
  assert.match(stdout, /\n3 runs, 1 red; 1 tests were not always green\n$/);
  const [, results] = /of the first time: (.*)\n/.exec(stdout) ?? [];
  t.after(() => rmSync(join(root, results, "../.."), { recursive: true, force: true }));
  assert.match(readFileSync(join(root, results, "output.txt"), "utf8"), /by chance/);
});

test("the order of tests follows from the seed, for every step that runs tests", () => {
  for (const step of steps) {
    const { args, env: given } = inRandomOrder(step, 7);
    const isOrdered = args.includes("--test-random-seed=7") || given?.CODEQ_TEST_SEED === "7";
    assert.equal(isOrdered, true, step.name);
  }
});

test("red tests are read from the output once each, also nested ones", () => {
  const red =
    "test at tests/a.test.ts:1:1\n✖ a (1.5ms)\n  Error\n\ntest at b.ts:3:4\n✖ b (c) (2ms)\n  No\n";
  const found = [
    ["tests/a.test.ts: a", "  Error"],
    ["b.ts: b (c)", "  No"],
  ];
  assert.deepEqual(new Map(found), redTestsIn(red + red));
  assert.deepEqual(redTestsIn("error TS1005"), new Map());
});
