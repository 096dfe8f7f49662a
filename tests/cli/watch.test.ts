/** Queues, rates and what happens, as JSON and as text without a terminal. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { jsonLines, openFeeds, setup } from "./setup.ts";

test("queues shows a table, one queue, JSON, and looks again and again", async (t) => {
  const { world } = await setup(t);
  const cli = world();
  assert.equal((await cli.run("queues")).output, "no tasks in any queue\n");
  await cli.run("enqueue", "a");
  await cli.run("enqueue", "b", "--delay", "1h");
  const table = await cli.run("queues");
  const [head, a, b] = table.output.split("\n");
  assert.equal(
    head,
    "QUEUE  READY  DELAYED  RUNNING  DEAD  FAILED  IN/S  OUT/S  OLDEST  DRAIN".trim(),
  );
  assert.match(a ?? "", /^a +1 +0 +0 +0 +0 +0\.0 +0 +[\d.]+ m?s +-$/);
  assert.match(b ?? "", /^b +0 +1 +0 +0 +0 +0\.0 +0 +- +-$/);
  const one = JSON.parse((await cli.run("queues", "A", "--json")).output);
  assert.deepEqual([one.queues.length, one.queues[0].command, one.queues[0].ready], [1, "a", 1]);
  const watcher = world();
  const watching = watcher.run("queues", "--watch", "--json", "--interval", "100ms");
  await watcher.printed('"ready":1');
  await cli.run("enqueue", "a");
  await watcher.printed('"ready":2');
  watcher.stop();
  const { code, output } = await watching;
  assert.equal(code, 0);
  assert.deepEqual(Object.keys(jsonLines(output)[0] ?? {}), ["time", "queues"]);
});

test("on a terminal, a long name of a queue leaves room for the figures", async (t) => {
  const { world } = await setup(t);
  const longest = "q".repeat(128);
  await world().run("enqueue", longest);
  const terminal = world({ isTerminal: true, columns: 100, env: { NO_COLOR: "1" } });
  const { output, errors } = await terminal.run("queues");
  const lines = output.trim().split("\n");
  assert.match(lines[1] ?? "", /^q+… +1 +0 +0 +0 +0 /, errors);
  for (const line of lines) assert.ok(line.length <= 100, line);
  assert.match((await world().run("queues")).output, new RegExp(longest));
});

test("tail tells what happens to which task from now on, until Ctrl-C", async (t) => {
  // With jitter a retry may be due at once, which is not worth a word.
  const { world, server } = await setup(t, { env: { BACKOFF_POLICY: "fixed" } });
  const cli = world();
  await cli.run("enqueue", "before");
  const nodes = { CODEQ_BASE_URL: `http://127.0.0.1:9,${server.url}` };
  const [tail, json, failures] = [world(), world(), world({ env: nodes })];
  const tailing = [
    tail.run("tail"),
    json.run("tail", "HELLO", "--json"),
    failures.run("tail", "--type", "failed,retried"),
  ];
  await openFeeds(server, 3);
  await cli.run("enqueue", "other", "--priority", "3", "--delay", "1h");
  const { id } = JSON.parse((await cli.run("enqueue", "hello", "--json")).output);
  const worker = world();
  await worker.run("work", "hello", "--max", "1", "--", "false");
  await Promise.all([
    tail.printed("retried"),
    json.printed("retried"),
    failures.printed("retried"),
  ]);
  for (const each of [tail, json, failures]) each.stop();
  const ends = await Promise.all(tailing);
  assert.deepEqual(
    ends.map(({ code }) => code),
    [0, 0, 0],
  );
  const time = String.raw`\d\d:\d\d:\d\d`;
  const which = `hello {2}${id.slice(-8)}`;
  assert.match(
    tail.output,
    new RegExp(
      `^${time} {2}other {2}\\w{8} {2}created {2}priority 3, due in 3600 s\n` +
        `${time} {2}${which} {2}created\n` +
        `${time} {2}${which} {2}claimed {2}by .+\n` +
        `${time} {2}${which} {2}retried {2}by .+, due in \\d+ s, .+\n$`,
    ),
  );
  assert.equal(failures.output, `${tail.output.trimEnd().split("\n").at(-1)}\n`);
  const lines = jsonLines(json.output);
  assert.deepEqual(
    lines.map(({ event, taskId }) => [event, taskId]),
    ["created", "claimed", "retried"].map((event) => [event, id]),
  );
  assert.deepEqual(Object.keys(lines[0] ?? {}), [
    ...["event", "time", "tenantId", "taskId", "command", "priority", "attempt"],
  ]);
});

test("tail goes on when the server is back, after a stop and after a crash", async (t) => {
  const { world, server, dataDir } = await setup(t);
  const tail = world();
  const tailing = tail.run("tail");
  await openFeeds(server, 1);
  server.signal("SIGTERM");
  await tail.printed("the server is stopping");
  await server.exited;
  const second = await setup(t, { dataDir, env: { PORT: String(server.port) } });
  await tail.printed("the server is back; events in between are not shown");
  await second.world().run("enqueue", "again");
  await tail.printed(/again {2}\w{8} {2}created/);
  tail.errors = "";
  await second.server.kill();
  await tail.printed("cannot be reached");
  await setup(t, { dataDir, env: { PORT: String(server.port) } });
  await tail.printed("the server is back");
  tail.stop();
  assert.equal((await tailing).code, 0);
});

test("tail ends when its token does, and says what is wrong from the start", async (t) => {
  const { world, server } = await setup(t);
  const cli = world();
  const made = JSON.parse(
    (await cli.run("key", "create", "eyes", "--role", "admin", "--json")).output,
  );
  const tail = world({ env: { CODEQ_TOKEN: made.token } });
  const tailing = tail.run("tail");
  await openFeeds(server, 1);
  assert.equal((await cli.run("key", "revoke", made.id)).code, 0);
  const { code, errors } = await tailing;
  assert.equal(code, 7);
  assert.match(errors, /token was revoked\n[\s\S]*refused \(401\)/);
  assert.equal((await cli.run("tail", "a b")).code, 11);
  const wrong = await cli.run("tail", "--type", "exploded");
  assert.match(wrong.errors, /one or more of created, promoted/);
  const nowhere = world({ env: { CODEQ_BASE_URL: "http://127.0.0.1:9" } });
  assert.equal((await nowhere.run("tail")).code, 6);
});

test("top has JSON with stable fields, and wants a terminal otherwise", async (t) => {
  const { world } = await setup(t);
  const cli = world();
  await cli.run("enqueue", "a");
  const plain = await cli.run("top");
  assert.equal(plain.code, 2);
  assert.match(plain.errors, /codeq top --json/);
  const top = world();
  const looking = top.run("top", "--json", "--interval", "100ms");
  await top.printed(/\n.*\n/);
  top.stop();
  await looking;
  const [line] = jsonLines(top.output);
  assert.deepEqual(Object.keys(line ?? {}), [
    ...["time", "inPerSecond", "outPerSecond", "failedPerSecond", "expiredPerSecond"],
    ...["syncP50Ms", "syncP99Ms", "cpuShare", "upMs", "storage", "claimWaiters", "resultWaiters"],
    ...["workerStreams", "producerStreams", "heldReadys", "memoryBytes", "logBytes", "lagSeconds"],
    ...["queues", "workers"],
  ]);
  assert.deepEqual(line?.["workers"], []);
  const [queue = {}] = (line?.["queues"] ?? []) as object[];
  assert.deepEqual(Object.keys(queue), [
    ...["queue", "oldestSeconds", "inPerSecond", "outPerSecond", "failedPerSecond"],
    ...["latencyP50Ms", "latencyP99Ms", "ready", "delayed", "inProgress", "dlq", "lanes"],
  ]);
});

test("bench says how fast it was, and leaves nothing in a queue", async (t) => {
  const { world } = await setup(t, { env: { CODEQ_DURABILITY: "os" } });
  const cli = world();
  for (const batch of ["1", "20"]) {
    const { code, output } = await cli.run("bench", "--tasks", "100", "--batch", batch, "--json");
    assert.equal(code, 0);
    const report = JSON.parse(output);
    assert.deepEqual(Object.keys(report), [
      ...["tasks", "seconds", "tasksPerSecond", "enqueueMs", "pickupMs", "cycleMs"],
      ...["payloadBytes", "concurrency", "batch"],
    ]);
    assert.equal(report.tasks, 100);
    assert.ok(report.cycleMs.p50 > 0 && report.cycleMs.max >= report.cycleMs.p99);
  }
  assert.match(
    (await cli.run("bench", "--tasks", "10")).output,
    /10 tasks enqueued, claimed and completed/,
  );
  // A queue that was empty for a while is not listed any more.
  assert.match(
    (await cli.run("queues")).output,
    /^codeq-bench +0 +0 +0 +0 +0 |^no tasks in any queue$/m,
  );
});
