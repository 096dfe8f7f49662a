/** Three nodes with real log servers: the leader stops, its machine is gone, a disk is lost. Campaigns have more. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { type ApiClient, ask, untilFound } from "./api-calls.ts";
import { etcdBinary } from "./etcd-binary.ts";
import { assertSameRefusals, callers } from "./same-refusals.ts";
import { ThreeNodes } from "./three-nodes.ts";

const binary = etcdBinary();
const skip = "missing" in binary ? binary.missing : false;
const path = "path" in binary ? binary.path : "";

const commandLine = join(import.meta.dirname, "../../packages/cli/src/main.ts");

function statusOf(cluster: ThreeNodes): string[] {
  const url = cluster.servers.get("b")?.url ?? "";
  return ["cluster", "status", "--base-url", url, "--producer-token", "dev-token"];
}

/** What the metrics of all nodes say together. */
async function sumOf(cluster: ThreeNodes, series: string): Promise<number> {
  const pages = await Promise.all(cluster.ids.map((id) => cluster.client(id).page("/metrics")));
  const lines = pages.flatMap(({ text }) => text.split("\n"));
  const found = lines.filter((line) => line.startsWith(`${series} `));
  return found.reduce((sum, line) => sum + Number(line.slice(series.length + 1)), 0);
}

/** Creates tasks on a node until it is told to stop; what was acknowledged, and what was not. */
class Load {
  readonly acknowledged: string[] = [];
  refused = 0;
  isOver = false;
  readonly done: Promise<void>;
  #reached: () => void = () => {};
  #wanted = Number.POSITIVE_INFINITY;

  constructor(clients: () => readonly ApiClient[], lanes = 4) {
    this.done = Promise.all(
      Array.from({ length: lanes }, (_, lane) => this.#create(clients, lane)),
    ).then(() => {});
  }

  /** Resolves when so many more were acknowledged. */
  more(count: number): Promise<void> {
    this.#wanted = this.acknowledged.length + count;
    return new Promise((resolve) => {
      this.#reached = resolve;
    });
  }

  async #create(clients: () => readonly ApiClient[], lane: number): Promise<void> {
    for (let number = 0; !this.isOver; number += 1) {
      const all = clients();
      const client = all[(lane + number) % all.length] as ApiClient;
      const body = { command: "work", payload: { lane, number } };
      const id = await untilFound(client, async () => {
        const { status, text } = await client.create(body);
        if (status === 202) return (JSON.parse(text) as { id: string }).id;
        this.refused += 1;
        return this.isOver ? "" : undefined;
      });
      if (id !== "") this.acknowledged.push(id);
      if (this.acknowledged.length >= this.#wanted) this.#reached();
    }
  }
}

/** Nodes that were killed left their log servers running, and still look after them when they are back. */
async function assertLogServersOfEarlierLives(
  cluster: ThreeNodes,
  [first, second]: readonly [string, string],
): Promise<void> {
  for (const id of [first, second]) await cluster.startNode(id);
  await cluster.killLog(first);
  await cluster.servers
    .get(first)
    ?.anyLine((line) => line.includes("the log server of this node does not run"));
  await untilFound(cluster.client(first), async () => (await cluster.isLogUp(first)) || undefined);
  const exit = await cluster.servers.get(second)?.stop();
  assert.equal(exit?.code, 0, exit?.stderr);
  assert.equal(await cluster.isLogUp(second), false, "it stops with its node");
}

/** A key that one node creates works on all of them until another one revokes it. */
async function assertSameKeys(cluster: ThreeNodes): Promise<void> {
  const wanted = { name: "k", scopes: ["codeq:create"] };
  const created = await ask(cluster, "a", { method: "POST", path: "/admin/keys", body: wanted });
  assert.equal(created.status, 201, created.text);
  const { id, token } = JSON.parse(created.text) as { id: string; token: string };
  const answers = async (expected: number): Promise<void> => {
    const body = { command: "keyed", payload: {} };
    for (const node of cluster.ids) {
      const call = { method: "POST", path: "/tasks", body, token };
      await untilFound(cluster.client(node), async () => {
        const { status } = await ask(cluster, node, call);
        return status === expected || undefined;
      });
    }
  };
  await answers(202);
  const revoked = await ask(cluster, "c", { method: "DELETE", path: `/admin/keys/${id}` });
  assert.equal(revoked.status, 204, revoked.text);
  await answers(401);
  const audit = { path: "/admin/audit?action=revoke_api_key" };
  assert.match((await ask(cluster, "b", audit)).text, new RegExp(id), "one audit trail");
}

/** The two nodes that do not lead the shard of a task answer for it by themselves. */
async function assertLocalReads(cluster: ThreeNodes): Promise<void> {
  const created = await cluster.client("a").create({ command: "local", payload: {} });
  const { id } = JSON.parse(created.text) as { id: string };
  const path = `/tasks/${id}?consistency=local`;
  await untilFound(cluster.client("a"), async () => {
    const replies = await Promise.all(cluster.ids.map((node) => cluster.client(node).get(path)));
    for (const { status, text } of replies) assert.equal(status, 200, text);
    const local = replies.filter(({ headers }) => Number(headers["codeq-applied-index"]) > 0);
    return local.length >= 2 || undefined;
  });
}

/** What belongs to a task of another leader is passed on, with its refusals; those who ask are sent there. */
async function assertForwarded(cluster: ThreeNodes): Promise<void> {
  // A node that does not know the leader yet answers itself.
  for (const node of cluster.ids) {
    for (const shard of [0, 1]) await cluster.leader(node, { shard });
  }
  const body = { command: "secret", payload: "classified" };
  const { id } = JSON.parse((await cluster.client("a").create(body)).text) as { id: string };
  const heartbeat = (node: string): Promise<Response> =>
    fetch(`${cluster.servers.get(node)?.url}/v1/codeq/tasks/${id}/heartbeat?x`, {
      method: "POST",
      headers: { authorization: "Bearer dev-token", "codeq-redirect": "leader" },
      body: "{}",
      redirect: "manual",
    });
  const replies = await Promise.all(cluster.ids.map(heartbeat));
  const leader = cluster.ids.find((_, at) => replies[at]?.status !== 307) ?? "";
  for (const [at, node] of cluster.ids.entries()) {
    const { status, headers } = replies[at] as Response;
    const expected = `http://${leader}.example:8080/v1/codeq/tasks/${id}/heartbeat?x`;
    assert.deepEqual(
      [status, headers.get("location")],
      node === leader ? [400, null] : [307, expected],
    );
  }
  const text = JSON.stringify({ error: "not leader", leader: `http://${leader}.example:8080` });
  const follower = cluster.ids.find((id) => id !== leader) ?? "";
  assert.equal(await replies[cluster.ids.indexOf(follower)]?.text(), text);
  await assertSameRefusals(cluster, { leader, follower, id });
}

test("a node that stops in order hands over, and its log server may go with it", {
  skip,
}, async (context) => {
  const urls = "a=http://a.example:8080,b=http://b.example:8080/,c=http://c.example:8080";
  const env = { CODEQ_SHARDS: "2", CODEQ_CLUSTER_URLS: urls, ...callers };
  await using cluster = await ThreeNodes.start(path, { env });
  const leaders = [await cluster.leader("b"), await cluster.leader("b", { shard: 1 })];
  await assertSameKeys(cluster);
  const shown = spawnSync(
    process.execPath,
    ["--conditions=source", commandLine, ...statusOf(cluster)],
    {
      encoding: "utf8",
    },
  );
  assert.equal(shown.status, 0, shown.stderr);
  for (const [shard, leader] of leaders.entries()) {
    assert.match(shown.stdout, new RegExp(`^ +${shard} +${leader} `, "m"));
  }
  for (const id of cluster.ids) {
    assert.equal(
      (await cluster.client(id).create({ command: "counted", payload: {} })).status,
      202,
    );
  }
  assert.equal(await sumOf(cluster, "codeq_cluster_shards_leading"), 2);
  const created = 'codeq_task_created_total{command="counted"}';
  assert.equal(await sumOf(cluster, created), 3, "no node counts what another one did");
  const [leader = ""] = leaders;
  const others = cluster.ids.filter((id) => id !== leader);
  await assertLocalReads(cluster);
  await assertForwarded(cluster);
  const load = new Load(() => others.map((id) => cluster.client(id)));
  await load.more(50);
  const stoppedMs = performance.now();
  const exit = await cluster.servers.get(leader)?.stop();
  assert.equal(exit?.code, 0, exit?.stderr);
  const stopMs = Math.round(performance.now() - stoppedMs);
  await load.more(100);
  load.isOver = true;
  await load.done;
  for (const by of others) {
    for (const shard of leaders.keys()) {
      assert.ok(others.includes(await cluster.leader(by, { shard, besides: leader })));
    }
  }
  const allLedMs = Math.round(performance.now() - stoppedMs);
  context.diagnostic(JSON.stringify({ leaders, stopMs, allLedMs, refused: load.refused }));
  const counts = await others.reduce(
    async (sum, id) => [...(await sum), (await cluster.client(id).get("/admin/queues/work")).text],
    Promise.resolve([] as string[]),
  );
  assert.equal(counts[0], counts[1], "both nodes tell the same");
  const { ready } = JSON.parse(counts[0] ?? "") as { ready: number };
  assert.ok(ready >= load.acknowledged.length, `${ready} of ${load.acknowledged.length}`);
});

test("goes on when a whole machine is gone, its log server with it", { skip }, async (context) => {
  await using cluster = await ThreeNodes.start(path);
  const leader = await cluster.leader("b");
  const others = cluster.ids.filter((id) => id !== leader);
  const load = new Load(() => others.map((id) => cluster.client(id)));
  await load.more(50);
  const killedMs = performance.now();
  await cluster.killLog(leader);
  await cluster.servers.get(leader)?.kill();
  await load.more(100);
  context.diagnostic(JSON.stringify({ pauseMs: Math.round(performance.now() - killedMs) }));
  load.isOver = true;
  await load.done;
  const reply = await cluster.client(others[0] as string).get("/admin/queues/work");
  const { ready } = JSON.parse(reply.text) as { ready: number };
  assert.ok(ready >= load.acknowledged.length, `${ready} of ${load.acknowledged.length}`);
  for (const id of others) {
    await untilFound(cluster.client(id), async () => {
      const { text } = await cluster.client(id).page("/metrics");
      const isSeen = /^codeq_cluster_nodes_down 1$/m.test(text);
      return (isSeen && /^codeq_cluster_log_servers_down 1$/m.test(text)) || undefined;
    });
  }
});

test("a node that lost its disk gets a copy from another one, and can lead", {
  skip,
}, async () => {
  await using cluster = await ThreeNodes.start(path);
  await cluster.leader("a");
  const load = new Load(() => [cluster.client("a")]);
  await load.more(300);
  load.isOver = true;
  await load.done;
  const { slot = 0 } = (await cluster.status("a")).shards[0] ?? {};
  // Whoever stops has brought everything into its store.
  for (const id of ["b", "a"]) {
    await cluster.servers.get(id)?.stop();
    await cluster.startNode(id);
    await cluster.leader(id);
  }
  await cluster.servers.get("c")?.stop();
  await cluster.wipe("c");
  await cluster.trim(0, slot);
  await cluster.startNode("c");
  await cluster.servers.get("c")?.anyLine((line) => line.includes("copied from another node"));
  await cluster.leader("c");
  // Their log servers go on, so that there is a log.
  for (const id of ["a", "b"]) await cluster.servers.get(id)?.kill();
  await untilFound(cluster.client("c"), async () => {
    const { role } = (await cluster.status("c")).shards[0] ?? {};
    return role === "leading" || undefined;
  });
  await cluster.leader("c");
  const { text } = await cluster.client("c").get("/admin/queues/work");
  assert.equal((JSON.parse(text) as { ready: number }).ready, load.acknowledged.length);
  await assertLogServersOfEarlierLives(cluster, ["a", "b"]);
});
