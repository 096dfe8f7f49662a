/** The logs of a cluster on their servers: which ones, where, and made by whom. */
import { resolve } from "node:path";
import { FaultError, type NatsTls, type SharedLog } from "@codeq/engine";
import type { FoundLog, NatsServers } from "@codeq/engine/nats";
import type { LogServer, NatsSystem } from "@codeq/engine/nats-system";
import type { ClusterLogs } from "../../cluster/cluster-node.ts";
import { replicasMax } from "../../cluster/membership.ts";
import { natsPassword, natsSystemUrl, natsUrl } from "../../cluster/nats-config.ts";
import { hostAndPort } from "../../cluster/peers.ts";
import type { NewLog } from "../../cluster/repair.ts";
import { controlNumber, nameOf } from "../../cluster/replicated-shard.ts";
import type { ClusterNode as NamedNode } from "../../config/cluster.ts";
import type { Config } from "../../config/settings.ts";
import { drawId, slotOfCopies } from "../../core/backup/store-files.ts";
import type { Logger } from "../../telemetry/logger.ts";
import { hasReplica } from "../open-data-dir.ts";
import { logsToBegin } from "./cluster-data.ts";
import { replicaName } from "./replica-files.ts";

interface LogsParts {
  readonly config: Config;
  readonly logger: Logger;
}

/** Ports above that of a node: for clients of its nats-server, and for the other nats-servers. */
export const natsPorts = { clients: 1, routes: 2 } as const;
/** Room for the control log on every log server. */
const controlLogBytes = 1024 * 1024 * 1024;
/** What a record may be; the largest group of changes is less. */
const payloadBytesMin = 8 * 1024 * 1024 - 1024;

/** The logs of all shards. The connection to their servers is made when it is first needed. */
export class Logs implements ClusterLogs, AsyncDisposable {
  readonly #config: Config;
  readonly #nodes: readonly NamedNode[];
  readonly #servers: Promise<NatsServers>;
  #connected: NatsServers | undefined;
  readonly #warn: (text: string) => void;

  private constructor(
    { config, logger }: LogsParts,
    nodes: readonly NamedNode[],
    servers: Promise<NatsServers>,
  ) {
    this.#config = config;
    this.#nodes = nodes;
    this.#servers = servers.then((connected) => {
      this.#connected = connected;
      return connected;
    });
    // Told by whoever opens a log.
    this.#servers.catch(() => {});
    this.#warn = (text) => logger.warn(text);
  }

  static async connect(
    parts: LogsParts,
    nodes: readonly NamedNode[],
    self: NamedNode,
  ): Promise<Logs> {
    // Loaded by nodes of a cluster only.
    const { NatsServers } = await import("@codeq/engine/nats");
    const { config } = parts;
    const { natsUrls } = config;
    // The own server first: it is the nearest.
    const others = nodes.filter(({ id }) => id !== self.id);
    const password = natsPassword(config.clusterSecret);
    const urls =
      natsUrls === ""
        ? [self, ...others].map((node) => natsUrl(addressAbove(node, natsPorts.clients), password))
        : natsUrls.split(",").map((url) => url.trim());
    const servers = NatsServers.connect({ urls, name: `codeq ${self.id}`, tls: tlsFiles(config) });
    if (natsUrls !== "") {
      parts.logger.warn(
        "the log servers are not started by codeQ: check that they run with sync_interval: always, " +
          "or acknowledged work is lost when all of them lose power",
      );
    }
    return new Logs(parts, nodes, servers);
  }

  async open(shard: number): Promise<SharedLog | undefined> {
    const servers = await this.#servers;
    const name = streamOf(shard);
    const found = await servers.open(name);
    if (found !== undefined) return assertRoomy(found);
    if (!this.#config.clusterBootstrap) return undefined;
    const begun = logsToBegin(this.#config)[replicaName(shard)];
    if (begun === undefined && hasReplica(this.#config, replicaName(shard))) {
      throw new FaultError(
        "format",
        `stream ${name} is gone, and this node has data that came from it. It is not created anew, because ` +
          "an empty log would not fit the data. Restore the stream, or run `codeq cluster repair`.",
      );
    }
    const firstSlot = begun === undefined ? undefined : slotOfCopies;
    await this.#create(shard, { logId: begun ?? drawId(), firstSlot });
    this.#warn(`the log of ${nameOf(shard)} was created; remove clusterBootstrap now`);
    return await servers.open(name);
  }

  async look(shard: number): Promise<FoundLog | undefined> {
    return await (await this.#servers).look(streamOf(shard));
  }

  async renew(shard: number, log: NewLog): Promise<void> {
    await (await this.#servers).remove(streamOf(shard));
    if (await this.#create(shard, log)) return;
    // An earlier call, of which nobody heard, may have made it.
    if ((await this.look(shard))?.logId === log.logId) return;
    throw new FaultError("storage_failed", `stream ${streamOf(shard)} was made by somebody else`);
  }

  async moveAway(shard: number, server: string): Promise<void> {
    await (await this.#servers).moveAway(streamOf(shard), server);
  }

  async setReplicas(shard: number, replicas: number): Promise<void> {
    await (await this.#servers).setReplicas(streamOf(shard), replicas);
  }

  async servers(): Promise<readonly LogServer[] | undefined> {
    return await this.#asSystem((system) => system.servers());
  }

  async removeServer(server: string): Promise<void> {
    await this.#asSystem((system) => system.remove(server));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#connected?.[Symbol.asyncDispose]();
  }

  /** False when there is one already. */
  async #create(
    shard: number,
    log: { readonly logId: number; readonly firstSlot?: number | undefined },
  ): Promise<boolean> {
    const { clusterLogBytes } = this.#config;
    const bytesMax =
      shard === controlNumber ? Math.min(clusterLogBytes, controlLogBytes) : clusterLogBytes;
    const replicas = Math.min(this.#nodes.length, replicasMax);
    return await (await this.#servers).create(streamOf(shard), { ...log, replicas, bytesMax });
  }

  /** Undefined when the log servers are run by somebody else. */
  async #asSystem<T>(ask: (system: NatsSystem) => Promise<T>): Promise<T | undefined> {
    const { natsUrls, clusterSecret } = this.#config;
    if (natsUrls !== "" || this.#nodes.length === 1) return undefined;
    const { NatsSystem } = await import("@codeq/engine/nats-system");
    const password = natsPassword(clusterSecret);
    const urls = this.#nodes.map((node) => {
      return natsSystemUrl(addressAbove(node, natsPorts.clients), password);
    });
    const tls = tlsFiles(this.#config);
    await using system = await NatsSystem.connect({ urls, name: "codeq members", tls });
    return await ask(system);
  }
}

function assertRoomy(log: SharedLog): SharedLog {
  if (log.recordBytesMax >= payloadBytesMin) return log;
  throw new FaultError(
    "format",
    `the log servers take records of ${log.recordBytesMax} bytes. Set max_payload: 8MB in the ` +
      "configuration of every nats-server.",
  );
}

/** Paths of the files for TLS between nodes and log servers; undefined for none. */
export function tlsFiles({
  clusterTlsCertFile,
  clusterTlsKeyFile,
  clusterTlsCaFile,
}: Config): NatsTls | undefined {
  if (clusterTlsCertFile === "") return undefined;
  return {
    certFile: resolve(clusterTlsCertFile),
    keyFile: resolve(clusterTlsKeyFile),
    caFile: resolve(clusterTlsCaFile),
  };
}

export function addressAbove(node: NamedNode, ports: number): string {
  const at = node.address.lastIndexOf(":");
  return `${node.address.slice(0, at)}:${hostAndPort(node.address).port + ports}`;
}

function streamOf(shard: number): string {
  return `codeq-${replicaName(shard)}`;
}
