/** Contract 13, D1 to D13: what the older server lost, one test each. */
import assert from "node:assert/strict";
import test from "node:test";
import type { TenantId, WorkerId } from "@codeq/queue";
import { SimDisk, settle } from "@codeq/simulated";
import { claim, create } from "../../packages/server/test/broker-world.ts";
import { engineOf } from "../../packages/server/test/engine-of.ts";
import { readStore } from "../crash/check-store.ts";
import { onlyWith, type Reply, type RunningServer, setup, until } from "./setup.ts";

async function assertSound(server: RunningServer): Promise<void> {
  assert.deepEqual((await readStore(engineOf(server.core.store))).problems, []);
}

/** Whether the promise has settled by now, without waiting for it. */
async function isOpen(promise: Promise<unknown>): Promise<boolean> {
  await settle();
  const open = Symbol("open");
  return (await Promise.race([promise, Promise.resolve(open)])) === open;
}

test("D1: in the mode fsync an acknowledged task survives a power loss", async (t) => {
  const lost: Record<string, number> = { fsync: 0, os: 0 };
  for (const durability of ["fsync", "os"] as const) {
    for (let seed = 1; seed <= 8; seed += 1) {
      const server = await setup(t, { storage: "sim-disk", seed, settings: { durability } });
      const id = await server.create();
      server.world.crash("power");
      const after = await server.world.start({ durability });
      if ((await after.get(`/tasks/${id}`)).status !== 200) lost[durability] = seed;
      await assertSound(after);
      await after.stop();
    }
  }
  assert.equal(lost["fsync"], 0);
  assert.notEqual(lost["os"], 0, "without a sync a power loss must be able to lose a task");
});

test("D1: the acknowledgement comes after the sync and not before", onlyWith.disk, async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  const sync = Promise.withResolvers<void>();
  server.world.disk.slow("sync", sync.promise);
  const reply = server.post("/tasks", { command: "render", payload: 1 }, "producer-acme");
  const other = server.claim({ waitSeconds: 5 });
  assert.equal(await isOpen(reply), true, "the producer heard of a task that was not synced");
  assert.equal(await isOpen(other), true, "a worker got a task that was not synced");
  sync.resolve();
  assert.equal((await reply).status, 202);
  assert.equal((await other).id, (await reply).json.id);
});

test("D1: nobody can read what is not synced yet", onlyWith.disk, async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  const id = await server.leased();
  const sync = Promise.withResolvers<void>();
  server.world.disk.slow("sync", sync.promise);
  const submitted = server.complete(id);
  await settle();
  const read = server.get(`/tasks/${id}/result`);
  const replay = server.get(`/tasks/${id}`);
  assert.equal(await isOpen(read), true);
  assert.equal(await isOpen(replay), true);
  sync.resolve();
  assert.equal((await submitted).status, 200);
  assert.equal((await read).status, 200);
  assert.equal((await replay).json.status, "COMPLETED");
});

test(
  "D3: tasks beyond what memory holds are handed out, each once and in order",
  onlyWith.order,
  async (t) => {
    const server = await setup(t);
    const total = 6000;
    for (let from = 0; from < total; from += 1000) {
      const tasks = Array.from({ length: 1000 }, (_, n) => ({
        command: "render",
        payload: from + n,
      }));
      await server.post("/tasks/batch", { tasks }, "producer-acme");
    }
    const seen: number[] = [];
    for (;;) {
      const reply = await server.post("/tasks/claim/batch", { count: 256 }, "worker-acme");
      if (reply.status === 204) break;
      for (const { payload } of reply.json.tasks) seen.push(Number(payload));
    }
    assert.deepEqual(seen, [...Array(total).keys()]);
  },
);

test(
  "D4: a restart with more than 100 000 pending tasks works and loses none",
  onlyWith.broker,
  async (t) => {
    const server = await setup(t, { storage: "files", settings: { durability: "os" } });
    const tenantId = "acme" as TenantId;
    const total = 100_001;
    const fields = { tenantId, command: "render", priority: 3, webhook: "", traceParent: "" };
    let last: Promise<unknown> | undefined;
    for (let n = 0; n < total; n += 1) {
      const payload = String(n);
      last = create(server.core.shard, {
        ...fields,
        traceState: "",
        idempotencyKey: "",
        maxAttempts: 5,
        visibleMs: undefined,
        payload,
        payloadBytes: payload.length,
        payloadHash: "",
      }).done;
      if (n % 1000 === 0) await last;
    }
    await last;
    const after = await server.restart();
    t.after(() => after.stop());
    assert.equal((await after.stats()).ready, total);
    const keys = [...(await after.dump()).keys()];
    assert.equal(keys.filter((key) => key.includes("/pending/")).length, total);
    const workerId = "worker-1" as WorkerId;
    const request = { tenantId, workerId, commands: ["render"], leaseMs: 1e6, waitMs: 0 };
    let expected = 0;
    while (expected < 20_000) {
      for (const { payload } of await claim(after.core.shard, { ...request, count: 5000 })) {
        assert.equal(payload, String(expected));
        expected += 1;
      }
    }
    assert.equal((await after.stats()).ready, total - expected);
  },
);

test("D5: a claim whose commit failed leaves its tasks claimable", onlyWith.disk, async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  const ids = [await server.create({ priority: 9 }), await server.create()];
  server.world.disk.failNext("write", "ENOSPC");
  const body = { count: 2 };
  assert.equal((await server.post("/tasks/claim/batch", body, "worker-acme")).status, 507);
  await server.clock.advance(1000);
  assert.deepEqual(await server.stats(), {
    command: "render",
    ready: 2,
    delayed: 0,
    inProgress: 0,
    dlq: 0,
    failed: 0,
  });
  assert.deepEqual([(await server.claim()).id, (await server.claim()).id], ids);
  await assertSound(server);
});

test(
  "D5: every other write that fails leaves the task as it was, to be tried again",
  onlyWith.disk,
  async (t) => {
    const server = await setup(t, { storage: "sim-disk" });
    const id = await server.leased();
    const waiting = server.claim({ waitSeconds: 30, commands: ["other"] });
    await server.untilWaiting(1);
    for (const [verb, body] of [
      ["nack", { delaySeconds: 5 }],
      ["abandon", {}],
      ["result", { status: "COMPLETED", result: {} }],
    ] as const) {
      server.world.disk.failNext("write", "ENOSPC");
      const reply = await server.post(`/tasks/${id}/${verb}`, body, "worker-acme");
      assert.equal(reply.status, 507, verb);
      await server.clock.advance(1000);
      assert.equal((await server.task(id)).status, "IN_PROGRESS", verb);
    }
    assert.equal(await waiting, undefined);
    assert.equal((await server.complete(id)).status, 200);
    await assertSound(server);
  },
);

test("D6: a task whose lease expired comes back by itself on an idle queue", async (t) => {
  const server = await setup(t, { settings: { backoffPolicy: "fixed", backoffBaseSeconds: 7 } });
  const id = await server.create();
  await server.claim({ leaseSeconds: 10 });
  await server.clock.advance(10_000);
  assert.deepEqual((await server.stats()).delayed, 1);
  await server.clock.advance(6999);
  assert.deepEqual((await server.stats()).delayed, 1);
  await server.clock.advance(1);
  assert.deepEqual((await server.stats()).ready, 1);
  const again = await server.claim();
  assert.deepEqual([again.id, again.attempts, again.leaseToken], [id, 1, 2]);
  await assertSound(server);
});

const hourMs = 60 * 60 * 1000;

test("a clock that is set back by an hour changes no delay that ends within the minute", async (t) => {
  const server = await setup(t);
  await server.create({ delaySeconds: 5 });
  const late = await server.create({ command: "late", delaySeconds: 120 });
  server.clock.stepWall(-hourMs);
  await server.create({ delaySeconds: 5 });
  await server.clock.advance(4999);
  assert.equal((await server.stats()).ready, 0);
  await server.clock.advance(1);
  assert.equal((await server.stats()).ready, 2);
  await server.clock.advance(115_000);
  assert.equal((await server.stats("late")).ready, 0, "the new time is believed");
  await server.clock.advance(hourMs);
  assert.equal((await server.claim({ commands: ["late"] })).id, late);
});

test("a clock that is set forward by an hour ends delays after a minute", async (t) => {
  const server = await setup(t);
  await server.create({ delaySeconds: 1800 });
  server.clock.stepWall(hourMs);
  await server.create({ delaySeconds: 5 });
  await server.clock.advance(5000);
  assert.equal((await server.stats()).ready, 1, "the new one is due in time");
  await server.clock.advance(beliefMs);
  assert.equal((await server.stats()).ready, 2);
});

/** Tasks whose retention ends within a second go together, at its end. */
const deletionMs = 1000;
const dayMs = 24 * 60 * 60 * 1000;

/** A step of the wall clock is believed after a minute. */
const beliefMs = 60_000;

/** Time passes while the machine sleeps: the wall clock goes on, and the server notices. */
async function later(server: RunningServer, ms: number): Promise<void> {
  server.clock.stepWall(ms - 1000 - beliefMs);
  await server.clock.advance(1000);
  await server.clock.advance(beliefMs);
}

test("D10: nothing that waits, is delayed or runs is deleted by its age", async (t) => {
  const server = await setup(t);
  const ready = await server.create({ command: "ready" });
  const delayed = await server.create({ command: "delayed", runAt: "2026-03-01T00:00:00Z" });
  const leased = await server.create({ command: "leased" });
  await server.claim({ commands: ["leased"], leaseSeconds: 86_400 });
  for (let day = 0; day < 20; day += 1) {
    await later(server, dayMs);
    await server.post(`/tasks/${leased}/heartbeat`, { extendSeconds: 86_400 }, "worker-acme");
  }
  await server.post("/admin/tasks/cleanup", { before: "2100-01-01T00:00:00Z" }, "admin-acme");
  for (const [id, place] of [
    [ready, "PENDING_LIST"],
    [delayed, "DELAYED_ZSET"],
    [leased, "INPROG_SET"],
  ] as const) {
    assert.equal((await server.task(id)).lastKnownLocation, place);
  }
  await later(server, 39 * dayMs);
  assert.equal((await server.claim({ commands: ["delayed"] })).id, delayed);
});

test("D11: when the retention of a task ends nothing of it is left", async (t) => {
  const settings = { idempotencySeconds: 1 };
  const server = await setup(t, { post: () => Promise.resolve(200), settings });
  const keys = async () => {
    await server.core.store.flushNow();
    // The history of a queue by the hour outlives its tasks.
    return [...(await server.dump()).keys()].filter((key) => !/^codeq\/(meta|series)\//.test(key));
  };
  const key = { idempotencyKey: "k", webhook: "http://a.example/" };
  const done = await server.leased(key);
  await server.complete(done);
  await server.buried({ idempotencyKey: "dead", webhook: "http://a.example/" });
  await later(server, dayMs - 1);
  assert.equal((await server.get(`/tasks/${done}/result`)).status, 200);
  await server.clock.advance(deletionMs);
  assert.equal((await server.get(`/tasks/${done}/result`)).status, 404);
  assert.equal(
    (await keys()).some((each) => each.includes(done)),
    false,
  );
  assert.equal((await server.stats()).dlq, 1);
  assert.notEqual(await server.create(key), done, "the key is free again");
  await server.complete((await server.claim()).id);
  await later(server, 6 * dayMs);
  assert.deepEqual(await keys(), []);
  assert.deepEqual(await server.stats(), {
    command: "render",
    ready: 0,
    delayed: 0,
    inProgress: 0,
    dlq: 0,
    failed: 0,
  });
});

test("D11: the age of a task counts from its end, and dead letters may be kept for ever", async (t) => {
  const server = await setup(t, { settings: { retentionSeconds: 10, dlqRetentionSeconds: 0 } });
  const dead = await server.buried();
  const id = await server.leased();
  await server.clock.advance(60_000);
  await server.complete(id);
  await server.clock.advance(9999);
  assert.equal((await server.get(`/tasks/${id}`)).status, 200);
  await server.clock.advance(deletionMs);
  assert.equal((await server.get(`/tasks/${id}`)).status, 404);
  await later(server, 400 * dayMs);
  assert.equal((await server.task(dead)).lastKnownLocation, "DLQ_SET");
});

test("D12: result and end of a task are there together or not at all, whenever power fails", {
  skip: onlyWith.disk.skip,
}, async (t) => {
  const ends = { both: 0, none: 0 };
  for (let seed = 1; seed <= 24; seed += 1) {
    const server = await setup(t, { storage: "sim-disk", seed });
    const id = await server.leased();
    server.world.disk.slow(seed % 2 === 0 ? "sync" : "write", new Promise(() => {}));
    void server.complete(id);
    await settle();
    server.world.crash("power");
    const after = await server.world.start();
    const { status } = await after.task(id);
    const result = await after.get(`/tasks/${id}/result`);
    assert.equal(status === "COMPLETED", result.status === 200, `${status}, ${result.text}`);
    ends[result.status === 200 ? "both" : "none"] += 1;
    await assertSound(after);
    await after.stop();
  }
  assert.ok(ends.both > 0 && ends.none > 0, JSON.stringify(ends));
});

test("D13: of several answers to one attempt exactly one counts", async (t) => {
  let posted = 0;
  const server = await setup(t, {
    post: () => {
      posted += 1;
      return Promise.resolve(200);
    },
  });
  const verbs = ["result", "nack", "abandon", "heartbeat", "result"] as const;
  const bodies = {
    result: { status: "COMPLETED", result: {} },
    nack: { delaySeconds: 5 },
    abandon: {},
    heartbeat: { extendSeconds: 60 },
  };
  let completed = 0;
  for (let order = 0; order < verbs.length; order += 1) {
    const id = await server.leased({ command: `c${order}`, webhook: "http://a.example/" });
    const rotated = [...verbs.slice(order), ...verbs.slice(0, order)];
    const replies = await Promise.all(
      rotated.map((verb) => server.post(`/tasks/${id}/${verb}`, bodies[verb], "worker-acme")),
    );
    const took = rotated.filter((verb, i) => replies[i]?.status === 200 && verb !== "heartbeat");
    const kinds = new Set(took);
    assert.equal(kinds.size, 1, `${rotated}: ${replies.map(({ status }) => status)}`);
    const { status } = await server.task(id);
    assert.equal(status, kinds.has("result") ? "COMPLETED" : "PENDING");
    if (kinds.has("result")) completed += 1;
  }
  await server.clock.advance(1);
  await until(() => posted >= completed);
  assert.equal(posted, completed);
  await assertSound(server);
});

test(
  "D13: a lease that ends while its result arrives has one outcome",
  onlyWith.race,
  async (t) => {
    const outcomes = new Set<string>();
    for (let turns = 0; turns < 8; turns += 1) {
      const server = await setup(t, { storage: "sim-disk", seed: turns });
      const id = await server.create({ maxAttempts: 1 });
      await server.claim({ leaseSeconds: 1 });
      await server.clock.advance(999);
      const expiry = server.clock.advance(1);
      let reply: Promise<Reply> | undefined;
      for (let turn = 0; turn < 8; turn += 1) {
        if (turn === turns) reply = server.complete(id);
        await settle(1);
      }
      await expiry;
      const submitted = (await reply)?.status;
      const { json } = await server.get(`/tasks/${id}/result`);
      outcomes.add(`${submitted} ${json.result.status} ${json.result.error}`);
      await assertSound(server);
    }
    for (const outcome of outcomes) {
      assert.ok(["200 COMPLETED undefined", "409 FAILED LEASE_EXPIRED"].includes(outcome), outcome);
    }
    assert.equal(outcomes.size, 2, "both orders must have been seen");
  },
);

test("a real data directory holds everything through a restart", async (t) => {
  const server = await setup(t, { storage: "files" });
  const done = await server.leased({ payload: { big: 12_345 }, idempotencyKey: "k" });
  await server.complete(done);
  const dead = await server.buried();
  const leased = await server.leased();
  const ready = await server.create({ command: "print", priority: 7 });
  const delayed = await server.create({ command: "later", delaySeconds: 60 });
  const ids = [done, dead, leased, ready, delayed];
  const shown = await Promise.all(ids.map((id) => server.get(`/tasks/${id}`)));
  const after = await server.restart();
  t.after(() => after.stop());
  const again = await Promise.all(ids.map((id) => after.get(`/tasks/${id}`)));
  assert.deepEqual(
    again.map(({ text }) => text),
    shown.map(({ text }) => text),
  );
  assert.equal((await after.complete(leased)).status, 200);
  assert.equal((await after.claim()).id, ready);
  await assertSound(after);
});

test("the simulated disk that these tests rely on does lose what was not synced", async () => {
  const disk = new SimDisk({ random: () => 0.99 });
  const file = await disk.open("a", { create: true });
  await disk.syncDirectory();
  await file.write(Buffer.from("x"), 0);
  const next = await disk.crash("power").open("a");
  assert.equal(await next.size(), 0);
});
