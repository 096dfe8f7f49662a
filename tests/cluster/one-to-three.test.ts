/** The data of a server alone in a cluster, and back: nothing that was acknowledged is missing on the way. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { ApiClient } from "../e2e/api-client.ts";
import { startServer } from "../e2e/server-process.ts";
import { ask, untilFound } from "./api-calls.ts";
import { etcdBinary } from "./etcd-binary.ts";
import { operator, ThreeNodes } from "./three-nodes.ts";

const binary = etcdBinary();
const skip = "missing" in binary ? binary.missing : false;
const path = "path" in binary ? binary.path : "";

const commandLine = join(import.meta.dirname, "../../packages/cli/src/main.ts");

interface Ran {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

function codeq(args: readonly string[], env: Readonly<Record<string, string>>): Ran {
  const command = ["--conditions=source", commandLine, ...args];
  return spawnSync(process.execPath, command, {
    encoding: "utf8",
    env: { PATH: process.env["PATH"], HOME: "/nonexistent", ...env },
  });
}

async function ready(client: ApiClient): Promise<number> {
  const { text } = await client.get("/admin/queues/work");
  return (JSON.parse(text) as { ready: number }).ready;
}

/** A node may not know the new leader yet, or not what became of the request. */
async function createOne(client: ApiClient, idempotencyKey: string): Promise<void> {
  await untilFound(client, async () => {
    const { status, text } = await client.create({ command: "work", payload: {}, idempotencyKey });
    if (status !== 202) assert.equal(status, 503, text);
    return status === 202 || undefined;
  });
}

/** The node that leads everything writes a backup, and a single server starts on it. */
async function assertBackup(cluster: ThreeNodes, tasks: number): Promise<void> {
  const backup = { method: "POST", path: "/admin/backups", body: { name: "daily" } } as const;
  const handOff = async (to: string): Promise<void> => {
    await cluster.follows(to);
    const call = { method: "POST", path: "/admin/cluster/handoff", body: { to } };
    const { status, text } = await ask(cluster, "a", call);
    assert.equal(status, 200, text);
  };
  await handOff("c");
  const refused = await ask(cluster, "b", backup);
  assert.equal(refused.status, 409, refused.text);
  assert.match(refused.text, /codeq cluster handoff --to b/);
  await handOff("b");
  for (const kind of ["full", "log"]) {
    const written = await untilFound(cluster.client("b"), async () => {
      const reply = await ask(cluster, "b", backup);
      // The new leaders may just be opening.
      return reply.status === 409 || reply.status === 503 ? undefined : reply;
    });
    assert.equal(written.status, 201, written.text);
    const { files } = JSON.parse(written.text) as { files: { store: string; kind: string }[] };
    assert.deepEqual(files.map(({ store }) => store).sort(), ["control", "shard-0"]);
    assert.ok(
      files.every((file) => file.kind === kind),
      written.text,
    );
    if (kind === "full") await createOne(cluster.client("a"), "second");
  }
  const directory = join(cluster.dataDirOf("b"), "backups", "daily");
  const dataDir = `${cluster.dataDirOf("b")}-restored`;
  const restored = codeq(["restore", directory, "--data-dir", dataDir], {});
  assert.equal(restored.status, 0, restored.stderr);
  const server = await startServer({ dataDir, env: { CODEQ_ENV: "dev", ...operator } });
  const client = new ApiClient(server.port);
  try {
    assert.equal(await ready(client), tasks + 1);
    assert.match((await client.get("/admin/keys")).text, /"kept"/);
  } finally {
    client.close();
    await server.stop();
  }
}

test("from one server to three nodes and back", { skip }, async () => {
  const alone = { CODEQ_ENV: "dev", ...operator };
  let token = "";
  await using cluster = await ThreeNodes.start(path, {
    before: async (dataDirOf) => {
      const dataDir = dataDirOf("a");
      const server = await startServer({ dataDir, env: alone });
      const client = new ApiClient(server.port);
      for (let number = 0; number < 20; number += 1) {
        const body = { command: "work", payload: { number }, idempotencyKey: `k${number}` };
        assert.equal((await client.create(body)).status, 202);
      }
      const key = { name: "kept", scopes: ["codeq:create"] };
      ({ token } = JSON.parse((await client.post("/admin/keys", key)).text) as { token: string });
      client.close();
      const locked = codeq(["cluster", "init", "--data-dir", dataDir], alone);
      assert.match(locked.stderr, /in use by another codeQ process/);
      await server.stop();
      const begun = codeq(["cluster", "init", "--data-dir", dataDir], alone);
      assert.equal(begun.status, 0, begun.stderr);
      const again = codeq(["cluster", "init", "--data-dir", dataDir], alone);
      assert.match(again.stderr, /belongs to a cluster node already/);
    },
  });
  for (const id of cluster.ids) await cluster.leader(id);
  const asKey = { method: "POST", path: "/tasks", token } as const;
  // What was there before counts on every node: keys of callers, keys of tasks, and tasks.
  for (const id of ["b", "c"]) {
    const body = { command: "work", payload: { number: 3 }, idempotencyKey: "k3" };
    await untilFound(cluster.client(id), async () => {
      const { status } = await ask(cluster, id, { ...asKey, body });
      if (status !== 202) assert.equal(status, 503);
      return status === 202 || undefined;
    });
  }
  assert.equal(await ready(cluster.client("b")), 20);
  await createOne(cluster.client("c"), "first");
  await assertBackup(cluster, 21);
  const unready = codeq(["cluster", "leave", "--data-dir", cluster.dataDirOf("b")], {});
  assert.match(unready.stderr, /in use by another codeQ process/);
  const server = ["--base-url", cluster.servers.get("b")?.url ?? "", "--token", "dev-token"];
  const unsure = codeq(["cluster", "end", ...server], {});
  assert.match(unsure.stderr, /--yes/);
  const ended = codeq(["cluster", "end", "--yes", ...server], {});
  assert.equal(ended.status, 0, ended.stderr);
  const late = await cluster.client("c").create({ command: "work", payload: {} });
  assert.equal(late.status, 503, "nothing is accepted after the end");
  for (const id of cluster.ids) await cluster.servers.get(id)?.stop();
  const dataDir = cluster.dataDirOf("b");
  const left = codeq(["cluster", "leave", "--data-dir", dataDir], {});
  assert.equal(left.status, 0, left.stderr);
  assert.ok(existsSync(join(dataDir, "before-alone", "replicas")), "the old files are kept");
  const back = await startServer({ dataDir, env: alone });
  const client = new ApiClient(back.port);
  assert.equal(await ready(client), 22);
  const body = { command: "work", payload: { number: 3 }, idempotencyKey: "k3" };
  const replayed = await client.create(body);
  assert.equal(replayed.headers["idempotent-replayed"], "true");
  const keyed = await fetch(`${back.url}/v1/codeq/tasks`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify({ command: "work", payload: {} }),
  });
  assert.equal(keyed.status, 202, await keyed.text());
  client.close();
  await back.stop();
});
