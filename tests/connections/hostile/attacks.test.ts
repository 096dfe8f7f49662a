/** The page lists what was tried before a caller is known, and nothing was tried only once by hand. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { attacks } from "./attacks.ts";

const root = join(import.meta.dirname, "../../..");
const read = (path: string): string => readFileSync(join(root, path), "utf8");

test("every attack is in a test", () => {
  const tests = ["connections/hostile/http", "connections/hostile/grpc", "memory/attacks"];
  const texts = tests.map((name) => read(`tests/${name}.test.ts`)).join("");
  const fairness = read("tests/memory/fairness.test.ts");
  const untested = attacks.filter(({ name }) => !`${texts}${fairness}`.includes(`"${name}"`));
  assert.deepEqual(
    untested.map(({ name }) => name),
    [],
  );
});

test("the page lists the attacks of callers that are not known", () => {
  const page = read("docs/adr/0222-what-callers-can-make-the-server-hold.md");
  const missing = attacks
    .filter(({ about }) => !about.includes("with a good token"))
    .map(({ name, about }) => `| \`${name}\` | ${about} |`)
    .filter((row) => !page.includes(`\n${row}\n`));
  assert.deepEqual(missing, []);
});
