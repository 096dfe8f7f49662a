/**
 * The only place that builds everything. `composeCore` is the server without its edges: it runs the
 * same on real files and clocks and inside a simulation. `composeHttp` and
 * `composeStreams` put the transports around it.
 */
import assert from "node:assert/strict";
import type { EngineState, FaultError } from "@codeq/engine";
import type { FastifyInstance } from "fastify";
import type { ClusterHealth } from "../cluster/cluster-node.ts";
import { inFlightOf } from "../config/memory.ts";
import type { Config } from "../config/settings.ts";
import type { Broker } from "../core/broker/broker.ts";
import type { ShardBroker } from "../core/broker/shard-broker.ts";
import type { EndpointChange } from "../core/broker/webhooks.ts";
import { type Clock, steadyClock } from "../core/clock.ts";
import type { ControlStore } from "../core/control/control-store.ts";
import { LocalControl } from "../core/control/local-control.ts";
import { Limiter } from "../core/limiter/limiter.ts";
import type { MaybePromise } from "../core/maybe-promise.ts";
import type { ShardLink } from "../core/shards/link.ts";
import { Router } from "../core/shards/router.ts";
import type { Store } from "../core/store/store.ts";
import { Ticker, within } from "../core/sweeps/ticker.ts";
import type { Timestamps } from "../core/timestamps.ts";
import { Zones } from "../core/zones.ts";
import { ApiKeys, writeApiKeyUses } from "../edge/access/api-keys/api-keys.ts";
import { Authenticator } from "../edge/access/authenticator.ts";
import { type FetchKeySet, type KeySet, refreshKeySets } from "../edge/access/key-set.ts";
import { Providers } from "../edge/access/providers.ts";
import { PublicTokens } from "../edge/access/public-tokens.ts";
import { type RequestText, requestText } from "../edge/access/request-text.ts";
import { drawText } from "../edge/access/seal.ts";
import { Revocations } from "../edge/access/token-provider.ts";
import { auditEventOf } from "../edge/audit/audit-record.ts";
import { AuditTrail, deleteOldAudit, writeAudit } from "../edge/audit/audit-trail.ts";
import { ConnectedWorkers } from "../edge/connected-workers.ts";
import { apiPages } from "../edge/console/api-pages.ts";
import { IdentityLogin } from "../edge/console/identity-login.ts";
import { Sessions } from "../edge/console/sessions.ts";
import { Dispatch } from "../edge/dispatch.ts";
import { HttpPages } from "../edge/grpc/http-pages.ts";
import { StreamSlots } from "../edge/grpc/stream-call.ts";
import { type Endpoints, healthPages } from "../edge/http/health.ts";
import { createHttpServer } from "../edge/http/http-server.ts";
import { JsonCodec } from "../edge/http/json-codec.ts";
import { InFlight } from "../edge/in-flight.ts";
import type { Cluster } from "../edge/operation.ts";
import type { ServerTls } from "../edge/tls/server-tls.ts";
import { Artifacts, collectArtifacts } from "../features/artifacts/artifacts.ts";
import { LocalArtifacts } from "../features/artifacts/local-artifacts.ts";
import type { BackupControl } from "../features/backups/operations.ts";
import { BulkJobs, endOfJob, runBulkJobs } from "../features/jobs/bulk-jobs.ts";
import {
  NotifySubscribers,
  type PostNotification,
} from "../features/subscriptions/notify-subscribers.ts";
import { removeSubscriptions, Subscriptions } from "../features/subscriptions/subscriptions.ts";
import { createStreams, type Streams } from "../features/tasks/streams/streams.ts";
import { Events } from "../telemetry/events.ts";
import { Feed } from "../telemetry/feed.ts";
import { FeedSummaries } from "../telemetry/feed-summaries.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { mergedScrape } from "../telemetry/scrape.ts";
import { noTracing, type Tracing } from "../telemetry/tracing/tracing.ts";
import {
  collectClusterMetrics,
  collectLimiterMetrics,
  collectStreamMetrics,
  collectSubscriptionMetrics,
} from "./collect-metrics.ts";
import { routes } from "./features.ts";
import { openLocalShards } from "./shards/open-local-shards.ts";
import { openShard, openStore, type ShardParts } from "./shards/open-shard.ts";

export interface CoreParts extends Omit<ShardParts, "feed" | "limiter" | "onState" | "shard"> {
  /** Opens the shards of a store with several; default: in this thread. */
  readonly openShards?: (store: KnowingStore, parts: ShardParts) => Promise<readonly ShardLink[]>;
  /** Makes this server a node of a cluster. */
  readonly openNode?: ((store: Store, parts: ShardParts) => Promise<ClusterMember>) | undefined;
  readonly fetchKeySet: FetchKeySet;
  /** Calls the identity server of the console; default: over HTTP. */
  readonly requestText?: RequestText;
  /** Tells subscribers that there is work. */
  readonly notify: PostNotification;
  /** The storage failed permanently: nothing is acknowledged any more. */
  readonly onFailed: (fault: FaultError) => void;
}

/** A server as a node of a cluster. */
export interface ClusterMember extends Cluster, AsyncDisposable {
  readonly links: readonly ShardLink[];
  /** The replicated control store: everything that is not a task. */
  readonly control: ControlStore;
  readonly backupControl: BackupControl;
  /** The measurements of the shards that it leads. */
  scrape(): readonly { readonly shard: number; readonly text: string }[];
}

interface KnowingStore {
  readonly storeId: number | undefined;
  /** They were there once, so one that is missing is lost. */
  readonly mustExist: boolean;
}

type StorageWatcher = (state: EngineState) => void;

export interface Core extends AsyncDisposable {
  /** The store of the data directory: everything, or with several shards the control store. */
  readonly store: Store;
  /** Calls back whenever the storage begins or ceases to accept writes. */
  readonly onStorageState: (run: StorageWatcher) => void;
  readonly broker: Broker;
  /** All measurements, as text. */
  readonly scrape: () => MaybePromise<string>;
  /** The only one, where there is one in this thread. */
  readonly shard: ShardBroker;
  readonly feed: Feed;
  readonly workers: ConnectedWorkers;
  readonly dispatch: Dispatch;
  readonly authenticator: Authenticator;
  readonly revocations: Revocations;
  /** The sessions of the console; undefined when the console is turned off. */
  readonly sessions: Sessions | undefined;
  /** The sign-in to the console at an identity server. */
  readonly login: IdentityLogin | undefined;
  /** Undefined for a server that is not in a cluster. */
  readonly cluster: Cluster | undefined;
  /** The input of all callers, over HTTP and on streams. */
  readonly inFlight: InFlight;
}

export async function composeCore(parts: CoreParts): Promise<Core> {
  const { config, clock, logger, metrics, fetchKeySet, randomBytes } = parts;
  const watchers: StorageWatcher[] = [];
  const feed = new Feed();
  const summaries = new FeedSummaries({ feed, clock });
  metrics.feedsOpen.collect(() => [[feed.size + feed.browsers + summaries.size]]);
  const limiter = new Limiter(config, clock);
  collectLimiterMetrics(metrics, limiter);
  const inFlight = new InFlight(inFlightOf(config));
  metrics.inFlightBytes.collect(() => [[inFlight.bytes]]);
  metrics.inFlightCuts.collect(() => [[inFlight.cuts]]);
  const onState = (state: EngineState, fault: FaultError | undefined): void => {
    for (const notify of watchers) notify(state);
    // A node of a cluster looks after its own storage, and the storage of a leader elsewhere is not its own.
    if (parts.openNode !== undefined) return;
    if (state === "failed" && fault !== undefined) parts.onFailed(fault);
  };
  const endpointWatchers: ((change: EndpointChange) => void)[] = [];
  const onEndpoint = (change: EndpointChange): void => {
    for (const notify of endpointWatchers) notify(change);
  };
  const running = { ...parts, feed, limiter, onState, onEndpoint };
  const isAlone = config.shards === 1 && parts.openNode === undefined;
  const opened = isAlone ? await openAlone(running) : await openShards(running);
  const { store, control, broker } = opened;
  const events = new Events(metrics, parts.tracing);
  const provider = parts.artifacts ?? new LocalArtifacts(config);
  const artifacts = new Artifacts({ provider, settings: config, randomBytes, clock });
  const revocations = new Revocations();
  const apiKeys = await ApiKeys.open({ store: control, clock, revocations, randomBytes });
  const audit = new AuditTrail({
    store: control,
    clock,
    logger,
    randomBytes,
    retentionMs: config.auditRetentionSeconds * 1000,
  });
  endpointWatchers.push((change) => recordDisabled(audit, change));
  const workers = new ConnectedWorkers(clock);
  const jobs = await BulkJobs.open({ store: control, broker, clock, randomBytes, workers });
  jobs.onEnded = (job) => audit.record(endOfJob(job));
  const cluster = opened.node;
  const subscriptions = await Subscriptions.open({ store: control, clock, randomBytes });
  collectSubscriptionMetrics(metrics, subscriptions);
  const { backupControl } = opened;
  const stored = { artifacts, apiKeys, audit, subscriptions, jobs, backupControl };
  const zones = new Zones();
  // The same clock as in the shards: a delay that is counted with one ends by the other.
  const around = {
    clock: steadyClock(clock),
    events,
    feed,
    summaries,
    workers,
    config,
    randomBytes,
    cluster,
    zones,
  };
  const { freeBytes } = parts.storage;
  const publicTokens = new PublicTokens({ secret: secretOf(parts), clock, randomBytes, apiKeys });
  const server = { broker, ...stored, ...around, publicTokens, freeBytes };
  const providers = new Providers({ fetchKeySet, revocations, clock, logger, metrics });
  const authenticator = new Authenticator({
    producers: [apiKeys, ...providers.of(config.producerAuth)],
    workers: [apiKeys, ...providers.of(config.workerAuth)],
    allowProducerAsWorker: config.allowProducerAsWorker,
    tenantFallback: config.tenantFallback,
    revocations,
    clock,
  });
  const dispatch = new Dispatch({ server, authenticator, limiter, logger });
  const { keySets } = providers;
  const { ticker, notifier, bulkJobs } = startMaintenance({
    ...parts,
    ...stored,
    control,
    broker,
    keySets,
    events,
    limiter,
  });
  return {
    store,
    onStorageState: (run) => void watchers.push(run),
    broker,
    scrape: opened.scrape,
    get shard() {
      assert(opened.shard !== undefined, "there is one shard, in this thread");
      return opened.shard;
    },
    feed,
    workers,
    dispatch,
    authenticator,
    revocations,
    ...(config.console ? openConsole(parts, providers) : { sessions: undefined, login: undefined }),
    cluster,
    inFlight,
    [Symbol.asyncDispose]: async () => {
      dispatch.stopAccepting();
      providers[Symbol.dispose]();
      broker.stopWaiting();
      await ticker[Symbol.asyncDispose]();
      await within(clock, notificationsSettleMs, notifier.settle());
      await bulkJobs.settle();
      await apiKeys[Symbol.asyncDispose]();
      await audit[Symbol.asyncDispose]();
      await opened[Symbol.asyncDispose]();
    },
  };
}

/** Seals what browsers get. Nodes of a cluster open what another node has sealed. */
function secretOf({ config, randomBytes }: Pick<CoreParts, "config" | "randomBytes">): string {
  return config.consoleSecret || config.clusterSecret || drawText(randomBytes, 32);
}

/** The sessions of the console, and how people sign in. */
function openConsole(
  { config, clock, randomBytes, requestText: ask = requestText }: CoreParts,
  providers: Providers,
): Pick<Core, "sessions" | "login"> {
  const secret = secretOf({ config, randomBytes });
  const sessions = new Sessions({ secret, clock, randomBytes });
  const issuer = config.producerAuth.find((each) => each.type === "jwks");
  if (config.consoleLoginClientId === "" || issuer === undefined) {
    return { sessions, login: undefined };
  }
  const [idTokens] = providers.of([{ ...issuer, audience: config.consoleLoginClientId }]);
  assert(idTokens !== undefined, "one provider was asked for");
  const login = new IdentityLogin(
    {
      issuer: issuer.issuer,
      clientId: config.consoleLoginClientId,
      clientSecret: config.consoleLoginClientSecret,
      scopes: config.consoleLoginScopes,
      resource: config.consoleLoginResource,
      httpTimeoutMs: issuer.httpTimeoutMs,
    },
    { secret, clock, randomBytes, requestText: ask, idTokens },
  );
  return { sessions, login };
}

/** The control store, and the queue. */
interface Opened extends AsyncDisposable {
  readonly store: Store;
  readonly control: ControlStore;
  readonly backupControl?: BackupControl | undefined;
  readonly broker: Broker;
  readonly scrape: () => MaybePromise<string>;
  readonly shard?: ShardBroker;
  readonly node?: ClusterMember | undefined;
}

interface OpenParts extends CoreParts, ShardParts {
  readonly onEndpoint: (change: EndpointChange) => void;
}

/** The server disabled the endpoint by itself. */
function recordDisabled(audit: AuditTrail, { tenantId, url, endpoint }: EndpointChange): void {
  if (endpoint?.disabledMs === undefined) return;
  const action = "disable_webhook_endpoint";
  const what = { action, target: url, detail: endpoint.why, tenantId, outcome: "ok" } as const;
  void audit.record(auditEventOf({}, what));
}

/** One shard, which has everything. */
async function openAlone(parts: OpenParts): Promise<Opened> {
  const shard = await openShard(parts);
  const { store, broker } = shard;
  broker.webhooks.onEndpoint = parts.onEndpoint;
  return {
    store,
    control: new LocalControl(store),
    broker: broker,
    shard: broker,
    scrape: () => parts.metrics.render(),
    [Symbol.asyncDispose]: () => Promise.resolve(shard[Symbol.asyncDispose]()),
  };
}

/** Several, behind a router. */
async function openShards(parts: OpenParts): Promise<Opened> {
  const { config, clock, metrics, feed, defer, storage, onState } = parts;
  const store = await openStore({ ...parts, onState: onControlState(parts) });
  try {
    const known = { storeId: storage.storeId, mustExist: store.hasShards };
    const node = await parts.openNode?.(store, parts);
    const links =
      node?.links ?? (await (parts.openShards?.(known, parts) ?? openLocalShards(parts)));
    const onMissed = (events: number): void => metrics.feedEvents.add(events, "missed");
    const { quotas } = config;
    const heard = { onState, onMissed, onEndpoint: parts.onEndpoint };
    const router = new Router({ links, clock, quotas, feed, defer, ...heard });
    // In a cluster the leaders are elsewhere, and may come later.
    if (node === undefined) await router.opened();
    await store.noteShards();
    metrics.waiters.collect(() => [[router.waitingClaims, "claim"]]);
    let health: ClusterHealth | undefined;
    if (node !== undefined) {
      collectClusterMetrics(metrics, { status: () => node.status, health: () => health });
    }
    return {
      store,
      control: node?.control ?? new LocalControl(store),
      backupControl: node?.backupControl ?? { store },
      broker: router,
      node,
      // A node reports only the shards that it leads, so that no shard is counted twice.
      scrape: async () => {
        health = await node?.health();
        return mergedScrape(metrics.render(), node?.scrape() ?? (await router.scrape()));
      },
      [Symbol.asyncDispose]: async () => {
        await router[Symbol.asyncDispose]();
        await node?.[Symbol.asyncDispose]();
        await store[Symbol.asyncDispose]();
      },
    };
  } catch (error) {
    await store[Symbol.asyncDispose]();
    throw error;
  }
}

/** The store of API keys and audit records is needed for everything else. */
function onControlState({ onFailed }: CoreParts): ShardParts["onState"] {
  return (state, fault) => {
    if (state === "failed" && fault !== undefined) onFailed(fault);
  };
}

interface MaintenanceParts extends Omit<CoreParts, "artifacts"> {
  readonly control: ControlStore;
  readonly broker: Broker;
  readonly artifacts: Artifacts;
  readonly keySets: readonly KeySet[];
  readonly apiKeys: ApiKeys;
  readonly audit: AuditTrail;
  readonly subscriptions: Subscriptions;
  readonly jobs: BulkJobs;
  readonly events: Events;
  readonly limiter: Limiter;
}

/** How long a shutdown waits for notifications under way. */
const notificationsSettleMs = 1000;

/** Starts the jobs of the control store: keys, audit, notifications and bulk jobs. */
function startMaintenance(parts: MaintenanceParts): {
  readonly ticker: Ticker;
  readonly notifier: NotifySubscribers;
  readonly bulkJobs: ReturnType<typeof runBulkJobs>;
} {
  const { config, clock, logger, keySets, apiKeys, audit, subscriptions, lookAgainMs } = parts;
  const ofKeys = [refreshKeySets(keySets), writeApiKeyUses(apiKeys)];
  const ofAudit = [writeAudit(audit), deleteOldAudit(audit)];
  const notifier = new NotifySubscribers(parts);
  const everyMs = config.subscriptionCleanupIntervalSeconds * 1000;
  const ofSubscriptions = [notifier, removeSubscriptions({ subscriptions, clock, everyMs })];
  const bulkJobs = runBulkJobs(parts.jobs);
  const ofTasks = [collectArtifacts(parts), bulkJobs];
  const jobs = [...ofKeys, ...ofAudit, ...ofTasks, ...ofSubscriptions];
  const ticker = new Ticker({ clock, logger, jobs, lookAgainMs });
  const wake = (): void => ticker.wake();
  for (const each of keySets) each.onPlanned = wake;
  apiKeys.onUsed = wake;
  audit.onPlanned = wake;
  parts.jobs.onPlanned = wake;
  notifier.onDue = wake;
  const whenInCharge = { changed: () => {}, load: async () => {}, takeCharge: wake };
  void parts.control.listen(whenInCharge);
  wake();
  return { ticker, notifier, bulkJobs };
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
  readonly tracing?: Tracing | undefined;
}): Streams {
  const { core, config, logger, clock, tls } = parts;
  const { instance } = parts.endpoints;
  const { broker, dispatch, authenticator, workers } = core;
  const { claimBatchMax } = config;
  const slots = new StreamSlots(config.streamsMax);
  const session = {
    broker,
    dispatch,
    authenticator,
    workers,
    slots,
    inFlight: core.inFlight,
    claimBatchMax,
    instance,
    logger,
    clock,
    tracing: parts.tracing ?? noTracing,
  };
  const { scrape } = core;
  const { endpoints } = parts;
  const pages = new HttpPages(
    {
      pages: healthPages({ broker, authenticator, scrape, config, endpoints, clock }),
      endpoints,
      logger,
    },
    clock,
  );
  const streams = createStreams({ ...session, limits: config, tls, pages });
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
  readonly tracing?: Tracing | undefined;
  readonly endpoints: Endpoints;
}

export function composeHttp(parts: HttpParts): FastifyInstance {
  const { core, config, logger, metrics, timestamps, clock, endpoints } = parts;
  const { broker, authenticator, scrape } = core;
  const http = createHttpServer({
    routes,
    dispatch: core.dispatch,
    authenticator: core.authenticator,
    sessions: core.sessions,
    login: core.login,
    cluster: core.cluster,
    config,
    codec: new JsonCodec(timestamps),
    metrics,
    tracing: parts.tracing ?? noTracing,
    logger,
    clock,
    bodyBytesMax: config.bodyBytesMax,
    inFlight: core.inFlight,
    isLenient: config.lenientInput,
    limits: config,
    tls: parts.tls,
    pages: [
      ...healthPages({ broker, authenticator, scrape, config, endpoints, clock }),
      ...apiPages(routes, config.lenientInput),
    ],
  });
  // Called when new requests are refused already, so that none begins to wait afterwards.
  http.addHook("preClose", async () => {
    core.broker.stopWaiting();
    core.feed.endAll("shutting_down");
  });
  return http;
}
