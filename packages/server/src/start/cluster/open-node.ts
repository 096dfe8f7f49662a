/**
 * Makes a server a node of a cluster: its log server, its replicas, and the broker that opens when a replica
 * leads.
 */
import { resolve } from "node:path";
import {
  type EngineState,
  FaultError,
  install,
  NodeDisk,
  OpenedParts,
  replicaTimingOf,
  type SharedLog,
} from "@codeq/engine";
import {
  ClusterNode,
  type ControlOpening,
  type ReplicaOpening,
} from "../../cluster/cluster-node.ts";
import { ControlReplica } from "../../cluster/control/control-replica.ts";
import { EtcdProcess } from "../../cluster/etcd/etcd-process.ts";
import { findEtcd } from "../../cluster/etcd/etcd-program.ts";
import type { PeerTls } from "../../cluster/peers/peers.ts";
import { assertSameSecret } from "../../cluster/peers/secret-check.ts";
import {
  controlNumber,
  type OpenedShard,
  type Opening,
  ReplicatedShard,
} from "../../cluster/replicated-shard.ts";
import {
  clusterMembers,
  clusterSecrets,
  clusterUrls,
  type ClusterNode as NamedNode,
} from "../../config/cluster.ts";
import { isLimited } from "../../config/quotas.ts";
import type { Config } from "../../config/settings.ts";
import { drawId } from "../../core/backup/store-files.ts";
import { webhookLimiterOfShard } from "../../core/limiter/limiter.ts";
import type { Store } from "../../core/store/store.ts";
import { createMetrics } from "../../telemetry/metrics.ts";
import type { ClusterMember } from "../compose.ts";
import { hasReplica, openReplica, type ReplicaStorage } from "../open-data-dir.ts";
import { openShard, openStore, type ShardParts } from "../shards/open-shard.ts";
import { logsToBegin } from "./cluster-data.ts";
import { addressAbove, clientUrl, etcdPorts, Logs } from "./cluster-logs.ts";
import { readClusterTls, tlsFiles, watchClusterTls, writeTls } from "./cluster-tls.ts";
import { replicaFiles, replicaName } from "./replica-files.ts";

export interface NodeParts extends ShardParts {
  /** The storage of a replica failed permanently. */
  readonly onFailed: (fault: FaultError) => void;
}

export async function openNode(store: Store, parts: NodeParts): Promise<ClusterMember> {
  const { config, clock, logger } = parts;
  await assertWithoutTasks(store, config);
  const nodes = clusterMembers(config);
  const self = nodes.find(({ id }) => id === config.nodeId) as NamedNode;
  const tls = await readClusterTls(config, self);
  const others = nodes.filter(({ id }) => id !== self.id);
  await assertSameSecret(others, tls, clock);
  await using opening = new OpenedParts();
  const logs = opening.use(await Logs.make({ config, clock, logger, nodes, self, tls }));
  if (config.etcdUrls === "") {
    const etcd = opening.use(await startEtcd(parts, { nodes, self, logs, tls }));
    logs.whyDown = () => etcd.problem;
  }
  const node = opening.use(
    await ClusterNode.start({
      self,
      nodes,
      secrets: clusterSecrets(config),
      tls,
      shards: config.shards,
      urls: clusterUrls(config),
      clock,
      logger,
      logs,
      filesOf: (shard) => replicaFiles(config, shard),
      drawLogId: drawId,
      openReplica: (opening) => openReplicatedShard(parts, self, opening),
      openControl: (opening) => openControl(parts, self, opening),
    }),
  );
  opening.use(
    watchClusterTls(parts, (renewed) => {
      logs.etcd.useTls(renewed);
      node.useTls(renewed);
    }),
  );
  const opened = opening.keep();
  return {
    links: node.links,
    control: node.control,
    backupControl: {
      get store() {
        return node.control.store;
      },
    },
    get status() {
      return node.status;
    },
    health: () => node.health(),
    leaderUrl: (id) => node.leaderUrl(id),
    local: (tenantId, id) => node.local(tenantId, id),
    handOff: (wanted) => node.handOff(wanted),
    end: () => node.end(),
    add: (added) => node.add(added),
    remove: (id) => node.remove(id),
    repair: (wanted, shard) => node.repair(wanted, shard),
    scrape: () => node.scrape(),
    [Symbol.asyncDispose]: () => opened[Symbol.asyncDispose](),
  };
}

/** Tasks of a server alone would not be seen by the cluster. */
async function assertWithoutTasks(store: Store, config: Config): Promise<void> {
  const { queues } = await store.counts();
  if (queues.length === 0) return;
  throw new FaultError(
    "format",
    `the data directory ${resolve(config.dataDir)} holds tasks of a server alone. Run \`codeq cluster init\` ` +
      "to make it the first node of a cluster, or choose an empty directory for the node.",
  );
}

async function startEtcd(
  { config, clock, logger }: NodeParts,
  cluster: {
    readonly nodes: readonly NamedNode[];
    readonly self: NamedNode;
    readonly logs: Logs;
    readonly tls: PeerTls;
  },
): Promise<EtcdProcess> {
  const { nodes, self, logs, tls } = cluster;
  const program = await findEtcd(config.etcdProgram);
  const directory = resolve(config.dataDir, "etcd");
  const files = tlsFiles(config) ?? (await writeTls(directory, tls));
  const disk = await NodeDisk.open(resolve(config.dataDir));
  return new EtcdProcess({
    program,
    clock,
    logger,
    servers: logs.etcd,
    otherUrls: nodes.filter(({ id }) => id !== self.id).map(clientUrl),
    members: nodes.map((node) => ({
      name: node.id,
      address: addressAbove(node, etcdPorts.peers),
    })),
    whyNotBegin: () => whyNotBegin(config),
    // etcd says itself what is wrong with a disk that cannot be asked.
    freeBytes: () => disk.freeBytes().catch(() => Number.POSITIVE_INFINITY),
    minFreeBytes: config.minFreeDiskBytes,
    config: {
      name: self.id,
      directory,
      clientAddress: addressAbove(self, etcdPorts.clients),
      peerAddress: addressAbove(self, etcdPorts.peers),
      quotaBytes: 2 * config.clusterLogBytes,
      tls: files,
      heartbeatMs: config.etcdHeartbeatMs,
      electionMs: config.etcdElectionMs,
    },
  });
}

/** Only one node begins a cluster, and only when it has no data of an earlier one. */
function whyNotBegin(config: Config): string | undefined {
  const { clusterBootstrap, nodeId, shards } = config;
  if (clusterBootstrap !== nodeId) {
    const other = clusterBootstrap || "the id of one node";
    return `none of them answers. For a new cluster, set clusterBootstrap: ${other}, and start that node`;
  }
  const replicas = [controlNumber, ...Array.from({ length: shards }, (_, shard) => shard)];
  const begun = logsToBegin(config);
  const isUsed = replicas.map(replicaName).some((name) => {
    return hasReplica(config, name) && begun[name] === undefined;
  });
  if (!isUsed) return undefined;
  return "none of them answers, and this node has data of a cluster, so that it begins no new one";
}

async function openReplicatedShard(
  parts: NodeParts,
  self: NamedNode,
  { shard, shared, nodes, onChange, copy }: ReplicaOpening,
): Promise<ReplicatedShard> {
  const { config, clock, logger, defer } = parts;
  const storage = await openReplica(config, replicaName(shard));
  try {
    await install({ kv: storage.kv, shared, copy });
    return new ReplicatedShard({
      number: shard,
      count: config.shards,
      shared,
      kv: storage.kv,
      self,
      nodes,
      rank: nodes.indexOf(self.id),
      clock,
      drawWriter: drawId,
      timing: replicaTimingOf(config.etcdElectionMs),
      flushBytes: config.flushBytes,
      isLimited: isLimited(config.quotas),
      defer,
      openShard: (opening) => openLed(parts, { shard, storage, shared }, opening),
      onBug: (error) =>
        logger.error("a call failed", { error: (error as Error).stack ?? String(error) }),
      onChange,
      isFull: () => isFull(config, storage),
    });
  } catch (error) {
    await storage.kv.close();
    throw error;
  }
}

async function openControl(
  parts: NodeParts,
  self: NamedNode,
  { shared, nodes, onChange, onWritten, copy }: ControlOpening,
): Promise<ControlReplica> {
  const { config, clock, defer } = parts;
  const storage = await openReplica(config, replicaName(controlNumber));
  const { kv } = storage;
  try {
    await install({ kv, shared, copy });
    return new ControlReplica({
      shared,
      kv,
      self,
      nodes,
      rank: nodes.indexOf(self.id),
      clock,
      drawWriter: drawId,
      timing: replicaTimingOf(config.etcdElectionMs),
      shards: config.shards,
      defer,
      openStore: (log) =>
        openStore({
          ...parts,
          // The metrics of storage are those of tasks.
          metrics: createMetrics({ commandsMax: 1 }),
          shard: undefined,
          storage: { ...storage, log, storeId: shared.logId, isKvLent: true },
          onState: (state, fault) => failUnlessElsewhere(parts, state, fault),
        }),
      onChange,
      isFull: () => isFull(config, storage),
      onWritten,
    });
  } catch (error) {
    await kv.close();
    throw error;
  }
}

async function isFull(config: Config, { freeBytes }: ReplicaStorage): Promise<boolean> {
  return (await freeBytes()) < config.minFreeDiskBytes;
}

interface LedParts {
  readonly shard: number;
  readonly storage: ReplicaStorage;
  readonly shared: SharedLog;
}

/** The shard with everything around it, while this node leads it. */
async function openLed(
  parts: NodeParts,
  { shard, storage, shared }: LedParts,
  { log, feed, onState }: Opening,
): Promise<OpenedShard> {
  const { config, clock } = parts;
  const metrics = createMetrics({ commandsMax: config.metricsCommandsMax });
  const opened = await openShard({
    ...parts,
    metrics,
    feed,
    limiter: webhookLimiterOfShard(config, clock),
    shard: config.shards === 1 ? undefined : { number: shard, of: undefined },
    storage: { ...storage, log, storeId: shared.logId, isKvLent: true },
    onState: (state, fault) => {
      onState(fault);
      failUnlessElsewhere(parts, state, fault);
    },
  });
  return {
    broker: opened.broker,
    scrape: () => metrics.render(),
    [Symbol.asyncDispose]: () => Promise.resolve(opened[Symbol.asyncDispose]()),
  };
}

/** Deposed nodes follow again; anything else is a broken disk. */
function failUnlessElsewhere(
  { onFailed }: NodeParts,
  state: EngineState,
  fault: FaultError | undefined,
): void {
  if (state !== "failed" || fault === undefined) return;
  if (fault.code !== "not_leader" && fault.code !== "unknown") onFailed(fault);
}
