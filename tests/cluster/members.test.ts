/** The nodes of a cluster change, and what is lost is repaired, while nothing that was acknowledged is missing. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { LevelKv, moveToLog } from "@codeq/engine";
import { type ApiClient, ask, untilFound } from "./api-calls.ts";
import { etcdBinary } from "./etcd-binary.ts";
import { ThreeNodes } from "./three-nodes.ts";

const binary = etcdBinary();
const skip = "missing" in binary ? binary.missing : false;
const path = "path" in binary ? binary.path : "";

const commandLine = join(import.meta.dirname, "../../packages/cli/src/main.ts");

/** A command that runs until what it waits for has happened. */
class Command {
  readonly ended: Promise<{ readonly code: number; readonly output: string }>;
  readonly #waiting: { readonly pattern: RegExp; readonly resolve: () => void }[] = [];
  #output = "";

  constructor(url: string, ...args: readonly string[]) {
    const command = ["--conditions=source", commandLine, "cluster", ...args];
    const server = ["--base-url", url, "--token", "dev-token"];
    const child = spawn(process.execPath, [...command, ...server], {
      stdio: ["ignore", "pipe", "pipe"],
      env: { PATH: process.env["PATH"], HOME: "/nonexistent" },
    });
    for (const stream of [child.stdout, child.stderr]) {
      createInterface({ input: stream }).on("line", (line) => this.#heard(line));
    }
    this.ended = once(child, "close").then(([code]) => ({
      code: code as number,
      output: this.#output,
    }));
  }

  /** Resolves when it has said this. */
  said(pattern: RegExp): Promise<void> {
    if (pattern.test(this.#output)) return Promise.resolve();
    return new Promise((resolve) => void this.#waiting.push({ pattern, resolve }));
  }

  async output(code = 0): Promise<string> {
    const ended = await this.ended;
    assert.equal(ended.code, code, ended.output);
    return ended.output;
  }

  #heard(line: string): void {
    this.#output += `${line}\n`;
    for (const { pattern, resolve } of this.#waiting) if (pattern.test(this.#output)) resolve();
  }
}

async function ready(client: ApiClient): Promise<number> {
  return await untilFound(client, async () => {
    const { status, text } = await client.get("/admin/queues/work");
    if (status === 200) return (JSON.parse(text) as { ready: number }).ready;
    assert.equal(status, 503, text);
    return undefined;
  });
}

/** Creates tasks as often as it takes. */
async function create(client: ApiClient, count: number): Promise<void> {
  for (let number = 0; number < count; number += 1) {
    await untilFound(client, async () => {
      const { status, text } = await client.create({ command: "work", payload: { number } });
      if (status !== 202) assert.equal(status, 503, text);
      return status === 202 || undefined;
    });
  }
}

/** Creates an API key for an administrator, as soon as the control log has a leader. */
async function createKey(cluster: ThreeNodes, node: string): Promise<string> {
  const body = { name: `of ${node}`, role: "admin" };
  return await untilFound(cluster.client(node), async () => {
    const call = { method: "POST", path: "/admin/keys", body };
    const { status, text } = await ask(cluster, node, call);
    if (status === 201) return (JSON.parse(text) as { token: string }).token;
    assert.equal(status, 503, text);
    return undefined;
  });
}

/** Log servers that choose a leader do not say what they have. */
async function untilPlanned(
  cluster: ThreeNodes,
  expected: Readonly<Record<string, string>>,
): Promise<void> {
  await untilFound(cluster.client("a"), async () => {
    const call = { method: "POST", path: "/admin/cluster/repair", body: {} };
    const { logs } = JSON.parse((await ask(cluster, "a", call)).text) as {
      logs: { shard: string; action: string }[];
    };
    return logs.every(({ shard, action }) => expected[shard] === action) || undefined;
  });
}

test("a machine is replaced by another one, and a log that was lost is made again", {
  skip,
}, async () => {
  await using cluster = await ThreeNodes.start(path);
  const urlOf = (id: string): string => cluster.servers.get(id)?.url ?? "";
  await cluster.leader("a");
  await create(cluster.client("b"), 20);

  const removal = (node: string): Promise<{ readonly text: string }> =>
    ask(cluster, "a", { method: "POST", path: "/admin/cluster/remove", body: { node } });
  assert.match((await removal("c")).text, /Add another node first \(codeq cluster add\)/);
  assert.match((await removal("a")).text, /cannot remove itself/);

  // A fourth node joins, and gets everything.
  const four = ["a", "b", "c", "d"];
  const adding = new Command(urlOf("a"), "add", cluster.members(["d"]));
  await adding.said(/does not answer yet; start it with clusterMembers: a=.*,d=/);
  await cluster.startNode("d", four);
  const added = await adding.output();
  assert.match(added, /d=\S+ is a node of the cluster/);
  assert.match(added, /on a, b, c, and restart these nodes one after the other/);
  assert.equal(await ready(cluster.client("d")), 20);

  // One of the others goes, which is the leader.
  await cluster.follows("c");
  const handed = await new Command(urlOf("a"), "handoff", "--to", "c").output();
  assert.match(handed, /c leads shard 0/);
  const removing = new Command(urlOf("a"), "remove", "c");
  await removing.said(/stop it now/);
  await cluster.leader("a", { besides: "c" });
  await cluster.servers.get("c")?.stop();
  const removed = await removing.output();
  assert.match(removed, /node c was removed/);
  const three = ["a", "b", "d"];
  assert.match(removed, new RegExp(`clusterMembers: ${cluster.members(["a", "b"])}$`, "m"));
  for (const id of three) {
    await cluster.servers.get(id)?.stop();
    await cluster.startNode(id, three);
    await cluster.leader(id);
  }

  // The three that are left do without any one of them.
  await cluster.servers.get("b")?.kill();
  await cluster.killLog("b");
  await create(cluster.client("d"), 20);
  assert.equal(await ready(cluster.client("a")), 40);
  const absent = await new Command(urlOf("a"), "handoff", "--to", "b").output(11);
  assert.match(absent, /node b does not answer\. Start it, or name another node/);
  await cluster.startNode("b", three);
  await cluster.leader("b");

  // The log is lost, and the data is not.
  await cluster.loseLog("shard-0");
  await untilPlanned(cluster, { control: "none", 0: "renew" });
  const shown = await new Command(urlOf("d"), "repair").output(9);
  assert.match(shown, /shard 0: the log lost records; a new log continues the data of/);
  assert.match(shown, /the control log: nothing to repair/);
  const repaired = await new Command(urlOf("d"), "repair", "--yes").output();
  assert.match(repaired, /put theirs aside/);
  await create(cluster.client("b"), 20);
  for (const id of three) assert.equal(await ready(cluster.client(id)), 60);

  // So is the log of the keys and of what else is not in a shard.
  const key = await createKey(cluster, "a");
  await cluster.loseLog("control");
  await untilPlanned(cluster, { control: "renew", 0: "none" });
  const renewed = await new Command(urlOf("b"), "repair", "--yes").output();
  assert.match(renewed, /the control log: .*put theirs aside/);
  for (const node of three) {
    await untilFound(cluster.client(node), async () => {
      const { status, text } = await ask(cluster, node, { path: "/admin/queues", token: key });
      // A node that does not know the new log yet cannot tell whose key it is.
      if (status !== 503) assert.equal(status, 200, text);
      return status === 200 || undefined;
    });
  }
  await createKey(cluster, "d");

  // A node with data of another log copies that of the others, and keeps its own.
  await cluster.servers.get("d")?.stop();
  const replicas = join(cluster.dataDirOf("d"), "replicas");
  const kv = await LevelKv.open(join(replicas, "shard-0", "kv"), {});
  await moveToLog(kv, 4711);
  await kv.close();
  await cluster.startNode("d", three);
  await cluster.servers.get("d")?.anyLine((line) => line.includes("comes from log 4711"));
  await untilPlanned(cluster, { control: "none", 0: "copy" });
  const foreign = await new Command(urlOf("a"), "repair").output(9);
  assert.match(foreign, /shard 0: d put their data aside/);
  await new Command(urlOf("a"), "repair", "--yes").output();
  await untilFound(cluster.client("d"), async () => {
    const { role } = (await cluster.status("d")).shards[0] ?? {};
    return role === "following" || role === "leading" || undefined;
  });
  const kept = (await readdir(replicas)).filter((name) => name.includes("before-repair"));
  assert.ok(kept.length > 0, "nothing is deleted");
  assert.match(await new Command(urlOf("a"), "repair").output(), /shard 0: nothing to repair/);

  // A machine is lost for good, and another one takes its place with one command.
  await cluster.servers.get("b")?.kill();
  await cluster.killLog("b");
  await rm(cluster.dataDirOf("c"), { recursive: true });
  const replacing = new Command(urlOf("a"), "replace", "b", cluster.members(["c"]));
  const now = ["a", "d", "c"];
  await replacing.said(new RegExp(`start it with clusterMembers: ${cluster.members(now)}$`, "m"));
  await cluster.startNode("c", now);
  const replaced = await replacing.output();
  assert.match(replaced, /node b was removed[\s\S]*c=\S+ is a node of the cluster/);
  assert.match(replaced, /on a, d, and restart these nodes one after the other/);
  assert.equal(await ready(cluster.client("c")), 60);
});
