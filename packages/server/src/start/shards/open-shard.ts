/**
 * One shard of the queue: its store, its broker, and its background work, such as lease expiry, delays,
 * retention and webhooks.
 */

import { randomFillSync } from "node:crypto";
import type { EngineState, FaultError } from "@codeq/engine";
import type { TaskId } from "@codeq/queue";
import { quotasOfShard } from "../../config/quotas.ts";
import type { Config } from "../../config/settings.ts";
import { ChangeObservers } from "../../core/broker/change-observers.ts";
import { ShardBroker } from "../../core/broker/shard-broker.ts";
import { type Clock, steadyClock } from "../../core/clock.ts";
import type { Limiter } from "../../core/limiter/limiter.ts";
import { idsOfShard } from "../../core/shards/shard-of.ts";
import { Store } from "../../core/store/store.ts";
import type { PostWebhook } from "../../core/sweeps/deliver-webhooks.ts";
import { startSweeps } from "../../core/sweeps/sweeps.ts";
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
  /** Which one it is, where there are several, and the id of the store that knows of them. */
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
  /** Limits the rate of webhooks. */
  readonly limiter: Limiter;
  /** Where artifacts are kept; in a local directory unless observers otherwise. */
  readonly artifacts?: ArtifactProvider | undefined;
  /** Is given the broker of each shard that is opened in this thread. */
  readonly onBroker?: ((broker: ShardBroker) => void) | undefined;
  /** How long maintenance may sleep; without a limit where the wall clock is never set. */
  readonly lookAgainMs?: number | undefined;
}

export interface MemoryLimits {
  readonly flushBytes: number;
  readonly delayedInMemoryMax: number;
}

export interface Shard extends AsyncDisposable {
  readonly store: Store;
  readonly broker: ShardBroker;
}

const delayedInMemoryMax = 100_000;

export async function openShard(given: ShardParts): Promise<Shard> {
  // What is due and what has expired is not decided by a wall clock that was just set.
  const parts = { ...given, clock: steadyClock(given.clock) };
  const { config, clock, metrics, feed } = parts;
  const store = await openStore(parts);
  const events = new Events(metrics);
  const observers = new ChangeObservers({ events, feed, tracing: parts.tracing });
  const artifacts = parts.artifacts ?? new LocalArtifacts(config);
  const broker = await openBroker(parts, { store, observers, events, artifacts });
  parts.onBroker?.(broker);
  collectBrokerMetrics(metrics, broker, clock);
  const sweeps = startSweeps({ ...parts, broker, observers, events });
  return {
    store,
    broker,
    [Symbol.asyncDispose]: async () => {
      broker.stopWaiting();
      await sweeps[Symbol.asyncDispose]();
      await store[Symbol.asyncDispose]();
    },
  };
}

interface OpenedParts {
  readonly store: Store;
  readonly observers: ChangeObservers;
  readonly events: Events;
  readonly artifacts: ArtifactProvider;
}

function openBroker(
  parts: ShardParts,
  { store, observers, events, artifacts }: OpenedParts,
): Promise<ShardBroker> {
  const { config, clock, draw, memory } = parts;
  const warnings = new SpacedWarnings(parts.logger, clock);
  return ShardBroker.open({
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
    keyLifeMs: config.idempotencySeconds * 1000,
    maxAttemptsDefault: config.maxAttemptsDefault,
    delayedInMemoryMax: memory?.delayedInMemoryMax ?? delayedInMemoryMax,
    // With several shards only the router knows what all of them have.
    quotas: config.shards === 1 ? config.quotas : quotasOfShard(config.quotas),
    ownQuotas: config.quotas,
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
    observe: (change) => observers.observe(change),
    observeGroup: (changes, ms) => events.groupDurable(changes, ms / 1000),
  });
}

/** The files that the result of a task names. */
function namedKeys(store: Store, id: TaskId): ArtifactKey[] {
  const task = store.task(id);
  const result = task === undefined ? undefined : store.wholeResult(task);
  return (result?.artifacts ?? []).flatMap((each) => artifactKey(id, each) ?? []);
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
        // Called before the process may end.
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
