/** Queues with their depths, ages and rates, as one list. */
import type { ReplyOf } from "@codeq/protocol";
import { ask, callOf, tenant } from "../api.ts";
import { type Answer, lastAnswer, useQuery } from "../query.ts";
import { useStore } from "../store.ts";

type Details = Extract<ReplyOf<"GET /admin/queues">, { totals: object }>["queues"][number];
export type Pause = NonNullable<Details["paused"]>;
export type Rates = Details["rates"];

export interface QueueRow {
  readonly name: string;
  readonly ready: number;
  readonly delayed: number;
  readonly leased: number;
  readonly dead: number;
  /** Ended without a retry, and kept until their retention ends. */
  readonly failed: number;
  readonly waiting: number;
  readonly rates: Rates;
  readonly oldestSeconds?: number | undefined;
  readonly drainSeconds?: number | undefined;
  readonly pause?: Pause | undefined;
  /** Leases that the topic of the queue allows; undefined for any number. */
  readonly leasedMax?: number | undefined;
  /** Workers whose claims wait for its tasks. */
  readonly asking: number;
}

export function useQueues(): Answer<readonly QueueRow[]> {
  const of = useStore(tenant);
  const answer = useQuery(`queues:${of}`, loadQueues, { everyMs: 2000, follows: {} });
  return { ...answer, data: answer.data ?? lastAnswer(`known-queues:${of}`) };
}

/** For completion and search, which need the names and not the latest counts. */
export function useKnownQueues(): Answer<readonly QueueRow[]> {
  const of = useStore(tenant);
  return useQuery(`known-queues:${of}`, loadQueues, { everyMs: 60_000 });
}

async function loadQueues(): Promise<readonly QueueRow[]> {
  const { queues } = await ask(callOf("GET /admin/queues", { query: { view: "details" } }));
  // Only the view without details answers with numbers.
  if (typeof queues !== "object") return [];
  return queues.map(({ command, ready, delayed, inProgress, dlq, paused, ...rest }) => ({
    name: command,
    ready,
    delayed,
    leased: inProgress,
    dead: dlq,
    failed: rest.failed,
    waiting: ready + delayed,
    rates: rest.rates,
    oldestSeconds: rest.oldestSeconds,
    drainSeconds: rest.drainSeconds,
    pause: paused,
    leasedMax: rest.inProgressMax,
    asking: rest.workersAsking,
  }));
}

/** The share of failed attempts among those that ended in the last minute. */
export function failureShare({ completed, failed, retried }: Rates): number {
  const ended = completed + failed + retried;
  return ended === 0 ? 0 : (failed + retried) / ended;
}

/** Without this much age, a worker that asks by HTTP may simply be between two claims. */
const unservedSeconds = 5;

/** Tasks are ready, and no worker takes any: no worker asks, none is at work, and nothing ended in the last minute. */
export function isUnserved(queue: QueueRow): boolean {
  const { ready, leased, asking, pause, rates, oldestSeconds = 0 } = queue;
  const hasFlow = rates.completed + rates.failed + rates.retried > 0;
  if (ready === 0 || pause !== undefined || leased > 0 || asking > 0 || hasFlow) return false;
  return oldestSeconds >= unservedSeconds;
}
