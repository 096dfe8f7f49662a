import assert from "node:assert/strict";
import { test } from "node:test";
import { settle } from "@codeq/simulated";
import type { Client } from "../client.ts";
import { task } from "../client.ts";
import { TaskFailedError } from "../codeq-error.ts";
import type { ManyFunction, ManyOptions } from "../task.ts";
import { fakeContext, testServer } from "../test-server/index.ts";
import { Permanent, RetryIn } from "./outcome.ts";

const save = task<number, string>("save", { retry: { maxAttempts: 2, delay: "1m" } });

/** A handler that writes down which tasks its calls had. */
function saver(calls: number[][], options: ManyOptions, run?: ManyFunction<number, string>) {
  return save.handleMany(options, (tasks) => {
    calls.push(tasks.map(({ input }) => input));
    return run?.(tasks) ?? tasks.map(({ input }) => `saved ${input}`);
  });
}

const enqueue = (client: Client, inputs: readonly number[]) =>
  client.enqueueMany(
    save,
    inputs.map((input) => ({ input })),
  );

test("a function gets as many tasks as it takes, and the rest when their wait is over", async () => {
  await using server = await testServer();
  const calls: number[][] = [];
  server.client.worker(saver(calls, { max: 3, wait: "2s" }));
  const runs = await enqueue(server.client, [1, 2, 3, 4, 5]);
  await server.advance("1999ms");
  assert.deepEqual(calls, [[1, 2, 3]]);
  await server.advance("1ms");
  assert.deepEqual(calls, [
    [1, 2, 3],
    [4, 5],
  ]);
  const outputs = await Promise.all(runs.map((run) => run.result()));
  assert.deepEqual(outputs, ["saved 1", "saved 2", "saved 3", "saved 4", "saved 5"]);
});

test("each task has the outcome that the function gives for it", async () => {
  await using server = await testServer();
  const calls: number[][] = [];
  const outcomes: Record<number, Error> = {
    2: new Permanent("no such row"),
    3: new RetryIn("10m"),
    4: new Error("try again"),
  };
  const handler = saver(calls, { max: 4 }, (tasks) =>
    tasks.map(({ input, ctx }) => (ctx.attempt === 1 && outcomes[input]) || `saved ${input}`),
  );
  server.client.worker(handler);
  const [one, two, three, four] = await enqueue(server.client, [1, 2, 3, 4]);
  await server.advance("100ms");
  assert.equal(await one?.result(), "saved 1");
  await assert.rejects(two?.result() as Promise<unknown>, TaskFailedError);
  await server.advance("2m");
  assert.equal(await four?.result(), "saved 4");
  await server.advance("10m");
  assert.equal(await three?.result(), "saved 3");
  assert.deepEqual(calls, [[1, 2, 3, 4], [4], [3]]);
});

test("an error that is thrown, and a number of outcomes that is not that of the tasks, fail all", async () => {
  await using server = await testServer();
  const failed: string[] = [];
  let calls = 0;
  const handler = save.handleMany({ max: 2 }, () => {
    calls += 1;
    if (calls === 1) throw new Error("the database is away");
    return ["one"];
  });
  const on = { failed: (_ctx: unknown, error: unknown) => void failed.push(String(error)) };
  server.client.worker(handler, { on });
  await enqueue(server.client, [1, 2]);
  await server.runUntilIdle();
  const wrong =
    "CodeqError: the function of save got 2 tasks and returned 1 outcomes; return an output or an error for each task";
  const away = "Error: the database is away";
  assert.deepEqual(failed, [away, away, wrong, wrong]);
  assert.equal(server.counts(save).dead, 2);
});

test("a function that returns nothing completes tasks that have no output", async () => {
  await using server = await testServer();
  const note = task<string, void>("note");
  server.client.worker(note.handleMany({ max: 2 }, async () => {}));
  const run = await server.client.enqueue(note, "a");
  await server.advance("100ms");
  assert.equal(await run.result(), undefined);
});

test("a task that is cancelled while it waits for others is not given to the function", async () => {
  await using server = await testServer();
  const calls: number[][] = [];
  server.client.worker(saver(calls, { max: 2, wait: "10m" }));
  const [one] = await enqueue(server.client, [1]);
  await server.advance("1s");
  await one?.cancel();
  await server.advance("1m");
  assert.equal((await one?.status())?.status, "FAILED");
  await enqueue(server.client, [2, 3]);
  await server.advance(0);
  assert.deepEqual(calls, [[2, 3]]);
});

test("a worker that closes runs what it has gathered, and without a grace hands it back", async () => {
  await using server = await testServer();
  const calls: number[][] = [];
  const first = server.client.worker(saver(calls, { max: 10, wait: "10m" }));
  const [one] = await enqueue(server.client, [1]);
  await server.advance(0);
  await first.close();
  assert.equal(await one?.result(), "saved 1");
  const second = server.client.worker(saver(calls, { max: 10, wait: "10m" }));
  await enqueue(server.client, [2]);
  await server.advance(0);
  assert.equal(server.counts(save).leased, 1);
  const closed = second.close({ grace: 0 });
  await settle();
  await closed;
  assert.deepEqual(calls, [[1]]);
  const [, two] = await server.enqueued(save);
  assert.equal(two?.status, "PENDING");
});

test("the concurrency of a worker is at least what a function takes", async () => {
  await using server = await testServer();
  const calls: number[][] = [];
  const handler = saver(calls, { max: 50 });
  assert.throws(() => server.client.worker(handler, { concurrency: 49 }), {
    code: "invalid_option",
    message:
      "concurrency 49 is less than the max of save, whose calls would never be full; set it to 50 or more",
  });
  server.client.worker(handler);
  const numbers = Array.from({ length: 50 }, (_, at) => at);
  await enqueue(server.client, numbers);
  await server.advance(0);
  assert.deepEqual(calls, [numbers]);
});

test("options of handleMany that make no sense are refused", () => {
  const run = (): [] => [];
  for (const max of [0, 1.5, 10_001]) {
    assert.throws(() => save.handleMany({ max }, run), { code: "invalid_option" });
  }
  assert.throws(() => save.handleMany({ max: 1 }, undefined as never), { code: "invalid_option" });
  const short = task("short", { timeout: "1s" });
  assert.throws(() => short.handleMany({ max: 2, wait: "1s" }, run), {
    message: 'invalid wait "1s" of handleMany: less than the timeout of short',
  });
});

test("a handler of many tasks can be called with one, without a server", async () => {
  const handler = save.handleMany({ max: 2 }, (tasks) =>
    tasks.map(({ input }) => (input > 0 ? `saved ${input}` : new Permanent("not positive"))),
  );
  assert.equal(await handler.call(1, fakeContext()), "saved 1");
  await assert.rejects(handler.call(0, fakeContext()), Permanent);
});
