/**
 * Settings of the Go server that codeQ has no use for. They are accepted so that an existing file or
 * environment still loads; each one that is set gives a warning. A switch that would make the data less safe if it
 * were ignored, such as a cluster, is refused instead.
 */
interface InactiveSetting {
  readonly name: string;
  readonly env: readonly string[];
  /** What to use instead, or why there is nothing to set. */
  readonly instead: string;
  readonly isRefusedWhenOn?: true;
}

const ignored =
  (instead: string) =>
  (name: string, ...env: string[]): InactiveSetting => ({ name, env, instead });
const store = ignored("the data is in dataDir; remove it");
const shards = ignored("use shards instead; remove it");
const cluster = ignored(
  "a cluster is configured with clusterMembers, nodeId and clusterSecret; remove it",
);
/** A switch that must not be ignored. */
const refused = (row: InactiveSetting): InactiveSetting => ({ ...row, isRefusedWhenOn: true });

export const inactiveSettings: readonly InactiveSetting[] = [
  store("redisAddr", "REDIS_ADDR"),
  store("redisPassword", "REDIS_PASSWORD", "KVROCKS_PASSWORD"),
  ignored("tokens are checked by producerAuthConfig and workerAuthConfig; remove it")(
    "identityServiceApiKey",
    "IDENTITY_SERVICE_API_KEY",
  ),
  ignored("every expired lease is taken back; remove it")(
    "requeueInspectLimit",
    "REQUEUE_INSPECT_LIMIT",
  ),
  refused(shards("sharding.enabled")),
  shards("sharding.defaultShard"),
  shards("sharding.commandMappings"),
  shards("sharding.tenantOverrides"),
  shards("sharding.backends"),
  refused(cluster("cluster.enabled", "CLUSTER_ENABLED")),
  cluster("cluster.selfId", "CLUSTER_SELF_ID"),
  cluster("cluster.grpcAddr", "CLUSTER_GRPC_ADDR"),
  cluster("cluster.nodes", "CLUSTER_NODES"),
  refused(cluster("raft.enabled", "RAFT_ENABLED")),
  cluster("raft.selfId", "RAFT_SELF_ID"),
  cluster("raft.bindAddr", "RAFT_BIND_ADDR"),
  cluster("raft.bootstrap", "RAFT_BOOTSTRAP"),
  cluster("raft.peers", "RAFT_PEERS"),
  cluster("raft.peerHTTPAddrs", "RAFT_PEER_HTTP_ADDRS"),
  cluster("raft.muxEnabled", "RAFT_MUX_ENABLED"),
  cluster("raft.heartbeatMS", "RAFT_HEARTBEAT_MS"),
  cluster("raft.electionMS", "RAFT_ELECTION_MS"),
  cluster("raft.leaderLeaseMS", "RAFT_LEADER_LEASE_MS"),
  cluster("raft.commitMS", "RAFT_COMMIT_MS"),
  cluster("raft.applyTimeoutSeconds", "RAFT_APPLY_TIMEOUT_SECONDS"),
  cluster("raft.topicCatalogProtocol", "RAFT_TOPIC_CATALOG_PROTOCOL"),
];
