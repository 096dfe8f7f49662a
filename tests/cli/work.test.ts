/** Workers from the command line, and what they do with a task by hand. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createReadStream, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { type Child, startServer } from "../e2e/server-process.ts";
import { jsonLines, setup, startCommand } from "./setup.ts";

/** What a server offers decides how the worker talks to it. */
const ways = {
  streams: {},
  http: { WORKER_STREAM_ADDR: "off", PRODUCER_STREAM_ADDR: "off" },
};

/** Resolves when a text is on the error output. */
function shown(child: Child, text: string): Promise<void> {
  return new Promise((resolve) => {
    const check = (): void => {
      if (child.stderr.includes(text)) resolve();
    };
    child.process.stderr?.on("data", check);
    check();
  });
}

async function enqueue(
  cli: { run: (...argv: string[]) => Promise<{ output: string }> },
  name: string,
) {
  const { output } = await cli.run("enqueue", name, '{"n":1}', "--json", "--max-attempts", "3");
  return JSON.parse(output).id as string;
}

test("a module does tasks, several at a time, and tells each as JSON", async (t) => {
  const { world } = await setup(t);
  const cli = world();
  const ids = [await enqueue(cli, "sum"), await enqueue(cli, "sum"), await enqueue(cli, "sum")];
  const text = "export default ({ n }, { attempt }) => ({ sum: n + attempt });";
  writeFileSync(join(cli.directory, "sum.mjs"), text);
  const { code, output } = await cli.run(
    ...["work", "sum", "--module", "./sum.mjs", "--concurrency", "2", "--max", "3", "--json"],
  );
  assert.equal(code, 0);
  const events = jsonLines(output);
  const ended = events.filter(({ event }) => event === "ended");
  assert.deepEqual(ended.map(({ id }) => id).sort(), ids.sort());
  assert.deepEqual(Object.keys(ended[0] ?? {}), [
    ...["time", "event", "as", "tookMs", "id", "command", "attempt"],
  ]);
  assert.equal((await cli.run("result", ids[0] ?? "")).output, '{"sum":2}\n');
});

for (const [way, env] of Object.entries(ways)) {
  test(`a command that fails gives the task back, until it is dead (${way})`, async (t) => {
    const { world } = await setup(t, {
      env: { ...env, BACKOFF_POLICY: "fixed", BACKOFF_BASE_SECONDS: "1" },
    });
    const cli = world();
    const id = await enqueue(cli, "bad");
    const { output } = await cli.run(
      "work",
      "bad",
      "--max",
      "3",
      "--",
      "sh",
      "-c",
      "echo oh >&2; exit 7",
    );
    assert.match(output, /retried {2}bad .*: exit code 7: oh/);
    assert.match(output, /dead letter {2}bad/);
    const task = JSON.parse((await cli.run("get", id, "--json")).output);
    assert.equal(task.lastKnownLocation, "DLQ_SET");
    assert.equal(task.error, "exit code 7: oh");
  });

  test(`Ctrl-C in a real process hands the running task back, without costing an attempt (${way})`, async (t) => {
    const { world, server } = await setup(t, { env });
    const cli = world();
    const id = await enqueue(cli, "long");
    const script = "echo running >&2; exec tail -f /dev/null";
    const child = startCommand(["work", "long", "--grace", "100ms", "--", "sh", "-c", script], {
      directory: cli.directory,
      env: { CODEQ_BASE_URL: server.url },
    });
    t.after(() => child.kill());
    await shown(child, "running");
    child.signal("SIGINT");
    const exit = await child.exited;
    assert.equal(exit.code, 0, exit.stderr);
    assert.match(exit.stderr, /0 completed, 1 not/);
    const task = JSON.parse((await cli.run("get", id, "--json")).output);
    assert.equal(task.status, "PENDING");
    assert.equal(task.attempts, undefined);
  });
}

test("a result that comes too late is told as lost, and does not undo that of the next worker", async (t) => {
  const { world, server } = await setup(t, {
    env: { BACKOFF_POLICY: "fixed", BACKOFF_BASE_SECONDS: "1" },
  });
  const cli = world();
  const id = await enqueue(cli, "slow");
  const go = join(cli.directory, "go");
  execFileSync("mkfifo", [go]);
  // It goes on when the worker, once it is back, notices the lost lease and asks it to end.
  const script = 'trap "" TERM; echo running >&2; cat "$0"';
  const argv = ["work", "slow", "--max", "1", "--lease", "1s", "--", "sh", "-c", script, go];
  const child = startCommand(argv, {
    directory: cli.directory,
    env: { CODEQ_BASE_URL: server.url },
  });
  t.after(() => child.kill());
  await shown(child, "running");
  // The worker is as good as gone until somebody else has the task.
  child.signal("SIGSTOP");
  const headers = { authorization: "Bearer dev-token" };
  const claim = await fetch(`${server.url}/v1/codeq/tasks/claim`, {
    method: "POST",
    headers,
    body: '{"commands":["slow"],"waitSeconds":20}',
  });
  assert.equal(((await claim.json()) as { id: string }).id, id);
  writeFileSync(go, '{"from":"the first"}');
  child.signal("SIGCONT");
  await child.anyLine((line) => line.includes("lost") && line.includes(id));
  const exit = await child.exited;
  assert.equal(exit.code, 0, exit.stderr);
  assert.match(exit.stdout, /the server refused the result: .*not_owner/);
  assert.match(exit.stderr, /0 completed, 1 not/);
  const body = '{"status":"COMPLETED","result":{"from":"the second"}}';
  await fetch(`${server.url}/v1/codeq/tasks/${id}/result`, { method: "POST", headers, body });
  assert.equal((await cli.run("result", id)).output, '{"from":"the second"}\n');
});

test("a server that goes away and comes back is trouble, and the work goes on", async (t) => {
  const { world, server, dataDir } = await setup(t);
  const cli = world();
  const child = startCommand(["work", "x", "--max", "1", "--", "cat"], {
    directory: cli.directory,
    env: { CODEQ_BASE_URL: server.url },
  });
  t.after(() => child.kill());
  await shown(child, "waiting for tasks of x");
  await server.stop();
  await shown(child, "trying again");
  const again = await startServer({ dataDir, env: { PORT: String(server.port) } });
  t.after(() => again.kill());
  const id = await enqueue(cli, "x");
  const exit = await child.exited;
  assert.equal(exit.code, 0, exit.stderr);
  assert.equal((await cli.run("result", id)).output, '{"n":1}\n');
});

test("a program that is not there keeps a worker from starting, and no task is claimed", async (t) => {
  const { world } = await setup(t);
  const cli = world();
  const id = await enqueue(cli, "x");
  writeFileSync(join(cli.directory, "plain.txt"), "no program");
  for (const program of ["/no/such/prog", "no-such-program", "./plain.txt", "."]) {
    const { code, errors } = await cli.run("work", "x", "--max", "1", "--", program);
    assert.equal(code, 2, program);
    assert.match(errors, /the program .* was not found or is not executable; no task was claimed/);
  }
  const task = JSON.parse((await cli.run("get", id, "--json")).output);
  assert.deepEqual([task.status, task.attempts], ["PENDING", undefined]);
});

test("kill -9 of a worker ends its command too", async (t) => {
  const { world, server } = await setup(t);
  const cli = world();
  await enqueue(cli, "long");
  const pipe = join(cli.directory, "pipe");
  execFileSync("mkfifo", [pipe]);
  // The end of the pipe is the end of the command: nothing else writes into it.
  const reading = createReadStream(pipe);
  const ended = new Promise<void>((resolve) => reading.once("end", resolve));
  const script = 'exec >"$0"; echo begun; exec tail -f /dev/null';
  const child = startCommand(["work", "long", "--", "sh", "-c", script, pipe], {
    directory: cli.directory,
    env: { CODEQ_BASE_URL: server.url },
  });
  t.after(() => child.kill());
  await new Promise((resolve) => reading.once("data", resolve));
  reading.resume();
  child.signal("SIGKILL");
  await child.exited;
  await ended;
});

test("a worker without a command, a bad lease or a wrong token says so at once", async (t) => {
  const { world } = await setup(t);
  const cli = world();
  const none = await cli.run("work", "x");
  assert.equal(none.code, 2);
  assert.match(none.errors, /a program after --, or --module/);
  assert.equal((await cli.run("work", "x", "--lease", "1ms", "--", "cat")).code, 2);
  const many = Array.from({ length: 300 }, (_, n) => `x${n}`).join();
  assert.equal((await cli.run("work", many, "--", "cat")).code, 2);
});

for (const [way, env] of Object.entries(ways)) {
  test(`a wrong token ends a worker at once, and says where it came from (${way})`, async (t) => {
    const { world } = await setup(t, { env });
    const denied = await world().run("work", "x", "--token", "wrong", "--json", "--", "cat");
    assert.equal(denied.code, 7);
    const { code, serverCode, next } = JSON.parse(denied.errors).error;
    assert.deepEqual([code, serverCode], ["denied", "invalid_token"]);
    assert.match(next, /the token came from --token/);
  });
}

test("heartbeat, nack and abandon work on a lease, with its token", async (t) => {
  const { world, server } = await setup(t);
  const cli = world();
  const claim = async (): Promise<{ id: string; leaseToken: number }> => {
    const reply = await fetch(`${server.url}/v1/codeq/tasks/claim`, {
      method: "POST",
      headers: { authorization: "Bearer dev-token" },
      body: '{"commands":["x"],"waitSeconds":10}',
    });
    return (await reply.json()) as { id: string; leaseToken: number };
  };
  await enqueue(cli, "x");
  const first = await claim();
  const shown = await cli.run("get", first.id);
  assert.match(shown.output, /worker +static until .*, lease token 1/);
  assert.deepEqual(await cli.run("heartbeat", first.id, "--extend", "5m", "--lease-token", "1"), {
    code: 0,
    output: `extended ${first.id}\n`,
    errors: "",
  });
  const abandoned = JSON.parse((await cli.run("abandon", first.id, "--json")).output);
  assert.deepEqual(abandoned, { id: first.id, status: "requeued" });
  const second = await claim();
  assert.equal(second.leaseToken, 2);
  const stale = await cli.run("nack", first.id, "--lease-token", "1");
  assert.equal(stale.code, 7);
  assert.match(stale.errors, /not-owner\n.*only the worker that holds the lease/);
  const nacked = await cli.run("nack", first.id, "--delay", "90s", "--reason", "later");
  assert.equal(nacked.output, `${first.id} will be retried in 90 s\n`);
});
