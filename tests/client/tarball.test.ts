/** The package as users get it: packed, installed into an empty folder, used from there. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { type TestContext } from "node:test";
import { promisify } from "node:util";
import { task } from "@codeq/client";
import { packedPackages, tarballIn } from "../built-once.ts";
import { root, temporaryDirectory } from "../e2e/server-process.ts";
import { setup } from "./setup.ts";

const run = promisify(execFile);
const packed = await packedPackages();

function emptyProject(t: TestContext): string {
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  const manifest = { name: "user", private: true, type: "module" };
  writeFileSync(join(directory.path, "package.json"), JSON.stringify(manifest));
  return directory.path;
}

/** Nothing is asked of a registry: what the package needs is inside it. */
async function install(project: string, ...tarballs: readonly string[]): Promise<void> {
  const quiet = ["--offline", "--no-audit", "--no-fund", "--legacy-peer-deps"];
  await run("npm", ["install", ...quiet, ...tarballs], { cwd: project });
}

const program = `
import { codeq, task } from "@codeq/client";
const greet = task<{ name: string }, { text: string }>("greet");
const [url] = process.argv.slice(2);
const client = codeq({ url });
const worker = client.worker(greet.handle(({ name }) => ({ text: "hello " + name })));
const run = await client.enqueue(greet, { name: "Ada" });
console.log(JSON.stringify(await run.result({ timeout: "20s" })));
await worker.close();
// The client is not closed: it must not keep the process alive.
`;

const required = `
import { codeq, task } from "@codeq/client";
const greet = task<{ name: string }, { text: string }>("greet");
console.log(typeof codeq, greet.name);
`;

test("a project of CommonJS compiles and runs with it, and is told what to set where not", async (t) => {
  const project = emptyProject(t);
  await install(project, tarballIn(packed, "client"));
  writeFileSync(join(project, "package.json"), '{ "name": "user", "private": true }');
  writeFileSync(join(project, "program.ts"), required);
  const tsc = join(root, "node_modules/typescript/bin/tsc");
  const compile = (module: string) => {
    const types = ["--types", "node", "--typeRoots", join(root, "node_modules/@types")];
    const flags = [
      "--strict",
      "--target",
      "es2024",
      "--module",
      module,
      "--skipLibCheck",
      ...types,
    ];
    return run(process.execPath, [tsc, ...flags, "program.ts"], { cwd: project });
  };
  for (const module of ["commonjs", "nodenext"]) {
    await compile(module);
    assert.match(readFileSync(join(project, "program.js"), "utf8"), /require\("@codeq\/client"\)/);
    const { stdout } = await run(process.execPath, ["program.js"], { cwd: project });
    assert.equal(stdout, "function greet\n", module);
  }
  // The oldest rules know no require of a module; the guide says which to take instead.
  await assert.rejects(compile("node16"), ({ stdout }: { stdout: string }) =>
    /TS1479/.test(stdout),
  );
});

test("the tarball installs offline, works, brings its types and nothing of the server", async (t) => {
  const project = emptyProject(t);
  await install(project, tarballIn(packed, "client"));
  writeFileSync(join(project, "program.ts"), program);
  const { server } = await setup(t);
  const { stdout } = await run(process.execPath, ["program.ts", server.url], { cwd: project });
  assert.equal(stdout, '{"text":"hello Ada"}\n');

  writeFileSync(join(project, "wrong.ts"), program.replace('name: "Ada"', "name: 1"));
  const tsc = join(root, "node_modules/typescript/bin/tsc");
  const types = ["--types", "node", "--typeRoots", join(root, "node_modules/@types")];
  const flags = ["--noEmit", "--strict", "--module", "nodenext", "--target", "es2024", ...types];
  await run(process.execPath, [tsc, ...flags, "program.ts"], { cwd: project });
  await assert.rejects(
    run(process.execPath, [tsc, ...flags, "wrong.ts"], { cwd: project }),
    ({ stdout: errors }: { stdout: string }) => /Type 'number' is not assignable/.test(errors),
  );

  const installed = join(project, "node_modules/@codeq/client");
  const reached = [...importsFrom(join(installed, "dist/index.js"))];
  const outside = reached.filter((name) => !name.startsWith("node:") && !name.startsWith("."));
  assert.deepEqual([...new Set(outside)].sort(), ["@codeq/protocol", "@codeq/protocol/wire"]);
  const manifest = JSON.parse(readFileSync(join(installed, "package.json"), "utf8"));
  assert.deepEqual(Object.keys(manifest.dependencies), ["@codeq/protocol"]);
  assert.equal(manifest.private, undefined);
});

/** What a file imports, and what that imports, as far as it is in the same package. */
function* importsFrom(file: string, seen = new Set<string>()): Generator<string> {
  if (seen.has(file)) return;
  seen.add(file);
  const text = readFileSync(file, "utf8");
  for (const [, name = ""] of text.matchAll(/(?:\bfrom\s+|\bimport\s*\(?\s*)"([^"]+)"/g)) {
    yield name;
    if (name.startsWith(".")) yield* importsFrom(join(file, "..", name), seen);
  }
}

const nestProgram = `
import { task } from "@codeq/client";
import { CodeqModule, Processor } from "@codeq/nest";
import { Module } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
const greet = task<{ name: string }, { text: string }>("greet");
class Words {
  readonly hello = "hello";
}
@Processor(greet)
class Greeter {
  constructor(private readonly words: Words) {}
  process({ name }: { name: string }) {
    return { text: this.words.hello + " " + name };
  }
}
const [url = ""] = process.argv.slice(2);
@Module({ imports: [CodeqModule.forRoot({ url })], providers: [Words, Greeter] })
class AppModule {}
async function main() {
  const app = await NestFactory.createApplicationContext(AppModule, { logger: false });
  const { codeq } = await import("@codeq/client");
  console.log(JSON.stringify(await codeq({ url }).run(greet, process.argv[3] ?? "").result()));
  await app.close();
}
main();
`;

test("a NestJS project of CommonJS or of modules compiles and runs with the tarballs", async (t) => {
  const project = emptyProject(t);
  await install(project, tarballIn(packed, "client"), tarballIn(packed, "nest"));
  for (const name of ["@nestjs/common", "@nestjs/core"]) {
    const target = join(project, "node_modules", name);
    mkdirSync(join(target, ".."), { recursive: true });
    symlinkSync(join(root, "node_modules", name), target);
  }
  writeFileSync(join(project, "program.ts"), nestProgram);
  const tsc = join(root, "node_modules/typescript/bin/tsc");
  const types = ["--types", "node", "--typeRoots", join(root, "node_modules/@types")];
  const decorators = ["--experimentalDecorators", "--emitDecoratorMetadata", "--skipLibCheck"];
  const flags = ["--strict", "--target", "es2024", ...decorators, ...types];
  const world = await setup(t);
  for (const type of ["commonjs", "module"]) {
    writeFileSync(join(project, "package.json"), JSON.stringify({ private: true, type }));
    const words = [tsc, ...flags, "--module", "nodenext", "program.ts"];
    await run(process.execPath, words, { cwd: project });
    const greet = task<{ name: string }, { text: string }>("greet");
    const { id } = await world.client().enqueue(greet, { name: type });
    const args = ["program.js", world.server.url, id];
    const { stdout } = await run(process.execPath, args, { cwd: project });
    assert.equal(stdout, `{"text":"hello ${type}"}\n`);
  }
});

const testProgram = `
import { task } from "@codeq/client";
import { testServer } from "@codeq/client/testing";
const greet = task<{ name: string }, { text: string }>("greet");
await using server = await testServer();
server.client.worker(greet.handle(({ name }) => ({ text: "hello " + name })));
const run = await server.client.enqueue(greet, { name: "Ada" }, { delay: "1h" });
await server.advance("1h");
console.log(JSON.stringify(await run.result()));
`;

test("with the tarball of the server beside it, the test server works", async (t) => {
  const project = emptyProject(t);
  await install(project, tarballIn(packed, "client"));
  // What the server needs from outside is taken from this repository instead of a registry.
  const scope = join(project, "node_modules/@codeq/server");
  mkdirSync(scope, { recursive: true });
  await run("tar", ["xzf", tarballIn(packed, "server"), "--strip-components=1", "-C", scope]);
  const { dependencies } = JSON.parse(readFileSync(join(scope, "package.json"), "utf8"));
  for (const name of Object.keys(dependencies).filter((each) => !each.startsWith("@codeq/"))) {
    const target = join(project, "node_modules", name);
    mkdirSync(join(target, ".."), { recursive: true });
    symlinkSync(join(root, "node_modules", name), target);
  }
  writeFileSync(join(project, "program.ts"), testProgram);
  const { stdout } = await run(process.execPath, ["program.ts"], { cwd: project });
  assert.equal(stdout, '{"text":"hello Ada"}\n');
});
