/** Removes expired subscriptions. They are already invisible before they are removed. */
import type { Clock } from "../../core/clock.ts";
import type { Job } from "../../core/sweeps/ticker.ts";
import type { Subscriptions } from "./subscriptions.ts";

export function removeSubscriptions(parts: {
  readonly subscriptions: Subscriptions;
  readonly clock: Clock;
  readonly everyMs: number;
}): Job {
  const { subscriptions, clock, everyMs } = parts;
  let nextMs = clock.monotonicMs() + everyMs;
  return {
    name: "remove-subscriptions",
    nextMs: () => (subscriptions.isInCharge && subscriptions.size > 0 ? nextMs : undefined),
    runOnce: async () => {
      const hasMore = await subscriptions.removeExpired();
      nextMs = clock.monotonicMs() + (hasMore ? 0 : everyMs);
    },
  };
}
