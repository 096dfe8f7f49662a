/** Deletes finished tasks whose retention has ended, with everything that belongs to them. */
import { isExpired } from "@codeq/queue";
import type { SweepConfig } from "../../config/settings.ts";
import type { Broker } from "../broker/broker.ts";
import type { Clock } from "../clock.ts";
import { DueSweep } from "./due-sweep.ts";

export function deleteOldTasks(parts: {
  readonly broker: Broker;
  readonly clock: Clock;
  readonly config: SweepConfig;
}): DueSweep {
  const { broker, clock, config } = parts;
  const { store } = broker;
  return new DueSweep({
    name: "delete-old-tasks",
    store,
    clock,
    batchMax: config.sweepBatchMax,
    stepMs: config.retentionSweepSeconds * 1000,
    dueAfter: (after, untilMs, limit) => store.expiredAfter(after, untilMs, limit),
    act: (due, nowMs) => {
      const tasks = due.flatMap(({ id }) => store.task(id) ?? []);
      return broker.delete(tasks.filter((task) => isExpired(task, nowMs)));
    },
  });
}
