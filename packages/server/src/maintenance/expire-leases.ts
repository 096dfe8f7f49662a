/** Takes tasks back whose lease has ended: another try with backoff, or burial. */
import type { Broker } from "../broker/broker.ts";
import type { Clock } from "../clock.ts";
import type { SweepConfig } from "../config/settings.ts";
import type { Job } from "./ticker.ts";

export function expireLeases(parts: { broker: Broker; clock: Clock; config: SweepConfig }): Job {
  const { broker, clock } = parts;
  const { sweepBatchMax } = parts.config;
  return {
    name: "expire-leases",
    nextMs: () => broker.leases.first()?.dueMs,
    runOnce: async () => {
      for (let count = 0; count < sweepBatchMax; count++) {
        const lease = broker.leases.first();
        if (lease === undefined || lease.dueMs > clock.monotonicMs()) break;
        broker.expire(lease.id);
      }
    },
  };
}
