/** Queues with their depths, ages and rates, as one list. */
import { ask, tenant } from "../api.ts";
import { type Answer, lastAnswer, useQuery } from "../query.ts";
import { useStore } from "../store.ts";

export interface Pause {
  readonly by: string;
  readonly at: string;
  readonly reason?: string;
}

export interface Rates {
  readonly enqueued: number;
  readonly completed: number;
  readonly failed: number;
  readonly retried: number;
}

export interface QueueRow {
  readonly name: string;
  readonly ready: number;
  readonly delayed: number;
  readonly leased: number;
  readonly dead: number;
  readonly waiting: number;
  readonly rates: Rates;
  readonly oldestSeconds?: number | undefined;
  readonly drainSeconds?: number | undefined;
  readonly pause?: Pause | undefined;
  /** Leases that the topic of the queue allows; undefined for any number. */
  readonly leasedMax?: number | undefined;
}

interface Details {
  readonly command: string;
  readonly ready: number;
  readonly delayed: number;
  readonly inProgress: number;
  readonly dlq: number;
  readonly rates: Rates;
  readonly oldestSeconds?: number;
  readonly drainSeconds?: number;
  readonly paused?: Pause;
  readonly inProgressMax?: number;
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
  const query = { view: "details" };
  const { queues } = await ask<{ queues: Details[] }>({ path: "/v1/codeq/admin/queues", query });
  return queues.map(({ command, ready, delayed, inProgress, dlq, paused, ...rest }) => ({
    name: command,
    ready,
    delayed,
    leased: inProgress,
    dead: dlq,
    waiting: ready + delayed,
    rates: rest.rates,
    oldestSeconds: rest.oldestSeconds,
    drainSeconds: rest.drainSeconds,
    pause: paused,
    leasedMax: rest.inProgressMax,
  }));
}

/** Of all attempts that ended in the last minute, how many failed. */
export function failureShare({ completed, failed, retried }: Rates): number {
  const ended = completed + failed + retried;
  return ended === 0 ? 0 : (failed + retried) / ended;
}
