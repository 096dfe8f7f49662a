/** Makes delayed tasks ready when they are due, whether or not a claim waits for them. */

import type { SweepConfig } from "../../config/settings.ts";
import type { Broker } from "../broker/broker.ts";
import type { Clock } from "../clock.ts";
import type { Position } from "../store/store.ts";
import type { Job } from "./ticker.ts";

export function promoteDueTasks(parts: { broker: Broker; clock: Clock; config: SweepConfig }): Job {
  const { broker, clock } = parts;
  const { sweepBatchMax } = parts.config;
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
      await broker.promote(takeDue(broker, { nowMs: clock.nowMs(), max: sweepBatchMax }));
    },
  };
}

/** Nothing may come between taking the tasks out of memory and promoting them. */
function takeDue(broker: Broker, { nowMs, max }: { nowMs: number; max: number }): Position[] {
  const due: Position[] = [];
  while (due.length < max) {
    const item = broker.delayed.first();
    if (item?.id === undefined || item.dueMs > nowMs) break;
    broker.delayed.drop(item);
    due.push({ id: item.id, number: item.dueMs });
  }
  return due;
}
