/** API keys on streams: what a key may do there, and that its end is the end of its streams. */
import assert from "node:assert/strict";
import test from "node:test";
import { until } from "../contract/setup.ts";
import { type Server, setup } from "./setup.ts";

const allScopes = [
  ...["codeq:create", "codeq:claim", "codeq:heartbeat", "codeq:abandon"],
  ...["codeq:nack", "codeq:result"],
];

async function made(
  server: Server,
  fields: object = {},
): Promise<{ readonly id: string; readonly token: string }> {
  const body = { name: "farm", scopes: allScopes, ...fields };
  const reply = await server.api.post("/admin/keys", body, "admin-acme");
  assert.equal(reply.status, 201, reply.text);
  return reply.json;
}

async function revoke(server: Server, id: string): Promise<void> {
  const path = `/v1/codeq/admin/keys/${id}`;
  const reply = await server.api.ask(path, { method: "DELETE", caller: "admin-acme" });
  assert.equal(reply.status, 204, reply.text);
}

const revoked = { code: "UNAUTHENTICATED", details: "token was revoked" };

test("a key opens both streams as itself, in its tenant", async (t) => {
  const server = await setup(t);
  const { id, token } = await made(server);
  const producer = server.open("producer");
  const { helloAck: greeting } = await producer.ask({ hello: { token } });
  assert.deepEqual(greeting, { tenantId: "acme", subject: id });
  const worker = server.open("worker");
  const { helloAck } = await worker.ask({ hello: { token, workerId: "" } });
  assert.deepEqual(helloAck, { tenantId: "acme", workerId: id });
  const { createAck } = await producer.ask({ create: { seq: 1, command: "render" } });
  assert.equal(createAck.ok, true);
  const { task } = await worker.ask({ ready: {} });
  assert.equal(task.task.id, createAck.taskId);
  const { resultAck } = await worker.ask({
    result: { taskId: task.task.id, status: "COMPLETED", resultJson: Buffer.from("{}") },
  });
  assert.equal(resultAck.ok, true);
});

test("a revoked key ends its open streams, and those of other keys go on", async (t) => {
  const server = await setup(t);
  const bad = await made(server);
  const good = await made(server);
  const streams = [
    await server.worker(bad.token),
    await server.worker(bad.token, "another name"),
    await server.producer(bad.token),
  ];
  streams[0]?.send({ ready: {} });
  const other = await server.worker(good.token);
  other.send({ ready: {} });
  await server.untilWaiting(2);
  const startMs = server.api.clock.monotonicMs();
  await revoke(server, bad.id);
  for (const stream of streams) assert.deepEqual(await stream.ended, revoked);
  assert.equal(server.api.clock.monotonicMs(), startMs, "no time had to pass");
  await server.untilWaiting(1);
  const id = await server.api.create();
  const { task } = await other.next();
  assert.equal(task.task.id, id, "the task went to the one who still may");
});

test("what a revoked worker held stays leased until its lease ends", async (t) => {
  const server = await setup(t);
  const { id, token } = await made(server);
  const task = await server.api.create();
  const worker = await server.worker(token);
  await worker.ask({ ready: { leaseSeconds: 60 } });
  await revoke(server, id);
  assert.deepEqual(await worker.ended, revoked);
  assert.equal((await server.api.task(task)).status, "IN_PROGRESS");
  await server.pass(60_000);
  await until(async () => (await server.api.task(task)).status === "PENDING");
});

test("a key that was revoked, mistyped or never made opens no stream", async (t) => {
  const server = await setup(t);
  const { id, token } = await made(server);
  await revoke(server, id);
  for (const [wrong, why] of [
    [token, "invalid token"],
    [token.slice(0, -1), "the API key is mistyped or incomplete"],
  ] as const) {
    for (const kind of ["worker", "producer"] as const) {
      const call = server.open(kind);
      call.send({ hello: { token: wrong } });
      const details = `auth failed: ${why}`;
      assert.deepEqual(await call.ended, { code: "UNAUTHENTICATED", details });
    }
  }
});

test("a revocation that comes between two Hellos ends the one and refuses the other", async (t) => {
  const server = await setup(t);
  const { id, token } = await made(server);
  const first = await server.worker(token);
  const revoking = revoke(server, id);
  const second = server.open("worker");
  second.send({ hello: { token } });
  await revoking;
  assert.deepEqual(await first.ended, revoked);
  assert.equal((await second.ended).code, "UNAUTHENTICATED");
});

test("a key without a scope is refused the event, and the stream goes on", async (t) => {
  const server = await setup(t);
  const { token } = await made(server, { scopes: ["codeq:claim"] });
  const worker = await server.worker(token);
  const { error } = await worker.ask({ heartbeat: { taskId: "x" } });
  assert.deepEqual([error.code, error.message], ["PermissionDenied", "missing scope"]);
  const id = await server.api.create();
  const { task } = await worker.ask({ ready: {} });
  assert.equal(task.task.id, id);
});

test("work on a stream is a use of its key", async (t) => {
  const server = await setup(t);
  const { id, token } = await made(server);
  const producer = await server.producer(token);
  const lastUsed = async (): Promise<string | undefined> =>
    (await server.api.get(`/admin/keys/${id}`, "admin-acme")).json.lastUsedAt;
  await producer.ask({ create: { seq: 1, command: "render" } });
  const first = await lastUsed();
  await server.pass(5000);
  await producer.ask({ create: { seq: 2, command: "render" } });
  assert.equal(Date.parse((await lastUsed()) ?? "") - Date.parse(first ?? ""), 5000);
});
