/**
 * One shard of the queue: its store, its broker, and its background work, such as lease expiry, delays,
 * retention and callbacks.
 */

import { randomFillSync } from "node:crypto";
import type { EngineState, FaultError } from "@codeq/engine";
import type { TaskId } from "@codeq/queue";
import { noQuotas } from "../../config/quotas.ts";
import type { Config } from "../../config/settings.ts";
import { Broker } from "../../core/broker/broker.ts";
import { ToldChanges } from "../../core/broker/told-changes.ts";
import type { Clock } from "../../core/clock.ts";
import type { Limiter } from "../../core/limiter/limiter.ts";
import { idsOfShard } from "../../core/shards/shard-of.ts";
import { Store } from "../../core/store/store.ts";
import { deleteOldTasks } from "../../core/sweeps/delete-old-tasks.ts";
import { DeliverWebhooks, type PostWebhook } from "../../core/sweeps/deliver-webhooks.ts";
import { endLapsedTasks } from "../../core/sweeps/end-lapsed-tasks.ts";
import { expireLeases } from "../../core/sweeps/expire-leases.ts";
import { promoteDueTasks } from "../../core/sweeps/promote-due-tasks.ts";
import { scrubStore } from "../../core/sweeps/scrub-store.ts";
import { StallWatch } from "../../core/sweeps/stall-watch.ts";
import { Ticker } from "../../core/sweeps/ticker.ts";
import { writeSeries } from "../../core/sweeps/write-series.ts";
import { type RandomBytes, TaskIds } from "../../core/task-ids.ts";
import {
  type ArtifactKey,
  type ArtifactProvider,
  artifactKey,
} from "../../features/artifacts/artifact-provider.ts";
import { LocalArtifacts } from "../../features/artifacts/local-artifacts.ts";
import { Events } from "../../telemetry/events.ts";
import type { Feed } from "../../telemetry/feed.ts";
import { type Logger, SpacedWarnings } from "../../telemetry/logger.ts";
import type { Metrics } from "../../telemetry/metrics.ts";
import type { Tracing } from "../../telemetry/tracing/tracing.ts";
import { collectBrokerMetrics, collectStoreMetrics } from "../collect-metrics.ts";
import type { Storage } from "../open-data-dir.ts";

export interface StoreParts {
  readonly config: Config;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly storage: Storage;
  /** Runs a function after what arrived in the same turn. */
  readonly defer: (run: () => void) => void;
  /** The storage begins or ceases to accept writes. */
  readonly onState: (state: EngineState, fault: FaultError | undefined) => void;
  /** Which one it is, where there are several, and the identity of the store that knows of them. */
  readonly shard?: ShardName | undefined;
  /** Smaller in a simulation, whose few tasks would never reach them. */
  readonly memory?: MemoryLimits | undefined;
}

export interface ShardName {
  readonly number: number;
  readonly of: number | undefined;
}

export interface ShardParts extends StoreParts {
  readonly randomBytes: RandomBytes;
  /** Uniform in [0, 1). */
  readonly draw: () => number;
  readonly post: PostWebhook;
  /** Hears what happens to the tasks. */
  readonly feed: Feed;
  readonly tracing?: Tracing | undefined;
  /** Of callbacks. */
  readonly limiter: Limiter;
  /** Where artifacts are kept; in a local directory unless told otherwise. */
  readonly artifacts?: ArtifactProvider | undefined;
  /** Is given the broker of each shard that is opened in this thread. */
  readonly onBroker?: ((broker: Broker) => void) | undefined;
  /** How long maintenance may sleep; without a limit where the wall clock is never set. */
  readonly sleepMsMax?: number | undefined;
}

export interface MemoryLimits {
  readonly flushBytes: number;
  readonly delayedInMemoryMax: number;
}

export interface Shard extends AsyncDisposable {
  readonly store: Store;
  readonly broker: Broker;
}

const delayedInMemoryMax = 100_000;
/** How long a shutdown waits for callbacks under way; what is cut off is sent again after it. */
const webhookSettleMs = 1000;

export async function openShard(parts: ShardParts): Promise<Shard> {
  const { config, clock, metrics, feed } = parts;
  const store = await openStore(parts);
  const events = new Events(metrics);
  const told = new ToldChanges({ events, feed, tracing: parts.tracing });
  const artifacts = parts.artifacts ?? new LocalArtifacts(config.localArtifactsDir);
  const broker = await openBroker(parts, { store, told, artifacts });
  parts.onBroker?.(broker);
  collectBrokerMetrics(metrics, broker, clock);
  const { ticker, webhooks, stalls } = startMaintenance({ ...parts, broker, told, events });
  return {
    store,
    broker,
    [Symbol.asyncDispose]: async () => {
      broker.stopWaiting();
      stalls[Symbol.dispose]();
      await ticker[Symbol.asyncDispose]();
      // A disk that fails now costs the last minute of the history, and leaves no file open.
      if (store.state === "open") await broker.series.turn().catch(() => {});
      await within(clock, webhookSettleMs, webhooks.settle());
      await store[Symbol.asyncDispose]();
    },
  };
}

function openBroker(
  parts: ShardParts,
  { store, told, artifacts }: { store: Store; told: ToldChanges; artifacts: ArtifactProvider },
): Promise<Broker> {
  const { config, clock, draw, memory } = parts;
  const warnings = new SpacedWarnings(parts.logger, clock);
  return Broker.open({
    store,
    clock,
    ids: idsOfShard(new TaskIds(parts.randomBytes), {
      shard: parts.shard?.number ?? 0,
      count: config.shards,
    }),
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
    maxAttemptsDefault: config.maxAttemptsDefault,
    delayedInMemoryMax: memory?.delayedInMemoryMax ?? delayedInMemoryMax,
    // With several shards only the router knows what all of them have.
    quotas: config.shards === 1 ? config.quotas : noQuotas,
    disableEndpointAfterMs: config.webhookDisableAfterSeconds * 1000,
    prepareRemoval: (ids) => {
      const removal = artifacts.removalOf(ids, (id) => namedKeys(store, id));
      return async () => {
        await removal().catch((error: unknown) => {
          // They take room and nothing else; the sweep finds them.
          warnings.warn("artifacts of deleted tasks could not be removed", {
            error: String(error),
          });
        });
      };
    },
    observe: (change) => told.tell(change),
  });
}

/** The files that the result of a task names. */
function namedKeys(store: Store, id: TaskId): ArtifactKey[] {
  const task = store.task(id);
  const result = task === undefined ? undefined : store.wholeResult(task);
  return (result?.artifacts ?? []).flatMap((each) => artifactKey(id, each) ?? []);
}

interface MaintenanceParts extends ShardParts {
  readonly broker: Broker;
  readonly told: ToldChanges;
  readonly events: Events;
}

interface Maintenance {
  readonly ticker: Ticker;
  readonly webhooks: DeliverWebhooks;
  readonly stalls: StallWatch;
}

function startMaintenance(parts: MaintenanceParts): Maintenance {
  const { broker, told, clock, logger, config, sleepMsMax } = parts;
  const deletion = deleteOldTasks(parts);
  const lapses = endLapsedTasks(parts);
  const webhooks = new DeliverWebhooks(parts);
  const everyMs = config.scrubIntervalSeconds * 1000;
  const scrub = scrubStore({ store: broker.store, clock, logger, everyMs });
  const stalls = watchStalls(parts);
  const jobs = [
    expireLeases({ ...parts, stalls }),
    promoteDueTasks(parts),
    deletion,
    lapses,
    webhooks,
    scrub,
    writeSeries(broker),
  ];
  const ticker = new Ticker({ clock, logger, jobs, sleepMsMax });
  const wake = (): void => ticker.wake();
  broker.leases.onDue = () => {
    stalls.wake();
    wake();
  };
  broker.delayed.onDue = wake;
  told.onEnd = (expiresMs) => {
    if (expiresMs !== undefined && deletion.plan(expiresMs)) wake();
  };
  told.onStartBy = (startByMs) => {
    if (lapses.plan(startByMs)) wake();
  };
  told.onWebhook = (dueMs) => {
    webhooks.plan(dueMs);
    wake();
  };
  broker.onRecovered.add(() => {
    deletion.startOver();
    lapses.startOver();
    wake();
  });
  broker.series.onPlanned = wake;
  broker.webhooks.onDue = (dueMs) => {
    webhooks.plan(dueMs);
    wake();
  };
  webhooks.onIdle = wake;
  // Until now nobody could hear a heartbeat, however long the start took.
  broker.leases.giveGrace();
  stalls.wake();
  wake();
  return { ticker, webhooks, stalls };
}

/** Where only timers move the clock, nothing can happen between two of them. */
function watchStalls({ broker, clock, logger, sleepMsMax }: MaintenanceParts): StallWatch {
  const { leases } = broker;
  const warnings = new SpacedWarnings(logger, clock);
  return new StallWatch({
    clock,
    isNeeded: () => leases.size > 0 && sleepMsMax !== Number.POSITIVE_INFINITY,
    onStall: (stalledMs) => {
      leases.prolong(stalledMs);
      warnings.warn("the server was suspended for a while; leases are extended", {
        stalledMs: Math.round(stalledMs),
        leases: leases.size,
      });
    },
  });
}

/** Waits, but no longer than the given time. */
export async function within(clock: Clock, ms: number, settled: Promise<void>): Promise<void> {
  let cancel = (): void => {};
  const timeout = new Promise<void>((resolve) => {
    cancel = clock.after(ms, resolve);
  });
  await Promise.race([settled, timeout]);
  cancel();
}

export async function openStore(parts: StoreParts): Promise<Store> {
  const { config, clock, logger, metrics, storage } = parts;
  let appendedBytes = 0;
  const store = await Store.open({
    ...storage,
    clock,
    shards: config.shards,
    shard: parts.shard?.number,
    of: parts.shard?.of,
    defer: parts.defer,
    minFreeBytes: config.minFreeDiskBytes,
    flushBytes: parts.memory?.flushBytes ?? config.flushBytes,
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
        const isElsewhere = fault?.code === "not_leader" || fault?.code === "unknown";
        if (isElsewhere) logger.info("this node leads the shard no longer", fields);
        else if (state === "open") logger.info("storage accepts writes again", { state });
        else logger.error("storage refuses writes", fields);
        // Before the process may end.
        parts.onState(state, fault);
      },
    },
  });
  collectStoreMetrics(metrics, store, () => appendedBytes);
  return store;
}

const word = new Uint32Array(1);

/** A random number, uniform in [0, 1). */
export function drawUniform(): number {
  return (randomFillSync(word)[0] as number) / 2 ** 32;
}
