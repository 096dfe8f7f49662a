import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

/** The real ones: what starts the server and stands in for it. */
const launchFiles = ["start/launch", "core/clock", "start/stop-requests"];

/** Stands in for the compiler: notes that it ran and leaves a server of a few lines. */
const compiler = `
const fs = require("node:fs");
process.removeAllListeners("warning");
const { stripTypeScriptTypes } = require("node:module");
console.error("compiler " + process.argv.slice(2).join(" "));
for (const name of ["protocol", "queue", "engine", "server"]) {
  for (const room of ["start", "core"]) {
    fs.mkdirSync("packages/" + name + "/dist/" + room, { recursive: true });
  }
  fs.writeFileSync("packages/" + name + "/dist/index.js", "");
}
fs.copyFileSync("packages/server/src/start/main.ts", "packages/server/dist/start/main.js");
for (const name of ${JSON.stringify(launchFiles)}) {
  const source = fs.readFileSync("packages/server/src/" + name + ".ts", "utf8");
  const plain = stripTypeScriptTypes(source).replaceAll('.ts";', '.js";');
  fs.writeFileSync("packages/server/dist/" + name + ".js", plain);
}
if (fs.existsSync("broken")) process.exit(2);
`;

const bundler = "exports.build = async () => ({ outputFiles: [] });";

/** Stands in for the server: counts signals, and ends on a line of its standard input. */
const server = `
let signals = [];
for (const name of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(name, () => {
  signals.push(name);
  console.log("got " + name);
});
process.on("disconnect", () => {
  console.log("orphaned");
  process.exit(0);
});
process.stdin.once("data", (line) => {
  const word = String(line).trim();
  console.log("signals " + signals.join(","));
  if (word === "crash") process.kill(process.pid, "SIGKILL");
  else process.exit(Number(word));
});
console.log("ready " + process.argv.slice(2).join(" ") + " pool " + process.env.UV_THREADPOOL_SIZE);
`;

function setup(t) {
  const root = mkdtempSync(join(tmpdir(), "codeq-start-"));
  t.after(() => rmSync(root, { recursive: true }));
  cpSync(import.meta.dirname, join(root, "scripts"), { recursive: true });
  for (const folder of [
    "node_modules/.bin",
    "node_modules/typescript/bin",
    "node_modules/esbuild",
    "packages/console/src",
    "packages/server/src/core",
    "packages/server/src/start",
  ]) {
    mkdirSync(join(root, folder), { recursive: true });
  }
  symlinkSync(process.execPath, join(root, "node_modules/.bin/node"));
  const packages = JSON.stringify({ packages: {} });
  writeFileSync(join(root, "package-lock.json"), packages);
  writeFileSync(join(root, "node_modules/.package-lock.json"), packages);
  writeFileSync(join(root, "node_modules/typescript/bin/tsc"), compiler);
  writeFileSync(join(root, "packages/server/src/start/main.ts"), server);
  // What starts it is the real one, which is an ES module.
  writeFileSync(join(root, "packages/server/package.json"), JSON.stringify({ type: "module" }));
  // The console of a checkout with nothing in it.
  writeFileSync(join(root, "node_modules/esbuild/index.js"), bundler);
  for (const name of ["index.html", "mark.svg"]) {
    writeFileSync(join(root, "packages/console/src", name), "");
  }
  const sources = join(import.meta.dirname, "../packages/server/src");
  for (const name of launchFiles) {
    cpSync(join(sources, `${name}.ts`), join(root, `packages/server/src/${name}.ts`));
  }
  return root;
}

/** Runs start.mjs and collects what it prints; `until` waits for a piece of it. */
function start(root, more = {}, ...args) {
  const { UV_THREADPOOL_SIZE: _, ...inherited } = process.env;
  const env = { ...inherited, ...more };
  const child = spawn(process.execPath, [join(root, "scripts/start.mjs"), ...args], { env });
  let text = "";
  let check = () => {};
  const collect = (chunk) => {
    text += chunk;
    check();
  };
  child.stdout.on("data", collect);
  child.stderr.on("data", collect);
  const ended = new Promise((resolve) => {
    child.on("close", (code, signal) => resolve({ code, signal, text }));
  });
  const until = (piece) =>
    new Promise((resolve, reject) => {
      check = () => text.includes(piece) && resolve(text);
      check();
      void ended.then((end) =>
        reject(new Error(`it ended without ${piece}: ${JSON.stringify(end)}`)),
      );
    });
  return { child, until, ended };
}

test("start compiles once, passes arguments on, and ends with the server's exit code", async (t) => {
  const root = setup(t);
  const first = start(root, {}, "--port", "0");
  assert.match(
    await first.until("ready"),
    /compiler -b packages\/server --force\nready --port 0 pool 8/,
  );
  first.child.stdin.write("7\n");
  assert.equal((await first.ended).code, 7);

  const second = start(root);
  second.child.stdin.write("0\n");
  const { code, text } = await second.ended;
  assert.equal(code, 0);
  assert.doesNotMatch(text, /compil/);

  writeFileSync(join(root, "packages/server/src/start/main.ts"), `${server}\n// changed`);
  const third = start(root);
  third.child.stdin.write("0\n");
  assert.match((await third.ended).text, /compiler -b packages\/server --force\n/);
});

test("start ends with an error and no server when the sources do not compile", async (t) => {
  const root = setup(t);
  writeFileSync(join(root, "broken"), "");
  for (const _ of [1, 2]) {
    const { code, text } = await start(root).ended;
    assert.equal(code, 1);
    assert.match(text, /compiler/);
    assert.doesNotMatch(text, /ready/);
  }
});

test("start passes a signal on once, even when it arrives twice as under npm", async (t) => {
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
    const run = start(setup(t));
    await run.until("ready");
    run.child.kill(signal);
    run.child.kill(signal);
    await run.until(`got ${signal}`);
    run.child.stdin.write("3\n");
    const { code, text } = await run.ended;
    assert.equal(code, 3);
    assert.match(text, new RegExp(`signals ${signal}\n`));
  }
});

test("start ends by the signal that ended the server", async (t) => {
  const run = start(setup(t));
  await run.until("ready");
  run.child.stdin.write("crash\n");
  assert.equal((await run.ended).signal, "SIGKILL");
});

test("a launcher that is killed takes the server with it", async (t) => {
  const run = start(setup(t));
  await run.until("ready");
  run.child.kill("SIGKILL");
  // Its output closes when the server has ended, too.
  const { signal, text } = await run.ended;
  assert.equal(signal, "SIGKILL");
  assert.match(text, /orphaned\n$/);
});

test("an installation that fails ends the start, runs no scripts and tries nothing else", async (t) => {
  const root = setup(t);
  rmSync(join(root, "node_modules/.package-lock.json"));
  const npm = join(root, "npm.cjs");
  writeFileSync(npm, `console.error("npm " + process.argv.slice(2).join(" ")); process.exit(1);`);
  const { code, text } = await start(root, { npm_execpath: npm }).ended;
  assert.equal(code, 1);
  // Warnings of npm are about packages of others, on the older Node that npm may run on.
  const quiet = "--no-audit --no-fund --loglevel=error";
  const words = `ci --include=dev --include=optional --ignore-scripts ${quiet}`;
  assert.deepEqual(
    text.split("\n").filter((line) => line.startsWith("npm ")),
    [`npm ${words}`],
  );
  assert.match(text, /error: npm ci failed/);
});
