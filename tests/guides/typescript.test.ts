/** Every block of TypeScript compiles, and those that are tests pass. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { type TestContext } from "node:test";
import { promisify } from "node:util";
import { root } from "../e2e/server-process.ts";
import { blocksOf } from "./marks.ts";
import type { Block } from "./pages.ts";

const run = promisify(execFile);
/** Inside the repository, so that packages are found as they are in a project of a user. */
const workspace = join(root, "data");

interface WrittenBlock {
  readonly path: string;
  readonly code: string;
}

/** A folder for each page. What a page imports and does not have is the file of another page. */
function writeBlocks(t: TestContext, blocks: readonly Block[] = blocksOf("ts")): WrittenBlock[] {
  mkdirSync(workspace, { recursive: true });
  const directory = mkdtempSync(join(workspace, "guide-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  const folderOf = (page: string): string => join(directory, page.replace(/\W/g, "-"));
  for (const page of new Set(blocks.map((block) => block.page))) {
    mkdirSync(folderOf(page));
    for (const { file, text } of blocks) {
      if (file !== undefined) writeFileSync(join(folderOf(page), file), text);
    }
  }
  return blocks.map(({ page, line, file, text }) => {
    const path = join(folderOf(page), file ?? `line-${line}.ts`);
    writeFileSync(path, text);
    return { path, code: text };
  });
}

test("there are blocks to look at", () => {
  for (const guide of ["producer", "worker", "testing", "concepts", "migration-from-bullmq"]) {
    const found = blocksOf("ts").filter(({ page }) => page === `docs/guide/${guide}.md`);
    assert.ok(found.length > 3, guide);
  }
});

test("every block compiles", async (t) => {
  const written = writeBlocks(t);
  const compilerOptions = {
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    allowImportingTsExtensions: true,
  };
  await compile(written, compilerOptions);
});

test("the blocks of NestJS compile as its projects do, and their tests pass", async (t) => {
  const written = writeBlocks(t, blocksOf("ts nest"));
  // As `nest new` sets them.
  const compilerOptions = {
    strict: true,
    skipLibCheck: true,
    experimentalDecorators: true,
    emitDecoratorMetadata: true,
  };
  await compile(written, compilerOptions);
  const compiled = written.map(({ path, code }) => ({ path: path.replace(/\.ts$/, ".js"), code }));
  await runTests(compiled, 0);
});

/** Beside its sources, unless the options say that nothing is written. */
async function compile(written: readonly WrittenBlock[], more: object): Promise<void> {
  const compilerOptions = {
    module: "nodenext",
    target: "es2024",
    lib: ["es2024", "esnext.disposable"],
    types: ["node"],
    moduleDetection: "force",
    ...more,
  };
  const files = written.map(({ path }) => path);
  const config = join(files[0] ?? "", "../../tsconfig.json");
  writeFileSync(config, JSON.stringify({ compilerOptions, files }));
  const tsc = join(root, "node_modules/typescript/bin/tsc");
  const failed = ({ stdout }: { stdout: string }): never => assert.fail(stdout);
  const packages = ["packages/client", "packages/nest", "packages/outbox"];
  await run(process.execPath, [tsc, "-b", ...packages], { cwd: root }).catch(failed);
  await run(process.execPath, [tsc, "-p", config]).catch(failed);
}

test("the tests in the guides pass", async (t) => {
  await runTests(writeBlocks(t), 3);
});

/** All of them, more than `above`. */
async function runTests(written: readonly WrittenBlock[], above: number): Promise<void> {
  const tests = written.filter(({ code }) => code.includes("node:test"));
  const count = tests.flatMap(({ code }) => [...code.matchAll(/^test\(/gm)]).length;
  assert.ok(count > above);
  const files = tests.map(({ path }) => path);
  // Without the mark of this test, for a test that runs tests would pass over them.
  const { NODE_TEST_CONTEXT: _mark, ...env } = process.env;
  const args = [
    "--conditions=source",
    "--test",
    "--test-isolation=none",
    "--test-reporter=tap",
    ...files,
  ];
  const { stdout } = await run(process.execPath, args, { cwd: root, env }).catch(
    (error: { stdout: string }) => assert.fail(error.stdout),
  );
  assert.match(stdout, new RegExp(`^# pass ${count}$`, "m"));
}
