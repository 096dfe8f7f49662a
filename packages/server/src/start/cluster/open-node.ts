/**
 * Makes a server a node of a cluster: its log server, its replicas, and the broker that opens when a replica
 * leads.
 */
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { createSecureContext } from "node:tls";
import { type EngineState, FaultError, install, OpenedParts, type SharedLog } from "@codeq/engine";
import {
  ClusterNode,
  type ControlOpening,
  type ReplicaOpening,
} from "../../cluster/cluster-node.ts";
import { ControlReplica } from "../../cluster/control-replica.ts";
import { natsPassword } from "../../cluster/nats-config.ts";
import { NatsProcess } from "../../cluster/nats-process.ts";
import type { PeerTls } from "../../cluster/peers.ts";
import {
  controlNumber,
  type OpenedShard,
  type Opening,
  ReplicatedShard,
} from "../../cluster/replicated-shard.ts";
import {
  clusterMembers,
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
import { openReplica, type ReplicaStorage } from "../open-data-dir.ts";
import { openShard, openStore, type ShardParts } from "../shards/open-shard.ts";
import { addressAbove, Logs, natsPorts, tlsFiles } from "./cluster-logs.ts";
import { replicaFiles, replicaName } from "./replica-files.ts";

export interface NodeParts extends ShardParts {
  /** The storage of a replica failed for good. */
  readonly onFailed: (fault: FaultError) => void;
}

export async function openNode(store: Store, parts: NodeParts): Promise<ClusterMember> {
  const { config, clock, logger } = parts;
  await assertWithoutTasks(store, config);
  const nodes = clusterMembers(config);
  const self = nodes.find(({ id }) => id === config.nodeId) as NamedNode;
  const tls = await readTls(config);
  await using opening = new OpenedParts();
  const own = config.natsUrls === "" ? await startNats(parts, nodes, self) : undefined;
  if (own !== undefined) opening.use(own);
  const logs = opening.use(await Logs.connect(parts, nodes, self));
  const node = opening.use(
    await ClusterNode.start({
      self,
      nodes,
      secret: config.clusterSecret,
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

async function readTls(config: Config): Promise<PeerTls | undefined> {
  const files = tlsFiles(config);
  if (files === undefined) return undefined;
  const { certFile, keyFile, caFile } = files;
  try {
    const [cert, key, ca] = [
      await readFile(certFile),
      await readFile(keyFile),
      await readFile(caFile),
    ];
    createSecureContext({ cert, key, ca });
    return { cert, key, ca };
  } catch (error) {
    const text = `TLS between nodes cannot be used: ${(error as Error).message}`;
    const advice = "Check clusterTlsCertFile, clusterTlsKeyFile and clusterTlsCaFile";
    throw new FaultError("format", `${text}. ${advice}.`);
  }
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

function startNats(
  { config, clock, logger }: NodeParts,
  nodes: readonly NamedNode[],
  self: NamedNode,
): Promise<NatsProcess> {
  const all = nodes.map((node) => addressAbove(node, natsPorts.routes));
  const routes =
    nodes.length === 1 ? undefined : { address: addressAbove(self, natsPorts.routes), all };
  return NatsProcess.start({
    binary: config.natsServer,
    clock,
    logger,
    config: {
      serverName: self.id,
      clientAddress: addressAbove(self, natsPorts.clients),
      routes,
      directory: resolve(config.dataDir, "nats"),
      password: natsPassword(config.clusterSecret),
      storeBytesMax: (config.shards + 1) * config.clusterLogBytes,
      tls: tlsFiles(config),
    },
  });
}

async function openReplicatedShard(
  parts: NodeParts,
  self: NamedNode,
  { shard, shared, rank, onChange, copy }: ReplicaOpening,
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
      nodes: clusterMembers(config).map(({ id }) => id),
      rank,
      clock,
      drawWriter: drawId,
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
  { shared, rank, onChange, onWritten, copy }: ControlOpening,
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
      nodes: clusterMembers(config).map(({ id }) => id),
      rank,
      clock,
      drawWriter: drawId,
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
