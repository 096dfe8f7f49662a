/**
 * `npm test`: every check of the repository, cheapest first, ending at the first that fails.
 * `npm test -- unit crash` runs only the steps with such a word in their name. Plain JavaScript for
 * Node 18 and later.
 */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { childEnvironment, ensureReady, fail, root } from "./ensure-ready.mjs";

const tool = (script, ...args) => [join(root, "node_modules", script), ...args];
const tests = (...args) => ["--conditions=source", "--test", ...args];
const folder = (name) => ({
  name,
  needs: `tests/${name}`,
  args: tests(`tests/${name}/**/*.test.ts`),
});

/** Each is a run of Node; a step whose folder does not exist is passed over. */
const steps = [
  { name: "lint", args: tool("@biomejs/biome/bin/biome", "check", "--error-on-warnings") },
  { name: "types", args: tool("typescript/bin/tsc", "-b") },
  { name: "knip", args: tool("knip/bin/knip.js", "--config", "scripts/knip.json") },
  {
    name: "unit",
    args: tests(
      "--test-isolation=none",
      "packages/*/src/**/*.test.ts",
      "scripts/*.test.{mjs,ts}",
      "tests/tidy/*.test.ts",
      "tests/bench/*.test.ts",
      "examples/*/*.test.ts",
    ),
  },
  folder("contract"),
  folder("grpc"),
  {
    name: "shards",
    needs: "tests/contract",
    env: { CODEQ_TEST_SHARDS: "3" },
    args: tests(
      "tests/contract/*.test.ts",
      "tests/grpc/{access,additions,api-keys,audit,malformed,outcomes,quotas}.test.ts",
    ),
  },
  folder("connections"),
  folder("client"),
  folder("simulation"),
  folder("crash"),
  folder("damage"),
  folder("e2e"),
  folder("cli"),
  folder("install"),
  folder("guides"),
];

const words = process.argv.slice(2);
const chosen = steps.filter(
  ({ name }) => words.length === 0 || words.some((w) => name.includes(w)),
);
if (chosen.length === 0) {
  fail(`no step is called ${words.join(" or ")}; there are ${steps.map((s) => s.name).join(", ")}`);
}

const node = ensureReady();
const durations = [];
for (const { name, needs, args, env } of chosen) {
  if (needs !== undefined && !existsSync(join(root, needs))) {
    console.log(`-- ${name}: passed over, there is no ${needs}`);
    continue;
  }
  console.log(`-- ${name}`);
  const startedAt = performance.now();
  const { status, signal } = spawnSync(node, args, {
    cwd: root,
    stdio: "inherit",
    env: { ...childEnvironment(), ...env },
  });
  const duration = `${name} ${((performance.now() - startedAt) / 1000).toFixed(1)} s`;
  if (status !== 0) fail(`${duration}: failed (${signal ?? `exit code ${status}`})`);
  console.log(`-- ${duration}: passed`);
  durations.push(duration);
}
console.log(`all passed: ${durations.join(", ")}`);
