/**
 * Settings of the contract that this version does not act on. They are known so that an existing file or
 * environment still loads: each that is set gives one warning. A switch whose silence would
 * change how safe the data is (a cluster that is not one) is refused instead.
 */
export interface InactiveSetting {
  readonly name: string;
  readonly env: readonly string[];
  /** Set on the switches that must not be ignored: what to do instead. */
  readonly refuseWhenOn?: string;
}

const later = (name: string, ...env: string[]): InactiveSetting => ({ name, env });
const alone = "this version runs as a single node; remove it, or set it to false";

export const inactiveSettings: readonly InactiveSetting[] = [
  later("redisAddr", "REDIS_ADDR"),
  later("redisPassword", "REDIS_PASSWORD", "KVROCKS_PASSWORD"),
  later("tracingEnabled", "TRACING_ENABLED"),
  later("tracingServiceName", "TRACING_SERVICE_NAME", "OTEL_SERVICE_NAME"),
  later("tracingOtlpEndpoint", "TRACING_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"),
  later("tracingOtlpInsecure", "TRACING_OTLP_INSECURE", "OTEL_EXPORTER_OTLP_INSECURE"),
  later("tracingSampleRatio", "TRACING_SAMPLE_RATIO"),
  later("identityServiceApiKey", "IDENTITY_SERVICE_API_KEY"),
  later("subscriptionMinIntervalSeconds", "SUBSCRIPTION_MIN_INTERVAL_SECONDS"),
  later("subscriptionCleanupIntervalSeconds", "SUBSCRIPTION_CLEANUP_INTERVAL_SECONDS"),
  { name: "sharding.enabled", env: [], refuseWhenOn: `${alone} and use shards` },
  later("sharding.defaultShard"),
  later("sharding.commandMappings"),
  later("sharding.tenantOverrides"),
  later("sharding.backends"),
  { name: "cluster.enabled", env: ["CLUSTER_ENABLED"], refuseWhenOn: alone },
  later("cluster.selfId", "CLUSTER_SELF_ID"),
  later("cluster.grpcAddr", "CLUSTER_GRPC_ADDR"),
  later("cluster.nodes", "CLUSTER_NODES"),
  { name: "raft.enabled", env: ["RAFT_ENABLED"], refuseWhenOn: alone },
  later("raft.selfId", "RAFT_SELF_ID"),
  later("raft.bindAddr", "RAFT_BIND_ADDR"),
  later("raft.bootstrap", "RAFT_BOOTSTRAP"),
  later("raft.peers", "RAFT_PEERS"),
  later("raft.peerHTTPAddrs", "RAFT_PEER_HTTP_ADDRS"),
  later("raft.muxEnabled", "RAFT_MUX_ENABLED"),
  later("raft.heartbeatMS", "RAFT_HEARTBEAT_MS"),
  later("raft.electionMS", "RAFT_ELECTION_MS"),
  later("raft.leaderLeaseMS", "RAFT_LEADER_LEASE_MS"),
  later("raft.commitMS", "RAFT_COMMIT_MS"),
  later("raft.applyTimeoutSeconds", "RAFT_APPLY_TIMEOUT_SECONDS"),
  later("raft.topicCatalogProtocol", "RAFT_TOPIC_CATALOG_PROTOCOL"),
];
