/** Claim, heartbeat, abandon, nack and their batches: contract 2.6 to 2.10 and decisions S2 to S13. */
import assert from "node:assert/strict";
import test from "node:test";
import type { Reply } from "./setup.ts";
import { onlyWith, setup } from "./setup.ts";

function refuses(reply: Reply, status: number, text: string | RegExp): void {
  if (typeof text === "string") assert.deepEqual(reply.json, { error: text });
  else assert.match(reply.json.error, text);
  assert.equal(reply.status, status);
}

test("a claim answers 200 with the leased task in the order of the contract", async (t) => {
  const server = await setup(t);
  const id = await server.create({ command: "Render", payload: { id: 7 }, priority: 5 });
  const body = { commands: ["Render"], leaseSeconds: 60 };
  const reply = await server.post("/tasks/claim", body, "worker-acme");
  assert.equal(reply.status, 200);
  const expected = {
    id,
    command: "Render",
    payload: '{"id":7}',
    priority: 5,
    status: "IN_PROGRESS",
    lastKnownLocation: "INPROG_SET",
    workerId: "worker-1",
    leaseUntil: "2026-01-02T03:05:05Z",
    maxAttempts: 5,
    tenantId: "acme",
    createdAt: "2026-01-02T03:04:05.12Z",
    updatedAt: "2026-01-02T03:04:05.12Z",
    leaseToken: 1,
  };
  assert.equal(reply.text, JSON.stringify(expected));
});

test("a claim that finds nothing answers 204 without a body", async (t) => {
  const server = await setup(t);
  const reply = await server.post("/tasks/claim", {}, "worker-acme");
  assert.equal(reply.status, 204);
  assert.equal(reply.text, "");
  const batch = await server.post("/tasks/claim/batch", { count: 3 }, "worker-acme");
  assert.equal(batch.status, 204);
  assert.equal(batch.text, "");
});

test("a claim body must be JSON of the right types", async (t) => {
  const server = await setup(t);
  await server.create();
  const bodies = [
    "",
    "x",
    "[]",
    '{"commands":"render"}',
    '{"commands":[7]}',
    '{"leaseSeconds":"1"}',
  ];
  for (const body of [...bodies, '{"waitSeconds":0.5}', '{"waitSeconds":"1"}']) {
    refuses(await server.post("/tasks/claim", body, "worker-acme"), 400, /^invalid body: /);
  }
  for (const body of ["", "{}", '{"count":0}', '{"count":-1}', '{"count":"2"}', '{"count":null}']) {
    refuses(await server.post("/tasks/claim/batch", body, "worker-acme"), 400, /^invalid body: /);
  }
  assert.equal((await server.stats()).ready, 1);
});

test("a lease is as long as asked for, the default when not positive, and never over a day", async (t) => {
  const server = await setup(t);
  const until = async (leaseSeconds: number | null | undefined) => {
    await server.create();
    return (await server.claim({ leaseSeconds })).leaseUntil;
  };
  assert.equal(await until(1), "2026-01-02T03:04:06Z");
  assert.equal(await until(undefined), "2026-01-02T03:09:05Z");
  assert.equal(await until(null), "2026-01-02T03:09:05Z");
  assert.equal(await until(0), "2026-01-02T03:09:05Z");
  assert.equal(await until(-5), "2026-01-02T03:09:05Z");
  assert.equal(await until(86_400), "2026-01-03T03:04:05Z");
  const refused = await server.post("/tasks/claim", { leaseSeconds: 86_401 }, "worker-acme");
  refuses(refused, 400, "invalid 'leaseSeconds' (must be <= 86400)");
});

test("tasks come by priority over all commands, then in the order they became ready", async (t) => {
  const server = await setup(t);
  const ids: string[] = [];
  for (const [command, priority] of [
    ["a", 0],
    ["b", 0],
    ["a", 3],
    ["b", 9],
    ["a", 9],
  ] as const) {
    ids.push(await server.create({ command, priority }));
  }
  const claimed: string[] = [];
  for (const _ of ids) claimed.push((await server.claim({ commands: ["a", "b"] })).id);
  assert.deepEqual(claimed, [ids[3], ids[4], ids[2], ids[0], ids[1]]);
});

test("a wildcard worker without commands gets every command of its tenant only", async (t) => {
  const server = await setup(t);
  const mine = await server.create({ command: "anything-at-all" });
  await server.create({ command: "render" }, "producer-globex");
  assert.equal((await server.claim()).id, mine);
  assert.equal(await server.claim(), undefined);
});

test("a worker with event types claims those, whatever their case, and no others", async (t) => {
  const server = await setup(t);
  await server.create({ command: "print" });
  const id = await server.create({ command: "RENDER" });
  assert.equal((await server.claim({}, "worker-render")).id, id);
  assert.equal(await server.claim({ commands: ["rEnDeR"] }, "worker-render"), undefined);
  for (const commands of [["print"], ["render", "print"], ["*"]]) {
    const reply = await server.post("/tasks/claim", { commands }, "worker-render");
    if (commands[0] === "*") refuses(reply, 400, "invalid command");
    else refuses(reply, 403, "event type not allowed");
  }
  assert.equal((await server.stats("print")).ready, 1);
});

test(
  "a batch claim gives up to count tasks and refuses more than the configured number",
  onlyWith.order,
  async (t) => {
    const server = await setup(t);
    const tasks = Array.from({ length: 300 }, (_, n) => ({ command: "render", payload: n }));
    await server.post("/tasks/batch", { tasks }, "producer-acme");
    const claim = (count: number) => server.post("/tasks/claim/batch", { count }, "worker-acme");
    refuses(await claim(257), 400, "count exceeds maximum of 256");
    refuses(await claim(1e308), 400, "count exceeds maximum of 256");
    const first = await claim(256);
    assert.deepEqual(Object.keys(first.json), ["tasks"]);
    assert.equal(first.json.tasks.length, 256);
    const rest = await claim(256);
    assert.equal(rest.json.tasks.length, 44);
    const payloads = [...first.json.tasks, ...rest.json.tasks].map(({ payload }) =>
      Number(payload),
    );
    assert.deepEqual(payloads, [...tasks.keys()]);
    const small = await setup(t, { settings: { claimBatchMax: 1 } });
    const refused = await small.post("/tasks/claim/batch", { count: 2 }, "worker-acme");
    refuses(refused, 400, "count exceeds maximum of 1");
  },
);

test("more than 256 commands in one claim are refused", async (t) => {
  const server = await setup(t);
  const commands = Array.from({ length: 257 }, (_, n) => `c${n}`);
  const reply = await server.post("/tasks/claim", { commands }, "worker-acme");
  refuses(reply, 400, "invalid 'commands' (at most 256)");
  assert.equal(
    (await server.post("/tasks/claim", { commands: ["a b"] }, "worker-acme")).status,
    400,
  );
});

test("a waiting claim is capped at 30 seconds and then answers 204", onlyWith.broker, async (t) => {
  const server = await setup(t);
  const pending = server.post("/tasks/claim", { waitSeconds: 1e9 }, "worker-acme");
  await server.untilWaiting(1);
  await server.clock.advance(29_999);
  assert.equal(server.core.shard.claims.waiting.size, 1);
  await server.clock.advance(1);
  assert.equal((await pending).status, 204);
});

test("waiting claims are served in the order they came", async (t) => {
  const server = await setup(t);
  const wait = { waitSeconds: 30 };
  const first = server.post("/tasks/claim", { ...wait, commands: ["a", "b"] }, "worker-acme");
  await server.untilWaiting(1);
  const second = server.post("/tasks/claim", wait, "worker-acme-2");
  await server.untilWaiting(2);
  const third = server.post("/tasks/claim", { ...wait, commands: ["a"] }, "worker-acme");
  await server.untilWaiting(3);
  const ids: string[] = [];
  for (const command of ["b", "a", "a"]) ids.push(await server.create({ command }));
  const claimed = (await Promise.all([first, second, third])).map(({ json }) => json.id);
  assert.deepEqual(claimed, ids);
});

test("a heartbeat moves the end of the lease, and never to earlier", async (t) => {
  const server = await setup(t);
  const id = await server.leased();
  const beat = async (body: object) => {
    const reply = await server.post(`/tasks/${id}/heartbeat`, body, "worker-acme");
    assert.equal(reply.text, '{"ok":true}');
    assert.equal(reply.status, 200);
    return (await server.task(id)).leaseUntil;
  };
  await server.clock.advance(10_000);
  assert.equal(await beat({}), "2026-01-02T03:09:15Z");
  assert.equal(await beat({ extendSeconds: 5 }), "2026-01-02T03:09:15Z");
  assert.equal(await beat({ extendSeconds: 600 }), "2026-01-02T03:14:15Z");
  assert.equal(await beat({ extendSeconds: -1, leaseToken: 1 }), "2026-01-02T03:14:15Z");
});

test("heartbeat, nack and abandon say what is wrong with 404, 403 and 409", async (t) => {
  const server = await setup(t);
  const running = await server.leased();
  const finished = await server.leased();
  await server.complete(finished);
  const waiting = await server.create();
  for (const verb of ["heartbeat", "nack", "abandon"]) {
    const send = (
      id: string,
      body: unknown = {},
      caller: "worker-acme" | "worker-acme-2" = "worker-acme",
    ) => server.post(`/tasks/${id}/${verb}`, body, caller);
    refuses(await send("unknown"), 404, "not-found");
    refuses(await send(running, {}, "worker-acme-2"), 403, "not-owner");
    refuses(await send(running, { leaseToken: 7 }), 403, "not-owner");
    refuses(await send(finished), 409, "not-in-progress");
    refuses(await send(waiting), 409, "not-in-progress");
    if (verb === "abandon") continue;
    for (const body of ["", "x", "[]", '{"leaseToken":"1"}']) {
      refuses(await send(running, body), 400, /^invalid body: /);
    }
  }
  refuses(
    await server.post(`/tasks/${running}/heartbeat`, { extendSeconds: 86_401 }, "worker-acme"),
    400,
    "invalid 'extendSeconds' (must be <= 86400)",
  );
  refuses(
    await server.post(`/tasks/${running}/nack`, { reason: "x".repeat(4097) }, "worker-acme"),
    400,
    "invalid 'reason' (at most 4096 characters)",
  );
  assert.equal((await server.task(running)).status, "IN_PROGRESS");
});

test("an abandoned task is ready at once, behind the others, and has one attempt more", async (t) => {
  const server = await setup(t);
  const id = await server.leased();
  const other = await server.create();
  const reply = await server.ask(`/v1/codeq/tasks/${id}/abandon`, {
    method: "POST",
    caller: "worker-acme",
  });
  assert.equal(reply.text, '{"status":"requeued"}');
  const task = await server.task(id);
  assert.equal(task.lastKnownLocation, "PENDING_LIST");
  assert.equal(task.attempts, 1);
  assert.deepEqual(
    [task.workerId, task.leaseUntil, task.leaseToken],
    [undefined, undefined, undefined],
  );
  assert.deepEqual([(await server.claim()).id, (await server.claim()).id], [other, id]);
});

test("a body of abandon may be missing, and is refused when it makes no sense", async (t) => {
  const server = await setup(t);
  const id = await server.leased({ maxAttempts: 10 });
  for (const body of ["not json", "[]", '"text"', "7", '{"leaseTokn":99}']) {
    const reply = await server.post(`/tasks/${id}/abandon`, body, "worker-acme");
    refuses(reply, 400, /^invalid body: /);
  }
  const reply = await server.post(`/tasks/${id}/abandon`, "", "worker-acme");
  assert.equal(reply.text, '{"status":"requeued"}');
});

test("a null beside a stale lease token does not let the token through", async (t) => {
  const server = await setup(t);
  const id = await server.leased();
  const body = { interrupted: null, leaseToken: 99 };
  refuses(await server.post(`/tasks/${id}/abandon`, body, "worker-acme"), 403, "not-owner");
});

test("interrupted work is handed back for free three times in a row", async (t) => {
  const server = await setup(t);
  const id = await server.leased();
  const attempts: (number | undefined)[] = [];
  for (let round = 0; round < 5; round += 1) {
    await server.post(`/tasks/${id}/abandon`, { interrupted: true }, "worker-acme");
    attempts.push((await server.task(id)).attempts);
    await server.claim();
  }
  assert.deepEqual(attempts, [undefined, undefined, undefined, 1, 1]);
});

test("abandoning the last attempt buries the task", async (t) => {
  const server = await setup(t);
  const id = await server.leased({ maxAttempts: 1 });
  const reply = await server.post(`/tasks/${id}/abandon`, {}, "worker-acme");
  assert.equal(reply.text, '{"status":"dlq"}');
  const task = await server.task(id);
  assert.equal(task.status, "FAILED");
  assert.equal(task.lastKnownLocation, "DLQ_SET");
  assert.equal(task.error, "MAX_ATTEMPTS");
});

test("a nack with a delay waits that long, at most the longest backoff", async (t) => {
  const server = await setup(t);
  const id = await server.leased();
  const nack = (body: object) => server.post(`/tasks/${id}/nack`, body, "worker-acme");
  const reply = await nack({ delaySeconds: 30, reason: "busy" });
  assert.equal(reply.text, '{"status":"requeued","delaySeconds":30}');
  const task = await server.task(id);
  assert.equal(task.lastKnownLocation, "DELAYED_ZSET");
  assert.equal(task.attempts, 1);
  assert.equal(task.error, "busy");
  await server.clock.advance(29_999);
  assert.equal(await server.claim(), undefined);
  await server.clock.advance(1);
  const again = await server.claim();
  assert.equal(again.id, id);
  assert.equal(again.leaseToken, 2);
  assert.equal(
    (await nack({ delaySeconds: 1e308 })).text,
    '{"status":"requeued","delaySeconds":900}',
  );
});

test("a nack without a delay waits by the policy", async (t) => {
  const server = await setup(t, {
    settings: { backoffPolicy: "linear", backoffBaseSeconds: 7, backoffMaxSeconds: 20 },
  });
  const id = await server.leased({ maxAttempts: 10 });
  const delays: number[] = [];
  for (let round = 0; round < 4; round += 1) {
    const { json } = await server.post(`/tasks/${id}/nack`, {}, "worker-acme");
    delays.push(json.delaySeconds);
    await server.clock.advance(json.delaySeconds * 1000);
    await server.claim();
  }
  assert.deepEqual(delays, [7, 14, 20, 20]);
});

test("the nack of the last attempt buries the task with its reason", async (t) => {
  const server = await setup(t);
  const id = await server.buried();
  const task = await server.task(id);
  assert.equal(task.status, "FAILED");
  assert.equal(task.lastKnownLocation, "DLQ_SET");
  assert.equal(task.error, "broken");
  assert.equal(task.resultKey, `codeq/results/${id}`);
  assert.deepEqual(await server.stats(), {
    command: "render",
    ready: 0,
    delayed: 0,
    inProgress: 0,
    dlq: 1,
    failed: 0,
  });
  const silent = await server.leased({ maxAttempts: 1 });
  await server.post(`/tasks/${silent}/nack`, {}, "worker-acme");
  assert.equal((await server.task(silent)).error, "MAX_ATTEMPTS");
});
