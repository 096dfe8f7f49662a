/** Three nodes as users run them: processes with a data directory and a nats-server each. */

import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { makeCertificate } from "@codeq/simulated";
import { NatsServers } from "../../packages/engine/src/log/replicated/nats-shared-log.ts";
import { natsPassword, natsUrl } from "../../packages/server/src/cluster/nats-config.ts";
import { ApiClient } from "../e2e/api-client.ts";
import { type ServerProcess, startServer } from "../e2e/server-process.ts";
import { untilFound } from "./api-calls.ts";
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
  /** Whether nodes and log servers talk TLS. */
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
/** For other nodes, for clients of its nats-server, and for the other nats-servers. */
export const portsEach = 3;

/** What nodes have in common that use the ports from these on. */
export function settingsOf(
  firsts: readonly number[],
  natsServer: string,
): Readonly<Record<string, string>> {
  const members = ["a", "b", "c"].map((id, at) => `${id}=127.0.0.1:${firsts[at]}`);
  return {
    CODEQ_ENV: "dev",
    ...operator,
    CODEQ_CLUSTER_MEMBERS: members.join(","),
    CODEQ_CLUSTER_SECRET: secret,
    CODEQ_CLUSTER_LOG_BYTES: String(1024 ** 3),
    CODEQ_NATS_SERVER: natsServer,
  };
}

/** Of the log servers of such nodes. */
export function natsUrlsOf(firsts: readonly number[]): readonly string[] {
  return firsts.map((port) => natsUrl(`127.0.0.1:${port + 1}`, natsPassword(secret)));
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

  private constructor(
    directory: string,
    firsts: readonly number[],
    env: Readonly<Record<string, string>>,
  ) {
    this.#directory = directory;
    this.#firsts = firsts;
    this.#env = env;
  }

  static async start(
    natsServer: string,
    { tls = false, env = {}, before = () => Promise.resolve() }: StartOptions = {},
  ): Promise<ThreeNodes> {
    const directory = await mkdtemp(join(tmpdir(), "codeq-cluster-"));
    const firsts = await freePortRows(4, portsEach);
    const cluster = new ThreeNodes(directory, firsts, {
      ...settingsOf(firsts, natsServer),
      ...(tls ? await certificatesIn(directory) : {}),
      ...env,
    });
    await before((id) => cluster.dataDirOf(id));
    await Promise.all(cluster.ids.map((id) => cluster.startNode(id)));
    return cluster;
  }

  dataDirOf(id: string): string {
    return join(this.#directory, id);
  }

  /** The setting of this name, with these nodes. */
  members(ids: readonly string[] = this.ids): string {
    const port = (id: string): number => this.#firsts[this.#places.indexOf(id)] as number;
    return ids.map((id) => `${id}=127.0.0.1:${port(id)}`).join(",");
  }

  async startNode(id: string, members: readonly string[] = this.ids): Promise<void> {
    const env = {
      ...this.#env,
      CODEQ_NODE_ID: id,
      CODEQ_CLUSTER_MEMBERS: this.members(members),
      ...(id === "a" ? { CODEQ_CLUSTER_BOOTSTRAP: "true" } : {}),
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
    await this.#onLogServers(async (servers) => {
      const log = await servers.open(`codeq-shard-${shard}`);
      await log?.trim(slot);
    });
  }

  /** The log servers lose the log of a shard. */
  async loseLog(log: "shard-0" | "control"): Promise<void> {
    await this.#onLogServers((servers) => servers.remove(`codeq-${log}`));
  }

  async #onLogServers(run: (servers: NatsServers) => Promise<void>): Promise<void> {
    const urls = natsUrlsOf(this.#firsts);
    await using servers = await NatsServers.connect({ urls, name: "test" });
    await untilFound(this.client("a"), async () => {
      try {
        await run(servers);
        return "done";
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
    for (const id of this.servers.keys()) await this.killNats(id);
    await rm(this.#directory, { recursive: true, force: true, maxRetries: 3 });
  }

  async isNatsUp(id: string): Promise<boolean> {
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
  async killNats(id: string): Promise<void> {
    const path = join(this.#directory, id, "nats", "nats.pid");
    const pid = Number(await readFile(path, "utf8").catch(() => "0"));
    if (pid === 0) return;
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // It has ended by itself.
    }
  }
}

/** Files of a certificate for all nodes, which are on one machine, as settings. */
async function certificatesIn(directory: string): Promise<Readonly<Record<string, string>>> {
  const days = { validFromMs: Date.UTC(2020), validToMs: Date.UTC(2120) };
  const ca = makeCertificate({ name: "CA of the cluster", isCa: true, ...days });
  const own = makeCertificate({ name: "a node", issuer: ca, addresses: ["127.0.0.1"], ...days });
  const write = async (name: string, text: string): Promise<string> => {
    const path = join(directory, name);
    await writeFile(path, text);
    return path;
  };
  return {
    CODEQ_CLUSTER_TLS_CERT_FILE: await write("node.crt", own.cert),
    CODEQ_CLUSTER_TLS_KEY_FILE: await write("node.key", own.key),
    CODEQ_CLUSTER_TLS_CA_FILE: await write("ca.crt", ca.cert),
  };
}
