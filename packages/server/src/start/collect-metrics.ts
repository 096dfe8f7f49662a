/** Reads the values of broker, engine, limiter, streams, listeners and process at each scrape. */
import { createHistogram } from "node:perf_hooks";
import type { EngineState } from "@codeq/engine";
import { batchPhases, queueOf, uniqueOutcomes } from "@codeq/queue";
import type { FastifyInstance } from "fastify";
import type { ClusterHealth, ClusterStatus } from "../cluster/cluster-node.ts";
import type { LogStatus } from "../cluster/node-log.ts";
import { rateScopes } from "../config/rate-limit-settings.ts";
import type { ShardBroker } from "../core/broker/shard-broker.ts";
import { type Clock, untilSharedMs } from "../core/clock.ts";
import type { Limiter } from "../core/limiter/limiter.ts";
import type { Store } from "../core/store/store.ts";
import { timeOfId } from "../core/task-ids.ts";
import type { ServerTls } from "../edge/tls/server-tls.ts";
import type { Subscriptions } from "../features/subscriptions/subscriptions.ts";
import type { Streams } from "../features/tasks/streams/streams.ts";
import { type Metrics, streamKinds } from "../telemetry/metrics.ts";

/** The states as the metric names them; a closed storage has no scrape. */
const stateNames = { open: "ok", full: "disk_full", failed: "failed", closed: "failed" } as const;

/** The metrics of a node of a cluster. `health` is undefined before the first scrape. */
export function collectClusterMetrics(
  metrics: Metrics,
  {
    status,
    health,
  }: {
    readonly status: () => ClusterStatus;
    readonly health: () => ClusterHealth | undefined;
  },
): void {
  const shards = (): ClusterStatus["shards"] => status().shards;
  const countOf = (isMeant: (log: LogStatus) => boolean): number =>
    [...shards(), status().control].filter(isMeant).length;
  metrics.clusterLeading.collect(() => {
    return [[shards().filter(({ role }) => role === "leading").length]];
  });
  metrics.clusterLeaderless.collect(() => [[countOf(({ leader }) => leader === undefined)]]);
  metrics.clusterDiverged.collect(() => [[countOf(({ role }) => role === "diverged")]]);
  metrics.clusterProblems.collect(() => [[countOf(({ problem }) => problem !== undefined)]]);
  metrics.clusterEpochs.collect(() => [[shards().reduce((sum, { epoch }) => sum + epoch, 0)]]);
  metrics.clusterSilentSeconds.collect(() => {
    return [[Math.max(0, ...shards().map(({ silentMs }) => silentMs)) / 1000]];
  });
  metrics.clusterNodesDown.collect(() => {
    return [[(health()?.nodes ?? []).filter(({ isUp }) => !isUp).length]];
  });
  metrics.clusterLogServersDown.collect(() => {
    return [[(health()?.logServers ?? []).filter((server) => !isServing(server)).length]];
  });
}

/** Whether a log server counts for a majority, and has room. */
function isServing({ health, isLearner }: ClusterHealth["logServers"][number]): boolean {
  return health !== undefined && !isLearner && health.problems.length === 0;
}

/** `appendedBytes` is what went into the log since the start. */
export function collectStoreMetrics(
  metrics: Metrics,
  store: Store,
  appendedBytes: () => number,
): void {
  const stats = (): ReturnType<Store["stats"]> => store.stats();
  metrics.overlayEntries.collect(() => [[stats().overlayEntries]]);
  metrics.overlayBytes.collect(() => [[stats().overlayBytes]]);
  metrics.flushLagRecords.collect(() => {
    const { durableIndex, flushedIndex } = stats();
    return [[durableIndex - flushedIndex]];
  });
  metrics.logBytes.collect(() => [[stats().logBytes]]);
  metrics.lsmLevelFiles.collect(() => perLevel(store, ({ files }) => files));
  metrics.lsmLevelBytes.collect(() => perLevel(store, ({ bytes }) => bytes));
  metrics.lsmMemoryBytes.collect(() => [[stats().kv.memoryBytes]]);
  metrics.lsmCacheBytesMax.collect(() => [[stats().kv.cacheBytesMax]]);
  metrics.lsmReadAmplification.collect(() => [[stats().kv.readAmplification]]);
  metrics.lsmCompactionBacklogBytes.collect(() => [[stats().kv.compactionBacklogBytes]]);
  metrics.writeStalls.collect(() => [[stats().writeStalls]]);
  metrics.writeStallSeconds.collect(() => [[stats().writeStallSeconds]]);
  metrics.lsmBufferBytes.collect(() => [[stats().kv.bufferBytes]]);
  metrics.lsmOwnLogBytes.collect(() => [[stats().kv.ownLogBytes]]);
  metrics.lsmStalls.collect(() => [[stats().kv.stalls]]);
  metrics.lsmCompactionSeconds.collect(() => perLevel(store, ({ seconds }) => seconds));
  metrics.lsmCompactionReadBytes.collect(() => perLevel(store, ({ readBytes }) => readBytes));
  metrics.lsmCompactionWriteBytes.collect(() => perLevel(store, ({ writeBytes }) => writeBytes));
  metrics.writeAmplification.collect(() => {
    const appended = appendedBytes();
    const { ownLogBytes, levels } = stats().kv;
    const written = levels.reduce((sum, { writeBytes }) => sum + writeBytes, ownLogBytes);
    return [[appended === 0 ? 1 : 1 + written / appended]];
  });
  metrics.storageState.collect(() => {
    const current = stateNames[store.state satisfies EngineState];
    return (["ok", "disk_full", "failed"] as const).map((state) => [
      Number(state === current),
      state,
    ]);
  });
}

type Level = "0" | "1" | "2" | "3" | "4" | "5" | "6";

function perLevel(
  store: Store,
  pick: (level: ReturnType<Store["stats"]>["kv"]["levels"][number]) => number,
): [number, Level][] {
  return store.stats().kv.levels.map((level, index) => [pick(level), String(index) as Level]);
}

export function collectBrokerMetrics(metrics: Metrics, broker: ShardBroker, clock: Clock): void {
  metrics.queueDepth.collect(() =>
    [...broker.queues.all()].flatMap(({ name, counts, readyTotal }) => [
      [readyTotal, name, "ready"] as const,
      [counts.delayed, name, "delayed"] as const,
      ...(counts.held === 0 ? [] : [[counts.held, name, "held"] as const]),
      [counts.leased, name, "in_progress"] as const,
      [counts.dead, name, "dlq"] as const,
    ]),
  );
  metrics.queueOldestSeconds.collect(() => {
    const nowMs = clock.nowMs();
    return [...broker.queues.all()].flatMap((queue) =>
      Array.from(
        queue.heads(),
        (id) => [Math.max(0, nowMs - timeOfId(id)) / 1000, queue.name] as const,
      ),
    );
  });
  metrics.queueLanes.collect(() =>
    [...broker.queues.all()].flatMap(({ name, lanes }) => {
      if (lanes === undefined) return [];
      const { claimable, waiting } = lanes.states;
      return [[claimable, name, "claimable"] as const, [waiting, name, "waiting"] as const];
    }),
  );
  metrics.dlqDepth.collect(() =>
    [...broker.queues.all()].map(({ name, counts }) => [counts.dead, name]),
  );
  metrics.waiters.collect(() => [
    [broker.claims.waiting.size, "claim"],
    [broker.results.size, "result"],
  ]);
  metrics.batches.collect(() => batchPhases.map((phase) => [broker.batches.became[phase], phase]));
  metrics.uniqueRequests.collect(() =>
    uniqueOutcomes.map((outcome) => [broker.uniqueRequests[outcome], outcome]),
  );
  metrics.readyWindowEntries.collect(() => [[broker.queues.windowEntries]]);
  metrics.quarantinedRecords.collect(() => [[broker.store.quarantined]]);
}

export function collectStreamMetrics(metrics: Metrics, streams: Streams): void {
  const { counts } = streams;
  metrics.streamConnectionsCut.collect(() => [[streams.connectionsCut]]);
  metrics.streamsOpen.collect(() => streamKinds.map((kind) => [counts[kind].open, kind]));
  metrics.streamsClosed.collect(() =>
    streamKinds.flatMap((kind) => entries(counts[kind].closed, kind)),
  );
  metrics.streamsRefused.collect(() =>
    streamKinds.flatMap((kind) => entries(counts[kind].refused, kind)),
  );
  metrics.streamMessages.collect(() =>
    streamKinds.flatMap((kind) => [
      [counts[kind].messagesIn, kind, "in"] as const,
      [counts[kind].messagesOut, kind, "out"] as const,
    ]),
  );
  metrics.streamPauses.collect(() =>
    streamKinds.flatMap((kind) => entries(counts[kind].pauses, kind)),
  );
  metrics.pendingReadys.collect(() => [[counts.worker.pendingReadys]]);
}

function entries<Kind extends string, Name extends string>(
  counts: Readonly<Record<Name, number>>,
  kind: Kind,
): (readonly [number, Kind, Name])[] {
  return Object.entries<number>(counts).map(([name, count]) => [count, kind, name as Name]);
}

export function collectConnectionMetrics(
  metrics: Metrics,
  parts: {
    readonly http: FastifyInstance;
    readonly streams: Streams;
    readonly tls: ServerTls | undefined;
  },
): void {
  const { http, streams, tls } = parts;
  metrics.connections.collect(() => [
    [http.connections.size, "http"],
    [streams.connections, "grpc"],
  ]);
  metrics.connectionsGivenUp.collect(() => [
    [http.connections.givenUp, "http"],
    [streams.connectionsGivenUp, "grpc"],
  ]);
  if (tls === undefined) return;
  metrics.tlsCertificateExpirySeconds.collect(() => [[tls.certificates.validToMs / 1000]]);
}

/** A subscription to every queue counts under `*`. */
export function collectSubscriptionMetrics(metrics: Metrics, subscriptions: Subscriptions): void {
  metrics.subscriptionsActive.collect(() => {
    const counts = new Map<string, number>();
    for (const { subscription } of subscriptions.active()) {
      for (const type of subscription.eventTypes) {
        const queue = queueOf(type);
        counts.set(queue, (counts.get(queue) ?? 0) + 1);
      }
    }
    return [...counts].map(([queue, count]) => [count, queue] as const);
  });
}

export function collectLimiterMetrics(metrics: Metrics, limiter: Limiter): void {
  metrics.rateLimitBuckets.collect(() =>
    rateScopes.map((scope) => [limiter.bucketsOf(scope), scope]),
  );
}

export interface ProcessProbe {
  readonly startedAtMs: number;
  readonly memory: () => { readonly rss: number; readonly heapUsed: number };
  readonly cpuSeconds: () => number;
  /** Lateness of the event loop since the last call, 99th percentile. */
  readonly lagSeconds: () => number;
}

export function collectProcessMetrics(metrics: Metrics, probe: ProcessProbe): void {
  metrics.processResidentMemoryBytes.collect(() => [[probe.memory().rss]]);
  metrics.heapUsedBytes.collect(() => [[probe.memory().heapUsed]]);
  metrics.processCpuSeconds.collect(() => [[probe.cpuSeconds()]]);
  metrics.processStartTimeSeconds.collect(() => [[probe.startedAtMs / 1000]]);
  metrics.eventLoopLagSeconds.collect(() => [[probe.lagSeconds()]]);
}

/** How often the lateness of the event loop is measured while it works, and while it rests. */
const sampleMs = { busy: 20, idle: 1000 };
const idleShareMax = 0.05;
const nanosPerSecond = 1e9;

/** The probe of this process. It holds a timer until it is disposed of. */
export function openProcessProbe(clock: Clock): ProcessProbe & Disposable {
  const { after, nowMs } = clock;
  const late = createHistogram();
  let loop = performance.eventLoopUtilization();
  let cancel = (): void => {};
  const sample = (waitMs: number): void => {
    const dueMs = performance.now() + waitMs;
    cancel = after(waitMs, () => {
      // A histogram begins with 1.
      late.record(Math.max(1, Math.round((performance.now() - dueMs) * 1e6)));
      const { utilization } = performance.eventLoopUtilization(loop);
      loop = performance.eventLoopUtilization();
      sample(utilization > idleShareMax ? sampleMs.busy : untilSharedMs(clock, sampleMs.idle));
    });
  };
  sample(sampleMs.busy);
  const startedAtMs = nowMs();
  return {
    startedAtMs,
    memory: () => process.memoryUsage(),
    cpuSeconds: () => {
      const { user, system } = process.cpuUsage();
      return (user + system) / 1e6;
    },
    lagSeconds: () => {
      const lateNanos = late.count === 0 ? 0 : late.percentile(99);
      late.reset();
      return lateNanos / nanosPerSecond;
    },
    [Symbol.dispose]: () => cancel(),
  };
}
