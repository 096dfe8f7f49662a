/**
 * THE table of metrics: one row each, and everything else follows from it: the recorder that code
 * calls (`metrics.taskCreated.inc(command)`), its label types, the scrape and the manual page.
 * Users choose the commands, so at most `commandsMax` of them have their own series.
 */
import { type ErrorCode, errors } from "@codeq/protocol";
import { batchPhases, skipReasons, uniqueOutcomes } from "@codeq/queue";
import {
  type Counter,
  createSeries,
  type Gauge,
  type Histogram,
  type LabelValues,
  type MetricRow,
  OpenLabel,
  Spellings,
} from "./registry.ts";

/** Writes of tasks, by the names that the Go server has for them. */
export const storeOperations = ["task.save", "task.claim", "result.save"] as const;

export const streamKinds = ["producer", "worker"] as const;
/** The reasons for which streams end; `edge/grpc` documents them. */
export const streamEnds = [
  "ended",
  "cancelled",
  "crowded",
  "disconnected",
  "deadline",
  "bad_input",
  "slow_reader",
  "failed",
  "shutdown",
] as const;
export const streamRefusals = ["no_hello", "bad_token", "bad_worker_id", "too_many"] as const;
export const streamPauses = ["slow_reader", "unanswered"] as const;

const levelLabel = { name: "level", values: ["0", "1", "2", "3", "4", "5", "6"] } as const;
const streamKind = { name: "kind", values: streamKinds } as const;

type Written = Omit<MetricRow, "labels"> & Partial<Pick<MetricRow, "labels">>;
type WithLabels<R> = R extends { readonly labels: unknown } ? R : R & { readonly labels: [] };

/** The rows, of which most have no labels. */
function tableOf<const T extends Readonly<Record<string, Written>>>(
  rows: T,
): { readonly [K in keyof T]: WithLabels<T[K]> } {
  const filled = Object.entries(rows).map(([key, row]) => [key, { labels: [], ...row }]);
  return Object.fromEntries(filled);
}

export const metricTable = tableOf({
  taskCreated: {
    name: "codeq_task_created_total",
    type: "counter",
    help: "Tasks created, without repeated idempotency keys.",
    labels: [{ name: "command" }],
  },
  taskClaimed: {
    name: "codeq_task_claimed_total",
    type: "counter",
    help: "Tasks claimed by a worker.",
    labels: [{ name: "command" }],
  },
  taskCompleted: {
    name: "codeq_task_completed_total",
    type: "counter",
    help: "Tasks that ended: completed, or failed (dead letters included).",
    labels: [{ name: "command" }, { name: "status", values: ["COMPLETED", "FAILED"] }],
  },
  taskProcessingLatency: {
    name: "codeq_task_processing_latency_seconds",
    type: "histogram",
    help: "Time from the creation of a task to its end.",
    labels: [{ name: "command" }, { name: "status", values: ["COMPLETED", "FAILED"] }],
    buckets: [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600],
  },
  leaseExpired: {
    name: "codeq_lease_expired_total",
    type: "counter",
    help: "Leases that expired before the worker submitted a result.",
    labels: [{ name: "command" }],
  },
  taskTimedOut: {
    name: "codeq_task_timeout_total",
    type: "counter",
    help: "Attempts that ended because they took longer than the timeout of the task.",
    labels: [{ name: "command" }],
  },
  taskLapsed: {
    name: "codeq_task_expired_total",
    type: "counter",
    help: "Tasks that failed because no worker began them within their time to live.",
    labels: [{ name: "command" }],
  },
  scheduleFired: {
    name: "codeq_schedule_fired_total",
    type: "counter",
    help: "Tasks that schedules created at their nominal instants.",
    labels: [{ name: "command" }],
  },
  scheduleSkipped: {
    name: "codeq_schedule_skipped_total",
    type: "counter",
    help: "Nominal instants of schedules that became no task, by the reason.",
    labels: [{ name: "command" }, { name: "reason", values: skipReasons }],
  },
  scheduleLateness: {
    name: "codeq_schedule_lateness_seconds",
    type: "histogram",
    help: "How long after its time a task of a schedule was created.",
    buckets: [0.01, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 60, 600, 3600],
  },
  uniqueRequests: {
    name: "codeq_unique_requests_total",
    type: "counter",
    help: "Requests with a unique key: a task was created, or queued behind the running task with the key; the waiting task was replaced; the task with the key was returned; the request was refused.",
    labels: [{ name: "outcome", values: uniqueOutcomes }],
  },
  batches: {
    name: "codeq_batches_total",
    type: "counter",
    help: "Batches that became open, sealed, released, failed, cancelled or expired. A batch whose failed member is replayed is sealed again.",
    labels: [{ name: "phase", values: batchPhases }],
  },
  webhookDeliveries: {
    name: "codeq_webhook_deliveries_total",
    type: "counter",
    help: "Webhook deliveries; a webhook counts as failed once, after its last try.",
    labels: [
      { name: "kind", values: ["queue_ready", "task_result"] },
      { name: "command" },
      { name: "outcome", values: ["success", "failure"] },
    ],
  },
  rateLimitHits: {
    name: "codeq_rate_limit_hits_total",
    type: "counter",
    help: "Requests refused or delayed by a rate limit.",
    labels: [
      { name: "scope", values: ["producer", "worker", "admin", "webhook"] },
      {
        name: "operation",
        values: [
          ...(["create_task", "claim", "subscribe", "cleanup", "tasks"] as const),
          ...(["queue_ready", "task_result"] as const),
        ],
      },
    ],
  },
  rateLimitBuckets: {
    name: "codeq_rate_limit_buckets",
    type: "gauge",
    help: "Rate limit buckets in memory, of subjects, URLs and tenants.",
    labels: [{ name: "scope", values: ["producer", "worker", "admin", "webhook"] }],
  },
  quotaRefusals: {
    name: "codeq_quota_refusals_total",
    type: "counter",
    help: "Requests refused because a tenant reached its quota.",
    labels: [
      {
        name: "quota",
        values: [
          "pendingTasks",
          "storedBytes",
          "requestsPerSecond",
          "concurrentLeases",
          "queues",
          "lanes",
        ],
      },
    ],
  },
  queueDepth: {
    name: "codeq_queue_depth",
    type: "gauge",
    help: "Tasks per command and place, in all tenants.",
    labels: [
      { name: "command" },
      { name: "queue", values: ["ready", "delayed", "held", "in_progress", "dlq"] },
    ],
  },
  queueOldestSeconds: {
    name: "codeq_queue_oldest_seconds",
    type: "gauge",
    help: "Age of the next ready task, the maximum over priorities and tenants; absent until a restarted server has determined it.",
    labels: [{ name: "command" }],
    sameLabels: "largest",
  },
  queueLanes: {
    name: "codeq_queue_lanes",
    type: "gauge",
    help: "Lanes with ready tasks per command, in all tenants: those that claims may take from, and those that wait for a lease to end, for units, or for an operator.",
    labels: [{ name: "command" }, { name: "state", values: ["claimable", "waiting"] }],
  },
  dlqDepth: {
    name: "codeq_dlq_depth",
    type: "gauge",
    help: "Dead letters per command, in all tenants.",
    labels: [{ name: "command" }],
  },
  subscriptionsActive: {
    name: "codeq_subscriptions_active",
    type: "gauge",
    help: "Active subscriptions to availability notifications.",
    labels: [{ name: "command" }],
  },
  operationSeconds: {
    name: "codeq_operation_seconds",
    type: "histogram",
    help: "Duration of an operation including waiting; the outcome is ok, refused or failed.",
    labels: [{ name: "operation" }, { name: "outcome", values: ["ok", "refused", "failed"] }],
    buckets: [
      0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30,
    ],
  },
  accessRefusals: {
    name: "codeq_access_refusals_total",
    type: "counter",
    help: "Calls and streams refused by authentication or authorization, by error code.",
    labels: [{ name: "code", values: Object.keys(errors) as ErrorCode[] }],
  },
  httpRequests: {
    name: "codeq_http_requests_total",
    type: "counter",
    help: "HTTP requests, by route pattern.",
    labels: [{ name: "route" }, { name: "method" }, { name: "status" }],
  },
  httpAborted: {
    name: "codeq_http_aborted_total",
    type: "counter",
    help: "HTTP requests whose connection was closed before the whole request arrived.",
  },
  inFlightBytes: {
    name: "codeq_in_flight_bytes",
    type: "gauge",
    help: "Memory of bodies and stream messages that are not answered yet.",
  },
  inFlightCuts: {
    name: "codeq_in_flight_cuts_total",
    type: "counter",
    help: "Unfinished bodies and stream messages that were cut off to make room in memory.",
  },
  keySetFetches: {
    name: "codeq_jwks_fetches_total",
    type: "counter",
    help: "Fetches of the key sets of identity servers.",
    labels: [{ name: "outcome", values: ["success", "failure"] }],
  },
  connections: {
    name: "codeq_connections",
    type: "gauge",
    help: "Open connections.",
    labels: [{ name: "listener", values: ["http", "grpc"] }],
  },
  connectionsGivenUp: {
    name: "codeq_connections_given_up_total",
    type: "counter",
    help: "Idle connections closed because connectionsMax, or the limit for connections without a token, was reached.",
    labels: [{ name: "listener", values: ["http", "grpc"] }],
  },
  tlsCertificateExpirySeconds: {
    name: "codeq_tls_certificate_expiry_seconds",
    type: "gauge",
    help: "Time at which the TLS certificate expires, in seconds since 1970; absent without TLS.",
    isOptional: true,
  },
  waiters: {
    name: "codeq_waiters",
    type: "gauge",
    help: "Requests that wait: claims for a task, readers for a result.",
    labels: [{ name: "kind", values: ["claim", "result"] }],
  },
  streamConnectionsCut: {
    name: "codeq_stream_connections_cut_total",
    type: "counter",
    help: "gRPC connections closed because they sent mostly empty or control frames.",
  },
  streamsOpen: {
    name: "codeq_streams_open",
    type: "gauge",
    help: "Open streams, with or without a Hello.",
    labels: [streamKind],
  },
  streamsClosed: {
    name: "codeq_streams_closed_total",
    type: "counter",
    help: "Ended streams, by reason.",
    labels: [streamKind, { name: "reason", values: streamEnds }],
  },
  streamsRefused: {
    name: "codeq_streams_refused_total",
    type: "counter",
    help: "Streams refused instead of a HelloAck, by reason.",
    labels: [streamKind, { name: "reason", values: streamRefusals }],
  },
  streamMessages: {
    name: "codeq_stream_messages_total",
    type: "counter",
    help: "Messages on streams; a batch counts as one.",
    labels: [streamKind, { name: "direction", values: ["in", "out"] }],
  },
  streamPauses: {
    name: "codeq_stream_pauses_total",
    type: "counter",
    help: "Times that the server stopped reading from a stream: the client did not read, or had too many unanswered messages.",
    labels: [streamKind, { name: "cause", values: streamPauses }],
  },
  pendingReadys: {
    name: "codeq_held_readys",
    type: "gauge",
    help: "Readys of worker streams that wait for a task.",
  },
  feedsOpen: {
    name: "codeq_feeds_open",
    type: "gauge",
    help: "Open event feeds.",
  },
  feedEvents: {
    name: "codeq_feed_events_total",
    type: "counter",
    help: "Events for open feeds: sent, or missed because the reader was too slow.",
    labels: [{ name: "outcome", values: ["sent", "missed"] }],
  },
  readyWindowEntries: {
    name: "codeq_ready_window_entries",
    type: "gauge",
    help: "Ready tasks that are held in memory.",
  },
  storeOperationSeconds: {
    name: "codeq_store_operation_seconds",
    type: "histogram",
    help: "Time in the broker and the engine, until a write of a task is durable; waiting claims are not part of it.",
    labels: [{ name: "operation", values: storeOperations }],
    buckets: [
      0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
      2.5, 5,
    ],
  },
  commitGroupBatches: {
    name: "codeq_commit_group_batches",
    type: "histogram",
    help: "Changes that shared one append to the log.",
    buckets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024],
  },
  commitGroupBytes: {
    name: "codeq_commit_group_bytes",
    type: "histogram",
    help: "Size of one append to the log.",
    buckets: [256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304],
  },
  logAppendSeconds: {
    name: "codeq_log_append_seconds",
    type: "histogram",
    help: "Time to write one record to the log.",
    buckets: [
      0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
      2.5, 5,
    ],
  },
  logSyncSeconds: {
    name: "codeq_log_sync_seconds",
    type: "histogram",
    help: "Time to make written records durable.",
    buckets: [
      0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
      2.5, 5,
    ],
  },
  logBytes: {
    name: "codeq_log_bytes",
    type: "gauge",
    help: "Size of the commit log on disk.",
  },
  overlayEntries: {
    name: "codeq_overlay_entries",
    type: "gauge",
    help: "Keys that are in the log and not yet in the store.",
  },
  overlayBytes: {
    name: "codeq_overlay_bytes",
    type: "gauge",
    help: "Memory of the keys and values that are not yet in the store.",
  },
  flushLagRecords: {
    name: "codeq_flush_lag_records",
    type: "gauge",
    help: "Log records that a restart would have to replay.",
  },
  flushSeconds: {
    name: "codeq_flush_seconds",
    type: "histogram",
    help: "Duration of one flush of changes to the store.",
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
  },
  flushEntries: {
    name: "codeq_flush_entries",
    type: "histogram",
    help: "Keys written to the store by one flush.",
    buckets: [1, 10, 100, 1000, 10_000, 100_000, 1_000_000],
  },
  lsmLevelFiles: {
    name: "codeq_lsm_level_files",
    type: "gauge",
    help: "Files per level of the store.",
    labels: [levelLabel],
  },
  lsmLevelBytes: {
    name: "codeq_lsm_level_bytes",
    type: "gauge",
    help: "Size per level of the store.",
    labels: [levelLabel],
  },
  lsmMemoryBytes: {
    name: "codeq_lsm_memory_bytes",
    type: "gauge",
    help: "Memory of the store: write buffers and block cache, which LevelDB reports as one number. What codeq_lsm_buffer_bytes does not explain is the cache, to about a tenth.",
  },
  lsmBufferBytes: {
    name: "codeq_lsm_buffer_bytes",
    type: "gauge",
    help: "Size of the write buffers (memtables) of the store: what LevelDB has in its own log and not yet in a table.",
  },
  lsmOwnLogBytes: {
    name: "codeq_lsm_own_log_bytes_total",
    type: "counter",
    help: "Bytes that LevelDB wrote to its own log, besides the commit log.",
  },
  lsmStalls: {
    name: "codeq_lsm_stalls_total",
    type: "counter",
    help: "Times that LevelDB let a write wait, because both write buffers were full or level 0 had 12 files. The delay of 1 ms for each write from eight files on is not counted; it shows in codeq_flush_seconds.",
  },
  lsmCacheBytesMax: {
    name: "codeq_lsm_cache_max_bytes",
    type: "gauge",
    help: "Maximum size of the block cache of the store (lsmCacheBytes); LevelDB does not report cache hits.",
  },
  lsmReadAmplification: {
    name: "codeq_lsm_read_amplification",
    type: "gauge",
    help: "Maximum number of files for a read of one key: all files of level 0, and one of each other level with files.",
  },
  lsmCompactionBacklogBytes: {
    name: "codeq_lsm_compaction_backlog_bytes",
    type: "gauge",
    help: "Bytes that compactions still have to move until no level is too large, in whole mebibytes: level 0 from its fourth file on, other levels above 10 MiB times ten per level.",
  },
  lsmCompactionSeconds: {
    name: "codeq_lsm_compaction_seconds_total",
    type: "counter",
    help: "Time that compactions into this level took.",
    labels: [levelLabel],
  },
  lsmCompactionReadBytes: {
    name: "codeq_lsm_compaction_read_bytes_total",
    type: "counter",
    help: "Bytes that compactions into this level have read, in whole mebibytes.",
    labels: [levelLabel],
  },
  lsmCompactionWriteBytes: {
    name: "codeq_lsm_compaction_write_bytes_total",
    type: "counter",
    help: "Bytes that compactions have written to this level, in whole mebibytes; for level 0, the tables made of write buffers.",
    labels: [levelLabel],
  },
  writeAmplification: {
    name: "codeq_write_amplification",
    type: "gauge",
    help: "Bytes written to the commit log, LevelDB's own log and tables per byte appended to the commit log, since the start; without headers of log records and the manifest.",
  },
  clusterLeading: {
    name: "codeq_cluster_shards_leading",
    type: "gauge",
    help: "Shards that this node of a cluster leads.",
    isOptional: true,
  },
  clusterLeaderless: {
    name: "codeq_cluster_shards_without_leader",
    type: "gauge",
    help: "Shards of a cluster, and the control log, of which this node knows no leader.",
    isOptional: true,
  },
  clusterDiverged: {
    name: "codeq_cluster_shards_diverged",
    type: "gauge",
    help: "Shards, and the control log, that this node has stopped to follow, because the log is not the one that it read.",
    isOptional: true,
  },
  clusterProblems: {
    name: "codeq_cluster_shards_with_problems",
    type: "gauge",
    help: "Shards, and the control log, with which this node has a problem, such as log servers that do not answer or a wrong clock; codeq cluster status says which.",
    isOptional: true,
  },
  clusterEpochs: {
    name: "codeq_cluster_epochs",
    type: "gauge",
    help: "Takeovers of all shards since the cluster was made; it grows when a leader changes.",
    isOptional: true,
  },
  clusterSilentSeconds: {
    name: "codeq_cluster_silent_seconds",
    type: "gauge",
    help: "How long nothing was heard of the leader of a shard that this node follows; the longest.",
    isOptional: true,
  },
  clusterNodesDown: {
    name: "codeq_cluster_nodes_down",
    type: "gauge",
    help: "Nodes of the cluster that do not answer this node.",
    isOptional: true,
  },
  clusterLogServersDown: {
    name: "codeq_cluster_log_servers_down",
    type: "gauge",
    help: "Log servers that do not answer this node, do not vote yet, or report a problem such as a full disk; codeq cluster status says which.",
    isOptional: true,
  },
  writeStalls: {
    name: "codeq_write_stalls_total",
    type: "counter",
    help: "Times that commits waited because unflushed changes reached four times flushBytes.",
  },
  writeStallSeconds: {
    name: "codeq_write_stall_seconds_total",
    type: "counter",
    help: "Time that commits waited because the store did not keep up. Stalls inside LevelDB are codeq_lsm_stalls_total.",
  },
  quarantinedRecords: {
    name: "codeq_quarantined_records_total",
    type: "counter",
    help: "Stored records that could not be decoded and are in quarantine.",
  },
  storageState: {
    name: "codeq_storage_state",
    type: "gauge",
    help: "1 for the current state of the storage, 0 for the other states.",
    labels: [{ name: "state", values: ["ok", "disk_full", "failed"] }],
  },
  spans: {
    name: "codeq_spans_total",
    type: "counter",
    help: "Spans for the trace collector: exported, or lost because the collector did not accept them.",
    labels: [{ name: "outcome", values: ["exported", "lost"] }],
  },
  eventLoopLagSeconds: {
    name: "codeq_event_loop_lag_seconds",
    type: "gauge",
    help: "Delay of the event loop since the last scrape, 99th percentile.",
  },
  processResidentMemoryBytes: {
    name: "process_resident_memory_bytes",
    type: "gauge",
    help: "Resident memory of the process.",
  },
  processCpuSeconds: {
    name: "process_cpu_seconds_total",
    type: "counter",
    help: "User and system CPU time of the process.",
  },
  processStartTimeSeconds: {
    name: "process_start_time_seconds",
    type: "gauge",
    help: "Start of the process, in seconds since 1970.",
  },
  heapUsedBytes: {
    name: "nodejs_heap_size_used_bytes",
    type: "gauge",
    help: "JavaScript heap in use.",
  },
});

type MetricTable = typeof metricTable;

type RecorderOf<R extends MetricRow> = R["type"] extends "counter"
  ? Counter<LabelValues<R["labels"]>>
  : R["type"] extends "gauge"
    ? Gauge<LabelValues<R["labels"]>>
    : Histogram<LabelValues<R["labels"]>>;

export type Metrics = { readonly [K in keyof MetricTable]: RecorderOf<MetricTable[K]> } & {
  /** The whole scrape, in the text format 0.0.4. */
  readonly render: () => string;
  /** The spelling of commands in labels; recorders are called with names of queues. */
  readonly spellings: Spellings;
};

export const metricsContentType = "text/plain; version=0.0.4; charset=utf-8";

/** Metrics of which the largest value counts when series are merged. */
export const largestMetrics: ReadonlySet<string> = new Set(
  (Object.values(metricTable) as MetricRow[])
    .filter(({ sameLabels }) => sameLabels === "largest")
    .map(({ name }) => name),
);

/** Values that an open label other than `command` may have: routes, methods, statuses, operations. */
const openValuesMax = 128;

export function createMetrics(options: { readonly commandsMax: number }): Metrics {
  const open = new Map<string, OpenLabel>();
  const openLabel = (name: string): OpenLabel => {
    const max = name === "command" ? options.commandsMax : openValuesMax;
    const label = open.get(name) ?? new OpenLabel(max);
    open.set(name, label);
    return label;
  };
  const spellings = new Spellings(options.commandsMax);
  const rows: [string, MetricRow][] = Object.entries(metricTable);
  const all = rows.map(([key, row]) => {
    const admits = row.labels.map((label) => {
      if (label.values !== undefined) return (value: string) => value;
      const shared = openLabel(label.name);
      return (value: string) => shared.admit(value);
    });
    return { key, row, series: createSeries(row, admits, spellings) };
  });
  const render = (): string =>
    all
      .flatMap(({ row, series }) => [
        `# HELP ${row.name} ${row.help}`,
        `# TYPE ${row.name} ${row.type}`,
        ...series.lines(),
      ])
      .join("\n")
      .concat("\n");
  // The table's types decide which recorder each row has; `createSeries` makes it from the same row.
  const recorders = Object.fromEntries(all.map(({ key, series }) => [key, series.recordable]));
  return { ...recorders, render, spellings } as unknown as Metrics;
}
