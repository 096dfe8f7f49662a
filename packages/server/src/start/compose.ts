/**
 * The only place that builds everything. `composeCore` is the server without its edges: it runs the
 * same on real files and clocks and inside a simulation. `composeHttp` and
 * `composeStreams` put the transports around it.
 */
import { type EngineState, FaultError } from "@codeq/engine";
import type { FastifyInstance } from "fastify";
import { ApiKeys } from "../access/api-keys.ts";
import { AuditTrail } from "../access/audit-trail.ts";
import { Authenticator } from "../access/authenticator.ts";
import type { FetchKeySet } from "../access/fetch-key-set.ts";
import type { KeySet } from "../access/key-set.ts";
import { Limiter } from "../access/limiter.ts";
import { Providers } from "../access/providers.ts";
import { Revocations } from "../access/revocations.ts";
import { Broker } from "../broker/broker.ts";
import { ToldChanges } from "../broker/told-changes.ts";
import type { Clock } from "../clock.ts";
import type { Config } from "../config/settings.ts";
import { collectArtifacts } from "../maintenance/collect-artifacts.ts";
import { deleteOldAudit } from "../maintenance/delete-old-audit.ts";
import { DeleteOldTasks } from "../maintenance/delete-old-tasks.ts";
import { DeliverWebhooks, type PostCallback } from "../maintenance/deliver-webhooks.ts";
import { expireLeases } from "../maintenance/expire-leases.ts";
import { promoteDueTasks } from "../maintenance/promote-due-tasks.ts";
import { refreshKeySets } from "../maintenance/refresh-key-sets.ts";
import { scrubStore } from "../maintenance/scrub-store.ts";
import { Ticker } from "../maintenance/ticker.ts";
import { writeApiKeyUses } from "../maintenance/write-api-key-uses.ts";
import { writeAudit } from "../maintenance/write-audit.ts";
import { ConnectedWorkers } from "../operations/connected-workers.ts";
import { Dispatch } from "../operations/dispatch.ts";
import { ArtifactFiles } from "../store/artifact-files.ts";
import { Store } from "../store/store.ts";
import { type RandomBytes, TaskIds } from "../task-ids.ts";
import { Events } from "../telemetry/events.ts";
import { Feed } from "../telemetry/feed.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { Timestamps } from "../timestamps.ts";
import type { Endpoints } from "../transport/endpoints.ts";
import { StreamSlots } from "../transport/grpc/stream-slots.ts";
import { createStreams, type Streams } from "../transport/grpc/streams.ts";
import { healthPages } from "../transport/http/health.ts";
import { createHttpServer } from "../transport/http/http-server.ts";
import { JsonCodec } from "../transport/http/json-codec.ts";
import type { ServerTls } from "../transport/tls/server-tls.ts";
import {
  collectBrokerMetrics,
  collectLimiterMetrics,
  collectStoreMetrics,
  collectStreamMetrics,
} from "./collect-metrics.ts";
import type { Storage } from "./open-data-dir.ts";

export interface CoreParts {
  readonly config: Config;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly storage: Storage;
  readonly randomBytes: RandomBytes;
  /** Uniform in [0, 1). */
  readonly draw: () => number;
  readonly post: PostCallback;
  readonly fetchKeySet: FetchKeySet;
  /** Runs a function after what arrived in the same turn. */
  readonly defer: (run: () => void) => void;
  /** The storage failed for good: nothing is acknowledged any more. */
  readonly onFailed: (fault: FaultError) => void;
  /** Smaller in a simulation, whose few tasks would never reach them. */
  readonly memory?: MemoryLimits;
  /** How long maintenance may sleep; without a limit where the wall clock is never set. */
  readonly sleepMsMax?: number;
}

export interface MemoryLimits {
  readonly flushBytes: number;
  readonly delayedInMemoryMax: number;
}

type StorageWatcher = (state: EngineState) => void;

export interface Core extends AsyncDisposable {
  readonly store: Store;
  /** Calls back whenever the storage begins or ceases to accept writes. */
  readonly onStorageState: (run: StorageWatcher) => void;
  readonly broker: Broker;
  readonly feed: Feed;
  readonly workers: ConnectedWorkers;
  readonly dispatch: Dispatch;
  readonly authenticator: Authenticator;
  readonly revocations: Revocations;
}

const memoryLimits: MemoryLimits = {
  /** Small windows stay in the processor's caches and are flushed without a pause. */
  flushBytes: 6 * 1024 * 1024,
  delayedInMemoryMax: 100_000,
};
/** How long a shutdown waits for callbacks under way; what is cut off is sent again after it. */
const webhookSettleMs = 1000;

export async function composeCore(parts: CoreParts): Promise<Core> {
  const { config, clock, logger, metrics } = parts;
  const watchers: StorageWatcher[] = [];
  const store = await openStore(parts, watchers);
  if (config.shards !== 1) {
    await store[Symbol.asyncDispose]();
    throw new FaultError("format", "this version runs one shard; set shards to 1");
  }
  const feed = new Feed();
  const events = new Events(metrics);
  const told = new ToldChanges({ events, feed });
  const broker = await openBroker(parts, store, told);
  collectBrokerMetrics(metrics, broker, clock);
  metrics.feedsOpen.collect(() => [[feed.size]]);
  const artifacts = new ArtifactFiles(config.localArtifactsDir);
  const revocations = new Revocations();
  const { fetchKeySet, randomBytes } = parts;
  const apiKeys = await ApiKeys.open({ store, clock, revocations, randomBytes });
  const audit = new AuditTrail({
    store,
    clock,
    logger,
    randomBytes,
    retentionMs: config.auditRetentionSeconds * 1000,
  });
  const workers = new ConnectedWorkers(clock);
  const server = { broker, clock, events, feed, workers, artifacts, apiKeys, audit, config };
  const providers = new Providers({ fetchKeySet, revocations, clock, logger, metrics });
  const authenticator = new Authenticator({
    producers: [apiKeys, ...providers.of(config.producerAuth)],
    workers: [apiKeys, ...providers.of(config.workerAuth)],
    allowProducerAsWorker: config.allowProducerAsWorker,
    revocations,
    clock,
  });
  const limiter = new Limiter(config, clock);
  collectLimiterMetrics(metrics, limiter);
  const dispatch = new Dispatch({ server, authenticator, limiter, logger });
  const { keySets } = providers;
  const forMaintenance = { broker, told, events, artifacts, keySets, apiKeys, audit, limiter };
  const { ticker, webhooks } = startMaintenance({ ...parts, ...forMaintenance });
  return {
    store,
    onStorageState: (run) => void watchers.push(run),
    broker,
    feed,
    workers,
    dispatch,
    authenticator,
    revocations,
    [Symbol.asyncDispose]: async () => {
      dispatch.stopAccepting();
      providers[Symbol.dispose]();
      broker.stopWaiting();
      await ticker[Symbol.asyncDispose]();
      await apiKeys[Symbol.asyncDispose]();
      await audit[Symbol.asyncDispose]();
      await within(clock, webhookSettleMs, webhooks.settle());
      await store[Symbol.asyncDispose]();
    },
  };
}

function openBroker(parts: CoreParts, store: Store, told: ToldChanges): Promise<Broker> {
  const { config, clock, draw, memory = memoryLimits } = parts;
  return Broker.open({
    store,
    clock,
    ids: new TaskIds(parts.randomBytes),
    draw,
    policy: {
      backoff: config.backoffPolicy,
      baseSeconds: config.backoffBaseSeconds,
      maxSeconds: config.backoffMaxSeconds,
    },
    retention: {
      doneMs: config.retentionSeconds * 1000,
      deadMs: config.dlqRetentionSeconds * 1000,
    },
    delayedInMemoryMax: memory.delayedInMemoryMax,
    quotas: config.quotas,
    observe: (change) => told.tell(change),
  });
}

/** Waits, but no longer than the given time. */
async function within(clock: Clock, ms: number, settled: Promise<void>): Promise<void> {
  let cancel = (): void => {};
  const timeout = new Promise<void>((resolve) => {
    cancel = clock.after(ms, resolve);
  });
  await Promise.race([settled, timeout]);
  cancel();
}

export type StoreParts = Pick<
  CoreParts,
  "config" | "clock" | "logger" | "metrics" | "storage" | "defer" | "onFailed" | "memory"
>;

export async function openStore(
  parts: StoreParts,
  watchers: readonly StorageWatcher[] = [],
): Promise<Store> {
  const { config, clock, logger, metrics, storage } = parts;
  let appendedBytes = 0;
  const store = await Store.open({
    ...storage,
    clock,
    shards: config.shards,
    defer: parts.defer,
    minFreeBytes: config.minFreeDiskBytes,
    flushBytes: (parts.memory ?? memoryLimits).flushBytes,
    syncIntervalMs: config.durability === "interval" ? config.syncIntervalMs : undefined,
    observer: {
      grouped: (batches, bytes) => {
        appendedBytes += bytes;
        metrics.commitGroupBatches.observe(batches);
        metrics.commitGroupBytes.observe(bytes);
      },
      flushed: (seconds, entries) => {
        metrics.flushSeconds.observe(seconds);
        metrics.flushEntries.observe(entries);
      },
      stateChanged: (state: EngineState, fault) => {
        const fields = { state, error: fault?.message, cause: String(fault?.cause ?? "") };
        if (state === "open") logger.info("storage accepts writes again", { state });
        else logger.error("storage refuses writes", fields);
        // Before the process may end.
        for (const tell of watchers) tell(state);
        if (state === "failed" && fault !== undefined) parts.onFailed(fault);
      },
    },
  });
  collectStoreMetrics(metrics, store, () => appendedBytes);
  return store;
}

interface MaintenanceParts extends CoreParts {
  readonly broker: Broker;
  readonly told: ToldChanges;
  readonly events: Events;
  readonly artifacts: ArtifactFiles;
  readonly keySets: readonly KeySet[];
  readonly apiKeys: ApiKeys;
  readonly limiter: Limiter;
  readonly audit: AuditTrail;
}

function startMaintenance(parts: MaintenanceParts): { ticker: Ticker; webhooks: DeliverWebhooks } {
  const { broker, told, clock, logger, keySets, apiKeys, audit, sleepMsMax } = parts;
  const deletion = new DeleteOldTasks(parts);
  const webhooks = new DeliverWebhooks(parts);
  const ofTasks = [expireLeases(parts), promoteDueTasks(parts), deletion, webhooks];
  const ofKeys = [refreshKeySets(keySets), writeApiKeyUses(apiKeys)];
  const ofAudit = [writeAudit(audit), deleteOldAudit(audit)];
  const ofStore = [scrubStore({ store: broker.store, clock, logger }), collectArtifacts(parts)];
  const jobs = [...ofTasks, ...ofKeys, ...ofAudit, ...ofStore];
  const ticker = new Ticker({ clock, logger, jobs, sleepMsMax });
  const wake = (): void => ticker.wake();
  broker.leases.onDue = wake;
  broker.delayed.onDue = wake;
  told.onEnd = (expiresMs) => {
    if (expiresMs !== undefined && deletion.plan(expiresMs)) wake();
  };
  told.onWebhook = (dueMs) => {
    webhooks.plan(dueMs);
    wake();
  };
  webhooks.onIdle = wake;
  for (const each of keySets) each.onPlanned = wake;
  apiKeys.onUsed = wake;
  audit.onPlanned = wake;
  wake();
  return { ticker, webhooks };
}

/** The streams of all gRPC listeners. */
export function composeStreams(parts: {
  readonly core: Core;
  readonly config: Config;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly endpoints: Endpoints;
  readonly tls?: ServerTls | undefined;
}): Streams {
  const { core, config, logger, clock, tls } = parts;
  const { instance } = parts.endpoints;
  const { store, dispatch, authenticator, workers } = core;
  const { claimBatchMax } = config;
  const slots = new StreamSlots(config.streamsMax);
  const session = {
    store,
    dispatch,
    authenticator,
    workers,
    slots,
    claimBatchMax,
    instance,
    logger,
    clock,
  };
  const streams = createStreams({ ...session, limits: config, tls });
  collectStreamMetrics(parts.metrics, streams);
  core.onStorageState((state) => streams.setServing(state === "open"));
  return streams;
}

export interface HttpParts {
  readonly core: Core;
  readonly config: Config;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly timestamps: Timestamps;
  readonly clock: Clock;
  readonly tls?: ServerTls | undefined;
  readonly endpoints: Endpoints;
}

export function composeHttp(parts: HttpParts): FastifyInstance {
  const { core, config, logger, metrics, timestamps, clock, endpoints } = parts;
  const http = createHttpServer({
    dispatch: core.dispatch,
    authenticator: core.authenticator,
    codec: new JsonCodec(timestamps),
    metrics,
    logger,
    clock,
    bodyBytesMax: config.bodyBytesMax,
    limits: config,
    tls: parts.tls,
    pages: healthPages({ ...core, config, metrics, endpoints }),
  });
  // Called when new requests are refused already, so that none begins to wait afterwards.
  http.addHook("preClose", async () => {
    core.broker.stopWaiting();
    core.feed.endAll("shutting_down");
  });
  return http;
}
