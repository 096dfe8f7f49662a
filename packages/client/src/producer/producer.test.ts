import assert from "node:assert/strict";
import { test } from "node:test";
import type { producer as wire } from "@codeq/protocol/wire";
import { settle } from "@codeq/simulated";
import { ScriptedServer } from "../../test/scripted-server.ts";
import { Client, type ClientOptions, task } from "../client.ts";
import type { CodeqError } from "../codeq-error.ts";
import { testServer } from "../test-server/index.ts";
import { Creations } from "./creations.ts";
import { createFields } from "./enqueue-options.ts";

async function* nothing(): AsyncGenerator<never> {}

const note = task<unknown, unknown>("note");

function setup(options: Pick<ClientOptions, "token"> = {}) {
  const server = new ScriptedServer<wire.ProducerEvent, wire.ServerEvent>();
  const warned: CodeqError[] = [];
  const onWarning = (error: CodeqError) => void warned.push(error);
  const client = new Client({ ...options, onWarning }, server.runtime, {
    producer: server.openSession,
    worker: () => () => Promise.reject(new Error("no workers in this test")),
    api: {
      ask: () => Promise.reject(new Error("no administrators in this test")),
      follow: nothing,
      download: () => Promise.reject(new Error("no files in this test")),
    },
  });
  const open = async (): Promise<void> => {
    await settle();
    const ack = { tenantId: "", subject: "", instance: "" };
    await server.last.reply({ case: "helloAck", value: ack });
  };
  return { server, client, warned, open };
}

function ack(seq: wire.CreateTask["seq"], more: Partial<wire.CreateAck> = {}): wire.ServerEvent {
  const value = {
    seq,
    ok: true,
    taskId: `t${seq}`,
    errorMessage: "",
    errorCode: "",
    deduplicated: false,
    ...more,
  };
  return { case: "createAck", value };
}

function refused(seq: wire.CreateTask["seq"], errorCode: string): wire.ServerEvent {
  return ack(seq, { ok: false, taskId: "", errorCode, errorMessage: `no: ${errorCode}` });
}

/** What became of a promise without a word from the server. */
async function seenOf<T>(promise: Promise<T>): Promise<{ value?: T; error?: CodeqError }> {
  const seen = watch(promise);
  await settle();
  return seen;
}

/** What became of a promise so far. */
function watch<T>(promise: Promise<T>): { value?: T; error?: CodeqError } {
  const seen: { value?: T; error?: CodeqError } = {};
  promise.then(
    (value) => Object.assign(seen, { value }),
    (error: CodeqError) => Object.assign(seen, { error }),
  );
  return seen;
}

test("calls of one turn travel together, and each is answered for itself", async () => {
  const { server, client, open } = setup();
  const seen = [1, 2, 3].map((n) => watch(client.enqueue(note, n)));
  await open();
  const { tasks } = server.last.take("createBatch");
  assert.deepEqual(
    tasks.map(({ payload }) => payload),
    ["1", "2", "3"],
  );
  const [a, b, c] = tasks.map(({ seq }) => seq);
  await server.last.reply(refused(b!, "invalid_command"));
  await server.last.reply(ack(c!));
  assert.deepEqual(seen[0], {});
  assert.equal(seen[1]?.error?.code, "invalid_command");
  assert.equal(seen[2]?.value?.id, `t${c}`);
  await server.last.reply(ack(a!));
  assert.equal(seen[0]?.value?.id, `t${a}`);
});

test("what was not answered is sent again with the same key, and what was answered is not", async () => {
  const { server, client, open } = setup();
  const seen = [1, 2].map((n) => watch(client.enqueue(note, n)));
  await open();
  const first = server.last.take("createBatch").tasks;
  await server.last.reply(ack(first[0]!.seq));
  await server.last.end("lost");
  await server.advance(100);
  await open();
  const again = server.last.take("create");
  assert.deepEqual(again, first[1]);
  assert.notEqual(again.idempotencyKey, "");
  assert.notEqual(first[0]!.idempotencyKey, first[1]!.idempotencyKey);
  await server.last.reply(ack(again.seq));
  assert.ok(seen.every(({ value }) => value !== undefined));
});

test("a refusal that may pass is tried again, any other is not", async () => {
  for (const code of ["disk_full", "overloaded", "shutting_down", "storage_failed"]) {
    const { server, client, open } = setup();
    const seen = watch(client.enqueue(note, 1));
    await open();
    const { seq } = server.last.take("create");
    await server.last.reply(refused(seq, code));
    assert.deepEqual(seen, {});
    await server.advance(100);
    await server.last.reply(ack(server.last.take("create").seq));
    assert.equal(seen.value?.id, `t${seq}`, code);
  }
});

test("patience ends with the timeout, and the error says whether the task may be stored", async () => {
  const { server, client, open } = setup();
  const unsent = watch(client.enqueue(note, 1, { timeout: "1s" }));
  await server.advance(999);
  assert.deepEqual(unsent, {});
  await server.advance(1);
  assert.deepEqual([unsent.error?.code, unsent.error?.ambiguous], ["timeout", false]);
  const sent = watch(client.enqueue(note, 2, { timeout: "5s" }));
  const patient = watch(client.enqueue(note, 3, { timeout: "1m" }));
  await open();
  await server.advance(5000);
  assert.deepEqual([sent.error?.code, sent.error?.ambiguous], ["timeout", true]);
  assert.deepEqual(patient, {});
  await server.advance(55_000);
  assert.equal(patient.error?.code, "timeout");
});

test("the message of a timeout says why there was no connection", async () => {
  const { server, client } = setup();
  server.failures = Array.from({ length: 100 }, () => new (class extends Error {})("refused")).map(
    (cause) => Object.assign(cause, { code: "ECONNREFUSED" }),
  ) as never;
  const seen = watch(client.enqueue(note, 1, { timeout: "2s" }));
  await server.advance(2000);
  assert.equal(seen.error?.message, "no answer within 2s: refused");
});

test("an aborted call ends with the reason of its signal, and is not sent when it was not", async () => {
  const { server, client, open } = setup();
  const reason = new Error("never mind");
  const early = watch(client.enqueue(note, 1, { signal: AbortSignal.abort(reason) }));
  const controller = new AbortController();
  const { signal } = controller;
  const unsent = watch(client.enqueue(note, 2, { signal }));
  await settle();
  controller.abort(reason);
  const kept = watch(client.enqueue(note, 3));
  await open();
  assert.deepEqual([early.error, unsent.error], [reason, reason]);
  assert.equal(server.last.take("create").payload, "3");
  assert.deepEqual(kept, {});
  assert.deepEqual(server.last.said, ["hello"]);
});

test("the late answer to a call that was given up is not taken for that to another one", async () => {
  const { server, client, open } = setup();
  const controller = new AbortController();
  const aborted = watch(client.enqueue(note, 1, { signal: controller.signal }));
  await open();
  const first = server.last.take("create");
  controller.abort();
  const second = watch(client.enqueue(note, 2));
  await settle();
  const { seq } = server.last.take("create");
  await server.last.reply(ack(first.seq, { taskId: "first" }));
  assert.deepEqual(second, {});
  await server.last.reply(ack(seq, { taskId: "second" }));
  assert.equal(second.value?.id, "second");
  assert.equal(aborted.error?.name, "AbortError");
});

test("a token that the server does not know fails those who wait, and later ones try again", async () => {
  const { server, client, open } = setup();
  const seen = watch(client.enqueue(note, 1));
  await settle();
  await server.last.end("refused", "invalid_token");
  assert.equal(seen.error?.code, "invalid_token");
  const later = watch(client.enqueue(note, 2));
  await open();
  await server.last.reply(ack(server.last.take("create").seq));
  assert.ok(later.value !== undefined);
});

test("many tasks are sent in batches that the server can take, and no more than it can hold", async () => {
  const { server, client, open } = setup();
  const big = "x".repeat(300_000);
  const all = Array.from({ length: 40 }, () => watch(client.enqueue(note, big)));
  await open();
  const sizes = server.last.events
    .filter((event) => event.case === "createBatch")
    .map(({ value }) => value.tasks.length);
  assert.ok(sizes.length > 5 && sizes.every((count) => count <= 4));
  const inFlight = sizes.reduce((sum, count) => sum + count, 0);
  assert.ok(inFlight < 40, "all were sent at once");
  for (let turn = 0; turn < 40; turn += 1) {
    const next = server.last.events.findIndex(({ case: name }) => name !== "hello");
    if (next < 0) break;
    const [event] = server.last.events.splice(next, 1);
    const tasks = event?.case === "createBatch" ? event.value.tasks : [];
    for (const { seq } of tasks) await server.last.reply(ack(seq));
    if (event?.case === "create") await server.last.reply(ack(event.value.seq));
  }
  assert.ok(all.every(({ value }) => value !== undefined));
});

test("a line without room is left alone until it has some", async () => {
  const { server, client, open } = setup();
  const first = client.enqueue(note, "x".repeat(900_000));
  await settle();
  server.last.hasRoom = false;
  const second = client.enqueue(note, "y".repeat(900_000));
  await open();
  assert.deepEqual(server.last.said, ["hello", "create"]);
  server.last.hasRoom = true;
  server.last.listener.drained();
  assert.deepEqual(server.last.said, ["hello", "create", "create"]);
  for (const _ of [first, second]) await server.last.reply(ack(server.last.take("create").seq));
  await Promise.all([first, second]);
});

test("what one process may keep in memory has a limit", async () => {
  const { server } = setup();
  const creations = new Creations({
    runtime: server.runtime,
    send: () => true,
    isOpen: () => false,
    onWaiting: () => {},
    onIdle: () => {},
    problem: () => undefined,
  });
  const more = { payload: "", ownKey: "k", trace: undefined };
  const fields = await createFields(note.definition, {}, more);
  const add = (payload: string) =>
    watch(creations.add({ ...fields, payload }, { timeoutMs: 1000, signal: undefined }));
  const large = "x".repeat(3_900_000);
  const few = Array.from({ length: 80 }, () => add(large));
  await settle();
  assert.equal(
    few.findIndex(({ error }) => error?.code === "too_many_pending"),
    68,
  );
  creations.failAll(few[68]!.error!);
  const many = Array.from({ length: 100_001 }, () => add("1"));
  await settle();
  assert.equal(
    many.findIndex(({ error }) => error !== undefined),
    100_000,
  );
  creations.failAll(few[68]!.error!);
  assert.equal(server.clock.timers, 0);
});

test("options that make no sense are refused before anything is sent", async () => {
  const { server, client } = setup();
  const cases: [object, RegExp][] = [
    [{ priority: 10 }, /^invalid priority 10: a whole number from 0 to 9$/],
    [{ priority: 1.5 }, /^invalid priority/],
    [{ maxAttempts: 0 }, /^invalid maxAttempts 0: a whole number from 1 to 1000$/],
    [{ delay: "soon" }, /^invalid delay "soon"/],
    [{ delay: "99999d" }, /^invalid delay "99999d": at most/],
    [{ ttl: "99999d" }, /^invalid ttl "99999d": at most/],
    [{ executionTimeout: "31d" }, /^invalid executionTimeout "31d": at most 2592000 seconds/],
    [{ runAt: new Date(Number.NaN) }, /^invalid runAt/],
    [{ runAt: "2030-01-01" }, /^invalid runAt 2030-01-01: give a Date/],
    [{ idempotencyKey: "" }, /^invalid idempotencyKey/],
    [{ idempotencyKey: "k".repeat(257) }, /^invalid idempotencyKey/],
    [{ timeout: -1 }, /^invalid timeout/],
  ];
  for (const [options, message] of cases) {
    await assert.rejects(client.enqueue(note, 1, options), { code: "invalid_option", message });
  }
  await assert.rejects(client.enqueue(note, "x".repeat(5_000_000)), { code: "payload_too_large" });
  await assert.rejects(client.enqueue("note" as never), {
    code: "invalid_option",
    message: /^this is not a task/,
  });
  assert.equal(server.sessions.length, 0);
});

test("an input that cannot be JSON is refused by name", async () => {
  const { server, client } = setup();
  const circle: Record<string, unknown> = {};
  circle["itself"] = circle;
  for (const input of [circle, 1n, () => 1, Symbol("s")]) {
    const { error } = await seenOf(client.enqueue(note, input as never));
    assert.equal(error?.code, "invalid_input");
    assert.match(error.message, /^the input of note cannot be written as JSON: /);
  }
  assert.equal(server.sessions.length, 0);
});

test("a token that cannot be had is told as such, and asked for again", async () => {
  let asked = 0;
  const token = (): string => {
    asked += 1;
    throw new Error("the vault is sealed");
  };
  const { server, client } = setup({ token });
  const refused = assert.rejects(client.enqueue(note, 1, { timeout: "1s" }), {
    code: "timeout",
    message: /: the function that gives the token failed: the vault is sealed$/,
  });
  await settle();
  for (let step = 0; step < 10; step++) await server.advance(100);
  await refused;
  assert.ok(asked > 1);
});

/** What a task without these options has. */
const unset = {
  lane: "",
  cost: 0,
  idempotencyMode: "",
  uniqueKey: "",
  uniqueWhile: "",
  uniqueOn: "",
  uniqueFor: "",
  uniqueMaxWait: "",
  batchId: "",
  after: [],
};

test("every option arrives where it belongs", async () => {
  const { server, client, open } = setup();
  const resize = task("resize", { priority: 3, retry: { maxAttempts: 7 } });
  void client.enqueue(resize, { a: 1 });
  const more = { delay: 1500, priority: 9, maxAttempts: 2, webhook: "https://x.test/hook" };
  const tags = ["red", "blue"];
  void client.enqueue(
    resize,
    { a: 2 },
    {
      ...more,
      tags,
      executionTimeout: "90s",
      ttl: "1h",
      idempotencyKey: "k",
      runAt: new Date(1234),
    },
  );
  await open();
  const [plain, full] = server.last.take("createBatch").tasks;
  assert.deepEqual(plain, {
    seq: 1,
    tags: [],
    timeoutSeconds: 0,
    ...unset,
    ttlSeconds: 0,
    command: "resize",
    payload: '{"a":1}',
    priority: 3,
    maxAttempts: 7,
    webhook: "",
    runAtMs: undefined,
    delaySeconds: 0,
    delayMs: 0,
    traceParent: "",
    traceState: "",
    idempotencyKey: "auto:id1:1",
  });
  assert.deepEqual(full, {
    seq: 2,
    tags: ["red", "blue"],
    timeoutSeconds: 90,
    ...unset,
    ttlSeconds: 3600,
    command: "resize",
    payload: '{"a":2}',
    priority: 9,
    maxAttempts: 2,
    webhook: "https://x.test/hook",
    runAtMs: 1234,
    delaySeconds: 2,
    delayMs: 1500,
    traceParent: "",
    traceState: "",
    idempotencyKey: "k",
  });
});

function result(taskId: string, more: Partial<wire.TaskResult> = {}): wire.ServerEvent {
  const ok = {
    ok: true,
    errorMessage: "",
    errorCode: "",
    deduplicated: false,
    status: "COMPLETED",
    error: "",
  };
  return {
    case: "taskResult",
    value: { taskId, ...ok, resultJson: "", attempts: 0, artifacts: [], ...more },
  };
}

test("a result is asked for once, however many wait, and again on every connection", async () => {
  const { server, client, open } = setup();
  const run = client.run(note, "t1");
  const seen = [watch(run.result()), watch(run.result())];
  await open();
  assert.deepEqual(server.last.events.slice(1), [
    { case: "awaitResult", value: { taskId: "t1", waitSeconds: 60 } },
  ]);
  await server.last.end("lost");
  await server.advance(100);
  await open();
  server.last.take("awaitResult");
  await server.last.reply(result("t1", { ok: false, errorCode: "result_not_found" }));
  server.last.take("awaitResult");
  await server.last.reply(result("t1", { resultJson: '{"$value":[7]}' }));
  assert.deepEqual(seen, [{ value: [7] }, { value: [7] }]);
  await server.last.reply(result("t1"));
});

test("waiting for a result can be limited and given up, for each who waits", async () => {
  const { server, client, open } = setup();
  const run = client.run(note, "t1");
  const controller = new AbortController();
  const short = watch(run.result({ timeout: "5s" }));
  const aborted = watch(run.result({ signal: controller.signal }));
  const long = watch(run.result());
  await open();
  controller.abort("enough");
  await server.advance(5000);
  assert.equal(short.error?.code, "timeout");
  assert.equal(short.error?.message, "task t1 has no result after 5s");
  assert.equal(aborted.error as unknown, "enough");
  assert.deepEqual(long, {});
  await server.last.reply(result("t1", { status: "FAILED", error: "MAX_ATTEMPTS", attempts: 5 }));
  assert.deepEqual(
    [long.error?.code, long.error?.message],
    ["task_failed", "task t1 failed: MAX_ATTEMPTS"],
  );
});

test("an idle client lets the process end, and a busy one does not", async () => {
  const { server, client, open } = setup();
  const call = client.enqueue(note, 1);
  await open();
  assert.ok(server.last.isAwake);
  await server.last.reply(ack(1));
  const run = await call;
  assert.ok(!server.last.isAwake);
  assert.equal(server.clock.timers, 0);
  const waiting = watch(run.result());
  await settle();
  assert.ok(server.last.isAwake);
  await server.last.reply(result("t1"));
  assert.ok("value" in waiting && !server.last.isAwake);
  await server.last.end("lost");
  await server.advance(60_000);
  assert.equal(server.sessions.length, 1, "it dialled although there was nothing to say");
});

test("closing waits for what is on its way, for a while", async () => {
  const { server, client, open } = setup();
  const seen = [watch(client.enqueue(note, 1)), watch(client.enqueue(note, 2))];
  await open();
  const closed = watch(client.close({ timeout: "2s" }).then(() => "closed"));
  await server.last.reply(ack(1));
  assert.ok(seen[0]?.value !== undefined && closed.value === undefined);
  await server.advance(2000);
  assert.deepEqual([seen[1]?.error?.code, seen[1]?.error?.ambiguous], ["closed", true]);
  assert.ok(server.last.isFinished);
  await server.last.end("over");
  assert.equal(closed.value, "closed");
  assert.equal(server.clock.timers, 0);
  await assert.rejects(client.enqueue(note, 3), { code: "closed" });
  await assert.rejects(client.run(note, "t").result(), { code: "closed" });
  assert.throws(() => client.worker(note.handle(() => {})), { code: "closed" });
});

test("what concerns no call is a warning", async () => {
  const { server, client, warned, open } = setup();
  void client.enqueue(note, 1);
  await open();
  const value = { code: "InvalidArgument", message: "unknown-event", errorCode: "" };
  await server.last.reply({ case: "error", value });
  assert.deepEqual(
    warned.map(({ message }) => message),
    ["unknown-event"],
  );
});

test("of many, those that are not stored are told apart", async () => {
  await using server = await testServer();
  const items = ["a", "b", "a"].map((key, n) => ({ input: n, idempotencyKey: key }));
  await assert.rejects(server.client.enqueueMany(note, items), (error: CodeqError) => {
    assert.equal(error.code, "some_refused");
    assert.match(error.message, /^1 of 3 tasks are not stored: idempotency key reused/);
    const { outcomes } = error as CodeqError & { outcomes: readonly { ok: boolean }[] };
    assert.deepEqual(
      outcomes.map(({ ok }) => ok),
      [true, true, false],
    );
    return true;
  });
  assert.deepEqual(await server.client.enqueueMany(note, []), []);
});

test("a lost answer does not make a second task", async () => {
  await using server = await testServer();
  server.loseResponse("enqueue");
  const run = await server.client.enqueue(note, { n: 1 });
  assert.equal(server.counts(note).ready, 1);
  server.client.worker(note.handle((input) => input as object));
  assert.deepEqual(await run.result(), { n: 1 });
});
