/** Cancelling tasks that wait, that run, and that have ended. */
import assert from "node:assert/strict";
import test from "node:test";
import { onlyWith, type Reply, type RunningServer, setup } from "./setup.ts";

const cancel = (server: RunningServer, id: string, body?: object): Promise<Reply> =>
  server.post(`/tasks/${id}/cancel`, body, "producer-acme");

// biome-ignore lint/suspicious/noExplicitAny: the result as it is on the wire.
async function resultOf(server: RunningServer, id: string): Promise<any> {
  return (await server.get(`/tasks/${id}/result`)).json.result;
}

test("a task that waits ends as failed with CANCELLED, and nobody gets it", async (t) => {
  const server = await setup(t);
  const ready = await server.create();
  const kept = await server.create();
  const delayed = await server.create({ delaySeconds: 60 });
  const reading = server.get(`/tasks/${ready}/result?waitSeconds=10`);
  await server.untilWaiting(1, "results");
  for (const id of [ready, delayed]) {
    const reply = await cancel(server, id);
    assert.equal(reply.status, 200, reply.text);
    const { status, place, error } = reply.json.task;
    assert.deepEqual([status, place, error], ["FAILED", "cancelled", "CANCELLED"]);
    assert.deepEqual((await resultOf(server, id)).error, "CANCELLED");
  }
  assert.equal((await reading).json.result.error, "CANCELLED");
  const stats = await server.stats();
  assert.deepEqual([stats.ready, stats.delayed], [1, 0]);
  await server.clock.advance(61_000);
  assert.equal((await server.claim()).id, kept);
  assert.equal(await server.claim(), undefined);
});

test("a worker hears of it with its next heartbeat, and loses the task when the grace is over", async (t) => {
  const server = await setup(t);
  const id = await server.leased();
  const beat = () => server.post(`/tasks/${id}/heartbeat`, { extendSeconds: 600 }, "worker-acme");
  assert.equal((await beat()).text, '{"ok":true}');
  const reply = await cancel(server, id, { graceSeconds: 20 });
  assert.equal(reply.json.task.place, "leased");
  assert.equal((await beat()).text, '{"ok":true,"cancelled":true}');
  await server.clock.advance(19_000);
  assert.equal((await beat()).text, '{"ok":true,"cancelled":true}');
  await server.clock.advance(2000);
  assert.equal((await server.task(id)).status, "FAILED");
  assert.equal((await resultOf(server, id)).error, "CANCELLED");
  const late = await server.complete(id);
  assert.deepEqual([late.status, late.headers["codeq-error"]], [409, "not_in_progress"]);
  assert.equal(await server.claim(), undefined);
});

test("whatever the worker gives back ends the task, and a result in time counts", async (t) => {
  const server = await setup(t);
  for (const verb of ["nack", "abandon"]) {
    const id = await server.leased();
    await cancel(server, id);
    assert.equal((await server.post(`/tasks/${id}/${verb}`, {}, "worker-acme")).status, 200);
    assert.equal((await server.task(id)).error, "CANCELLED");
    assert.equal(await server.claim(), undefined);
  }
  const id = await server.leased();
  await cancel(server, id);
  assert.equal((await server.complete(id)).status, 200);
  assert.equal((await resultOf(server, id)).status, "COMPLETED");
});

test("without grace the task is taken away at once", async (t) => {
  const server = await setup(t);
  const id = await server.leased();
  assert.equal((await cancel(server, id, { graceSeconds: 0 })).json.task.place, "cancelled");
  const beat = await server.post(`/tasks/${id}/heartbeat`, {}, "worker-acme");
  assert.equal(beat.headers["codeq-error"], "not_in_progress");
});

test("what has ended cannot be cancelled", async (t) => {
  const server = await setup(t);
  const done = await server.leased();
  await server.complete(done);
  const dead = await server.buried();
  const cancelled = await server.create();
  await cancel(server, cancelled);
  for (const id of [done, dead, cancelled]) {
    const before = await server.fingerprint();
    const reply = await cancel(server, id);
    assert.deepEqual([reply.status, reply.headers["codeq-error"]], [409, "has_ended"]);
    assert.equal(await server.fingerprint(), before);
  }
});

test("what is no request to cancel is refused", async (t) => {
  const server = await setup(t);
  const id = await server.create();
  for (const body of [{ grace: 1 }, { graceSeconds: "1" }]) {
    const reply = await cancel(server, id, body);
    assert.equal(reply.status, 400);
    assert.match(reply.json.error, /^invalid body: .*grace/);
  }
  for (const graceSeconds of [-1, 3601]) {
    const reply = await cancel(server, id, { graceSeconds });
    assert.equal(reply.text, `{"error":"invalid 'graceSeconds' (0 to 3600)"}`);
  }
  assert.equal((await cancel(server, id.slice(-8))).status, 404);
  const short = await server.post(`/admin/tasks/${id.slice(-8)}/cancel`, undefined, "admin-acme");
  assert.equal(short.json.task.error, "CANCELLED");
});

test("a cancelled task stays so after a power failure, also one that a worker has", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  const running = await server.leased();
  const waiting = await server.create();
  await cancel(server, running);
  await cancel(server, waiting);
  server.world.crash("power");
  const next = await server.world.start();
  t.after(() => next.stop());
  assert.equal((await next.task(waiting)).error, "CANCELLED");
  const beat = await next.post(`/tasks/${running}/heartbeat`, {}, "worker-acme");
  assert.equal(beat.json.cancelled, true);
  await next.clock.advance(31_000);
  assert.equal((await next.task(running)).error, "CANCELLED");
});

test(
  "many tasks of a long queue are cancelled, and the others come in their order",
  onlyWith.order,
  async (t) => {
    const server = await setup(t);
    const tasks = Array.from({ length: 300 }, () => ({ command: "render", payload: 1 }));
    const created = await server.post("/tasks/batch", { tasks }, "producer-acme");
    const ids: string[] = created.json.results.map(({ task }: { task: { id: string } }) => task.id);
    // After a restart nothing of the queue is in memory yet.
    const next = await server.restart();
    t.after(() => next.stop());
    const gone = ids.filter((_, at) => at % 3 !== 0);
    await Promise.all(gone.map((id) => cancel(next, id)));
    const left: string[] = [];
    for (let task = await next.claim(); task !== undefined; task = await next.claim()) {
      left.push(task.id);
    }
    assert.deepEqual(
      left,
      ids.filter((id) => !gone.includes(id)),
    );
  },
);

test("a lease that has the grace of a restart keeps the grace of a cancel as well", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  const id = await server.create();
  await server.claim({ leaseSeconds: 60 });
  await server.clock.advance(59_000);
  server.world.crash("process");
  const next = await server.world.start();
  t.after(() => next.stop());
  // By now the lease has ended, as far as the record says.
  await next.clock.advance(5000);
  const { leaseUntil } = await next.task(id);
  assert.equal((await cancel(next, id, { graceSeconds: 30 })).json.task.place, "leased");
  const until = new Date((await next.task(id)).leaseUntil).getTime();
  const granted = Math.min(new Date(leaseUntil).getTime(), next.clock.nowMs() + 30_000);
  assert.equal(until, granted);
  await next.clock.advance(1000);
  assert.equal((await next.complete(id)).status, 200);
  assert.equal((await resultOf(next, id)).status, "COMPLETED");
});
