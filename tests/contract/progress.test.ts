/** What workers say about the tasks that they have, and who hears it. */
import assert from "node:assert/strict";
import test from "node:test";
import { type Reply, type RunningServer, setup } from "./setup.ts";

const beat = (server: RunningServer, id: string, body: object): Promise<Reply> =>
  server.post(`/tasks/${id}/heartbeat`, body, "worker-acme");

/** The events of a task until it has ended. */
function watch(server: RunningServer, id: string): Promise<Reply> {
  return server.ask(`/v1/codeq/tasks/${id}/events`, { caller: "producer-acme" });
}

// biome-ignore lint/suspicious/noExplicitAny: events as they are on the wire.
function eventsIn({ text }: Reply): any[] {
  return [...text.matchAll(/^data: (.*)$/gm)].map(([, data = ""]) => JSON.parse(data));
}

test("progress and lines are shown while the task runs, when it is done, and after a crash", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  const id = await server.leased();
  assert.equal((await server.task(id)).progress, undefined);
  await beat(server, id, { progress: { percent: 10, text: "pages" }, logs: ["began"] });
  await server.clock.advance(1000);
  const said = await beat(server, id, { progress: { percent: 60 }, logs: ["went on", "and on"] });
  assert.equal(said.text, '{"ok":true}');
  server.world.crash("power");
  const next = await server.world.start();
  t.after(() => next.stop());
  const running = await next.task(id);
  const at = "2026-01-02T03:04:06.12Z";
  assert.deepEqual(running.progress, { percent: 60, text: "", at });
  assert.deepEqual(
    running.logs.map(({ text }: { text: string }) => text),
    ["began", "went on", "and on"],
  );
  await next.complete(id);
  const { task } = (await next.get(`/admin/tasks/${id}`, "admin-acme")).json;
  assert.deepEqual([task.progress.percent, task.logs.length], [60, 3]);
});

test("what comes too fast is dropped, and what is no progress is refused", async (t) => {
  const server = await setup(t);
  const id = await server.leased();
  for (const percent of [1, 2, 3]) await beat(server, id, { progress: { percent } });
  assert.equal((await server.task(id)).progress.percent, 1);
  for (const percent of [-1, 101, "5"]) {
    const reply = await beat(server, id, { progress: { percent } });
    assert.equal(reply.status, 400, reply.text);
    assert.match(reply.json.error, /progress.percent/);
  }
  const other = await server.post(`/tasks/${id}/heartbeat`, { logs: ["x"] }, "worker-globex");
  assert.equal(other.status, 404);
});

test("a producer hears what happens to its task until it has ended", async (t) => {
  const server = await setup(t);
  const id = await server.create({ maxAttempts: 2 });
  const other = await server.create({ command: "other" });
  const watched = watch(server, id);
  for (let n = 0; n < 5; n++) await server.task(id);
  await server.claim({ commands: ["render"] });
  await server.claim({ commands: ["other"] });
  await beat(server, other, { logs: ["not yours"] });
  await beat(server, id, { progress: { percent: 50, text: "half" }, logs: ["a", "b"] });
  await server.post(`/tasks/${id}/nack`, { delaySeconds: 1, reason: "jam" }, "worker-acme");
  await server.clock.advance(1100);
  await server.claim({ commands: ["render"] });
  await server.complete(id);
  const reply = await watched;
  assert.equal(reply.headers["content-type"], "text/event-stream; charset=utf-8");
  const [first, ...events] = eventsIn(reply);
  assert.deepEqual([first.id, first.status], [id, "PENDING"]);
  assert.deepEqual(
    events.map(({ event }) => event),
    ["claimed", "progress", "log", "retried", "promoted", "claimed", "completed", "result"],
  );
  const told = events.at(-1);
  assert.deepEqual([told.taskId, told.status, told.result], [id, "COMPLETED", { ok: 1 }]);
  assert.deepEqual([events[1].percent, events[1].text], [50, "half"]);
  assert.deepEqual(events[2].lines, ["a", "b"]);
  assert.equal(server.core.feed.isHeard, false);
});

test("the events of a task that has ended are how it is, and those of others are not found", async (t) => {
  const server = await setup(t);
  const id = await server.leased();
  await server.complete(id);
  const events = eventsIn(await watch(server, id));
  assert.deepEqual(
    events.map(({ status }) => status),
    ["COMPLETED", "COMPLETED"],
  );
  assert.deepEqual([events[1].event, events[1].result], ["result", { ok: 1 }]);
  const failed = eventsIn(await watch(server, await server.buried()));
  assert.deepEqual([failed[1].status, failed[1].error], ["FAILED", "broken"]);
  const large = await server.leased();
  const body = { status: "COMPLETED", result: { text: "x".repeat(70_000) } };
  await server.post(`/tasks/${large}/result`, body, "worker-acme");
  const [, cut] = eventsIn(await watch(server, large));
  assert.deepEqual([cut.status, cut.result, cut.resultOmitted], ["COMPLETED", undefined, true]);
  const path = `/v1/codeq/tasks/${id}/events`;
  assert.equal((await server.ask(path, { caller: "producer-globex" })).status, 404);
  assert.equal(server.core.feed.isHeard, false);
});
