/**
 * What somebody meets who has an empty folder and the published packages: pack and install them as the page
 * says, start a server, have a task, a worker and a test written, run them, and see a result.
 */
import assert from "node:assert/strict";
import { execFile, spawn, spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { type TestContext, test } from "node:test";
import { promisify } from "node:util";
import { publishedFolders } from "../../scripts/package-tarball.ts";
import { Child, root, temporaryDirectory } from "../e2e/server-process.ts";
import { PageRun } from "../guides/page-run.ts";
import { oldestNode } from "../install/oldest-node.ts";
import { runBlocks } from "../install/page-blocks.ts";

const run = promisify(execFile);

/** Without the installation a result takes about 2 s. Far more than that is a timeout or a retry. */
const pathMsMax = 30_000;

interface User {
  readonly directory: string;
  readonly env: Record<string, string>;
  /** Runs an installed command to its end. */
  codeq(...argv: string[]): Promise<{ stdout: string; stderr: string }>;
  /** Starts one that goes on; ends with the test. */
  start(...words: string[]): Child;
}

function newUser(t: TestContext, directory: string): User {
  const env: Record<string, string> = {
    ...(process.env as Record<string, string>),
    PATH: `${dirname(process.execPath)}${delimiter}${process.env["PATH"]}`,
    HOME: directory,
  };
  const bin = join(directory, "node_modules/.bin/codeq");
  return {
    directory,
    env,
    codeq: (...argv) => run(bin, argv, { cwd: directory, env }),
    start: (program = "", ...argv) => {
      const path = program === "codeq" ? bin : program;
      const stdio = ["ignore", "pipe", "pipe"] as const;
      const child = new Child(spawn(path, argv, { cwd: directory, env, stdio: [...stdio] }));
      t.after(() => {
        child.signal("SIGTERM");
        return child.exited;
      });
      return child;
    },
  };
}

/** As the page says; the cache is warm, and where npm keeps it for whoever runs the tests. */
async function install(directory: string): Promise<void> {
  const cache = spawnSync("npm", ["config", "get", "cache"], { encoding: "utf8" }).stdout.trim();
  const quick = {
    npm_config_prefer_offline: "true",
    npm_config_audit: "false",
    npm_config_fund: "false",
  };
  const env = { ...process.env, ...quick, npm_config_cache: cache };
  const printed = await runBlocks("sh tarballs", directory, env);
  assert.match(printed.at(-1) ?? "", /^codeq \d+\.\d+\.\d+ \(Node /m);
}

const anyPort = ["--port", "0", "--worker-stream-addr", ":0", "--producer-stream-addr", ":0"];

/** Everything behind the installation; gives the time it took. */
async function walk(user: User): Promise<number> {
  const startedMs = performance.now();
  const dev = user.start("codeq", "dev", ...anyPort);
  const ready = dev.line((line) => line.includes("codeQ is ready"));
  await user.codeq("init", "--language", "js");
  user.env["CODEQ_BASE_URL"] = /http:\/\/\S+/.exec(await ready)?.[0] ?? "";
  const worker = user.start("node", "codeq/worker.mjs");
  const { stdout } = await user.codeq("enqueue", "greet", '{"name":"Ada"}', "--wait");
  const tookMs = performance.now() - startedMs;
  assert.equal(stdout, '{"text":"Hello, Ada! (attempt 1)"}\n', worker.stderr);
  for (const child of [worker, dev]) {
    child.signal("SIGINT");
    await child.exited;
  }
  return tookMs;
}

test("an empty folder, the commands of the page that install the tarballs, and a result", async (t) => {
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  const folder = join(directory.path, "my-project");
  const user = newUser(t, folder);
  const startedMs = performance.now();
  await install(directory.path);
  checkInstalled(folder);
  const walkedMs = await walk(user);
  const allMs = performance.now() - startedMs;
  const shown = [allMs, walkedMs].map((ms) => `${Math.round(ms)} ms`);
  t.diagnostic(`with install ${shown[0]}, without ${shown[1]}`);
  assert.ok(walkedMs < pathMsMax, `without the installation it took ${shown[1]}`);
  await t.test("the oldest Node that is supported", async (oldest) => {
    const node = oldestNode();
    if ("missing" in node) {
      oldest.skip(node.missing);
      return;
    }
    user.env["PATH"] = `${node.path}${delimiter}${user.env["PATH"]}`;
    rmSync(join(folder, "codeq"), { recursive: true });
    await walk(user);
    await run("node", ["--test", "codeq/tasks.test.mjs"], { cwd: folder, env: user.env });
  });
  await user.codeq("init", "--language", "ts", "--dir", "typed");
  await run(process.execPath, ["--test", "typed/tasks.test.mts"], { cwd: folder });
  await checkTypes(folder);
  await t.test(
    "the quick start, word for word, with the packages installed here",
    async (quick) => {
      await new PageRun(quick, { installed: folder }).run("docs/guide/quick-start.md");
    },
  );
});

/** Types come with the packages: what is right compiles, and what is wrong does not. */
async function checkTypes(folder: string): Promise<void> {
  writeFileSync(
    join(folder, "typed.ts"),
    `import { limits } from "@codeq/server/command-line";
import { loadConfig } from "@codeq/server/config";
import { composeCore } from "@codeq/server";
export const right: number = limits.priorityMax;
// @ts-expect-error It is a number.
export const wrong: string = limits.priorityMax;
export { composeCore, loadConfig };
`,
  );
  const tsc = join(root, "node_modules/typescript/bin/tsc");
  const types = ["--typeRoots", join(root, "node_modules/@types"), "--types", "node"];
  const target = ["--target", "es2024", "--lib", "es2024,esnext.disposable"];
  const module = ["--module", "nodenext", "--allowImportingTsExtensions"];
  const files = ["typed.ts", "typed/worker.mts", "typed/tasks.test.mts"];
  const flags = ["--noEmit", "--strict", ...module, ...target, ...types];
  await run(process.execPath, [tsc, ...flags, ...files], { cwd: folder });
}

/** Each is there once, so that a test and the command use the same server, and could be published. */
function checkInstalled(folder: string): void {
  const scope = join(folder, "node_modules/@codeq");
  // NestJS is for those who have it.
  const wanted = publishedFolders.filter((name) => name !== "nest");
  assert.deepEqual(readdirSync(scope).sort(), wanted.sort());
  for (const name of wanted) {
    const manifest = readFileSync(join(scope, name, "package.json"), "utf8");
    const { private: isPrivate, dependencies } = JSON.parse(manifest);
    assert.equal(isPrivate, undefined, name);
    for (const each of Object.keys(dependencies).filter((own) => own.startsWith("@codeq/"))) {
      const isInside = existsSync(join(scope, name, "node_modules", each));
      const isShared = publishedFolders.some((other) => each === `@codeq/${other}`);
      assert.equal(isInside, !isShared, `${each} in ${name}`);
    }
  }
}
