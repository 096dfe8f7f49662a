/**
 * Three nodes on this machine, each with an etcd, as users start them. A node keeps its port over restarts, so
 * that clients find it again.
 */
import { readFileSync, rmSync } from "node:fs";
import { readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import {
  EtcdServers,
  type EtcdServersOptions,
} from "../../packages/engine/src/log/replicated/etcd/etcd-servers.ts";
import { etcdBinary } from "../cluster/etcd-binary.ts";
import { freePortRows } from "../cluster/free-ports.ts";
import { etcdOf, portsEach, settingsOf } from "../cluster/three-nodes.ts";
import type { Process } from "./cpu-time.ts";
import { SetupError } from "./programs.ts";
import type { Listening, Workspace } from "./workspace.ts";

export const nodeIds: readonly string[] = ["a", "b", "c"];

interface ShardStatus {
  readonly leader?: string;
  readonly role: string;
  readonly slot: number;
  readonly problem?: string;
}

const askAgainMs = 20;
const askMsMax = 2000;

export class ClusterNodes implements AsyncDisposable {
  readonly #workspace: Workspace;
  readonly #directory: string;
  readonly #env: Readonly<Record<string, string>>;
  readonly #etcd: EtcdServersOptions;
  readonly #ports: ReadonlyMap<string, number>;
  readonly #running: Map<string, Listening> = new Map();
  /** An etcd outlives its node, and so it would this process. */
  readonly #exiting = (): void => {
    for (const id of nodeIds) this.killLogServer(id);
  };

  private constructor(parts: {
    readonly workspace: Workspace;
    readonly env: Readonly<Record<string, string>>;
    readonly etcd: EtcdServersOptions;
    readonly ports: ReadonlyMap<string, number>;
  }) {
    this.#workspace = parts.workspace;
    this.#directory = parts.workspace.newDirectory();
    this.#env = parts.env;
    this.#etcd = parts.etcd;
    this.#ports = parts.ports;
    // Before the workspace removes the files that say which processes these are.
    process.prependOnceListener("exit", this.#exiting);
  }

  /** Resolves when all nodes know who leads. Throws a SetupError where etcd cannot be had. */
  static async start(workspace: Workspace): Promise<ClusterNodes> {
    const etcd = etcdBinary();
    if ("missing" in etcd) throw new SetupError(etcd.missing);
    // One more, for the clients of the node.
    const firsts = await freePortRows(nodeIds.length, portsEach + 1);
    const portOf = (at: number): number => (firsts[at] as number) + portsEach;
    const cluster = new ClusterNodes({
      workspace,
      env: settingsOf(firsts, etcd.path),
      etcd: etcdOf(firsts),
      ports: new Map(nodeIds.map((id, at) => [id, portOf(at)])),
    });
    await Promise.all(nodeIds.map((id) => cluster.startNode(id)));
    await cluster.whole();
    return cluster;
  }

  url(id: string): string {
    return `http://127.0.0.1:${this.#ports.get(id)}`;
  }

  node(id: string): Listening {
    return this.#running.get(id) as Listening;
  }

  async startNode(id: string): Promise<void> {
    const listening = await this.#workspace.startServer({
      ...this.#env,
      CODEQ_NODE_ID: id,
      CODEQ_DATA_DIR: this.#dataDir(id),
      PORT: String(this.#ports.get(id)),
      CODEQ_CLUSTER_BOOTSTRAP: nodeIds[0] ?? "",
    });
    this.#running.set(id, listening);
  }

  /** Asks the node to stop, as an upgrade does; its etcd stops with it. */
  async stopNode(id: string): Promise<void> {
    await this.#workspace.stop(this.node(id).child);
  }

  signal(id: string, signal: "SIGKILL" | "SIGSTOP" | "SIGCONT"): void {
    this.node(id).child.kill(signal);
  }

  killLogServer(id: string): void {
    const { pid } = this.logServer(id);
    if (pid !== undefined) process.kill(pid, "SIGKILL");
  }

  /** Without a pid while it does not run. */
  logServer(id: string): Process {
    const folder = join(this.#dataDir(id), "etcd");
    try {
      const pid = Number(readFileSync(join(folder, "etcd.pid"), "utf8"));
      // The number of a process that has ended may be that of another one by now.
      const command = readFileSync(`/proc/${pid}/cmdline`, "utf8");
      return { pid: command.includes(folder) ? pid : undefined };
    } catch {
      // There is no such file, or no such process.
      return { pid: undefined };
    }
  }

  /** The disk of a node that has stopped is empty, that of its log server as well. */
  async wipe(id: string): Promise<void> {
    await rm(this.#dataDir(id), { recursive: true, force: true });
  }

  /** Of the copy of all tasks that a node has. */
  async bytesOf(id: string): Promise<number> {
    const folder = join(this.#dataDir(id), "replicas", "shard-0");
    const files = await readdir(folder, { recursive: true });
    // A file may be compacted away meanwhile.
    const sizeOf = (file: string): Promise<number> =>
      stat(join(folder, file)).then(
        ({ size }) => size,
        () => 0,
      );
    const sizes = await Promise.all(files.map(sizeOf));
    return sizes.reduce((sum, size) => sum + size, 0);
  }

  /** Gives up the records below a slot, as the leader does some time later. */
  async trim(slot: number): Promise<void> {
    await using etcd = new EtcdServers(this.#etcd);
    const log = await etcd.open("shard-0");
    await log?.trim(slot);
    await log?.close();
  }

  /** Who leads, once all nodes that run agree on it and reach it. */
  async leader(ids: readonly string[] = nodeIds): Promise<string> {
    for (;;) {
      const seen = await Promise.all(ids.map((id) => this.#leaderSeenBy(id)));
      const [leader] = seen;
      if (leader !== undefined && seen.every((each) => each === leader)) return leader;
      await sleep(askAgainMs);
    }
  }

  /** Resolves when every node follows or leads without a problem, and no log server is behind. */
  async whole(): Promise<void> {
    for (;;) {
      const shards = await Promise.all(nodeIds.map((id) => this.status(id)));
      const areFine = shards.every(
        (shard) => shard?.problem === undefined && /^(following|leading)$/.test(shard?.role ?? ""),
      );
      if (areFine && (await this.#areLogsWhole())) break;
      await sleep(askAgainMs);
    }
    await this.leader();
  }

  /** Of the first shard, as a node sees it; undefined while it does not answer. */
  async status(id: string): Promise<ShardStatus | undefined> {
    const answer = await ask(`${this.url(id)}/v1/codeq/cluster`);
    return (answer as { readonly shards: readonly ShardStatus[] } | undefined)?.shards[0];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const children = [...this.#running.values()].map(({ child }) => child);
    for (const child of children) child.kill("SIGCONT");
    await Promise.all(children.map((child) => this.#workspace.stop(child)));
    this.#exiting();
    process.off("exit", this.#exiting);
    rmSync(this.#directory, { recursive: true, force: true, maxRetries: 3 });
  }

  async #leaderSeenBy(id: string): Promise<string | undefined> {
    const [shard, ready] = await Promise.all([this.status(id), ask(`${this.url(id)}/readyz`)]);
    return ready === undefined ? undefined : shard?.leader;
  }

  /** Whether all log servers vote and have everything. */
  async #areLogsWhole(): Promise<boolean> {
    await using etcd = new EtcdServers(this.#etcd);
    try {
      const members = await etcd.members();
      const health = await Promise.all(members.map((member) => etcd.health(member)));
      const areCurrent = health.every((each) => each !== undefined && each.behind === 0);
      const areVoting = members.every(({ isLearner }) => !isLearner);
      return members.length === nodeIds.length && areVoting && areCurrent;
    } catch {
      // Nobody answers while servers start or choose a leader.
      return false;
    }
  }

  #dataDir(id: string): string {
    return join(this.#directory, id);
  }
}

/** Undefined unless the answer is that all is well. */
async function ask(url: string): Promise<unknown> {
  try {
    const response = await fetch(url, {
      headers: { authorization: "Bearer dev-token" },
      signal: AbortSignal.timeout(askMsMax),
    });
    const answer: unknown = await response.json();
    return response.ok ? answer : undefined;
  } catch {
    // It is down, paused or starting.
    return undefined;
  }
}
