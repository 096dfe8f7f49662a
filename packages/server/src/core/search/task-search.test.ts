/** Searching where pages, pieces and indexes meet: what the routes of a server reach only with many tasks. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { TaskId } from "@codeq/queue";
import { SimClock } from "../../../../simulated/src/index.ts";
import {
  acme,
  BrokerWorld,
  claim,
  create,
  enqueue,
  nack,
  owned,
  submit,
  umbrella,
} from "../../../test/broker-world.ts";
import type { ShardBroker } from "../broker/shard-broker.ts";
import { searchLimits } from "./search-turns.ts";
import type { TaskFilter } from "./task-filter.ts";

const commands = ["a", "b", "c"];

/** So many dead letters in three queues, in the order of their creation. */
async function bury(broker: ShardBroker, count: number): Promise<TaskId[]> {
  const asked = Array.from({ length: count }, (_, n) =>
    create(broker, { command: commands[n % commands.length] ?? "", maxAttempts: 1 }),
  );
  const created = await Promise.all(asked.map(({ done }) => done));
  for (let left = count; left > 0; ) {
    const claimed = await claim(broker, { commands, count: 256 });
    const back = { delaySeconds: 0, reason: "broken" };
    await Promise.all(claimed.map(({ task }) => nack(broker, owned(task), back).done));
    left -= claimed.length;
  }
  return created.map(({ task }) => task.id);
}

async function findAll(
  broker: ShardBroker,
  filter: TaskFilter,
  order: "newest" | "oldest" = "oldest",
): Promise<{ readonly ids: TaskId[]; readonly scanned: number[] }> {
  const ids: TaskId[] = [];
  const scanned: number[] = [];
  for (let after: string | undefined = ""; after !== undefined; ) {
    const page: Awaited<ReturnType<ShardBroker["find"]>> = await broker.find({
      tenantId: acme,
      filter,
      order,
      after,
      limit: 700,
    });
    assert.ok(page !== undefined);
    ids.push(...page.tasks.map(({ id }) => id));
    scanned.push(page.scanned);
    after = page.next;
  }
  return { ids, scanned };
}

test("more dead letters than a page may look at come in order, out of several queues", async () => {
  const broker = await new BrokerWorld().open();
  const ids = await bury(broker, 5500);
  for (const order of ["newest", "oldest"] as const) {
    const found = await findAll(broker, { place: "dead" }, order);
    assert.deepEqual(found.ids, order === "oldest" ? ids : ids.toReversed());
  }
  const ofA = await findAll(broker, { place: "dead", queue: "a" });
  assert.deepEqual(
    ofA.ids,
    ids.filter((_, n) => n % commands.length === 0),
  );
});

test("tasks of others are passed over, and count as looked at", async () => {
  const broker = await new BrokerWorld().open();
  const asked = Array.from({ length: 6000 }, () => create(broker, { tenantId: umbrella }));
  await Promise.all(asked.map(({ done }) => done));
  const { id } = await enqueue(broker);
  const { ids, scanned } = await findAll(broker, {});
  assert.deepEqual(ids, [id]);
  assert.deepEqual(scanned, [5000, 1001]);
  // Its own index leads there at once.
  assert.deepEqual((await findAll(broker, { place: "ready" })).scanned, [1]);
});

test("a search sees what is flushed and what is not, and shows nothing before it is durable", async () => {
  const broker = await new BrokerWorld().open();
  const { id: flushed } = await enqueue(broker);
  await broker.store.flushNow();
  const { id: durable } = await enqueue(broker);
  const asked = create(broker);
  const page = findAll(broker, { place: "ready" });
  const { id: newest } = (await asked.done).task;
  assert.deepEqual((await page).ids, [flushed, durable, newest]);
});

test("a moment bounds what is looked at", async () => {
  const world = new BrokerWorld();
  const broker = await world.open();
  const asked = Array.from({ length: 1000 }, () => create(broker));
  await Promise.all(asked.map(({ done }) => done));
  await world.clock.advance(2 * 3_600_000);
  const { id, createdMs } = await enqueue(broker);
  const found = await findAll(broker, { createdFromMs: createdMs });
  assert.deepEqual(found, { ids: [id], scanned: [1] });
  const before = await findAll(broker, { createdToMs: createdMs - 3_600_001 }, "newest");
  assert.deepEqual([before.ids.length, before.scanned], [1000, [700, 300]]);
});

/** Time passes whenever somebody looks. */
class WorkingClock extends SimClock {
  #workedMs = 0;

  override monotonicMs(): number {
    this.#workedMs += 1;
    return super.monotonicMs() + this.#workedMs;
  }
}

test("while tasks are written a search rests, and otherwise it does not", async () => {
  const clock = new WorkingClock();
  const broker = await new BrokerWorld({ clock }).open();
  const asked = Array.from({ length: 2000 }, () => create(broker, { tenantId: umbrella }));
  await Promise.all(asked.map(({ done }) => done));
  const wanted = { tenantId: acme, filter: {}, order: "newest", after: "", limit: 10 } as const;
  assert.equal((await broker.find(wanted))?.scanned, 2000);
  let hasEnded = false;
  const beside = broker.find(wanted).finally(() => {
    hasEnded = true;
  });
  await enqueue(broker);
  // Long enough for a search that does not rest.
  for (let turn = 0; turn < 100; turn++) await new Promise((resolve) => setImmediate(resolve));
  assert.equal(hasEnded, false);
  await clock.advance(60_000);
  assert.equal((await beside)?.scanned, 2001);
});

test("one tenant's searches do not keep other tenants from searching", async () => {
  const broker = await new BrokerWorld().open();
  const asked = Array.from({ length: 500 }, () => create(broker));
  await Promise.all(asked.map(({ done }) => done));
  const wanted = { filter: {}, order: "newest", after: "", limit: 10 } as const;
  const answered: string[] = [];
  const many = Array.from({ length: 100 }, async () => {
    const page = await broker.find({ tenantId: acme, ...wanted });
    if (page !== undefined) answered.push("acme");
    return page;
  });
  const other = await broker.find({ tenantId: umbrella, ...wanted });
  assert.ok(other !== undefined, "refused because another tenant searches");
  // The search that ran, and at most one more of the other tenant.
  assert.ok(answered.length <= 2, `${answered.length} searches of the other tenant came first`);
  const refused = (await Promise.all(many)).filter((page) => page === undefined);
  assert.equal(refused.length, 100 - 1 - searchLimits.waitingPerTenantMax);
});

test("a page of tasks with long errors ends early", async () => {
  const broker = await new BrokerWorld().open();
  const error = "x".repeat(64 * 1024);
  const ids: TaskId[] = [];
  for (let n = 0; n < 100; n++) {
    const { id } = await enqueue(broker);
    const [claimed] = await claim(broker);
    const result = { json: "", artifacts: [] };
    const failed = { how: "failed", error, result, resultBytes: 0 } as const;
    await submit(broker, owned(claimed!.task), failed).done;
    ids.push(id);
  }
  const wanted = { tenantId: acme, filter: {}, order: "oldest", limit: 1000 } as const;
  const first = await broker.find({ ...wanted, after: "" });
  assert.equal(first?.tasks.length, 64);
  const rest = await broker.find({ ...wanted, after: first?.next as string });
  assert.deepEqual(
    [...(first?.tasks ?? []), ...(rest?.tasks ?? [])].map(({ id }) => id),
    ids,
  );
});
