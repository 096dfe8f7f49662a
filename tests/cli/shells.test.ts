/** Completion scripts, loaded by the shells that they are for. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { CliWorld } from "../../packages/cli/test/cli-world.ts";
import { ensureProgram } from "./programs.ts";

const run = promisify(execFile);

async function scriptFor(world: CliWorld, shell: string): Promise<string> {
  const { output, code } = await world.run("completion", shell);
  assert.equal(code, 0);
  const path = join(world.directory, `completion.${shell}`);
  writeFileSync(path, output);
  return path;
}

/** What a shell offers for the last word of a line. */
type Offers = (...words: string[]) => Promise<string[]>;

async function check(offers: Offers): Promise<void> {
  assert.deepEqual(await offers("codeq", "enq"), ["enqueue"]);
  assert.deepEqual(await offers("codeq", "task", ""), ["create", "get", "result"]);
  assert.deepEqual(await offers("codeq", "--base-url", "http://x", "queue"), ["queue", "queues"]);
  assert.deepEqual(await offers("codeq", "enqueue", "hello", "--prio"), ["--priority"]);
  assert.deepEqual(await offers("codeq", "completion", ""), ["bash", "fish", "zsh"]);
  assert.deepEqual(await offers("codeq", "worker", "start", "--ack", "n"), ["nack", "none"]);
  assert.deepEqual(await offers("codeq", "serve", "--durab"), ["--durability"]);
  assert.deepEqual(await offers("codeq", "log", "inspect", "--o"), ["--ops"]);
  assert.deepEqual(await offers("codeq", "backup", "--fu"), ["--full"]);
  assert.deepEqual(await offers("codeq", "backup", "v"), ["verify"]);
  assert.deepEqual(await offers("codeq", "pause", "ma"), ["mail", "mail.slow"]);
  assert.deepEqual(await offers("codeq", "jobs", "start", "replay", "re"), ["replay", "report"]);
  assert.deepEqual(await offers("codeq", "dlq", "replay", "--command", "rep"), ["report"]);
  assert.deepEqual(await offers("codeq", "jobs", "start", "move", "--to", "rep"), ["report"]);
}

/** A program that answers as `codeq queues --names` does. */
function pathWithQueues(world: CliWorld): string {
  const program = join(world.directory, "codeq");
  writeFileSync(
    program,
    `#!/bin/sh\n[ "$*" = "queues --names" ] && printf 'mail\\nmail.slow\\nreport\\n'\n`,
  );
  chmodSync(program, 0o755);
  return `${world.directory}:${process.env["PATH"]}`;
}

test("bash completes commands, options and values", async () => {
  using world = new CliWorld();
  const path = await scriptFor(world, "bash");
  await check(async (...words) => {
    const script = `
      source ${path}
      COMP_WORDS=("$@"); COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); COMPREPLY=()
      compopt() { :; }
      _codeq
      printf '%s\\n' "\${COMPREPLY[@]}"`;
    const env = { ...process.env, PATH: pathWithQueues(world) };
    const args = ["--norc", "-uc", script, "bash", ...words];
    const { stdout, stderr } = await run("bash", args, { env });
    assert.equal(stderr, "");
    return offered(stdout);
  });
  const registered = await run("bash", ["--norc", "-c", `source ${path}; complete -p codeq`]);
  assert.equal(registered.stdout, "complete -F _codeq codeq\n");
});

test("fish completes commands, options and values", async (t) => {
  if (!(await ensureProgram(t, "fish"))) return;
  using world = new CliWorld();
  const path = await scriptFor(world, "fish");
  await check(async (...words) => {
    const line = words.join(" ");
    const env = { ...process.env, HOME: world.directory, PATH: pathWithQueues(world) };
    const script = `source ${path}; complete -C "${line}"`;
    const { stdout } = await run("fish", ["--no-config", "-c", script], { env });
    return offered(stdout).filter((word) => !word.includes("/"));
  });
});

test("zsh loads the script and completes from it", async (t) => {
  if (!(await ensureProgram(t, "zsh"))) return;
  using world = new CliWorld();
  const path = await scriptFor(world, "zsh");
  await check(async (...words) => {
    // Completion functions only run while a line is edited; these stand in for what they call.
    const script = `
      compdef() { [[ "$1 $2" = "_codeq codeq" ]] || exit 3 }
      compadd() { shift; print -l -- $@ }
      _describe() { print -l -- \${(P)4%%:*} }
      _files() { : }
      source ${path}
      words=("$@"); CURRENT=$#words
      _codeq`;
    const env = { ...process.env, PATH: pathWithQueues(world) };
    const { stdout } = await run("zsh", ["-f", "-c", script, "zsh", ...words], { env });
    return offered(stdout).filter((word) => word.startsWith(words.at(-1) ?? ""));
  });
});

function offered(text: string): string[] {
  return text
    .split("\n")
    .map((line) => (line.split("\t")[0] ?? "").trim())
    .filter((word) => word !== "")
    .sort();
}
