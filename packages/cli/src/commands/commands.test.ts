import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { CliWorld } from "../../test/cli-world.ts";

test("init writes three files and never over one", async () => {
  using world = new CliWorld();
  const first = await world.run("init");
  assert.equal(first.code, 0, first.errors);
  assert.match(
    first.output,
    /wrote codeq\/tasks\.mts\nwrote codeq\/worker\.mts\nwrote codeq\/tasks\.test\.mts/,
  );
  assert.match(first.output, /npm init -y\n {2}npm install @codeq\/client @codeq\/server\n/);
  const path = join(world.directory, "codeq/tasks.mts");
  writeFileSync(path, "mine");
  const second = await world.run("init");
  assert.equal(second.code, 1);
  assert.match(second.errors, /would overwrite codeq\/tasks\.mts/);
  assert.equal(readFileSync(path, "utf8"), "mine");
});

test("a file that is in the way keeps all of them from being written", async () => {
  using world = new CliWorld();
  mkdirSync(join(world.directory, "codeq"));
  writeFileSync(join(world.directory, "codeq/tasks.test.mts"), "mine");
  assert.equal((await world.run("init")).code, 1);
  assert.equal(existsSync(join(world.directory, "codeq/tasks.mts")), false);
});

test("a file with the name of the folder is told apart from a folder", async () => {
  using world = new CliWorld();
  writeFileSync(join(world.directory, "codeq"), "mine");
  const { code, errors } = await world.run("init");
  assert.equal(code, 1);
  assert.match(errors, /^error: codeq is a file; nothing was written\n {2}next: .*--dir\n$/);
});

test("init speaks the language of the project", async () => {
  const cases: [manifest: object, args: string[], file: string][] = [
    [{}, [], "codeq/worker.mjs"],
    [{ type: "module" }, [], "codeq/worker.js"],
    [{ type: "commonjs" }, [], "codeq/worker.mjs"],
    [{ type: "module", devDependencies: { typescript: "5" } }, [], "codeq/worker.ts"],
    [{ type: "commonjs" }, ["--language", "ts"], "codeq/worker.mts"],
    [{ type: "module" }, ["--dir", "src/jobs"], "src/jobs/worker.js"],
  ];
  for (const [manifest, args, file] of cases) {
    using world = new CliWorld();
    writeFileSync(join(world.directory, "package.json"), JSON.stringify(manifest));
    const { output } = await world.run("init", ...args);
    assert.ok(existsSync(join(world.directory, file)), `${file}: ${output}`);
    const end = file.slice(file.lastIndexOf("."));
    assert.match(
      readFileSync(join(world.directory, file), "utf8"),
      new RegExp(`\\./tasks\\${end}"`),
    );
  }
});

test("init asks only for packages that are not there", async () => {
  using world = new CliWorld();
  const manifest = {
    dependencies: { "@codeq/client": "1" },
    devDependencies: { "@codeq/cli": "1" },
  };
  writeFileSync(join(world.directory, "package.json"), JSON.stringify(manifest));
  assert.doesNotMatch((await world.run("init")).output, /npm/);
});

test("what the operating system refuses is told without a stack", async () => {
  using world = new CliWorld();
  writeFileSync(join(world.directory, "codeq"), "a file");
  const { code, errors } = await world.run("init", "--dir", "codeq/tasks");
  assert.equal(code, 1);
  assert.match(errors, /^error: (ENOTDIR|EEXIST): .*\n$/);
});

test("init as the Go command line has it is answered with what to do instead", async () => {
  using world = new CliWorld();
  const { code, errors } = await world.run("init", "--no-prompt", "--producer-token", "x");
  assert.equal(code, 2);
  assert.match(errors, /codeq auth set/);
  assert.equal(existsSync(join(world.directory, "codeq")), false);
});

test("auth keeps, shows and clears tokens, and prints what the Go command line prints", async () => {
  using world = new CliWorld();
  const set = await world.run(
    "auth",
    "set",
    "--producer-token",
    "producer-secret-1",
    "--admin=false",
  );
  assert.deepEqual(set, {
    code: 0,
    output: "[OK] Credentials updated for 'default'\n",
    errors: "",
  });
  await world.run(
    "auth",
    "set",
    "--profile",
    "other",
    "--base-url",
    "http://o",
    "--token",
    "both-of-them-1",
  );
  const show = await world.run("auth", "show");
  assert.doesNotMatch(show.output, /producer-secret-1|both-of-them-1/);
  assert.match(show.output, /\* default\n +producerToken +prod\*\*\*\*\n +admin +false/);
  const json = JSON.parse((await world.run("auth", "show", "--json")).output);
  assert.deepEqual(json.profiles[1], {
    profile: "other",
    current: false,
    baseUrl: "http://o",
    producerToken: "both****",
    workerToken: "both****",
  });
  const cleared = await world.run("auth", "clear", "--profile", "other", "--worker");
  assert.equal(cleared.output, "[OK] Tokens cleared for 'other'\n");
  const after = JSON.parse((await world.run("auth", "show", "--json")).output);
  assert.equal(after.profiles[1].producerToken, "both****");
  assert.equal(after.profiles[1].workerToken, undefined);
  assert.equal((await world.run("auth", "set")).code, 2);
});

test("config print masks secrets and tells where values come from", async () => {
  using world = new CliWorld({ env: { PORT: "9001", WEBHOOK_HMAC_SECRET: "s3cret" } });
  const { output, code } = await world.run("config", "print", "--changed", "--durability", "os");
  assert.equal(code, 0);
  assert.doesNotMatch(output, /s3cret/);
  assert.match(output, /port +9001 +environment variable PORT/);
  assert.match(output, /durability +os +flag --durability/);
  assert.match(output, /webhookHmacSecret +\*\*\*/);
  const { settings } = JSON.parse((await world.run("config", "print", "--json")).output);
  assert.deepEqual(Object.keys(settings[0]), ["key", "value", "source"]);
  const bad = await world.run("config", "print", "--port", "x");
  assert.equal(bad.code, 2);
  assert.match(bad.errors, /port \(flag --port\): "x" is not accepted/);
});

test("errors are JSON when JSON was asked for, with code, message and what is next", async () => {
  using world = new CliWorld();
  const { code, errors, output } = await world.run("get", "x", "--base-url", "nonsense", "--json");
  assert.equal(output, "");
  const { error } = JSON.parse(errors);
  assert.deepEqual(Object.keys(error), ["code", "message", "next", "exitCode"]);
  assert.equal(error.code, "usage");
  assert.equal(error.exitCode, code);
});

test("version and help have JSON, too", async () => {
  using world = new CliWorld();
  const version = JSON.parse((await world.run("version", "--json")).output);
  assert.deepEqual(Object.keys(version), ["version", "node", "platform", "arch"]);
  const { commands } = JSON.parse((await world.run("help", "task", "--json")).output);
  assert.deepEqual(
    commands.map(({ name }: { name: string }) => name),
    ["task create", "task get", "task result"],
  );
  assert.equal(
    (await world.run("help", "enqueue")).output,
    (await world.run("enqueue", "-h")).output,
  );
  assert.equal((await world.run("help", "nonsense")).code, 2);
});
