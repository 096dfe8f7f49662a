/** The Python client: format, lint, types and tests. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { errors } from "@codeq/protocol";
import { root, temporaryDirectory } from "../e2e/server-process.ts";
import { pythonClientSources, pythonClientTools } from "./python-tools.ts";

const run = promisify(execFile);
const folder = join(root, "clients/python");
const programs = ["conformance/driver.py", "bench/client-loads/load.py"].map((file) =>
  join(root, "tests", file),
);
const tools = await pythonClientTools();
const skip = "missing" in tools ? tools.missing : false;
const env = {
  ...process.env,
  PYTHONPATH: pythonClientSources,
  PYTHONDONTWRITEBYTECODE: "1",
  CODEQ_TEST_SERVER: `${process.execPath} --conditions=source ${join(root, "packages/cli/src/main.ts")} test-server`,
};

async function python(...args: readonly string[]): Promise<string> {
  assert.ok("path" in tools);
  try {
    return (await run(tools.path, args, { cwd: folder, env })).stdout;
  } catch (error) {
    const { stdout = "", stderr = "" } = error as { stdout?: string; stderr?: string };
    throw new Error(`${args.join(" ")}\n${stdout}${stderr}`, { cause: error });
  }
}

test("Python: the client is formatted", { skip }, async () => {
  await python("-m", "ruff", "format", "--check", "--no-cache", ".", ...programs);
});

test("Python: the client has no lint", { skip }, async () => {
  await python("-m", "ruff", "check", "--no-cache", ".", ...programs);
});

test("Python: the types of the client are complete", { skip }, async () => {
  await python("-m", "mypy", "--cache-dir=/dev/null", "--strict");
});

test("Python: the client knows which errors of the server pass", () => {
  const source = readFileSync(join(folder, "src/codeq/errors.py"), "utf8");
  const [, fromServer = ""] = /_OF_SERVER = \{\n([^}]*)\}/.exec(source) ?? [];
  const known = [...fromServer.matchAll(/"(\w+)"/g)].map(([, code]) => code);
  const retryable = Object.entries(errors).filter(([, row]) => row.retryable);
  assert.deepEqual(known, retryable.map(([code]) => code).sort());
});

test("Python: the programs of the guide pass a strict type checker", { skip }, async (t) => {
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  const page = readFileSync(join(root, "docs/guide/python.md"), "utf8");
  const files = [...page.matchAll(/```python\n# (\w+\.py)\n.*?```/gs)].map(([block, name = ""]) => {
    const file = join(directory.path, name);
    writeFileSync(file, block.split("\n").slice(1, -1).join("\n"));
    return file;
  });
  assert.ok(files.length >= 5);
  await python("-m", "mypy", "--cache-dir=/dev/null", "--strict", ...files);
});

test("Python: the tests of the client pass", { skip }, async (t) => {
  const output = await python("-m", "pytest", "-p", "codeq.pytest_plugin");
  t.diagnostic(output.trim().split("\n").at(-1) ?? "");
});
