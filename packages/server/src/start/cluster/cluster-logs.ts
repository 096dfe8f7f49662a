/** The logs of a cluster on their servers: which ones, where, and made by whom. */
import { FaultError, type SharedLog } from "@codeq/engine";
import type { EtcdMember, EtcdServers, FoundLog } from "@codeq/engine/etcd";
import type { ClusterLogs, LogServerStatus } from "../../cluster/cluster-node.ts";
import type { LogServer } from "../../cluster/members/membership.ts";
import type { NewLog } from "../../cluster/members/repair.ts";
import { hostAndPort, type PeerTls } from "../../cluster/peers/peers.ts";
import { nameOf } from "../../cluster/replicated-shard.ts";
import type { ClusterNode as NamedNode } from "../../config/cluster.ts";
import type { Config } from "../../config/settings.ts";
import { drawId, slotOfCopies } from "../../core/backup/store-files.ts";
import type { Clock } from "../../core/clock.ts";
import type { Logger } from "../../telemetry/logger.ts";
import { hasReplica } from "../open-data-dir.ts";
import { logsToBegin } from "./cluster-data.ts";
import { replicaName } from "./replica-files.ts";

interface LogsParts {
  readonly config: Config;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly nodes: readonly NamedNode[];
  readonly self: NamedNode;
  readonly tls: PeerTls;
}

/** Ports above that of a node: for clients of its etcd, and for the other members. */
export const etcdPorts = { clients: 1, peers: 2 } as const;

/** How long the members are waited for, before those of the settings are asked how they are. */
const membersMsMax = 1000;

/** The logs of all shards. */
export class Logs implements ClusterLogs, AsyncDisposable {
  readonly etcd: EtcdServers;
  /** Why the log server of this node does not run, while it does not. */
  whyDown: () => string | undefined = () => undefined;
  readonly #parts: LogsParts;
  #isChecked = false;

  private constructor(parts: LogsParts, etcd: EtcdServers) {
    this.#parts = parts;
    this.etcd = etcd;
  }

  static async make(parts: LogsParts): Promise<Logs> {
    // Loaded by nodes of a cluster only.
    const { EtcdServers } = await import("@codeq/engine/etcd");
    const { config, clock, nodes, self, tls } = parts;
    // The own server first: it is the nearest.
    const others = nodes.filter(({ id }) => id !== self.id);
    const urls =
      config.etcdUrls === ""
        ? [self, ...others].map(clientUrl)
        : config.etcdUrls.split(",").map((url) => url.trim());
    const prefix = config.etcdPrefix;
    return new Logs(parts, new EtcdServers({ urls, tls, clock, node: self.id, prefix }));
  }

  async open(shard: number): Promise<SharedLog | undefined> {
    const { config, logger } = this.#parts;
    await this.#check();
    const name = replicaName(shard);
    const found = await this.#found(name);
    if (found !== undefined || config.clusterBootstrap !== config.nodeId) return found;
    const begun = logsToBegin(config)[name];
    if (begun === undefined && hasReplica(config, name)) {
      throw new FaultError(
        "format",
        `log ${name} is gone, and this node has data that came from it. It is not created again, because ` +
          "an empty log would not fit the data. Restore etcd, or run `codeq cluster repair`.",
      );
    }
    const firstSlot = begun === undefined ? undefined : slotOfCopies;
    await this.etcd.create(name, { logId: begun ?? drawId(), firstSlot });
    logger.warn(`the log of ${nameOf(shard)} was created; remove clusterBootstrap now`);
    return await this.etcd.open(name);
  }

  look(shard: number): Promise<FoundLog | undefined> {
    return this.etcd.look(replicaName(shard));
  }

  renew(shard: number, found: FoundLog | undefined, log: NewLog): Promise<boolean> {
    return this.etcd.renew(replicaName(shard), found, log);
  }

  async servers(): Promise<readonly LogServer[] | undefined> {
    if (this.#parts.config.etcdUrls !== "") return undefined;
    return await this.#health(await this.etcd.members());
  }

  async removeServer(server: string): Promise<void> {
    const members = await this.etcd.members();
    const peerUrl = this.#parts.nodes.filter(({ id }) => id === server).map(peerUrlOf);
    const found = members.find(({ name, peerUrls }) => {
      // A member that has never started has no name.
      return name === server || peerUrls.some((url) => peerUrl.includes(url));
    });
    if (found !== undefined) await this.etcd.removeMember(found.id);
  }

  /** All log servers, also while they have no majority. */
  async health(): Promise<readonly LogServerStatus[]> {
    const { config, nodes, clock } = this.#parts;
    const late = Promise.withResolvers<never>();
    const cancel = clock.after(membersMsMax, () => {
      late.reject(new FaultError("storage_failed", "the log servers do not answer"));
    });
    try {
      const members = await Promise.race([this.etcd.members(), late.promise]);
      return await this.#health([...members, ...this.#missing(members)]);
    } catch (error) {
      if (!(error instanceof FaultError)) throw error;
      const urls = config.etcdUrls === "" ? [] : config.etcdUrls.split(",");
      const named = config.etcdUrls === "" ? nodes : [];
      const members = [
        ...named.map((node) => ({ name: node.id, clientUrls: [clientUrl(node)] })),
        ...urls.map((url) => ({ name: url.trim(), clientUrls: [url.trim()] })),
      ];
      return await this.#health(
        members.map((each) => ({ ...each, id: 0, peerUrls: [], isLearner: false })),
      );
    } finally {
      cancel();
    }
  }

  /** Log servers of nodes that are no members, for example while one that lost its disk joins again. */
  #missing(members: readonly EtcdMember[]): readonly EtcdMember[] {
    const { config, nodes } = this.#parts;
    if (config.etcdUrls !== "") return [];
    const known = members.flatMap(({ name, peerUrls }) => [name, ...peerUrls]);
    return nodes
      .filter((node) => !known.includes(node.id) && !known.includes(peerUrlOf(node)))
      .map(({ id }) => ({ id: 0, name: id, peerUrls: [], clientUrls: [], isLearner: false }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.etcd[Symbol.asyncDispose]();
  }

  async #health(members: readonly EtcdMember[]): Promise<readonly LogServerStatus[]> {
    const all = await Promise.all(members.map((member) => this.etcd.health(member)));
    return members.map(({ name, peerUrls, clientUrls, isLearner }, at) => {
      const health = all[at];
      const url = clientUrls[0] ?? peerUrls[0] ?? "";
      return { name: name || url, url, isOnline: health !== undefined, isLearner, health };
    });
  }

  async #found(name: string): Promise<SharedLog | undefined> {
    try {
      return await this.etcd.open(name);
    } catch (error) {
      const why = this.whyDown();
      if (!(error instanceof FaultError) || why === undefined) throw error;
      throw new FaultError(error.code, `${error.message} ${why}`, error);
    }
  }

  /** An etcd that codeQ does not run may be too old, or accept only small requests. */
  async #check(): Promise<void> {
    if (this.#isChecked || this.#parts.config.etcdUrls === "") return;
    await this.etcd.assertUsable();
    this.#isChecked = true;
  }
}

export function clientUrl(node: NamedNode): string {
  return `https://${addressAbove(node, etcdPorts.clients)}`;
}

function peerUrlOf(node: NamedNode): string {
  return `https://${addressAbove(node, etcdPorts.peers)}`;
}

export function addressAbove(node: NamedNode, ports: number): string {
  const at = node.address.lastIndexOf(":");
  return `${node.address.slice(0, at)}:${hostAndPort(node.address).port + ports}`;
}
