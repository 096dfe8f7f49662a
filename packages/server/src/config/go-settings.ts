/**
 * Settings of the Go server that have no effect in this version. They are accepted so that an existing file or
 * environment still loads; each one that is set gives a warning. A switch that would make the data less safe if it
 * were ignored, such as a cluster, is refused instead.
 */
interface InactiveSetting {
  readonly name: string;
  readonly env: readonly string[];
  /** For a switch that must not be ignored: what to do instead. */
  readonly refuseWhenOn?: string;
}

const inactive = (name: string, ...env: string[]): InactiveSetting => ({ name, env });
const alone = "a cluster is configured with clusterMembers, nodeId and clusterSecret; remove it";

export const inactiveSettings: readonly InactiveSetting[] = [
  inactive("redisAddr", "REDIS_ADDR"),
  inactive("redisPassword", "REDIS_PASSWORD", "KVROCKS_PASSWORD"),
  inactive("identityServiceApiKey", "IDENTITY_SERVICE_API_KEY"),
  inactive("requeueInspectLimit", "REQUEUE_INSPECT_LIMIT"),
  { name: "sharding.enabled", env: [], refuseWhenOn: "use shards instead; remove it" },
  inactive("sharding.defaultShard"),
  inactive("sharding.commandMappings"),
  inactive("sharding.tenantOverrides"),
  inactive("sharding.backends"),
  { name: "cluster.enabled", env: ["CLUSTER_ENABLED"], refuseWhenOn: alone },
  inactive("cluster.selfId", "CLUSTER_SELF_ID"),
  inactive("cluster.grpcAddr", "CLUSTER_GRPC_ADDR"),
  inactive("cluster.nodes", "CLUSTER_NODES"),
  { name: "raft.enabled", env: ["RAFT_ENABLED"], refuseWhenOn: alone },
  inactive("raft.selfId", "RAFT_SELF_ID"),
  inactive("raft.bindAddr", "RAFT_BIND_ADDR"),
  inactive("raft.bootstrap", "RAFT_BOOTSTRAP"),
  inactive("raft.peers", "RAFT_PEERS"),
  inactive("raft.peerHTTPAddrs", "RAFT_PEER_HTTP_ADDRS"),
  inactive("raft.muxEnabled", "RAFT_MUX_ENABLED"),
  inactive("raft.heartbeatMS", "RAFT_HEARTBEAT_MS"),
  inactive("raft.electionMS", "RAFT_ELECTION_MS"),
  inactive("raft.leaderLeaseMS", "RAFT_LEADER_LEASE_MS"),
  inactive("raft.commitMS", "RAFT_COMMIT_MS"),
  inactive("raft.applyTimeoutSeconds", "RAFT_APPLY_TIMEOUT_SECONDS"),
  inactive("raft.topicCatalogProtocol", "RAFT_TOPIC_CATALOG_PROTOCOL"),
];
