/** Tasks from the command line: in, out, waited for, refused. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { jsonLines, setup } from "./setup.ts";

const idPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/;

test("a task goes in, is done by a command, and its result comes out, digit for digit", async (t) => {
  const { world } = await setup(t);
  const worker = world();
  const working = worker.run("work", "hello", "--max", "1", "--", "cat");
  const { code, output, errors } = await world().run(
    ...["enqueue", "hello", '{"name":"world","big":12345678901234567890}', "--wait"],
  );
  assert.equal(code, 0, errors);
  assert.equal(output, '{"name":"world","big":12345678901234567890}\n');
  assert.match(errors, /^enqueued [0-9a-f-]{36}\n$/);
  assert.equal((await working).code, 0);
  assert.match(worker.output, /completed {2}hello/);
});

test("enqueue, get and result have stable JSON", async (t) => {
  const { world } = await setup(t);
  const cli = world({ input: '{"from":"input"}' });
  writeFileSync(join(cli.directory, "payload.json"), '{"from":"file"}\n');
  const created = await cli.run(
    ...["enqueue", "Resize", "@payload.json", "--json", "--priority", "7", "--max-attempts", "2"],
  );
  const task = JSON.parse(created.output);
  assert.match(task.id, idPattern);
  assert.equal(task.command, "Resize");
  assert.equal(task.payload, '{"from":"file"}');
  assert.equal(task.priority, 7);
  assert.equal(task.maxAttempts, 2);
  const got = await cli.run("get", task.id, "--json");
  assert.deepEqual(JSON.parse(got.output), task);
  const shown = await cli.run("get", task.id);
  assert.match(shown.output, /command +Resize\nstatus +PENDING \(ready\)\nattempts +0 of 2\n/);
  assert.match(shown.output, /payload\n\{\n {2}"from": "file"\n\}/);
  const piped = JSON.parse((await cli.run("enqueue", "x", "-", "--json")).output);
  assert.equal(piped.payload, '{"from":"input"}');
  const text = JSON.parse((await cli.run("enqueue", "x", "just words", "--text", "--json")).output);
  assert.equal(text.payload, '"just words"');
  const empty = JSON.parse((await cli.run("enqueue", "x", "--json")).output);
  assert.equal(empty.payload, "{}");
});

test("a delayed task waits, and a key makes no second task", async (t) => {
  const { world } = await setup(t);
  const cli = world();
  const delayed = JSON.parse((await cli.run("enqueue", "later", "--delay", "1h", "--json")).output);
  assert.equal(delayed.lastKnownLocation, "DELAYED_ZSET");
  const shown = await cli.run("get", delayed.id);
  assert.match(shown.output, /^status +PENDING \(delayed\)\ndue +\d{4}-\d\d-\d\dT\d\d:\d\d/m);
  const first = await cli.run("enqueue", "once", "--key", "k");
  const second = await cli.run("enqueue", "once", "--key", "k");
  assert.match(first.output, /^enqueued /);
  assert.equal(second.output, first.output.replace("enqueued", "already enqueued"));
  const other = await cli.run("enqueue", "once", '{"other":1}', "--key", "k");
  assert.equal(other.code, 11);
  assert.match(other.errors, /idempotency key reused/);
  const lenient = await cli.run(
    "enqueue",
    "once",
    '{"other":1}',
    "--key",
    "k",
    "--key-mode",
    "first",
  );
  assert.equal(lenient.output, second.output);
  const found = await cli.run("get", "k", "--by-key", "--json");
  assert.equal(JSON.parse(found.output).id, first.output.trim().replace("enqueued ", ""));
  const unknown = await cli.run("get", "nobody", "--by-key");
  assert.match(unknown.errors, /not found/);
});

test("a unique key has one task, as long as its options say", async (t) => {
  const { world } = await setup(t);
  const cli = world();
  const send = (payload: string, ...more: string[]) =>
    cli.run("enqueue", "sync", payload, "--unique", "ada", ...more);
  const first = await send("1", "--unique-while", "waiting", "--unique-for", "10m");
  const again = await send("2");
  assert.equal(again.output, first.output.replace("enqueued", "already enqueued"));
  const debounce = ["--delay", "1h", "--unique-max-wait", "2h"];
  const last = await send("3", "--unique-on", "replace", ...debounce, "--json");
  const { payload, replaced, lastKnownLocation } = JSON.parse(last.output);
  assert.deepEqual([payload, replaced, lastKnownLocation], ["3", 1, "DELAYED_ZSET"]);
  assert.match(
    (await send("4", "--unique-on", "refuse")).errors,
    /the unique key "ada" is held by task/,
  );
  const keyless = await cli.run("enqueue", "sync", "1", "--unique-on", "latest");
  assert.match(keyless.errors, /--unique is missing/);
  const place = await send("5", "--unique-while", "sometimes");
  assert.match(place.errors, /unfinished, waiting/);
});

test("a failed task ends the command as failed, with the reason", async (t) => {
  const { world } = await setup(t);
  const working = world().run(
    "work",
    "bad",
    "--max",
    "1",
    "--",
    "sh",
    "-c",
    "echo no >&2; exit 65",
  );
  const { code, output, errors } = await world().run("enqueue", "bad", "--wait");
  await working;
  assert.equal(code, 9);
  assert.equal(output, "");
  assert.match(errors, /error: the task [0-9a-f-]+ failed.*: exit code 65: no/);
  const [, id = ""] = /the task (\S+) failed/.exec(errors) ?? [];
  const result = await world().run("result", id, "--json");
  assert.equal(result.code, 9);
  const parsed = JSON.parse(result.output);
  assert.deepEqual(Object.keys(parsed), ["result", "task"]);
  assert.equal(parsed.result.status, "FAILED");
});

test("the attempt that ended a task counts, and one that never began does not", async (t) => {
  const { world } = await setup(t);
  const cli = world();
  const id = JSON.parse((await cli.run("enqueue", "bad", "--json")).output).id;
  await cli.run("work", "bad", "--max", "1", "--", "true");
  assert.match((await cli.run("get", id)).output, /attempts +1 of 5\n/);
  assert.match((await cli.run("tasks", "bad")).output, / done +1\/5 /);
  const cancelled = JSON.parse((await cli.run("enqueue", "bad", "--json")).output).id;
  await cli.run("cancel", cancelled);
  const { code, errors } = await cli.run("result", cancelled);
  assert.deepEqual([code, /failed after 0 attempt\(s\)/.test(errors)], [9, true], errors);
});

test("a task that ends as a dead letter ends the command as failed, with the reason", async (t) => {
  const { world } = await setup(t);
  const script = "echo no >&2; exit 7";
  const working = world().run("work", "bad", "--max", "1", "--", "sh", "-c", script);
  const waited = await world().run("enqueue", "bad", "--wait", "--max-attempts", "1");
  await working;
  assert.equal(waited.code, 9, waited.errors);
  const told = /error: the task ([0-9a-f-]+) failed after 1 attempt\(s\): exit code 7: no/;
  const [, id = ""] = told.exec(waited.errors) ?? [];
  assert.notEqual(id, "", waited.errors);
  const result = await world().run("result", id);
  assert.equal(result.code, 9);
  assert.match(result.errors, told);
});

test("every way to fail has its exit code, and says what to do next", async (t) => {
  const { world, server } = await setup(t);
  const cli = world();
  const nobody = "00000000-0000-7000-8000-000000000000";
  const waiting = JSON.parse((await cli.run("enqueue", "x", "--json")).output).id as string;
  const grpcUrl = `http://127.0.0.1:${server.workerStreamPort}`;
  const cases: [argv: string[], code: number, text: RegExp][] = [
    [["get", nobody], 8, /error: not found\n {2}next: /],
    [["result", waiting], 8, /result not found/],
    [
      ["result", waiting, "--wait", "--timeout", "50ms"],
      10,
      /no result arrived before the timeout\n.*result .* --wait/,
    ],
    [["get", nobody, "--token", "wrong"], 7, /refused \(401\).*\n.*came from --token/],
    [["enqueue", "x", "{bad"], 2, /not JSON\n.*quote the payload/],
    [["enqueue", "x", "null"], 2, /cannot be null/],
    [["enqueue", "x", "@none"], 2, /does not exist/],
    [["enqueue", "no good"], 2, /not a valid command name/],
    [["enqueue", "x", "--run-at", "tomorrow"], 2, /--run-at must be a time such as 2030-/],
    [["key", "revoke", "none"], 8, /API key not found\n {2}next: codeq key list/],
    [
      ["get", nobody, "--base-url", grpcUrl],
      11,
      /this port is for gRPC streams; send HTTP requests to /,
    ],
    [["nack", waiting], 11, /not-in-progress/],
    [["enqueue", "x", "--webhook", "nonsense"], 11, /refused \(400\)/],
  ];
  for (const [argv, code, text] of cases) {
    const end = await cli.run(...argv);
    assert.equal(end.code, code, `${argv.join(" ")}: ${end.errors}`);
    assert.match(end.errors, text);
    const json = await cli.run(...argv, "--json");
    assert.equal(JSON.parse(json.errors).error.exitCode, code);
  }
  await server.stop();
  const gone = await cli.run("get", waiting);
  assert.equal(gone.code, 6);
  assert.match(gone.errors, /cannot be reached: nothing listens there\n.*codeq dev/);
});

test("waiting goes on through a restart of the server", async (t) => {
  const { world, server, dataDir } = await setup(t);
  const cli = world();
  const waiting = cli.run("enqueue", "slow", "--wait", "--timeout", "60s");
  await cli.printed("enqueued");
  await server.kill();
  await cli.printed("trying again");
  const again = await setup(t, { dataDir, env: { PORT: String(server.port) } });
  await again.world().run("work", "slow", "--max", "1", "--", "echo", '{"ok":true}');
  assert.deepEqual((await waiting).output, '{"ok":true}\n');
});

test("Ctrl-C ends the waiting, and the task goes on", async (t) => {
  const { world } = await setup(t);
  const cli = world();
  const waiting = cli.run("enqueue", "slow", "--wait");
  await cli.printed("enqueued");
  cli.stop();
  const { code, errors } = await waiting;
  assert.equal(code, 130);
  assert.match(errors, /the task continues; .*codeq result .* --wait/);
});

test("a line each becomes a task, and bad ones are told by number", async (t) => {
  const { world } = await setup(t);
  const lines = Array.from({ length: 1203 }, (_, n) => JSON.stringify({ n }));
  lines[4] = "{bad";
  lines[1200] = "null";
  const cli = world({ input: `${lines.join("\n")}\n\n` });
  const { code, output, errors } = await cli.run("enqueue", "import", "-", "--lines");
  assert.equal(code, 11);
  assert.match(output, /^enqueued 1,202 in /);
  assert.match(errors, /line 5: not JSON\nerror: 1 line\(s\) were not stored\n/);
  const { queues } = JSON.parse((await cli.run("queues", "--json")).output);
  assert.deepEqual([queues.length, queues[0].command, queues[0].ready], [1, "import", 1202]);
  const json = world({ input: '1\n"two"\nthree' });
  // Another run makes other keys.
  json.host().random(1);
  const told = jsonLines((await json.run("enqueue", "import", "--lines", "--json")).output);
  assert.deepEqual(
    told.map(({ line, error }) => [line, error]),
    [
      [3, "not JSON"],
      [1, undefined],
      [2, undefined],
    ],
  );
  assert.match(String(told[1]?.["id"]), idPattern);
});

test("get shows where an attempt failed, with line breaks and without control characters", async (t) => {
  const { world, server } = await setup(t);
  const cli = world();
  const { id } = JSON.parse((await cli.run("enqueue", "mail", "--json")).output);
  const post = (path: string, body: object): Promise<Response> =>
    fetch(`${server.url}/v1/codeq/tasks/${path}`, {
      method: "POST",
      headers: { authorization: "Bearer dev-token", "content-type": "application/json" },
      body: JSON.stringify(body),
    });
  await post("claim", { commands: ["mail"] });
  const stack = "    at send (mail.ts:3:7)\ncaused by: \u001b[31mno route";
  const nacked = await post(`${id}/nack`, { reason: "busy\nline", stack, delaySeconds: 60 });
  assert.equal(nacked.status, 200);
  const { output } = await cli.run("get", id);
  assert.match(output, /^error {5}busy\n {10}line$/m);
  assert.match(
    output,
    /nacked: busy\n {5}line, again after 60 s\n {9}at send \(mail\.ts:3:7\)\n {5}caused by: no route$/m,
  );
});
