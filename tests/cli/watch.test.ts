/** Queues, rates and what happens, as JSON and as text without a terminal. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { jsonLines, setup } from "./setup.ts";

test("queues shows a table, one queue, JSON, and looks again and again", async (t) => {
  const { world } = await setup(t);
  const cli = world();
  assert.equal((await cli.run("queues")).output, "no tasks in any queue\n");
  await cli.run("enqueue", "a");
  await cli.run("enqueue", "b", "--delay", "1h");
  const table = await cli.run("queues");
  assert.equal(
    table.output,
    "QUEUE  READY  DELAYED  RUNNING  DEAD\n" +
      "a          1        0        0     0\n" +
      "b          0        1        0     0\n",
  );
  const one = JSON.parse((await cli.run("queues", "A", "--json")).output);
  assert.deepEqual(one.queues, [{ command: "A", ready: 1, delayed: 0, inProgress: 0, dlq: 0 }]);
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

test("tail tells what happens from now on, and goes on when the server is back", async (t) => {
  const { world, server, dataDir } = await setup(t);
  const cli = world();
  await cli.run("enqueue", "before");
  const tail = world();
  const tailing = tail.run("tail", "--interval", "100ms");
  const json = world();
  const jsonTailing = json.run("tail", "hello", "--json", "--interval", "100ms");
  const enqueueUntilSeen = async (): Promise<void> => {
    // The first look is only what later ones are compared with.
    const seen = Promise.all([tail.printed("hello"), json.printed("hello")]);
    for (let isSeen = false; !isSeen; ) {
      await cli.run("enqueue", "hello");
      isSeen = await Promise.race([seen.then(() => true), cli.run("queues").then(() => false)]);
    }
  };
  await enqueueUntilSeen();
  assert.match(
    tail.output,
    /^\d\d:\d\d:\d\d {2}hello {2}\d+ enqueued {2}\(ready \d+, running 0\)\n/,
  );
  assert.doesNotMatch(tail.output, /before/);
  await server.kill();
  await tail.printed("cannot be reached");
  await setup(t, { dataDir, env: { PORT: String(server.port) } });
  await tail.printed("the server is back");
  tail.stop();
  json.stop();
  assert.equal((await tailing).code, 0);
  await jsonTailing;
  assert.deepEqual(Object.keys(jsonLines(json.output)[0] ?? {}), [
    ...["time", "queue", "created", "claimed", "completed", "failed", "expired"],
    ...["ready", "delayed", "inProgress", "dlq"],
  ]);
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
    "queues",
  ]);
  const [queue = {}] = (line?.["queues"] ?? []) as object[];
  assert.deepEqual(Object.keys(queue), [
    ...["queue", "oldestSeconds", "inPerSecond", "outPerSecond", "failedPerSecond"],
    ...["latencyP50Ms", "latencyP99Ms", "ready", "delayed", "inProgress", "dlq"],
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
  assert.equal((await cli.run("queues")).output, "no tasks in any queue\n");
});
