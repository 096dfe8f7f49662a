/** The list of workers: from leases, and from streams. */
import assert from "node:assert/strict";
import test from "node:test";
import type { TenantId, WorkerId } from "@codeq/queue";
import { onlyWith, type RunningServer, setup, until } from "./setup.ts";

const [acme, globex] = ["acme", "globex"] as TenantId[] as [TenantId, TenantId];

async function workers(server: RunningServer, query = ""): Promise<object> {
  const reply = await server.get(`/admin/workers${query}`, "admin-acme");
  assert.equal(reply.status, 200, reply.text);
  return reply.json;
}

test(
  "a worker is there while it holds leases, with how many and since when",
  onlyWith.broker,
  async (t) => {
    const server = await setup(t);
    assert.deepEqual(await workers(server), { workers: [] });
    const first = await server.leased();
    await server.clock.advance(5000);
    const second = await server.leased();
    await server.leased({}, "worker-acme-2");
    await server.leased({}, "worker-globex");
    await server.clock.advance(1000);
    await server.post(`/tasks/${first}/heartbeat`, { extendSeconds: 60 }, "worker-acme");
    assert.deepEqual(await workers(server), {
      workers: [
        {
          workerId: "worker-1",
          leases: 2,
          streams: 0,
          oldestLeaseAt: "2026-01-02T03:04:05.12Z",
          lastSeenAt: "2026-01-02T03:04:11.12Z",
        },
        {
          workerId: "worker-2",
          leases: 1,
          streams: 0,
          oldestLeaseAt: "2026-01-02T03:04:10.12Z",
          lastSeenAt: "2026-01-02T03:04:10.12Z",
        },
      ],
    });
    await server.complete(second);
    await server.post(`/tasks/${first}/nack`, {}, "worker-acme");
    await server.clock.advance(3_600_000);
    assert.deepEqual(await workers(server), { workers: [] });
    assert.deepEqual([...server.core.shard.leases.ofTenant(acme)], []);
  },
);

const newStream = { client: "curl/8", sendCancelled: () => {} };

test("a worker is there while it has a stream, and each stream counts", async (t) => {
  const server = await setup(t);
  const add = (tenantId: TenantId, workerId: string) =>
    server.core.workers.add({ tenantId, workerId: workerId as WorkerId }, newStream);
  const leave = add(acme, "b");
  await server.clock.advance(1000);
  const leaveToo = add(acme, "b");
  add(acme, "a");
  add(globex, "c");
  const shown = async () =>
    ((await workers(server)) as { workers: object[] }).workers.map((each) => Object.values(each));
  const at = (seconds: string) => `2026-01-02T03:04:${seconds}.12Z`;
  assert.deepEqual(await shown(), [
    ["a", 0, 1, at("06"), "curl/8"],
    ["b", 0, 2, at("05"), "curl/8"],
  ]);
  leave();
  leave();
  assert.deepEqual((await shown())[1], ["b", 0, 1, at("06"), "curl/8"]);
  leaveToo();
  assert.equal((await shown()).length, 1);
});

test(
  "workers are listed page by page, and leases survive a restart",
  onlyWith.broker,
  async (t) => {
    const server = await setup(t);
    for (const id of ["a", "b", "c"]) {
      server.core.workers.add({ tenantId: acme, workerId: id as WorkerId }, newStream);
    }
    const ids = ({ workers: list, next }: { workers: { workerId: string }[]; next?: string }) => [
      list.map(({ workerId }) => workerId),
      next,
    ];
    assert.deepEqual(ids((await workers(server, "?limit=2")) as never), [["a", "b"], "b"]);
    assert.deepEqual(ids((await workers(server, "?after=b")) as never), [["c"], undefined]);
    const bad = await server.get("/admin/workers?limit=0", "admin-acme");
    assert.equal(bad.status, 400);
    await server.leased();
    const after = await server.restart();
    t.after(() => after.stop());
    await until(() => after.core.shard.leases.size === 1);
    assert.deepEqual(ids((await workers(after)) as never), [["worker-1"], undefined]);
  },
);
