/** The jobs of a shard that depend on time: leases, delays, retention, times to live, scrubs and history. */
import { isExpired } from "@codeq/queue";
import type { SweepConfig } from "../../config/settings.ts";
import { type Logger, SpacedWarnings } from "../../telemetry/logger.ts";
import type { ChangeObservers } from "../broker/change-observers.ts";
import type { ShardBroker } from "../broker/shard-broker.ts";
import type { Clock } from "../clock.ts";
import { batchNamed } from "../records/batch-record.ts";
import type { QueueSeries } from "../series/queue-series.ts";
import type { Position, Store } from "../store/store.ts";
import { DeliverWebhooks, type WebhookParts } from "./deliver-webhooks.ts";
import { DueSweep, type DueSweepParts } from "./due-sweep.ts";
import { StallWatch } from "./stall-watch.ts";
import { type Job, Ticker, within } from "./ticker.ts";

export interface SweepParts {
  readonly broker: ShardBroker;
  readonly clock: Clock;
  readonly config: SweepConfig;
}

export interface ShardJobParts extends WebhookParts {
  /** Tells of changes that make something due. */
  readonly observers: ChangeObservers;
  /** How long the jobs may sleep; without a limit where the wall clock is never set. */
  readonly lookAgainMs?: number | undefined;
}

/** How long a shutdown waits for webhooks under way; what is cut off is sent again after it. */
const webhooksSettleMs = 1000;

export function startSweeps(parts: ShardJobParts): AsyncDisposable {
  const { broker, observers, clock, logger, config, lookAgainMs } = parts;
  const { store, series } = broker;
  const deletion = deleteOldTasks(parts);
  const lapses = endLapsedTasks(parts);
  const oldKeys = forgetOldKeys(parts);
  const batches = workOnBatches(parts);
  const webhooks = new DeliverWebhooks(parts);
  const stalls = watchStalls(parts);
  const ticker = new Ticker({
    clock,
    logger,
    lookAgainMs,
    jobs: [
      expireLeases({ ...parts, stalls }),
      promoteDueTasks(parts),
      fireSchedules(parts),
      batches,
      wakeLanes(parts),
      deletion,
      lapses,
      oldKeys,
      webhooks,
      scrubStore({ store, clock, logger, everyMs: config.scrubIntervalSeconds * 1000 }),
      writeSeries(broker),
    ],
  });
  const wake = (): void => ticker.wake();
  const planWebhook = (dueMs: number): void => {
    webhooks.plan(dueMs);
    wake();
  };
  broker.leases.onDue = () => {
    stalls.wake();
    wake();
  };
  broker.delayed.onDue = wake;
  broker.queues.lanes.onDue = wake;
  broker.schedules.onDue = wake;
  broker.batches.onDue = (dueMs) => {
    if (batches.plan(dueMs)) wake();
  };
  broker.schedules.onReport = (report) => observers.scheduled(report);
  observers.onEnd = (expiresMs) => {
    if (expiresMs !== undefined && deletion.plan(expiresMs)) wake();
  };
  observers.onStartBy = (startByMs) => {
    if (lapses.plan(startByMs)) wake();
  };
  store.onKeptKey = (untilMs) => {
    if (oldKeys.plan(untilMs)) wake();
  };
  observers.onWebhook = planWebhook;
  broker.webhooks.onDue = planWebhook;
  webhooks.onIdle = wake;
  broker.onRecovered.add(() => {
    deletion.startOver();
    lapses.startOver();
    oldKeys.startOver();
    batches.startOver();
    wake();
  });
  series.onPlanned = wake;
  // Until now the server could not receive heartbeats, however long the start took.
  broker.leases.giveGrace();
  stalls.wake();
  wake();
  return {
    [Symbol.asyncDispose]: async () => {
      stalls[Symbol.dispose]();
      await ticker[Symbol.asyncDispose]();
      // A disk that fails now costs the last minute of the history, and leaves no file open.
      if (store.state === "open") await series.turn().catch(() => {});
      await within(clock, webhooksSettleMs, webhooks.settle());
    },
  };
}

/** Where only timers move the clock, nothing can happen between two of them. */
function watchStalls({ broker, clock, logger, lookAgainMs }: ShardJobParts): StallWatch {
  const { leases } = broker;
  const warnings = new SpacedWarnings(logger, clock);
  return new StallWatch({
    clock,
    isNeeded: () => leases.size > 0 && lookAgainMs !== Number.POSITIVE_INFINITY,
    onStall: (stalledMs) => {
      leases.prolong(stalledMs);
      warnings.warn("the server was suspended for a while; leases are extended", {
        stalledMs: Math.round(stalledMs),
        leases: leases.size,
      });
    },
  });
}

/**
 * Takes back tasks whose lease has expired: a retry with backoff, or a dead letter. Time in which the
 * process did not run is detected first, so that heartbeats sent in the meantime are read.
 */
export function expireLeases(parts: SweepParts & { readonly stalls: StallWatch }): Job {
  const { broker, clock, config, stalls } = parts;
  return {
    name: "expire-leases",
    nextMs: () => broker.leases.first()?.dueMs,
    runOnce: async () => {
      stalls.look();
      for (let count = 0; count < config.sweepBatchMax; count++) {
        const lease = broker.leases.first();
        if (lease === undefined || lease.dueMs > clock.monotonicMs()) break;
        broker.expire(lease.id);
      }
    },
  };
}

/** Makes delayed tasks ready when they are due, whether or not a claim waits for them. */
export function promoteDueTasks({ broker, clock, config }: SweepParts): Job {
  return {
    name: "promote-due-tasks",
    nextMs: () => {
      const first = broker.delayed.first();
      return first === undefined ? undefined : clock.monotonicMs() + first.dueMs - clock.nowMs();
    },
    runOnce: async () => {
      const first = broker.delayed.first();
      if (first !== undefined && first.id === undefined) {
        await broker.delayed.readStretch(first);
        return;
      }
      broker.store.assertWritable();
      await broker.promote(takeDue(broker, { nowMs: clock.nowMs(), max: config.sweepBatchMax }));
    },
  };
}

/** Creates the tasks of schedules at their time. */
function fireSchedules({ broker, clock, config }: SweepParts): Job {
  const { schedules } = broker;
  return {
    name: "fire-schedules",
    nextMs: () => {
      const { dueMs } = schedules;
      return dueMs === undefined ? undefined : clock.monotonicMs() + dueMs - clock.nowMs();
    },
    runOnce: () => schedules.fireDue(config.sweepBatchMax),
  };
}

/** Offers lanes to claims that were held, or that have units of their rate again. */
function wakeLanes({ broker, config }: SweepParts): Job {
  const { lanes } = broker.queues;
  return {
    name: "wake-lanes",
    nextMs: () => lanes.nextMs,
    runOnce: async () => broker.wakeLanes(config.sweepBatchMax),
  };
}

/** Nothing may come between taking the tasks out of memory and promoting them. */
function takeDue(broker: ShardBroker, { nowMs, max }: { nowMs: number; max: number }): Position[] {
  const due: Position[] = [];
  while (due.length < max) {
    const item = broker.delayed.first();
    if (item?.id === undefined || item.dueMs > nowMs) break;
    broker.delayed.drop(item);
    due.push({ id: item.id, number: item.dueMs });
  }
  return due;
}

function dueSweep(
  { broker, clock, config }: SweepParts,
  of: Pick<DueSweepParts, "name" | "index" | "stepMs" | "act">,
): DueSweep {
  return new DueSweep({ ...of, store: broker.store, clock, batchMax: config.sweepBatchMax });
}

/** Deletes finished tasks whose retention has ended, with everything that belongs to them. */
export function deleteOldTasks(parts: SweepParts): DueSweep {
  const { broker } = parts;
  const { store } = broker;
  return dueSweep(parts, {
    name: "delete-old-tasks",
    stepMs: parts.config.retentionSweepSeconds * 1000,
    index: "expired",
    act: (due, nowMs) => {
      const tasks = due.flatMap(({ id }) => store.task(id) ?? []);
      return broker.delete(tasks.filter((task) => isExpired(task, nowMs)));
    },
  });
}

/** Deletes the idempotency keys of deleted tasks when they need not be kept any longer. */
export function forgetOldKeys(parts: SweepParts): DueSweep {
  const { store } = parts.broker;
  return dueSweep(parts, {
    name: "forget-old-keys",
    stepMs: parts.config.retentionSweepSeconds * 1000,
    index: "keptKeys",
    act: (due) => store.forgetKeys(due),
  });
}

/** Expires batches that were not sealed in time, and cancels or deletes members, piece by piece. */
function workOnBatches(parts: SweepParts): DueSweep {
  const { batches } = parts.broker;
  return dueSweep(parts, {
    name: "work-on-batches",
    stepMs: lapseStepMs,
    index: "batches",
    act: async (due) => {
      for (const { id: name } of due) await batches.work(batchNamed(name));
    },
  });
}

/** No task is handed out after its time to live, so that its end may be a little late. */
const lapseStepMs = 100;

/** Ends tasks that no worker began within their time to live, whether or not a worker asks for them. */
export function endLapsedTasks(parts: SweepParts): DueSweep {
  return dueSweep(parts, {
    name: "end-lapsed-tasks",
    stepMs: lapseStepMs,
    index: "lapsed",
    act: (due) => parts.broker.lapse(due.map(({ id }) => id)),
  });
}

/**
 * Reads and verifies every file of the store from time to time, in a thread, so that damage is found while
 * undamaged backups exist. If it finds damage, the server acknowledges nothing more and ends.
 */
export function scrubStore(parts: {
  readonly store: Store;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly everyMs: number;
}): Job {
  const { store, clock, logger, everyMs } = parts;
  let nextMs = clock.monotonicMs() + everyMs;
  return {
    name: "scrub-store",
    nextMs: () => (store.hasFiles && everyMs > 0 ? nextMs : undefined),
    runOnce: async () => {
      const startedMs = clock.monotonicMs();
      nextMs = startedMs + everyMs;
      // Other jobs do not wait for the scrub. The engine itself reports what is damaged.
      store.scrub().then(
        () => logger.info("the store was verified", { ms: clock.monotonicMs() - startedMs }),
        () => {},
      );
    },
  };
}

/** Writes the history of every queue, by the minute, so that a restart does not lose it. */
function writeSeries({ series, store }: { series: QueueSeries; store: Store }): Job {
  return {
    name: "write-series",
    // While the disk is full the minute grows; nothing waits for it.
    nextMs: () => (store.state === "open" ? series.dueMs : undefined),
    runOnce: () => series.turn(),
  };
}
