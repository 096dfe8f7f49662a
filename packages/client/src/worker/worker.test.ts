import assert from "node:assert/strict";
import { test } from "node:test";
import type { worker as wire } from "@codeq/protocol/wire";
import { settle } from "@codeq/simulated";
import { ScriptedServer } from "../../test/scripted-server.ts";
import { Client, task } from "../client.ts";
import { CodeqError } from "../codeq-error.ts";
import { JsonText } from "../payload/json-text.ts";
import type { Handler } from "../task.ts";
import { Permanent, RateLimited, RetryIn } from "./outcome.ts";
import type { TaskContext } from "./task-context.ts";
import type { WorkerOptions } from "./worker-options.ts";

async function* nothing(): AsyncGenerator<never> {}

const job = task<number, unknown>("job", { lease: "30s" });

interface Running {
  readonly input: number;
  readonly ctx: TaskContext;
  readonly finish: (output?: unknown) => Promise<void>;
  readonly fail: (error: unknown) => Promise<void>;
}

const api = {
  ask: () => Promise.reject(new Error("no administrators in this test")),
  follow: nothing,
  download: () => Promise.reject(new Error("no files in this test")),
};

/** A worker whose server is played by the test, and whose handlers end when the test says so. */
async function setup(options: WorkerOptions = {}, tasks = [job]) {
  const server = new ScriptedServer<wire.WorkerEvent, wire.ServerEvent>();
  const client = new Client({}, server.runtime, {
    producer: () => Promise.reject(new Error("no producers in this test")),
    worker: () => server.openSession,
    api,
  });
  const running: Running[] = [];
  const refused: CodeqError[] = [];
  const failed: unknown[] = [];
  const handlers = tasks.map(
    (each): Handler =>
      each.handle((input, ctx) => {
        const { promise, resolve, reject } = Promise.withResolvers();
        const settled = (run: () => void) => async (): Promise<void> => {
          run();
          await settle();
        };
        running.push({
          input,
          ctx,
          finish: (output) => settled(() => resolve(output))(),
          fail: (error) => settled(() => reject(error))(),
        });
        return promise;
      }),
  );
  const on = {
    refused: (error: CodeqError) => void refused.push(error),
    failed: (_ctx: TaskContext, error: unknown) => void failed.push(error),
  };
  const worker = client.worker(handlers, { name: "w", ...options, on: { ...on, ...options.on } });
  const open = async (): Promise<void> => {
    await settle();
    const value = { workerId: "w", tenantId: "", instance: "" };
    await server.last.reply({ case: "helloAck", value });
  };
  const deliver = (...tasks: readonly Partial<wire.Task>[]): Promise<void> =>
    server.last.reply({ case: "taskBatch", value: { tasks: tasks.map(taskMessage) } });
  await open();
  return { server, client, worker, running, refused, failed, open, deliver };
}

function taskMessage(more: Partial<wire.Task>): wire.Task {
  return {
    id: "t1",
    command: "job",
    payload: "1",
    priority: 0,
    webhook: "",
    maxAttempts: 5,
    status: "IN_PROGRESS",
    workerId: "w",
    leaseUntil: "",
    attempts: 0,
    tenantId: "",
    createdAtMs: 5,
    updatedAtMs: 5,
    leaseToken: 1,
    traceParent: "",
    traceState: "",
    tags: [],
    replayOf: "",
    timeoutSeconds: 0,
    scheduleId: "",
    scheduledForMs: 0,
    batchId: "",
    isBatchCallback: false,
    batchSucceeded: 0,
    batchFailed: 0,
    batchCancelled: 0,
    lane: "",
    cost: 1,
    ...more,
  };
}

const ok = { ok: true, errorMessage: "", errorCode: "", leaseToken: 0, cancelled: false };
const no = (errorCode: string) => ({
  ok: false,
  errorMessage: `no: ${errorCode}`,
  errorCode,
  leaseToken: 0,
  cancelled: false,
});

test("it asks for as many tasks as it has free slots, and not for more", async () => {
  const { server, running, deliver } = await setup({ concurrency: 3 });
  const ready = { commands: ["job"], leaseSeconds: 30 };
  assert.deepEqual(server.last.take("ready"), { ...ready, count: 3 });
  await deliver({ id: "a" });
  assert.deepEqual(server.last.take("ready"), { ...ready, count: 2 });
  await running[0]?.finish();
  assert.deepEqual(server.last.take("ready"), { ...ready, count: 1 });
  await deliver({ id: "b" }, { id: "c" });
  await deliver({ id: "d" });
  assert.equal(running.length, 4);
  assert.deepEqual(server.last.said, ["hello", "result"], "it asks although it is busy");
  await running[1]?.finish();
  await running[2]?.finish();
  assert.equal(server.last.take("ready").count + server.last.take("ready").count, 2);
});

test("many slots are asked for in several pieces, and a short answer leaves none idle", async () => {
  const { server, deliver } = await setup({ concurrency: 1000 });
  const counts = (): number[] => {
    const found: number[] = [];
    while (server.last.said.includes("ready")) found.push(server.last.take("ready").count);
    return found;
  };
  assert.deepEqual(counts(), [256, 256, 256, 232]);
  await deliver({ id: "a" }, { id: "b" });
  assert.deepEqual(counts(), [254]);
  await server.last.end("lost");
  await server.advance(100);
  const value = { workerId: "w", tenantId: "", instance: "" };
  await server.last.reply({ case: "helloAck", value });
  assert.deepEqual(counts(), [256, 256, 256, 230]);
});

test("more tasks than it asked for wait for a slot, with their leases kept", async () => {
  const { server, running, deliver } = await setup({ concurrency: 1 });
  server.last.take("ready");
  await deliver({ id: "a" }, { id: "b", payload: "2" });
  assert.equal(running.length, 1);
  await server.advance(10_000);
  const beats = [server.last.take("heartbeat"), server.last.take("heartbeat")];
  assert.deepEqual(
    beats.map(({ taskId }) => taskId),
    ["a", "b"],
  );
  await running[0]?.finish();
  assert.equal(running[1]?.input, 2);
  assert.ok(!server.last.said.includes("ready"));
});

test("an answer about an earlier lease of the same task is not taken for the present one", async () => {
  const { server, running, deliver, refused } = await setup();
  await deliver({ leaseToken: 2 });
  await server.advance(12_000);
  assert.equal(server.last.take("heartbeat").leaseToken, 2);
  const stale = { taskId: "t1", ...no("not_owner"), leaseToken: 1 };
  await server.last.reply({ case: "heartbeatAck", value: stale });
  assert.equal(running[0]?.ctx.signal.aborted, false);
  await running[0]?.finish();
  await server.last.reply({ case: "resultAck", value: stale });
  assert.deepEqual(refused, []);
  await server.last.reply({ case: "resultAck", value: { ...stale, leaseToken: 2 } });
  assert.equal(refused.length, 1);
});

test("a lease is extended before a third of it has passed, with the fencing token, until the end", async () => {
  const { server, running, deliver } = await setup();
  await deliver({ leaseToken: 7 });
  const sentAt: number[] = [];
  for (let ms = 0; ms < 120_000; ms += 500) {
    await server.advance(500);
    while (server.last.said.includes("heartbeat")) {
      const beat = server.last.take("heartbeat");
      const quiet = { progress: undefined, logs: [] };
      assert.deepEqual(beat, { taskId: "t1", leaseToken: 7, extendSeconds: 30, ...quiet });
      sentAt.push(ms + 500);
      await server.last.reply({ case: "heartbeatAck", value: { taskId: "t1", ...ok } });
    }
  }
  const gaps = sentAt.map((at, n) => at - (sentAt[n - 1] ?? 0));
  assert.ok(gaps.length >= 12 && gaps.every((gap) => gap <= 10_000 && gap >= 7_500), String(gaps));
  await running[0]?.finish();
  await server.advance(20_000);
  assert.ok(server.last.said.includes("heartbeat"), "the result is not acknowledged yet");
  server.last.events.length = 0;
  await server.last.reply({ case: "resultAck", value: { taskId: "t1", ...ok } });
  await server.advance(60_000);
  assert.deepEqual(server.last.said, []);
  assert.equal(server.clock.timers, 0);
});

test("a task with a longer lease than the shortest is extended at once", async () => {
  const long = task<number, unknown>("long", { lease: "10m" });
  const { server, deliver } = await setup({}, [job, long]);
  assert.deepEqual(server.last.take("ready"), {
    commands: ["job", "long"],
    leaseSeconds: 30,
    count: 10,
  });
  await deliver({ id: "a" }, { id: "b", command: "LONG" });
  const { taskId, extendSeconds } = server.last.take("heartbeat");
  assert.deepEqual([taskId, extendSeconds], ["b", 600]);
  assert.ok(!server.last.said.includes("heartbeat"));
});

test("a lost lease aborts the signal; what the handler returns is sent all the same", async () => {
  for (const code of ["not_owner", "not_in_progress", "task_unknown"]) {
    const { server, running, refused, deliver } = await setup();
    await deliver({});
    const { signal } = running[0]!.ctx;
    await server.advance(10_000);
    assert.ok(!signal.aborted);
    await server.last.reply({ case: "heartbeatAck", value: { taskId: "t1", ...no(code) } });
    assert.ok(signal.aborted);
    assert.equal((signal.reason as CodeqError).code, "lease_lost");
    await running[0]?.finish({ n: 1 });
    assert.equal(server.last.take("result").resultJson, '{"n":1}');
    await server.last.reply({ case: "resultAck", value: { taskId: "t1", ...no(code) } });
    assert.deepEqual(
      refused.map((error) => [error.code, error.taskId]),
      [[code, "t1"]],
    );
  }
});

test("a handler that stops because its lease is lost hands back, and counts no failure", async () => {
  const { server, running, refused, failed, deliver } = await setup();
  await deliver({});
  await server.advance(10_000);
  await server.last.reply({ case: "heartbeatAck", value: { taskId: "t1", ...no("not_owner") } });
  await running[0]?.fail(running[0].ctx.signal.reason);
  assert.deepEqual(server.last.take("abandon"), {
    taskId: "t1",
    leaseToken: 1,
    interrupted: true,
  });
  await server.last.reply({ case: "abandonAck", value: { taskId: "t1", ...no("not_owner") } });
  assert.deepEqual([refused, failed], [[], []]);
});

test("a lease that cannot be extended counts as lost when it has run out", async () => {
  const { server, running, deliver } = await setup();
  await deliver({});
  await server.last.end("lost");
  server.failures = Array.from({ length: 1000 }, () => new Error("down") as CodeqError);
  await server.advance(29_500);
  assert.ok(!running[0]?.ctx.signal.aborted);
  await server.advance(1_000);
  assert.equal((running[0]!.ctx.signal.reason as CodeqError).code, "lease_lost");
});

test("a busy server that refuses a heartbeat for now does not end a lease", async () => {
  const { server, running, deliver } = await setup();
  await deliver({});
  await server.advance(10_000);
  await server.last.reply({ case: "heartbeatAck", value: { taskId: "t1", ...no("overloaded") } });
  assert.ok(!running[0]?.ctx.signal.aborted);
});

test("after a reconnect it sends what was not acknowledged and extends what is running", async () => {
  const { server, running, refused, open, deliver } = await setup();
  await deliver({ id: "a" }, { id: "b" }, { id: "c" }, { id: "d" });
  await running[0]?.finish({ n: 1 });
  await running[1]?.fail(new Error("b failed"));
  await running[2]?.finish({ n: 3 });
  assert.equal(server.last.take("result").taskId, "a");
  await server.last.reply({ case: "resultAck", value: { taskId: "a", ...ok } });
  const before = [server.last.take("nack"), server.last.take("result")];
  await server.last.end("lost");
  await running[3]?.finish({ n: 4 });
  await server.advance(100);
  await open();
  assert.deepEqual(server.last.said, [
    ...["hello", "heartbeat", "heartbeat", "heartbeat"],
    ...["nack", "resultBatch", "ready"],
  ]);
  const { results } = server.last.take("resultBatch");
  assert.deepEqual([server.last.take("nack"), results[0]], before);
  assert.equal(results[1]?.taskId, "d");
  // The nack had arrived the first time: its repeat is told that the task is not ours.
  const nackAck = { taskId: "b", ...no("not_in_progress"), appliedDelaySeconds: 0, dlq: false };
  await server.last.reply({ case: "nackAck", value: nackAck });
  const acks = ["c", "d"].map((taskId) => ({ taskId, ...ok }));
  await server.last.reply({ case: "resultAckBatch", value: { acks } });
  assert.deepEqual(refused, []);
});

test("a refusal that may pass keeps the result until it is stored", async () => {
  const { server, running, refused, deliver } = await setup();
  await deliver({});
  await running[0]?.finish({ n: 1 });
  for (const code of ["disk_full", "overloaded", "shutting_down"]) {
    server.last.take("result");
    await server.last.reply({ case: "resultAck", value: { taskId: "t1", ...no(code) } });
    assert.ok(!server.last.said.includes("result"));
    await server.advance(1000);
  }
  server.last.take("result");
  await server.last.reply({ case: "resultAck", value: { taskId: "t1", ...ok } });
  assert.deepEqual(refused, []);
});

test("a task that comes back before its nack is acknowledged is an attempt of its own", async () => {
  const { server, running, deliver } = await setup({ stacks: false });
  await deliver({ leaseToken: 1 });
  await running[0]?.fail(new RetryIn("1s"));
  assert.deepEqual(server.last.take("nack"), {
    taskId: "t1",
    leaseToken: 1,
    delaySeconds: 1,
    delayMs: 1000,
    reason: "try again in 1s",
    stack: "",
    holdSeconds: 0,
    used: undefined,
  });
  await deliver({ leaseToken: 2, attempts: 1 });
  await running[1]?.finish({});
  assert.ok(!server.last.said.includes("result"));
  const nackAck = { taskId: "t1", ...ok, appliedDelaySeconds: 1, dlq: false };
  await server.last.reply({ case: "nackAck", value: nackAck });
  const { leaseToken, resultJson } = server.last.take("result");
  assert.deepEqual([leaseToken, resultJson], [2, '{"$value":{}}']);
});

test("what a handler throws decides what becomes of the task", async () => {
  const delays = task<number, unknown>("job", {
    retry: { delay: (attempt, error) => (error instanceof TypeError ? "1m" : attempt * 1500) },
  });
  const failed = { status: "FAILED", resultJson: "", artifacts: [] };
  const cases: [unknown, object][] = [
    [new Permanent("no such file"), { ...failed, error: "no such file" }],
    [new Permanent(""), { ...failed, error: "Permanent" }],
    [new RetryIn("90s", "busy"), { delaySeconds: 90, delayMs: 90_000, reason: "busy" }],
    [new RetryIn(1), { delaySeconds: 1, delayMs: 1, reason: "try again in 1" }],
    [new RetryIn(0, "busy"), { delaySeconds: 1, delayMs: 1, reason: "busy" }],
    [
      new RateLimited("90s"),
      { delaySeconds: 0, delayMs: 0, holdSeconds: 90, reason: "rate limited for 90s" },
    ],
    [new RateLimited(1, "429"), { delaySeconds: 0, delayMs: 0, holdSeconds: 1, reason: "429" }],
    [
      new TypeError("x is not y"),
      { delaySeconds: 60, delayMs: 60_000, reason: "TypeError: x is not y" },
    ],
    [new Error("plain"), { delaySeconds: 5, delayMs: 4500, reason: "Error: plain" }],
    ["a text", { delaySeconds: 5, delayMs: 4500, reason: "a text" }],
    [undefined, { delaySeconds: 5, delayMs: 4500, reason: "undefined" }],
    [
      new Error("y".repeat(9000)),
      { delaySeconds: 5, delayMs: 4500, reason: `Error: ${"y".repeat(4089)}` },
    ],
  ];
  for (const [thrown, expected] of cases) {
    const { server, running, deliver } = await setup({ stacks: false }, [delays]);
    await deliver({ attempts: 2 });
    await running[0]?.fail(thrown);
    const sent = server.last.take(thrown instanceof Permanent ? "result" : "nack");
    const hold = thrown instanceof Permanent ? {} : { holdSeconds: 0 };
    assert.deepEqual(sent, {
      taskId: "t1",
      leaseToken: 1,
      stack: "",
      used: undefined,
      ...hold,
      ...expected,
    });
  }
});

test("without a delay of its own a retry is left to the server", async () => {
  const { server, running, deliver } = await setup();
  await deliver({});
  await running[0]?.fail(new Error("no"));
  const { delaySeconds, delayMs } = server.last.take("nack");
  assert.deepEqual([delaySeconds, delayMs], [0, 0]);
});

test("a payload that is not JSON, and an output that cannot be, are failures of the attempt", async () => {
  const { server, running, deliver } = await setup();
  await deliver({ id: "a", payload: Buffer.from("{broken") }, { id: "b" }, { id: "c" });
  // The handler of the first gets its input all the same: none.
  assert.match(server.last.take("nack").reason, /^SyntaxError/);
  const circle: { self?: unknown } = {};
  circle.self = circle;
  await running[0]?.finish(circle);
  assert.match(server.last.take("nack").reason, /^TypeError: .*circular/);
  await running[1]?.finish("x".repeat(5_000_000));
  assert.match(server.last.take("nack").reason, /has more than \d+ bytes; store it elsewhere/);
});

test("a handler that takes too long is told to stop, and its attempt has failed", async () => {
  const slow = task<number, unknown>("job", { lease: "10m", timeout: "2m" });
  const { server, running, failed, deliver } = await setup({}, [slow]);
  await deliver({});
  await server.advance(119_999);
  assert.ok(!running[0]?.ctx.signal.aborted);
  await server.advance(1);
  const { reason } = running[0]!.ctx.signal;
  assert.equal((reason as CodeqError).code, "handler_timeout");
  await running[0]?.fail(new Error("stopped"));
  assert.equal(server.last.take("nack").reason, "the handler took longer than 2m");
  assert.equal(failed.length, 1);
});

test("an attempt that takes longer than the producer allows is told so, and the server gets the error", async () => {
  const slow = task<number, unknown>("job", { lease: "10m", timeout: "2m" });
  const { server, running, deliver } = await setup({}, [slow]);
  await deliver({ timeoutSeconds: 90 });
  await server.advance(89_999);
  assert.ok(!running[0]?.ctx.signal.aborted);
  await server.advance(1);
  assert.equal((running[0]!.ctx.signal.reason as CodeqError).code, "task_timeout");
  await running[0]?.fail(new Error("stopped"));
  assert.equal(server.last.take("nack").reason, "TIMEOUT");
  await deliver({ id: "t2", timeoutSeconds: 180 });
  await server.advance(120_000);
  assert.equal((running[1]!.ctx.signal.reason as CodeqError).code, "handler_timeout");
});

test("a handler that finishes in spite of its timeout has finished", async () => {
  const slow = task<number, unknown>("job", { lease: "10m", timeout: "2m" });
  const { server, running, deliver } = await setup({}, [slow]);
  await deliver({});
  await server.advance(121_000);
  await running[0]?.finish({ n: 1 });
  assert.equal(server.last.take("result").status, "COMPLETED");
});

test("a handler that does not stop is given up: its slot is free and a warning says so", async () => {
  const slow = task<number, unknown>("job", { lease: "10m", timeout: "2m" });
  const warnings: string[] = [];
  const on = { warning: ({ code }: { code: string }) => void warnings.push(code) };
  const { server, running, deliver } = await setup({ concurrency: 1, on }, [slow]);
  server.last.take("ready");
  await deliver({});
  await server.advance(124_999);
  assert.ok(!server.last.said.includes("nack"));
  await server.advance(1);
  assert.equal(server.last.take("nack").reason, "the handler took longer than 2m");
  assert.equal(server.last.take("ready").count, 1);
  assert.deepEqual(warnings, ["handler_stuck"]);
  server.last.events.length = 0;
  await running[0]?.finish({ late: true });
  assert.deepEqual(server.last.said, []);
});

test("closing lets tasks finish, asks for no more, and tells the server everything", async () => {
  const { server, worker, running, open, deliver } = await setup();
  await deliver({ id: "a" }, { id: "b" });
  const first = server.last;
  let isClosed = false;
  void worker.close().then(() => {
    isClosed = true;
  });
  await settle();
  assert.ok(first.isFinished, "the server still holds a Ready");
  // What was on its way is handed back.
  await deliver({ id: "c" });
  await first.end("over");
  await open();
  assert.deepEqual(server.last.said, ["hello", "heartbeat", "heartbeat", "heartbeat", "abandon"]);
  assert.deepEqual(server.last.take("abandon"), {
    taskId: "c",
    leaseToken: 1,
    interrupted: true,
  });
  await server.last.reply({ case: "abandonAck", value: { taskId: "c", ...ok } });
  await running[0]?.finish({ n: 1 });
  await running[1]?.fail(new Error("b"));
  server.last.take("result");
  server.last.take("nack");
  await server.last.reply({ case: "resultAck", value: { taskId: "a", ...ok } });
  assert.ok(!isClosed && !server.last.isFinished);
  const nackAck = { taskId: "b", ...ok, appliedDelaySeconds: 0, dlq: false };
  await server.last.reply({ case: "nackAck", value: nackAck });
  assert.ok(server.last.isFinished);
  await server.last.end("over");
  assert.ok(isClosed);
  assert.ok(!server.last.said.includes("ready"));
  await worker.done;
  assert.equal(server.clock.timers, 0);
});

test("closing hands unfinished tasks back after the grace, without counting an attempt", async () => {
  const { server, worker, running, failed, open, deliver } = await setup();
  await deliver({ id: "stops" }, { id: "stuck" }, { id: "finishes" });
  const closed = worker.close({ grace: "3s" });
  await settle();
  await server.last.end("over");
  await open();
  await server.advance(2_999);
  assert.ok(!running[0]?.ctx.signal.aborted);
  await server.advance(1);
  const { reason } = running[0]!.ctx.signal;
  assert.equal((reason as CodeqError).code, "worker_closing");
  await running[0]?.fail(reason);
  assert.equal(server.last.take("abandon").taskId, "stops");
  await running[2]?.finish({ n: 1 });
  assert.equal(server.last.take("result").taskId, "finishes");
  await server.advance(5_000);
  assert.deepEqual(server.last.take("abandon"), {
    taskId: "stuck",
    leaseToken: 1,
    interrupted: true,
  });
  await server.last.reply({ case: "resultAck", value: { taskId: "finishes", ...ok } });
  for (const taskId of ["stops", "stuck"]) {
    await server.last.reply({ case: "abandonAck", value: { taskId, ...ok } });
  }
  await server.last.end("over");
  await closed;
  assert.deepEqual(failed, []);
  assert.match(server.warnings.join(), /CODEQ_HANDLER_STUCK/);
});

test("closing says when the server could not be told", async () => {
  const { server, worker, running, deliver } = await setup();
  await deliver({});
  await running[0]?.finish({ n: 1 });
  await server.last.end("lost");
  server.failures = Array.from({ length: 1000 }, () => new Error("down") as CodeqError);
  const closed = assert.rejects(worker.close(), {
    code: "unavailable",
    ambiguous: true,
    message: "the server has not acknowledged the results of 1 tasks: down",
  });
  await server.advance(10_000);
  await closed;
  await worker.done;
  assert.equal(server.clock.timers, 0);
});

test("a worker without tasks closes at once, also when it never got a connection", async () => {
  const { server, worker } = await setup();
  const closed = worker.close();
  await settle();
  await server.last.end("over");
  await closed;
  assert.equal(worker.close(), worker.close());
  const lonely = new ScriptedServer<wire.WorkerEvent, wire.ServerEvent>();
  lonely.failures = [new Error("down") as CodeqError];
  const client = new Client({}, lonely.runtime, {
    producer: () => Promise.reject(new Error("no")),
    worker: () => lonely.openSession,
    api,
  });
  const other = client.worker(job.handle(() => 1));
  await settle();
  await other.close();
  assert.equal(lonely.clock.timers, 0);
});

test("a token that was never good ends the worker; one that was good is tried again", async () => {
  const { server, worker } = await setup();
  await server.last.end("lost");
  await server.advance(100);
  await server.last.end("refused", "invalid_token");
  await server.advance(60_000);
  assert.ok(server.sessions.length > 2);
  const stranger = new ScriptedServer<wire.WorkerEvent, wire.ServerEvent>();
  const client = new Client({}, stranger.runtime, {
    producer: () => Promise.reject(new Error("no")),
    worker: () => stranger.openSession,
    api,
  });
  const other = client.worker(job.handle(() => 1));
  await settle();
  await stranger.last.end("refused", "invalid_token");
  await assert.rejects(other.done, { code: "invalid_token" });
  assert.match(stranger.warnings.join(), /^CODEQ_WORKER_FAILED/);
  assert.equal(stranger.clock.timers, 0);
  await worker.close();
});

test("a worker that may not have what it asks for ends with the code of the refusal", async () => {
  const { server, worker } = await setup();
  const value = {
    code: "PermissionDenied",
    message: "event type not allowed",
    errorCode: "event_type_not_allowed",
  };
  await server.last.reply({ case: "error", value });
  await assert.rejects(worker.done, { code: "event_type_not_allowed" });
  assert.ok(server.last.isCut);
});

test("a blocked event loop is told once in a while", async () => {
  const warnings: string[] = [];
  const on = { warning: ({ message }: { message: string }) => void warnings.push(message) };
  const { server, deliver } = await setup({ on });
  await deliver({});
  const { clock } = server;
  const monotonicMs = clock.monotonicMs.bind(clock);
  let blockedMs = 0;
  clock.monotonicMs = () => monotonicMs() + blockedMs;
  for (let n = 0; n < 30; n += 1) {
    await server.advance(500);
    blockedMs += n % 2 === 0 ? 1500 : 100;
  }
  assert.match(warnings[0] ?? "", /^the event loop was blocked for 1500 ms; leases may be lost/);
  assert.ok(warnings.length >= 2 && warnings.length <= 4, `${warnings.length} warnings`);
});

test("middleware wraps handlers from the outside in, and may change what comes out", async () => {
  const seen: string[] = [];
  const wrap =
    (name: string) =>
    async (ctx: TaskContext, next: () => Promise<unknown>): Promise<unknown> => {
      seen.push(`${name} ${String(ctx.payload)}`);
      const output = await next();
      return { [name]: output };
    };
  const { server, running, deliver } = await setup({ middleware: [wrap("outer"), wrap("inner")] });
  await deliver({ payload: "7" });
  await running[0]?.finish("done");
  assert.deepEqual(seen, ["outer 7", "inner 7"]);
  assert.equal(server.last.take("result").resultJson, '{"outer":{"inner":"done"}}');
});

test("a handler knows what it runs, and can tell how far it is", async () => {
  const progress: unknown[] = [];
  const on = {
    progress: (ctx: TaskContext, fraction: number, note: string | undefined) =>
      void progress.push([ctx.id, fraction, note]),
  };
  const { running, deliver } = await setup({ on });
  const traceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  await deliver({ attempts: 2, priority: 4, leaseToken: 9, traceParent, traceState: "a=b" });
  const { ctx } = running[0]!;
  const { id, attempt, maxAttempts, priority, fencingToken, createdAt, trace } = ctx;
  assert.deepEqual(
    { id, name: ctx.task, attempt, maxAttempts, priority, fencingToken, createdAt, trace },
    {
      id: "t1",
      name: "job",
      attempt: 3,
      maxAttempts: 5,
      priority: 4,
      fencingToken: 9,
      createdAt: new Date(5),
      trace: { traceparent: traceParent, tracestate: "a=b" },
    },
  );
  ctx.progress(0.5, "half");
  ctx.progress(7);
  assert.deepEqual(progress, [
    ["t1", 0.5, "half"],
    ["t1", 1, undefined],
  ]);
});

test("of what a handler says the last lines are sent, cut to what a server keeps", async () => {
  const { server, running, deliver } = await setup();
  await deliver({});
  const { ctx, finish } = running[0]!;
  for (let number = 1; number <= 60; number += 1) ctx.log(`line ${number}`);
  ctx.log("x".repeat(501));
  ctx.progress(0.5, "y".repeat(201));
  await finish();
  const { progress, logs } = server.last.take("heartbeat");
  assert.deepEqual(progress, { percent: 50, text: "y".repeat(200) });
  assert.equal(logs.length, 50);
  assert.deepEqual([logs[0], logs.at(-2)], ["line 12", "line 60"]);
  assert.equal(logs.at(-1), "x".repeat(500));
});

test("completed is told when the result is stored, not before, and a listener may throw", async () => {
  const told: unknown[] = [];
  const on = {
    completed: (ctx: TaskContext, output: unknown) => {
      told.push([ctx.id, output]);
      throw new Error("a bug in the listener");
    },
  };
  const { server, running, deliver } = await setup({ on });
  await deliver({});
  await running[0]?.finish({ n: 1 });
  assert.deepEqual(told, []);
  await server.last.reply({ case: "resultAck", value: { taskId: "t1", ...ok } });
  assert.deepEqual(told, [["t1", { n: 1 }]]);
  assert.match(server.warnings.join(), /^CODEQ_LISTENER_FAILED: .*a bug in the listener/);
});

test("what the server made of every run is told, once it has answered", async () => {
  const told: unknown[] = [];
  const settled: NonNullable<WorkerOptions["on"]>["settled"] = ({ id }, as) => told.push([id, as]);
  const { server, worker, running, deliver } = await setup({ on: { settled } });
  await deliver({ id: "a" }, { id: "b" }, { id: "c" }, { id: "d" }, { id: "e" }, { id: "f" });
  await running[0]?.finish({});
  await running[1]?.fail(new Permanent("no"));
  await running[2]?.fail(new Error("later"));
  await running[3]?.fail(new Error("never"));
  await running[4]?.finish({});
  assert.deepEqual(told, []);
  for (const taskId of ["a", "b"]) {
    await server.last.reply({ case: "resultAck", value: { taskId, ...ok } });
  }
  const nackAck = { ...ok, appliedDelaySeconds: 0 };
  await server.last.reply({ case: "nackAck", value: { taskId: "c", ...nackAck, dlq: false } });
  await server.last.reply({ case: "nackAck", value: { taskId: "d", ...nackAck, dlq: true } });
  await server.last.reply({ case: "resultAck", value: { taskId: "e", ...no("not_owner") } });
  const closed = worker.close({ grace: 0 });
  await settle();
  await server.last.end("over");
  await server.advance(100);
  const value = { workerId: "w", tenantId: "", instance: "" };
  await server.last.reply({ case: "helloAck", value });
  await running[5]?.fail(running[5].ctx.signal.reason);
  await server.last.reply({ case: "abandonAck", value: { taskId: "f", ...ok } });
  await server.last.end("over");
  await closed;
  assert.deepEqual(told, [
    ...[
      ["a", "completed"],
      ["b", "failed"],
      ["c", "retry"],
      ["d", "dead_letter"],
    ],
    ["f", "handed_back"],
  ]);
});

test("a worker for a number of tasks asks for no more, and closes when the server has the last end", async () => {
  const { server, worker, running, open, deliver } = await setup({ concurrency: 2, maxTasks: 3 });
  assert.equal(server.last.take("ready").count, 2);
  await deliver({ id: "a" });
  assert.equal(server.last.take("ready").count, 1);
  await deliver({ id: "b" });
  await running[0]?.finish();
  await running[1]?.finish();
  assert.equal(server.last.take("ready").count, 1, "one is left, and two slots are free");
  await server.last.end("lost");
  await server.advance(100);
  await open();
  assert.equal(server.last.take("ready").count, 1);
  await deliver({ id: "c" }, { id: "d" });
  assert.equal(running.length, 3);
  assert.equal(server.last.take("abandon").taskId, "d", "more than it was asked for");
  await running[2]?.fail(new Error("counts as well"));
  assert.ok(!server.last.said.includes("ready"));
  for (const taskId of ["a", "b"]) {
    await server.last.reply({ case: "resultAck", value: { taskId, ...ok } });
  }
  await server.last.reply({ case: "abandonAck", value: { taskId: "d", ...ok } });
  assert.ok(!server.last.isFinished, "the end of the last one is not known yet");
  const nackAck = { taskId: "c", ...ok, appliedDelaySeconds: 1, dlq: false };
  await server.last.reply({ case: "nackAck", value: nackAck });
  assert.ok(server.last.isFinished);
  await server.last.end("over");
  await worker.done;
  assert.equal(server.clock.timers, 0);
});

test("JSON text passes a handler as it is, in and out", async () => {
  const { server, running, deliver } = await setup();
  const payload = '{"n": 12345678901234567890}';
  await deliver({ id: "a", payload }, { id: "b" });
  assert.equal(running[0]?.ctx.payloadText, payload);
  await running[0]?.finish(new JsonText(payload));
  assert.equal(server.last.take("result").resultJson, payload);
  await running[1]?.finish(new JsonText("{}"));
  assert.equal(server.last.take("result").resultJson, "{}");
});

test("who listens for the end of a worker gets no warning of the process", async () => {
  const stopped: string[] = [];
  const on = { stopped: ({ code }: CodeqError) => void stopped.push(code) };
  const { server, worker } = await setup({ on });
  const value = { code: "", message: "missing scope", errorCode: "missing_scope" };
  await server.last.reply({ case: "error", value });
  await assert.rejects(worker.done, { code: "missing_scope" });
  assert.deepEqual([stopped, server.warnings], [["missing_scope"], []]);
});

test("what nobody listens for becomes a warning", async () => {
  const silent = { on: { failed: undefined, refused: undefined } as never };
  const { server, running, deliver } = await setup(silent);
  await deliver({ id: "a" }, { id: "b" }, { id: "c" });
  await running[0]?.fail(new Error("broken", { cause: new TypeError("no disk") }));
  await running[1]?.finish({});
  await server.last.reply({ case: "resultAck", value: { taskId: "b", ...no("not_owner") } });
  await running[2]?.fail({ code: 7 });
  const [failed = "", refused = "", object = ""] = server.warnings;
  assert.match(failed, /^CODEQ_TASK_FAILED: task a \(job\) failed in attempt 1/);
  assert.match(failed, /: Error: broken\n +at .*\n(.*\n)*caused by: TypeError: no disk\n/);
  assert.match(refused, /^CODEQ_REFUSED: .* of task b \(not_owner\)/);
  assert.match(object, /: \{"code":7\}$/);
});

/** Breaks the connection, and lets so many tries fail before there is another one. */
async function breakFor(tries: number, { server, open }: Awaited<ReturnType<typeof setup>>) {
  const problem = new CodeqError("unavailable", "cannot reach http://queue");
  server.failures = Array.from({ length: tries }, () => problem);
  await server.last.end("lost");
  for (let pause = 1; pause <= tries + 1; pause++) await server.advance(pause * 100);
  await open();
}

test("a worker that stays without a connection says so once, and again the next time", async () => {
  const world = await setup();
  const { server } = world;
  await breakFor(1, world);
  assert.deepEqual(server.warnings, [], "a restart is nothing to speak of");
  await breakFor(5, world);
  const told = /^CODEQ_NOT_CONNECTED: a worker has no connection .*: cannot reach http:\/\/queue$/;
  assert.equal(server.warnings.length, 1);
  assert.match(server.warnings[0] ?? "", told);
  await breakFor(5, world);
  assert.equal(server.warnings.length, 2);
});

test("who listens for connections gets no warning of the process", async () => {
  const problems: (string | undefined)[] = [];
  const on = { connection: (problem?: CodeqError) => void problems.push(problem?.message) };
  const world = await setup({ on });
  await breakFor(4, world);
  const away = Array.from({ length: 4 }, () => "cannot reach http://queue");
  assert.deepEqual(problems, [undefined, "ended: lost", ...away, undefined]);
  assert.deepEqual(world.server.warnings, []);
});

test("a worker that makes no sense is refused", async () => {
  const { client } = await setup();
  const handler = job.handle(() => 1);
  const cases: [Handler[], WorkerOptions, RegExp][] = [
    [[], {}, /^a worker needs 1 to 256 handlers, not 0$/],
    [[handler, task("JOB").handle(() => 1)], {}, /^the task JOB has two handlers in one worker$/],
    [[job as never], {}, /^a worker takes handlers: give it task\.handle/],
    [[handler], { concurrency: 0 }, /^invalid concurrency 0/],
    [[handler], { concurrency: 1.5 }, /^invalid concurrency 1.5/],
    [[handler], { maxTasks: 0 }, /^invalid maxTasks 0/],
    [[handler], { maxTasks: 1.5 }, /^invalid maxTasks 1.5/],
    [[handler], { name: " " }, /^invalid name of a worker/],
    [[handler], { lagWarning: "x" as never }, /^invalid lagWarning/],
  ];
  assert.throws(() => job.handle(undefined as never), { code: "invalid_option" });
  for (const [handlers, options, message] of cases) {
    assert.throws(() => client.worker(handlers, options), { code: "invalid_option", message });
  }
});
