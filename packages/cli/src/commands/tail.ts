/**
 * `tail`: a line for every queue and interval in which something happened. It is told by the counters
 * of the server, so it says how many and not which tasks.
 */
import type { ApiClient } from "../api/api-client.ts";
import type { Call } from "../call.ts";
import { exits } from "../exit-codes.ts";
import { timeOfDay } from "../terminal/units.ts";
import { type Activity, activityBetween, activityLine } from "../watch/activity.ts";
import { intervalOf, lookAgain, lookOnce } from "../watch/look.ts";
import type { Snapshot } from "../watch/snapshot.ts";

export async function run(call: Call): Promise<number> {
  const wanted = call.word(0).toLowerCase();
  await follow(call, await call.api(), {
    intervalMs: intervalOf(call),
    signal: call.host.stopped(),
    seen: (activity) => {
      if (wanted === "" || activity.queue === wanted) tell(call, activity);
    },
  });
  return exits.ok.code;
}

/** Calls back for whatever happens from now on, until the signal. */
export async function follow(
  call: Call,
  api: ApiClient,
  options: {
    readonly intervalMs: number;
    readonly signal: AbortSignal;
    readonly seen: (activity: Activity) => void;
  },
): Promise<void> {
  const { intervalMs, signal, seen } = options;
  let last: Snapshot | undefined;
  let isAway = false;
  await lookAgain(call.host.clock, {
    intervalMs,
    signal,
    look: async () => {
      const next = await lookOnce(api, signal);
      if (isAway) call.note("the server is back");
      isAway = false;
      if (last !== undefined) for (const each of activityBetween(last, next)) seen(each);
      last = next;
    },
    away: (error) => {
      if (!isAway) call.note(error.message);
      isAway = true;
    },
  });
}

export function tell(call: Call, activity: Activity): void {
  const nowMs = call.host.clock.nowMs();
  if (!call.json) {
    call.print(activityLine(activity, timeOfDay(nowMs), call.style));
    return;
  }
  const { now, ...counts } = activity;
  const { ready, delayed, inProgress, dlq } = now;
  const time = new Date(nowMs).toISOString();
  call.printJson({ time, ...counts, ready, delayed, inProgress, dlq });
}
