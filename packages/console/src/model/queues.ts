/** Queues with their depths, ages and rates, as one list. */
import type { ReplyOf } from "@codeq/protocol";
import { ask, callOf, tenant } from "../api.ts";
import { type Answer, lastAnswer, useQuery } from "../query.ts";
import { useStore } from "../store.ts";

type Overview = Extract<ReplyOf<"GET /admin/queues">, { readonly totals: object }>;
type Details = Overview["queues"][number];
export type Pause = NonNullable<Details["paused"]>;
export type Rates = Details["rates"];

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
  const answer = await ask(callOf("GET /admin/queues", { query: { view: "details" } }));
  const { queues } = answer as Overview;
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
