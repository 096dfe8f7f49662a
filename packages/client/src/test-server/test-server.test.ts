import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { task, useClient } from "../client.ts";
import { Permanent } from "../worker/outcome.ts";
import { fakeContext, type LosableResponse, testServer } from "./index.ts";

const greet = task<{ name: string }, { text: string }>("greet");
const count = task<number, number>("count");

test("a task goes in, is done, and its result comes out, without time passing", async () => {
  await using server = await testServer({ startAt: new Date(Date.UTC(2026, 0, 2)) });
  server.client.worker(greet.handle(({ name }) => ({ text: `hello ${name}` })));
  const run = await server.client.enqueue(greet, { name: "Ada" });
  assert.deepEqual(await run.result(), { text: "hello Ada" });
  assert.deepEqual(server.now, new Date(Date.UTC(2026, 0, 2)));
});

test("tasks that enqueue themselves do it at the server of the test, until it is taken back", async () => {
  await using server = await testServer();
  await using other = await testServer();
  server.client.worker(greet.handle(({ name }) => ({ text: `hello ${name}` })));
  const mine = useClient(server.client);
  const others = useClient(other.client);
  others[Symbol.dispose]();
  assert.deepEqual(await greet.run({ name: "Ada" }, { priority: 9 }), { text: "hello Ada" });
  const run = await greet.enqueue({ name: "Grace" }, { delay: "1h" });
  assert.equal(server.counts(greet).delayed, 1);
  await server.advance("1h");
  assert.deepEqual(await run.result(), { text: "hello Grace" });
  mine[Symbol.dispose]();
});

test("what was enqueued can be looked at and expected, whatever became of it", async () => {
  await using server = await testServer();
  server.client.worker(greet.handle(({ name }) => ({ text: name })));
  const long = "x".repeat(100_000);
  const run = await server.client.enqueue(greet, { name: "Ada" }, { priority: 3, tags: ["a"] });
  await run.result();
  await server.advance("1s");
  const delayed = await server.client.enqueue(greet, { name: long }, { delay: "1h" });
  const [first, second, ...others] = await server.enqueued(greet);
  assert.deepEqual(others, []);
  const { id } = run;
  const input = { name: "Ada" };
  const fields = { priority: 3, tags: ["a"], runAt: undefined, status: "COMPLETED" };
  assert.deepEqual(first, { id, input, ...fields });
  assert.deepEqual([second?.id, second?.input], [delayed.id, { name: long }]);
  assert.equal(Number(second?.runAt), server.now.getTime() + 3_600_000);
  assert.equal((await server.expectEnqueued(greet, { name: "Ada" })).id, id);
  const nested = task<{ to: { name: string; tags: string[] }; n: number }, void>("nested");
  await server.client.enqueue(nested, { to: { name: "Ada", tags: ["x"] }, n: 1 });
  await server.expectEnqueued(nested, { to: { name: "Ada" } });
  await server.expectEnqueued(nested, { to: { tags: ["x"] }, n: 1 });
  const wrong = [{ n: 2 }, { to: { tags: [] } }, { to: { tags: ["y"] } }, { to: { name: "" } }];
  for (const each of wrong) {
    await assert.rejects(server.expectEnqueued(nested, each), {
      name: "AssertionError",
      message: "no task nested was enqueued with this input; 1 task is there",
    });
  }
});

test("a handler can be called without a server, and what it does with its context is seen", async () => {
  const handler = greet.handle(async ({ name }, ctx) => {
    ctx.signal.throwIfAborted();
    ctx.log(`greeting ${name}`);
    ctx.progress(0.5, "half");
    await ctx.artifact("a.txt", "hello");
    return { text: `hello ${name} ${ctx.attempt} ${ctx.task}` };
  });
  const ctx = fakeContext({ attempt: 2, task: "greet" });
  assert.deepEqual(await handler.call({ name: "Ada" }, ctx), { text: "hello Ada 2 greet" });
  assert.deepEqual(ctx.logged, ["greeting Ada"]);
  assert.deepEqual(ctx.progressed, [{ fraction: 0.5, note: "half" }]);
  assert.deepEqual([...ctx.artifacts], [["a.txt", "hello"]]);
  ctx.abort(new Error("stop"));
  await assert.rejects(handler.call({ name: "Ada" }, ctx), /stop/);
});

test("a server with several shards does all of their tasks, and counts them together", async () => {
  await using server = await testServer({ shards: 3 });
  const numbers = Array.from({ length: 30 }, (_, number) => number);
  const enqueue = (number: number) => server.client.enqueue(count, number, { delay: "1h" });
  // One after the other, since those of one turn go to the same shard.
  const runs = [];
  for (const number of numbers) runs.push(await enqueue(number));
  assert.deepEqual(server.counts(count), { ready: 0, delayed: 30, leased: 0, dead: 0 });
  await server.advance("1h");
  assert.equal(server.counts(count).ready, 30);
  server.client.worker(count.handle((n) => n + 1));
  await server.runUntilIdle();
  assert.deepEqual(
    await Promise.all(runs.map((run) => run.result())),
    numbers.map((number) => number + 1),
  );
  assert.equal(server.counts(count).ready, 0);
});

test("a number of shards that no server can have is refused", async () => {
  await assert.rejects(testServer({ shards: 0 }), /shards .* "0" is not accepted/);
  await assert.rejects(testServer({ shards: 65 }), /from 1 to 64/);
});

test("a delayed task is done when its time has come, and not a millisecond earlier", async () => {
  await using server = await testServer();
  const done: number[] = [];
  server.client.worker(
    greet.handle(() => {
      done.push(server.now.getTime());
      return { text: "" };
    }),
  );
  const startMs = server.now.getTime();
  await server.client.enqueue(greet, { name: "a" }, { delay: "1h" });
  assert.equal(server.counts(greet).delayed, 1);
  await server.advance(3_599_999);
  assert.deepEqual(done, []);
  await server.advance(1);
  assert.deepEqual(done, [startMs + 3_600_000]);
});

test("until idle: retries and delayed tasks come in their time, however long that takes", async () => {
  await using server = await testServer();
  const attempts: number[] = [];
  const flaky = task<null, string>("flaky", { retry: { maxAttempts: 4, delay: "10m" } });
  server.client.worker(
    flaky.handle((_input, ctx) => {
      attempts.push(server.now.getTime());
      if (ctx.attempt < 4) throw new Error("not yet");
      return "at last";
    }),
    { on: { failed: () => {} } },
  );
  const startMs = server.now.getTime();
  const run = await server.client.enqueue(flaky, null, { delay: "1h" });
  await server.runUntilIdle();
  assert.equal(await run.result(), "at last");
  const minutes = attempts.map((at) => (at - startMs) / 60_000);
  assert.deepEqual(minutes, [60, 70, 80, 90]);
});

test("until idle leaves alone what is due later, and says when nobody takes a task", async () => {
  await using server = await testServer();
  const worker = server.client.worker(count.handle((n) => n + 1));
  await server.client.enqueue(count, 1, { delay: "2d" });
  await server.runUntilIdle();
  assert.equal(server.counts(count).delayed, 1);
  await server.runUntilIdle({ within: "2d" });
  assert.equal(server.counts(count).delayed, 0);
  await worker.close();
  await server.client.enqueue(count, 2);
  await assert.rejects(server.runUntilIdle({ within: "1h" }), {
    code: "timeout",
    message: /^after 1h unfinished tasks have no worker \(count: 1 ready, 0 leased\); start/,
  });
});

test("until idle waits for handlers that do something real, and for tasks of tasks", async () => {
  await using server = await testServer();
  const parent = task<number, number>("parent");
  server.client.worker([
    count.handle(async (n) => {
      await readFile(import.meta.filename);
      return n + 1;
    }),
    parent.handle(async (n) => {
      const run = await server.client.enqueue(count, n, { delay: "1m" });
      return run.result();
    }),
  ]);
  const run = await server.client.enqueue(parent, 1);
  await server.runUntilIdle();
  assert.equal(await run.result(), 2);
});

test("a crashed worker's task goes to another one when its lease ends, and an attempt is counted", async () => {
  await using server = await testServer({ env: { BACKOFF_POLICY: "fixed" } });
  const seen: string[] = [];
  const hang = count.handle((_n, ctx) => {
    seen.push(`first ${ctx.attempt}`);
    return new Promise(() => {});
  });
  const worker = server.client.worker(hang);
  const run = await server.client.enqueue(count, 1);
  await server.advance(0);
  server.crashWorker(worker);
  assert.throws(() => server.crashWorker(worker), { code: "invalid_option" });
  server.client.worker(
    count.handle((n, ctx) => {
      seen.push(`second ${ctx.attempt}`);
      return n;
    }),
  );
  await server.advance("59s");
  assert.deepEqual(seen, ["first 1"]);
  await server.runUntilIdle();
  assert.deepEqual(seen, ["first 1", "second 2"]);
  assert.equal(await run.result(), 1);
});

test("a worker that is closed in time costs no attempt", async () => {
  await using server = await testServer();
  const seen: number[] = [];
  const stopping = count.handle(async (n, ctx) => {
    seen.push(ctx.attempt);
    if (seen.length === 2) return n;
    await new Promise((_resolve, reject) => {
      ctx.signal.addEventListener("abort", () => reject(ctx.signal.reason));
    });
    return n;
  });
  const worker = server.client.worker(stopping);
  const run = await server.client.enqueue(count, 1);
  await server.advance(0);
  const closed = worker.close({ grace: "1s" });
  await server.advance("1s");
  await closed;
  assert.equal(server.counts(count).ready, 1);
  server.client.worker(stopping);
  assert.equal(await run.result(), 1);
  assert.deepEqual(seen, [1, 1]);
});

test("whichever answer is lost, the work is done once and its result is there", async () => {
  const kinds: LosableResponse[] = ["enqueue", "result", "heartbeat", "retry", "hand_back"];
  for (const kind of kinds) {
    await using server = await testServer();
    const flaky = task<null, string>("flaky", { retry: { delay: "5s" }, lease: "9s" });
    const finished: number[] = [];
    const refused: unknown[] = [];
    const handler = flaky.handle(async (_input, ctx) => {
      if (ctx.attempt === 1) throw new Error("once more");
      const { promise, resolve } = Promise.withResolvers<void>();
      ctx.signal.addEventListener("abort", () => resolve());
      steps.push(resolve);
      await promise;
      ctx.signal.throwIfAborted();
      finished.push(ctx.attempt);
      return "done";
    });
    const steps: (() => void)[] = [];
    const on = { failed: () => {}, refused: (error: unknown) => void refused.push(error) };
    const worker = server.client.worker(handler, { on });
    server.loseResponse(kind);
    const run = await server.client.enqueue(flaky, null);
    await server.advance("10s");
    assert.equal(steps.length, 1);
    await server.advance("20s");
    const closed = worker.close({ grace: 0 });
    await server.advance("1s");
    await closed;
    assert.equal(server.counts(flaky).ready, 1, kind);
    server.client.worker(handler, { on });
    await server.advance("1s");
    steps.at(-1)?.();
    assert.equal(await run.result(), "done", kind);
    assert.deepEqual([finished, refused], [[2], []], kind);
    await server.runUntilIdle();
  }
});

test("a result that is stored and not acknowledged is not a second result", async () => {
  await using server = await testServer();
  const completed: string[] = [];
  server.client.worker(
    count.handle((n) => n * 2),
    { on: { completed: (ctx) => void completed.push(ctx.id) } },
  );
  server.loseResponse("result");
  const run = await server.client.enqueue(count, 21);
  assert.equal(await run.result(), 42);
  await server.runUntilIdle();
  assert.deepEqual(completed, [run.id]);
});

test("webhooks are shown instead of posted, and the server's settings can be chosen", async () => {
  await using server = await testServer({ env: { MAX_ATTEMPTS_DEFAULT: "1" } });
  server.client.worker(
    count.handle(() => {
      throw new Error("no");
    }),
    { on: { failed: () => {} } },
  );
  const webhook = "https://example.test/hook";
  const run = await server.client.enqueue(count, 1, { webhook });
  await assert.rejects(run.result(), { reason: "Error: no", attempts: 1 });
  await server.runUntilIdle();
  assert.deepEqual(server.webhooks, [{ url: webhook, taskId: run.id, status: "FAILED" }]);
  assert.equal(server.counts("count").dead, 1);
  await assert.rejects(testServer({ env: { MAX_ATTEMPTS_DEFAULT: "none" } }), /MAX_ATTEMPTS/);
});

test("clients are apart as processes are, and tokens are checked", async () => {
  await using server = await testServer();
  const stranger = server.newClient({ token: "wrong" });
  await assert.rejects(stranger.enqueue(count, 1), { code: "invalid_token" });
  const other = server.newClient();
  other.worker(count.handle((n) => n));
  await other.close();
  const run = await server.client.enqueue(count, 1);
  await assert.rejects(server.runUntilIdle({ within: "1s" }), { code: "timeout" });
  server.client.worker(count.handle((n) => -n));
  assert.equal(await run.result(), -1);
});

test("the same seed gives the same run", async () => {
  const run = async (): Promise<unknown[]> => {
    await using server = await testServer({ seed: 7 });
    const seen: unknown[] = [];
    server.client.worker(
      count.handle((n, ctx) => {
        seen.push([ctx.id, server.now.getTime(), ctx.attempt]);
        if (ctx.attempt < 3) throw new Error("again");
        return n;
      }),
      { on: { failed: () => {} }, concurrency: 2 },
    );
    await server.client.enqueueMany(
      count,
      [1, 2, 3].map((input) => ({ input })),
    );
    await server.runUntilIdle();
    return seen;
  };
  const first = await run();
  assert.equal(first.length, 9);
  assert.deepEqual(await run(), first);
});

test("files of a handler belong to the result, and the producer reads them", async () => {
  await using server = await testServer();
  const report = task<{ readonly fails: boolean }, { readonly rows: number }>("report");
  const worker = server.client.worker(
    report.handle(async ({ fails }, ctx) => {
      const text = await ctx.artifact("täble.csv", "a,b\n", { contentType: "text/csv" });
      assert.deepEqual([text.bytes, text.contentType], [4, "text/csv"]);
      async function* pieces(): AsyncGenerator<Uint8Array> {
        yield Buffer.from("one ");
        yield Buffer.from("two");
      }
      await ctx.artifact("stream", pieces());
      if (fails) throw new Permanent("no");
      return { rows: 1 };
    }),
  );
  const run = await server.client.enqueue(report, { fails: false });
  await server.runUntilIdle();
  assert.deepEqual(await run.result(), { rows: 1 });
  const [csv, stream] = await run.artifacts();
  assert.equal(await csv?.text(), "a,b\n");
  assert.equal(new TextDecoder().decode(await stream?.content()), "one two");
  const file = await server.client.admin.artifact(run.id.slice(-8), "täble.csv");
  assert.equal(await new Response(file).text(), "a,b\n");
  const failed = await server.client.enqueue(report, { fails: true });
  await server.runUntilIdle();
  assert.deepEqual(
    (await failed.artifacts()).map(({ name }) => name),
    ["täble.csv", "stream"],
  );
  await worker.close();
});

test("a task is found by its idempotency key, and after its deletion the error names it", async () => {
  await using server = await testServer();
  const { client } = server;
  const { id } = await client.enqueue(count, 1, { idempotencyKey: "a/1" });
  client.worker(count.handle((n) => n + 1));
  const run = await client.runByKey(count, "a/1");
  assert.deepEqual([run.id, await run.result()], [id, 2]);
  await assert.rejects(client.runByKey(count, "b"), { code: "not_found" });
  await server.advance("3d");
  await assert.rejects(client.runByKey(count, "a/1"), { code: "task_deleted", taskId: id });
});

test("a year of firings takes no time, and handlers see what they run for", async () => {
  await using server = await testServer({ startAt: new Date(Date.UTC(2026, 0, 1)), shards: 2 });
  const seen: string[] = [];
  server.client.worker(
    count.handle((n, ctx) => {
      seen.push(ctx.schedule?.scheduledFor.toISOString() ?? "");
      return n;
    }),
  );
  const { schedules } = server;
  const options = { input: 7, cron: "30 2 * * *", tz: "Europe/Paris", overlap: "allow" } as const;
  await schedules.put("nightly", count, options);
  for (let day = 0; day < 365; day++) {
    await server.advance("1d");
    await server.runUntilIdle({ within: 0 });
  }
  assert.equal(seen.length, 365);
  assert.ok(seen.includes("2026-03-29T01:00:00.000Z"));
  const schedule = await schedules.get("nightly");
  assert.deepEqual([schedule.fired, schedule.live], [365, 0]);
});

test("a schedule has the unique key, the lane and the cost of its task, unless it says others", async () => {
  await using server = await testServer({ startAt: new Date(Date.UTC(2026, 0, 1)) });
  const { schedules, client } = server;
  const refresh = task<{ account: string }, null>("refresh", {
    unique: { key: ({ account }) => account, on: "latest", for: "1m" },
    lane: ({ account }) => account,
    cost: 3,
  });
  const put = await schedules.put("ada", refresh, { input: { account: "ada" }, every: "1h" });
  const unique = { key: "ada", while: "unfinished", on: "latest", for: "60000ms" };
  assert.deepEqual([put.unique, put.lane, put.cost], [unique, "ada", 3]);
  const own = { unique: { key: "all" }, lane: "night", cost: 1 };
  const other = { input: { account: "bob" }, every: "1h", ...own } as const;
  const bob = await schedules.put("bob", refresh, other);
  assert.deepEqual([bob.unique?.key, bob.lane, bob.cost], ["all", "night", 1]);
  await server.advance("1h");
  const run = await client.enqueue(refresh, { account: "ada" });
  const ids = (await server.enqueued(refresh)).map(({ id }) => id);
  assert.ok(ids.length === 2 && ids.includes(run.id));
  assert.equal((await schedules.get("ada")).fired, 1);
});

test("sync makes the schedules of a prefix what a list says", async () => {
  await using server = await testServer({ startAt: new Date(Date.UTC(2026, 0, 1)) });
  const { schedules } = server;
  await schedules.put("other", count, { input: 1, every: "1h" });
  const invoices = { id: "billing-invoices", task: count, input: 1, cron: "0 6 1 * *" };
  const reminders = { id: "billing-reminders", task: count, input: 2, every: "1h" } as const;
  const first = await schedules.sync("billing-", [invoices, reminders]);
  assert.deepEqual(first.created, ["billing-invoices", "billing-reminders"]);
  const second = await schedules.sync("billing-", [{ ...invoices, input: 3 }]);
  assert.deepEqual([second.changed, second.deleted], [["billing-invoices"], ["billing-reminders"]]);
  assert.deepEqual((await schedules.sync("billing-", [{ ...invoices, input: 3 }])).unchanged, [
    "billing-invoices",
  ]);
  const ids = [];
  for await (const { id } of schedules.list()) ids.push(id);
  assert.deepEqual(ids, ["billing-invoices", "other"]);
  await assert.rejects(
    schedules.sync("billing-", [{ ...invoices, id: "x" }]),
    /does not begin with billing-/,
  );
});

test("a schedule is paused, resumed, run, backfilled, explained and previewed", async () => {
  await using server = await testServer({ startAt: new Date(Date.UTC(2026, 0, 1, 12)) });
  const { schedules } = server;
  await schedules.put("hourly", count, { input: 1, every: "1h", overlap: "allow" });
  const paused = await schedules.pause("hourly", "deploy");
  assert.equal(paused.paused?.reason, "deploy");
  await server.advance("3h");
  assert.equal((await schedules.resume("hourly")).skipped.paused, 3);
  const span = { from: new Date(Date.UTC(2026, 0, 1, 13)), until: server.now };
  assert.equal(await schedules.countBackfill("hourly", span), 3);
  const job = await schedules.backfill("hourly", span);
  assert.equal(job.action, "backfill");
  await server.advance("10s");
  assert.equal(await schedules.countBackfill("hourly", span), 0);
  await schedules.runNow("hourly");
  const kinds = (await schedules.runs("hourly")).map(({ kind }) => kind).sort();
  assert.deepEqual(kinds, ["backfill", "backfill", "backfill", "manual", "skipped"]);
  const found = await server.client.admin.findTasks({ schedule: "hourly" });
  assert.equal(found.tasks.length, 4);
  const why = await schedules.explain("hourly", new Date(Date.UTC(2026, 0, 1, 16)));
  assert.equal(why.outcome, "planned");
  const [next] = await schedules.preview({ cron: "30 2 * * *", tz: "Europe/Paris" }, 1);
  assert.equal(next?.local, "2026-01-02 02:30");
  await schedules.delete("hourly");
  await assert.rejects(schedules.get("hourly"), { code: "schedule_not_found" });
});

test("the callback of a batch runs when its members have ended, and reads their results", async () => {
  await using server = await testServer();
  const { client } = server;
  const half = task<number, { half: number }>("half");
  const total = task<{ of: string }, { sum: number; succeeded: number }>("total");
  client.worker([
    half.handle((n) => ({ half: n / 2 })),
    total.handle(async (_, ctx) => {
      let sum = 0;
      const { batch } = ctx;
      if (batch === undefined) throw new Error("no batch");
      for await (const { result } of batch.results()) sum += (result as { half: number }).half;
      return { sum, succeeded: batch.ended?.succeeded ?? 0 };
    }),
  ]);
  const options = { callback: total, input: { of: "numbers" } };
  const batch = await client.batch(options, [
    [half, 1],
    [half, 2],
  ]);
  await server.runUntilIdle();
  assert.deepEqual(await batch.callback.result(), { sum: 1.5, succeeded: 2 });
  const { phase, total: members, succeeded } = await batch.progress();
  assert.deepEqual([phase, members, succeeded], ["released", 2, 2]);
  const open = await client.batch(options);
  await open.addMany(half, [{ input: 3 }, { input: 4 }]);
  assert.equal((await open.progress()).phase, "open");
  assert.equal((await open.cancel()).phase, "cancelled");
  await assert.rejects(open.add(half, 5), { code: "batch_sealed" });
});

test("a member adds members to its batch, and a call with the same id adds nothing twice", async () => {
  await using server = await testServer();
  const { client } = server;
  const step = task<number, number>("step");
  const done = task<null, number>("done");
  client.worker([
    step.handle(async (n, { batch }) => {
      if (n < 3) await batch?.add(step, n + 1, { idempotencyKey: `step ${n + 1}` });
      else await batch?.seal();
      return n;
    }),
    done.handle((_, { batch }) => batch?.ended?.succeeded ?? 0),
  ]);
  const open = await client.batch({ callback: done, input: null });
  await open.add(step, 1);
  await server.runUntilIdle();
  assert.equal(await open.callback.result(), 3);
  const options = { id: "nightly", callback: done, input: null };
  const again = async () => client.batch(options, [[step, 3]]);
  const [first, second] = [await again(), await again()];
  assert.equal(first.callback.id, second.callback.id);
  await server.runUntilIdle();
  assert.equal((await (await again()).progress()).total, 1);
  await server.advance("26h");
  const third = await again();
  assert.notEqual(third.callback.id, first.callback.id, "the first batch was deleted");
  await server.runUntilIdle();
  assert.equal((await third.progress()).succeeded, 1);
  for await (const { result } of third.results())
    assert.equal(result, 3, "as the handler returned");
});

test("a task runs after those before it have succeeded, and reads their results", async () => {
  await using server = await testServer();
  const { client } = server;
  const extract = task<string, { rows: number }>("extract");
  const load = task<null, { rows: number }>("load");
  client.worker([
    extract.handle((name) => ({ rows: name.length })),
    load.handle(async (_, { batch }) => {
      let rows = 0;
      for await (const { result } of batch?.results() ?? []) {
        rows += (result as { rows: number }).rows;
      }
      return { rows };
    }),
  ]);
  const before = [await client.enqueue(extract, "ab"), await client.enqueue(extract, "c")] as const;
  const run = await client.enqueue(load, null, { after: [before[0], before[1].id] });
  await server.runUntilIdle();
  assert.deepEqual(await run.result(), { rows: 3 });
});

test("a batch without a name is cancelled when a member is refused", async () => {
  await using server = await testServer();
  const { client } = server;
  const step = task<string, null>("step");
  const done = task<null, null>("done");
  const batch = client.batch({ callback: done, input: null }, [[step, "x".repeat(3e6)]]);
  await assert.rejects(batch, { code: "payload_too_large" });
  const [callback] = await server.enqueued(done);
  assert.equal(callback?.status, "FAILED");
});
