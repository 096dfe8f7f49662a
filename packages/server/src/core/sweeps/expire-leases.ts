/**
 * Takes back tasks whose lease has expired: a retry with backoff, or a dead letter. Time in which the
 * process did not run is detected first, so that heartbeats sent in the meantime are read.
 */

import type { SweepConfig } from "../../config/settings.ts";
import type { Broker } from "../broker/broker.ts";
import type { Clock } from "../clock.ts";
import type { StallWatch } from "./stall-watch.ts";
import type { Job } from "./ticker.ts";

export function expireLeases(parts: {
  readonly broker: Broker;
  readonly clock: Clock;
  readonly config: SweepConfig;
  readonly stalls: StallWatch;
}): Job {
  const { broker, clock, stalls } = parts;
  const { sweepBatchMax } = parts.config;
  return {
    name: "expire-leases",
    nextMs: () => broker.leases.first()?.dueMs,
    runOnce: async () => {
      stalls.look();
      for (let count = 0; count < sweepBatchMax; count++) {
        const lease = broker.leases.first();
        if (lease === undefined || lease.dueMs > clock.monotonicMs()) break;
        broker.expire(lease.id);
      }
    },
  };
}
