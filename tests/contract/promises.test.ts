/** Contract 13, P, S and O: waiting, statuses, limits, tenants and the cost of asking. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { request } from "node:http";
import { connect, type Socket } from "node:net";
import test from "node:test";
import type { Commit } from "@codeq/engine";
import { settle } from "@codeq/simulated";
import { getResult } from "../../packages/server/src/features/tasks/read-task.ts";
import { completed, submit } from "../../packages/server/test/broker-world.ts";
import { watchReads } from "../../packages/server/test/engine-of.ts";
import { onlyWith, type RunningServer, setup } from "./setup.ts";

async function listening(server: RunningServer): Promise<number> {
  await server.app.listen({ port: 0, host: "127.0.0.1" });
  const address = server.app.server.address();
  assert.ok(typeof address === "object" && address !== null);
  return address.port;
}

test("P4: a waiting claim sets one timer, runs none, and is answered by the event itself", async (t) => {
  const server = await setup(t);
  await server.clock.advance(2000);
  assert.equal(server.clock.timers, 0, "an idle server plans nothing");
  const pending = server.claim({ waitSeconds: 30 });
  await server.untilWaiting(1);
  assert.equal(server.clock.timers, 1, "its deadline is the only timer");
  const fired = server.clock.fired;
  await server.clock.advance(29_999);
  assert.equal(server.clock.fired, fired, "nothing looks for work in between");
  const id = await server.create();
  assert.equal((await pending).id, id);
  assert.equal(server.clock.fired, fired, "no timer had to run");
});

test(
  "P4: a reader who waits sets one timer, runs none, and is answered by the event itself",
  onlyWith.timers,
  async (t) => {
    const server = await setup(t);
    const id = await server.leased({}, "worker-acme");
    await server.post(`/tasks/${id}/heartbeat`, { extendSeconds: 86_400 }, "worker-acme");
    const timers = server.clock.timers;
    const pending = server.get(`/tasks/${id}/result?waitSeconds=60`);
    await server.untilWaiting(1, "results");
    assert.equal(server.clock.timers, timers + 1);
    await server.complete(id);
    const fired = server.clock.fired;
    assert.equal((await pending).json.result.status, "COMPLETED");
    assert.equal(server.clock.fired, fired);
  },
);

test(
  "P4: a result is not missed whenever it comes while a reader begins to wait",
  onlyWith.broker,
  async (t) => {
    const server = await setup(t);
    for (let hops = 0; hops < 60; hops += 1) {
      const id = await server.leased();
      const call = { tenantId: "acme", id, owner: { workerId: "worker-1" } };
      const reader = server.core.dispatch.run(
        getResult,
        { identity: { tenantId: "acme" } as never, signal: undefined },
        { id: id as never, waitSeconds: 60 },
      );
      for (let hop = 0; hop < hops; hop += 1) await null;
      submit(server.core.shard, call as never, completed("{}"));
      await settle();
      assert.equal(server.core.shard.results.size, 0, `missed after ${hops} turns`);
      assert.equal((await reader).ok, true);
    }
  },
);

test(
  "P4: claims with nothing to wait for are answered at once and leave nothing behind",
  onlyWith.broker,
  async (t) => {
    const server = await setup(t);
    await server.clock.advance(2000);
    for (const waitSeconds of [undefined, 0, -1]) {
      assert.equal(await server.claim({ waitSeconds }), undefined);
    }
    assert.equal(server.clock.timers, 0);
    assert.equal(server.core.shard.claims.waiting.size, 0);
  },
);

test("a caller that goes away stops waiting and costs the task nothing", async (t) => {
  const server = await setup(t);
  const port = await listening(server);
  const call = request({
    port,
    host: "127.0.0.1",
    method: "POST",
    path: "/v1/codeq/tasks/claim",
    headers: { authorization: "Bearer worker-acme" },
  });
  call.on("error", () => {});
  call.end('{"waitSeconds":30}');
  await server.untilWaiting(1);
  call.destroy();
  await server.untilWaiting(0);
  const id = await server.create();
  const task = await server.task(id);
  assert.equal(task.status, "PENDING");
  assert.equal(task.attempts, undefined);
  const reader = request({
    port,
    host: "127.0.0.1",
    path: `/v1/codeq/tasks/${id}/result?waitSeconds=60`,
    headers: { authorization: "Bearer producer-acme" },
  });
  reader.on("error", () => {});
  reader.end();
  await server.untilWaiting(1, "results");
  reader.destroy();
  await server.untilWaiting(0, "results");
});

for (const [kind, more] of [
  ["plain", ""],
  ["not plain, so that Node's server answers it,", "cookie: a=b\r\n"],
] as const) {
  test(`a claim that is ${kind} gets no task that comes after its connection was closed`, async (t) => {
    const server = await setup(t);
    const port = await listening(server);
    const opened = async (): Promise<Socket> => {
      const socket = connect(port, "127.0.0.1");
      await once(socket, "connect");
      return socket;
    };
    const send = (socket: Socket, path: string, token: string, body: string): void => {
      const head = `POST /v1/codeq/${path} HTTP/1.1\r\nhost: codeq\r\nauthorization: Bearer ${token}\r\n`;
      socket.write(`${head}${more}content-length: ${body.length}\r\n\r\n${body}`);
    };
    const [producer, worker] = [await opened(), await opened()];
    send(worker, "tasks/claim", "worker-acme", '{"waitSeconds":30}');
    await server.untilWaiting(1);
    worker.end();
    send(producer, "tasks", "producer-acme", '{"command":"GENERATE_MASTER","payload":{}}');
    const [answer] = await once(producer, "data");
    const { id } = JSON.parse(String(answer).split("\r\n\r\n")[1] ?? "");
    assert.equal((await server.task(id)).status, "PENDING");
    producer.destroy();
  });
}

test("P8: what a caller did wrong is never a 500", async (t) => {
  const server = await setup(t);
  const finished = await server.leased();
  await server.complete(finished);
  for (const [verb, body] of [
    ["heartbeat", {}],
    ["abandon", {}],
    ["nack", {}],
    ["result", { status: "FAILED", error: "x" }],
  ] as const) {
    assert.equal((await server.post(`/tasks/none/${verb}`, body, "worker-acme")).status, 404, verb);
    const reply = await server.post(`/tasks/${finished}/${verb}`, body, "worker-acme");
    assert.equal(reply.text, '{"error":"not-in-progress"}');
    assert.equal(reply.status, 409);
  }
});

test("P9: the same result again is answered with the record that is there", async (t) => {
  const server = await setup(t);
  const id = await server.leased();
  const first = await server.complete(id);
  await server.clock.advance(5000);
  const other = { status: "COMPLETED", result: { something: "else" }, leaseToken: 1 };
  const again = await server.post(`/tasks/${id}/result`, other, "worker-acme");
  assert.equal(again.status, 200);
  const repeat = { ...first.json, repeated: true, bodyDiffered: true };
  assert.deepEqual(again.json, repeat);
  const batch = { results: [{ taskId: id, ...other }] };
  const { json } = await server.post("/tasks/batch/results", batch, "worker-acme");
  assert.deepEqual(json.results, [{ taskId: id, result: repeat }]);
  for (const [body, caller] of [
    [{ status: "FAILED", error: "x" }, "worker-acme"],
    [other, "worker-acme-2"],
    [{ ...other, leaseToken: 2 }, "worker-acme"],
  ] as const) {
    const reply = await server.post(`/tasks/${id}/result`, body, caller);
    assert.equal(reply.text, '{"error":"not-in-progress"}');
    assert.equal(reply.status, 409);
  }
});

test("P13: payload and result keep every digit, every key and every space", async (t) => {
  const server = await setup(t);
  const text = '{ "z":12345678901234567890, "a" : 1.10,"z2":"<&>\\u003c", "é":[ ] }';
  const body = `{"command":"render","payload":${text}}`;
  const { json } = await server.post("/tasks", body, "producer-acme");
  assert.equal(json.payload, text);
  assert.equal((await server.claim()).payload, text);
  const result = `{"status":"COMPLETED","result":${text}}`;
  const reply = await server.post(`/tasks/${json.id}/result`, result, "worker-acme");
  assert.ok(reply.text.includes(`"result":${text},`), reply.text);
  const after = await server.restart();
  t.after(() => after.stop());
  const read = await after.get(`/tasks/${json.id}/result`);
  assert.ok(read.text.includes(`"result":${text},`), read.text);
  assert.equal(read.json.task.payload, text);
  const tasks = `{"tasks":[{"payload":[1],"command":"a"},{"payload":${text},"command":"b"}]}`;
  const batch = await after.post("/tasks/batch", tasks, "producer-acme");
  assert.equal(batch.json.results[1].task.payload, text);
});

test("P17: everything a caller can send has a limit and a refusal that names it", async (t) => {
  const server = await setup(t, { settings: { payloadBytesMax: 1024, bodyBytesMax: 300_000 } });
  const id = await server.leased();
  const task = { command: "render", payload: 1 };
  const many = (count: number, item: unknown) => Array.from({ length: count }, () => item);
  const cases: [string, unknown, number, RegExp][] = [
    ["/tasks", `{"command":"a","payload":"${"x".repeat(300_000)}"}`, 413, /body is too large/],
    ["/tasks", { ...task, payload: "x".repeat(1024) }, 413, /payload is larger than 1024/],
    ["/tasks", { ...task, command: "c".repeat(129) }, 400, /invalid command/],
    ["/tasks", { ...task, idempotencyKey: "k".repeat(257) }, 400, /at most 256/],
    ["/tasks", { ...task, maxAttempts: 1001 }, 400, /<= 1000/],
    ["/tasks", { ...task, delaySeconds: 1e12 }, 400, /<= 316224000/],
    ["/tasks", { ...task, webhook: `http://a/${"x".repeat(3000)}` }, 400, /invalid webhook/],
    ["/tasks/batch", { tasks: many(1001, task) }, 400, /maximum of 1000/],
    ["/tasks/claim", { leaseSeconds: 86_401 }, 400, /<= 86400/],
    ["/tasks/claim", { commands: many(257, "a").map((c, i) => `${c}${i}`) }, 400, /at most 256/],
    ["/tasks/claim/batch", { count: 257 }, 400, /maximum of 256/],
    [`/tasks/${id}/heartbeat`, { extendSeconds: 86_401 }, 400, /<= 86400/],
    [`/tasks/${id}/nack`, { reason: "x".repeat(4097) }, 400, /at most 4096/],
    [`/tasks/${id}/result`, { status: "FAILED", error: "x".repeat(65_537) }, 400, /at most 65536/],
    ["/tasks/batch/results", { results: many(1001, { taskId: "x" }) }, 400, /maximum of 1000/],
  ];
  for (const [path, body, status, text] of cases) {
    const caller = path === "/tasks" || path === "/tasks/batch" ? "producer-acme" : "worker-acme";
    const reply = await server.post(path, body, caller);
    assert.equal(reply.status, status, `${path}: ${reply.text}`);
    assert.match(reply.json.error, text);
  }
});

test("S1: the id of a task opens nothing for another tenant, not even for a worker of the same name", async (t) => {
  const server = await setup(t);
  const id = await server.leased({ payload: { secret: 1 } });
  for (const path of [`/tasks/${id}`, `/tasks/${id}/result`]) {
    for (const caller of ["producer-globex", "worker-globex", "admin-globex"] as const) {
      const foreign = await server.get(path, caller);
      const unknown = await server.get(path.replace(id, "unknown"), caller);
      assert.deepEqual([foreign.status, foreign.text], [unknown.status, unknown.text]);
    }
  }
  const result = { status: "COMPLETED", result: {}, leaseToken: 1 };
  for (const verb of ["heartbeat", "nack", "abandon", "result"]) {
    const body = verb === "result" ? result : { leaseToken: 1 };
    const send = (task: string) => server.post(`/tasks/${task}/${verb}`, body, "worker-globex");
    const [foreign, unknown] = [await send(id), await send("unknown")];
    assert.equal(foreign.status, 404);
    assert.equal(foreign.text, unknown.text);
  }
  assert.equal((await server.task(id)).status, "IN_PROGRESS");
});

test("S3: an administrator sees and cleans up the own tenant only", async (t) => {
  const server = await setup(t);
  const theirs = await server.leased({}, "worker-globex");
  await server.complete(theirs, "worker-globex");
  const dead = await server.leased({ maxAttempts: 1 }, "worker-globex");
  await server.post(`/tasks/${dead}/abandon`, {}, "worker-globex");
  await server.create({}, "producer-globex");
  const ours = await server.leased();
  await server.complete(ours);
  assert.equal((await server.get("/admin/queues", "admin-acme")).text, "{}");
  assert.equal((await server.stats("render", "admin-acme")).ready, 0);
  const body = { before: "2100-01-01T00:00:00Z", limit: 100_000 };
  const { json } = await server.post("/admin/tasks/cleanup", body, "admin-acme");
  assert.equal(json.deleted, 1);
  assert.equal((await server.get(`/tasks/${theirs}`, "producer-globex")).status, 200);
  assert.equal((await server.get(`/tasks/${dead}`, "producer-globex")).status, 200);
  assert.equal((await server.stats("render", "admin-globex")).ready, 1);
});

test("O9: counts are answered without reading the store, however many tasks there are", async (t) => {
  const server = await setup(t);
  const tasks = Array.from({ length: 1000 }, (_, n) => ({ command: `c${n % 3}`, payload: n }));
  for (let n = 0; n < 5; n += 1) await server.post("/tasks/batch", { tasks }, "producer-acme");
  const after = await server.restart();
  t.after(() => after.stop());
  watchReads(after.core.store, () => assert.fail("the store was read"));
  assert.equal((await after.stats("c0")).ready, 1670);
  assert.equal(
    (await after.get("/admin/queues", "admin-acme")).json["codeq:q:c1:acme:pending:0"],
    1665,
  );
  assert.equal(await after.metric('codeq_queue_depth{command="c2",queue="ready"}'), 1665);
});

test(
  "O10: a shutdown ends long polls, finishes what is in flight and loses nothing",
  onlyWith.broker,
  async (t) => {
    const server = await setup(t, { storage: "files" });
    const url = `http://127.0.0.1:${await listening(server)}/v1/codeq/tasks`;
    const send = (path: string, token: string, body?: object) =>
      fetch(url + path, {
        headers: { authorization: `Bearer ${token}` },
        ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
      });
    const claim = send("/claim", "worker-acme", { waitSeconds: 30, commands: ["render"] });
    const id = await server.create({ delaySeconds: 60 });
    const read = send(`/${id}/result?waitSeconds=60`, "producer-acme");
    await server.untilWaiting(1);
    await server.untilWaiting(1, "results");
    const sync = Promise.withResolvers<void>();
    const { store } = server.core;
    const commit = store.commit.bind(store);
    const creating = Promise.withResolvers<void>();
    store.commit = (changes) => {
      creating.resolve();
      const group = commit(changes);
      const held: Commit = {
        index: group.index,
        wait: (waiter) => void sync.promise.then(() => group.wait(waiter)),
        done: sync.promise.then(() => group.done),
      };
      return held as ReturnType<typeof commit>;
    };
    const inFlight = send("", "producer-acme", { command: "print", payload: 1 });
    await creating.promise;
    const stopped = server.stop();
    assert.equal((await claim).status, 204);
    assert.equal((await read).status, 404);
    sync.resolve();
    const created = await inFlight;
    assert.equal(created.status, 202);
    await stopped;
    const after = await server.world.start();
    t.after(() => after.stop());
    const kept = ((await created.json()) as { id: string }).id;
    assert.equal((await after.task(kept)).command, "print");
    assert.equal((await after.task(id)).lastKnownLocation, "DELAYED_ZSET");
  },
);

test("O10: a long poll whose body arrives during the shutdown does not hold it up", async (t) => {
  const server = await setup(t);
  const port = await listening(server);
  const begun = Promise.withResolvers<void>();
  server.app.server.once("request", () => begun.resolve());
  const socket = connect(port, "127.0.0.1");
  t.after(() => socket.destroy());
  const answer = Promise.withResolvers<string>();
  socket.once("data", (data) => answer.resolve(String(data)));
  const body = '{"waitSeconds":30}';
  socket.write(
    "POST /v1/codeq/tasks/claim HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer worker-acme\r\n" +
      `Content-Length: ${body.length}\r\n\r\n${body.slice(0, 5)}`,
  );
  await begun.promise;
  const stopped = server.stop();
  socket.write(body.slice(5));
  assert.match(await answer.promise, /^HTTP\/1\.1 (204|503) /);
  await stopped;
});
