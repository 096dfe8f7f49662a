/** Tests of users in Vitest and Jest, as the page about testing says, with the packages as they are published. */
import assert from "node:assert/strict";
import { execFile, execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type TestContext, test } from "node:test";
import { promisify } from "node:util";
import { packedPackages, tarballIn } from "../built-once.ts";
import { root } from "../e2e/server-process.ts";
import { fromNpm } from "./runtimes.ts";

const run = promisify(execFile);

const body = `
const greet = task("greet");
test("a greeting is sent an hour later", async () => {
  const server = await testServer();
  server.client.worker(greet.handle(({ name }) => ({ text: \`hello \${name}\` })));
  const run = await server.client.enqueue(greet, { name: "Ada" }, { delay: "1h" });
  await server.advance("1h");
  expect(await run.result()).toEqual({ text: "hello Ada" });
  await server.close();
});
`;
const imports = `import { task } from "@codeq/client";
import { testServer } from "@codeq/client/testing";
`;
const requires = `const { task } = require("@codeq/client");
const { testServer } = require("@codeq/client/testing");
`;

/** A project with the packages of codeQ, and links to those that the runner consists of. */
async function project(t: TestContext, from: string, names: readonly string[]): Promise<string> {
  // Inside the repository, where what the server needs is found.
  mkdirSync(join(root, "data"), { recursive: true });
  const directory = mkdtempSync(join(root, "data/runner-"));
  t.after(() => rmSync(directory, { recursive: true }));
  const packed = await packedPackages();
  for (const each of ["client", "server"]) {
    const into = join(directory, "node_modules/@codeq", each);
    mkdirSync(into, { recursive: true });
    execFileSync("tar", ["-xzf", tarballIn(packed, each), "-C", into, "--strip-components=1"]);
  }
  for (const name of names) {
    symlinkSync(join(from, name), join(directory, "node_modules", name));
  }
  writeFileSync(join(directory, "package.json"), '{ "private": true }');
  return directory;
}

const vitest = fromNpm("vitest", "5.1.0");
test("Vitest needs no settings", { skip: "missing" in vitest && vitest.missing }, async (t) => {
  assert.ok("path" in vitest);
  const directory = await project(t, vitest.path, ["vitest"]);
  const text = `import { expect, test } from "vitest";\n${imports}${body}`;
  writeFileSync(join(directory, "greet.test.mjs"), text);
  const { stdout } = await runner(directory, join(vitest.path, "vitest/vitest.mjs"), "run");
  assert.match(stdout, /Tests .*1 passed/);
});

const jest = fromNpm("jest", "30.5.2");
test("Jest needs a flag of Node for modules and for require", {
  skip: "missing" in jest && jest.missing,
}, async (t) => {
  assert.ok("path" in jest);
  const directory = await project(t, jest.path, ["@jest"]);
  const text = `import { expect, test } from "@jest/globals";\n${imports}${body}`;
  writeFileSync(join(directory, "greet.test.mjs"), text);
  writeFileSync(join(directory, "greet.test.cjs"), `${requires}${body}`);
  const program = join(jest.path, "jest/bin/jest.js");
  const words = ["--rootDir", directory, "--testRegex", "greet.test.[cm]js"];
  const { stderr } = await runner(directory, "--experimental-vm-modules", program, ...words);
  assert.match(stderr, /Tests: +2 passed, 2 total/);
  await assert.rejects(runner(directory, program, ...words), /Must use import to load ES Module/);
});

/** Without the condition with which these tests run from the sources. */
function runner(cwd: string, ...words: readonly string[]) {
  const { NODE_OPTIONS: _options, NODE_TEST_CONTEXT: _context, ...others } = process.env;
  const env = { ...others, PATH: `${dirname(process.execPath)}:${others["PATH"]}`, CI: "1" };
  return run(process.execPath, words, { cwd, env });
}
