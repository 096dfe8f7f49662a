/** The Go client: format, vet, tests with the race detector, and its tables beside those of the server. */
import assert from "node:assert/strict";
import { execFile, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { errors } from "@codeq/protocol";
import { root } from "../e2e/server-process.ts";
import { goClient, noGo } from "./go-tools.ts";

const run = promisify(execFile);
const modules = [goClient, join(goClient, "codeqotel"), join(root, "examples/go")];
const env = {
  ...process.env,
  CODEQ_TEST_SERVER: `${process.execPath} --conditions=source ${join(root, "packages/cli/src/main.ts")} test-server`,
};

async function go(cwd: string, program: string, ...args: readonly string[]): Promise<string> {
  try {
    return (await run(program, args, { cwd, env })).stdout;
  } catch (error) {
    const { stdout = "", stderr = "" } = error as { stdout?: string; stderr?: string };
    throw new Error(`${program} ${args.join(" ")}\n${stdout}${stderr}`, { cause: error });
  }
}

test("Go: the client and the example are formatted", { skip: noGo }, async () => {
  const loads = join(root, "tests/bench/client-loads/go");
  assert.equal(await go(root, "gofmt", "-l", ...modules, loads), "");
});

test("Go: the client and the example have no lint", { skip: noGo }, async () => {
  for (const each of modules) await go(each, "go", "vet", "./...");
});

/** The race detector needs a C compiler; Go looks for one. */
const hasCompiler = (): boolean =>
  spawnSync("go", ["env", "CGO_ENABLED"], { encoding: "utf8" }).stdout.trim() === "1";

test("Go: the tests of the client pass", { skip: noGo }, async (t) => {
  const race = hasCompiler() ? ["-race"] : [];
  for (const each of modules.slice(0, 2)) {
    const output = await go(each, "go", "test", "-count=1", ...race, "./...");
    t.diagnostic(output.split("\n").find((line) => line.startsWith("ok")) ?? "");
  }
});

test("Go: the client knows the errors of the server", () => {
  const source = readFileSync(join(goClient, "errors.go"), "utf8");
  const [, fromServer = ""] = /In the server's table of errors\.\n([^}]*)\}/.exec(source) ?? [];
  const known = [...fromServer.matchAll(/"(\w+)":\s+true/g)].map(([, code]) => code);
  const retryable = Object.entries(errors).filter(([, row]) => row.retryable);
  assert.deepEqual(known.sort(), retryable.map(([code]) => code).sort());
  const [, refusals = ""] = /var refusals = map\[string\]string\{\n([^}]*)\}/.exec(source) ?? [];
  for (const [, text, code = ""] of refusals.matchAll(/"(.+)":\s+"(\w+)"/g)) {
    const row = errors[code as keyof typeof errors];
    // The streams have another text for this one as well.
    if (text !== "missing token") assert.equal(text, row?.text, code);
  }
});

// Without protoc, which few machines have; with it, tests/client/languages.test.ts compares whole files.
test("Go: the packages have the fields of the published protos", () => {
  for (const name of ["producerpb", "workerpb"]) {
    const proto = readFileSync(join(root, "proto", `${name}.proto`), "utf8");
    const generated = readFileSync(join(goClient, name, `${name}.pb.go`), "utf8");
    const inProto = [...proto.matchAll(/^ +(?:repeated )?[\w.]+ (\w+) = (\d+);/gm)];
    const inGo = [...generated.matchAll(/protobuf:"\w+,(\d+),\w+,(?:\w+,)?name=(\w+)/g)];
    assert.ok(inProto.length > 0);
    assert.deepEqual(
      inGo.map(([, number, field]) => `${field} = ${number}`).sort(),
      inProto.map(([, field, number]) => `${field} = ${number}`).sort(),
      `generate ${name} again: clients/go/README.md says how`,
    );
  }
});
