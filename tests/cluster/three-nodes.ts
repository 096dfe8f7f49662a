/** Three nodes as users run them: processes with a data directory and an etcd each. */

import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { makeCertificate, type TestCertificate } from "@codeq/simulated";
import {
  EtcdServers,
  type EtcdServersOptions,
} from "../../packages/engine/src/log/replicated/etcd/etcd-servers.ts";
import type { GrpcTls } from "../../packages/engine/src/log/replicated/etcd/grpc-channel.ts";
import { clusterCertificate } from "../../packages/server/src/cluster/peers/cluster-certificates.ts";
import type { ClusterSecrets } from "../../packages/server/src/cluster/peers/peer-socket.ts";
import { systemClock } from "../../packages/server/src/core/clock.ts";
import { ApiClient } from "../e2e/api-client.ts";
import { type ServerProcess, startServer } from "../e2e/server-process.ts";
import { untilFound } from "./api-calls.ts";
import { removeLog } from "./etcd-servers.ts";
import { freePortRows } from "./free-ports.ts";

export interface ClusterJson {
  readonly self: string;
  readonly control: { readonly leader?: string };
  readonly shards: readonly {
    readonly shard: number;
    readonly role: string;
    readonly leader?: string;
    readonly epoch: number;
    readonly slot: number;
    readonly problem?: string;
  }[];
}

export interface StartOptions {
  /** Whether nodes and log servers have certificates of their own, instead of those from the secret. */
  readonly tls?: boolean;
  readonly env?: Readonly<Record<string, string>>;
  /** Called before the nodes start. */
  readonly before?: (dataDirOf: (id: string) => string) => Promise<void>;
}

const secret = "the secret of the cluster of the tests";
/** The token of all tests, which may do everything. */
export const operator: Readonly<Record<string, string>> = {
  PRODUCER_AUTH_CONFIG: JSON.stringify({
    token: "dev-token",
    subject: "dev-user",
    raw: { tenantId: "dev-tenant", roles: ["operator"] },
  }),
  ALLOW_PRODUCER_AS_WORKER: "true",
};
/** For other nodes, for clients of its etcd, and for the other members. */
export const portsEach = 3;

/** What nodes have in common that use the ports from these on. */
export function settingsOf(
  firsts: readonly number[],
  etcdProgram: string,
): Readonly<Record<string, string>> {
  const members = ["a", "b", "c"].map((id, at) => `${id}=127.0.0.1:${firsts[at]}`);
  return {
    CODEQ_ENV: "dev",
    ...operator,
    CODEQ_CLUSTER_MEMBERS: members.join(","),
    CODEQ_CLUSTER_SECRET: secret,
    CODEQ_CLUSTER_LOG_BYTES: String(1024 ** 3),
    CODEQ_ETCD_PROGRAM: etcdProgram,
  };
}

/** How to reach the log servers of such nodes. */
export function etcdOf(
  firsts: readonly number[],
  tls: GrpcTls = clusterCertificate([secret], "test", ["127.0.0.1"]),
): EtcdServersOptions {
  const urls = firsts.map((port) => `https://127.0.0.1:${port + 1}`);
  return { urls, node: "test", clock: systemClock, tls };
}

export class ThreeNodes implements AsyncDisposable {
  readonly ids: readonly string[] = ["a", "b", "c"];
  /** Of which there are ports for one more. */
  readonly #places: readonly string[] = ["a", "b", "c", "d"];
  readonly servers: Map<string, ServerProcess> = new Map();
  readonly #directory: string;
  readonly #env: Readonly<Record<string, string>>;
  readonly #clients: Map<string, ApiClient> = new Map();

  readonly #firsts: readonly number[];
  #etcd: EtcdServersOptions;
  /** Of certificates that do not follow from the secret. */
  readonly #authority: TestCertificate | undefined;

  private constructor(parts: {
    readonly directory: string;
    readonly firsts: readonly number[];
    readonly env: Readonly<Record<string, string>>;
    readonly tls: GrpcTls | undefined;
    readonly authority: TestCertificate | undefined;
  }) {
    this.#authority = parts.authority;
    this.#directory = parts.directory;
    this.#firsts = parts.firsts;
    this.#env = parts.env;
    this.#etcd = etcdOf(parts.firsts, parts.tls);
  }

  static async start(
    etcdProgram: string,
    { tls = false, env = {}, before = () => Promise.resolve() }: StartOptions = {},
  ): Promise<ThreeNodes> {
    const directory = await mkdtemp(join(tmpdir(), "codeq-cluster-"));
    const firsts = await freePortRows(4, portsEach);
    const authority = tls ? newAuthority() : undefined;
    const own = authority && (await certificatesIn(directory, authority));
    const cluster = new ThreeNodes({
      directory,
      firsts,
      tls: own?.tls,
      authority,
      env: { ...settingsOf(firsts, etcdProgram), ...own?.env, ...env },
    });
    await before((id) => cluster.dataDirOf(id));
    await Promise.all(cluster.ids.map((id) => cluster.startNode(id)));
    await cluster.logsVote();
    return cluster;
  }

  /** Resolves when all log servers vote. */
  async logsVote(): Promise<void> {
    await this.#onLogServers(async (etcd) => {
      const members = await etcd.members();
      const health = await Promise.all(members.map((member) => etcd.health(member)));
      const voting = members.filter(({ isLearner }, at) => !isLearner && health[at] !== undefined);
      return voting.length === this.ids.length;
    });
  }

  /** The secret with which nodes start, unless they are given another one. */
  get secret(): string {
    return secret;
  }

  /** The log servers are reached as a node with these secrets reaches them. */
  useSecrets(...secrets: ClusterSecrets): void {
    this.#etcd = etcdOf(this.#firsts, clusterCertificate(secrets, "test", ["127.0.0.1"]));
  }

  /** Puts another certificate of the same CA where the nodes have theirs; returns the certificate. */
  async renewCertificate(): Promise<string> {
    const { tls } = await certificatesIn(this.#directory, this.#authority as TestCertificate);
    return String(tls.cert);
  }

  /** The ports of a node: for the other nodes, and of its log server for clients. */
  portsOf(id: string): readonly [number, number] {
    const first = this.#firsts[this.#places.indexOf(id)] as number;
    return [first, first + 1];
  }

  dataDirOf(id: string): string {
    return join(this.#directory, id);
  }

  /** The setting of this name, with these nodes. */
  members(ids: readonly string[] = this.ids): string {
    const port = (id: string): number => this.#firsts[this.#places.indexOf(id)] as number;
    return ids.map((id) => `${id}=127.0.0.1:${port(id)}`).join(",");
  }

  async startNode(
    id: string,
    members: readonly string[] = this.ids,
    more: Readonly<Record<string, string>> = {},
  ): Promise<void> {
    const env = {
      ...this.#env,
      ...more,
      CODEQ_NODE_ID: id,
      CODEQ_CLUSTER_MEMBERS: this.members(members),
      CODEQ_CLUSTER_BOOTSTRAP: "a",
    };
    const server = await startServer({ dataDir: this.dataDirOf(id), env });
    this.servers.set(id, server);
    this.#clients.get(id)?.close();
    this.#clients.set(id, new ApiClient(server.port));
  }

  /** Its disk is lost, but for the log server. */
  async wipe(id: string): Promise<void> {
    await rm(join(this.#directory, id, "replicas"), { recursive: true });
  }

  /** Gives up the records of a shard below a slot, as the leader would some time later. */
  async trim(shard: number, slot: number): Promise<void> {
    await this.#onLogServers(async (etcd) => {
      const log = await etcd.open(`shard-${shard}`);
      await log?.trim(slot);
      await log?.close();
      return true;
    });
  }

  /** The log servers lose the log of a shard. */
  async loseLog(log: "shard-0" | "control"): Promise<void> {
    await this.#onLogServers(async () => {
      await removeLog(this.#etcd, log);
      return true;
    });
  }

  /** Until it returns true. */
  async #onLogServers(run: (etcd: EtcdServers) => Promise<boolean>): Promise<void> {
    await using etcd = new EtcdServers(this.#etcd);
    await untilFound(this.client("a"), async () => {
      try {
        return (await run(etcd)) || undefined;
      } catch (error) {
        // Servers that choose a leader do not answer for a while.
        if ((error as { code?: string }).code !== "storage_failed") throw error;
        return undefined;
      }
    });
  }

  client(id: string): ApiClient {
    return this.#clients.get(id) as ApiClient;
  }

  async status(id: string): Promise<ClusterJson> {
    return JSON.parse((await this.client(id).get("/cluster")).text) as ClusterJson;
  }

  /** Who leads a shard, as soon as the node knows one that is not `besides`. */
  async leader(by: string, { shard = 0, besides = "" } = {}): Promise<string> {
    return await untilFound(this.client(by), async () => {
      const { leader } = (await this.status(by)).shards[shard] ?? {};
      const isLed = leader !== undefined && leader !== besides;
      return isLed && (await this.#openShards(by)).has(shard) ? leader : undefined;
    });
  }

  /** Resolves when the node follows all logs: it knows who leads them. */
  async follows(id: string): Promise<void> {
    await untilFound(this.client(id), async () => {
      const { shards, control } = await this.status(id);
      return [...shards, control].every(({ leader }) => leader !== undefined) || undefined;
    });
  }

  /** The shards whose leaders the node has reached. */
  async #openShards(by: string): Promise<ReadonlySet<number>> {
    const { text } = await this.client(by).page("/readyz");
    const { shards } = JSON.parse(text) as { shards: { shard: number; state: string }[] };
    return new Set(shards.filter(({ state }) => state === "open").map(({ shard }) => shard));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.#clients.values()) client.close();
    for (const server of this.servers.values()) await server.kill();
    for (const id of this.servers.keys()) await this.killLog(id);
    await rm(this.#directory, { recursive: true, force: true, maxRetries: 3 });
  }

  async isLogUp(id: string): Promise<boolean> {
    const port = (this.#firsts[this.ids.indexOf(id)] as number) + 1;
    const socket = connect(port, "127.0.0.1");
    const isUp = await once(socket, "connect").then(
      () => true,
      () => false,
    );
    socket.destroy();
    return isUp;
  }

  /** It is a process of its own, which a killed node leaves behind. */
  async killLog(id: string): Promise<void> {
    const path = join(this.#directory, id, "etcd", "etcd.pid");
    const pid = Number(await readFile(path, "utf8").catch(() => "0"));
    if (pid === 0) return;
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // It has ended by itself.
    }
  }
}

const days = { validFromMs: Date.UTC(2020), validToMs: Date.UTC(2120) };

function newAuthority(): TestCertificate {
  return makeCertificate({ name: "CA of the cluster", isCa: true, ...days });
}

/** Files of a certificate for all nodes, which are on one machine, as settings. */
async function certificatesIn(
  directory: string,
  ca: TestCertificate,
): Promise<{ readonly env: Readonly<Record<string, string>>; readonly tls: GrpcTls }> {
  const own = makeCertificate({ name: "a node", issuer: ca, addresses: ["127.0.0.1"], ...days });
  const write = async (name: string, text: string): Promise<string> => {
    const path = join(directory, name);
    await writeFile(path, text);
    return path;
  };
  const env = {
    CODEQ_CLUSTER_TLS_CERT_FILE: await write("node.crt", own.cert),
    CODEQ_CLUSTER_TLS_KEY_FILE: await write("node.key", own.key),
    CODEQ_CLUSTER_TLS_CA_FILE: await write("ca.crt", ca.cert),
  };
  return { env, tls: { ca: ca.cert, cert: own.cert, key: own.key } };
}
