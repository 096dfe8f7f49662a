/** Rates, ages and series of queues. */
import assert from "node:assert/strict";
import test from "node:test";
import { settle } from "@codeq/simulated";
import { type RunningServer, setup } from "./setup.ts";

const minuteMs = 60_000;

// biome-ignore lint/suspicious/noExplicitAny: the answer as it is on the wire.
async function details(server: RunningServer): Promise<any> {
  const reply = await server.get("/admin/queues?view=details", "admin-acme");
  assert.equal(reply.status, 200, reply.text);
  return reply.json;
}

async function series(
  server: RunningServer,
  path = "/admin/series",
  caller: "admin-acme" | "admin-globex" = "admin-acme",
  // biome-ignore lint/suspicious/noExplicitAny: the answer as it is on the wire.
): Promise<any> {
  const reply = await server.get(path, caller);
  assert.equal(reply.status, 200, reply.text);
  return reply.json;
}

/** Lets the minute end that runs, and waits until it is written. */
async function nextMinute(server: RunningServer, ms = minuteMs): Promise<void> {
  await server.clock.advance(ms);
  await settle();
}

async function fail(server: RunningServer, command: string): Promise<void> {
  const id = await server.leased({ command });
  const body = { status: "FAILED", error: "no such customer" };
  assert.equal((await server.post(`/tasks/${id}/result`, body, "worker-acme")).status, 200);
}

test("one request shows all queues with counts, rates, ages and pauses", async (t) => {
  const server = await setup(t);
  await server.complete(await server.leased({ command: "mail" }));
  await fail(server, "mail");
  await server.buried({ command: "mail" });
  for (let n = 0; n < 3; n++) await server.create({ command: "Mail" });
  await server.create({ command: "later", delaySeconds: 100 });
  await server.post("/admin/queues/held/pause", { reason: "why" }, "admin-acme");
  await server.clock.advance(30_000);
  const { queues, totals } = await details(server);
  const [held, later, mail] = queues;
  assert.deepEqual(
    queues.map(({ command }: { command: string }) => command),
    ["held", "later", "mail"],
  );
  assert.equal(held.paused.reason, "why");
  assert.deepEqual([later.delayed, later.oldestSeconds], [1, undefined]);
  assert.deepEqual(
    [mail.ready, mail.inProgress, mail.dlq, mail.failed, mail.oldestSeconds],
    [3, 0, 1, 1, 30],
  );
  assert.deepEqual(mail.rates, { enqueued: 0.1, completed: 0.017, failed: 0.033, retried: 0 });
  // Three tasks wait, and three of them ended in the last minute.
  assert.equal(mail.drainSeconds, 60);
  assert.deepEqual([totals.queues, totals.ready, totals.delayed, totals.failed], [3, 3, 1, 1]);
});

test("cancelled tasks are neither failures nor retries, and do not drain their queue", async (t) => {
  const server = await setup(t);
  const cancel = (id: string) => server.post(`/tasks/${id}/cancel`, {}, "producer-acme");
  const [waiting, leased, expired] = [
    await server.create({ command: "mail" }),
    await server.leased({ command: "sms" }),
    await server.leased({ command: "sms" }),
  ];
  await server.create({ command: "mail" });
  for (const id of [waiting, leased, expired]) assert.equal((await cancel(id)).status, 200);
  assert.equal((await server.post(`/tasks/${leased}/nack`, {}, "worker-acme")).status, 200);
  await server.clock.advance(31_000);
  assert.equal((await server.task(expired)).error, "CANCELLED");
  const { queues, totals } = await details(server);
  const [mail] = queues;
  assert.deepEqual([mail.failed, mail.rates.failed, mail.drainSeconds], [0, 0, undefined]);
  assert.deepEqual(totals.rates, { enqueued: 0.067, completed: 0, failed: 0, retried: 0 });
  await nextMinute(server);
  const [{ failed, retried }] = (await series(server)).points;
  assert.deepEqual([failed, retried], [0, 0]);
});

test("permanent failures are counted, also after a restart, until they are gone", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  await fail(server, "mail");
  await fail(server, "mail");
  assert.equal((await server.stats("mail")).failed, 2);
  const next = await server.restart();
  t.after(() => next.stop());
  assert.equal((await next.stats("mail")).failed, 2);
  await next.post("/admin/tasks/cleanup", { before: "2027-01-01T00:00:00Z" }, "admin-acme");
  assert.equal((await next.stats("mail")).failed, 0);
});

test("the rate of a minute fades when nothing happens any more", async (t) => {
  const server = await setup(t);
  for (let n = 0; n < 60; n++) await server.create({ command: "mail" });
  assert.equal((await details(server)).queues[0].rates.enqueued, 1);
  await nextMinute(server);
  const faded = (await details(server)).queues[0].rates.enqueued;
  assert.ok(faded > 0.8 && faded < 1, String(faded));
  await server.clock.advance(minuteMs);
  assert.equal((await details(server)).queues[0].rates.enqueued, 0);
});

test("a minute is a point of its queue and of the tenant, and survives a restart", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  await server.create({ command: "mail" });
  await server.complete(await server.leased({ command: "other" }));
  await nextMinute(server);
  const { points } = await series(server, "/admin/queues/MAIL/series");
  const point = { at: "2026-01-02T03:04:00Z", enqueued: 1, completed: 0, failed: 0, retried: 0 };
  const depth = { ready: 1, delayed: 0, inProgress: 0, dlq: 0 };
  assert.deepEqual(points, [{ ...point, ...depth, oldestSeconds: 54.88 }]);
  const all = (await series(server)).points[0];
  assert.deepEqual([all.enqueued, all.completed, all.ready], [2, 1, 1]);
  // The minute that runs is not lost by a shutdown, and goes on after it.
  await server.create({ command: "mail" });
  const next = await server.restart();
  t.after(() => next.stop());
  await next.create({ command: "mail" });
  await next.clock.advance(minuteMs);
  const again = (await series(next)).points;
  assert.deepEqual([again.length, again[1].enqueued, again[1].ready], [2, 2, 3]);
  assert.deepEqual((await series(next, "/admin/series", "admin-globex")).points, []);
});

test("what is asked wrongly is refused", async (t) => {
  const server = await setup(t);
  for (const path of [
    "/admin/queues?view=all",
    "/admin/series?resolution=second",
    "/admin/queues/mail/series?resolution=",
    "/admin/queues/a%2Fb/series",
    "/admin/series?command=mail",
  ]) {
    const reply = await server.get(path, "admin-acme");
    assert.equal(reply.status, 400, `${path}: ${reply.text}`);
  }
  const buckets = await server.get("/admin/queues?view=buckets", "admin-acme");
  assert.deepEqual(buckets.json, {});
});

test("a queue says how many workers ask for its tasks", async (t) => {
  const server = await setup(t);
  for (const command of ["asked", "other"]) await server.create({ command, delaySeconds: 60 });
  const asking = async (): Promise<object> => {
    const { queues } = await details(server);
    return Object.fromEntries(
      queues.map((each: { command: string; workersAsking: number }) => [
        each.command,
        each.workersAsking,
      ]),
    );
  };
  assert.deepEqual(await asking(), { asked: 0, other: 0 });
  const waiting = [
    server.claim({ commands: ["asked"], waitSeconds: 30 }),
    server.claim({ commands: ["asked"], waitSeconds: 30 }),
  ];
  await server.untilWaiting(2);
  assert.deepEqual(await asking(), { asked: 1, other: 0 }, "two claims of one worker");
  await server.clock.advance(30_000);
  await Promise.all(waiting);
  assert.deepEqual(await asking(), { asked: 0, other: 0 });
});

test("a point has how long tasks waited and how long their attempts ran", async (t) => {
  const server = await setup(t);
  for (const waitMs of [1000, 1000, 16_000]) {
    const id = await server.create({ command: "mail" });
    await server.clock.advance(waitMs);
    assert.equal((await server.claim({ commands: ["mail"] })).id, id);
    await server.clock.advance(4000);
    await server.complete(id);
  }
  await nextMinute(server);
  const { points } = await series(server, "/admin/queues/mail/series");
  const [{ waitP50Seconds, waitP99Seconds, runP50Seconds, runP99Seconds }] = points;
  assert.deepEqual([waitP50Seconds, waitP99Seconds], [0.86, 14]);
  assert.deepEqual([runP50Seconds, runP99Seconds], [3.4, 3.4]);
  await server.create({ command: "mail" });
  await nextMinute(server);
  const idle = (await series(server, "/admin/queues/mail/series")).points.at(-1);
  assert.equal(idle.waitP50Seconds, undefined);
});
