import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { systemClock } from "@codeq/server/command-line";
import { CliWorld } from "../../test/cli-world.ts";
import type { RunEnd, RunnableTask } from "./do-tasks.ts";
import { resultOf, runCommand } from "./run-command.ts";
import { runModule } from "./run-module.ts";

const task: RunnableTask = {
  id: "id-1",
  task: "hello",
  payloadText: '{"name":"world"}',
  attempt: 3,
  maxAttempts: 5,
  signal: new AbortController().signal,
};

function runner(words: string[], shown: string[] = []) {
  const { PATH } = process.env;
  const show = (text: string): void => void shown.push(text);
  return runCommand({ words, env: { PATH }, directory: process.cwd(), clock: systemClock, show });
}

function shell(script: string): Promise<RunEnd> {
  return runner(["sh", "-c", script])(task);
}

test("output that is an object is the result, and anything else is put into one", () => {
  assert.equal(resultOf('{"a":12345678901234567890}'), '{"a":12345678901234567890}');
  assert.equal(resultOf("[1]"), '{"value":[1]}');
  assert.equal(resultOf("5"), '{"value":5}');
  assert.equal(resultOf("plain text"), '{"output":"plain text"}');
  assert.equal(resultOf("{not json"), '{"output":"{not json"}');
  assert.equal(resultOf(""), "{}");
});

test("a command gets the payload and its task, and its output is the result", async () => {
  assert.deepEqual(await shell("cat"), { as: "completed", result: '{"name":"world"}' });
  assert.deepEqual(await shell('echo "$CODEQ_TASK_ID $CODEQ_TASK_COMMAND $CODEQ_TASK_ATTEMPT"'), {
    as: "completed",
    result: '{"output":"id-1 hello 3"}',
  });
  assert.deepEqual(await shell("true"), { as: "completed", result: "{}" });
});

test("the exit code decides: another try, or failed for good", async () => {
  assert.deepEqual(await shell("echo broken >&2; exit 3"), {
    as: "retry",
    reason: "exit code 3: broken",
  });
  assert.deepEqual(await shell("exit 65"), { as: "failed", error: "exit code 65" });
  assert.deepEqual(await shell("kill -9 $$"), { as: "retry", reason: "ended by SIGKILL" });
});

test("a command that cannot be started is tried again, because another machine may have it", async () => {
  const end = await runner(["/does/not/exist"])(task);
  assert.equal(end.as, "retry");
  assert.match(end.as === "retry" ? end.reason : "", /not found/);
});

test("what a command writes on its error output is shown", async () => {
  const shown: string[] = [];
  await runner(["sh", "-c", "echo careful >&2"], shown)(task);
  assert.equal(shown.join(""), "careful\n");
});

test("output without end fails the task instead of filling memory", async () => {
  const end = await shell("head -c 3000000 /dev/zero | tr '\\0' 'x'");
  assert.equal(end.as, "failed");
});

test("a stop reaches the command and what it has started", async () => {
  const stop = new AbortController();
  const script = "sh -c 'echo up >&2; exec tail -f /dev/null'; true";
  const run = runCommand({
    words: ["sh", "-c", script],
    env: { PATH: process.env["PATH"] },
    directory: process.cwd(),
    clock: systemClock,
    // The inner one is up; it holds the pipes, so there is no end before its own.
    show: () => stop.abort(),
  });
  assert.deepEqual(await run({ ...task, signal: stop.signal }), {
    as: "retry",
    reason: "ended by SIGTERM: up",
  });
});

test("what left the group of a command does not keep the worker waiting", async () => {
  const stop = new AbortController();
  let escaped = 0;
  const script = "setsid sh -c 'echo $$ >&2; exec tail -f /dev/null'; true";
  const run = runCommand({
    words: ["sh", "-c", script],
    env: { PATH: process.env["PATH"] },
    directory: process.cwd(),
    // The time after which a command is killed is over at once.
    clock: {
      ...systemClock,
      after: (_ms, kill) => {
        setImmediate(kill);
        return () => {};
      },
    },
    show: (text) => {
      escaped = Number(text);
      stop.abort();
    },
  });
  try {
    const end = await run({ ...task, signal: stop.signal });
    assert.equal(end.as, "retry");
  } finally {
    process.kill(escaped, "SIGKILL");
  }
});

async function moduleEnd(text: string): Promise<RunEnd> {
  using world = new CliWorld();
  writeFileSync(join(world.directory, "handler.mjs"), text);
  const run = await runModule("handler.mjs", world.directory);
  return run(task);
}

test("a module gets payload and context, and what it returns is the result", async () => {
  const text = `export default async ({ name }, { id, command, attempt, maxAttempts, signal }) =>
    ({ name, id, command, attempt, maxAttempts, aborted: signal.aborted });`;
  const end = await moduleEnd(text);
  const expected = { name: "world", id: "id-1", command: "hello", attempt: 3, maxAttempts: 5 };
  assert.equal(end.as, "completed");
  assert.deepEqual(JSON.parse(end.as === "completed" ? end.result : ""), {
    ...expected,
    aborted: false,
  });
  assert.deepEqual(await moduleEnd("export function handle() {}"), {
    as: "completed",
    result: "{}",
  });
});

test("what a module throws is a reason for another try, or the end", async () => {
  assert.deepEqual(await moduleEnd("export default () => { throw new Error('later'); }"), {
    as: "retry",
    reason: "later",
  });
  const permanent =
    "export default () => { throw Object.assign(new Error('no'), { permanent: true }); }";
  assert.deepEqual(await moduleEnd(permanent), { as: "failed", error: "no" });
  assert.deepEqual(await moduleEnd("export default () => { throw undefined; }"), {
    as: "retry",
    reason: "undefined",
  });
});

test("a module without a function, or that cannot be loaded, is the user's error", async () => {
  await assert.rejects(moduleEnd("export const x = 1;"), /exports no function/);
  await assert.rejects(moduleEnd("export default 5"), /exports no function/);
  await assert.rejects(moduleEnd("syntax error"), /cannot be loaded/);
  using world = new CliWorld();
  await assert.rejects(runModule("none.mjs", world.directory), /cannot be loaded/);
});
