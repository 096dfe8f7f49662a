/** The client against a server process, over each of its transports. */
import assert from "node:assert/strict";
import test from "node:test";
import { CodeqError, Permanent, RetryIn, TaskFailedError, task } from "@codeq/client";
import { setup } from "./setup.ts";

const double = task<number, number>("double");
const transports = ["auto", "streams", "http"] as const;

for (const transport of transports) {
  test(`${transport}: what goes in is worked on and comes out`, async (t) => {
    const { client } = await setup(t);
    const producer = client({ transport });
    const long = "x".repeat(5 * 1024 * 1024);
    const worker = client({ transport }).worker(
      double.handle((n, ctx) => {
        if (n === 7) {
          ctx.log(long);
          ctx.progress(0.5, long);
        }
        return n * 2;
      }),
      { concurrency: 50 },
    );
    const items = Array.from({ length: 500 }, (_, n) => ({ input: n, priority: n % 10 }));
    const runs = await producer.enqueueMany(double, items);
    const outputs = await Promise.all(runs.map((run) => run.result({ timeout: "30s" })));
    assert.deepEqual(
      outputs,
      items.map(({ input }) => input * 2),
    );
    await worker.close();
    await worker.done;
  });

  test(`${transport}: errors have their meaning`, async (t) => {
    const { client } = await setup(t);
    const seen: string[] = [];
    const flaky = task<string, string>("flaky", { retry: { maxAttempts: 2, delay: "1s" } });
    client({ transport }).worker(
      flaky.handle((what, ctx) => {
        seen.push(`${what} ${ctx.attempt}`);
        if (what === "never") throw new Permanent("it cannot be");
        if (what === "later" && ctx.attempt === 1) throw new RetryIn("1s");
        if (what === "broken") throw new TypeError("is not a function");
        return `${what} done`;
      }),
      { on: { failed: () => {} } },
    );
    const producer = client({ transport });
    const [never, later, broken] = await producer.enqueueMany(flaky, [
      { input: "never" },
      { input: "later" },
      { input: "broken" },
    ]);
    await assert.rejects(never!.result(), (error: unknown) => {
      assert.ok(error instanceof TaskFailedError);
      assert.deepEqual([error.code, error.reason], ["task_failed", "it cannot be"]);
      assert.equal(error.attempts, 1);
      return true;
    });
    assert.equal(await later!.result({ timeout: "30s" }), "later done");
    await assert.rejects(broken!.result({ timeout: "30s" }), {
      code: "task_failed",
      reason: "TypeError: is not a function",
      attempts: 2,
    });
    assert.deepEqual(seen.sort(), ["broken 1", "broken 2", "later 1", "later 2", "never 1"]);
  });

  test(`${transport}: a refusal of the server has its code`, async (t) => {
    const { client } = await setup(t);
    const producer = client({ transport });
    await producer.enqueue(double, 1, { idempotencyKey: "k" });
    await assert.rejects(producer.enqueue(double, 2, { idempotencyKey: "k" }), {
      name: "CodeqError",
      code: "idempotency_key_reused",
      retryable: false,
    });
    const unknown = producer.run(double, "01890000-0000-7000-8000-000000000000");
    await assert.rejects(unknown.result(), { code: "task_not_found" });
    const stranger = client({ transport, token: "not-the-token" });
    await assert.rejects(stranger.enqueue(double, 1), { code: "invalid_token" });
    const worker = stranger.worker(double.handle((n) => n));
    await assert.rejects(worker.done, (error) => error instanceof CodeqError);
  });

  test(`${transport}: an idle client does not keep the process alive, and closing ends it`, async (t) => {
    const { client, server } = await setup(t);
    const { id } = await client({ transport }).enqueue(double, 1);
    const producer = client({ transport, url: ["http://127.0.0.1:9", server.url] });
    const updates = producer.run(double, id).events();
    assert.equal((await updates.next()).value?.event, "task");
    const ended = assert.rejects(updates.next(), { name: "CodeqError", code: "closed" });
    await producer.close();
    await ended;
    await assert.rejects(producer.enqueue(double, 1), { code: "closed" });
  });
}

test("a trace goes from the producer to the handler, and on to what the handler enqueues", async (t) => {
  const { client } = await setup(t);
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const first = task<null, unknown>("first");
  const second = task<null, unknown>("second");
  for (const transport of ["streams", "http"] as const) {
    const all = client({ transport });
    const worker = all.worker([
      first.handle(async (_input, ctx) => {
        const run = await all.enqueue(second, null);
        return { trace: ctx.trace, next: run.id };
      }),
      second.handle((_input, ctx) => ({ trace: ctx.trace })),
    ]);
    const tracing = {
      enqueue: <T>(_task: string, send: (trace: { traceparent: string }) => Promise<T>) =>
        send({ traceparent }),
      handle: <T>(_run: unknown, run: () => Promise<T>) => run(),
    };
    const producer = client({ transport, tracing });
    const run = await producer.enqueue(first, null);
    const { trace, next } = (await run.result()) as { trace: unknown; next: string };
    assert.deepEqual(trace, { traceparent });
    assert.deepEqual(await producer.run(second, next).result(), { trace: { traceparent } });
    await worker.close();
  }
});
