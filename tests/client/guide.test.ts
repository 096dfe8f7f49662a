/** Every block of TypeScript in guides and readmes compiles, and those that are tests pass. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { type TestContext } from "node:test";
import { promisify } from "node:util";
import { root } from "../e2e/server-process.ts";

const run = promisify(execFile);
const guides = readdirSync(join(root, "docs/guide")).map((name) => `docs/guide/${name}`);
const pages = [...guides, "README.md", "packages/client/README.md"];
/** Inside the repository, so that packages are found as they are in a project of a user. */
const workspace = join(root, "data");

/** Blocks by file name. One that begins with a comment of its name is imported by others. */
function blocksOf(page: string): Map<string, string> {
  const text = readFileSync(join(root, page), "utf8");
  const blocks = [...text.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(([, code = ""]) => code);
  return new Map(
    blocks.map((code, index) => {
      const [, name] = /^\/\/ (\S+\.ts)\n/.exec(code) ?? [];
      return [name ?? `${page.replace(/\W/g, "-")}-${index + 1}.ts`, code];
    }),
  );
}

const found = new Map(pages.map((page) => [page, blocksOf(page)]));

function writeBlocks(t: TestContext): string {
  mkdirSync(workspace, { recursive: true });
  const directory = mkdtempSync(join(workspace, "guide-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  for (const blocks of found.values()) {
    for (const [name, code] of blocks) writeFileSync(join(directory, name), code);
  }
  return directory;
}

test("there are blocks to look at", () => {
  for (const guide of ["producer", "worker", "testing"]) {
    assert.ok((found.get(`docs/guide/${guide}.md`)?.size ?? 0) > 3, guide);
  }
  assert.ok((found.get("README.md")?.size ?? 0) > 0);
});

test("every block compiles", async (t) => {
  const directory = writeBlocks(t);
  const compilerOptions = {
    ...{ strict: true, noEmit: true, skipLibCheck: true, allowImportingTsExtensions: true },
    ...{ module: "nodenext", target: "es2024", lib: ["es2024", "esnext.disposable"] },
    ...{ types: ["node"], moduleDetection: "force" },
  };
  const files = [...found.values()].flatMap((blocks) => [...blocks.keys()]);
  writeFileSync(join(directory, "tsconfig.json"), JSON.stringify({ compilerOptions, files }));
  const tsc = join(root, "node_modules/typescript/bin/tsc");
  const failed = ({ stdout }: { stdout: string }): never => assert.fail(stdout);
  await run(process.execPath, [tsc, "-b", "packages/client"], { cwd: root }).catch(failed);
  await run(process.execPath, [tsc, "-p", directory]).catch(failed);
});

test("the tests of the guides pass", async (t) => {
  const directory = writeBlocks(t);
  const tests = [...found.values()].flatMap((blocks) =>
    [...blocks].filter(([, code]) => code.includes("node:test")).map(([name]) => name),
  );
  assert.ok(tests.length > 2);
  const files = tests.map((name) => join(directory, name));
  // Without the mark of this test, for a test that runs tests would pass over them.
  const { NODE_TEST_CONTEXT: _mark, ...env } = process.env;
  const args = ["--conditions=source", "--test", "--test-reporter=tap", ...files];
  const { stdout } = await run(process.execPath, args, { cwd: root, env }).catch(
    (error: { stdout: string }) => assert.fail(error.stdout),
  );
  assert.match(stdout, /^# pass 4$/m);
});
