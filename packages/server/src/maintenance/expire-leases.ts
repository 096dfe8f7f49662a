/** Takes tasks back whose lease has ended: another try with backoff, or burial. */
import type { Broker } from "../broker/broker.ts";
import type { Clock } from "../clock.ts";
import type { Events } from "../telemetry/events.ts";
import type { Job } from "./ticker.ts";

const pieceTasks = 256;

export function expireLeases(parts: { broker: Broker; clock: Clock; events: Events }): Job {
  const { broker, clock, events } = parts;
  return {
    name: "expire-leases",
    nextMs: () => broker.leases.first()?.dueMs,
    runOnce: async () => {
      const expired = [];
      for (let count = 0; count < pieceTasks; count++) {
        const lease = broker.leases.first();
        if (lease === undefined || lease.dueMs > clock.monotonicMs()) break;
        const returned = broker.expire(lease.id);
        if (returned !== undefined) expired.push(returned);
      }
      for (const { value, done } of expired) {
        await done;
        events.leaseExpired(value.task);
        if (value.buried) events.taskEnded(value.task);
      }
    },
  };
}
