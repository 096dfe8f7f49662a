/** Takes tasks back whose lease has ended: another try with backoff, or burial. */
import type { Broker } from "../broker/broker.ts";
import type { Clock } from "../clock.ts";
import type { Job } from "./ticker.ts";

const pieceTasks = 256;

export function expireLeases(parts: { broker: Broker; clock: Clock }): Job {
  const { broker, clock } = parts;
  return {
    name: "expire-leases",
    nextMs: () => broker.leases.first()?.dueMs,
    runOnce: async () => {
      for (let count = 0; count < pieceTasks; count++) {
        const lease = broker.leases.first();
        if (lease === undefined || lease.dueMs > clock.monotonicMs()) break;
        broker.expire(lease.id);
      }
    },
  };
}
