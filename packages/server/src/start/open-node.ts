/**
 * Makes a server a node of a cluster: its log server, its replicas, and the broker that opens when a replica
 * leads.
 */
import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { createSecureContext } from "node:tls";
import { type EngineState, FaultError, OpenedParts, type SharedLog } from "@codeq/engine";
import type { NatsServers, NatsTls } from "@codeq/engine/nats";
import { webhookLimiterOfShard } from "../access/limiter.ts";
import { ClusterNode, type ControlOpening, type ReplicaOpening } from "../cluster/cluster-node.ts";
import { ControlReplica } from "../cluster/control-replica.ts";
import { install } from "../cluster/install.ts";
import { natsPassword, natsUrl } from "../cluster/nats-config.ts";
import { NatsProcess } from "../cluster/nats-process.ts";
import { hostAndPort, type PeerTls } from "../cluster/peers.ts";
import {
  controlNumber,
  nameOf,
  type OpenedShard,
  type Opening,
  ReplicatedShard,
} from "../cluster/replicated-shard.ts";
import { clusterMembers, type ClusterNode as NamedNode } from "../config/cluster-settings.ts";
import { isLimited } from "../config/quotas.ts";
import type { Config } from "../config/settings.ts";
import type { Store } from "../store/store.ts";
import { slotOfCopies } from "../store/store-copies.ts";
import { createMetrics } from "../telemetry/metrics.ts";
import { logsToBegin } from "./cluster-data.ts";
import type { ClusterMember } from "./compose.ts";
import { hasReplica, openReplica, type ReplicaStorage } from "./open-data-dir.ts";
import { openShard, openStore, type ShardParts } from "./open-shard.ts";

/** Ports above that of a node: for clients of its nats-server, and for the other nats-servers. */
const natsPorts = { clients: 1, routes: 2 } as const;
const replicasMax = 3;
/** Room for the control log on every log server. */
const controlLogBytes = 1024 * 1024 * 1024;
/** What a record may be; the largest group of changes is less. */
const payloadBytesMin = 8 * 1024 * 1024 - 1024;

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
      clock,
      logger,
      openLog: (shard) => logs.open(shard),
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
    local: (tenantId, id) => node.local(tenantId, id),
    handOff: (wanted) => node.handOff(wanted),
    end: () => node.end(),
    scrape: () => node.scrape(),
    [Symbol.asyncDispose]: () => opened[Symbol.asyncDispose](),
  };
}

/** Paths of the files for TLS between nodes and log servers; undefined for none. */
function tlsFiles({
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

function addressAbove(node: NamedNode, ports: number): string {
  const at = node.address.lastIndexOf(":");
  return `${node.address.slice(0, at)}:${hostAndPort(node.address).port + ports}`;
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

/** The logs of all shards. The connection to their servers is made when it is first needed. */
class Logs implements AsyncDisposable {
  readonly #config: Config;
  readonly #replicas: number;
  readonly #servers: Promise<NatsServers>;
  #connected: NatsServers | undefined;
  readonly #warn: (text: string) => void;

  private constructor(
    config: Config,
    servers: Promise<NatsServers>,
    { replicas, warn }: { readonly replicas: number; readonly warn: (text: string) => void },
  ) {
    this.#config = config;
    this.#servers = servers.then((connected) => {
      this.#connected = connected;
      return connected;
    });
    // Told by whoever opens a log.
    this.#servers.catch(() => {});
    this.#replicas = replicas;
    this.#warn = warn;
  }

  static async connect(
    { config, logger }: NodeParts,
    nodes: readonly NamedNode[],
    self: NamedNode,
  ): Promise<Logs> {
    // Loaded by nodes of a cluster only.
    const { NatsServers } = await import("@codeq/engine/nats");
    const { natsUrls } = config;
    // The own server first: it is the nearest.
    const others = nodes.filter(({ id }) => id !== self.id);
    const password = natsPassword(config.clusterSecret);
    const urls =
      natsUrls === ""
        ? [self, ...others].map((node) => natsUrl(addressAbove(node, natsPorts.clients), password))
        : natsUrls.split(",").map((url) => url.trim());
    const servers = NatsServers.connect({ urls, name: `codeq ${self.id}`, tls: tlsFiles(config) });
    const warn = (text: string): void => logger.warn(text);
    if (natsUrls !== "") {
      warn(
        "the log servers are not started by codeQ: check that they run with sync_interval: always, " +
          "or acknowledged work is lost when all of them lose power",
      );
    }
    return new Logs(config, servers, { replicas: Math.min(nodes.length, replicasMax), warn });
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
          "an empty log would not fit the data. Restore the stream, or repair the cluster.",
      );
    }
    const logId = begun ?? drawWriter();
    const firstSlot = begun === undefined ? undefined : slotOfCopies;
    const { clusterLogBytes } = this.#config;
    const bytesMax =
      shard === controlNumber ? Math.min(clusterLogBytes, controlLogBytes) : clusterLogBytes;
    await servers.create(name, { logId, replicas: this.#replicas, bytesMax, firstSlot });
    this.#warn(`the log of ${nameOf(shard)} was created; remove clusterBootstrap now`);
    return await servers.open(name);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#connected?.[Symbol.asyncDispose]();
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
      drawWriter,
      flushBytes: config.flushBytes,
      isLimited: isLimited(config.quotas),
      defer,
      openShard: (opening) => openLed(parts, { shard, storage, shared }, opening),
      onBug: (error) =>
        logger.error("a call failed", { error: (error as Error).stack ?? String(error) }),
      onChange,
    });
  } catch (error) {
    await storage.kv.close();
    throw error;
  }
}

const drawWriter = (): number => 1 + randomBytes(6).readUIntBE(0, 6);

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
      drawWriter,
      shards: config.shards,
      defer,
      openStore: (log) =>
        openStore({
          ...parts,
          // The metrics of storage are those of tasks.
          metrics: createMetrics({ commandsMax: 1 }),
          shard: undefined,
          storage: { ...storage, log, identity: shared.logId, isKvLent: true },
          onState: (state, fault) => failUnlessElsewhere(parts, state, fault),
        }),
      onChange,
      onWritten,
    });
  } catch (error) {
    await kv.close();
    throw error;
  }
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
    storage: { ...storage, log, identity: shared.logId, isKvLent: true },
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

function streamOf(shard: number): string {
  return `codeq-${replicaName(shard)}`;
}

function replicaName(shard: number): string {
  return shard === controlNumber ? "control" : `shard-${shard}`;
}
