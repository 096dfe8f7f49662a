/**
 * The client library with the addresses of all nodes, while the node that it talks to is killed. Nodes and log
 * servers have certificates of their own.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { codeq, task } from "@codeq/client";
import { etcdBinary } from "./etcd-binary.ts";
import { ThreeNodes } from "./three-nodes.ts";

const binary = etcdBinary();
const skip = "missing" in binary ? binary.missing : false;
const path = "path" in binary ? binary.path : "";

const double = task<number, number>("double");
const before = 60;
const afterwards = 60;

test("clients over streams and over HTTP go on when their node, the leader, is killed", {
  skip,
}, async () => {
  await using cluster = await ThreeNodes.start(path, { tls: true });
  for (const transport of ["streams", "http"] as const) {
    const leader = await cluster.leader("b");
    const nodes = [leader, ...cluster.ids.filter((id) => id !== leader)];
    const url = nodes.map((id) => cluster.servers.get(id)?.url ?? "");
    await using client = codeq({ url, transport, token: "dev-token", onWarning: () => {} });
    const worked = new Map<number, number>();
    const worker = client.worker(
      double.handle((n) => {
        worked.set(n, (worked.get(n) ?? 0) + 1);
        return n * 2;
      }),
      { on: { failed: () => {}, refused: () => {} } },
    );
    const run = async (n: number): Promise<void> => {
      const enqueued = await client.enqueue(double, n);
      assert.equal(await enqueued.result({ timeout: "60s" }), n * 2);
    };
    let handedOver = before + afterwards;
    const first = Array.from({ length: before }, (_, n) => run(n));
    await first[0];
    // Every shard has another leader, and then its first one again: no call fails.
    const next = cluster.ids.find((id) => id !== leader) as string;
    for (const to of [next, leader]) {
      await cluster.follows(to);
      const handed = await client.admin.handOff({ to });
      assert.deepEqual(new Set(handed.map((each) => each.to)), new Set([to]));
      await run(handedOver++);
    }
    await cluster.servers.get(leader)?.kill();
    const second = Array.from({ length: afterwards }, (_, n) => run(before + n));
    await Promise.all([...first, ...second]);
    assert.equal(worked.size, before + afterwards + 2, "every task was worked on");
    await worker.close();
    await cluster.startNode(leader);
    await cluster.leader(leader);
  }
});
